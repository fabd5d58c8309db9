"""Artifacts: compiled in little time without torch, run anywhere, the same ids as the source."""

import importlib
import inspect
import json
import random
import re
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from command_support import EXAMPLE_NAMES, EXAMPLES, command, process, python
from examples_support import observables, token_ids

import lmc
from lmc.backends import open_backend
from lmc.errors import ArtifactError, RunError, UsageError
from lmc.frontend.load import load_programs
from lmc.ir.printer import print_module
from lmc.runtime.oracle import Oracle

ARGUMENTS = {
    "judge": {"essay": (EXAMPLES / "essay.txt").read_text()[:160]},
    "few_shot": {"question": "A box holds 5 pens. How many pens are in 3 boxes?"},
    "react": {"question": "How high is Mount Everest?"},
    "extract": {"text": "Ada Lovelace was born in London in 1815."},
    "chat": {"messages": ["Hello!", "What is the capital of France?"]},
}

COMPILE = """
import json, sys, time
started, used = time.perf_counter(), time.process_time()
from lmc.cli import run_command
code = run_command(["compile", {program!r}, "-o", {output!r}])
report = dict(code=code, seconds=time.perf_counter() - started,
              used=time.process_time() - used, modules=sorted(sys.modules))
print(json.dumps(report))
"""


@pytest.mark.model
@pytest.mark.parametrize("name", ["judge", "react"])
def test_compiling_is_quick_and_loads_no_torch(tmp_path: Path, name: str) -> None:
    program, output = EXAMPLES / f"{name}.py", tmp_path / f"{name}.lmc"
    code = COMPILE.format(program=str(program), output=str(output))
    reports = []
    for _ in range(2):  # the first one may have to read the model's tokenizer
        done = python(code)
        assert done.code == 0, done.err
        reports.append(json.loads(done.out))
    for report in reports:
        assert report["code"] == 0
        assert not {"torch", "transformers", "networkx", "lark", "gguf"} & set(report["modules"])
    # Processor seconds: other processes may hold the machine for a moment.
    assert reports[1]["used"] < 3
    assert output.stat().st_size > 1000


@pytest.mark.model
@pytest.mark.parametrize("name", ["judge", "react"])
def test_artifacts_run_without_their_source_and_give_the_same_ids(
    tmp_path: Path, name: str
) -> None:
    source, away = tmp_path / "source", tmp_path / "away"
    shutil.copytree(EXAMPLES, source)
    away.mkdir()
    made = process("compile", f"{name}.py", "-o", away / f"{name}.lmc", cwd=source)
    assert made.code == 0, made.err
    assert "needs when it runs" not in made.err
    engine = open_backend()
    program = load_programs(source / f"{name}.py")[name]
    expected = program.run(**ARGUMENTS[name], backend=engine, seed=1)
    shutil.rmtree(source)
    given = lmc.load(away / f"{name}.lmc").run(**ARGUMENTS[name], backend=engine, seed=1)
    assert token_ids(given) == token_ids(expected) != []
    assert observables(given) == observables(expected)
    if name == "judge":  # and once more as somebody types it
        assert expected.value["grade"], "all branches were taken"
        (away / "arguments.jsonl").write_text(json.dumps(ARGUMENTS[name]))
        args = ("--args", "arguments.jsonl", "--json", "--seed", "1")
        told = process("run", f"{name}.lmc", *args, cwd=away, timeout=400)
        assert told.code == 0, told.err
        printed = json.loads(told.out)
        assert [tuple(call["token_ids"]) for call in printed["token_ids"]] == [
            ids for _, ids in sorted(
                ((r.lineage, r.ordinal), r.result.token_ids)
                for r in expected.calls if hasattr(r.result, "token_ids")
            )
        ]  # fmt: skip
        assert (printed["return"], printed["text"]) == (expected.value, expected.text())


@pytest.mark.parametrize("name", EXAMPLE_NAMES)
def test_loaded_programs_have_the_real_signature(tmp_path: Path, name: str) -> None:
    program = load_programs(EXAMPLES / f"{name}.py")[name]
    path = tmp_path / f"{name}.lmc"
    program.compile("oracle").save(path)
    loaded = lmc.load(path)
    assert callable(loaded)
    assert inspect.signature(loaded) == inspect.signature(program)
    assert loaded.__name__ == loaded.name == name
    assert loaded.__doc__ == program.__doc__
    assert str(inspect.signature(program)) in repr(loaded)
    run = program.run(**ARGUMENTS[name], backend="oracle", seed=3)
    again = loaded.run(**ARGUMENTS[name], backend="oracle", seed=3)
    assert again.value == run.value
    assert again.text() == run.text()
    assert [r.call for r in again.calls] == [r.call for r in run.calls]


@lmc.function
def shaped(s, a, b: int, c: "str | None" = None, *, d: list[str] = ["x"], e: float = 1.5):  # noqa: B006
    """Have every kind of parameter."""
    s += f"{a} {b} {c} {d} {e}"
    return [a, b, c, d, e]


def test_every_kind_of_parameter_survives(tmp_path: Path) -> None:
    shaped.compile("oracle").save(tmp_path / "shaped.lmc")
    loaded = lmc.load(tmp_path / "shaped.lmc")
    given, kept = inspect.signature(shaped).parameters, inspect.signature(loaded).parameters
    assert [(p.name, p.kind, p.default) for p in kept.values()] == [
        (p.name, p.kind, p.default) for p in given.values()
    ]
    assert [kept[name].annotation for name in "abde"] == [given[name].annotation for name in "abde"]
    assert kept["c"].annotation == (str | None)
    lmc.set_default_backend("oracle")
    try:
        assert loaded("A", 2) == ["A", 2, None, ["x"], 1.5]
        assert loaded("A", b=2, d=[], e=0.0) == ["A", 2, None, [], 0.0]
        loaded("A", 2)[3].append("y")
        assert loaded("A", 2)[3] == ["x"], "a default is not shared between runs"
        for args, keywords in [((), {}), (("A",), {}), (("A", 2, 3, 4), {}), (("A", 2), {"f": 1})]:
            with pytest.raises(UsageError, match="program 'shaped'"):
                loaded(*args, **keywords)
    finally:
        lmc.set_default_backend(None)


def test_a_loaded_program_is_the_same_program(tmp_path: Path) -> None:
    compiled = load_programs(EXAMPLES / "judge.py")["judge"].compile("oracle")
    compiled.save(tmp_path / "judge.lmc")
    loaded = lmc.load(tmp_path / "judge.lmc")
    assert print_module(loaded.module) == print_module(compiled.module)
    assert loaded.model_name == compiled.model_name == "oracle"
    assert loaded.remark_lines() == compiled.remark_lines() != []
    with pytest.raises(UsageError, match="copy the file"):
        loaded.save(tmp_path / "copy.lmc")
    with pytest.raises(UsageError, match="no program 'other'"):
        lmc.load(tmp_path / "judge.lmc", "other")
    with pytest.raises(UsageError, match="no file"):
        lmc.load(tmp_path / "none.lmc")


@pytest.mark.model
def test_another_model_lowers_it_again(tmp_path: Path) -> None:
    program = load_programs(EXAMPLES / "extract.py")["extract"]
    program.compile("oracle").save(tmp_path / "extract.lmc")
    engine = open_backend()
    given = lmc.load(tmp_path / "extract.lmc").run(**ARGUMENTS["extract"], backend=engine)
    expected = program.run(**ARGUMENTS["extract"], backend=engine)
    assert token_ids(given) == token_ids(expected) != []


def test_a_run_on_another_model_is_told(capfd, tmp_path: Path, monkeypatch) -> None:
    program = load_programs(EXAMPLES / "extract.py")["extract"]
    program.compile("oracle").save(tmp_path / "extract.lmc")
    other = Oracle()
    monkeypatch.setattr(type(other.target), "fingerprint", "another", raising=False)
    monkeypatch.setattr("lmc.backends.open_backend", lambda *args, **keywords: other)
    told = command(capfd, "run", tmp_path / "extract.lmc", "--arg", "text=a")
    assert told.code == 0, told.err
    assert "note: compiled for oracle, lowered again for oracle" in told.err


TOOLS = """
import random

import lmc

TABLE = {"a": 1}

def pure(x):
    return TABLE.get(x, 0) + len(x)

def rolled(sides):
    return random.randint(1, sides)

def written(text):
    with open("log.txt", "a") as file:
        file.write(text)
    return text

@lmc.function
def tools(s, sides: int = 1):
    s += "Rolled: " + str(rolled(sides)) + written("log\\n") + str(pure("a"))
    return s.text()
"""


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder `src` with a program whose tools stay host functions, and an artifact beside it."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "tools.py").write_text(TOOLS)
    made = process("compile", "src/tools.py", "--model", "oracle", cwd=tmp_path)
    assert made.code == 0, made.err
    line = next(line for line in made.err.splitlines() if line.startswith("needs"))
    assert "tools:written" in line
    assert "random:randint" in line
    assert "tools:pure" not in line, "it is embedded"
    return tmp_path


def test_what_cannot_be_embedded_is_named_and_imported(tools: Path) -> None:
    run = ("run", "tools.lmc", "--model", "oracle")
    failed = process(*run, cwd=tools)
    assert (failed.code, failed.out) == (1, "")
    assert "error: the program calls written of module 'tools', which cannot be imp" in failed.err
    assert "hint: make 'tools' importable" in failed.err
    assert not (tools / "log.txt").exists(), "nothing was done before the failure"

    beside = tools / "beside"
    beside.mkdir()
    for file in ("tools.lmc", "src/tools.py"):
        shutil.copy(tools / file, beside)
    for cwd, artifact in ((beside, "tools.lmc"), (tools, "beside/tools.lmc")):
        done = process("run", artifact, "--model", "oracle", cwd=cwd)
        assert (done.code, done.out) == (0, "Rolled: 1log\n2\n"), done.err


def test_a_function_that_has_gone_is_told(tools: Path) -> None:
    (tools / "tools.py").write_text("x = 1\n")
    failed = process("run", "tools.lmc", "--model", "oracle", cwd=tools)
    assert failed.code == 1
    assert "module 'tools' has no written" in failed.err
    loaded = lmc.load(tools / "tools.lmc")
    assert any(name.startswith("tools:written") for name in loaded.required_imports)
    with pytest.raises(RunError, match="written"):
        loaded.check_imports()


SEVERAL = """
import lmc

INTRO = "You are a careful judge, and you always answer in one word or in two. " * 4

def rank(grade):
    return {"A": 1}.get(grade, 9)

@lmc.function
def first(s, essay: str):
    s += INTRO + essay + lmc.gen("grade", max_tokens=2)
    return rank(s["grade"])

@lmc.function
def second(s, topic: str = "ships"):
    s += INTRO + topic + lmc.gen("view", max_tokens=3)
    return s["view"]

@lmc.function
def several(s):
    s += INTRO + "Go: " + lmc.gen("go", max_tokens=1)
"""


def test_an_artifact_holds_several_programs(tmp_path: Path) -> None:
    (tmp_path / "several.py").write_text(SEVERAL)
    made = process("compile", "several.py", "--model", "oracle", cwd=tmp_path)
    assert made.code == 0, made.err
    assert "several(), first(essay: str), second(topic: str = 'ships') for oracle" in made.err
    assert "`lmc run several.lmc` runs several, several.lmc:NAME another one" in made.err
    source = load_programs(tmp_path / "several.py")
    loaded = lmc.load(tmp_path / "several.lmc")
    assert loaded.name == "several"
    assert list(loaded.programs) == ["several", "first", "second"]
    assert loaded.programs["several"] is loaded
    backend = Oracle()
    for name, arguments in (("first", {"essay": "x"}), ("second", {}), ("several", {})):
        given = loaded.programs[name].run(**arguments, backend=backend, seed=2)
        expected = source[name].run(**arguments, backend=backend, seed=2)
        assert observables(given) == observables(expected)
        assert inspect.signature(loaded.programs[name]) == inspect.signature(source[name])
        assert lmc.load(tmp_path / "several.lmc", name).name == name
    (tmp_path / "several.py").unlink()
    run = process("run", "several.lmc:second", "--model", "oracle", "--json", cwd=tmp_path)
    assert run.code == 0, run.err
    assert json.loads(run.out)["text"].startswith("You are a careful judge")
    wrong = process("run", "several.lmc:third", "--model", "oracle", cwd=tmp_path)
    assert wrong.code == 2
    assert "hint: it has: several, first, second" in wrong.err


def test_the_programs_of_an_artifact_are_chosen_by_name(tmp_path: Path, capfd) -> None:
    (tmp_path / "several.py").write_text(SEVERAL)
    path, out = tmp_path / "several.py", tmp_path / "some.lmc"
    assert (
        command(capfd, "compile", f"{path}:second,first", "--model", "oracle", "-o", out).code == 0
    )
    assert list(lmc.load(out).programs) == ["second", "first"]
    assert lmc.load(out).name == "second"
    assert command(capfd, "compile", f"{path}:first", "--model", "oracle", "-o", out).code == 0
    assert list(lmc.load(out).programs) == ["first"]
    told = command(capfd, "compile", f"{path}:first,none", "--model", "oracle", "-o", out)
    assert told.code == 2
    assert "has no program 'none'" in told.err
    together = lmc.compile(list(load_programs(path).values()), model="oracle")
    assert list(together.programs) == ["first", "second", "several"]


def test_what_programs_share_is_written_once(tmp_path: Path) -> None:
    (tmp_path / "several.py").write_text(SEVERAL)
    programs = load_programs(tmp_path / "several.py")
    sizes = {}
    for count in (1, 2):
        lmc.compile(list(programs.values())[:count], model="oracle").save(tmp_path / "s.lmc")
        with zipfile.ZipFile(tmp_path / "s.lmc") as file:
            plan = file.read("plan.json")
        sizes[count] = plan.count(b"You are a careful judge")
    assert sizes == {1: 4, 2: 4}, "the text repeats itself four times, and stands there once"


def test_a_function_of_another_signature_is_told(tools: Path) -> None:
    loaded = lmc.load(tools / "tools.lmc")
    log = tools / "log.txt"
    run = ("run", "tools.lmc", "--model", "oracle")
    for changed, found in (
        ("def written(text, mode):", "written(text, mode)"),
        ("def written():", "written()"),
        ("def written(*, text):", "written(*, text)"),
    ):
        (tools / "tools.py").write_text(TOOLS.replace("def written(text):", changed))
        failed = process(*run, cwd=tools)
        assert (failed.code, failed.out) == (1, "")
        assert "the program calls written of module 'tools' at tools.py:21:" in failed.err
        assert f"expected written(text), called with 1 positional; found {found}" in failed.err
        assert "hint: use the tools that it was compiled with, or compile it again" in failed.err
        assert not log.exists(), "nothing was done before the failure"
    (tools / "tools.py").write_text(
        TOOLS.replace("written(text):", "written(text, more=1, *rest):")
    )
    assert process(*run, cwd=tools).code == 0
    assert log.read_text() == "log\n"
    assert loaded.required_imports == ["random:randint", "tools:written"]


def test_a_program_needs_only_what_it_calls(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "needs.py").write_text(
        "import lmc, extra_needs\n@lmc.function\ndef calls(s):\n    s += str(extra_needs.look())\n"
        "@lmc.function\ndef plain(s):\n    s += 'Hi'\n"
    )
    (tmp_path / "extra_needs.py").write_text(
        "def look():\n    with open(__file__) as file:\n        return file.read()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    programs = load_programs(tmp_path / "needs.py")
    lmc.compile(list(programs.values()), model="oracle").save(tmp_path / "needs.lmc")
    (tmp_path / "extra_needs.py").unlink()
    sys.modules.pop("extra_needs")
    importlib.invalidate_caches()
    loaded = lmc.load(tmp_path / "needs.lmc")
    assert loaded.programs["plain"].run(backend="oracle").text() == "Hi"
    assert loaded.programs["plain"].required_imports == []
    with pytest.raises(RunError, match="cannot be imported") as caught:
        loaded.run(backend="oracle")
    assert caught.value.hint is not None


def test_stages_of_an_artifact_are_those_of_its_source(tmp_path: Path, capfd) -> None:
    judge, path = EXAMPLES / "judge.py", tmp_path / "judge.lmc"
    passes = "fold,unroll{max_trips=2},hoist-prefix,dce"
    made = command(capfd, "compile", judge, "--passes", passes, "-o", path, "--model", "oracle")
    assert made.code == 0, made.err
    for options in (
        (),
        ("--after", "unroll"),
        ("--after", "fold"),
        ("--passes", "none"),
        ("--passes", "fold"),
    ):
        given = command(capfd, "ir", path, *options)
        own = () if "--passes" in options else ("--passes", passes)
        expected = command(capfd, "ir", judge, *options, *own)
        assert given.code == expected.code == 0
        assert without_names(given.out) == without_names(expected.out) != ""
    given = command(capfd, "ir", path, "--diff", "captured,hoist-prefix")
    assert given.out.startswith("--- captured\n+++ hoist-prefix\n")
    assert re.search(r"^\+ +%\w+: state = lm.prologue", given.out, re.M)
    told = command(capfd, "ir", path, "--after", "batch-forks")
    assert told.code == 2
    assert "its passes: fold, unroll, hoist-prefix, dce" in told.err
    twice = ("--passes", "fold,dce,fold,inline")
    for after, same in (("fold:1", "fold"), ("fold:2", "fold,dce,fold"), ("fold", "fold,dce,fold")):
        given = command(capfd, "ir", judge, *twice, "--after", after)
        assert given.out == command(capfd, "ir", judge, "--passes", same).out != ""
    for wrong in ("fold:0", "fold:3", "fold:x", "fold:-1", ":1"):
        told = command(capfd, "ir", judge, *twice, "--after", wrong)
        assert told.code == 2, wrong
        assert f"'{wrong}' is not in the pipeline" in told.err


def without_names(text: str) -> str:
    """Return IR text without the names of values, which text that was parsed chooses anew."""
    return re.sub(r"%\w+", "%", text)


def test_an_error_of_an_artifact_names_the_line_of_its_source(tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text(
        "import lmc\n\n@lmc.function\ndef fails(s, n: int):\n    s += str(10 // n)\n"
    )
    assert process("compile", "fails.py", "--model", "oracle", cwd=tmp_path).code == 0
    (tmp_path / "fails.py").unlink()
    failed = process("run", "fails.lmc", "--model", "oracle", "--arg", "n=0", cwd=tmp_path)
    assert failed.code == 1
    assert "fails.py:5:14" in failed.err
    assert "s += str(10 // n)" in failed.err


def test_flipped_bytes_never_run(tmp_path: Path) -> None:
    path = tmp_path / "judge.lmc"
    load_programs(EXAMPLES / "judge.py")["judge"].compile("oracle").save(path)
    content = path.read_bytes()
    draw = random.Random(1)
    for _ in range(200):
        place = draw.randrange(len(content))
        path.write_bytes(
            content[:place]
            + bytes([content[place] ^ 1 << draw.randrange(8)])
            + content[place + 1 :]
        )
        with pytest.raises(ArtifactError, match=r"judge\.lmc"):
            lmc.load(path)


def test_a_class_that_is_made_and_tested_for_is_needed_once() -> None:
    """What must be importable is told without repeats."""
    path = Path(__file__).resolve().parent.parent / "programs" / "language" / "written_outside.py"
    program = load_programs(path)["classes_matched"].compile(Oracle())
    needed = ["written_outside:Person", "written_outside:Worker"]
    assert sorted(program.required_imports) == needed
