"""200 generations on the real model under 20 patterns: what is finished matches, all end."""

import re
from collections import Counter

import pytest

import lmc
from lmc.backends import open_backend
from lmc.errors import RunError
from lmc.ir.automata import compile_regex
from lmc.ir.automata.dfa import DEAD

pytestmark = pytest.mark.model

PATTERNS = {
    "integer": r"-?(0|[1-9][0-9]{0,5})",
    "digits": r"[0-9]{4}",
    "open digits": r"[0-9]+",
    "date": r"(19|20)[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])",
    "clock": r"([01]?[0-9]|2[0-3]):[0-5][0-9]( ?[ap]m)?",
    "address": r"(([0-9]|[1-9][0-9]|1[0-9]{2})\.){3}[0-9]{1,2}",
    "choice": r"yes|no|maybe|not now|never",
    "nested choice": r"(very |quite |not )*(good|bad|goodish)",
    "grade": r"Grade: [ABCD][+-]?",
    "name": r"[A-Z][a-z]{1,11}( [A-Z]\.)? [A-Z][a-z]{1,14}",
    "mail": r"[a-z][a-z0-9.]{0,15}@[a-z]{2,10}\.(com|org|net)",
    "quoted": r'"[^"\\\n]{0,24}"',
    "record": r'\{"name": "[A-Za-z ]{1,16}", "age": [1-9][0-9]?, "ok": (true|false)\}',
    "list": r"\[([0-9]{1,3}(, [0-9]{1,3}){0,5})?\]",
    "words": r"([a-z]{1,8} ){1,4}[a-z]{1,8}\.",
    "lines": r"(- [a-z ]{3,20}\n){1,3}",
    "unicode": r"[äöüß日本語éè]{1,6}!",
    "lazy": r"<b>.{1,20}?</b>",
    "forced": r"The answer is definitely (42|43)\.",
    "hex": r"#[0-9a-fA-F]{6}|0x[0-9a-f]{2,8}",
}
PROMPTS = [
    "The answer: ",
    "Name: Ada\nValue: ",
    "List of things:\n",
    "Q: What is it?\nA: ",
    "日本 ",
]
LONG = 80
"""Tokens enough for most; `open digits` may go on for ever."""


@lmc.function
def constrained(s, prompt: str, pattern: str, limit: int):
    s += prompt
    s += lmc.gen("x", regex=pattern, max_tokens=limit)
    return {"text": s["x"], "meta": s.get_meta_info("x")}


@lmc.function
def typed_int(s, prompt: str, limit: int):
    s += prompt + lmc.gen("n", type=int, max_tokens=limit)
    return s["n"], s.get_meta_info("n")


@lmc.function
def typed_float(s, prompt: str, limit: int):
    s += prompt + lmc.gen("n", type=float, max_tokens=limit)
    return s["n"], s.get_meta_info("n")


@pytest.fixture(scope="module")
def engine():
    return open_backend()


@pytest.fixture(scope="module")
def results(engine):
    """200 generations: per pattern five prompts sampled, three greedy, two with few tokens."""
    batch = []
    for pattern in PATTERNS.values():
        batch += [{"prompt": p, "pattern": pattern, "limit": LONG} for p in PROMPTS]
        batch += [{"prompt": p, "pattern": pattern, "limit": 3} for p in PROMPTS[:2]]
    sampled = constrained.run_batch(batch, backend=engine, seed=8, temperature=1.0)
    given = [(item, run) for item, run in zip(batch, sampled, strict=True)]
    batch = [
        {"prompt": p, "pattern": pattern, "limit": LONG}
        for pattern in PATTERNS.values() for p in PROMPTS[:3]
    ]  # fmt: skip
    greedy = constrained.run_batch(batch, backend=engine, seed=8, temperature=0)
    return given + [(item, run) for item, run in zip(batch, greedy, strict=True)]


def test_there_are_200_over_20_patterns(results):
    assert len(PATTERNS) == 20
    assert len(results) == 200


def test_finished_ones_match_and_cut_ones_say_so(results):
    ends = Counter()
    for item, run in results:
        text, meta = run.value["text"], run.value["meta"]
        where = (item, text, meta["finish_reason"])
        ends[meta["finish_reason"]] += 1
        assert meta["completion_tokens"] <= item["limit"], where
        if meta["finish_reason"] == "stop":
            assert meta["complete"] is True, where
            assert re.fullmatch(item["pattern"], text), where
        else:
            assert meta["finish_reason"] == "length", where
            assert meta["complete"] is False, where
            assert run.usage.output_tokens == item["limit"], where
    assert ends["stop"] > 120
    assert ends["length"] > 20


def test_what_is_cut_can_still_become_a_match(results):
    automata = {pattern: compile_regex(pattern) for pattern in PATTERNS.values()}
    for item, run in results:
        dfa = automata[item["pattern"]]
        whole = run.value["text"].encode()
        # A character that the limit cut is not in the text.
        assert dfa.step(dfa.start, whole) != DEAD, (item, whole)
    dates = automata[PATTERNS["date"]]
    assert dates.step(dates.start, b"2024-13") == DEAD


def test_every_pattern_was_finished_by_some(results):
    finished = {
        item["pattern"] for item, run in results if run.value["meta"]["finish_reason"] == "stop"
    }
    assert finished >= set(PATTERNS.values()) - {PATTERNS["open digits"]}


def test_the_text_is_what_stands_in_the_prompt(results):
    for item, run in results:
        assert run.text() == item["prompt"] + run.value["text"]


@pytest.mark.parametrize("program", [typed_int, typed_float], ids=["int", "float"])
def test_typed_reads_of_cut_numbers_fail(engine, program):
    kind = {"typed_int": int, "typed_float": float}[program.name]
    prompts = [f"{n} times {n + 1} is exactly " for n in range(3, 9)]
    outcomes = Counter()
    for limit in (1, 24):
        for number, prompt in enumerate(prompts):
            options = {"backend": engine, "seed": number, "temperature": 1.0}
            try:
                run = program.run(prompt=prompt, limit=limit, **options)
            except RunError as error:
                outcomes["cut"] += 1
                told = str(error)
            else:
                outcomes["read"] += 1
                told, (value, meta) = "", run.value
                assert type(value) is kind
                assert (meta["finish_reason"], meta["complete"]) == ("stop", True)
            if told:
                assert "was cut before it was complete" in told
                assert f"max_tokens (now {limit})" in told
                assert "test_regex_generations.py:" in told
                assert prompt[-12:] in told
    assert outcomes["cut"] >= 3
    assert outcomes["read"] >= 3


def test_plain_text_that_was_cut_stays_readable(engine):
    run = constrained.run(
        prompt="Digits: ", pattern=r"[0-9]+", limit=5, backend=engine, temperature=0
    )
    assert re.fullmatch("[0-9]{5,}", run.value["text"])
    assert run.value["meta"]["finish_reason"] in ("length", "stop")
