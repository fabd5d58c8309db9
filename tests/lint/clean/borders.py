"""Good programs that come close to what the rules tell: none of them has a mistake."""

import re
from typing import Literal

import lmc

VERBOSE = True
LETTERS = ["A", "B", "C", "D"]
STYLES = {"short": "In a word:", "long": "At length:"}
SCORES = re.compile(r"\d+")


@lmc.tool(effects="write")
def send(text):
    """Send something away."""
    return len(text)


@lmc.tool(effects="none")
def parsed(text):
    """Return the numbers in a text."""
    return SCORES.findall(text)


# Generations: all of them are needed by something.


@lmc.function
def best_branch(s, question: str, n: int):
    """Branches compared by one variable, one of them read as a whole."""
    s += question + "\n"
    forks = s.fork(n)
    for fork in forks:
        fork += "Answer:" + lmc.gen("answer", max_tokens=8, temperature=0.9)
        fork += "\nScore from 1 to 9: " + lmc.gen("score", type=int, max_tokens=8)
    best = max(forks, key=lambda fork: fork["score"])
    return best["answer"]


@lmc.function
def used_as_prompt(s):
    """A first generation that only leads to the second."""
    s += "Think of an animal.\n"
    trial = s.copy()
    trial += "Thought:" + lmc.gen("thought", max_tokens=8, stop="\n")
    trial += "\nSo it is" + lmc.gen("animal", max_tokens=4)
    return trial["animal"]


@lmc.function
def read_as_text(s):
    """A branch read by its text."""
    s += "Sing.\n"
    song = s.copy()
    song += lmc.gen(max_tokens=8)
    return song.text()


@lmc.function
def read_as_messages(s, question: str):
    """A branch read by its messages."""
    chat = s.copy()
    chat += lmc.user(question)
    chat += lmc.assistant(lmc.gen("answer", max_tokens=8))
    return chat.messages()


@lmc.function
def decided_by(s):
    """A branch whose answer decides only."""
    s += "Here is a plan.\n"
    judge = s.copy()
    judge += "Is it good? " + lmc.select("good", choices=["yes", "no"])
    if judge["good"] == "yes":
        s += "Go on:" + lmc.gen("next", max_tokens=8)
    else:
        s += "Stop."


@lmc.function
def ends_a_loop(s, limit: int):
    """A branch whose answer ends a loop."""
    s += "Count.\n"
    for i in range(limit):
        s += f"{i}\n"
        check = s.copy()
        check += "Enough? " + lmc.select("enough", choices=["yes", "no"])
        if check["enough"] == "yes":
            break


@lmc.function
def told_to_a_tool(s):
    """A branch that a tool is told."""
    s += "Write a note.\n"
    note = s.copy()
    note += lmc.gen("note", max_tokens=8)
    send(note["note"])


@lmc.function
def kept_in_a_dict(s, topics: list):
    """States in a dict, read in another loop."""
    held = {}
    for topic in topics:
        held[topic] = s.copy()
        held[topic] += topic + ":" + lmc.gen("view", max_tokens=8)
    return {topic: state["view"] for topic, state in held.items()}


@lmc.function
def chain_of_copies(s, rounds: int):
    """Each round goes on from a copy of the one before."""
    current = s
    current += "Begin."
    for _ in range(rounds):
        current = current.copy()
        current += lmc.gen("step", max_tokens=4)
    return current.text()


def explore(s, depth):
    """Return branches to the caller."""
    s += "Explore:"
    forks = s.fork(depth)
    forks += lmc.gen("idea", max_tokens=4, temperature=0.8)
    return forks


@lmc.function
def branches_of_a_helper(s, depth: int):
    """Branches made by a helper and joined here."""
    s += "Ideas.\n"
    forks = explore(s, depth)
    forks += "\nRate: " + lmc.gen("rate", type=int, max_tokens=8)
    forks.join()
    return [s["idea"], s["rate"]]


@lmc.function
def two_joins(s):
    """Branches twice under one name: the second join is of names that are new again."""
    s += "Twice.\n"
    first = s.fork(2)
    first += lmc.gen("a", max_tokens=4)
    first.join()
    second = s.fork(2)
    second += lmc.gen("b", max_tokens=4)
    second.join()
    return s["a"] + s["b"]


@lmc.function
def inner(s, word: str):
    """A program for others."""
    s += "Explain " + word + ":" + lmc.gen("why", max_tokens=8) + "\nIn short:"
    s += lmc.gen("short", max_tokens=4)


@lmc.function
def nested_twice(s, words: list):
    """Nested programs, one variable of each read."""
    results = [inner(word) for word in words]
    s += "\n".join(result["short"] for result in results)
    s += lmc.gen("sum", max_tokens=8)


@lmc.function
def nested_in_a_dict(s, words: list):
    """Results of nested programs by name, read in an f-string."""
    names = [f"word_{word}" for word in words]
    told = {}
    for name in names:
        told[name] = inner(name)
    s += "\n".join(f"{name}: {told[name]['short']}" for name in names)
    s += lmc.gen("sum", max_tokens=4)
    return [told[name]["why"] for name in names]


@lmc.function
def nested_by_value(s, word: str):
    """A nested program in an expression."""
    s += "It means " + inner(word=word)["why"] + "." + lmc.gen("more", max_tokens=8)


# Names: set again, but read or kept.


@lmc.function
def draft_and_final(s, k: int):
    """A draft that a loop may improve."""
    s += "Draft:" + lmc.gen("text", max_tokens=8, stop="\n")
    for _ in range(k):
        s += "\nBetter:" + lmc.gen("text", max_tokens=8, stop="\n")
    return s["text"]


@lmc.function
def read_between(s):
    """Read before it is set again."""
    s += "One:" + lmc.gen("word", max_tokens=4, stop="\n")
    first = s["word"]
    s += "\nTwo:" + lmc.gen("word", max_tokens=4, stop="\n")
    return [first, s["word"]]


@lmc.function
def default_first(s, wants: bool):
    """A default that one arm replaces."""
    s["title"] = "untitled"
    s += "A book."
    if wants:
        s += " Title:" + lmc.gen("title", max_tokens=4)
    return s["title"]


@lmc.function
def each_arm(s, kind: str):
    """One name in both arms."""
    s += "Write.\n"
    if kind == "poem":
        s += "Poem:" + lmc.gen("text", max_tokens=8)
    else:
        s += "Story:" + lmc.gen("text", max_tokens=8)
    return s["text"]


@lmc.function
def conversation(s, messages: list):
    """One name for each turn."""
    for message in messages:
        s += lmc.user(message)
        s += lmc.assistant(lmc.gen("reply", max_tokens=8))
    return s.text()


# Text: all of it is read.


@lmc.function
def closing_marks(s):
    """Marks that close what branches generated."""
    s += "Names.\n"
    forks = s.fork(2)
    forks += '{"name": "' + lmc.gen("name", max_tokens=8, stop='"') + '"}\n'
    forks.join()
    return s["name"]


@lmc.function
def flags(s, is_long: bool):
    """A flag of the module that is on."""
    if VERBOSE:
        s += "At length.\n"
    mode = "long" if is_long else "short"
    s += STYLES[mode] + lmc.gen("text", max_tokens=8)


@lmc.function
def returns_on_all_sides(s, kind: str):
    """Every arm returns."""
    s += kind + ":" + lmc.gen("text", max_tokens=8)
    if kind == "a":
        return s["text"]
    elif kind == "b":
        return s["text"].strip()
    else:
        raise ValueError(kind)


@lmc.function
def loop_with_else(s, words: list):
    """An else of a loop."""
    for word in words:
        if word == "end":
            break
        s += word + " "
    else:
        s += "No end."
    s += "\nSo:" + lmc.gen("rest", max_tokens=4)


# Prompts.


@lmc.function
def blanks(s):
    """Blanks where they belong: before choices and numbers."""
    s += "Letter: " + lmc.select("letter", choices=LETTERS)
    s += "\nNumber: " + lmc.gen("number", type=int, max_tokens=8)
    s += "\nYear: " + lmc.gen("year", regex=r"[12]\d{3}", max_tokens=8)
    s += "\nWord:\n" + lmc.gen("word", max_tokens=4)


@lmc.function
def turns_by_hand(s, question: str):
    """Turns with borders, generated in the open one."""
    s += lmc.system("Be brief.")
    s += lmc.user_begin()
    s += question
    s += lmc.user_end()
    s += lmc.assistant_begin()
    s += lmc.gen("answer", max_tokens=8)
    s += lmc.assistant_end()


@lmc.function
def turns_in_arms(s, question: str, is_polite: bool):
    """Turns in both arms of a branch."""
    if is_polite:
        with s.user():
            s += "Please: " + question
    else:
        s += lmc.user(question)
    with s.assistant():
        s += lmc.gen("answer", max_tokens=8)


@lmc.function
def open_at_the_end(s, question: str):
    """An assistant's turn that stays open."""
    s += lmc.user(question)
    s += lmc.assistant_begin()
    s += "Well," + lmc.gen("answer", max_tokens=8)


@lmc.function
def markup(s):
    """Text in angle brackets that is no control token."""
    s += "<b>Bold</b> <|nothing|> <s>old</s>\n" + lmc.gen("text", max_tokens=8)


# Parameters.


@lmc.function
def stops(s):
    """Stops that are written again, or need not be."""
    s += "Q:" + lmc.gen("q", max_tokens=8, stop="\n") + "\nA:"
    s += lmc.gen("a", max_tokens=8, stop=["\n\n", "Q:"]) + "\n"
    s += "(" + lmc.gen("note", max_tokens=8, stop=[")", "\n"]) + ")"
    s += ' "' + lmc.gen("quote", max_tokens=8, stop='"') + '".'
    s += "\n[" + lmc.gen("list", max_tokens=8, stop="]") + "]\nThought:"
    s += lmc.gen("thought", max_tokens=8, stop="\nAction:") + "\nAction:"
    s += lmc.gen("action", max_tokens=8, stop=".") + " And then"
    s += lmc.gen("then", max_tokens=8, stop="Observation")


@lmc.function
def constraints(s):
    """Limits that are enough, just."""
    s += "Grade: " + lmc.gen("grade", regex="[A-F]", max_tokens=1)
    s += "\nYes or no: " + lmc.gen("yes", regex="yes|no", max_tokens=4, temperature=0)
    s += "\nLine:" + lmc.gen("line", regex=r"[^\n]{1,20}\n?", stop="\n", max_tokens=20)
    s += "\nPet: " + lmc.gen("pet", type=Literal["cat", "dog"], max_tokens=4)
    s += "\nAddress: " + lmc.gen(
        "ip", regex=r"((25[0-5]|2[0-4]\d|[01]?\d\d?)\.){3}(25[0-5]|2[0-4]\d|[01]?\d\d?)"
    )


@lmc.function
def sampling(s, n: int):
    """Sampling that has an effect."""
    s += "Word:" + lmc.gen("word", max_tokens=4, temperature=0.7, top_p=0.9, top_k=40, seed=3)
    s += "\nMore:" + lmc.gen("more", max_tokens=4, n=n)
    s += "\nSamples:" + lmc.gen("samples", max_tokens=4, n=3, temperature=1.0)
    return [sample.strip() for sample in s["samples"]]


@lmc.function
def options(s, extra: list):
    """Options that end alike, and some that come late."""
    s += "Is it? " + lmc.select("one", choices=["related", "unrelated", "none"])
    s += "\nWhich? " + lmc.select("two", choices=[*extra, "none"])
    s += "\nNow? " + lmc.gen("three", choices=["Yes", "No"], temperature=0)


# Values.


@lmc.function
def compared(s):
    """Comparisons that can go either way."""
    s += "Is it? " + lmc.select("answer", choices=["Yes", "No", "Maybe"])
    if s["answer"].lower() == "yes" or s["answer"] in ("No", "Never"):
        s += " So be it."
    s += "\nCount: " + lmc.gen("count", type=int, max_tokens=8)
    if s["count"] == 3 or s["count"] > 2.5 or s["count"] == True:  # noqa: E712
        s += " Three."
    s += "\nGrade: " + lmc.gen("grade", regex="[A-D][+-]?", max_tokens=4)
    if s["grade"] == "A" or s["grade"].startswith("B"):
        s += " Good."
    s += "\nText:" + lmc.gen("text", max_tokens=4)
    return s["text"] == "x" or s["text"].strip() == "y" or len(s["text"]) > 3


@lmc.function
def correlated(s, kind: str):
    """Set and read under conditions that go together."""
    s += kind + ".\n"
    if kind == "person":
        s += "Name:" + lmc.gen("name", max_tokens=4)
    s += "\nText:" + lmc.gen("text", max_tokens=8)
    if kind == "person":
        return s["name"] + s["text"]
    return s["text"]


@lmc.function
def asked_first(s, wants: bool):
    """Read where it is set."""
    if wants:
        s += "Title:" + lmc.gen("title", max_tokens=4)
    s += "\nText:" + lmc.gen("text", max_tokens=8)
    return s["title"] if "title" in s else "none"


@lmc.function
def set_in_a_loop(s, words: list):
    """Set by a loop that is taken to run."""
    last = ""
    for word in words:
        s += word + ":" + lmc.gen("about", max_tokens=4)
        last = word
    return [last, s["about"]]


@lmc.function
def every_option(s):
    """All options of a choice, without an else."""
    s += "Kind: " + lmc.select("kind", choices=["news", "poem"])
    if s["kind"] == "news":
        heading = "Today"
        s += " Who:" + lmc.gen("who", max_tokens=4)
    elif s["kind"] == "poem":
        heading = "O"
        s += " For:" + lmc.gen("who", max_tokens=4)
    return heading + s["who"]


@lmc.function
def every_case(s):
    """The same by match, and by a literal."""
    s += "Pet: " + lmc.gen("pet", type=Literal["cat", "dog", "cow"], max_tokens=8)
    match s["pet"]:
        case "cat" | "dog":
            size = "small"
        case "cow":
            size = "large"
    return size


@lmc.function
def both_ways(s, n: int, flag: bool):
    """Conditions of which one holds."""
    if n > 3:
        s += "Many:" + lmc.gen("text", max_tokens=4)
    if n <= 3:
        s += "Few:" + lmc.gen("text", max_tokens=4)
    if flag:
        mark = "!"
    elif not flag:
        mark = "?"
    return s["text"] + mark


@lmc.function
def shapes_of_data(s, table: dict):
    """Patterns that leave nothing out of what is given."""
    match table:
        case {"a": 1}:
            found = "one"
        case {}:
            found = "none"
    s += found + lmc.gen("text", max_tokens=4)


# Control.


@lmc.function
def bounded(s, limit: int):
    """Loops that count, empty a list, or leave."""
    turn = 0
    while True:
        s += f"{turn}." + lmc.gen("step", max_tokens=4, stop="\n") + "\n"
        turn += 1
        if turn >= limit or s["step"] == "end":
            break
    queue = ["a", "b"]
    while queue:
        s += queue.pop() + lmc.gen("more", max_tokens=4)
    left = limit
    while left > 0 and s["more"] != "end":
        left = left - 1
        s += lmc.gen("more", max_tokens=4)


@lmc.function
def recursive(s, word: str, depth: int = 2):
    """A program that calls itself, but not always."""
    s += word + lmc.gen("next", max_tokens=4)
    if depth > 0:
        return recursive(s["next"], depth - 1).value
    return s["next"]


@lmc.function
def acting(s, limit: int):
    """A tool in an arm, declared; another without effects."""
    for _ in range(limit):
        s += "Do: " + lmc.select("verb", choices=["send", "stop"])
        if s["verb"] == "stop":
            break
        s += "\nText:" + lmc.gen("text", max_tokens=8, stop="\n")
        s += f"\nSent {send(s['text'])}, {parsed(s['text'])}.\n"
    print(s.text())


def divided(s, text, depth):
    """A helper that takes a state and calls itself."""
    s += text + ":" + lmc.gen("part", max_tokens=4)
    if depth == 0:
        return [s["part"]]
    child = s.copy()
    child += "\nCloser:" + lmc.gen("closer", max_tokens=4)
    return divided(child, "Part", depth - 1)


@lmc.function
def divides(s, text: str, depth: int):
    """Recursion with a bound known late."""
    return divided(s, text, depth)


def voice(s, word):
    """A helper whose second variable one of its callers reads."""
    child = s.copy()
    child += word + ":" + lmc.gen("first", max_tokens=4, stop="\n")
    child += "\nAnd:" + lmc.gen("second", max_tokens=4)
    return child


@lmc.function
def voices(s):
    """One caller reads more than the other."""
    s += "Voices.\n"
    low = voice(s, "Low")
    high = voice(s, "High")
    return [low["first"], low["second"], high["first"]]


@lmc.function
def returned(s, width: int):
    """Branches that are the program's result."""
    s += "Think."
    forks = s.fork(width)
    forks += "So:" + lmc.gen("thought", max_tokens=4)
    return forks
