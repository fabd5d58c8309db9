"""Iterators kept under names, generator expressions, generator functions."""

import itertools

import lmc


@lmc.function
def kept_iterator(s, xs: list[int]):
    """iter and next, with and without a default."""
    it = iter([0] + xs)
    first = next(it)
    second = next(it, None)
    rest = list(it)
    s += f"{first} {second}"
    return rest, next(it, "end")


@lmc.function
def header_and_rows(s, lines: list[str]):
    """The first line apart, the others in a loop."""
    it = iter(["header", *lines])
    header = next(it)
    for line in it:
        s += f"{header}: {line}\n"
    return list(it)


@lmc.function
def kept_zip(s, a: list[str], b: list[int]):
    """A zip object under a name, used once."""
    pairs = zip(a, b)
    for x, y in pairs:
        s += f"{x}{y}"
    return list(pairs)


@lmc.function
def kept_enumerate(s, xs: list[str]):
    """enumerate under a name, and passed to a helper."""
    numbered = enumerate(xs, start=1)
    return lines_of(numbered), list(numbered)


def lines_of(pairs):
    """A plain helper that takes an iterator."""
    return [f"{i}. {x}" for i, x in pairs]


@lmc.function
def kept_generator(s, xs: list[int]):
    """A generator expression under a name."""
    squares = (x * x for x in xs)
    total = sum(squares)
    again = sum(squares)
    s += str(total)
    return total, again


@lmc.function
def lazy_generator(s, xs: list[str]):
    """A generator left early: the rest is never computed."""
    found = None
    for word in (x.upper() for x in xs):
        s += word + lmc.gen("w", max_tokens=1)
        if len(s["w"]) > 2:
            found = word
            break
    return found


@lmc.function
def local_generator(s, n: int):
    """A generator function of the program."""

    def countdown(k):
        while k > 0:
            yield k
            k -= 1

    for k in countdown(min(abs(n), 4)):
        s += f"{k} "
    return list(countdown(2)), sum(countdown(3))


def chunks(xs, size):
    """A generator function of the module."""
    for i in range(0, len(xs), size):
        yield xs[i : i + size]


@lmc.function
def module_generator(s, xs: list[int]):
    """Chunks of a list."""
    for i, chunk in enumerate(chunks(xs, 2)):
        s += f"{i}: {chunk}\n"
    return [len(c) for c in chunks(xs, 2)]


@lmc.function
def generator_with_states(s, n: int):
    """A generator function that appends and generates."""
    out = []
    for i, word in enumerate(words(s, min(abs(n), 3))):
        out.append(word)
        s += f"[{i}]"
        if len(out) >= 2:
            break
    return out


def words(s, n):
    """Yield generated words."""
    for i in range(n):
        s += f"{i}: " + lmc.gen("word", max_tokens=1)
        yield s["word"]


@lmc.function
def yield_from(s, xs: list[list[int]]):
    """A generator that hands on others."""

    def flat(rows):
        for row in rows:
            yield from row
        yield -1

    s += str(list(flat(xs)))
    return [x for x in flat(xs) if x > 0]


@lmc.function
def itertools_used(s, xs: list[int]):
    """itertools over plain data."""
    pairs = list(itertools.product(xs[:2], "ab"))
    chained = list(itertools.chain(xs, [9]))
    firsts = list(itertools.islice(xs, 2))
    s += str(chained)
    return pairs, firsts, list(itertools.combinations([1, 2, 3], 2)), list(itertools.accumulate(xs))


@lmc.function
def groups(s, words: list[str]):
    """groupby, sorted before."""
    ordered = sorted(words, key=len)
    out = [(k, list(g)) for k, g in itertools.groupby(ordered, key=len)]
    s += str(len(out))
    return out


@lmc.function
def map_kept(s, xs: list[int]):
    """map and filter kept under names."""
    texts = map(str, xs)
    positive = filter(lambda x: x > 0, xs)
    s += ",".join(texts)
    return list(positive), list(texts)


@lmc.function
def reversed_kept(s, xs: list[str]):
    """reversed kept, states too."""
    back = reversed(xs)
    for x in back:
        s += x
    forks = s.fork(2)
    order = reversed(list(forks))
    for i, f in enumerate(order):
        f += str(i)
    return [f.text() for f in forks]


@lmc.function
def enumerate_states(s, n: int):
    """An enumeration of states under a name."""
    forks = s.fork(min(abs(n), 2))
    numbered = enumerate(forks)
    for i, f in numbered:
        f += str(i) + lmc.gen("x", max_tokens=1)
    return [f["x"] for f in forks]


@lmc.function
def iterator_passed(s, xs: list[str]):
    """An iterator taken from in two places."""
    it = iter(xs)
    take(s, it)
    take(s, it)
    return list(it)


def take(s, it):
    """Take one item of an iterator."""
    item = next(it, None)
    if item is not None:
        s += item


@lmc.function
def pairs_of_iterator(s, xs: list[int]):
    """zip of an iterator with itself."""
    it = iter(xs)
    pairs = list(zip(it, it))
    s += str(pairs)
    return pairs
