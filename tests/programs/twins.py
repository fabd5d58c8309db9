"""Equal calls: of children, of nested programs, greedy and sampled; nested programs in loops."""

import lmc


@lmc.function
def siblings(s, question):
    """Two children ask the same without chance; a third way is sampled."""
    s += "Q: " + question + "\n"
    forks = s.fork(2)
    forks[0] += "A:" + lmc.gen("answer", max_tokens=4, temperature=0)
    forks[1] += "A:" + lmc.gen("answer", max_tokens=4, temperature=0)
    forks += "\nSure?" + lmc.select("sure", choices=["yes", "no"])
    s += forks[1]["answer"] + forks[1]["sure"]
    return [forks[0]["answer"], forks[1].text(), forks[1].get_meta_info("answer")["token_ids"]]


@lmc.function
def second_only(s, question):
    """What the first child says is not read."""
    forks = s.fork(2)
    forks += "Q: " + question + lmc.gen("answer", max_tokens=4, temperature=0)
    return forks[1]["answer"]


@lmc.function
def sampled(s, question):
    """Children with chance have keys of their own."""
    s += "Q: " + question
    forks = s.fork(2)
    forks += "A:" + lmc.gen("answer", max_tokens=4, temperature=0.8)
    return [fork["answer"] for fork in forks]


@lmc.function
def typed(s, question):
    """A number that may not come to its end, of two copies."""
    first, second = s.copy(), s.copy()
    first += "N: " + question + lmc.gen("n", type=int, max_tokens=3, top_k=1)
    second += "N: " + question + lmc.gen("n", type=int, max_tokens=3, top_k=1)
    return second["n"]


@lmc.function
def asked(s, question, more=""):
    """Ask one question after a constant head."""
    s += lmc.system("You answer in one word.") + lmc.user(question + more)
    s += lmc.assistant(lmc.gen("answer", max_tokens=4))
    return s["answer"]


@lmc.function
def nested(s, question):
    """The same program three times: twice without chance, once with."""
    first = asked(question, temperature=0)
    second = asked(question, temperature=0)
    third = asked(question, more="!", temperature=0.9)
    s += first.value + second.text() + third["answer"]
    return first.value == second.value


@lmc.function
def in_turn(s, questions):
    """A nested program per trip, each from its own root; what it says is appended."""
    for question in questions:
        s += asked(question)["answer"] + "\n"
    s += "In short:" + lmc.gen("short", max_tokens=3)


ARGUMENTS = {
    "siblings": [{"question": "Why?"}],
    "second_only": [{"question": "Why?"}],
    "sampled": [{"question": "Why?"}],
    "typed": [{"question": "2+2="}],
    "nested": [{"question": "Who?"}],
    "in_turn": [{"questions": []}, {"questions": ["a?", "b?", "c?"]}],
}
SCRIPTS = [None, {"answer": "tea", "sure": "no"}, {"n": "12"}]
