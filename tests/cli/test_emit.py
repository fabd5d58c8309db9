"""`lmc compile --emit py`: a module that is imported like any other, with real types."""

import ast
import builtins
import importlib
import json
import shutil
from pathlib import Path

import pytest
from command_support import command, process, python

from lmc.codegen.plan import Plan
from lmc.codegen.python_module import module_text, type_text

SOURCE = '''
import typing
import lmc
from needed import look

@lmc.function
def grade(s, essay: str, *, limit: int = 3, kinds: "list[str] | None" = None) -> str:
    """Grade an essay: "A" or 'B'.

    In one word\\\\."""
    s += "Grade: " + essay + lmc.gen("grade", max_tokens=limit) + look(essay)
    return s["grade"].strip() or "none"

@lmc.function
def plain(s, seed: typing.Literal["a", "b"], what, other: Unknown = "x"):
    s += str(seed) + lmc.gen("x", max_tokens=2)
'''.replace("other: Unknown", "other: 'Unknown'")

NEEDED = """
def look(text):
    with open(__file__) as file:
        return f" ({len(file.read()) > 1})"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the module, its stub and its artifact; the source is gone."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "grade.py").write_text(SOURCE)
    (tmp_path / "src" / "needed.py").write_text(NEEDED)
    made = process(
        "compile", "grade.py", "--model", "oracle", "--emit", "py", "-o", "../graded.py",
        cwd=tmp_path / "src",
    )  # fmt: skip
    assert made.code == 0, made.err
    assert (
        "wrote ../graded.py and its stub: `import graded`, then graded.grade(essay: str" in made.err
    )
    shutil.move(tmp_path / "src" / "needed.py", tmp_path / "needed.py")
    shutil.rmtree(tmp_path / "src")
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "graded.lmc", "graded.py", "graded.pyi", "needed.py",
    ]  # fmt: skip
    return tmp_path


EMBEDS = """
import inspect, json, sys
import graded
loaded = "torch" in sys.modules
import lmc
lmc.set_default_backend("oracle")

@lmc.function
def outer(s, topic: str):
    s += "Embedded: " + graded.grade(essay=topic)
    return s.text()

print(json.dumps({
    "value": graded.grade(essay="x"), "signature": str(inspect.signature(graded.grade)),
    "doc": graded.grade.__doc__, "torch": loaded, "all": graded.__all__,
    "text": graded.plain.run("a", 1, backend="oracle").text(),
    "batch": len(graded.grade.run_batch([{"essay": "a"}, {"essay": "b", "limit": 1}])),
    "outer": outer.run("y").value,
}))
"""


def test_the_module_is_imported_from_anywhere_and_embedded(folder: Path, tmp_path_factory) -> None:
    away = tmp_path_factory.mktemp("away")
    (away / "uses.py").write_text(EMBEDS)
    done = python("import uses", cwd=away, PYTHONPATH=f"{away}:{folder}")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert told["signature"] == "(essay: str, *, limit: int = 3, kinds: list[str] | None = None)"
    assert told["doc"].startswith("Grade an essay: \"A\" or 'B'.\n\nIn one word")
    assert told["all"] == ["grade", "plain"]
    assert not told["torch"], "importing stays light"
    assert told["value"]
    assert told["text"].startswith("a")
    assert told["batch"] == 2
    assert told["outer"].startswith("Embedded: ")


def test_what_is_missing_is_told_when_it_is_called(folder: Path) -> None:
    (folder / "needed.py").write_text("def look(text, more): ...\n")
    done = python(
        "import graded\ntry: graded.grade.run('x', backend='oracle')\n"
        "except Exception as e: print(type(e).__name__, e)",
        cwd=folder, PYTHONPATH=str(folder),
    )  # fmt: skip
    assert done.out.startswith("RunError the program calls look of module 'needed'")
    assert "expected look(text), called with 1 positional; found look(text, more)" in done.out


def test_another_artifact_beside_the_module_is_told(folder: Path) -> None:
    (folder / "grade.py").write_text(SOURCE)
    made = process("compile", "grade.py:plain", "--model", "oracle", "-o", "graded.lmc", cwd=folder)
    assert made.code == 0, made.err
    done = python(
        "try: import graded\nexcept Exception as e: print(type(e).__name__, e)",
        cwd=folder, PYTHONPATH=str(folder),
    )  # fmt: skip
    first, hint = done.out.splitlines()
    assert first.startswith("UsageError ")
    assert first.endswith("graded.lmc has no program 'grade': it was compiled without its module")
    assert hint == "hint: make both again: lmc compile --emit py"


def test_the_module_evaluates_nothing(folder: Path) -> None:
    text = (folder / "graded.py").read_text()
    for word in ("eval", "exec", "compile(", "pickle", "def ", "lambda"):
        assert word not in text, word
    compile((folder / "graded.pyi").read_text(), "graded.pyi", "exec")


def test_nothing_of_the_users_is_overwritten(tmp_path: Path, capfd, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = "import lmc\n\n@lmc.function\ndef p(s):\n    s += 'x'\n"
    (tmp_path / "p.py").write_text(source)
    (tmp_path / "mine.pyi").write_text("x: int\n")
    base = ("compile", "p.py", "--model", "oracle", "--emit", "py")
    for output, message in (
        ("p.py", "p.py is there, and was not made by lmc"),
        ("mine.py", "mine.pyi is there, and was not made by lmc"),
        ("two words.py", "a module cannot be named 'two words'"),
        ("class.py", "a module cannot be named 'class'"),
    ):
        told = command(capfd, *base, "-o", output)
        assert told.code == 2
        assert message in told.err
        assert "hint: name it" in told.err or "hint: name another one" in told.err
    assert (tmp_path / "p.py").read_text() == source
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.pyi", "p.py"]
    for _ in range(2):  # what lmc made, it makes again
        assert command(capfd, *base).code == 0
    assert (tmp_path / "p_lmc.py").exists()
    assert command(capfd, *base, "-o", "other.lmc").code == 0
    assert (tmp_path / "other_lmc.pyi").exists()


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        ("", "typing.Any"),
        ("str", "str"),
        ("None", "None"),
        ("list", "list[typing.Any]"),
        ("dict[str, list]", "dict[str, list[typing.Any]]"),
        ("t.Optional[int]", "int | None"),
        ("Union[str, Sequence[float]]", "str | typing.Sequence[float]"),
        ("Callable[[int], str]", "typing.Callable[[int], str]"),
        ("Literal['a', 1, None]", "typing.Literal['a', 1, None]"),
        ("tuple[int, ...]", "tuple[int, ...]"),
        ("tuple", "tuple[typing.Any, ...]"),
        ("Essay", "typing.Any"),
        ("list[Essay]", "typing.Any"),
        ("print('x')", "typing.Any"),
    ],
)
def test_annotations_of_the_stub(annotation: str, text: str) -> None:
    assert type_text(annotation) == text


CLASHING = """
import lmc

@lmc.function
def list(s, self: str, options: "list[str]" = [], *, type: int = 1) -> "list[str]":
    s += self
    return [self, *options]

@lmc.function
def typing(s, what) -> str:
    return str(what)

@lmc.function
def _load(s) -> int:
    return 1

@lmc.function
def stop(s) -> None:
    s += "x"
"""


def test_programs_may_be_named_as_what_the_module_uses(tmp_path: Path, capfd, monkeypatch) -> None:
    (tmp_path / "clashing.py").write_text(CLASHING)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    made = command(capfd, "compile", "clashing.py", "--model", "oracle", "--emit", "py")
    assert made.code == 0, made.err
    module = importlib.import_module("clashing_lmc")
    assert module.list(self="a", options=["b"], backend="oracle") == ["a", "b"]
    assert module.list.run("a", backend="oracle").value == ["a"]
    assert module.typing(3, backend="oracle") == "3"
    assert module._load(backend="oracle") == 1
    tree = ast.parse((tmp_path / "clashing_lmc.pyi").read_text())
    given = {node.target.id for node in tree.body if isinstance(node, ast.AnnAssign)}
    assert given == set(module.__all__) == {"list", "typing", "_load", "stop"}
    kept = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            kept |= {alias.asname or alias.name for alias in node.names}
        if isinstance(node, ast.ClassDef):
            names = [name for name in ast.walk(node) if isinstance(name, ast.Name)]
            used = {name.id for name in names if isinstance(name.ctx, ast.Load)}
            assert not used & given, "types are not taken from programs"
            assert {name for name in used - kept if not hasattr(builtins, name)} == set()
    assert kept & given == set()
    assert "    stop: " in (tmp_path / "clashing_lmc.pyi").read_text(), "an option keeps its name"


@pytest.mark.parametrize("name", ['a"""b.lmc', "a\\N.lmc", "a b\n.lmc", "\u00fc\U0001f600.lmc"])
def test_the_module_of_an_artifact_with_a_strange_name(name: str) -> None:
    plan = Plan('p"""\\N', {}, ())
    tree = ast.parse(module_text(plan, name))
    assert name in {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert ast.get_docstring(tree, clean=False).startswith(f"The programs of {plan.name}.py, ")
