"""What capture writes: parameters, attributes, names, guards, host functions."""

import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from lmc.errors import CaptureError
from lmc.frontend.capture import Captured, capture
from lmc.ir.core import Op
from lmc.ir.printer import print_module
from lmc.ir.verifier import verify

Load = Callable[[str], ModuleType]


def ops(made: Captured, name: str) -> list[Op]:
    """Return all ops of one name."""
    return [op for op in made.module.walk() if op.name == name]


def only(made: Captured, name: str) -> Op:
    """Return the only op of one name."""
    (found,) = ops(made, name)
    return found


def test_explicit_zeros_are_values(load: Load) -> None:
    """0, 0.0, "" and [] are not read as unset; None is."""
    module = load(
        "def program(s):\n"
        "    s += lmc.gen('x', max_tokens=0, temperature=0.0, stop=[], min_p=0, top_p=None)\n"
    )
    gen = only(capture([module.program]), "lm.gen")
    assert gen.attributes["params"] == {
        "max_tokens": 0, "temperature": 0.0, "stop": [], "min_p": 0,
    }  # fmt: skip
    assert gen.attributes["dynamic"] == []


def test_constants_reach_attributes(load: Load) -> None:
    """Module constants, joined texts and negative numbers are parameters, not operands."""
    module = load(
        "STOP = ['a']\nLIMIT = 3\n"
        "def program(s):\n"
        "    name = 'x'\n"
        "    s += lmc.gen(name, LIMIT, stop=STOP, top_k=-1, regex='[0-9]' + '+')\n"
        "    s += lmc.gen(f'{name}{1}', type=int) + lmc.gen_int('n')\n"
    )
    made = capture([module.program])
    first, second, third = ops(made, "lm.gen")
    assert first.attributes["params"] == {
        "max_tokens": 3, "stop": ["a"], "top_k": -1, "regex": "[0-9]+",
    }  # fmt: skip
    assert (first.attributes["name"], second.attributes["name"]) == ("x", "x1")
    assert second.attributes["params"] == third.attributes["params"] == {"type": "int"}
    assert [str(result.type) for result in second.results] == ["state", "int", "meta"]


def test_run_time_parameters_are_operands_in_order(load: Load) -> None:
    """Dynamic parameters stand in the order of the op's contract, the name last."""
    module = load(
        "def program(s, a, b, c):\n"
        "    s += lmc.gen(a, stop=b, max_tokens=c + 1, n=2)\n"
        "    s += lmc.select('pick', a, temperature=b)\n"
    )
    made = capture([module.program])
    gen, select = only(made, "lm.gen"), only(made, "lm.select")
    assert gen.attributes == {
        "params": {"n": 2}, "dynamic": ["max_tokens", "stop", "name"],
    }  # fmt: skip
    assert [value.hint for value in gen.operands[2:]] == ["b", "a"]
    assert str(gen.results[1].type) == "list<text>"
    assert select.attributes["dynamic"] == ["temperature"]
    assert [value.hint for value in select.operands[1:]] == ["a", "b"]


def test_effects_of_host_functions(load: Load) -> None:
    """Declared tools and unreadable functions are called by name; readable ones are embedded."""
    module = load(
        "@lmc.tool(effects='none')\ndef pure(x):\n    return x\n"
        "@lmc.tool\ndef write(x, *, y=1):\n    return x\n"
        "def plain(x, y=2):\n    return x + y\n"
        "def cautious(x):\n    class Inner:\n        pass\n    return x\n"
        "def program(s, x):\n"
        "    print('hello', end='')\n"
        "    return [pure(x), write(x, y=3), plain(x), cautious(x)]\n"
    )
    made = capture([module.program])
    name = module.__name__
    assert only(made, "host.pure").attributes["callee"] == f"{name}:pure"
    calls = [
        (op.attributes["callee"], op.attributes.get("keywords")) for op in ops(made, "host.call")
    ]
    assert calls == [
        ("builtins:print", ["end"]), (f"{name}:write", ["y"]), (f"{name}:cautious", None),
    ]  # fmt: skip
    assert only(made, "func.apply").attributes["callee"] == "plain"
    assert made.module.functions["plain"].kind == "helper"
    assert made.host == {
        "builtins:print": print,
        f"{name}:cautious": module.cautious,
        f"{name}:pure": module.pure,
        f"{name}:write": module.write,
    }


def test_nested_programs(load: Load) -> None:
    """Calls and run(); call-site defaults; the callee is no entry; recursion is a call."""
    module = load(
        "@lmc.function\ndef inner(s, a, b='x'):\n    s += a + b\n    return a\n"
        "@lmc.function\ndef outer(s, n: int):\n"
        "    r = inner('p', temperature=0, max_tokens=3)\n"
        "    t = inner.run(b='q', a=r['v'])\n"
        "    if n:\n        outer(n - 1)\n"
        "    return [r.value, t.text(), 'v' in t, t.ret_value]\n"
    )
    made = capture([module.outer])
    assert made.module.entries == ["outer"]
    assert list(made.module.functions) == ["outer", "inner"]
    first, second, third = ops(made, "func.call")
    assert first.attributes == {
        "callee": "inner", "defaults": {"temperature": 0, "max_tokens": 3},
    }  # fmt: skip
    assert second.attributes == {"callee": "inner"}
    assert third.attributes == {"callee": "outer"}
    assert [op.name for op in ops(made, "lm.get")] == ["lm.get"]


def test_several_entries_share_a_module(load: Load) -> None:
    """Functions of one file go into one module, in the order given."""
    module = load("def b(s):\n    s += 'b'\ndef a(s):\n    s += 'a'\n")
    made = capture([module.b, module.a])
    assert made.module.entries == ["b", "a"]


def test_parameters_keep_their_signature(load: Load) -> None:
    """Annotations as written, defaults, keyword-only; the docstring is kept."""
    module = load(
        "def program(s, a: 'str', b: list[int] = [1], *, c=None):\n"
        '    """Say it.\n\n    More."""\n    s += a\n'
    )
    function = capture([module.program]).module.functions["program"]
    shown = [
        (p.name, p.annotation, p.has_default, p.default, p.keyword_only) for p in function.params
    ]
    assert shown == [
        ("a", "'str'", False, None, False), ("b", "list[int]", True, [1], False),
        ("c", "", True, None, True),
    ]  # fmt: skip
    assert function.attributes == {"doc": "Say it.\n\nMore."}


def test_early_return_puts_the_rest_into_the_other_branch(load: Load) -> None:
    """No flag, no second test: the rest of the program stands in the else block."""
    module = load(
        "def program(s, x: int):\n    if x:\n        return 1\n"
        "    s += 'rest' + lmc.gen('g')\n    return 2\n"
    )
    made = capture([module.program])
    branch = only(made, "cf.if")
    assert [op.name for op in branch.blocks[0].ops] == ["val.const", "cf.yield"]
    assert "lm.gen" in [op.name for op in branch.blocks[1].ops]


def test_nothing_unneeded_is_carried(load: Load) -> None:
    """A loop carries what it changes and somebody reads, no more."""
    module = load(
        "def program(s, xs):\n    total = 0\n    for x in xs:\n        y = x + 1\n"
        "        total += y\n        s += 'a'\n    return total\n"
    )
    loop = only(capture([module.program]), "cf.for")
    assert sorted(value.hint for value in loop.results) == ["s", "total"]


def test_generations_nobody_reads_stay(load: Load) -> None:
    """Dropping calls is left to the passes."""
    module = load("def program(s):\n    c = s.copy()\n    c += lmc.gen('x')\n    s.fork(2)\n")
    made = capture([module.program])
    assert len(ops(made, "lm.gen")) == 1
    assert [op.attributes["count"] for op in ops(made, "lm.fork")] == [1, 2]


def test_guards_notice_changed_constants_and_helpers(load: Load) -> None:
    """What capture read once is watched."""
    module = load(
        "WORD = 'a'\nimport string\n"
        "def helper(s):\n    s += WORD\n"
        "def make(limit):\n    def program(s):\n        helper(s)\n"
        "        s += str(limit) + string.digits\n    return program\nprogram = make(3)\n"
    )
    made = capture([module.program])
    name = module.__name__
    assert list(made.module.attributes["guards"]) == [
        f"{name}.WORD", f"{name}.helper()", f"{name}.make.<locals>.program.<closure>.limit",
        f"{name}.string.digits",
    ]  # fmt: skip
    assert made.is_current()
    module.WORD = "b"
    assert not made.is_current()
    module.WORD = "a"
    assert made.is_current()
    module.helper = lambda s: None
    assert not made.is_current()


def test_attributes_of_live_objects_are_constants(load: Load) -> None:
    """A settings object of the module is read once, attribute by attribute."""
    module = load(
        "class Settings:\n    limit = 5\n    class deep:\n        stop = ['x']\n"
        "def program(s):\n"
        "    s += lmc.gen('x', max_tokens=Settings.limit, stop=Settings.deep.stop)\n"
    )
    made = capture([module.program])
    gen = only(made, "lm.gen")
    assert gen.attributes["dynamic"] == ["max_tokens", "stop"] or gen.attributes["params"] == {
        "max_tokens": 5, "stop": ["x"],
    }  # fmt: skip
    assert f"{module.__name__}.Settings.limit" in made.module.attributes["guards"]


def test_capture_imports_nothing_heavy() -> None:
    """Capture needs neither torch nor a tokenizer."""
    code = (
        "import sys, lmc.frontend.capture; heavy = {'torch', 'transformers'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_capture_runs_nothing(load: Load) -> None:
    """No user function is called while capturing."""
    module = load(
        "RAN = []\ndef note(x):\n    RAN.append(x)\n    return x\n"
        "def default():\n    RAN.append('d')\n"
        "def program(s):\n    s += note('a') + str(default())\n"
    )
    capture([module.program])
    assert module.RAN == []


def test_text_form_of_a_small_program(load: Load) -> None:
    """The whole text of one program, apart from the locations."""
    module = load(
        "def program(s, q: str):\n    s += 'Q: ' + q\n"
        "    s += lmc.user(lmc.gen('a', max_tokens=2))\n    return s['a']\n"
    )
    text = print_module(capture([module.program]).module)
    lines = [line.partition(" loc(")[0] for line in text.splitlines() if not line.startswith("#")]
    assert lines[2:] == [
        '  func @program program (%effect: effect, %q: py) {params = [{name = "q", annotation = '
        '"str"}]}',
        "    %s: state = lm.prompt",
        '    %0: text = val.const {value = "Q: "}',
        '    %1: text = val.binary %0, %q {op = "+"}',
        "    %s_1: state = lm.extend %s, %1",
        '    %s_2: state = lm.begin %s_1 {role = "user"}',
        '    %s_3: state, %a: text, %meta: meta = lm.gen %s_2 {name = "a", params = '
        "{max_tokens = 2}, dynamic = []}",
        '    %s_4: state = lm.end %s_3 {role = "user"}',
        '    %a_1: py = lm.get %s_4 {name = "a"}',
        "    func.return %effect, %s_4, %a_1",
        "  }",
        "}",
    ]


@pytest.mark.parametrize("given", [[], [None]])
def test_nothing_to_capture(given: list[Any]) -> None:
    """No functions, or something that is none."""
    with pytest.raises((CaptureError, AttributeError)):
        capture(given)


def test_methods_of_module_objects_are_called_by_their_path(load: Load) -> None:
    """A client object, one that can be called itself, and a class."""
    module = load(
        "from fractions import Fraction\n"
        "class Client:\n    def __init__(self):\n        self.seen = []\n"
        "    def search(self, q):\n        self.seen.append(q)\n        return q * 2\n"
        "    def __call__(self, q):\n        return q\n"
        "client = Client()\n"
        "def program(s, q):\n"
        "    s += client.search(q) + client(q)\n"
        "    return Fraction(len(q)).limit_denominator()\n"
    )
    made = capture([module.program])
    name = module.__name__
    assert [op.attributes["callee"] for op in ops(made, "host.call")] == [
        f"{name}:client.search", f"{name}:client", "fractions:Fraction",
    ]  # fmt: skip
    assert [op.attributes["name"] for op in ops(made, "host.method")] == ["limit_denominator"]


def test_long_rows_of_early_returns_stay_flat(load: Load) -> None:
    """A hundred and fifty ways out nest no deeper than the verifier allows."""
    rows = "".join(f"    if x == {i}:\n        return {i}\n    s += '{i} '\n" for i in range(150))
    module = load(f"def program(s, x: int):\n{rows}    return 'end'\n")
    made = capture([module.program])
    verify(made.module)
    assert len(ops(made, "lm.extend")) == 150


def test_expressions_nested_too_deeply_are_refused(load: Load) -> None:
    """No raw recursion error reaches the user."""
    module = load("def program(s):\n    s += " + " + ".join(["'a'"] * 900) + "\n")
    with pytest.raises(CaptureError, match="too deeply") as caught:
        capture([module.program])
    assert caught.value.location.line == 2
    chain = "    if n == -1:\n        s += 'a'\n" + "".join(
        f"    elif n == {i}:\n        s += 'b'\n" for i in range(120)
    )
    with pytest.raises(CaptureError, match="deeper than 90"):
        capture([load(f"def program(s, n: int):\n{chain}").program])
