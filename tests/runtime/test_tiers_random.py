"""Pool, tree, host memory and disk against a naive model: what is loaded is what was computed."""

import random
from collections import Counter
from functools import lru_cache

import numpy as np
import pytest

from lmc.runtime.cache.block_file import (
    BLOCK_TOKENS,
    DamagedBlock,
    blocks_of,
    namespace_of,
    read_block,
    write_block,
)
from lmc.runtime.cache.host_tier import HostTier
from lmc.runtime.cache.prefix_cache import PrefixCache

SPACE = namespace_of({})
EMPTY = np.uint64(0)


def states_of(token_ids):
    """Return what the KV of every token of a sequence is: a hash of all tokens up to it."""
    return _states_of(token_ids.astype(np.int32).tobytes())


@lru_cache(maxsize=10_000)
def _states_of(data):
    states, state = [], 0xCBF29CE484222325
    for token in np.frombuffer(data, dtype=np.int32).tolist():
        state = ((state ^ (token + 1)) * 0x100000001B3) % 2**64
        states.append(state)
    return np.array(states, dtype=np.uint64)


class Memory:
    """Two arrays of KV, and the moves between them."""

    def __init__(self, pool_slots, host_slots):
        self.pool = np.full(pool_slots, EMPTY)
        self.host = np.full(host_slots, EMPTY)

    def save(self, pool_slots, host_slots):
        self.host[host_slots] = self.pool[pool_slots]

    def load(self, host_slots, pool_slots):
        self.pool[pool_slots] = self.host[host_slots]

    def write(self, host_slots, data, first):
        values = np.frombuffer(data, dtype=np.uint64)
        self.host[host_slots] = values[first : first + len(host_slots)]


class Machine:
    """Sequences that start, compute, share, end and die over a small pool with tiers."""

    def __init__(self, seed, *, pool_slots, host_slots, folder=None, page_size=1):
        self.rng = random.Random(seed)
        self.memory = Memory(pool_slots, host_slots)
        self.cache = PrefixCache(pool_slots, page_size=page_size)
        self.host = HostTier(host_slots, self.memory, page_size=page_size)
        self.cache.set_lower(self.host)
        self.folder = folder
        self.running = []
        self.known = [np.zeros(0, dtype=np.int32)]
        self.computed = None  # prefix as bytes: how often its last token was computed
        self.num_loaded = self.num_read = 0

    def prompt(self):
        """Return a new sequence that often goes on from an old one."""
        rng = self.rng
        old = rng.choice(self.known[-12:])
        kept = old[: rng.randint(0, len(old))] if rng.random() < 0.4 else old
        size = rng.choice([0, 1, 2, 5, 40])
        new = np.array([rng.randrange(4) for _ in range(size)], dtype=np.int32)
        made = np.concatenate([kept, new])[:80]
        self.known.append(made)
        return made

    def expect(self, ids, slots):
        assert (self.memory.pool[slots] == states_of(ids[: len(slots)])).all()

    def start(self):
        ids = self.prompt()
        handle, slots = self.cache.match_and_lock(ids)
        if self.cache.available < self.cache.new_slots(handle.length, len(ids)):
            self.cache.release(handle)
            return
        before = handle.length
        handle, row = self.cache.load(handle, ids, slots)
        assert handle.length == len(row) >= before
        self.num_loaded += len(row) - before
        self.expect(ids, row)
        own = self.cache.alloc(self.cache.new_slots(len(row), len(ids)))
        assert own is not None
        if self.computed is not None:
            self.computed.update(ids[:end].tobytes() for end in range(len(row) + 1, len(ids) + 1))
        self.memory.pool[own[: len(ids) - len(row)]] = states_of(ids)[len(row) :]
        self.running.append((ids, handle, np.concatenate([row, own])))

    def end(self):
        if not self.running:
            return
        ids, handle, row = self.running.pop(self.rng.randrange(len(self.running)))
        done = self.rng.randint(handle.length, len(ids))
        handle = self.cache.insert(handle, ids[:done], row)
        self.expect(ids, row[:done])
        self.cache.free(row[handle.length :].copy())
        self.cache.release(handle)

    def kill(self):
        """Say that a path is of no use any more."""
        ids = self.rng.choice(self.known[-12:])
        node = self.cache.find(ids)
        length = node.end
        self.cache.mark_dead(node, length, self.rng.randint(0, length))

    def disk(self):
        """Write the blocks of a cached path, or put those of another into host memory."""
        ids = self.rng.choice(self.known[-12:])
        blocks = blocks_of(SPACE, ids)
        if self.rng.random() < 0.5:
            handle, slots = self.cache.match_and_lock(ids)
            for index, block in enumerate(blocks[: handle.length // BLOCK_TOKENS]):
                part = slots[index * BLOCK_TOKENS : (index + 1) * BLOCK_TOKENS]
                write_block(self.folder, SPACE, block, self.memory.pool[part].tobytes())
            self.cache.release(handle)
            return
        start = self.host.match_len(ids) // BLOCK_TOKENS
        data = []
        for block in blocks[start:]:
            path = self.folder / block.file_name
            if path.exists() and self.rng.random() < 0.1:
                content = bytearray(path.read_bytes())
                content[self.rng.randrange(len(content))] ^= 0x10
                path.write_bytes(content)
            try:
                data.append(read_block(self.folder, SPACE, block, 8))
            except FileNotFoundError:
                break
            except DamagedBlock:
                path.unlink()
                break
        end = (start + len(data)) * BLOCK_TOKENS
        self.num_read += self.host.put(ids[:end], start * BLOCK_TOKENS, data)

    def step(self):
        if self.folder is not None and self.rng.random() < 0.25:
            self.disk()
            return
        choice = self.rng.random()
        if choice < 0.5 and len(self.running) < 6:
            self.start()
        elif choice < 0.9:
            self.end()
        elif choice < 0.93:
            self.kill()
        elif choice < 0.931:
            self.cache.flush()

    def check(self):
        self.cache.check(row[handle.length :] for _, handle, row in self.running)
        for ids, _, row in self.running:
            self.expect(ids, row[: len(ids)])
        host = self.host._cache
        for tree, kv in ((self.cache.tree, self.memory.pool), (host.tree, self.memory.host)):
            for node in tree.nodes():
                if not node.children:
                    expected = states_of(tree.path_tokens(node))
                    assert (kv[tree.path_slots(node)] == expected).all()


@pytest.mark.parametrize(
    ("pool_slots", "host_slots", "page_size"),
    [(100, 30, 1), (100, 150, 1), (130, 600, 4), (256, 128, 16)],
)
def test_whatever_happens_loaded_tokens_are_the_right_ones(pool_slots, host_slots, page_size):
    """A hundred thousand operations over all sizes."""
    machine = Machine(
        pool_slots + host_slots,
        pool_slots=pool_slots,
        host_slots=host_slots,
        page_size=page_size,
    )
    for number in range(25_000):
        machine.step()
        if number % 100 == 0:
            machine.check()
    machine.check()
    assert machine.num_loaded > 1000


def test_the_disk_gives_back_what_it_got_or_nothing(tmp_path):
    machine = Machine(1, pool_slots=120, host_slots=200, folder=tmp_path, page_size=4)
    for number in range(4000):
        machine.step()
        if number % 50 == 0:
            machine.check()
    machine.check()
    assert machine.num_read > 100


def test_with_room_below_nothing_that_was_kept_is_computed_twice():
    """Nothing dies here, and every sequence shares all that it computed."""
    machine = Machine(7, pool_slots=200, host_slots=100_000)
    machine.computed = Counter()
    for _ in range(1500):
        machine.start()
        while machine.running:
            ids, handle, row = machine.running.pop()
            machine.cache.release(machine.cache.insert(handle, ids, row))
    machine.check()
    assert machine.num_loaded > 1000
    assert set(machine.computed.values()) == {1}
