"""Helpers, closures, lambdas, partials, arguments of every kind."""

import functools
from functools import partial

import lmc

SUFFIXES = {"a": "!", "b": "?"}
COUNT = 0


def greet(s, name, *, greeting="Hello", end="\n"):
    """Keyword-only arguments with defaults."""
    s += f"{greeting} {name}{end}"


def add_all(s, *parts, sep=" "):
    """Any number of parts."""
    for i, part in enumerate(parts):
        if i:
            s += sep
        s += part
    return len(parts)


def options_of(**options):
    """Keywords as a dict."""
    return sorted(options.items())


def gen_with(s, name, **options):
    """Keywords passed on to gen."""
    s += lmc.gen(name, **options)


def plain_sum(*numbers, start=0):
    """A plain function with *args."""
    total = start
    for number in numbers:
        total += number
    return total


def apply_twice(f, x):
    """A function as an argument."""
    return f(f(x))


def bullet(text, mark="-"):
    """Plain text."""
    return f"{mark} {text}\n"


def role_turn(role, text):
    """Return pieces of the language."""
    return lmc.user(text) if role == "user" else lmc.assistant(text)


def gen_line(name, n=4):
    """Return a generation."""
    return lmc.gen(name, max_tokens=n, stop="\n")


star = partial(bullet, mark="*")
brief = functools.partial(gen_line, n=2)
greet_loud = partial(greet, greeting="HEY")
one_line = lambda text: text.replace("\n", " ")  # noqa: E731
upper, lower = (lambda t: t.upper()), (lambda t: t.lower())
ADDERS = {"plain": lambda s, t: s.text() + t, "none": None}


@lmc.function
def keyword_only(s, name: str):
    """Keyword-only parameters."""
    greet(s, name)
    greet(s, name=name, greeting="Bye", end="")
    greet_loud(s, "all")
    return s.text()


@lmc.function
def varargs(s, a: str, b: str):
    """*args of constants and of values."""
    n = add_all(s, a, b, "c")
    m = add_all(s, *["x", "y"], sep="")
    add_all(s)
    return n, m


@lmc.function
def varargs_of_list(s, parts: list[str]):
    """A list of unknown length spread into a helper that takes states."""
    n = add_all(s, *parts, sep="|")
    return n


@lmc.function
def plain_varargs(s, xs: list[int]):
    """Lists spread into plain functions and builtins."""
    total = plain_sum(*xs, start=1)
    biggest = max(*xs, 0, 1)
    s += str(total)
    return total, biggest, list(zip(*[xs, xs])), "{} {}".format(*["a", "b"])


@lmc.function
def keyword_spread(s, t: str):
    """Keywords from dicts, known and unknown."""
    options = {"max_tokens": 3, "temperature": 0.5}
    s += t + lmc.gen("x", **options)
    gen_with(s, "y", max_tokens=2, stop=None)
    gen_with(s, "z", **options)
    return options_of(a=1, **{"b": 2}), options_of(**options)


@lmc.function
def dict_spread_unknown(s, table: dict[str, int]):
    """A dict of unknown keys spread into a plain function."""
    s += str(len(table))
    return options_of(**{f"k{k.encode().hex()}": v for k, v in table.items()})


@lmc.function
def closures(s, t: str):
    """Nested functions with defaults, nonlocal and a counter."""
    count = 0

    def say(text, times=1, *, mark="."):
        nonlocal count
        for _ in range(times):
            s.__class__ if False else None
            count += 1
        return text * times + mark

    def wrap(f):
        return lambda x: "<" + f(x) + ">"

    s += say(t) + say("b", 2, mark="!") + wrap(say)("c")
    return count


@lmc.function
def closure_over_state(s, topics: list[str]):
    """A nested helper that appends to the outer state."""
    answers = []

    def ask(topic, n=2):
        s.user(topic)
        s.assistant(lmc.gen("a", max_tokens=n))
        answers.append(s["a"])

    for topic in topics:
        ask(topic)
    ask("last", n=1)
    return answers


@lmc.function
def higher_order(s, t: str):
    """Functions as arguments and in containers."""
    steps = [str.strip, str.upper, one_line, bullet, star]
    for step in steps:
        t = step(t)
    table = {"u": upper, "l": lower}
    s += table["u"](t) + apply_twice(bullet, "x") + apply_twice(lambda x: x + x, "ab")
    return t, [f(t) for f in (upper, lower)]


@lmc.function
def pieces_returned(s, role: str):
    """Helpers that return pieces of the language."""
    s += role_turn(role, "hello" + gen_line("x"))
    s += "more: " + brief("y") + one_line("a\nb")
    piece = "z: " + gen_line("z", 1)
    s += piece
    return s["x"], s["y"]


@lmc.function
def list_of_pieces(s, names: list[str]):
    """Pieces kept in a list and appended one by one."""
    pieces = [name + ": " + lmc.gen("p", max_tokens=1) for name in ("a", "b")]
    for piece in pieces:
        s += piece
    for name in names:
        s += lmc.user(name) if len(name) > 1 else lmc.assistant(name)
    return s.text()


@lmc.function
def lambdas(s, n: int):
    """Lambdas with defaults, in loops and in calls."""
    double = lambda x, k=2: x * k  # noqa: E731
    powers = [(lambda i=i: i**2)() for i in range(3)]
    s += str(double(n)) + str(double(n, k=3))
    return (lambda *a, **k: (a, k))(1, 2, z=3), powers


@lmc.function
def inner_partial(s, t: str):
    """partial inside a program."""
    dash = partial(bullet, mark="--")
    tell = partial(greet, s, greeting="Yo")
    tell(t)
    s += dash(t)
    return dash("x")


@lmc.function
def chooses_function(s, flag: bool):
    """A function chosen at run time."""
    f = upper if flag else lower
    g = (lambda x: x + "1") if flag else (lambda x: x + "2")
    s += f("Ab") + g("c")
    return f("Q")


@lmc.function
def defaults(s, a: str, b: str = "b", *, c: int = 3):
    """A program with defaults and keyword-only arguments."""
    s += a + b * min(c, 3)
    return sub(a), sub(a, y="z"), sub(x=a).value


@lmc.function
def sub(s, x: str, y: str = "y"):
    """A nested program with a default."""
    s += x + y + lmc.gen("o", max_tokens=1)
    return s["o"]


@lmc.function
def returns_function_result(s, n: int):
    """Nested plain calls, one of them recursive."""
    s += str(fib(min(abs(n), 5)))
    return gcd(12, n), collatz(abs(n) + 1)


def fib(n):
    """Recursive and plain."""
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def gcd(a, b):
    """A loop and plain."""
    while b:
        a, b = b, a % b
    return a


def collatz(n, steps=None):
    """Recursive with a list that grows."""
    steps = [] if steps is None else steps
    steps.append(n)
    if n == 1 or len(steps) > 5:
        return steps
    return collatz(n // 2 if n % 2 == 0 else 3 * n + 1, steps)


@lmc.function
def reads_globals(s):
    """A global read by a declaration."""
    global COUNT
    s += str(COUNT)
    return COUNT + 1


@lmc.function
def table_of_functions(s, key: str):
    """A dispatch table of the module, by a key known at run time."""
    s += key
    f = HANDLERS.get(key, lower)
    return f(key + "Q")


HANDLERS = {"a": upper, "b": bullet}


@lmc.function
def decorated_helper(s, t: str):
    """A helper with a decorator that keeps the result of calls."""
    s += cached(t)
    return cached(t + "x")


@functools.cache
def cached(t):
    """A host function that keeps results."""
    return t + "!"


@lmc.function
def ignored_result(s, t: str):
    """Calls whose results nobody reads; print."""
    print("start", t, sep=": ")
    bullet(t)
    len(t)
    s.text()
    s += t
    print()


@lmc.function
def mutating_helper(s, words: list[str]):
    """A plain helper that changes the list that it is given."""
    out = []
    for word in words:
        note(out, word)
    note(out, word="end")
    s += " ".join(out)
    return out


def note(items, word):
    """Change a list in place."""
    items.append(word.strip())
    if len(items) > 3:
        items.pop(0)


@lmc.function
def early_helper(s, kinds: list[str]):
    """A helper with many exits, called in a loop."""
    return [classify(s, kind) for kind in kinds]


def classify(s, kind):
    """Exits of every kind."""
    for i in range(3):
        if kind == "a":
            return i
        s += kind + lmc.gen("c", max_tokens=1)
        if s["c"] == "":
            continue
        if len(s["c"]) > 3:
            break
    else:
        return None
    return s["c"]


@lmc.function
def two_state_helper(s, t: str):
    """A helper that takes two states."""
    other = s.copy()
    copy_text(other, s, t)
    copy_text(target=s, source=other)
    return other.text()


def copy_text(target, source, extra="."):
    """Append one state's text to another."""
    target += source.text() + extra
