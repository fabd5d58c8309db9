"""Masks, accept, rollback, fork and ends agree on random walks, on three real tokenizers."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from constraint_walks import CONSTRAINTS, walk
from tokenizers_fetched import NAMES, tokenizer_named

from lmc.codegen.tokenizer import FastTokenizer

pytestmark = pytest.mark.model
STEPS = 7_000
LONG_STEPS = 350_000
THREADS = 6


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


def walk_side_by_side(tokenizer: FastTokenizer, name: str, steps: int) -> int:
    """Compare walks one after another with the same ones in threads; returns all steps."""
    used = CONSTRAINTS[name].compile(tokenizer)
    alone = [walk(used, seed, steps).digest.hexdigest() for seed in range(THREADS)]
    # Nobody has used this one yet, so that its masks are computed by several at once.
    fresh = CONSTRAINTS[name].compile(tokenizer, eos_token_ids=tokenizer.eos_ids)
    with ThreadPoolExecutor(THREADS) as pool:
        tasks = [pool.submit(walk, fresh, seed, steps) for seed in range(THREADS)]
        assert [task.result().digest.hexdigest() for task in tasks] == alone
    return 2 * THREADS * steps


@pytest.mark.parametrize("name", ["object", "words", "characters"])
def test_walks_side_by_side_see_what_one_sees_alone(name: str) -> None:
    walk_side_by_side(tokenizer_named("smollm2"), name, 200)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_all_walks_side_by_side(name: str) -> None:
    tokenizer = tokenizer_named(name)
    assert sum(walk_side_by_side(tokenizer, each, 300) for each in CONSTRAINTS) > 50_000
