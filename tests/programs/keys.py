"""Reads by the generation itself: through names, helpers, branches, lists, forks, loops."""

from dataclasses import dataclass

import lmc

AGE = lmc.gen("age", type=int)
NUMBER = lmc.gen(type=int)
ASIDE = " and " + lmc.gen(max_tokens=3)


@dataclass
class Pair:
    """A typed value."""

    left: int
    right: bool


def ask(s: lmc.State, question: lmc.Gen[int]) -> int:
    """Append a generation and give its value."""
    s += "?" + question
    return s[question]


def wanted(short: bool):
    """Give one of two generations, one of them unnamed."""
    if short:
        return lmc.gen("short", max_tokens=2)
    return lmc.gen(max_tokens=6)


@lmc.function
def named(s: lmc.State, start: int):
    """Named and unnamed generations, of the module and of the body; one appended twice."""
    s += "Age: " + AGE + ASIDE
    total = start + s[AGE]
    s += NUMBER
    total += s[NUMBER]
    s += NUMBER
    again = lmc.gen(type=int)
    other = again
    s += again + "," + lmc.gen(type=int)
    s["age"] = total
    return [total, s[NUMBER], s[other], s[AGE], other in s, AGE in s]


@lmc.function
def chosen(s: lmc.State, short: bool):
    """What is generated depends on the path taken before."""
    first = wanted(short)
    s += "Say: " + first
    kind = lmc.select("kind", choices=["a", "b"]) if short else lmc.select(choices=["c", "dd"])
    s += kind
    told = s.get_meta_info(kind)["finish_reason"]
    if s[kind] in ("a", "c"):
        more = lmc.gen("more", type=int)
    elif s[kind] == "b":
        more = "b" + lmc.gen("end", max_tokens=2)
    else:
        more = lmc.gen("rest", max_tokens=2)
    s += more
    return [s[first], s[kind], told, first in s, kind in s]


@lmc.function
def listed(s: lmc.State, stop: int):
    """Lists of generations, looped over with their numbers, with an early end."""
    questions = [lmc.gen("a", type=int), lmc.gen("b", type=bool)]
    questions.append(lmc.gen("c", type=Pair))
    found = []
    for number, question in enumerate(questions):
        s += f"{number}:" + question
        if number == stop:
            break
        found.append(s[question])
    else:
        s += "all"
    known = (lmc.gen(type=int), lmc.gen(max_tokens=2))
    for index, (word, question) in enumerate(zip(("x", "y"), known)):
        s += word + question
        found.append([index, s[question], question in s, s[questions[0]]])
    told = [question in s for question in questions]
    return [found, s[questions[0]], s[known[1]], told, s.get_meta_info(questions[0])["complete"]]


@lmc.function
def forked(s: lmc.State, width: int):
    """Children read what they and their parent generated; joins gather named ones only."""
    before, inside = lmc.gen(type=int), lmc.gen(type=int)
    shared = lmc.gen("shared", max_tokens=2)
    s += "Begin: " + before
    forks = s.fork(width)
    forks += inside + shared
    found = [[fork[before], fork[inside], fork[shared]] for fork in forks]
    forks.join()
    return [found, s[before], inside in s, s["shared"] if width else None]


@lmc.function
def looped(s: lmc.State, count: int):
    """One generation for all rounds, and one that each round makes."""
    same = lmc.gen(type=int)
    total = 0
    for index in range(count):
        own = lmc.gen(f"n{index}", type=int)
        s += "n: " + own + " " + same
        total += s[own] + s[same] + ask(s, lmc.gen(type=int))
    return [total, same in s]


@lmc.function
def missing(s: lmc.State, early: bool):
    """Reading what was not appended is an error at its line."""
    number = lmc.gen(type=int)
    if not early:
        s += "Number: " + number
    return s[number]


@lmc.function
def reasoned(s: lmc.State):
    """The answer alone is read."""
    answer, named = lmc.gen(max_tokens=8), lmc.gen("named", max_tokens=8)
    s += "Think: " + lmc.separate_reasoning(answer + named, model_type="qwen3")
    return [s[answer], s[named], s["named_reasoning_content"]]


ARGUMENTS = {
    "named": [{"start": 0}, {"start": -5}],
    "chosen": [{"short": True}, {"short": False}],
    "listed": [{"stop": stop} for stop in (0, 1, 2, 9)],
    "forked": [{"width": width} for width in (0, 1, 3)],
    "looped": [{"count": count} for count in (0, 1, 3)],
    "missing": [{"early": True}, {"early": False}],
    "reasoned": [{}],
}
SCRIPTS = [None, {"kind": "a"}, {"kind": "b"}, {"named": "<think>so</think> it is"}]
