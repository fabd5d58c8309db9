"""What the prefix cache costs: match, insert and eviction, in CPU time per operation.

    python benchmarks/bench_cache.py [--page-size 16] [--model]

Trees of several sizes show that a match costs as much as the path has nodes, and an eviction as
much as it drops, however many nodes there are. With `--model` also the cache's share of the CPU
time of the engine's thread, when the default model answers prompts that have nothing in common.
"""

import argparse
import threading
import time
from collections.abc import Callable

import numpy as np

from lmc.backends import load_model
from lmc.ir.calls import GenCall, SamplingParams
from lmc.runtime.cache.prefix_cache import PrefixCache, TokenArray
from lmc.runtime.cache.radix_tree import RadixTree
from lmc.runtime.engine.engine import Engine

VOCAB = 50_000
LENGTH = 2_000
SIZES = (100, 1_000, 10_000)
"""Leaves of a tree."""


def timed(action: Callable[[], object], repeats: int) -> float:
    """Return the microseconds of CPU time of an action: the least of five means."""
    best = float("inf")
    for _ in range(5):
        begun = time.process_time()
        for _ in range(repeats):
            action()
        best = min(best, (time.process_time() - begun) / repeats)
    return best * 1e6


def put(cache: PrefixCache, tokens: TokenArray) -> None:
    """Compute tokens and leave them in the tree."""
    handle, slots = cache.match_and_lock(tokens)
    own = cache.alloc(len(tokens) - len(slots))
    assert own is not None, "the cache is large enough"
    handle = cache.insert(handle, tokens, np.concatenate([slots, own]))
    cache.release(handle)


def forest(rng: np.random.Generator, leaves: int, page_size: int) -> PrefixCache:
    """Return a tree of so many leaves: four pages below one of a hundred common beginnings."""
    cache = PrefixCache(16 * page_size * leaves, page_size=page_size)
    stems = rng.integers(0, VOCAB, (100, 4 * page_size), dtype=np.int32)
    for index in range(leaves):
        end = rng.integers(0, VOCAB, 4 * page_size, dtype=np.int32)
        put(cache, np.concatenate([stems[index % 100], end]))
    return cache


def bench_paths(rng: np.random.Generator, page_size: int) -> None:
    """Match and insert paths of 2,000 tokens."""
    length = LENGTH - LENGTH % page_size
    cache = PrefixCache(40 * LENGTH, page_size=page_size)
    tokens = rng.integers(0, VOCAB, length, dtype=np.int32)
    put(cache, tokens)
    wanted = tokens.copy()

    def lock_and_release() -> None:
        cache.release(cache.match_and_lock(wanted)[0])

    def show(nodes: int) -> None:
        match, whole = timed(lambda: cache.match_len(wanted), 200), timed(lock_and_release, 200)
        print(f"match of {length} tokens in {nodes:2} nodes    {match:8.1f}")
        print(f"  and lock, slots, release          {whole:8.1f}")

    show(1)
    for cut in range(160, 1760, 160):
        put(cache, np.concatenate([tokens[:cut], rng.integers(0, VOCAB, 16, dtype=np.int32)]))
    show(11)

    def insert_and_drop() -> None:
        put(cache, tokens[::-1])
        cache.flush()

    cache.flush()
    print(f"insert and flush of {length} tokens    {timed(insert_and_drop, 50):8.1f}")


def bench_eviction(rng: np.random.Generator, leaves: int, page_size: int) -> None:
    """Evict page by page: leaves that nobody holds, and, in another tree, leaves all held."""

    def evict() -> None:
        slots = cache.tree.evict(page_size)
        assert len(slots) == page_size, "there is something to evict"

    cache = forest(rng, leaves, page_size)
    spare = timed(evict, 15)
    cache = forest(rng, leaves, page_size)
    for index, node in enumerate(node for node in cache.tree.nodes() if not node.children):
        cache.tree.hold(node, (0, index))
    held = timed(evict, 15)
    print(f"evict a page of {cache.tree.num_nodes:6} nodes {spare:8.1f}, all held {held:8.1f}")


WATCHED = {
    PrefixCache: ("match_len", "find", "match_and_lock", "alloc", "insert", "release", "free"),
    RadixTree: ("hold", "unhold", "rerank", "mark_dead"),
}
"""What the engine asks of the cache in a run."""


class Stopwatch:
    """The CPU seconds that one thread spends in watched methods, inner calls counted once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._is_running = False

    def watch(self, owner: type, name: str) -> None:
        """Count the time of a method from now on."""
        inner = getattr(owner, name)

        def outer(*args: object, **keywords: object) -> object:
            if self._is_running:
                return inner(*args, **keywords)
            self._is_running, begun = True, time.thread_time()
            try:
                return inner(*args, **keywords)
            finally:
                self.seconds += time.thread_time() - begun
                self._is_running = False

        setattr(owner, name, outer)


def bench_share(rng: np.random.Generator, page_size: int) -> None:
    """Answer prompts without any reuse, in a pool that has to evict."""
    watch = Stopwatch()
    for owner, names in WATCHED.items():
        for name in names:
            watch.watch(owner, name)
    loaded = load_model(None)
    params = SamplingParams(temperature=0.0, max_tokens=32, ignore_eos=True)
    ended = threading.Semaphore(0)
    with Engine(
        loaded.model, loaded.target, num_slots=3008, page_size=page_size, threads=1
    ) as engine:
        begun = engine._ask(time.thread_time)
        for _ in range(16):
            prompt = tuple(rng.integers(100, 40_000, 200).tolist())
            engine.submit_gen(GenCall(prompt, params), lambda _: ended.release())
        for _ in range(16):
            ended.acquire()
        total = engine._ask(time.thread_time) - begun
        stats = engine.cache_stats()
    assert stats.hit_tokens == 0 < stats.evicted_tokens, stats
    share = watch.seconds / total
    print(
        f"share of a run without reuse: {share:.2%}, {watch.seconds * 1e3:.1f} ms of {total:.1f} s"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page-size", type=int, default=1)
    parser.add_argument("--model", action="store_true")
    options = parser.parse_args()
    page_size = options.page_size
    rng = np.random.default_rng(0)
    print(f"microseconds of CPU time, pages of {page_size}")
    bench_paths(rng, page_size)
    for leaves in SIZES:
        bench_eviction(rng, leaves, page_size)
    if options.model:
        bench_share(rng, page_size)


if __name__ == "__main__":
    main()
