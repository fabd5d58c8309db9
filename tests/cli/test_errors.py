"""What can go wrong: one clear message with place and remedy, and the right exit code."""

from pathlib import Path

import pytest
from command_support import EXAMPLES

ESSAY = f"essay=@{EXAMPLES / 'essay.txt'}"
ECHO = "@lmc.function\ndef echo(s, text: str):\n    s += text + lmc.gen('word', max_tokens=4)\n"


def fails(told, code, *words):
    """Check a failure: nothing on stdout, one message without a traceback, its words."""
    assert (told.code, told.out) == (code, ""), told
    assert told.err.startswith("error: "), told.err
    assert "Traceback" not in told.err
    assert told.err.count("error: ") == 1
    for word in words:
        assert word in told.err, told.err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["frob"], ["no such command 'frob'", "hint: see `lmc --help`"]),
        (["run"], ["missing argument 'PROGRAM'", "`lmc run --help`"]),
        (["run", "x.py", "--bogus"], ["no such option '--bogus'", "`lmc run --help`"]),
        (["run", "x.py", "--seed", "one"], ["'one' is not a valid integer"]),
        (["run", "x.py", "--dtype", "int4"], ["'bfloat16', 'float32'"]),
        (["run", "x.py", "--weights", "int2"], ["'full', 'stored', 'int8', 'int4'"]),
        (["compile", "x.py", "--weights", "int8"], ["--weights is that of the KV", "--with-kv"]),
        (["viz", "x.py", "--format", "png"], ["'dot', 'mermaid'"]),
        (["run", "none.py"], ["none.py does not exist", "hint: "]),
        (["compile", "none.py"], ["none.py does not exist"]),
        (["ir", "none.lmir"], ["none.lmir", "no such file"]),
        (["ir", "none.lmc"], ["no file none.lmc", "lmc compile"]),
        (["run", "none.lmc"], ["no file none.lmc", "lmc compile"]),
        (["run", "."], ["is a folder"]),
        (["viz", "text.txt"], ["text.txt"]),
        (["pull", "not a hub id"], ["'not a hub id'", "org/name"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)  # fmt: skip
def test_wrong_use(lmc, tmp_path, monkeypatch, args, words):
    monkeypatch.chdir(tmp_path)
    fails(lmc(*args), 2, *words)


def test_a_file_without_a_program(lmc, write):
    fails(lmc("run", write("empty.py", "x = 1\n")), 2, "empty.py defines no program", "@lmc.func")


def test_several_programs_need_a_name(lmc, write):
    path = write("many.py", ECHO + ECHO.replace("echo", "other"))
    fails(lmc("run", path), 2, "several programs: echo, other", "many.py:echo")
    fails(lmc("run", f"{path}:third"), 2, "has no program 'third'", "it has: echo, other")


def test_a_program_needs_a_state(lmc, write):
    fails(lmc("run", write("f.py", "@lmc.function\ndef f():\n    pass\n")), 2, "def f(s, ...)")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], ["missing a required argument: 'text'", "echo(text: str)"]),
        (["--arg", "txt=a"], ["no argument 'txt'", "it has: text"]),
        (["--arg", "text"], ["has no '='"]),
        (["--arg", "text=a", "--arg", "text=b"], ["given twice"]),
        (["--arg", "text=@none.txt"], ["none.txt", "no such file"]),
        (["--args", "none.jsonl"], ["none.jsonl", "no such file"]),
        (["--args", "rows.jsonl"], ["line 2 of rows.jsonl", "not JSON"]),
        (["--args", "good.jsonl", "--stream"], ["--stream", "leave --args or --stream out"]),
        (["--arg", "text=a", "--stream", "--json"], ["--stream and --json exclude each other"]),
        (["--arg", "text=a", "--temperature", "-1"], ["temperature", "-1"]),
        (["--arg", "text=a", "--max-tokens", "-5"], ["max_tokens", "-5"]),
        (["--arg", "text=a", "--passes", "fold,frob"], ["no pass 'frob'", "hoist-prefix"]),
        (["--arg", "text=a", "--passes", "fold{"], ["pipeline"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)  # fmt: skip
def test_wrong_arguments(lmc, write, args, words):
    path = write("echo.py", ECHO)
    Path("rows.jsonl").write_text('{"text": "a"}\nno json\n')
    Path("good.jsonl").write_text('{"text": "a"}\n')
    fails(lmc("run", path, "--model", "oracle", *args), 2, *words)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("/no/such/model", ["no model at /no/such/model", "lmc pull"]),
        ("org/none", ["org/none is not on this machine", "lmc pull org/none"]),
        ("folder", ["folder holds neither config.json nor a .gguf file"]),
        ("half", ["half is not a complete model", "tokenizer.json"]),
        ("echo.py", ["echo.py is not a model"]),
        ("", ["model"]),
    ],
)  # fmt: skip
def test_a_missing_model(lmc, write, model, words):
    path = write("echo.py", ECHO)
    Path("folder").mkdir()
    Path("half").mkdir()
    Path("half", "config.json").write_text("{}")
    fails(lmc("run", path, "--arg", "text=a", "--model", model), 2, *words)
    fails(lmc("compile", path, "--model", model), 2, *words)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"no gguf" * 50, b"GGUF" + bytes(500)])
def test_a_damaged_gguf_file(lmc, write, content):
    path = write("echo.py", ECHO)
    Path("model.gguf").write_bytes(content)
    fails(lmc("run", path, "--arg", "text=a", "--model", "model.gguf"), 2, "model.gguf")


def test_the_default_model_may_be_missing(lmc, write, monkeypatch, tmp_path):
    monkeypatch.setattr("lmc.models_store.PACKAGE", "no_such_package")
    for name in ("HF_HUB_CACHE", "HF_HOME", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "empty"))
    monkeypatch.setenv("LMC_CACHE", str(tmp_path / "empty"))
    told = lmc("run", write("echo.py", ECHO), "--arg", "text=a")
    fails(told, 2, "the default model", "is missing", "lmc pull")


SYNTAX = ["does not parse", "bad.py:5:", "^", "hint: "]


@pytest.mark.parametrize("name", ["run", "compile", "ir", "viz"])
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("    s += (lmc.gen('x'", [*SYNTAX, "was never closed"]),
        ("    s += 'a", [*SYNTAX, "unterminated string"]),
        ("  return 1", [*SYNTAX, "indent"]),
    ],
)
def test_a_program_that_does_not_parse(lmc, write, name, line, words):
    path = write("bad.py", f"@lmc.function\ndef bad(s):\n    s += 'b'\n{line}\n")
    fails(lmc(name, path), 3, *words, line)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"import lmc\n\x00", b"# coding: nonsense\n"])
def test_a_program_that_is_no_text(lmc, tmp_path, content):
    path = tmp_path / "binary.py"
    path.write_bytes(content)
    fails(lmc("run", path), 3, "binary.py")


def test_a_program_whose_file_raises_while_it_loads(lmc, write):
    path = write("boom.py", "\ndef f():\n    return {}['key']\n\nf()\n")
    fails(lmc("run", path), 3, "loading boom.py raised KeyError: 'key'", "boom.py:4:12", "^^^")
    path = write("gone.py", "import no_such_module_here\n")
    fails(lmc("run", path), 3, "no_such_module_here", "gone.py:2:1")


@pytest.mark.parametrize("call", ["echo.run(text='a')", "list(echo.run_batch([{'text': 'a'}]))"])
def test_a_program_that_is_run_while_its_file_loads(lmc, write, call):
    body = f"{ECHO}\nfor _ in range(1):\n    print({call})\n"
    fails(lmc("run", write("early.py", body)), 2, "'echo' is run while early.py is loaded",
          "early.py:7:", call, "^^^", "if __name__ == '__main__'")  # fmt: skip
    path = write("later.py", f"{ECHO}\nif __name__ == '__main__':\n    {call}\n")
    assert lmc("run", path, "--model", "oracle", "--arg", "text=a").code == 0


BREAK = """
@lmc.function
def broken(s):
    s += "a "
    class Inner:
        pass
    s += lmc.gen("x", max_tokens=3, temperature=0)
    return s["x"]
"""


@pytest.mark.parametrize("name", ["compile", "ir", "viz"])
def test_a_graph_break_is_refused_with_its_place(lmc, write, name):
    told = lmc(name, write("broken.py", BREAK))
    fails(told, 3, "'ClassDef'", "broken.py:6:5", "    class Inner:\n", "^^^", "hint: ")


def test_a_graph_break_runs_in_eager_mode_with_a_warning(lmc, write):
    path = write("broken.py", BREAK)
    told = lmc("run", path, "--model", "oracle")
    assert told.code == 0, told.err
    assert told.err.startswith("warning: 'ClassDef'")
    assert "broken.py:6:5" in told.err
    assert "eager" in told.err
    assert told.out == lmc("run", path, "--model", "oracle", "--eager").out
    assert "warning" not in lmc("run", path, "--model", "oracle", "--eager").err


HOST = """
def tool(x):
    with open("/no/such/file/" + str(x)) as file:
        return file.read()

@lmc.function
def host(s, q: str = "a"):
    s += q + lmc.gen("x", max_tokens=3)
    s += tool(len(q))
"""
MISSING = """
@lmc.function
def missing(s, q: str = "a"):
    if q == "b":
        s += lmc.gen("x", max_tokens=3)
    s += q
    return s["x"]
"""
DIVIDES = """
@lmc.function
def divides(s, n: int = 0):
    s += lmc.gen("x", max_tokens=3)
    return 10 // n
"""
CUT = """
@lmc.function
def cut(s):
    s += "A long prompt that ends in these words: the number is "
    s += lmc.gen("n", type=int, max_tokens=0)
    return s["n"]
"""
NOT_TEXT = """
@lmc.function
def not_text(s, n: int = 5):
    s += "a"
    s += n
"""
STATE_IN_LOOP = """
@lmc.function
def in_loop(s, items: list = ["a", "b", 3]):
    for item in items:
        s += "- " + item
    return s.text()
"""


@pytest.mark.parametrize("how", [(), ("--eager",), ("--passes=none",)], ids=str)
@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("host", HOST, ["FileNotFoundError", "/no/such/file/1"]),
        ("missing", MISSING, ["no variable 'x'", "missing.py:8:12", 'return s["x"]', "^^^"]),
        ("divides", DIVIDES, ["ZeroDivisionError", "divides.py:6:12", "return 10 // n", "^^^"]),
        ("cut", CUT, ["int was cut", "cut.py:6:", "max_tokens (now 0)", "the number is "]),
        ("not_text", NOT_TEXT, ["int", "not_text.py:6:", "s += n", "hint"]),
        ("in_loop", STATE_IN_LOOP, ["TypeError", "in_loop.py:6:14", "^^^"]),
    ],
)  # fmt: skip
def test_a_program_that_raises_in_the_middle(lmc, write, name, body, words, how):
    fails(lmc("run", write(f"{name}.py", body), "--model", "oracle", *how), 1, *words)


def test_of_a_batch_the_failing_run_is_told(lmc, write):
    path = write("divides.py", DIVIDES)
    Path("rows.jsonl").write_text('{"n": 5}\n{"n": 2}\n{"n": 0}\n{"n": 1}\n')
    for how in ((), ("--eager",)):
        told = lmc("run", path, "--model", "oracle", "--args", "rows.jsonl", *how)
        assert told.code == 1
        assert told.out == "2\n5\n"
        assert "error: run 3 of 4: ZeroDivisionError" in told.err


def test_output_that_cannot_be_written(lmc, write):
    path = write("echo.py", ECHO)
    fails(lmc("compile", path, "-o", "no/folder/x.lmc"), 2, "no folder no")
    fails(lmc("compile", path, "-o", "."), 2, "it is a folder")
    fails(lmc("compile", path, "-o", path), 2, "not named echo.py", ".lmc")
    assert "lmc.gen" in path.read_text(), "the program is still there"
    fails(lmc("viz", path, "-o", "no/folder/x.dot"), 2, "no folder no", "hint: make the folder")
    fails(lmc("viz", path, "-o", "."), 2, "it is a folder", "hint: give -o a file's name")


def test_ir_text_that_does_not_parse(lmc, tmp_path):
    path = tmp_path / "bad.lmir"
    for text in ("", 'module "m" {\n  func @p program', "no ir"):
        path.write_text(text)
        for name in ("ir", "viz"):
            fails(lmc(name, path), 3, "bad.lmir:")
    path.write_bytes(b"\xff\xff")
    fails(lmc("ir", path), 2, "bad.lmir", "not UTF-8")


def test_ir_stops_behind_known_passes_only(lmc):
    judge = EXAMPLES / "judge.py"
    fails(lmc("ir", judge, "--after", "frob"), 2, "'frob' is not in the pipeline", "fold")
    fails(lmc("ir", judge, "--passes", "fold", "--after", "dce"), 2, "'dce'")
    fails(lmc("compile", judge, "--model", "oracle", "--print-after", "frob"), 2, "'frob'")


@pytest.fixture
def artifact(lmc, write):
    """Return the bytes of an artifact."""
    assert lmc("compile", write("echo.py", ECHO), "--model", "oracle").code == 0
    return Path("echo.lmc").read_bytes()


@pytest.mark.parametrize("name", ["run", "ir", "viz"])
def test_damaged_and_foreign_artifacts_are_refused(lmc, artifact, name):
    damaged = {
        "cut.lmc": (artifact[:-20], "cut off"),
        "head.lmc": (artifact[:10], "cut off"),
        "longer.lmc": (artifact + b"x", "longer.lmc"),
        "flipped.lmc": (artifact[:300] + bytes([artifact[300] ^ 4]) + artifact[301:], "damaged"),
        "newer.lmc": (artifact[:8] + b"\x63" + artifact[9:], "newer"),
        "foreign.lmc": (b"PK\x03\x04" + bytes(200), "not an lmc artifact"),
        "empty.lmc": (b"", "not an lmc artifact"),
        "text.lmc": (artifact.replace(b"\r\n", b"\n"), "text.lmc"),
    }
    for file, (content, word) in damaged.items():
        Path(file).write_bytes(content)
        fails(lmc(name, file), 3, file, word, "hint: ")


def test_an_artifact_is_not_compiled_or_run_eagerly(lmc, artifact):
    fails(lmc("compile", "echo.lmc"), 2, "compiled already", "lmc run echo.lmc")
    fails(lmc("run", "echo.lmc", "--arg", "text=a", "--eager"), 2, "--eager")
    fails(lmc("run", "echo.lmc", "--arg", "text=a", "--passes", "fold"), 2, "--passes")
    fails(lmc("run", "echo.lmc"), 2, "missing a required argument: 'text'")
    fails(lmc("run", "echo.lmc:other", "--arg", "text=a"), 2, "no program 'other'")
    fails(lmc("run", "echo.lmc", "--arg", "txt=a"), 2, "no argument 'txt'")


def test_an_interrupt_is_told_in_one_word(lmc, write, monkeypatch):
    def interrupted(*args: object, **keywords: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lmc.cli_run.find_runner", interrupted)
    told = lmc("run", write("echo.py", ECHO))
    assert (told.code, told.out, told.err) == (130, "", "interrupted\n")


def test_a_fault_of_lmc_keeps_its_traceback(lmc, write, monkeypatch):
    def broken(*args: object, **keywords: object) -> None:
        raise AssertionError("a bug")

    monkeypatch.setattr("lmc.cli_run.find_runner", broken)
    with pytest.raises(AssertionError, match="a bug"):
        lmc("run", write("echo.py", ECHO))
