"""`lmc lint` and `lmc.lint`: what they print, their exit codes, the shape of the JSON."""

import json
from pathlib import Path

import pytest
from command_support import command

import lmc
from lmc.linting.report import FORMAT

HEAD = "import lmc\n\n\n"
CLEAN = HEAD + '@lmc.function\ndef fine(s):\n    s += "Hello." + lmc.gen("rest", max_tokens=4)\n'
WRONG = CLEAN + (
    '\n\n@lmc.function\ndef wrong(s, text: str):\n    s += "Grüße" + lmc.select("a", ["x", "xy"])\n'
    '    return s["b"]\n'
)
HINT = HEAD + '@lmc.function\ndef hinted(s):\n    s += "A: " + lmc.gen("rest", max_tokens=4)\n'
FIELDS = {
    "code", "name", "severity", "message", "file", "line", "column", "end_line", "end_column",
    "source", "remedy",
}  # fmt: skip


@pytest.fixture
def run(tmp_path: Path, monkeypatch, capfd):
    """Write prog.py and look at it, or at a program of it."""
    monkeypatch.chdir(tmp_path)

    def made(text: str, *options: str, name: str = ""):
        (tmp_path / "prog.py").write_text(text, encoding="utf-8")
        return command(capfd, "lint", f"prog.py{name}", "--model", "oracle", *options)

    return made


def test_a_clean_file(run):
    done = run(CLEAN)
    assert (done.code, done.out) == (0, "")
    assert done.err == "prog.py: nothing found (model: oracle)\n"


def test_text_has_place_carets_code_and_remedy_in_order(run):
    done = run(WRONG)
    assert done.code == 1
    assert done.err == "prog.py: 1 error, 1 warning, 1 hint (model: oracle)\n"
    hint, warning, error = done.out.rstrip("\n").split("\n\n")
    assert hint.splitlines()[1] == "  at prog.py:10:14"
    assert warning.startswith("warning: the option 'x' is the beginning of 'xy'")
    assert warning.splitlines()[0].endswith("[LMC401 prefix-options]")
    assert warning.splitlines()[1:4] == [
        "  at prog.py:11:36",
        '        s += "Grüße" + lmc.select("a", ["x", "xy"])',
        "                                       ^^^^^^^^^^^",
    ]
    assert warning.splitlines()[4].startswith("hint: ")
    assert error.splitlines()[0] == "error: no variable 'b' is set here [LMC501 unset-variable]"


def test_a_name_chooses_one_program(run):
    assert run(WRONG, name=":fine").code == 0
    assert run(WRONG, name=":wrong").code == 1
    missing = run(WRONG, name=":other")
    assert missing.code == 2
    assert "has no program 'other'" in missing.err


def test_hints_alone_are_no_failure(run):
    done = run(HINT)
    assert done.code == 0
    assert "LMC201" in done.out


def test_json_has_the_documented_shape(run):
    done = run(WRONG, "--json")
    assert done.code == 1
    made = json.loads(done.out)
    assert list(made) == ["version", "file", "programs", "model", "counts", "diagnostics"]
    assert made["version"] == FORMAT == 1
    assert made["programs"] == ["fine", "wrong"]
    assert made["counts"] == {"error": 1, "warning": 1, "hint": 1}
    assert all(set(each) == FIELDS for each in made["diagnostics"])
    assert [each["code"] for each in made["diagnostics"]] == ["LMC106", "LMC401", "LMC501"]
    option = made["diagnostics"][1]
    assert option["source"][option["column"] - 1 : option["end_column"] - 1] == '["x", "xy"]'
    assert json.loads(run(CLEAN, "--json").out)["diagnostics"] == []


def test_the_documentation_lists_the_fields():
    page = (Path(__file__).resolve().parent.parent.parent / "docs" / "cli.md").read_text()
    section = page.partition("## `lmc lint")[2].partition("\n## ")[0]
    assert all(f"`{name}`" in section for name in FIELDS)


def test_a_file_that_does_not_parse(run):
    done = run("import lmc\ndef f(:\n")
    assert done.code == 3
    assert "does not parse" in done.err


def test_an_artifact_is_refused(run, tmp_path, capfd):
    (tmp_path / "prog.lmc").write_bytes(b"x")
    done = command(capfd, "lint", "prog.lmc", "--model", "oracle")
    assert done.code == 2
    assert "lint its source" in done.err


def test_a_missing_model_is_an_error_only_when_named(run, monkeypatch, tmp_path, capfd):
    from lmc import backends
    from lmc.errors import ModelError

    def refuse(model):
        raise ModelError("there is no such model")

    (tmp_path / "prog.py").write_text(CLEAN, encoding="utf-8")
    monkeypatch.setattr(backends, "load_target", refuse, raising=False)
    monkeypatch.setattr(backends, "find_model", refuse)
    named = command(capfd, "lint", "prog.py", "--model", "missing")
    assert named.code == 2
    default = command(capfd, "lint", "prog.py")
    assert default.code == 0
    assert "(model: oracle)" in default.err


def test_from_python(tmp_path):
    from lmc.frontend.load import load_programs

    path = tmp_path / "linted_by_python.py"
    path.write_text(WRONG, encoding="utf-8")
    programs = load_programs(path)
    found = lmc.lint(programs["wrong"], model="oracle")
    assert all(isinstance(each, lmc.Diagnostic) for each in found)
    assert [each.code for each in found] == ["LMC106", "LMC401", "LMC501"]
    assert found[1].as_dict()["line"] == found[1].location.line == 11
    assert lmc.lint(list(programs.values()), model=lmc.Oracle()) == found
