"""Reads by a generation: every mode agrees, and wrong keys are told the same everywhere."""

import pytest

import lmc
from lmc.errors import CompileError, LmcError, RunError, UsageError

MODES = [{"mode": "eager"}, {"passes": ""}, {}]


@pytest.mark.parametrize("name", ["named", "chosen", "listed", "forked", "looped", "missing"])
def test_every_mode_reads_the_same(name):
    from pathlib import Path

    from lmc.frontend.load import load_module

    module = load_module(Path(__file__).resolve().parents[1] / "programs" / "keys.py")
    report = lmc.check(getattr(module, name), examples=12)
    assert report.is_equal, report


WRONG = {
    "unnamed from a result": (
        "@lmc.function\ndef inner(s):\n    s += lmc.gen(max_tokens=2)\n"
        "@lmc.function\ndef p(s):\n    x = lmc.gen(max_tokens=2)\n    r = inner()\n"
        "    return r[x]\n", 9, "only be read, from the state",
    ),
    "unnamed set": (
        "@lmc.function\ndef p(s):\n    x = lmc.gen(max_tokens=2)\n    s += x\n    s[x] = 'a'\n",
        6, "only be read, from the state",
    ),
    "several pieces": (
        "@lmc.function\ndef p(s):\n    x = 'a' + lmc.gen('n', max_tokens=2)\n    s += x\n"
        "    return s[x]\n", 6, "a variable's name is a str",
    ),
    "not appended": (
        "@lmc.function\ndef p(s):\n    x = lmc.gen(max_tokens=2)\n    return s[x]\n",
        5, "was not appended",
    ),
    "appended to another state": (
        "@lmc.function\ndef p(s):\n    x = lmc.gen(max_tokens=2)\n    f = s.fork(2)\n"
        "    f[0] += x\n    return f[1][x]\n", 7, "was not appended",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG, ids=str)
@pytest.mark.parametrize("options", MODES, ids=str)
def test_a_wrong_key_is_told_at_its_line(load, case, options):
    source, line, text = WRONG[case]
    program = load(source).p
    with pytest.raises(LmcError, match=text) as caught:
        program.run(backend="oracle", **options)
    assert isinstance(caught.value, (RunError, CompileError))
    assert caught.value.location.line == line


@pytest.mark.parametrize("options", MODES, ids=str)
def test_results_are_read_by_named_generations_of_the_module(load, options):
    module = load(
        "AGE = lmc.gen('age', type=int)\nNO_NAME = lmc.gen(type=int)\n"
        "@lmc.function\ndef p(s):\n    s += AGE + NO_NAME\n    return s[AGE]\n"
    )
    result = module.p.run(backend=lmc.Oracle({"age": "42"}), **options)
    assert result[module.AGE] == result.value == result["age"] == 42
    assert module.AGE in result
    assert result.get_meta_info(module.AGE) == result.get_meta_info("age")
    assert list(result.variables) == ["age"]
    with pytest.raises(UsageError, match="only be read, from the state"):
        result[module.NO_NAME]
    with module.p.stream(backend=lmc.Oracle({"age": "42"}), **options) as handle:
        assert "".join(handle.text_iter(module.AGE)) == "42"
        assert handle[module.AGE] == 42


def test_a_changed_generation_of_the_module_is_captured_again(load):
    module = load("ASK = lmc.gen('a', max_tokens=3)\n@lmc.function\ndef p(s):\n    s += ASK\n")
    module.p.run(backend="oracle")
    module.ASK = lmc.gen("b", max_tokens=3)
    assert list(module.p.run(backend="oracle").variables) == ["b"]


def test_generations_that_nobody_reads_leave_no_trace_in_the_ir(load):
    module = load(
        "@lmc.function\ndef p(s):\n    x = lmc.gen()\n    s += x + lmc.select(choices=['a'])\n"
    )
    assert [op.name for op in module.p.trace().walk() if op.name == "lm.set"] == []
