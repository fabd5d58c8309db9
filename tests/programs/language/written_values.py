"""f-strings, string methods, builtins and standard functions."""

import json
import math
import re
import string
from collections import Counter, defaultdict
from enum import Enum

import lmc

TEMPLATE = "Q: {question}\nA:"
OPTIONS = ("a", "b")
SETTINGS = {"limit": 3, "stops": ["\n", "."]}
PATTERN = re.compile(r"\d+")


class Mood(Enum):
    """Moods."""

    GLAD = "glad"
    SAD = "sad"


@lmc.function
def formats(s, x: float, n: int, t: str):
    """Format specs, nested ones, conversions, debugging forms."""
    width = 8
    s += f"{x:.2f}|{n:03d}|{t:>10}|{t!r}|{n:>{width}}|{n:,}|{x:e}|{x:{width}.{2}f}|{n=}|{{}}|{n:b}"
    return f"{'a' if n else 'b'} {t.upper()} {[i for i in range(2)]} {SETTINGS['limit']}"


@lmc.function
def text_methods(s, t: str):
    """Methods of texts."""
    parts = [
        t.strip(), t.upper(), t.title(), t.split(), t.split(",", 1), t.replace("a", "b"),
        t.startswith(("a", "b")), t.endswith("x"), t.find("a"), t.partition(" "), t.zfill(5),
        t.center(9, "*"), t.splitlines(), t.isdigit(), t.lower().count("a"), t.rstrip("!"),
        t.removeprefix("a"), t.casefold(), t.encode("utf-8", "replace").hex(), t.isidentifier(),
        t.ljust(4), t.swapcase(), t.rpartition("a"), t.rsplit(None, 1), t.translate({97: "b"}),
    ]  # fmt: skip
    s += TEMPLATE.format(question=t.replace("{", "")) + "%s has %d" % (t, len(t))
    return parts


@lmc.function
def builtins_used(s, xs: list[int]):
    """Builtins over lists."""
    ys = xs or [1]
    s += str(max(ys)) + repr(min(ys))
    return (
        sorted(ys, reverse=True), list(map(str, ys)), list(filter(None, ys)), abs(ys[0]),
        round(sum(ys) / len(ys), 2), divmod(ys[0], 3), pow(2, 3), any(ys), all(ys), len(ys),
        bool(ys), list(enumerate(ys)), list(zip(ys, ys[1:])), list(reversed(ys)), int("3"),
        float("1.5"), str(1.0), tuple(ys), ord("a"), chr(98), hex(255), isinstance(ys, list),
    )  # fmt: skip


@lmc.function
def standard_library(s, t: str):
    """json, re, math, string."""
    data = json.loads('{"a": [1, 2, {"b": null}]}')
    found = re.findall(r"[a-z]+", t)
    match = re.search(r"(\d+)-(\d+)", t + " 12-34")
    swapped = re.sub(r"a", "b", t)
    s += json.dumps({"t": t, "data": data}) + match.group(1)
    return (
        found,
        match.groups(),
        swapped,
        math.sqrt(16),
        math.floor(2.7),
        string.ascii_lowercase[:3],
    )


@lmc.function
def compiled_patterns(s, t: str):
    """A compiled pattern of the module, and of the program."""
    own = re.compile("[aeiou]")
    s += own.sub("", t)
    return PATTERN.findall(t + "12 and 3"), bool(PATTERN.search(t))


@lmc.function
def counters(s, words: list[str]):
    """Counter and defaultdict."""
    counts = Counter(words)
    groups = defaultdict(list)
    for word in words:
        groups[len(word)].append(word)
    s += str(counts.most_common(1))
    return dict(counts), dict(groups)


@lmc.function
def majority(s, n: int):
    """Votes counted by Counter."""
    forks = s.fork(min(abs(n), 3) + 1)
    forks += lmc.gen("vote", max_tokens=1, temperature=0.8)
    votes = [f["vote"].strip() for f in forks]
    winner, count = Counter(votes).most_common(1)[0]
    return winner, count


@lmc.function
def enums(s, loud: bool):
    """Members of an enum, by name and by value."""
    s += Mood.GLAD.value + lmc.select("mood", choices=[m.value for m in Mood])
    mood = Mood(s["mood"])
    if mood == Mood.SAD:
        return "sad"
    return mood.name if loud else mood.value


@lmc.function
def module_constants(s, key: str):
    """Constants of the module, looked up by a key known at run time."""
    s += lmc.gen("x", max_tokens=SETTINGS["limit"], stop=SETTINGS["stops"])
    return SETTINGS.get(key, OPTIONS), OPTIONS[len(key) % 2], key in SETTINGS


@lmc.function
def numbers(s, a: int, b: int):
    """Arithmetic of every kind."""
    b = b or 1
    s += str(a // b)
    return a / b, a % b, -a, +b, ~a, a**2, a & b, a | b, a ^ b, a << 2, a >> 1, 1 < a < 5, 7 // -2


@lmc.function
def parsed_answers(s, question: str):
    """Numbers found in a generation, with a fallback."""
    s += question + lmc.gen("answer", max_tokens=6)
    digits = "".join(c for c in s["answer"] if c.isdigit())
    value = int(digits) if digits else None
    score = float(digits[:3]) / 10 if digits else 0.0
    return value, min(max(score, 0.0), 10.0)


@lmc.function
def multiline(s, name: str):
    """Text at column 0 inside triple quotes, in an f-string too."""
    s += f"""Dear {name},

we write to you
  about {len(name)} things.
"""
    s += """
left
""" + lmc.gen("x", max_tokens=2)
    return s["x"]


@lmc.function
def joined_constants(s, xs: list[str]):
    """Implicit concatenation, joins, repeated text."""
    s += f"one two {len(xs)} " + "=" * 5 + "\n".join(["a", "b", *xs])
    return "".join(reversed("abc")), ", ".join(map(str, range(3)))


@lmc.function
def none_values(s, x: str | None = None, y: int = 0):
    """None tested in every way."""
    if x is None:
        x = "default"
    z = y or None
    s += x + ("" if z is None else str(z))
    return x is not None, z is None, not z, x == None  # noqa: E711


@lmc.function
def sort_keys(s, rows: list[tuple[str, int]]):
    """Keys by lambdas and by functions."""
    by_size = sorted(rows, key=lambda row: row[1])
    names = sorted((row[0] for row in rows), key=len)
    lower = sorted([r[0] for r in rows], key=str.lower)
    largest = max(rows, key=lambda row: (row[1], row[0]), default=None)
    s += str(by_size)
    return names, lower, largest


@lmc.function
def meta_read(s, t: str):
    """Meta information of calls."""
    s += t + lmc.gen("x", max_tokens=3, return_logprob=True)
    meta = s.get_meta_info("x")
    tokens = meta["completion_tokens"]
    return meta["finish_reason"]["type"] if isinstance(meta["finish_reason"], dict) else tokens


@lmc.function
def byte_values(s, t: str):
    """A constant that is no text or number."""
    raw = t.encode()
    s += str(len(raw))
    return raw == b"abc", raw[:2] == b"a", ... is None


@lmc.function
def complex_keys(s, xs: list[int]):
    """Tuples as keys of dicts."""
    seen = {}
    for i, x in enumerate(xs):
        seen[x, i % 2] = seen.get((x, i % 2), 0) + 1
    s += str(len(seen))
    return sorted(seen.items())
