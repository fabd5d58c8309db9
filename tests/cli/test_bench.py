"""`lmc bench`: rows that are measured, results that are compared, wrong use that is told."""

import json
import re

import pytest
from command_support import EXAMPLES
from sharing.replay import ReplayModel, words_of

from lmc.backends import LoadedModel
from lmc.benching import source as bench
from lmc.codegen.target import oracle_target

PROGRAM = """
TIMES = []


@lmc.function
def ask(s, question: str):
    s += "Here is a question, answer it in the ways that you are told to answer it.\\n"
    s += "Question: " + question + "\\n"
    forks = s.fork(2)
    for i, fork in enumerate(forks):
        fork += f"Answer {i}:" + lmc.gen("answer", max_tokens=5, temperature=0.7)
    s += forks[0]["answer"] + lmc.gen("last", regex="[a-d]{3}", max_tokens=4)
    return [fork["answer"] for fork in forks] + [s["last"]]


def count():
    TIMES.append(1)
    return len(TIMES)


@lmc.function
def restless(s):
    s += f"{count()}:" + lmc.gen("x", max_tokens=2, temperature=0)
    return s["x"]


@lmc.function
def failing(s, n: int):
    s += "Say:" + lmc.gen("x", max_tokens=2)
    return 1 // (n - 1)
"""

ROWS = '{"question": "Is it wet?"}\n{"question": "Is it far?"}\n{"question": "Is it late?"}\n'


@pytest.fixture
def weightless(monkeypatch):
    """Have bench open a model without weights, with the oracle's tokenizer."""
    target = oracle_target()
    model = ReplayModel(target.tokenizer.vocab_size, words_of(target.tokenizer))
    loaded = LoadedModel(model, target)
    monkeypatch.setattr(bench, "load_model", lambda *args, **options: loaded)
    monkeypatch.setattr("lmc.backends.open_target", lambda model: target)


@pytest.fixture
def program(write, weightless, tmp_path):
    """The program's file, with three questions beside it."""
    (tmp_path / "rows.jsonl").write_text(ROWS)
    return write("asking.py", PROGRAM)


def rows_of(told):
    return {row["name"]: row["median"] for row in json.loads(told.out)["rows"]}


def test_eager_and_compiled_are_measured(lmc, program):
    told = lmc("bench", f"{program}:ask", "--args", "rows.jsonl", "--repeat", 2)
    assert told.code == 0, told.err
    assert "ask on oracle: 3 runs, 9 calls, medians of 2 repeats" in told.out
    assert re.search(r"^eager +[\d,]+ \(\d\.\d\d\) ", told.out, re.M)
    assert re.search(r"^compiled +[\d,]+ +\d+ +\d+ +\d", told.out, re.M)
    assert told.out.rstrip().endswith("results: equal in all rows and repeats")


def test_each_ablation_leaves_something_out(lmc, program):
    told = lmc("bench", f"{program}:ask", "--args", "rows.jsonl", "--ablate", "--json",
               "--repeat", 1)  # fmt: skip
    assert told.code == 0, told.err
    payload, rows = json.loads(told.out), rows_of(told)
    assert payload["equal"]
    assert payload["version"] == 1
    assert list(rows) == [
        "eager", "compiled", "no prefix cache", "first come first served", "random order",
        "plain LRU eviction", "no program parallelism", "no fork groups",
        "constraints not reused",
    ]  # fmt: skip
    least = payload["least_tokens"]
    assert least <= rows["compiled"]["computed"] <= least + rows["compiled"]["calls"]
    assert rows["no prefix cache"]["computed"] > 2 * least
    # One branch after the other: two generations of five tokens before the last one.
    assert rows["compiled"]["chain"] < rows["no program parallelism"]["chain"]
    for row in payload["rows"]:
        assert len(row["samples"]) == 1
        assert row["ratio"]["computed"] == pytest.approx(
            row["median"]["computed"] / rows["compiled"]["computed"]
        )


def test_the_engine_gets_what_a_row_says(lmc, program, monkeypatch):
    opened = []
    open_engine = LoadedModel.open_engine

    def noted(self, **options):
        opened.append(options)
        return open_engine(self, **options)

    monkeypatch.setattr(LoadedModel, "open_engine", noted)
    args = ("bench", f"{program}:ask", "--args", "rows.jsonl", "--repeat", 1, "--ablate")
    assert lmc(*args, "--slots", 2048).code == 0
    told = [{key: value for key, value in each.items() if key != "num_slots"} for each in opened]
    assert {"cache": "none"} in told
    assert {"order": "arrival"} in told
    assert {"order": "random"} in told
    assert {"eviction": "recency"} in told
    assert {"reuse_constraints": False} in told
    assert all(each["num_slots"] == 2048 for each in opened)


def test_constraints_are_compiled_once_or_for_each_call(lmc, program, monkeypatch):
    from lmc.runtime.constraint import cache
    from lmc.runtime.engine import compile_pool

    compiled = []
    bind = cache.bind

    def noted(language, tokenizer):
        compiled.append(language)
        return bind(language, tokenizer)

    for module in (cache, compile_pool):
        monkeypatch.setattr(module, "bind", noted)
    args = ("bench", f"{program}:ask", "--args", "rows.jsonl", "--repeat", 1)
    assert lmc(*args).code == 0
    assert len(compiled) == 2, "once per row"
    assert lmc(*args, "--ablate").code == 0
    assert len(compiled) == 2 + 8 + 3, "once per row, and per call in one"


def test_different_results_are_told(lmc, program):
    told = lmc("bench", f"{program}:restless", "--repeat", 1)
    assert told.code == 1
    assert "results DIFFER from those of 'eager' in: compiled" in told.out


def test_an_artifact_has_no_eager_row(lmc, program, tmp_path):
    artifact = tmp_path / "ask.lmc"
    assert lmc("compile", f"{program}:ask", "-o", artifact).code == 0
    told = lmc("bench", artifact, "--args", "rows.jsonl", "--repeat", 1, "--json")
    assert told.code == 0, told.err
    assert list(rows_of(told)) == ["compiled"]


def test_wrong_use_is_told(lmc, program, tmp_path):
    asking = f"{program}:ask"
    told = lmc("bench", asking, "--args", "rows.jsonl", "--model", "oracle")
    assert told.code == 2
    assert "the oracle computes nothing" in told.err
    assert "missing a required argument: 'question'" in lmc("bench", asking).err
    (tmp_path / "empty.jsonl").write_text("\n")
    told = lmc("bench", asking, "--args", "empty.jsonl")
    assert (told.code, told.out) == (2, "")
    assert "empty.jsonl has no arguments, so there is nothing to measure" in told.err
    (tmp_path / "bad.jsonl").write_text('{"question": 3}\n{"question": "x"')
    assert "line 1 of bad.jsonl" in lmc("bench", asking, "--args", "bad.jsonl").err
    assert "cannot read none.jsonl" in lmc("bench", asking, "--args", "none.jsonl").err
    assert lmc("bench", asking, "--args", "rows.jsonl", "--repeat", 0).code == 2
    assert "has several programs" in lmc("bench", program).err


def test_a_run_that_fails_is_told_with_its_row(lmc, program, tmp_path):
    (tmp_path / "n.jsonl").write_text('{"n": 3}\n{"n": 1}\n')
    told = lmc("bench", f"{program}:failing", "--args", "n.jsonl", "--repeat", 1)
    assert told.code == 1
    assert "eager, run 2: ZeroDivisionError" in told.err
    assert "asking.py:" in told.err


@pytest.mark.model
def test_the_real_model_is_measured(lmc):
    told = lmc("bench", EXAMPLES / "few_shot.py", "--repeat", 1, "--json",
               "--arg", "question=Ben picked 12 apples and ate 3. How many are left?")  # fmt: skip
    assert told.code == 0, told.err
    payload = json.loads(told.out)
    assert payload["equal"]
    assert payload["model"].startswith("SmolLM2")
    assert all(row["median"]["seconds"] > 0 for row in payload["rows"])
