"""match statements over plain values."""

import lmc

LIMIT = 3


class Codes:
    """Names for values."""

    GO = "go"
    STOP = "stop"


@lmc.function
def literals(s, word: str, n: int):
    """Values, alternatives, guards, captures, constants by a dotted name."""
    match word:
        case "a" | "b":
            kind = "letter"
        case Codes.GO:
            kind = "go"
        case "" if n > 2:
            kind = "empty"
        case other if len(other) > 4:
            kind = other[:2]
        case _:
            kind = "rest"
    match n:
        case 0:
            s += "zero"
        case 1 | 2 | 3 as few:
            s += f"few {few}"
        case -1:
            s += "minus"
        case int() if n > 4:
            s += "many"
        case _:
            s += "other"
    return kind


@lmc.function
def sequences(s, xs: list[int]):
    """Sequence patterns, starred and nested."""
    match xs:
        case []:
            return "none"
        case [one]:
            return one
        case [1, *rest]:
            return rest
        case [first, *_, 2]:
            return first
        case [a, b, *more]:
            s += str(a + b)
            return more, len(more)


@lmc.function
def nested(s, a: int, b: str, c: list[str]):
    """Nested sequences of several kinds."""
    match [a, [b, c]]:
        case [0, _]:
            found = "zero"
        case [x, [str() as t, [only]]]:
            found = (x, t, only)
        case [x, ["a" | "b" as t, [_, *tail]]]:
            found = (x, t, tail)
        case [int(x), (t, [])]:
            found = [x, t]
        case _:
            found = None
    return found


@lmc.function
def mappings(s, table: dict[str, int], key: str):
    """Mapping patterns with captures, literals and the rest."""
    match table:
        case {"a": 1}:
            found = "a is one"
        case {"a": int(value), **rest}:
            found = (value, rest)
        case {"b": b, "c": c}:
            found = b + c
        case {}:
            found = len(table)
    match {"kind": key, "n": len(table)}:
        case {"kind": "a" | "b" as kind, "n": n}:
            s += f"{kind}{n}"
        case {"kind": str(kind)} if kind:
            s += kind
        case {"n": 0}:
            s += "none"
    return found


@lmc.function
def classes(s, x: int | str | float | bool | None | list[int]):
    """Class patterns of Python's own types."""
    match x:
        case bool():
            return "bool"
        case int(n) | float(n):
            return n + 1
        case str(t):
            return t.upper()
        case None:
            return "none"
        case list() as xs if xs:
            return xs[0]
        case list() | tuple() | dict():
            return "empty"


@lmc.function
def on_generated(s, question: str):
    """A match on a generation decides what is appended."""
    s += question + lmc.select("tool", choices=["calculator", "search", "none"])
    match s["tool"]:
        case "calculator":
            s += "\nExpression: " + lmc.gen("expression", max_tokens=4, stop="\n")
            result = len(s["expression"])
        case "search":
            s += "\nQuery: " + lmc.gen("query", max_tokens=4, stop="\n")
            result = s["query"]
        case _:
            return None
    s += f"\nResult: {result}"
    return result


@lmc.function
def split_command(s, text: str):
    """A command taken apart."""
    s += text + lmc.gen("command", max_tokens=6)
    match s["command"].split():
        case ["go", ("north" | "south") as direction]:
            return f"went {direction}"
        case ["take", *things] if things:
            return ", ".join(things)
        case [verb, thing]:
            return verb, thing
        case [] | [_]:
            return "short"
        case _:
            return "long"


@lmc.function
def in_loop(s, items: list[str]):
    """Breaks and continues in cases."""
    out = []
    for item in items:
        match item:
            case "":
                continue
            case "stop" | "12":
                break
            case x if x in out:
                return "twice"
            case x:
                out.append(x)
        s += item + lmc.gen("w", max_tokens=1)
    return out


@lmc.function
def alternatives_that_bind(s, a: int, b: int):
    """Alternatives that bind the same names at different places."""
    match (a, b):
        case (0, x) | (x, 0):
            return "axis", x
        case (x, y) if x == y:
            return "diagonal", x
        case (x, y):
            return x, y


@lmc.function
def roles(s, messages: list[tuple[str, str]]):
    """Turns from data."""
    for message in messages:
        match message:
            case ("user" | "a", text):
                s += lmc.user(text)
            case (role, text) if role:
                s += lmc.assistant(text + lmc.gen("reply", max_tokens=2))
            case _:
                pass
    return s.messages()
