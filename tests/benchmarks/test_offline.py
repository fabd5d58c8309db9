"""The offline optimum of recorded calls against brute force on tiny cases."""

import random
from functools import cache
from itertools import combinations, permutations

import pytest
from sharing.offline import Call, best_offline, depth_first, schedule_cost
from sharing.trie import Trie

from lmc.benching.measure import least_computed
from lmc.ir.token_trie import trie_size


def prefixes(sequences):
    return {tuple(s[: n + 1]) for s in sequences for n in range(len(s))}


def random_calls(seed):
    """Return up to four calls of few short tokens that may wait for earlier ones."""
    draw = random.Random(seed)
    calls = []
    for number in range(draw.randint(2, 4)):
        context = tuple(draw.choices((0, 1), k=draw.randint(1, 4)))
        made = tuple(draw.choices((0, 1), k=draw.randint(0, 2)))
        after = frozenset(n for n in range(number) if draw.random() < 0.2)
        if draw.random() < 0.25:  # a score of two options
            calls.append(Call(context, [context + made, (*context, 2)], (), after))
        else:
            calls.append(Call(context, [context + made], made, after))
    return calls


def least(calls):
    sequences = [s for call in calls for s in call.sequences]
    return least_computed(sequences, [(call.context, call.made) for call in calls])


def cost_of(call, held):
    """Return the tokens that a call computes, by its definition, token by token."""
    path = prefixes(call.sequences)
    computed = len(path - held)
    context = tuple(call.context)
    if context in held:
        computed += 1
        whole = context + tuple(call.made)
        computed += sum(whole[:n] in held for n in range(len(context) + 1, len(whole) + 1))
    return computed


def kept_choices(held, path, capacity):
    """Yield every largest set of tokens that may stay: closed under prefixes, with the path."""
    others = sorted(held - path)
    for size in range(min(len(others), capacity - len(path)), -1, -1):
        found = False
        for chosen in combinations(others, size):
            kept = frozenset(path | set(chosen))
            if all(len(token) == 1 or token[:-1] in kept for token in kept):
                found = True
                yield kept
        if found:
            return


def brute_force(calls, capacity, order=None):
    """Return the least cost over all orders (or of one) and all evictions."""

    @cache
    def rest(done, held):
        left = [n for n in range(len(calls)) if n not in done]
        if not left:
            return 0
        if order is not None:
            left = [order[len(done)]]
        costs = []
        for number in left:
            call = calls[number]
            if call.after <= done:
                path = prefixes(call.sequences)
                now = cost_of(call, held)
                choices = kept_choices(held, path, capacity)
                costs.append(now + min(rest(done | {number}, kept) for kept in choices))
        return min(costs)

    return rest(frozenset(), frozenset())


def feasible(calls, order):
    return all(calls[n].after <= set(order[:place]) for place, n in enumerate(order))


SEEDS = range(120)


def capacities(calls):
    longest = max(len(prefixes(call.sequences)) for call in calls)
    return range(longest, longest + 3)


@pytest.mark.parametrize("start", range(0, 120, 30))
def test_belady_is_the_best_eviction_of_an_order(start):
    for seed in SEEDS[start : start + 30]:
        calls = random_calls(seed)
        orders = [o for o in permutations(range(len(calls))) if feasible(calls, o)]
        order = orders[seed % len(orders)]
        for capacity in capacities(calls):
            found = schedule_cost(calls, order, capacity, "belady")
            assert found == brute_force(calls, capacity, order), (seed, capacity)
            assert schedule_cost(calls, order, capacity, "recency") >= found


@pytest.mark.parametrize("start", range(0, 120, 30))
def test_the_optimum_lies_between_the_bounds(start):
    num_met = total = 0
    for seed in SEEDS[start : start + 30]:
        calls = random_calls(seed)
        for capacity in capacities(calls):
            best = brute_force(calls, capacity)
            found = best_offline(calls, capacity)
            assert least(calls) <= best <= found, (seed, capacity)
            num_met += found == best
            total += 1
    assert num_met / total > 0.7, "the order that is tried is mostly the best one"


def test_the_trie_counts_distinct_prefixes():
    for seed in SEEDS:
        calls = random_calls(seed)
        sequences = [s for call in calls for s in call.sequences]
        assert trie_size(sequences) == len(prefixes(sequences))
        trie = Trie([call.sequences for call in calls])
        assert trie.size == len(prefixes(sequences))
        for call, path in zip(calls, trie.paths, strict=True):
            assert sum(edge.length for edge in path) == len(prefixes(call.sequences))


def test_what_is_generated_again_counts_again():
    context, made = (1, 2, 3), (4, 5)
    calls = [Call(context, [context + made], made)] * 3
    assert trie_size([context + made]) == 5
    assert least(calls) == 5 + 2 * 2
    # The two that come later also compute the context's last token again.
    assert best_offline(calls, 5) == 5 + 2 * 3
    assert brute_force(calls, 5) == 5 + 2 * 3


def test_orders_respect_what_calls_wait_for():
    for seed in SEEDS:
        calls = random_calls(seed)
        assert feasible(calls, depth_first(calls))
    with pytest.raises(ValueError, match="circle"):
        depth_first(
            [Call((1,), [(1,)], (), frozenset({1})), Call((2,), [(2,)], (), frozenset({0}))]
        )


def test_depth_first_shares_where_arrival_does_not():
    heads = [tuple(range(10 * n, 10 * n + 9)) for n in range(3)]
    calls = [Call((*heads[i % 3], 100 + i), [(*heads[i % 3], 100 + i)]) for i in range(9)]
    assert schedule_cost(calls, range(9), 15, "recency") == 90
    assert best_offline(calls, 15) == least(calls) == 3 * 9 + 9


def test_a_memory_that_is_too_small_for_a_call_is_refused():
    with pytest.raises(ValueError, match="needs 4 tokens, the memory holds 3"):
        best_offline([Call((1, 2, 3, 4), [(1, 2, 3, 4)])], 3)
