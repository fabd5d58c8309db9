"""The workloads as programs."""

import lmc

ASPECTS = ("clarity", "order", "use of numbers")
KINDS = (" English", " Quechua")
ASK_KIND = "\n\nThe text above is not in Quechua, it is in English. Its language is"
GRADE = " [A-D][+-]?"
RECORD = (
    r'\{"name": "[A-Z][a-z]{5}", "surname": "[A-Z][a-z]{6}", "age": [1-9][0-9], '
    r'"city": "[A-Z][a-z]{5}", "code": "[A-Z]{3}-[0-9]{4}", "price": [1-9][0-9]\.[0-9]{2}, '
    r'"in_stock": (true|false), "note": "[a-z]{5}( [a-z]{5}){9}"\}'
)
"""Holes have one length each, so that every engine writes as many characters."""
ASK_RECORD = "\nThe record of it:\n"
RECORD_TOKENS = 121


@lmc.function
def complete(s, prompt: str, count: int):
    """Continue a prompt by `count` tokens."""
    s += prompt
    s += lmc.gen("text", max_tokens=count, ignore_eos=True, temperature=0)


@lmc.function
def answer(s, examples: str, question: str, count: int):
    """Answer a question behind examples that all questions share."""
    s += examples + question
    s += lmc.gen("text", max_tokens=count, ignore_eos=True, temperature=0)


@lmc.function
def sample(s, prompt: str, count: int):
    """Sample 16 continuations side by side."""
    s += prompt
    forks = s.fork(16)
    forks += lmc.gen("text", max_tokens=count, ignore_eos=True, temperature=1)
    return [fork["text"] for fork in forks]


@lmc.function
def talk(s, turns: list[str], count: int):
    """Answer turn after turn."""
    for turn in turns:
        s += turn
        s += lmc.gen("text", max_tokens=count, ignore_eos=True, temperature=0)


@lmc.function
def record(s, prompt: str):
    """Write a record of eight fields."""
    s += prompt + ASK_RECORD
    s += lmc.gen("record", regex=RECORD, max_tokens=200, temperature=0)


@lmc.function
def judge(s, essay: str):
    """Branch, solve, merge: judge a text in three respects, sum up, give a grade."""
    s += essay + ASK_KIND
    s += lmc.select("kind", choices=[" English", " Quechua"])
    if s["kind"] == " Quechua":
        return None
    s += ".\n"
    forks = s.fork(3)
    for fork, aspect in zip(forks, ASPECTS, strict=True):
        fork += "In a few words, what of its " + aspect + "?\n"
        fork += lmc.gen("view", max_tokens=64, ignore_eos=True, temperature=0)
    for fork, aspect in zip(forks, ASPECTS, strict=True):
        s += "On " + aspect + ": " + fork["view"].strip() + "\n"
    s += "In sum:"
    s += lmc.gen("summary", max_tokens=128, ignore_eos=True, temperature=0)
    s += "\nFrom A to D, the grade is"
    s += lmc.gen("grade", regex=GRADE, max_tokens=4, temperature=0)
    return s["grade"]
