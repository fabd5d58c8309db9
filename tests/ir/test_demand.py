"""Which calls are demanded: those that an observer of the run can tell from the outside."""

from typing import Any

import pytest

from lmc.ir import interpret, parse_module, verify

FORKS = """%r: state = lm.prompt
  %p: state, %f: list<state> = lm.fork %r {count = 2}
  %i0: int = val.const {value = 0}
  %i1: int = val.const {value = 1}
  %c: state = val.index %f, %i0
  %d: state = val.index %f, %i1
  %c1: state, %x: text, %xm: meta = lm.gen %c {name = "x", params = {}, dynamic = []}
  %d1: state, %y: text, %ym: meta = lm.gen %d {name = "y", params = {}, dynamic = []}
"""


@pytest.fixture
def demanded(tiny_target: Any, tiny_model: Any) -> Any:
    """Return the names of the demanded generations of a body, in order."""

    def names(body: str, **options: Any) -> list[str]:
        text = f'module "m" {{}} {{ entry @p func @p program (%effect: effect) {{}} {{ {body} }} }}'
        module = parse_module(text)
        verify(module)
        model = tiny_model({"x": "no", "y": "yes", "z": "ab", "w": "abc"}, ["yes"])
        made = interpret(module, "p", {}, model=model, target=tiny_target, **options)
        return [call.site.split("@")[0] for call, _ in made.demanded_calls]

    return names


@pytest.mark.parametrize(
    ("tail", "names"),
    [
        ("func.return %effect, %p, %i0", []),
        ("func.return %effect, %p, %x", ["x"]),
        ("func.return %effect, %c1, %i0", ["x"]),
        ("func.return %effect, %p, %d1", ["y"]),
        # An item of a list is read without the others; the list as a whole needs all.
        ("%l: py = val.list %x, %y %v: py = val.index %l, %i1 func.return %effect, %p, %v", ["y"]),
        ("%l: py = val.list %x, %y func.return %effect, %p, %l", ["x", "y"]),
        ('%l: py = val.list %x, %y %v: py = val.call %l {callee = "len"} '
         "func.return %effect, %p, %v", []),
        ('%l: py = val.list %x, %y %v: py = val.method %l, %x {name = "index"} '
         "func.return %effect, %p, %v", ["x", "y"]),
        ('%k: text = val.const {value = "k"} %l: py = val.dict %k, %x, %y, %y '
         "%v: py = val.index %l, %k func.return %effect, %p, %v", ["x", "y"]),
        ('%l: py = val.list %x %m: py, %n: py = val.mutate %l, %y {name = "append"} '
         "%v: py = val.index %m, %i0 func.return %effect, %p, %v", ["x"]),
        ("%l: py = val.tuple %x, %y %v: py, %u: py = val.unpack %l func.return %effect, %p, %u",
         ["y"]),
        # A variable is read without what the prompt got afterwards.
        ('%c2: state, %z: text, %zm: meta = lm.gen %c1 {name = "z", params = {}, dynamic = []} '
         '%v: py = lm.get %c2 {name = "x"} func.return %effect, %p, %v', ["x"]),
        ('%c2: state, %z: text, %zm: meta = lm.gen %c1 {name = "z", params = {}, dynamic = []} '
         "func.return %effect, %p, %z", ["x", "z"]),
        ('%v: bool = lm.has %c1 {name = "x"} func.return %effect, %p, %v', []),
        ("%v: text = lm.text %c1 func.return %effect, %p, %v", ["x"]),
        ("%l: list<state> = val.list %c1, %d1 "
         '%s: state = lm.join %p, %l {mode = "gather_variable"} '
         "func.return %effect, %s, %i0", ["x", "y"]),
        # A choice needs the prompt before it; one choice needs nothing.
        ('%ch: py = val.const {value = ["yes", "no"]} %s: state, %v: text, %m: meta = lm.select '
         '%c1, %ch {name = "w", params = {}, dynamic = []} func.return %effect, %p, %v',
         ["x", "w"]),
        ('%ch: py = val.const {value = ["yes"]} %s: state, %v: text, %m: meta = lm.select '
         '%c1, %ch {name = "w", params = {}, dynamic = []} func.return %effect, %p, %v', []),
    ],
)  # fmt: skip
def test_what_is_read_is_demanded(demanded: Any, tail: str, names: list[str]) -> None:
    assert demanded(FORKS + tail) == names


def test_a_condition_is_demanded_by_what_it_decides(demanded: Any) -> None:
    branch = """%b: bool = val.truth %x
      %v: py, %u: state = cf.if %b {} { cf.yield %y, %d1 } { cf.yield %i0, %p }
      """
    assert demanded(FORKS + branch + "func.return %effect, %p, %i1") == []
    assert demanded(FORKS + branch + "func.return %effect, %p, %v") == ["x", "y"]
    assert demanded(FORKS + branch + "func.return %effect, %u, %i1") == ["x", "y"]


def test_host_calls_demand_their_arguments_and_conditions(demanded: Any) -> None:
    host = {"m:f": lambda *_: None}
    plain = '%e: effect, %v: py = host.call %effect, %y {callee = "m:f"} func.return %e, %p, %i0'
    assert demanded(FORKS + plain, host=host) == ["y"]
    inside = """%b: bool = val.truth %x
      %e: effect = cf.if %b {} {
        %e1: effect, %v: py = host.call %effect {callee = "m:f"}
        cf.yield %e1
      } { cf.yield %effect }
      func.return %e, %p, %i0"""
    assert demanded(FORKS + inside, host=host) == ["x"]
    pure = '%v: py = host.pure %y {callee = "m:f"} func.return %effect, %p, %i0'
    assert demanded(FORKS + pure, host=host) == []


def test_a_loop_is_demanded_as_far_as_it_decides(demanded: Any) -> None:
    loop = """%l: py = val.list %i0, %i1
      %st: state, %n: py = cf.for %l, %p, %i0 {} { (%item: py, %s: state, %a: py)
        %s1: state, %z: text, %m: meta = lm.gen %s {name = "z", params = {}, dynamic = []}
        GO
        cf.yield %go, %s1, %item
      }
      """
    always = loop.replace("GO", "%go: bool = val.const {value = true}")
    decided = loop.replace("GO", "%go: bool = val.truth %z")
    assert demanded(FORKS + always + "func.return %effect, %p, %n") == []
    assert demanded(FORKS + decided + "func.return %effect, %p, %n") == ["z", "z"]
    assert demanded(FORKS + always + "func.return %effect, %st, %i0") == ["z", "z"]
