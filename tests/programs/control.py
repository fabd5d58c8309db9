"""Control flow: early exits, loops in loops, short circuits, patterns, comprehensions."""

import lmc


@lmc.function
def exits(s, numbers):
    """Break, continue, else and return at several depths."""
    found = []
    for a in numbers:
        if a < 0:
            continue
        for b in numbers:
            if b == a:
                break
            if b > 100:
                return ["early", found, a, b]
            found.append((a, b))
        else:
            found.append(a)
            continue
        if a == 7:
            break
        s += f"{a} "
    else:
        s += "all"
    s += lmc.gen("x", max_tokens=2)
    return found


@lmc.function
def whiles(s, n):
    """While with else, a condition with a generation, nested breaks."""
    i = total = 0
    while i < n:
        i += 1
        if i % 2:
            continue
        if i > 6:
            break
        total += i
    else:
        total = -total
    tries = 0
    while True:
        s += "more? " + lmc.select("more", choices=["yes", "no"]) + "\n"
        tries += 1
        if s["more"] == "no" or tries >= 3:
            break
    return [i, total, tries]


@lmc.function
def shortcuts(s, a, b):
    """and, or, chains, conditional expressions, by value."""
    c = a or b
    d = a and b
    e = (not a and b) or "none"
    f = a if b else c
    g = 0 < len(str(a)) < 4 <= 4
    h = (a and s.text()) or "nothing"
    i = a in (1, "x", None) or b not in [2]
    s += f"{c}{d}{e}{f}{g}{h}{i}"
    return [c, d, e, f, g, h, i, a is None, b is not None]


@lmc.function
def comprehended(s, words):
    """Comprehensions, nested and filtered; quantifiers that stop early."""
    lengths = [len(word) for word in words]
    pairs = [(x, y) for x in words for y in lengths if y > 1 if x]
    table = {word: len(word) for word in words}
    letters = {word[0] for word in words if word}
    square = [[x * y for x in range(3)] for y in range(2)]
    total = sum(len(w) for w in words if w)
    some = any(len(w) > 3 for w in words)
    every = all(w.islower() for w in words)
    first = next((w for w in words if len(w) > 2), "none")
    s += ", ".join(w.upper() for w in words)
    return [pairs, table, sorted(letters), square, total, some, every, first, max(lengths or [0])]


@lmc.function
def unpacked(s, rows):
    """Unpacking in its forms."""
    out = []
    for (a, b), *rest in rows:
        out.append(f"{a}-{b}-{rest}")
    first, *middle, last = range(5)
    x, y = 1, 2
    x, y = y, x
    (p, q), r = ("ab", "c")
    (t := x + y)
    s += "|".join(out)
    return [first, middle, last, x, y, p, q, r, t, [*middle, 9], {"a": 1, **{"b": 2}}]


@lmc.function
def matches(s, items):
    """Patterns of several kinds."""
    found = []
    for item in items:
        match item:
            case 0 | 1:
                found.append("small")
            case int(_) if False:
                found.append("never")
            case [a, b]:
                found.append(a + b)
            case []:
                found.append("empty")
            case "go" | "stop" as word:
                found.append(word)
            case None:
                continue
            case str() as text if len(text) > 3:
                found.append(text[::-1])
            case _:
                found.append("?")
        s += "."
    return found


@lmc.function
def helpers(s, n):
    """Helpers: inlined, nested, recursive, with defaults and closures."""

    def add(text, times=2, *, mark="!"):
        nonlocal count
        count += 1
        for _ in range(times):
            s.user(text + mark)
        return count

    count = 0
    add("a")
    add("b", 1, mark="?")
    shout = lambda x, y="z": x.upper() + y  # noqa: E731
    s += shout("c") + shout("d", y="e")
    maybe(s, n)
    return [count, fib(n), clean("  X y "), add("last", times=0)]


def maybe(s, n):
    """A helper with an early return."""
    if n > 3:
        s += "big"
        return
    s += "small"


def fib(n):
    """A recursive helper of plain values."""
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def clean(text):
    """A helper with a loop, a local list and several returns."""
    words = []
    for word in text.split():
        if word == "stop":
            return words
        words.append(word.lower())
    if not words:
        return ["none"]
    return words


@lmc.function
def formats(s, x, y):
    """f-string formats, conversions, methods, slices."""
    s += f"{x:>5}|{x!r}|{y:.2f}|{y:{x}}|{'nested ' + f'{x}'}|{x}{y}"
    text = s.text()
    return [text[1:4], text[-2:], text[::2][:3], text.split("|")[1:2], "%s-%d" % (x, 3), -x, ~x]  # noqa: UP031


@lmc.function
def maybe_undefined(s, flag):
    """Names that only some paths assign."""
    if flag:
        value = "set"
    for i in range(3):
        if i > 0:
            s += last  # noqa: F821
        last = f"{i}"
    s += last
    if flag:
        s += value
    return value


@lmc.function
def asserts(s, n):
    """assert and raise."""
    assert n < 5, f"{n} is too big"
    if n == 3:
        raise ValueError("three")
    s += lmc.gen("x", max_tokens=1)
    return n


@lmc.function
def dynamic(s, names, limit, stops, options):
    """Names, parameters and choices that are known at run time only."""
    for i, name in enumerate(names):
        s += lmc.gen(name, max_tokens=limit + i, stop=stops, temperature=0.5 * i)
        s[f"copy_{name}"] = s[name] + "!"
    s += lmc.select("pick", options) + lmc.gen(choices=[*options, "z"], name="more")
    s.set_var("list", [s[name] for name in names])
    return [s.get_var("list"), "copy_b" in s, s.get_meta_info("pick")["choices"]]


ARGUMENTS = {
    "exits": [{"numbers": [1, 2, 7, 3]}, {"numbers": [5, -1, 200]}, {"numbers": []},
              {"numbers": [3, 3]}],
    "whiles": [{"n": 0}, {"n": 3}, {"n": 20}],
    "shortcuts": [{"a": a, "b": b} for a in (0, "x", None) for b in ("", 2, [1])],
    "comprehended": [{"words": ["a", "bcd", ""]}, {"words": []}, {"words": ["Abcde"]}],
    "unpacked": [{"rows": [((1, 2), 3, 4), ((5, 6),)]}, {"rows": [(1, 2)]}],
    "matches": [{"items": [0, [1, 2], [], "go", None, "hello", "x", 5, 1]}],
    "helpers": [{"n": 3}, {"n": 9}],
    "formats": [{"x": 7, "y": 1.5}],
    "maybe_undefined": [{"flag": True}, {"flag": False}],
    "asserts": [{"n": 1}, {"n": 3}, {"n": 9}],
    "dynamic": [{"names": ["a", "b"], "limit": 2, "stops": ["x", "\n"], "options": ["p", "q"]}],
}  # fmt: skip

SCRIPTS = [{}, {"more": "yes"}, {"more": "no"}]
