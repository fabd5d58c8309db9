"""What stands above every program of `program_generator`: constants, types, functions."""

HEAD = '''"""A random program."""

import json
import math
import re
from dataclasses import dataclass
from enum import Enum
from typing import Literal

import lmc

NAMES = ["Ada", "Bo", "the cat"]
TABLE = {"a": 1, "b": 2}
LOG = []


class Mood(Enum):
    """A choice."""

    GOOD = "good"
    BAD = "bad"


@dataclass
class Point:
    """A record."""

    x: int
    name: str = "p"


@lmc.tool(effects="write")
def note(value) -> str:
    """Remember a value."""
    LOG.append(value)
    return f"noted {len(LOG)}"


def ask(question: str, times: int = 1) -> int:
    """Not readable for the compiler, so a host function with effects."""
    try:
        LOG.append(question)
    finally:
        print(end="")
    return times + 1


@lmc.tool
def facts(word) -> dict[str, int]:
    """Look something up."""
    LOG.append(word)
    return {"a": 1}


@lmc.tool
def risky(word) -> int:
    """Fails for some words."""
    if len(word) % 3 == 1:
        raise ValueError(f"risky {word}")
    return len(word)


@lmc.tool(effects="none")
def picture(text) -> bytes:
    """Content of an image."""
    return text.encode("utf-8", "surrogatepass")


@lmc.tool(effects="none")
def shout(text) -> str:
    """Pure."""
    return text.upper()


def plain(k):
    """Plain values, a loop with exits."""
    total = 0
    for j in range(k):
        if j == 2:
            continue
        total += j
        if total > 4:
            return -total
    return total


def digits(text):
    """Recursive."""
    return 0 if not text else int(text[0].isdigit()) + digits(text[1:])


def words(text):
    """Several returns and a local list."""
    found = []
    for word in text.split():
        if word == "stop":
            return found
        found.append(word.lower())
    return found or ["none"]


def pair(k):
    """A tuple."""
    return k, k + 1


def extended(st, word):
    """A copy that goes on."""
    other = st.copy()
    other += word + lmc.gen("w0", max_tokens=4)
    return other
'''
