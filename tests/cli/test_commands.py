"""Every command and option, on the oracle: what is printed where, and what it gives."""

import json
import re
from pathlib import Path

import pytest
from command_support import EXAMPLE_NAMES, EXAMPLES

JUDGE = EXAMPLES / "judge.py"
ESSAY = f"essay=@{EXAMPLES / 'essay.txt'}"

ECHO = """
@lmc.function
def echo(s, text: str = "hi", times: int = 1):
    '''Repeat a text.'''
    for _ in range(times):
        s += text + lmc.gen("word", max_tokens=4)
    return {"word": s["word"], "times": times}
"""


def test_help_names_every_command_and_option(lmc):
    told = lmc("--help")
    assert told.code == 0
    for name in ("compile", "run", "ir", "viz", "pull"):
        assert f"  {name} " in told.out
        assert lmc(name, "--help").code == lmc(name, "-h").code == 0
    assert "..." not in told.out.partition("Commands:")[2], "descriptions are not cut"
    options = ("--model", "--arg", "--args", "--stream", "--json", "--seed", "--temperature",
               "--max-tokens", "--eager", "--dtype", "--weights", "--activations",
               "--passes")  # fmt: skip
    for option in options:
        assert f"{option} " in lmc("run", "--help").out


def test_alone_it_prints_help_as_wrong_use(lmc):
    told = lmc()
    assert told.code == 2
    assert not told.out
    assert "Commands:" in told.err


def test_version(lmc):
    from lmc import __version__

    assert lmc("--version").out == f"lmc, version {__version__}\n"


def test_a_result_goes_to_stdout_the_summary_to_stderr(lmc):
    told = lmc("run", JUDGE, "--model", "oracle", "--arg", ESSAY, "--seed", "1")
    assert told.code == 0
    assert set(json.loads(told.out)) >= {"kind", "grade"}
    words = ("judge: ", " calls in ", "prompt tokens", "computed", "shared", "sampled", "forced",
             "decode steps", "tokens per second", "next: `lmc ir")  # fmt: skip
    for word in words:
        assert word in told.err
    assert told.err.count("\n") < 12


def test_without_a_return_value_the_text_is_shown(lmc, write):
    path = write("plain.py", "@lmc.function\ndef plain(s):\n    s += 'a text\\n'\n")
    told = lmc("run", path, "--model", "oracle")
    assert told.out.startswith("a text\n")
    assert "plain: 0 calls" in told.err


def test_the_oracle_has_no_kv_for_a_folder(lmc, write, tmp_path):
    path = write("plain.py", "@lmc.function\ndef plain(s):\n    s += 'a text\\n'\n")
    told = lmc("run", path, "--model", "oracle", "--kv-dir", tmp_path / "kv")
    assert told.code == 2
    assert "keeps no KV" in told.err
    assert not (tmp_path / "kv").exists()


def test_json_is_one_object_per_run(lmc, write):
    path = write("echo.py", ECHO)
    told = lmc("run", path, "--model", "oracle", "--arg", "times=2", "--json", "--seed", "5")
    run = json.loads(told.out)
    assert told.out.count("\n") == 1
    assert list(run) == ["return", "values", "text", "token_ids", "usage", "exact", "seed"]
    assert run["return"] == {"word": run["values"]["word"], "times": 2}
    assert [(each["name"], each["ordinal"]) for each in run["token_ids"]] == [
        ("word", 0), ("word", 1),
    ]  # fmt: skip
    assert all(each["token_ids"] for each in run["token_ids"])
    assert run["text"].startswith("hi")
    assert run["text"].endswith(run["values"]["word"])
    usage = run["usage"]
    assert usage["prompt_tokens"] == usage["computed_tokens"] + usage["cached_tokens"]
    assert usage["calls"] == 2
    assert run["seed"] == 5


def test_values_that_json_cannot_hold_are_told_as_text(lmc, write):
    body = """
def odd():
    inner = [float("inf"), {1, }, {(1, 2): b"x", 3: None}]
    inner.append(inner)
    return inner

@lmc.function
def odd_value(s):
    s += "a"
    s["odd"] = odd()
    return s["odd"]
"""
    told = lmc("run", write("odd_value.py", body), "--model", "oracle", "--json")
    assert told.code == 0, told.err
    run = json.loads(told.out, parse_constant=pytest.fail)
    assert run["return"][:3] == ["inf", "{1}", {"(1, 2)": "b'x'", "3": None}]
    assert isinstance(run["return"][3], str), "it holds itself"


def test_a_seed_repeats_a_run_and_is_told(lmc, write):
    path = write("echo.py", ECHO)
    first = lmc("run", path, "--model", "oracle")
    seed = next(line.split()[1] for line in first.err.splitlines() if "seed" in line)
    again = lmc("run", path, "--model", "oracle", "--seed", seed)
    other = lmc("run", path, "--model", "oracle", "--seed", "77")
    assert first.out == again.out != other.out
    greedy = lmc("run", path, "--model", "oracle", "--temperature", "0")
    assert "seed" not in greedy.err, "nothing was drawn"


def test_defaults_hold_for_generations_without_their_own(lmc, write):
    body = """
@lmc.function
def two(s):
    s += "a" + lmc.gen("own", max_tokens=2, ignore_eos=True)
    s += "b" + lmc.gen("default", ignore_eos=True)
"""
    path = write("two.py", body)
    told = lmc("run", path, "--model", "oracle", "--max-tokens", "5", "--json", "--seed", "1")
    ids = {each["name"]: each["token_ids"] for each in json.loads(told.out)["token_ids"]}
    assert len(ids["own"]) <= 2 < len(ids["default"]) <= 5
    assert json.loads(told.out)["usage"]["output_tokens"] == 7


@pytest.mark.parametrize("how", ["--eager", "--passes=none", "--passes=fold,dce"])
def test_other_ways_give_the_same(lmc, how):
    usual = ("run", JUDGE, "--model", "oracle", "--arg", ESSAY, "--seed", "3", "--json")
    first, second = json.loads(lmc(*usual).out), json.loads(lmc(*usual, how).out)
    for run in (first, second):
        del run["usage"]
    assert first == second


def test_a_trace_is_written_beside_the_run(lmc, write, tmp_path):
    path = tmp_path / "run.json"
    told = lmc("run", write("echo.py", ECHO), "--model", "oracle", "--trace", str(path))
    assert told.code == 0
    names = [event["name"] for event in json.loads(path.read_text())["traceEvents"]]
    assert len([name for name in names if name.startswith("word@echo.py:")]) == 2, "b and e"
    refused = lmc("run", write("echo.py", ECHO), "--model", "oracle", "--trace", str(tmp_path))
    assert refused.code == 2
    assert "give --trace a file's name" in refused.err


def test_batches_keep_their_order(lmc, write):
    path = write("echo.py", ECHO)
    rows = Path("rows.jsonl")
    rows.write_text("".join(f'{{"text": "t{n}"}}\n' for n in range(40)), encoding="utf-8")
    usual = ("run", path, "--model", "oracle", "--args", rows, "--seed", "2", "--json")
    runs = [json.loads(line) for line in lmc(*usual).out.splitlines()]
    assert [run["text"][: len(f"t{n}")] for n, run in enumerate(runs)] == [
        f"t{n}" for n in range(40)
    ]
    eager = [json.loads(line) for line in lmc(*usual, "--eager").out.splitlines()]
    assert [run["token_ids"] for run in eager] == [run["token_ids"] for run in runs]
    assert "echo: 40 runs, 40 calls" in lmc(*usual).err


def test_an_empty_batch_runs_nothing(lmc, write):
    path = write("echo.py", ECHO)
    Path("rows.jsonl").touch()
    told = lmc("run", path, "--args", "rows.jsonl", "--json")
    assert (told.code, told.out) == (0, "")
    assert "nothing ran" in told.err


def test_arguments_may_be_named_like_options(lmc, write):
    body = """
@lmc.function
def clash(s, seed: str, backend: str, temperature: int, arguments: str, mode: str = "m"):
    s += seed + lmc.gen("x", max_tokens=3)
    return [seed, backend, temperature, arguments, mode]
"""
    args = [f"--arg={name}={7}" for name in ("seed", "backend", "temperature", "arguments")]
    for how in ((), ("--eager",)):
        told = lmc("run", write("clash.py", body), "--model", "oracle", "--seed", "1", *args, *how)
        assert told.code == 0, told.err
        assert json.loads(told.out) == ["7", "7", 7, "7", "m"]


@pytest.mark.parametrize("text", ["", "日本 🎉 \x00 <|im_end|>", "a\r\nb", "x" * 300_000])
def test_any_text_is_an_argument(lmc, write, text):
    path = write("echo.py", ECHO)
    Path("text.txt").write_bytes(text.encode())
    told = lmc("run", path, "--model", "oracle", "--arg", "text=@text.txt", "--json")
    assert told.code == 0, told.err
    assert json.loads(told.out)["text"].startswith(text.replace("\r\n", "\n"))


def test_streaming_prints_the_prompt_once(lmc, write):
    path = write("echo.py", ECHO)
    usual = ("run", path, "--model", "oracle", "--arg", "times=3", "--seed", "4")
    text = json.loads(lmc(*usual, "--json").out)["text"]
    for how in ((), ("--eager",), ("--passes=none",)):
        assert lmc(*usual, "--stream", *how).out.rstrip("\n") == text.rstrip("\n")


@pytest.mark.parametrize("how", [(), ("--eager",), ("--passes=none",)], ids=str)
def test_streaming_leaves_branches_out(lmc, how):
    usual = ("run", JUDGE, "--model", "oracle", "--arg", ESSAY, "--seed", "3")
    text = json.loads(lmc(*usual, "--json").out)["text"]
    assert lmc(*usual, "--stream", *how).out.rstrip("\n") == text.rstrip("\n")


def test_a_program_is_chosen_by_name_or_by_the_files(lmc, write):
    body = "".join(
        f"@lmc.function\ndef {name}(s):\n    s += '{name}'\n    return '{name}'\n"
        for name in ("first", "several", "third")
    )
    path = write("several.py", body)
    assert lmc("run", path, "--model", "oracle").out == "several\n"
    assert lmc("run", f"{path}:third", "--model", "oracle").out == "third\n"


def test_paths_may_hold_blanks_and_colons(lmc, write):
    path = write("my prog: v1.py", ECHO)
    told = lmc("compile", path, "--model", "oracle", "-o", "my out: v1.lmc")
    assert told.code == 0, told.err
    assert "`lmc run 'my out: v1.lmc'`" in told.err
    assert lmc("run", "my out: v1.lmc", "--model", "oracle").code == 0
    assert lmc("run", f"{path}:echo", "--model", "oracle").code == 0


def test_compile_tells_what_it_wrote(lmc, write):
    path = write("echo.py", ECHO)
    told = lmc("compile", path, "--model", "oracle", "--remarks")
    assert (told.code, told.out) == (0, "")
    assert Path("echo.lmc").stat().st_size > 500
    assert "wrote echo.lmc: echo(text: str = 'hi', times: int = 1) for oracle" in told.err
    assert "fold (level E)" in told.err
    assert lmc("compile", path, "--model", "oracle", "-o", "other.lmc").code == 0
    assert Path("other.lmc").read_bytes() == Path("echo.lmc").read_bytes()


def test_print_after_shows_the_ir_of_a_pass(lmc, write):
    path = write("echo.py", ECHO)
    told = lmc("compile", path, "--model", "oracle", "--print-after", "fold")
    assert told.err.count("// after fold") >= 1
    assert "// after dce" not in told.err
    told = lmc("compile", path, "--model", "oracle", "--print-after", "all")
    assert "// after dce" in told.err


def test_ir_stops_where_it_is_told(lmc):
    captured = lmc("ir", JUDGE, "--passes", "none").out
    folded = lmc("ir", JUDGE, "--after", "fold").out
    whole = lmc("ir", JUDGE).out
    assert "lm.group" in whole
    assert "lm.group" not in captured + folded
    assert folded != captured
    assert lmc("ir", JUDGE, "--passes", "fold").out.count("lm.prologue") == 0


@pytest.mark.parametrize("name", EXAMPLE_NAMES)
@pytest.mark.parametrize("passes", [(), ("--passes=none",)], ids=str)
def test_ir_of_every_example_parses_back_to_the_same_bytes(lmc, tmp_path, name, passes):
    told = lmc("ir", EXAMPLES / f"{name}.py", *passes)
    assert (told.code, told.err) == (0, "")
    text = tmp_path / f"{name}.lmir"
    text.write_text(told.out, encoding="utf-8")
    assert lmc("ir", text).out == told.out


@pytest.mark.parametrize("name", EXAMPLE_NAMES)
def test_ir_and_drawing_of_an_artifact_are_those_of_its_program(lmc, tmp_path, name):
    program, artifact = EXAMPLES / f"{name}.py", tmp_path / f"{name}.lmc"
    assert lmc("compile", program, "--model", "oracle", "-o", artifact).code == 0
    # An artifact runs without its source, so it does not watch the functions there.
    shown = re.sub(r'(, )?"[\w.]+\(\)" = "\w+"', "", lmc("ir", program).out)
    assert lmc("ir", artifact).out == shown
    text = tmp_path / f"{name}.lmir"
    text.write_text(lmc("ir", artifact).out, encoding="utf-8")
    assert lmc("viz", artifact).out == lmc("viz", text).out


def test_viz_writes_a_file(lmc, tmp_path):
    for kind in ("dot", "mermaid"):
        path = tmp_path / f"judge.{kind}"
        told = lmc("viz", JUDGE, "--format", kind, "-o", path)
        assert (told.code, told.out) == (0, "")
        assert str(path) in told.err
        assert path.read_text(encoding="utf-8") == lmc("viz", JUDGE, "--format", kind).out


@pytest.mark.model
def test_pull_finds_what_is_there(lmc):
    told = lmc("pull")
    assert told.code == 0
    assert "model: " in told.err
