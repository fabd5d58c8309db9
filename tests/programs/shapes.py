"""Shapes of the field whose width is an argument, and records of typed values."""

import dataclasses
import enum
import json
from collections import Counter

import pydantic

import lmc


class Season(enum.Enum):
    """A closed set of words."""

    WARM = "warm"
    COLD = "cold"


@dataclasses.dataclass
class Place:
    """What a dataclass gives."""

    name: str
    people: int


class Trip(pydantic.BaseModel):
    """What a model with nested parts gives."""

    days: int
    season: Season


SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "count": {"type": "integer"}},
    "required": ["ok", "count"],
}


@lmc.function
def skeleton(s, topic, width):
    """Points one by one, a branch for each, joined and merged by a loop."""
    s += "Points on " + topic + ":\n"
    for i in range(width):
        s += f"{i}." + lmc.gen(f"point_{i}", max_tokens=4, stop=[".", "\n"]) + ".\n"
    forks = s.fork(width)
    for i in range(width):
        forks[i] += f"\nPoint {i} at length, {s[f'point_{i}'].strip()}:"
        forks[i] += lmc.gen("paragraph", max_tokens=5)
    forks.join()
    for i in range(width):
        s += f"{i}: " + forks[i]["paragraph"] + "\n"
    s += "In short:" + lmc.gen("summary", max_tokens=4)
    return s["paragraph"] if "paragraph" in s else None


@lmc.function
def thought_chains(s, question, starts):
    """Chains with different beginnings, read back without their blanks."""
    s += "Question: " + question + "\n"
    forks = s.fork(len(starts))
    forks += starts
    forks += lmc.gen("chain", max_tokens=5, temperature=0.3)
    for number, fork in enumerate(forks, start=1):
        s += f"Solution {number}: " + fork["chain"].strip() + "\n"
    s += "So it is" + lmc.gen("answer", max_tokens=3)


@lmc.function
def judged(s, article, dimensions):
    """A judge per dimension, stopped by a word, cut to its first line."""
    s += "Article: " + article + "\n"
    judges = s.fork(len(dimensions))
    for judge, dimension in zip(judges, dimensions, strict=True):
        judge += "Its " + dimension + ":" + lmc.gen("view", max_tokens=6, stop="END")
    for judge, dimension in zip(judges, dimensions, strict=True):
        s += dimension.split(":")[0] + ": " + judge["view"].strip().split("\n")[0] + "\n"
    s += "Score:" + lmc.gen("score", max_tokens=2)
    return [judge["view"] for judge in judges]


@lmc.function
def branch_solve_merge(s, essay, dimensions):
    """An early return on one arm; else branches, a merge and a grade."""
    s += lmc.user("Is this an essay?\n" + essay)
    s += lmc.assistant("It is " + lmc.select("kind", choices=["related", "unrelated"]))
    if s["kind"] == "unrelated":
        return {"grade": None, "kind": s["kind"]}
    forks = s.fork(len(dimensions))
    forks += lambda i: lmc.user("On " + dimensions[i])
    forks += lmc.assistant(lmc.gen("view", max_tokens=5))
    views = "\n".join(fork["view"] for fork in forks)
    s += lmc.user("Sum up:\n" + views)
    s += lmc.assistant(lmc.gen("summary", max_tokens=6))
    s += lmc.user("Grade it.")
    s += lmc.assistant("Grade: " + lmc.gen("grade", regex=r"[ABCD][+-]?"))
    return {"grade": s["grade"], "summary": s["summary"].strip(), "kind": s["kind"]}


@lmc.function
def first_tokens(s, question, width):
    """Branches made early and filled later from the likeliest first tokens."""
    s += "Q: " + question + "\nA:"
    first = s.fork(1)[0]
    forks = s.fork(width)
    first += lmc.gen("first", max_tokens=0, return_logprob=True, top_logprobs_num=3)
    places = first.get_meta_info("first")["output_top_logprobs"]
    scores = []
    for fork, (logprob, token_id, _) in zip(forks, places[0], strict=False):
        if token_id % 2 == 0:
            continue
        fork += " so" + lmc.gen("rest", temperature=0, max_tokens=4, return_logprob=True)
        logprobs = fork.get_meta_info("rest")["logprobs"]
        scores.append([round(logprob + sum(logprobs), 3), fork["rest"]])
    return sorted(scores, reverse=True)


def first_word(text):
    """Return the first word of letters, or nothing."""
    return next((word for word in text.split() if word.isalpha()), "")


@lmc.function
def voted(s, question, n):
    """Samples, answers taken out by a function, the majority."""
    s += "Q: " + question + "\nA:"
    forks = s.fork(n)
    forks += lmc.gen("answer", max_tokens=5, temperature=0.9)
    votes = {}
    for fork in forks:
        word = first_word(fork["answer"])
        votes[word] = votes.get(word, 0) + 1
    return max(votes, key=lambda word: (votes[word], word)) if votes else None


@lmc.function
def part_of(s, document):
    """One document in a few words."""
    s += "Shorten: " + document + "\n" + lmc.gen("short", max_tokens=4, stop="\n")
    return s["short"].strip()


@lmc.function
def reduced(s, documents):
    """A nested program per document, then one prompt over all."""
    shorts = [part_of(document=document).ret_value for document in documents]
    s += "Together:\n" + "\n".join(f"- {short}" for short in shorts) + "\n"
    s += lmc.gen("whole", max_tokens=5)
    return len(shorts)


@lmc.function
def refined(s, task, k):
    """Criticise and revise until it is good, at most k times."""
    s += task + "\nDraft:" + lmc.gen("draft", max_tokens=4, stop="\n")
    i, good = 0, False
    while not good and i < k:
        s += "\nBut:" + lmc.gen("critique", max_tokens=3, stop="\n")
        s += "\nThis is " + lmc.select("verdict", choices=["good", "bad"])
        good = s["verdict"] == "good"
        if not good:
            s += "\nBetter:" + lmc.gen("draft", max_tokens=4, stop="\n")
        i += 1
    return [s["draft"], i]


@lmc.function
def record(s, text):
    """Typed values that decide in Python what comes next."""
    s += text + "\nPeople: " + lmc.gen("people", type=int, max_tokens=30)
    s += "\nOpen: " + lmc.gen("open", type=bool, max_tokens=10)
    s += "\nSeason: " + lmc.gen("season", type=Season, max_tokens=10)
    s += "\nPlace: " + lmc.gen("place", type=Place, max_tokens=200) + "\n"
    if s["open"] and s["people"] > 10:
        s += "A crowd:" + lmc.gen("crowd", max_tokens=3)
    elif s["season"] == Season.COLD:
        s += "It is cold." + lmc.gen("cold", max_tokens=3)
    return [s["people"] + 1, s["season"].value, s["place"].people * 2, s["place"].name.upper()]


@lmc.function
def from_schemas(s, text):
    """Objects from a schema and from a model."""
    s += text + "\n" + lmc.gen("made", json_schema=SCHEMA, max_tokens=100)
    s += "\n" + lmc.gen("trip", type=Trip, max_tokens=100)
    made = json.loads(s["made"])
    return [made["count"] + 1 if made["ok"] else -1, s["trip"].days]


@lmc.function
def tool_used(s, left, right):
    """A computation on generated text, kept in a scope."""
    s += (
        "Compute " + str(left) + " and " + str(right) + ": calc(" + lmc.gen("what", stop=")") + ")="
    )
    with s.var_scope("answer"):
        s += computed(s["what"])
    return [len(s["answer"]), dict(Counter(s["answer"]))]


def computed(text):
    """Add up the numbers of a text."""
    return str(sum(int(word) for word in text.split("+") if word.strip().isdigit()))


WIDTHS = (0, 1, 3)
NAMES = ["Form: is it neat?", "Wit", "Length: long?"]
ARGUMENTS = {
    "skeleton": [{"topic": "tea", "width": width} for width in WIDTHS],
    "thought_chains": [
        {"question": "Why?", "starts": "So "},
        *({"question": "Why?", "starts": ["So ", "First ", "Well, "][:width]} for width in WIDTHS),
    ],
    "judged": [{"article": "Rain fell.", "dimensions": NAMES[:width]} for width in WIDTHS],
    "branch_solve_merge": [{"essay": "Dogs.", "dimensions": NAMES[:width]} for width in WIDTHS],
    "first_tokens": [{"question": question, "width": w} for question in "?!" for w in WIDTHS],
    "voted": [{"question": "Who?", "n": width} for width in WIDTHS],
    "reduced": [{"documents": ["one", "two", "three"][:width]} for width in WIDTHS],
    "refined": [{"task": "Write.", "k": k} for k in WIDTHS],
    "record": [{"text": "A lake."}],
    "from_schemas": [{"text": "A lake."}],
    "tool_used": [{"left": 2, "right": 3}],
}
SCRIPTS = [
    {"kind": "related", "verdict": "bad", "people": "12", "open": "True", "what": "2+3"},
    {"kind": "unrelated", "verdict": "good", "people": "3", "season": "cold", "open": "False",
     "made": '{"ok": true, "count": 4}', "answer": " same"},
    {"season": "warm", "open": "True", "people": "5", "made": '{"ok": false, "count": 1}',
     "what": "none"},
]  # fmt: skip
