"""Forced text is written in the tokenizer's own ids: against the encodings of whole texts.

The oracle is the tokenizer: for a text that a constraint allows, whatever ids are forced at any
place of its encoding must be the next ids of that encoding.
"""

import json
import random

import pytest
from tokenizers_fetched import DATA, NAMES, tokenizer_named

from lmc.codegen.tokenizer import FastTokenizer
from lmc.errors import ConstraintError
from lmc.ir.automata import DEAD, ByteDfa, compile_regex
from lmc.ir.json_schema import compile_json_schema
from lmc.runtime.constraint import RegexConstraint
from lmc.runtime.oracle_text import Draw, random_match

CASES = {
    "integer fields": (
        r'\{"n": -?(0|[1-9][0-9]*), "m": [0-9]+\}',
        ['{"n": 0, "m": 007}', '{"n": -12345, "m": 9}'],
    ),
    "names that begin alike": (
        r'\{"(order|orderName|orderId|orderId2)": "[a-z]+"\}',
        ['{"order": "a"}', '{"orderName": "abc"}', '{"orderId": "x"}', '{"orderId2": "the"}'],
    ),
    "a name that is punctuation": (
        r'\{"/": "[a-z]*", "a/b": [0-9]\}',
        ['{"/": "", "a/b": 1}', '{"/": "x", "a/b": 2}'],
    ),
    "beyond ASCII": (
        r'\{"größe": "(é|è|日本語|日本)", "名": "[あ-ん]{1,3}"\}',
        ['{"größe": "é", "名": "あん"}', '{"größe": "日本語", "名": "い"}'],
    ),
    "white space": (
        r"a {1,3}b\n\n?\tc( \n)*d",
        ["a b\n\tcd", "a   b\n\n\tc \n \nd", "a  b\n\tc \nd"],
    ),
    "words that go on": (
        r"(sky|skill|skills)ful cloud(y|s's|'s)",
        ["skyful cloudy", "skillful cloud's", "skillsful clouds's"],
    ),
    "numbers in groups": (r"(1|12|123)456 7890?", ["1456 789", "12456 7890", "123456 789"]),
    "a combining mark": ("e(\u0301)? cafe(\u0301|s)", ["e cafes", "e\u0301 cafe\u0301"]),
}


def walk(constraint: RegexConstraint, ids: list[int], *, where: object = "") -> int:
    """Follow an encoding; return how many of its ids were forced."""
    state, at, forced = constraint.dfa.start, 0, 0
    while at < len(ids):
        run = constraint.runs.after(state, ids[:at])
        assert list(run) == ids[at : at + len(run)], f"{where}: after {ids[:at]}"
        forced += len(run)
        for token_id in run or ids[at : at + 1]:
            state = constraint.advance(state, token_id)
            assert state != DEAD, where
            at += 1
    return forced


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", CASES)
def test_forced_ids_are_those_of_the_whole_text(case: str, name: str) -> None:
    tokenizer = tokenizer_named(name)
    pattern, texts = CASES[case]
    constraint = RegexConstraint(compile_regex(pattern), tokenizer)
    for text in texts:
        assert constraint.dfa.matches(text.encode()), text
        ids = tokenizer.encode(text)
        if b"".join(tokenizer.token_bytes()[i] or b"" for i in ids) == text.encode():
            walk(constraint, ids, where=text)


@pytest.mark.parametrize("name", NAMES)
def test_most_of_a_template_is_forced(name: str) -> None:
    tokenizer = tokenizer_named(name)
    pattern = (
        r'\{"first name": "[A-Z][a-z]+", "years of age": [0-9]+, "is a member": (true|false)\}'
    )
    constraint = RegexConstraint(compile_regex(pattern), tokenizer)
    ids = tokenizer.encode('{"first name": "Maria", "years of age": 41, "is a member": true}')
    assert walk(constraint, ids) > len(ids) / 2


def random_pattern(rng: random.Random) -> str:
    """Return a pattern with forced stretches between choices, and borders that merge."""
    words = ["the", " the", "order", '": "', '", "', " ", "  ", "\n", "é", "1", "23"]
    words += ["'s", "don't", ", ", "{", "}", "日本", "🙂"]
    parts = []
    for _ in range(rng.randint(2, 6)):
        count = rng.choice([1, 1, 1, 2, 3])
        options = ["".join(rng.choices(words, k=rng.randint(1, 3))) for _ in range(count)]
        often = rng.choice(["", "", "", "?", "{0,2}"])
        parts.append("(?:" + "|".join(map(_escaped, options)) + ")" + often)
    return "".join(parts)


def _escaped(text: str) -> str:
    return "".join("\\" + c if c in r"{}|()[]?*+.\^$" else c for c in text)


@pytest.mark.parametrize("name", NAMES)
def test_forced_ids_of_random_patterns(name: str) -> None:
    tokenizer = tokenizer_named(name)
    rng = random.Random(f"forced {name}")
    forced = total = 0
    for number in range(50):
        dfa = compile_regex(random_pattern(rng))
        try:
            constraint = RegexConstraint(dfa, tokenizer)
        except ConstraintError:
            continue
        for sample in range(4):
            text = random_match(dfa, Draw(number, sample))
            ids = tokenizer.encode(text)
            if b"".join(tokenizer.token_bytes()[i] or b"" for i in ids) == text.encode():
                forced += walk(constraint, ids, where=text)
                total += len(ids)
    assert total > 1000
    assert forced > 0.3 * total


def test_ids_that_no_encoder_writes_are_gone_on_from() -> None:
    """After a spelling of the model's own, the rest is written as it stands."""
    tokenizer = tokenizer_named("smollm2")
    constraint = RegexConstraint(compile_regex(r'(na|no)me": [0-9]'), tokenizer)
    own = [tokenizer.encode(char)[0] for char in "na"]
    state = constraint.dfa.step(0, b"na")
    run = constraint.runs.after(state, own)
    assert tokenizer.decode(run) == 'me": '
    assert list(run) == tokenizer.encode('me": ')


def real_instances(count: int) -> list[tuple[ByteDfa, str]]:
    """Return automata of real schemas, with texts that they allow."""
    found: list[tuple[ByteDfa, str]] = []
    for line in (DATA / "jsonschemabench" / "cases_part1.jsonl").read_text().splitlines():
        record = json.loads(line)
        try:
            dfa = compile_json_schema(record["schema"])
        except ConstraintError:
            continue
        for test in record["tests"]:
            text = json.dumps(test["data"], ensure_ascii=False)
            if test["valid"] and dfa.matches(text.encode()):
                found.append((dfa, text))
        if len(found) >= count:
            break
    return found[:count]


def share_forced(tokenizer: FastTokenizer, instances: list[tuple[ByteDfa, str]]) -> float:
    """Return the share of tokens that are forced."""
    forced = total = 0
    for dfa, text in instances:
        ids = tokenizer.encode(text)
        forced += walk(RegexConstraint(dfa, tokenizer), ids, where=text)
        total += len(ids)
    return forced / total


@pytest.mark.skipif(not DATA.is_dir(), reason="shared/data is not there")
def test_forced_ids_of_real_schemas() -> None:
    instances = real_instances(15)
    for name in NAMES:
        assert share_forced(tokenizer_named(name), instances) > 0.1, name


@pytest.mark.long
@pytest.mark.skipif(not DATA.is_dir(), reason="shared/data is not there")
def test_forced_ids_of_500_instances_of_real_schemas() -> None:
    instances = real_instances(500)
    assert len(instances) == 500
    for name in NAMES:
        share = share_forced(tokenizer_named(name), instances)
        print(f"{name}: {share:.1%} of the tokens are forced")
        assert share > 0.2
