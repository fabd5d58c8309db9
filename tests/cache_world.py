"""A prefix cache and a naive model of it, driven side by side by random operations.

The naive model keeps one entry per cached page, named by its namespace and all tokens down to its
end. Locks, times and holds are per page, and eviction removes one page at a time: of the unlocked
pages without a successor the one used longest ago that nobody holds; if all are held, the one
whose most urgent hold has the highest rank.

A world has few pages, so that they are always short. `OPERATIONS` says how often which operation
comes; a subclass may add its own and override `make_cache` and `check`.
"""

import bisect
import itertools

import numpy as np

from lmc.runtime.cache.prefix_cache import PrefixCache

PAGES = 14
NAMESPACES = ("", "a", "b")


class Holder:
    """A request: its tokens, its row, and how much of it is computed."""

    def __init__(self, cache, tokens, limit=None, namespace=""):
        self.cache, self.tokens = cache, np.asarray(tokens, dtype=np.int32)
        self.row = np.full(len(tokens) + cache.page_size, -1, dtype=np.int32)
        self.handle, slots = cache.match_and_lock(self.tokens[:limit], namespace)
        self.row[: len(slots)] = slots
        self.done = self.handle.length

    def compute(self, count):
        """Compute the next tokens; False when there are no slots for them."""
        start, end = self.done, min(self.done + count, len(self.tokens))
        slots = self.cache.alloc(self.cache.new_slots(start, end))
        if slots is None:
            return False
        first = start + -start % self.cache.page_size
        self.row[first : first + len(slots)] = slots
        self.cache.wrote(self.handle, self.tokens[:end], self.row, start)
        self.done = end
        return True

    def share(self):
        """Put what is computed into the tree."""
        self.handle = self.cache.insert(self.handle, self.tokens[: self.done], self.row)

    @property
    def own(self):
        """Slots that belong to the request."""
        return self.row[self.handle.length : self.done]

    def end(self):
        """Give everything back."""
        self.cache.free(self.own.copy())
        self.cache.release(self.handle)
        self.done = self.handle.length


class Page:
    """A cached page of the model."""

    __slots__ = ("children", "locks", "slots", "time")

    def __init__(self, slots):
        self.slots, self.time, self.locks, self.children = slots, 0, 0, 0


class Naive:
    """Cached pages by (namespace, tokens down to the end of the page)."""

    def __init__(self, size):
        self.size, self.pages, self.clock = size, {}, 0
        self.holds = {}

    def path(self, namespace, tokens):
        """Return the names of the cached pages of `tokens`, shortest first."""
        found = []
        for end in range(self.size, len(tokens) + 1, self.size):
            if (namespace, tokens[:end]) not in self.pages:
                break
            found.append((namespace, tokens[:end]))
        return found

    def names(self, namespace, tokens):
        """Return the names of the whole pages of `tokens`."""
        return [(namespace, tokens[:end]) for end in range(self.size, len(tokens) + 1, self.size)]

    def add(self, name, slots):
        self.pages[name] = Page(slots)
        above = self.above(name)
        if above in self.pages:
            self.pages[above].children += 1

    def above(self, name):
        return name[0], name[1][: -self.size]

    def touch(self, names):
        self.clock += 1
        for name in names:
            self.pages[name].time = self.clock

    def lock(self, namespace, tokens, by):
        for name in self.names(namespace, tokens):
            self.pages[name].locks += by

    def ranks(self):
        """Return the most urgent rank of each held page."""
        ranks = {}
        for name, rank in self.holds.values():
            ranks[name] = min(rank, ranks.get(name, rank))
        return ranks

    def evict(self, count):
        """Remove pages for `count` slots one by one; return how many slots came free."""
        gone, ranks = 0, self.ranks()
        while gone < count:
            leaves = [n for n, page in self.pages.items() if not page.children and not page.locks]
            if not leaves:
                break
            spare = [name for name in leaves if name not in ranks]
            if spare:
                name = min(spare, key=lambda n: self.pages[n].time)
            else:
                name = min(leaves, key=lambda n: ([-r for r in ranks[n]], self.pages[n].time))
            self.remove(name)
            ranks = self.ranks() if name in ranks else ranks
            gone += self.size
        return gone

    def remove(self, name):
        del self.pages[name]
        above = self.above(name)
        if above in self.pages:
            self.pages[above].children -= 1
        for number, (held, rank) in self.holds.items():
            if held == name:
                self.holds[number] = (above, rank)

    def free_len(self):
        return self.size * sum(not page.locks for page in self.pages.values())

    def held_len(self):
        names = set()
        for (namespace, tokens), _ in self.holds.values():
            names.update(self.names(namespace, tokens))
        return self.size * sum(not self.pages[name].locks for name in names)


class World:
    """A cache and its model; every operation does the same to both and compares."""

    def __init__(self, page_size=1, *, debug=False):
        self.size = page_size
        self.num_slots = PAGES * page_size
        self.cache = self.make_cache(debug=debug)
        self.naive = Naive(page_size)
        self.live, self.pins, self.wishes = [], [], {}
        self.numbers = itertools.count()

    def make_cache(self, *, debug):
        """Return the cache; it has some slots that make no page."""
        return PrefixCache(self.num_slots + self.size // 2, page_size=self.size, is_debug=debug)

    # -- operations ------------------------------------------------------------------------

    def tokens(self, letters, tail=0):
        """Return tokens: a page for each letter, and some more; a and b differ at their end."""
        size = self.size
        pages = {"a": [1] * size, "b": [1] * (size - 1) + [2], "c": [3] * size}
        return tuple(t for letter in letters for t in pages[letter]) + (1,) * min(tail, size - 1)

    def start(self, namespace, tokens, is_short):
        limit = len(tokens) - 1 if is_short else len(tokens)
        holder = Holder(self.cache, tokens, limit, namespace)
        path = self.naive.path(namespace, tokens[:limit])
        assert holder.row[: holder.handle.length].tolist() == self.slots(path)
        self.naive.touch(path)
        self.lock(holder, 1)
        self.live.append(holder)

    def compute(self, holder, count):
        start, end = holder.done, min(holder.done + count, len(holder.tokens))
        needed = len({at // self.size for at in range(start, end)})
        needed -= start % self.size != 0 and end > start
        missing = needed * self.size - self.cache.pool.num_free
        can = missing <= self.naive.free_len()
        assert holder.compute(count) == can
        if can and missing > 0:
            assert self.naive.evict(missing) == missing

    def share(self, holder):
        was, own, namespace = holder.handle.length, holder.row.copy(), holder.handle.namespace
        tokens = tuple(holder.tokens[: holder.done].tolist())
        holder.share()
        if holder.handle.length == was:
            return
        cached = set(self.naive.path(namespace, tokens))
        for name in self.naive.names(namespace, tokens):
            if name not in cached:
                end = len(name[1])
                self.naive.add(name, own[end - self.size : end].tolist())
        path = self.naive.path(namespace, tokens)
        self.naive.touch(path)
        self.naive.lock(namespace, tokens[:was], -1)
        self.lock(holder, 1)
        assert holder.row[: holder.handle.length].tolist() == self.slots(path)
        assert holder.row[holder.handle.length :].tolist() == own[holder.handle.length :].tolist()

    def end(self, holder):
        self.live.remove(holder)
        self.lock(holder, -1)
        holder.end()

    def pin(self, holder, is_lasting):
        self.live.remove(holder)
        self.cache.free(holder.own.copy())
        number = self.cache.pin(holder.handle, is_lasting=is_lasting)
        self.pins.append((number, holder, is_lasting))

    def unpin(self, index):
        number, holder, _ = self.pins.pop(index)
        self.lock(holder, -1)
        self.cache.unpin(number)

    def drop_pin(self):
        assert self.cache.drop_oldest_pin() == bool(self.pins)
        if self.pins:
            index = next((i for i, pin in enumerate(self.pins) if not pin[2]), 0)
            self.lock(self.pins.pop(index)[1], -1)

    def hold(self, namespace, tokens, rank):
        node = self.cache.find(np.array(tokens, dtype=np.int32), namespace)
        path = self.naive.path(namespace, tokens)
        number = next(self.numbers)
        self.wishes[number] = self.cache.tree.hold(node, rank)
        self.naive.holds[number] = (path[-1] if path else (namespace, ()), rank)

    def rerank(self, index, rank):
        number = list(self.wishes)[index]
        self.cache.tree.rerank(self.wishes[number], rank)
        self.naive.holds[number] = (self.naive.holds[number][0], rank)

    def unhold(self, index):
        number = list(self.wishes)[index]
        self.cache.tree.unhold(self.wishes.pop(number))
        del self.naive.holds[number]

    def look(self, namespace, tokens):
        found = self.cache.match_len(np.array(tokens, dtype=np.int32), namespace)
        assert found == self.size * len(self.naive.path(namespace, tokens))

    def flush(self):
        assert self.cache.flush() == self.naive.evict(self.num_slots)

    def take_and_free(self, count):
        """Take slots and give them back: what had to go for them is gone."""
        count = min(count * self.size, self.cache.available)
        missing = count - self.cache.pool.num_free
        slots = self.cache.alloc(count)
        if missing > 0:
            assert self.naive.evict(missing) == missing
        self.cache.free(slots)

    # -- comparing -------------------------------------------------------------------------

    def lock(self, holder, by):
        tokens = tuple(holder.tokens[: holder.handle.length].tolist())
        self.naive.lock(holder.handle.namespace, tokens, by)

    def slots(self, path):
        return [slot for name in path for slot in self.naive.pages[name].slots]

    def check(self):
        """Compare everything: owners, locks, holds, and which slots stand for which tokens."""
        self.cache.check([holder.own for holder in self.live])
        tree, naive = self.cache.tree, self.naive
        assert tree.evictable_len == naive.free_len()
        assert tree.held_len == naive.held_len()
        assert len(tree) == self.size * len(naive.pages)
        paths = {tree.root: ()}
        for node in tree.nodes():
            path = paths[node] = paths[node.parent] + tuple(node.key.tolist())
            names = naive.names(node.namespace, path)
            assert node.slots.tolist() == self.slots(names)[-len(node) :]
            assert node.lock_ref == naive.pages[names[-1]].locks
        private = sum(-(-len(holder.own) // self.size) * self.size for holder in self.live)
        assert self.cache.pool.num_free + len(tree) + private == self.num_slots


OPERATIONS = {
    "start": 4,
    "go": 24,
    "end": 7,
    "pin": 1,
    "unpin": 1,
    "look": 4,
    "hold": 3,
    "unhold": 3,
    "rerank": 2,
    "take": 1,
    "rare": 1,
}


class Driver:
    """Chooses operations of a world by a seeded generator."""

    def __init__(self, world, rng, operations=OPERATIONS):
        self.world, self.rng = world, rng
        self.names = list(operations)
        self.bounds = list(itertools.accumulate(operations.values()))
        self.counts = dict.fromkeys(self.names, 0)

    def tokens(self):
        rng = self.rng
        letters = rng.choices("abc", weights=(5, 4, 1), k=rng.randint(1, 8))
        return self.world.tokens(letters, rng.randrange(self.world.size))

    def step(self):
        """Do one operation; what cannot be done is a start or a look."""
        rng, world = self.rng, self.world
        at = bisect.bisect(self.bounds, rng.random() * self.bounds[-1])
        name = self.names[at]
        holder = rng.choice(world.live) if world.live else None
        namespace = rng.choices(NAMESPACES, weights=(4, 1, 1))[0]
        if name == "start" or (holder is None and name in ("go", "end", "pin")):
            name = "start" if len(world.live) < 5 else "look"
        elif (name == "unpin" and not world.pins) or (
            name in ("unhold", "rerank") and not world.wishes
        ):
            name = "look"
        elif (name == "pin" and len(world.pins) > 1) or (name == "hold" and len(world.wishes) > 4):
            name = "look"
        self.counts[name] += 1
        self.do(name, holder, namespace)

    def do(self, name, holder, namespace):
        """Do an operation by its name."""
        rng, world = self.rng, self.world
        if name == "start":
            world.start(namespace, self.tokens(), rng.random() < 0.5)
        elif name == "go":
            world.compute(holder, rng.randint(1, 3 * world.size))
            if rng.random() < 0.7:
                world.share(holder)
        elif name == "end":
            world.end(holder)
        elif name == "pin":
            world.pin(holder, rng.random() < 0.3)
        elif name == "unpin":
            world.unpin(rng.randrange(len(world.pins)))
        elif name == "look":
            world.look(namespace, self.tokens())
        elif name == "hold":
            world.hold(namespace, self.tokens(), (rng.randrange(3), rng.randrange(3)))
        elif name == "unhold":
            world.unhold(rng.randrange(len(world.wishes)))
        elif name == "rerank":
            rank = (rng.randrange(3), rng.randrange(3))
            world.rerank(rng.randrange(len(world.wishes)), rank)
        elif name == "take":
            world.take_and_free(rng.randint(1, 4))
        else:
            rng.choice([world.flush, world.drop_pin])()


def run(world, rng, count, *, every):
    """Do `count` operations, compare everything after every few and at the end; return counts."""
    driver = Driver(world, rng)
    for index in range(count):
        driver.step()
        if index % every == 0:
            world.check()
    world.check()
    return driver.counts
