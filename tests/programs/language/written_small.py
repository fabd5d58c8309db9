"""Small things: assertions, docstrings, imports, scopes, paths."""

import os.path
import random
import time
from datetime import date

import lmc


@lmc.function
def asserts(s, xs: list[int]):
    """Assertions that hold and that fail."""
    assert isinstance(xs, list)
    assert len(xs) < 3, f"too many: {len(xs)}"
    s += str(xs)
    return len(xs)


@lmc.function
def raises(s, n: int):
    """Errors raised on some paths."""
    if n < 0:
        raise ValueError(f"negative: {n}")
    s += "ok" + lmc.gen("x", max_tokens=1)
    if not s["x"]:
        raise RuntimeError
    return n


@lmc.function
def local_imports(s, t: str):
    """Imports inside."""
    import json
    from math import ceil
    from math import sqrt as root

    s += json.dumps(t)
    return ceil(root(10)), os.path.normcase("a")


@lmc.function
def passes(s, flag: bool):
    """A docstring, pass, an ellipsis."""
    if flag:
        pass
    else:
        ...
    "a text that nobody reads"
    for _ in range(2):
        pass
    s += "x"


@lmc.function
def host_calls(s, t: str):
    """Host functions with effects."""
    start = time.time()
    s += t + str(random.randint(1, 6))
    random.seed(3)
    elapsed = time.time() - start
    return elapsed >= 0, date(2024, 1, 2).isoformat()


@lmc.function
def maybe_unassigned(s, words: list[str], n: int):
    """Names that some paths leave unassigned."""
    for word in words:
        last = word
        if len(word) > n:
            long = word
    s += "x"
    if n > 3:
        return long
    return last


@lmc.function
def swallowed_scope(s, xs: list[str]):
    """var_scope in a loop, roles by blocks."""
    for i, x in enumerate(xs):
        with s.var_scope(f"part{i}"):
            s += x + lmc.gen("w", max_tokens=1)
        with s.user():
            s += s[f"part{i}"]
    return [s[f"part{i}"] for i in range(len(xs))]


@lmc.function
def single_expression(s):
    s += "a" + lmc.gen("x", max_tokens=1)


@lmc.function
def semicolons(s, n: int):
    """Several statements on a line."""
    a = n
    b = a + 1
    s += str(b)
    if a:
        return b
    return a


@lmc.function
def long_condition(s, a: int, b: str):
    """Conditions over several lines, with backslashes."""
    if (a > 1 and b) or not (a == 0 and b == "x"):
        s += "yes"
    total = a + len(b)
    return total


@lmc.function(num_api_spec_tokens=64)
def decorated_over_lines(
    s,
    a: str,
    b: int = 2,
):
    """A decorator with arguments, parameters over lines."""
    s += a * min(b, 3)
    return a


@lmc.function
def unicode_names(s, größe: str):
    """Names and texts beyond ASCII."""
    länge = len(größe)
    s += f"Größe: {größe} 🙂" + lmc.gen("ä", max_tokens=1)
    return länge, s["ä"]


@lmc.function
def conditional_gen(s, flag: bool):
    """A generation under a condition inside an expression."""
    s += "a" + (lmc.gen("x", max_tokens=1) if flag else "none")
    s += lmc.gen("y", max_tokens=1) if flag else lmc.select("y", choices=["p", "q"])
    return s["y"]


@lmc.function
def text_kept(s, t: str):
    """What is appended, kept under a name first."""
    prompt = "Q: "
    prompt += t
    piece = prompt + lmc.gen("x", max_tokens=1)
    s += piece
    tail = lmc.gen("y", max_tokens=1)
    s += "\n" + tail
    return prompt


@lmc.function
def returned_none(s, flag: bool):
    """Some paths return nothing."""
    s += "a"
    if flag:
        return s.text()
    s += "b"


@lmc.function
def is_tests(s, x: str, xs: list[int]):
    """Identity and membership."""
    y = xs
    s += x
    return y is xs, x in s.text(), 3 not in xs, [] != None, type(x) is str, callable(len)


@lmc.function
def type_tests(s, x: int | str | list[int]):
    """isinstance, type, hasattr, getattr."""
    if isinstance(x, (int, float)):
        kind = "number"
    elif isinstance(x, str):
        kind = "text"
    else:
        kind = type(x).__name__
    s += kind
    return kind, hasattr(x, "upper"), getattr(x, "missing", None)


@lmc.function
def global_lists(s, n: int):
    """Slices and items of constant lists by run-time numbers."""
    examples = EXAMPLES[: min(abs(n), 2)]
    for e in examples:
        s += f"Q: {e['q']}\nA: {e['a']}\n\n"
    s += lmc.gen("x", max_tokens=1)
    return [e["q"] for e in EXAMPLES], EXAMPLES[-1]["a"]


EXAMPLES = [{"q": "1+1", "a": "2"}, {"q": "2+2", "a": "4"}, {"q": "3+3", "a": "6"}]


@lmc.function
def lists_aliased(s, xs: list[int], flag: bool):
    """One list under two names, changed through both."""
    a = [1]
    b = a
    b.append(2)
    c = [a, list(xs)]
    c[0].append(3)
    for row in c:
        row.append(len(row))
    d = a if flag else []
    s += str(len(d))
    return a, b, c


@lmc.function
def alias_chosen(s, flag: bool):
    """A list chosen by a condition, then changed."""
    good, bad = [], []
    for i in range(3):
        target = good if (i % 2 == 0) == flag else bad
        target.append(i)
    s += str(len(good))
    return good, bad


@lmc.function
def alias_augmented(s, xs: list[int]):
    """+= on names of lists."""
    a = []
    b = a
    b += [1]
    xs = list(xs)
    xs += [2]
    ys = xs
    ys += [3]
    s += str(a)
    return a, b, xs, ys


@lmc.function
def argument_changed(s, xs: list[int], d: dict[str, int]):
    """Arguments changed in place: seen by this program only."""
    xs.append(1)
    d["n"] = 2
    s += str(xs)
    return xs, d


@lmc.function
def loop_changes_list(s, words: list[str]):
    """A work list that grows while it is used up."""
    todo = list(words)
    done = []
    while todo and len(done) < 5:
        word = todo.pop(0)
        done.append(word)
        if len(word) > 1:
            todo.append(word[1:])
    s += str(done)
    return done


@lmc.function
def appends_while_looping(s, xs: list[int]):
    """A list that grows while it is looped over."""
    ys = list(xs)
    for y in ys:
        if y > 0 and len(ys) < 6:
            ys.append(y - 1)
    s += str(ys)
    return ys
