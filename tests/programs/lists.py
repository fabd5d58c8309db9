"""Generations that add to a list, and blocks whose order is free."""

import lmc
from lmc import unordered


@lmc.function
def added(s: lmc.State, first: list[str], width: int):
    """A list of the program that generations go on with, also in a fork."""
    s.set(name="xs", value=first)
    s += "Digits: " + lmc.gen("xs", append=True, regex="[0-9]")
    s += lmc.gen("new", append=True, max_tokens=2) + lmc.gen("new", append=True, type=int)
    forks = s.fork(width)
    for index, fork in enumerate(forks):
        if index:
            fork += "!" + lmc.gen("xs", append=True, max_tokens=2)
    key = lmc.gen("xs", append=True, max_tokens=1)
    inner = [fork["xs"] for fork in forks]
    s += key
    for index in range(width):
        s += lmc.gen(f"n{index % 2}", append=True, max_tokens=1)
    return [s["xs"], s[key], s["new"], inner, "n1" in s]


@lmc.function
def free(s: lmc.State, words: list[str], flag: bool):
    """Pieces in any order, with generations and branches among them, and nested."""
    s += "Facts:\n"
    with lmc.unordered(s):
        s += "one. "
        for word in words:
            s += word + ". "
        with s.unordered():
            if flag:
                s += "flag. "
        s += lmc.gen("a", max_tokens=3)
    forks = s.fork(2)
    for fork in forks:
        with unordered(fork):
            fork += "x" + lmc.gen("b", max_tokens=2)
    forks.join()
    return [s["a"], s["b"], s.text()]


ARGUMENTS = {
    "added": [{"first": ["1", "2"], "width": width} for width in (0, 1, 3)]
    + [{"first": [], "width": 2}],
    "free": [
        {"words": words, "flag": flag} for words in ([], ["a", "b"]) for flag in (True, False)
    ],
}
SCRIPTS = [{}, {"xs": "7"}]
