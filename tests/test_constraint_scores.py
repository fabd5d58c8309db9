"""Public collections of schemas and patterns: nothing invalid is allowed, little valid refused."""

import pytest
from constraint_scoring import COLLECTIONS, Verdict, score
from pattern_scoring import DATA, PATTERNS, score_pattern
from tokenizers_fetched import tokenizer_named

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not DATA.is_dir(), reason=f"the collections are not at {DATA}"),
    pytest.mark.filterwarnings("ignore:Possible (nested set|set):FutureWarning"),
]
RIGHT = {"suite": 318, "draft7": 226, "optional": 42, "format": 15}
"""Groups that are right in every test."""


def verdicts(collection: str, step: int) -> list[Verdict]:
    """Score every so many of a collection; nothing may be wrong."""
    tokenizer = tokenizer_named("smollm2")
    found = [score(group, tokenizer) for group in COLLECTIONS[collection]()[::step]]
    assert [v.group.name for v in found if v.wrong] == []
    assert [text for v in found for text in v.broken] == []
    refusals = [v.refusal for v in found if v.refusal is not None]
    assert all(refusal.pointer is not None for refusal in refusals)
    return found


@pytest.mark.parametrize(("collection", "step"), [("suite", 16), ("draft7", 23), ("bench", 60)])
def test_sample_of_schemas(collection: str, step: int) -> None:
    found = verdicts(collection, step)
    assert sum(v.is_right for v in found) > 0.7 * len(found)


@pytest.mark.long
@pytest.mark.parametrize("collection", list(RIGHT))
def test_all_of_the_standard_suite(collection: str) -> None:
    assert sum(v.is_right for v in verdicts(collection, 1)) >= RIGHT[collection]


@pytest.mark.long
def test_all_real_schemas() -> None:
    found = verdicts("bench", 1)
    assert len(found) == 901
    assert sum(v.is_right for v in found) >= 0.95 * len(found)
    # Key order told apart: those whose values are all allowed with their properties sorted.
    assert sum(v.refusal is None and not v.missed for v in found) >= 0.97 * len(found)


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.long)])
def test_patterns_mean_what_python_means(step: int) -> None:
    items = list(PATTERNS["regex"]().items())[::step]
    found = [score_pattern(pattern, texts) for pattern, texts in items]
    assert [v.pattern for v in found if v.wrong] == []
    assert sum(v.is_right for v in found) > 0.97 * len(found)
    assert all(v.refusal is None or v.refusal.position is not None for v in found)


@pytest.mark.long
def test_patterns_that_people_write_are_compiled() -> None:
    found = [score_pattern(pattern, texts) for pattern, texts in PATTERNS["written"]().items()]
    seconds = sorted(v.seconds for v in found)
    assert sum(v.refusal is None for v in found) > 0.99 * len(found)
    assert seconds[99 * len(seconds) // 100] < 0.5
