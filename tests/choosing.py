"""Programs of choices with long arms; a tool that counts its calls."""

import lmc

CALLS: list[str] = []


def counted(text: str) -> str:
    """A tool with effects."""
    CALLS.append(text)
    return text[:4]


@lmc.function
def route(s, question: str):
    s += "You sort questions, think about them in a few words, and answer them briefly.\n"
    s += "Question: " + question + "\nThought:" + lmc.gen("thought", max_tokens=10, temperature=0)
    s += "\nThe kind is: " + lmc.select("kind", choices=["mathematics", "programming"])
    if s["kind"] == "mathematics":
        s += ".\nSolve it step by step, number by number: "
        s += lmc.gen("answer", max_tokens=10, return_logprob=True)
    else:
        s += ".\nWrite a program in Python, line by line: "
        s += lmc.gen("answer", max_tokens=10, return_logprob=True)
    s += "\nIs that right? " + lmc.gen("right", type=bool)
    if s["right"]:
        s += ". So the answer is, in short: " + lmc.gen("short", max_tokens=6, return_logprob=True)
    else:
        s += ". The mistake in it is this one: " + lmc.gen("short", max_tokens=6)
    noted = counted(s["short"])
    s += "\nNoted: " + noted + lmc.gen("end", max_tokens=3)
    return s["kind"], s["right"], noted


@lmc.function
def long_arm(s, question: str):
    s += "You sort questions, think about them in a few words, and answer them briefly.\n"
    s += "Question: " + question + "\nThought:" + lmc.gen("thought", max_tokens=40, temperature=0)
    s += "\nKind: " + lmc.select("kind", choices=["mathematics", "programming"])
    if s["kind"] == "mathematics":
        s += ".\nSolve it: " + lmc.gen("answer", max_tokens=20, temperature=0)
    else:
        s += ".\nWrite it: " + lmc.gen("answer", max_tokens=20, temperature=0)
