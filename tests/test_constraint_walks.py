"""Masks, accept, rollback, fork and ends agree on random walks, on three real tokenizers."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from constraint_walks import CONSTRAINTS, walk
from tokenizers_fetched import NAMES, tokenizer_named

pytestmark = pytest.mark.model
STEPS = 7_000
LONG_STEPS = 350_000


def walk_all(name: str, steps: int, every: int) -> tuple[int, int]:
    """Walk through all constraints; returns steps taken, places compared with brute force."""
    tokenizer = tokenizer_named(name)
    share = steps // len(CONSTRAINTS)
    limits = [constraint.compile(tokenizer) for constraint in CONSTRAINTS.values()]
    walks = [walk(limit, 1, share, every) for limit in limits]
    return sum(w.steps for w in walks), sum(w.compared for w in walks)


@pytest.mark.parametrize("name", NAMES)
def test_short_walks(name: str) -> None:
    steps, compared = walk_all(name, STEPS, 400)
    assert steps > STEPS - len(CONSTRAINTS)
    assert compared == len(CONSTRAINTS)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_a_million_steps(name: str) -> None:
    steps, compared = walk_all(name, LONG_STEPS, 3_000)
    assert steps > LONG_STEPS - len(CONSTRAINTS)
    assert compared > 100


@pytest.mark.parametrize("name", ["object", "words", "characters"])
def test_walks_side_by_side_see_what_one_sees_alone(name: str) -> None:
    tokenizer = tokenizer_named("smollm2")
    used = CONSTRAINTS[name].compile(tokenizer)
    alone = [walk(used, seed, 200).digest.hexdigest() for seed in range(6)]
    # Nobody has used this one yet, so that its masks are computed by several at once.
    fresh = CONSTRAINTS[name].compile(tokenizer, eos_token_ids=tokenizer.eos_ids)
    with ThreadPoolExecutor(6) as pool:
        tasks = [pool.submit(walk, fresh, seed, 200) for seed in range(6)]
        assert [task.result().digest.hexdigest() for task in tasks] == alone
