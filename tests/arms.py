"""Choices and what follows them: tools, turns, failures, blanks, equal calls, nested programs."""

import lmc

LOG: list[str] = []


def note(*values):
    """Remember values; a tool with effects."""
    LOG.append(repr(values))
    return "n" + str(len(repr(values)))


def odd(x):
    """Fail for a text of odd length."""
    LOG.append(repr(x))
    if len(str(x)) % 2:
        raise ValueError("odd " + str(x))
    return x


@lmc.function
def leaf(s, q, t="x"):
    """Two generations on a prompt of its own."""
    s += "Leaf on " + q + ": " + lmc.gen("a", max_tokens=4)
    s += t + lmc.gen("b", max_tokens=3)
    return s["a"] + "|" + s["b"]


@lmc.function
def tool_or_answer(s, q):
    """Arms of which some call a tool before they go on."""
    s += "Q: " + q + " tool? " + lmc.select("k", choices=["search", "answer", "none"])
    if s["k"] == "search":
        s += "\nLooking things up in the library: " + note(q)
        s += lmc.gen("r", max_tokens=5, temperature=0)
    elif s["k"] == "answer":
        s += "\nHere is the answer to the question: " + lmc.gen("r", max_tokens=5)
    else:
        s += "\nThere is nothing more to say here, really: " + lmc.gen(
            "r", max_tokens=5, return_logprob=True
        )
        note(s["r"])
    return s["k"], s["r"]


@lmc.function
def rounds(s, q):
    """A choice per round, one option of which is empty."""
    s += "Start " + q
    n = 0
    for _ in range(3):
        s += "\nGo on with the next round, please? " + lmc.select("k", choices=["yes", "no", ""])
        if s["k"] == "no":
            break
        s += " So another round is played by the players: " + lmc.gen("w", max_tokens=3)
        note(s["w"])
        n += 1
    return n


@lmc.function
def blanks(s, q):
    """Options that are empty, blank, or end with blanks."""
    s += "Word " + q + " " + lmc.select("k", choices=["", "  ", "a  "])
    if s["k"] == "":
        s += "nothing was said, so we carry on: " + lmc.gen("r", max_tokens=4)
    elif s["k"] == "  ":
        s += "blanks were said, so we carry on: " + lmc.gen("r", max_tokens=4, temperature=0)
    else:
        s += "a word was said, and so we carry on: " + lmc.gen("r", max_tokens=4)
    return s.text()


@lmc.function
def turns(s, q):
    """Turns between a choice and what its arms ask."""
    s += lmc.system("You choose.") + lmc.user("Choose for " + q)
    s += lmc.assistant(lmc.select("k", choices=["left", "right"]))
    if s["k"] == "left":
        s += lmc.user("Why did you go to the left and not right?") + lmc.assistant(
            lmc.gen("r", max_tokens=4)
        )
    else:
        s += lmc.user("Why did you go to the right and not left?") + lmc.assistant(
            lmc.gen("r", max_tokens=4, temperature=0)
        )
    return s.messages()


@lmc.function
def failing_arm(s, q):
    """An arm with a generation that may be cut, and a host call that may fail."""
    s += "F " + q + lmc.select("k", choices=["ok", "bad"])
    if s["k"] == "bad":
        s += " and it is very bad that it went so far: " + lmc.gen("r", type=int, max_tokens=1)
        note(s["r"])
        s += str(int(q))
    else:
        s += " and it is very good that it went so far: " + lmc.gen("r", max_tokens=3)
        odd(s["r"])
    return s["r"]


@lmc.function
def caught_arm(s, q):
    """What fails behind a choice is caught."""
    s += q + lmc.select("k", choices=["up", "down"])
    try:
        if s["k"] == "up":
            s += " we go up the long stairs to the very top: " + lmc.gen(
                "r", type=int, max_tokens=2
            )
        else:
            s += " we go down the long stairs to the bottom: " + lmc.gen("r", max_tokens=2)
        odd(s["r"])
    except ValueError as e:
        note(str(e))
        s += " fail " + lmc.gen("r2", max_tokens=2)
    return s.text()


@lmc.function
def twice(s, q):
    """The same choice in two copies, each with its arms."""
    t, u = s.copy(), s.copy()
    out = []
    for x in (t, u):
        x += "Choose " + q + " " + lmc.select("k", choices=["aa", "bb"])
        if x["k"] == "aa":
            x += " and this is the text after the first one: " + lmc.gen(
                "r", max_tokens=3, temperature=0
            )
        else:
            x += " and this is the text after the other one: " + lmc.gen(
                "r", max_tokens=3, temperature=0
            )
        note(x["r"])
        out.append(x["r"])
    return out


@lmc.function
def program_in_arm(s, q):
    """Nested programs in the arms of a choice, two of them equal."""
    s += "Which " + lmc.select("k", choices=["one", "two", "three"])
    if s["k"] == "one":
        r = leaf(q, temperature=0)
    elif s["k"] == "two":
        r = leaf(q, temperature=0)
    else:
        r = leaf(q + "!", temperature=0)
    s += r["a"] + lmc.gen("z", max_tokens=2)
    return r.value


@lmc.function
def joined(s, q):
    """Options that are beginnings of one another, and texts that join them."""
    s += "The word is" + lmc.select("k", choices=[" a", " ab", " a b", " a "])
    if s["k"] == " a":
        s += "b is what follows after the first of the words" + lmc.gen(
            "r", max_tokens=3, temperature=0
        )
    elif s["k"] == " ab":
        s += "c is what follows after the second of the words" + lmc.gen(
            "r", max_tokens=3, temperature=0
        )
    elif s["k"] == " a ":
        s += " two blanks are what follows after the word" + lmc.gen(
            "r", max_tokens=3, temperature=0
        )
    else:
        s += "  other things follow after the third of the words" + lmc.gen(
            "r", max_tokens=3, temperature=0
        )
    return s["r"], s.text()


@lmc.function
def turns_taken(s, q):
    """Three choices, whose arms depend on all before."""
    s += q
    path = []
    for name in ("a", "b", "c"):
        s += " turn now: " + lmc.select(name, choices=["left", "right"])
        path.append(s[name])
        if path == ["left", "left"]:
            s += " twice to the left, we are going in circles now. "
        elif path[-1] == "right":
            s += " to the right, as it should be at such places. "
    s += lmc.gen("end", max_tokens=4)
    return path


QUESTIONS = [{"q": "7"}, {"q": "tea"}]
ARGUMENTS = {
    "tool_or_answer": QUESTIONS,
    "rounds": QUESTIONS,
    "blanks": QUESTIONS,
    "turns": QUESTIONS,
    "failing_arm": QUESTIONS,
    "caught_arm": QUESTIONS,
    "twice": QUESTIONS,
    "joined": QUESTIONS,
    "turns_taken": QUESTIONS,
    "program_in_arm": QUESTIONS,
}
