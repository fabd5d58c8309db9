"""Comprehensions, generator expressions, quantifiers."""

import lmc


@lmc.function
def nested_ifs(s, xs: list[int], ys: list[int]):
    """Two loops and three conditions."""
    pairs = [(x, y) for x in xs if x > 0 for y in ys if y != x if y % 2 == 0]
    flat = [z for pair in pairs for z in pair]
    s += str(flat)
    return pairs, flat


@lmc.function
def dicts_and_sets(s, words: list[str]):
    """Dict and set comprehensions, an inverted dict."""
    lengths = {word: len(word) for word in words if word}
    firsts = {word[0] for word in words if word}
    inverted = {v: k for k, v in lengths.items()}
    s += ",".join(sorted(firsts))
    return lengths, inverted, len(firsts)


@lmc.function
def over_states(s, n: int):
    """Comprehensions over the children of a fork."""
    forks = s.fork(min(abs(n), 3))
    forks += [f"{i}: " + lmc.gen("x", max_tokens=2) for i in range(min(abs(n), 3))]
    texts = [fork["x"] for fork in forks]
    named = {i: fork["x"].strip() for i, fork in enumerate(forks)}
    long = [fork.text() for fork in forks if len(fork["x"]) > 3]
    return texts, named, long


@lmc.function
def gens_inside(s, xs: list[str]):
    """A generation per child, each with its own text."""
    forks = s.fork(len(xs))
    forks += [x + ": " + lmc.gen("a", max_tokens=2) for x in xs]
    forks += [" and " + lmc.gen("b", max_tokens=2, stop=x or None) for x in xs]
    return [(f["a"], f["b"]) for f in forks]


@lmc.function
def programs_inside(s, xs: list[str]):
    """A nested program per item."""
    parts = [part(x) for x in xs]
    s += "\n".join(p["out"] for p in parts)
    return [p.value for p in parts if p.value]


@lmc.function
def part(s, x: str):
    """A program of its own."""
    s += x + lmc.gen("out", max_tokens=2)
    return s["out"].strip()


@lmc.function
def quantifiers(s, words: list[str]):
    """any, all, sum, min, max over generators."""
    short = all(len(w) < 9 for w in words)
    some = any(w and w[0] == "a" for w in words)
    total = sum(len(w) for w in words)
    longest = max((len(w) for w in words), default=0)
    joined = "-".join(w.strip() for w in words if w.strip())
    s += joined
    return short, some, total, longest, sorted(len(w) for w in words), set(w[:1] for w in words)


@lmc.function
def conditional_elements(s, xs: list[int]):
    """Conditional expressions as elements."""
    marks = ["+" if x > 0 else "-" if x < 0 else "0" for x in xs]
    s += "".join(marks)
    return [[y for y in range(x)] if x > 0 else None for x in xs]


@lmc.function
def matrix(s, n: int):
    """Nested comprehensions: a matrix, its transpose, its sum."""
    size = min(abs(n), 3)
    m = [[i * size + j for j in range(size)] for i in range(size)]
    t = [list(row) for row in zip(*m)] if m else []
    s += str(t)
    return m, t, sum(sum(row) for row in m)


@lmc.function
def walrus_inside(s, words: list[str]):
    """A walrus in a condition of a comprehension."""
    kept = [w for word in words if (w := word.strip())]
    total = 0
    sums = [total := total + len(w) for w in kept]
    s += str(sums)
    return kept, total


@lmc.function
def shadowed(s, x: str, xs: list[str]):
    """The comprehension's names are its own."""
    upper = [x.upper() for x in xs]
    s += x
    return upper, x


@lmc.function
def filtered_forks(s, topics: list[str]):
    """States chosen by what they hold."""
    drafts = [s.copy() for _ in topics]
    for draft, topic in zip(drafts, topics):
        draft += topic + lmc.gen("draft", max_tokens=2)
    good = [d for d in drafts if len(d["draft"]) % 2]
    return [d["draft"] for d in good]


@lmc.function
def sorted_forks(s, n: int):
    """Children in the order of a score."""
    forks = s.fork(min(abs(n), 3))
    for i, f in enumerate(forks):
        f += f"{i}" + lmc.gen("t", max_tokens=2, temperature=0.5)
    ranked = sorted(forks, key=lambda f: len(f["t"]), reverse=True)
    return [f["t"] for f in ranked]


@lmc.function
def best_fork(s, n: int):
    """The child with the highest score goes on."""
    forks = s.fork(min(abs(n), 2) + 1)
    forks += lmc.gen("t", max_tokens=2, temperature=0.5)
    best = max(forks, key=lambda f: len(f["t"]))
    best += " go on" + lmc.gen("u", max_tokens=2)
    return best.text()


@lmc.function
def enumerated_pairs(s, a: list[str], b: list[int]):
    """zip and enumerate together, with a start."""
    rows = [f"{i}. {x}={y}" for i, (x, y) in enumerate(zip(a, b), 1)]
    s += "\n".join(rows)
    return rows, list(zip(a, b)), dict(zip(a, b))


@lmc.function
def dict_of_forks(s, topics: list[str]):
    """A dict of states by topic."""
    branches = {topic: s.copy() for topic in topics}
    for topic, branch in branches.items():
        branch += topic + ": " + lmc.gen("view", max_tokens=2)
    return {topic: branch["view"] for topic, branch in branches.items()}


@lmc.function
def flatten_with_counts(s, rows: list[list[str]]):
    """Counts of items in rows, most frequent first."""
    flat = [cell for row in rows for cell in row]
    counts = {cell: flat.count(cell) for cell in set(flat)}
    order = sorted(counts, key=lambda cell: (-counts[cell], cell))
    s += " ".join(order)
    return order


@lmc.function
def lambda_forks(s, docs: list[str]):
    """A lambda per child, with a closure."""
    prefix = "Doc "
    forks = s.fork(len(docs))
    forks += lambda i: prefix + str(i) + ": " + docs[i] + lmc.gen("sum", max_tokens=2)
    forks.join()
    return s["sum"] if docs else None
