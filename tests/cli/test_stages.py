"""`lmc ir --diff` and `lmc opt`: IR text between passes."""

import re

import pytest
from command_support import EXAMPLE_NAMES, EXAMPLES, process

JUDGE = EXAMPLES / "judge.py"


def test_a_diff_shows_what_a_pass_did(lmc):
    told = lmc("ir", JUDGE, "--diff", "captured,final")
    assert told.code == 0
    assert told.out.startswith("--- captured\n+++ final\n@@ ")
    assert any(line.startswith("+") and "lm.prologue" in line for line in told.out.splitlines())
    assert not any(line.startswith("-") and "lm.prologue" in line for line in told.out.splitlines())


def test_stages_are_passes_by_name_and_run(lmc):
    same = lmc("ir", JUDGE, "--passes", "fold,dce,fold", "--diff", "fold:2,fold")
    assert (same.code, same.out) == (0, "")
    assert lmc("ir", JUDGE, "--passes", "dce,fold", "--diff", "dce,fold:1").out.startswith(
        "--- dce"
    )
    assert lmc("ir", JUDGE, "--passes", "none", "--diff", "captured,final").out == ""


@pytest.mark.parametrize("stages", ["captured", "captured,fold,dce", "captured,nothing", ""])
def test_a_wrong_stage_is_told(lmc, stages):
    told = lmc("ir", JUDGE, "--diff", stages)
    assert told.code == 2
    assert "hint: " in told.err


@pytest.mark.parametrize("name", EXAMPLE_NAMES)
def test_passes_on_text_do_what_they_do_on_the_program(lmc, tmp_path, name):
    text = tmp_path / "program.lmir"
    text.write_text(lmc("ir", EXAMPLES / f"{name}.py", "--passes", "none").out, encoding="utf-8")
    told = lmc("opt", text, "--passes", "fold,unroll,dce,hoist-prefix,batch-forks")
    source = EXAMPLES / f"{name}.py"
    expected = lmc("ir", source, "--passes", "fold,unroll,dce,hoist-prefix,batch-forks")
    # Names of values come from how they were made; text has lost that.
    assert re.sub(r"%\w+", "%", told.out) == re.sub(r"%\w+", "%", expected.out)


def test_text_comes_from_standard_input_and_goes_to_a_file(lmc, tmp_path):
    text = lmc("ir", JUDGE, "--passes", "none").out
    made = tmp_path / "made.lmir"
    told = process("opt", "-", "--passes", "none", "-o", made, text=text)
    assert (told.code, told.out) == (0, "")
    assert made.read_text(encoding="utf-8") == text


def test_remarks_go_to_stderr(lmc, tmp_path):
    text = tmp_path / "program.lmir"
    text.write_text(lmc("ir", JUDGE, "--passes", "none").out, encoding="utf-8")
    told = lmc("opt", text, "--passes", "fold,unroll", "--remarks")
    assert "unroll: unrolled 3 trips" in told.err
    assert "module" in told.out


def test_what_is_no_ir_is_told_with_its_place(lmc, tmp_path):
    text = tmp_path / "broken.lmir"
    text.write_text('module "m" {} {\n  func\n}\n', encoding="utf-8")
    told = lmc("opt", text, "--passes", "fold")
    assert told.code == 3
    assert "broken.lmir:" in told.err
    assert lmc("opt", tmp_path / "none.lmir", "--passes", "fold").code == 2
    told = lmc("opt", JUDGE, "--passes", "fold")
    assert told.code == 2
    assert f"hint: print its IR first: lmc ir {JUDGE} --passes none" in told.err
    assert lmc("opt", text, "--passes", "nothing").code in (2, 3)
