"""Graph breaks: what capture refuses, with the place, the reason and a remedy."""

from collections.abc import Callable
from types import ModuleType

import pytest

from lmc.errors import CaptureError, CompileError
from lmc.frontend.capture import capture

Load = Callable[[str], ModuleType]

CASES = {
    "group of exceptions": (
        "    try:\n        s += 'a'\n    except* ValueError:\n        pass\n", 3, 5, "except*",
    ),
    "no class of exceptions": (
        "    try:\n        s += 'a'\n    except (ValueError, n):\n        pass\n", 5, 12,
        "no class of exceptions",
    ),
    "raise without a handler": ("    raise\n", 3, 5, "'raise' alone"),
    "with": ("    with open('x') as f:\n        s += f.read()\n", 3, 10, "with statement"),
    "none": ("    s += None\n", 3, 10, "None is not text"),
    "number": ("    s += 3\n", 3, 10, "3 is not text"),
    "state in f-string": ("    s += f'{s}'\n", 3, 13, "a state is used"),
    "generation in f-string": ("    s += f'{lmc.gen()}'\n", 3, 13, "cannot hold a generation"),
    "new state by plus": ("    s = s + 'a'\n", 3, 9, "makes no new state"),
    "append a list": ("    s += ['a', n]\n", 3, 10, "a list cannot be appended"),
    "unknown name": ("    s += nowhere\n", 3, 10, "'nowhere' is not known"),
    "unassigned": ("    s += x\n    x = 1\n", 3, 10, "'x' is read before it is assigned"),
    "changed argument": ("    n.append(1)\n", 3, 5, "the argument 'n'"),
    "changed constant": ("    LIST.append(1)\n", 3, 5, "the constant 'LIST'"),
    "global": ("    global LIST\n    LIST = 1\n", 4, 5, "'LIST' is a global"),
    "bad parameter": ("    s += lmc.gen('x', beams=2)\n", 3, 29, "no parameter 'beams'"),
    "bad method": ("    s.jump()\n", 3, 5, "no method 'jump'"),
    "bad type": ("    s += lmc.gen('x', type=set)\n", 3, 28, "cannot make a value of"),
    "no choices": ("    s += lmc.select('x')\n", 3, 10, "needs choices"),
    "bad name": ("    s += lmc.gen(3)\n", 3, 18, "a variable's name is text"),
    "bad choices method": (
        "    s += lmc.select('x', ['a'], choices_method='best')\n", 3, 48, "'best' is unknown",
    ),
    "loop over changing list": (
        "    xs = [1]\n    for x in xs:\n        xs.append(x)\n", 5, 9, "while it is looped over",
    ),
    "iterator zipped": (
        "    i = iter(n)\n    return list(zip(i, i))\n", 4, 17, "zip of an iterator",
    ),
    "generator in parts": (
        "    g = (x for x in n)\n    for x in g:\n        if x:\n            break\n"
        "    return list(g)\n",
        7, 12, "used up in several parts",
    ),
    "recursion with an outer name": (
        "    k = 0\n    def f(i):\n        nonlocal k\n        k = i\n        s.user('a')\n"
        "        f(i + 1)\n    f(0)\n", 9, 5, "assigns the outer name 'k'",
    ),
    "two names for one list": (
        "    a, b = [1], [2]\n    c = a if n else b\n    c.append(3)\n    return a\n", 6, 12,
        "changed by another name",
    ),
    "one list twice in a list": (
        "    c = [1]\n    cs = [c, c]\n    cs[0].append(2)\n", 5, 5, "stand twice",
    ),
    "held by a variable": (
        "    xs = [1]\n    s['xs'] = xs\n    xs.append(2)\n", 5, 5, "a state's variable holds",
    ),
    "augmented alias": ("    n += n\n", 3, 5, "may change an object that has other names"),
    "local class": ("    class A:\n        pass\n", 3, 5, "'ClassDef'"),
    "raise of anything": ("    raise random\n", 3, 5, "this raise"),
    "states and data": ("    xs = [s, 1]\n", 3, 10, "states and plain data in one list"),
    "returned state or data": (
        "    if n:\n        return s\n    return 1\n", 4, 9, "a state on one path and plain data",
    ),
    "argument of a program": ("    other(1)\n", 3, 5, "missing a required argument"),
    "option of a program": ("    other(1, 2, seed=3)\n", 3, 22, "set by the outermost run"),
    "attribute of a state": ("    s.name = 1\n", 3, 5, "cannot be assigned"),
    "changed by a host function": (
        "    xs = [1]\n    unreadable(xs)\n    random.shuffle(xs)\n", 5, 5,
        "changes what it is given",
    ),
    "installed function": (
        "    s += dataclasses.replace(CONFIG, limit=2).text\n", 3, 10,
        "'dataclasses.replace' cannot be captured",
    ),
    "yield": ("    s += 'a'\n    yield s\n", 4, 5, "a generator function"),
    "changed by a helper": ("    xs = [1]\n    s += spoil(xs)\n", 25, 5, "ClassDef"),
}  # fmt: skip

PROGRAM = """def program(s, n):
{body}

import dataclasses
import random

LIST = ["a"]


class Config:
    text = "a"


CONFIG = Config()


def again(s):
    s += "a"
    again(s)


def spoil(xs):
    class Inner:
        pass
    xs.append(1)
    return "x"


def unreadable(xs):
    try:
        return len(xs)
    except ValueError:
        return 0


@lmc.function
def other(s, a, b):
    s += a
"""


@pytest.mark.parametrize("case", CASES)
def test_break_tells_place_and_remedy(load: Load, case: str) -> None:
    """Line, column, message; the error shows the line with carets and has a hint."""
    body, line, column, message = CASES[case]
    module = load(PROGRAM.format(body=body.rstrip("\n")))
    with pytest.raises(CompileError) as caught:
        capture([module.program])
    error = caught.value
    assert message in error.message
    assert error.hint
    assert error.location is not None
    assert (error.location.line, error.location.column) == (line, column)
    assert "^" in str(error)
    assert error.location.file == f"{module.__name__}.py"


def test_async_and_generator_programs_are_refused(load: Load) -> None:
    """Both would run in another way than the captured program."""
    module = load(
        "async def a(s):\n    s += 'x'\ndef b(s):\n    yield 1\ndef c(s, *xs):\n    pass\n"
    )
    for name, message in (("a", "async"), ("b", "generator"), ("c", r"\*args")):
        with pytest.raises(CaptureError, match=message):
            capture([getattr(module, name)])


def test_break_inside_a_helper_tells_the_helper(load: Load) -> None:
    """The place is the helper's line, not the call's."""
    module = load("def helper(s):\n    s += 1\ndef program(s):\n    helper(s)\n")
    with pytest.raises(CaptureError, match="1 is not text") as caught:
        capture([module.program])
    assert caught.value.location.line == 3


def test_decorators_besides_the_own_are_refused(load: Load) -> None:
    """Another decorator may change what the function does."""
    module = load(
        "import functools\ndef twice(f):\n    return f\n"
        "@lmc.function\n@twice\ndef program(s):\n    s += 'a'\n"
    )
    with pytest.raises(CaptureError, match="other decorators"):
        capture([module.program])


def test_program_without_source_is_refused() -> None:
    """Code made by exec has no file."""
    names: dict[str, object] = {}
    exec("def program(s):\n    s += 'a'\n", names)
    with pytest.raises(CaptureError, match="not available") as caught:
        capture([names["program"]])
    assert caught.value.hint
