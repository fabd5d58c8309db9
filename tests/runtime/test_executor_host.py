"""The executor on IR text: effects and host functions."""

import threading
import time

import pytest
from manual_backend import executor_of

from lmc.errors import RunError
from lmc.runtime.oracle import Oracle

EFFECTS = """
    %n: int = val.const {value = 20}
    %items: list<py> = val.call %n {callee = "range"}
    %e: effect, %s: py = cf.for %items, %effect, %items {} {
      (%i: py, %x: effect, %l: py)
      %x1: effect, %r: py = host.call %x, %i {callee = "test:note"}
      %go: bool = val.const {value = true}
      cf.yield %go, %x1, %l
    }
    %p: state = lm.prompt
    %end: text = val.const {value = "end"}
    %e1: effect, %last: py = host.call %e, %end {callee = "test:note"}
    func.return %e1, %p, %last
"""


def test_effects_keep_their_order():
    seen = []

    def note(value):
        time.sleep(0.002 if value == 0 else 0)
        seen.append(value)
        return len(seen)

    result = executor_of(EFFECTS, Oracle(), {"test:note": note}).run("main", {}, seed=0)
    assert seen == [*range(20), "end"]
    assert result.value == 21


PURE = """
    %n: int = val.const {value = 4}
    %items: list<py> = val.call %n {callee = "range"}
    %none: py = val.list
    %out: py = cf.for %items, %none {} {
      (%i: py, %o: py)
      %r: py = host.pure %i {callee = "test:meet"}
      %o1: py, %_: py = val.mutate %o, %r {name = "append"}
      %go: bool = val.const {value = true}
      cf.yield %go, %o1
    }
    %p: state = lm.prompt
    func.return %effect, %p, %out
"""


def test_pure_host_functions_run_side_by_side():
    barrier = threading.Barrier(4)

    def meet(value):
        barrier.wait(10)  # broken unless all four are called at once
        return value * 2

    assert executor_of(PURE, Oracle(), {"test:meet": meet}).run("main", {}, seed=0).value == [
        0, 2, 4, 6,
    ]  # fmt: skip


def host_program(op):
    return f"""
    %p: state = lm.prompt
    %x: text = val.const {{value = "12"}}
    {op}
    func.return %e, %p, %r
    """


def call(callee, extra="", keywords=""):
    return host_program(
        f'%e: effect, %r: py = host.call %effect, %x{extra} {{callee = "{callee}"{keywords}}}'
    )


def test_host_functions_are_imported_by_name():
    run = executor_of(call("builtins:int"), Oracle()).run
    assert run("main", {}, seed=0).value == 12
    text = call("json.decoder:JSONDecoder.decode").replace("%effect, %x", "%effect, %d, %x")
    text = text.replace(
        "%x: text", '%d: py = host.pure {callee = "json:JSONDecoder"}\n    %x: text'
    )
    assert executor_of(text, Oracle()).run("main", {}, seed=0).value == 12
    keyword = call("builtins:print", ", %x", ', keywords = ["end"]')
    assert executor_of(keyword, Oracle()).run("main", {}, seed=0).value is None
    method = host_program('%e: effect, %r: py = host.method %effect, %x {name = "isdigit"}')
    assert executor_of(method, Oracle()).run("main", {}, seed=0).value is True


async def later(value):
    return f"later {value}"


def test_coroutines_are_awaited():
    executor = executor_of(call("test:later"), Oracle(), {"test:later": later})
    assert executor.run("main", {}, seed=0).value == "later 12"


@pytest.mark.parametrize(
    ("callee", "message"),
    [
        ("no_such_module_here:f", "module 'no_such_module_here', which cannot be imported"),
        ("json:no_such", "module 'json' has no no_such"),
        ("sys:version", "is not a function"),
    ],
)
def test_missing_host_functions_are_told(callee, message):
    with pytest.raises(RunError, match=message):
        executor_of(call(callee), Oracle()).run("main", {}, seed=0)


def test_what_a_host_function_raises_is_told_at_its_line():
    def broken(value):
        raise KeyError(value)

    with pytest.raises(RunError, match="test:broken raised KeyError: '12'") as caught:
        executor_of(call("test:broken"), Oracle(), {"test:broken": broken}).run("main", {}, seed=0)
    assert isinstance(caught.value.__cause__, KeyError)

    def leaves(value):
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        executor_of(call("test:leaves"), Oracle(), {"test:leaves": leaves}).run("main", {}, seed=0)
