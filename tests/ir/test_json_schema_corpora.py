"""The standard's own tests, and real schemas: nothing invalid is accepted."""

import json
from pathlib import Path

import pytest

from lmc.errors import ConstraintError
from lmc.ir.json_schema import compile_json_schema

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
SUITE = DATA / "json_schema_test_suite" / "tests"
BENCH = DATA / "jsonschemabench"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="shared/data is not there")
DIALECTS = {"draft7": "http://json-schema.org/draft-07/schema#", "draft2020-12": None}
PERFECT = {"draft7": 222, "draft2020-12": 230}
"""Groups of the required part that must be right in every test."""


def verdict(schema, tests):
    """Return whether a schema was compiled, and which tests it gets wrong either way."""
    try:
        dfa = compile_json_schema(schema, open_objects=True, max_seconds=10.0)
    except ConstraintError as error:
        if "no valid value" in error.message:
            return True, [], [t for t in tests if t["valid"]]
        return False, [], []
    wrong, missed = [], []
    for test in tests:
        matches = dfa.matches(json.dumps(test["data"], ensure_ascii=False).encode())
        if matches and not test["valid"]:
            wrong.append(test)
        if not matches and test["valid"]:
            missed.append(test)
    return True, wrong, missed


def groups(draft, step):
    found = [
        group
        for path in sorted((SUITE / draft).glob("*.json"))
        for group in json.loads(path.read_text())
    ]
    for group in found[::step]:
        schema = group["schema"]
        if DIALECTS[draft] and isinstance(schema, dict):
            schema = {"$schema": DIALECTS[draft], **schema}
        yield schema, group["tests"]


@needs_data
@pytest.mark.parametrize("draft", list(DIALECTS))
def test_sample_of_the_standard_suite(draft):
    results = [verdict(*group) for group in groups(draft, 9)]
    assert [wrong for _, wrong, _ in results if wrong] == []
    assert sum(compiled and not missed for compiled, _, missed in results) > len(results) / 2


@needs_data
@pytest.mark.long
@pytest.mark.parametrize("draft", list(DIALECTS))
def test_whole_standard_suite(draft):
    results = [verdict(*group) for group in groups(draft, 1)]
    assert [wrong for _, wrong, _ in results if wrong] == []
    assert sum(compiled and not missed for compiled, _, missed in results) >= PERFECT[draft]


def bench(step):
    doubtful = {
        (item["id"], item["test_index"])
        for item in json.loads((BENCH / "labels_not_confirmed.json").read_text())
    }
    rows = [
        json.loads(line)
        for name in ("cases_part1.jsonl", "cases_part2.jsonl")
        for line in (BENCH / name).read_text().splitlines()
    ]
    for row in rows[::step]:
        tests = [t for i, t in enumerate(row["tests"]) if (row["id"], i) not in doubtful]
        yield row["schema"], tests


def check_bench(step):
    results = [verdict(*row) for row in bench(step)]
    assert [wrong for _, wrong, _ in results if wrong] == []
    passed = sum(compiled and not missed for compiled, _, missed in results)
    assert passed >= 0.9 * len(results)


@needs_data
def test_sample_of_real_schemas():
    check_bench(45)


@needs_data
@pytest.mark.long
def test_all_real_schemas():
    check_bench(1)
