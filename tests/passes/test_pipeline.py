"""The pass manager: text both ways, errors that name what exists, verification, the log."""

import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar

import pytest

from lmc.errors import PassError, UsageError, VerifyError
from lmc.ir.builder import Builder, new_function
from lmc.ir.core import Module, Op
from lmc.ir.location import Location
from lmc.ir.printer import print_module
from lmc.passes.base import Level, Pass, Remark, Remarks
from lmc.passes.pipeline import (
    DEFAULT_PIPELINE,
    REGISTRY,
    PassManager,
    load_pass,
    make_pass,
    parse_pipeline,
    pass_names,
)


def small_module() -> Module:
    """A program with a dead generation and two constants that meet."""
    module = Module("small", entries=["main"])
    function = new_function("main", ["x"])
    module.functions["main"] = function
    b = Builder(function.body, location=Location("main.py", 3, 5, 3, 9, "    s += 1"))
    state = b.extend(b.extend(b.prompt(), "one "), "two")
    b.gen(state, "dead")
    b.return_(function.body.arguments[0], state, function.body.arguments[1])
    return module


@pytest.mark.parametrize(
    "text",
    [
        "",
        "fold",
        "fold,unroll,dce",
        "unroll{max_trips=8,max_ops=500},fold{max_text=10}",
        "hoist-prefix{min_chars=20},batch-forks",
        DEFAULT_PIPELINE,
    ],
)
def test_text_reads_and_prints_alike(text: str) -> None:
    assert str(PassManager.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (" fold , dce ", "fold,dce"),
        ("unroll{ max_trips=8  max_ops=9 }", "unroll{max_trips=8,max_ops=9}"),
        ("unroll{max_trips=16}", "unroll"),
        ("fold{}", "fold"),
    ],
)
def test_blanks_and_defaults_are_not_printed(text: str, wanted: str) -> None:
    assert ",".join(map(str, parse_pipeline(text))) == wanted


def test_options_have_the_types_of_their_fields() -> None:
    assert make_pass("unroll", "max_trips=3").options() == {"max_trips": 3, "max_ops": 2000}


def test_an_unknown_pass_lists_the_passes() -> None:
    with pytest.raises(UsageError, match="no pass 'foldd'") as caught:
        parse_pipeline("dce,foldd")
    assert caught.value.hint == f"passes: {', '.join(REGISTRY)}"


def test_an_unknown_option_lists_the_options() -> None:
    with pytest.raises(UsageError, match="'unroll' has no option 'trips=3'") as caught:
        parse_pipeline("unroll{trips=3}")
    assert caught.value.hint == "options: max_trips (int), max_ops (int)"
    with pytest.raises(UsageError, match="no option") as caught:
        parse_pipeline("dce{fast=true}")
    assert caught.value.hint == "options: none"


def test_a_value_of_the_wrong_type_is_named() -> None:
    with pytest.raises(UsageError, match="'max_trips' of pass 'unroll' must be int, not 'many'"):
        parse_pipeline("unroll{max_trips=many}")


@pytest.mark.parametrize("text", ["fold dce", "fold,{x=1}", "fold{max_text=1", "fold;dce", ",fold"])
def test_text_that_is_no_pipeline_is_shown(text: str) -> None:
    with pytest.raises(UsageError, match="cannot read the pipeline"):
        parse_pipeline(text)


def test_every_pass_has_name_level_and_contract() -> None:
    for name in pass_names():
        kind = load_pass(name)
        assert kind.name == name
        assert kind.level in ("E", "D", "C")
        assert (kind.__doc__ or "").count("\n") > 2
        assert f"(level {kind.level})" in (kind.__doc__ or "")


def test_the_default_pipeline_holds_every_pass_and_is_exact_but_for_marked_blocks() -> None:
    passes = parse_pipeline(DEFAULT_PIPELINE)
    assert {step.name for step in passes if step.level != "E"} == {"reorder"}
    assert {step.name for step in passes} == set(REGISTRY)


def test_the_log_tells_what_each_pass_did() -> None:
    module = small_module()
    before = print_module(module)
    result = PassManager.parse("fold,unroll{max_trips=4},dce").run(module)
    assert print_module(module) == before
    assert [(r.name, r.level, r.changed) for r in result.log] == [
        ("fold", "E", True),
        ("unroll", "E", False),
        ("dce", "E", True),
    ]
    assert result.log[1].options == {"max_trips": 4, "max_ops": 2000}
    assert all(record.seconds >= 0 for record in result.log)
    assert str(result.log[2].remarks[0]) == "main.py:3:5: dce: lm.gen has no reader"
    assert result.level == "E"
    assert result.log[2].as_data() == {
        "name": "dce",
        "level": "E",
        "options": {},
        "changed": True,
        "remarks": [{"message": "lm.gen has no reader", "at": "main.py:3:5", "fired": True}],
    }


def test_a_missed_remark_says_so() -> None:
    remark = Remark("unroll", "3 trips are over max_trips=2", None, fired=False)
    assert str(remark) == "unroll: not done: 3 trips are over max_trips=2"


def test_print_after_gets_the_modules_of_the_named_passes() -> None:
    seen: list[tuple[str, str]] = []
    manager = PassManager.parse("fold,dce,fold")

    def show(name: str, module: Module) -> None:
        seen.append((name, print_module(module)))

    result = manager.run(small_module(), print_after=show)
    assert [name for name, _ in seen] == ["fold", "dce", "fold"]
    assert seen[-1][1] == print_module(result.module)
    seen.clear()
    manager.run(small_module(), print_after=show, names="dce")
    assert [name for name, _ in seen] == ["dce"]
    with pytest.raises(UsageError, match="no pass 'other'"):
        manager.run(small_module(), print_after=show, names=["other"])


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakPass(Pass):
    """Leaves an op that nobody knows."""

    name: ClassVar[str] = "break"
    level: ClassVar[Level] = "D"

    raises: bool = False

    def rewrite(self, module: Module, remarks: Remarks) -> bool:
        """Break the first function."""
        if self.raises:
            raise KeyError("inside")
        next(iter(module.functions.values())).body.ops.insert(0, Op("no.such"))
        return True


def test_a_pass_that_breaks_the_ir_is_named_with_those_before() -> None:
    dce, fold = parse_pipeline("dce,fold")
    with pytest.raises(PassError) as caught:
        PassManager(passes=(dce, fold, BreakPass())).run(small_module())
    text = caught.value.message
    assert text.startswith("pass break (after dce, fold) left IR that does not verify:")
    assert "unknown op 'no.such'" in text
    assert "no.such" in text.split("module", 1)[1]


def test_a_pass_that_raises_is_named() -> None:
    with pytest.raises(PassError) as caught:
        PassManager(passes=(BreakPass(raises=True),)).run(small_module())
    assert caught.value.message == (
        "pass break{raises=true} (the first pass) failed: KeyError: 'inside'"
    )
    assert "--passes" in (caught.value.hint or "")


def test_a_broken_module_is_refused_before_any_pass() -> None:
    module = BreakPass().run(small_module()).module
    with pytest.raises(VerifyError):
        PassManager.parse("fold").run(module)


def test_verification_can_be_left_out_and_the_level_is_the_weakest() -> None:
    result = PassManager(passes=(*parse_pipeline("fold"), BreakPass()), verify=False).run(
        small_module()
    )
    assert result.level == "D"


def test_an_unchanged_module_is_the_given_one() -> None:
    module = small_module()
    assert PassManager.parse("unroll").run(module).module is module


def test_passes_are_imported_when_asked_for_and_need_no_torch() -> None:
    code = (
        "import sys, lmc.passes.pipeline as p; assert 'lmc.passes.fold' not in sys.modules;"
        "p.parse_pipeline(p.DEFAULT_PIPELINE);"
        "assert not {'torch', 'transformers', 'numpy', 'lark'} & set(sys.modules), sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_two_runs_give_the_same_bytes(make_program) -> None:
    from random import Random

    for seed in range(20):
        texts = {
            print_module(PassManager.parse().run(make_program(Random(seed))).module)
            for _ in range(3)
        }
        assert len(texts) == 1
