"""Profiles: counted, merged, written, read back; what is no profile is refused with one error."""

import copy
import json
from typing import Any

import pytest

from lmc.errors import UsageError
from lmc.ir.calls import CallUsage
from lmc.ir.location import Location
from lmc.ir.profile import Profile
from lmc.ir.profile_file import profile_of, read_profile

CALL = Location("a.py", 12, 5, 12, 20)
BRANCH = Location("a.py", 3, 1, 9, 2)
CASES = (Location("a.py", 4, 10, 4, 12), Location("a.py", 6, 10, 6, 12))


def recorded() -> Profile:
    """Return a profile of two runs."""
    profile = Profile("route")
    for tokens in (7, 3, 4):
        usage = CallUsage(
            prompt_tokens=20, cached_tokens=5, output_tokens=tokens, total_seconds=0.5
        )
        profile.note_call(CALL, "lm.gen", "answer", usage)
    profile.note_call(None, "lm.select", "", CallUsage(prompt_tokens=4))
    for is_first in (True, False, True):
        profile.note_branch(BRANCH, CASES[0], is_first)
    profile.note_branch(BRANCH, CASES[1], False)
    profile.note_run()
    profile.note_run()
    return profile


DATA = recorded().as_data()


def test_the_form_is_the_documented_one():
    assert DATA == {
        "version": 1,
        "program": "route",
        "runs": 2,
        "sites": [
            {
                "at": "", "op": "lm.select", "name": "", "calls": 1, "prompt_tokens": 4,
                "cached_tokens": 0, "output_tokens": {"min": 0, "mean": 0.0, "max": 0, "total": 0},
                "seconds": {"queue": 0.0, "first_token": 0.0, "total": 0.0},
            },
            {
                "at": "a.py:12:5", "op": "lm.gen", "name": "answer", "calls": 3,
                "prompt_tokens": 60, "cached_tokens": 15,
                "output_tokens": {"min": 3, "mean": 4.667, "max": 7, "total": 14},
                "seconds": {"queue": 0.0, "first_token": 0.0, "total": 1.5},
            },
        ],
        "branches": [
            {"at": "a.py:3:1", "op": "cf.if", "test": "a.py:4:10", "taken": [2, 1]},
            {"at": "a.py:3:1", "op": "cf.if", "test": "a.py:6:10", "taken": [0, 1]},
        ],
        "speculation": {"speculated": 0, "adopted": 0, "wasted": 0},
    }  # fmt: skip


def test_a_file_reads_back(tmp_path):
    recorded().save(tmp_path / "run.json")
    assert read_profile(tmp_path / "run.json").as_data() == DATA


def test_profiles_merge():
    profile = recorded()
    profile.merge(profile_of(DATA))
    made = profile.as_data()
    assert made["runs"] == 4
    assert made["sites"][1]["calls"] == 6
    assert made["sites"][1]["output_tokens"] == {"min": 3, "mean": 4.667, "max": 7, "total": 28}
    assert [branch["taken"] for branch in made["branches"]] == [[4, 2], [0, 2]]


def test_what_a_place_took_is_told_in_words():
    assert recorded().took() == {
        (12, 5): "3 calls, 60 prompt tokens, 15 shared, 3..7 output tokens, 4.7 on average, 1.50 s",
        (3, 1): "first arm 2 times, second 1; first arm 0 times, second 1",
    }


def changed(path: str, value: Any) -> Any:
    """Return the data with one thing changed; a value of ... takes it out."""
    data = copy.deepcopy(DATA)
    *steps, last = [int(p) if p.isdigit() else p for p in path.split("/")]
    inner: Any = data
    for step in steps:
        inner = inner[step]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("version", ..., "is no profile"),
        ("version", 2, "has profile version 2; this lmc reads 1"),
        ("version", True, "has profile version True"),
        ("version", "1", "has profile version '1'"),
        ("sites", {}, "damaged profile: 'sites' is no list"),
        ("sites/0", 3, "site 0: 3 is no object"),
        ("sites/1/calls", -1, "site 1: 'calls' is no count"),
        ("sites/1/calls", 0, "site 1: its counts contradict each other"),
        ("sites/1/calls", True, "site 1: 'calls' is no count"),
        ("sites/1/at", "a.py:12", "site 1: 'at' is 'a.py:12', no place"),
        ("sites/1/at", None, "site 1: 'at' is no text"),
        ("sites/1/op", "lm.fork", "site 1: 'op' is 'lm.fork', which calls no model"),
        ("sites/1/cached_tokens", 61, "site 1: its counts contradict each other"),
        ("sites/1/output_tokens", 3, "site 1: 3 is no object"),
        ("sites/1/output_tokens/total", 22, "site 1: its counts contradict each other"),
        ("sites/1/output_tokens/max", 2, "site 1: its counts contradict each other"),
        ("sites/1/seconds/total", float("nan"), "site 1: 'total' is no number of seconds"),
        ("sites/1/seconds/queue", ..., "site 1: 'queue' is no number of seconds"),
        ("branches/1/taken", [1], "branch 1: 'taken' has 1 numbers, not 2"),
        ("branches/1/taken", [1, -1], "branch 1: 'taken' is no count"),
        ("branches/1/op", "cf.for", "branch 1: 'op' is 'cf.for', which is no branch"),
        ("branches/1/test", "x", "branch 1: 'test' is 'x', no place"),
        ("runs", None, "'runs' is no count"),
        ("program", 1, "'program' is no text"),
        ("speculation/wasted", "1", "speculation: 'wasted' is no count"),
    ],
)
def test_a_damaged_profile_is_one_error(tmp_path, path, value, message):
    file = tmp_path / "run.json"
    file.write_text(json.dumps(changed(path, value)))
    with pytest.raises(UsageError) as caught:
        read_profile(file)
    assert caught.value.message.startswith(f"{file} ")
    assert message in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("text", ["", "[1", "\x00\x01", "[]", "3", '{"version": 1}', "[" * 100_000])
def test_a_foreign_file_is_one_error(tmp_path, text):
    file = tmp_path / "run.json"
    file.write_text(text)
    with pytest.raises(UsageError, match="is no profile"):
        read_profile(file)


def test_bytes_that_are_no_text_and_no_file_are_one_error(tmp_path):
    file = tmp_path / "run.json"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="is no profile"):
        read_profile(file)
    with pytest.raises(UsageError, match="no such file"):
        read_profile(tmp_path / "none.json")
