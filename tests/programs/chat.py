"""Roles: chat over data, and the three ways to write a turn."""

import lmc


@lmc.function
def conversation(s, turns, system="You are kind."):
    """Roles over a list of dicts, limits from the data."""
    s += lmc.system(system)
    for turn in turns:
        if turn.get("role", "user") == "user":
            s += lmc.user(turn["content"])
            s += lmc.assistant(lmc.gen("reply", max_tokens=turn["limit"]))
        else:
            s += lmc.assistant(turn["content"])
    return s.messages()


@lmc.function
def as_values(s, first, second):
    """Turns as values."""
    s += lmc.system("Be brief.")
    s += lmc.user(first)
    s += lmc.assistant("Well, " + lmc.gen("one", max_tokens=5))
    s += lmc.user(f"{second}!") + lmc.assistant(lmc.gen("two", max_tokens=5))


@lmc.function
def as_methods(s, first, second):
    """Turns as methods."""
    s.system("Be brief.")
    s.user(first)
    s.assistant("Well, " + lmc.gen("one", max_tokens=5))
    s.user(f"{second}!")
    s.assistant(lmc.gen("two", max_tokens=5))


@lmc.function
def as_blocks(s, first, second):
    """Turns as blocks."""
    with s.system():
        s += "Be brief."
    with s.user():
        s += first
    with s.assistant():
        s += "Well, "
        s += lmc.gen("one", max_tokens=5)
    ask(s, second)
    s += lmc.assistant_begin() + lmc.gen("two", max_tokens=5) + lmc.assistant_end()


def ask(s, text, mark="!"):
    """A role block in a helper."""
    with s.user():
        s += text
        s += mark


@lmc.function
def typed(s, text):
    """Typed values in later conditions."""
    s += text + "\nAge: " + lmc.gen("age", type=int, max_tokens=30)
    s += "\nHeight: " + lmc.gen("height", type=float, max_tokens=60)
    s += "\nSure: " + lmc.gen("sure", type=bool, max_tokens=10)
    group = "adult" if s["age"] >= 18 and s["sure"] else "other"
    return [group, s["age"] // 2, round(s["height"], 2), not s["sure"]]


TURNS = [
    {"content": "Hello", "limit": 3},
    {"role": "assistant", "content": "Hm."},
    {"role": "user", "content": "And?", "limit": 2},
]

ARGUMENTS = {
    "conversation": [{"turns": TURNS}, {"turns": [], "system": "x"}],
    "as_values": [{"first": "Hi", "second": "Bye"}],
    "as_methods": [{"first": "Hi", "second": "Bye"}],
    "as_blocks": [{"first": "Hi", "second": "Bye"}],
    "typed": [{"text": "A person."}],
}

SCRIPTS = [{}, {"age": "33", "sure": "True"}, {"age": "3", "sure": "False"}]
