"""The shapes of the field told a second time, with other idioms of Python."""

import json
import re
from collections import Counter

import lmc

LETTERS = ("A", "B", "C", "D")
FIELDS = {"title": 8, "place": 6, "code": 4}
HINTS = ["Slowly.", "Backwards.", "By drawing."]
LOG: list[str] = []


def worded(row, key=None):
    """A question with lettered options, and its key where it is told."""
    head, *options = row
    lines = [head] + [
        f"{letter}) {option}" for letter, option in zip(LETTERS, options, strict=False)
    ]
    return "\n".join(lines) + "\nKey:" + (f" {key}\n\n" if key is not None else "")


@lmc.function
def few_shot(s, rows: list[list[str]], row: list[str], keys: list[str]):
    s += (
        "".join(worded(shown, key) for shown, key in zip(rows, keys, strict=True))
        or "No examples.\n"
    )
    s += worded(row)
    s += lmc.gen("key", max_tokens=1, temperature=0, stop=["\n", "."])
    first, *_ = [*s["key"].strip(), "?"]
    return LETTERS.index(first) if first in LETTERS else -1


@lmc.function
def likeliest(s, shots: list[str], start: str, ends: list[str]):
    for shot in shots:
        s += shot + "\n\n"
    s += start
    s += lmc.select("end", ends if ends else ["nothing"])
    return {end: number for number, end in enumerate(ends)}.get(s["end"])


@lmc.function
def replay(s, question: str, steps: list[dict[str, str]]):
    s += f"Q: {question}\n"
    number = 0
    while True:
        number += 1
        s += f"T{number}:"
        with s.copy() as aside:
            aside += lmc.gen("thought", max_tokens=5, stop="O")
        try_next = number <= len(steps)
        if not try_next:
            break
        step = steps[number - 1]
        s += "{thought} / {act}\n".format(**step)
    return number


def look_up(word):
    LOG.append(word)
    return f"{word}: {len(word)} letters"


@lmc.function
def acting(s, question: str, most: int):
    s += "Question: " + question + "\n"
    seen = []
    for turn in range(most):
        s += "Think:" + lmc.gen(max_tokens=4, stop="\n") + "\nDo: "
        s += lmc.select(f"do_{turn}", choices=["look", "end"])
        match s[f"do_{turn}"]:
            case "look":
                s += "(" + lmc.gen("word", max_tokens=2, stop=")") + ")\n"
                seen += [look_up(s["word"])]
                s += "Seen: " + seen[-1] + "\n"
            case _:
                s += ":" + lmc.gen("answer", max_tokens=4)
                return s["answer"], seen
    else:
        s += "Time is over.\n"
    return None, seen


@lmc.function
def event(s, who: str, about: str, what: str):
    parts = [f"This is {who}.", about, f"What does {who} feel", f"when {what}?", f"({who}, 1-10):"]
    s += " ".join(parts) + lmc.gen("rate", max_tokens=2)
    digits = re.findall(r"\d+", s["rate"])
    return int(digits[0]) if digits else 5


def grow(state, word, width, tokens=6):
    """Ask in branches."""
    state += lmc.user(f"Now {word}.")
    made = state.fork(width)
    made += lmc.assistant(lmc.gen(word, max_tokens=tokens, temperature=0.3))
    return made


@lmc.function
def tree(s, question: str, width: int):
    s += lmc.user(question)
    leaves = [leaf for plan in grow(s, "plan", width) for leaf in grow(plan, "solve", width)]
    return [leaf["solve"].strip() for leaf in leaves], [len(leaf.text()) for leaf in leaves]


@lmc.function
def tree_gathered(s, question: str, width: int):
    s += lmc.user(question)
    plans = grow(s, "plan", width)
    levels = [plans]
    for plan in plans:
        levels.append(grow(plan, "solve", width))
    while levels:
        levels.pop().join()
    return s["solve"] if "solve" in s else []


@lmc.function
def longer(s, topic: str, tip: str):
    s += f"{topic}. {tip}! More:" + lmc.gen("more", max_tokens=5, stop="\n\n")
    return s["more"].rstrip()


@lmc.function
def tips(s, topic: str, number: int):
    s += f"{number} tips on {topic}:\n"
    names = [f"tip_{i}" for i in range(1, number + 1)]
    told = {}
    for name in names:
        s += "- " + lmc.gen(name, max_tokens=4, stop=[".", "\n"]) + "\n"
        told[name] = longer(topic, tip=s[name])
    s += "\n".join(f"{name}: {told[name]['more']}" for name in names)
    return [told[name].value for name in names]


@lmc.function
def side_by_side(s, topic: str):
    s += topic + ":\n"
    points = []
    for i in range(3):
        s += f"{i + 1}. " + lmc.gen(f"point_{i}", max_tokens=4, stop="\n") + "\n"
        points.append(s[f"point_{i}"])
    forks = s.fork(len(points))
    for i, (fork, point) in enumerate(zip(forks, points, strict=True)):
        fork += f"On {i} ({point}):" + lmc.gen("detail", max_tokens=5)
    forks.join()
    s += "All: " + "; ".join(s["detail"]) + "\nSo" + lmc.gen("so", max_tokens=5)


@lmc.function
def chains(s, question: str):
    s += question + "\n"
    branches = s.fork(len(HINTS))
    branches += [hint + lmc.gen("chain", max_tokens=6, temperature=0.3, stop="Q") for hint in HINTS]
    found = [branch["chain"].strip() for branch in branches]
    s += "".join(f"({i}) {text or 'nothing'}\n" for i, text in enumerate(found, start=1))
    s += "Thus" + lmc.gen("thus", max_tokens=3)
    return Counter(found).most_common(1)[0][0]


@lmc.function
def judged(s, text: str, sides: list[str]):
    s += "Judge:\n" + text + "\n"
    views = {}
    for side, fork in zip(sides, s.fork(len(sides)), strict=True):
        name, _, asked = side.partition(":")
        fork += f"{asked.strip()} View:" + lmc.gen("view", max_tokens=6, stop="END")
        views[name] = fork["view"].strip().split()
    for name in sorted(views):
        s += f"{name} = {' '.join(views[name])}\n"
    s += "Mark:" + lmc.gen("mark", max_tokens=2)
    return max(views, key=lambda name: len(views[name])) if views else None


@lmc.function
def solve(s, essay: str, topic: str):
    s += f"Essay: {essay}\nTopic: {topic}\nIt is "
    s += lmc.select("fit", ["related", "unrelated"])
    if s["fit"] != "related":
        return {"fit": False}
    left, middle, right = s.fork(3)
    for part, word in ((left, "style"), (middle, "facts"), (right, "form")):
        part += f". Its {word}:" + lmc.gen("said", max_tokens=5)
    s += ". " + " ".join(part["said"].strip() for part in (left, middle, right))
    s += " In sum" + lmc.gen("sum", max_tokens=4) + " Grade "
    s += lmc.gen("grade", regex="[A-D][+-]?", max_tokens=4)
    return {"fit": True, "sum": s["sum"], "grade": s["grade"][:1]}


@lmc.function
def record(s, text: str):
    shape = r'\{"name": "[a-z ]{1,8}", "size": [0-9]{1,3}, "kind": "(cat|dog)"\}'
    s += text + lmc.gen("record", regex=shape, max_tokens=80)
    try_read = json.loads(s["record"]) if s["record"].endswith("}") else {}
    return try_read.get("kind", "none"), try_read.get("size", -1)


@lmc.function
def long_record(s, document: str):
    s += document + "\n{\n"
    for name, limit in FIELDS.items():
        s += f'  "{name}": "' + lmc.gen(name, max_tokens=limit, stop='"') + '",\n'
    s += "}"
    return {name: s[name] for name in FIELDS}


@lmc.function
def talk(s, turns: list[dict[str, int]]):
    for turn in turns:
        ((text, limit),) = turn.items()
        with s.user():
            s += text
        with s.assistant():
            s += lmc.gen(max_tokens=limit, ignore_eos=True)
    return len(s.messages())


@lmc.function
def documents(s, papers: list[str], question: str):
    s += lmc.user_begin() + "Read these.\n"
    group = s.fork(len(papers))
    group += lambda i: f"[{i}] " + papers[i].strip() + "\n"
    group.join(mode="concate_and_append")
    s += question + lmc.user_end()
    s += lmc.assistant(lmc.gen("answer", max_tokens=4))


@lmc.function
def expert(s, question: str):
    s += f"{question} Ask" + lmc.gen("who", stop=[".", "\n"], max_tokens=4)
    who = s["who"].title() or "nobody"
    s += f".\n{who:>6} says" + lmc.gen("says", stop=".", max_tokens=6) + "."
    return who


@lmc.function
def routed(s, article: str):
    s += article + "\nKind: " + lmc.select("kind", ["news", "poem", "other"]) + "\n"
    asks = {"news": ["who", "when"], "poem": ["mood"]}
    for name in asks.get(s["kind"], []):
        s += f"{name}:" + lmc.gen(name, max_tokens=3)
    else:
        s += "Done." if s["kind"] in asks else "Skip."
    s += lmc.gen("end", max_tokens=2)
    return [s[name] for name in ("who", "when", "mood") if name in s]


@lmc.function
def paths(s, question: str, width: int):
    s += question
    first, forks = s.fork(1)[0], s.fork(width)
    first += lmc.gen("top", max_tokens=0, top_logprobs_num=max(width, 1))
    places = first.get_meta_info("top")["output_top_logprobs"][0]
    scores = []
    for fork, (logprob, _, text) in zip(forks, places, strict=False):
        if not text.strip():
            continue
        fork += text + lmc.gen("rest", max_tokens=4, top_logprobs_num=2)
        pairs = fork.get_meta_info("rest")["output_top_logprobs"]
        scores.append((round(sum(a[0] - b[0] for a, b in pairs), 3), round(logprob, 3)))
    return sorted(scores, reverse=True)


@lmc.function
def voted(s, question: str, n: int):
    s += question
    forks = s.fork(n)
    forks += lmc.gen("try", max_tokens=4, temperature=0.9)
    votes = Counter(fork["try"].split()[-1] if fork["try"].split() else "" for fork in forks)
    return votes.most_common(1)[0] if votes else None


@lmc.function
def refined(s, task: str, rounds: int):
    s += task + lmc.gen("draft", max_tokens=5)
    left, verdict = rounds, "bad"
    while left > 0 and verdict != "good":
        s += (
            "\nFlaw:"
            + lmc.gen("flaw", max_tokens=3)
            + " It is "
            + lmc.select("verdict", ["good", "bad"])
        )
        verdict = s["verdict"]
        if verdict == "bad":
            s += ". Again:" + lmc.gen("draft", max_tokens=5)
        left -= 1
    else:
        s += "\nEnd."
    return verdict, rounds - left


@lmc.function
def brief(s, text: str, limit: int = 4):
    s += "Brief: " + text + lmc.gen("brief", max_tokens=limit)
    return s["brief"]


@lmc.function
def reduced(s, texts: list[str]):
    briefs = (
        [brief(text).value for text in texts]
        if len(texts) < 3
        else [brief(text, limit=2).value for text in texts]
    )
    s += " | ".join(briefs) + lmc.gen("all", max_tokens=4)
    return dict(enumerate(briefs))


@lmc.function
def extracted(s, text: str):
    s += text
    age = lmc.gen("age", type=int, max_tokens=24)
    s += " Age " + age + " member " + lmc.gen("member", type=bool)
    if not s["member"] or s["age"] < 18:
        return "no"
    elif 18 <= s["age"] < 65:
        s += lmc.gen("job", max_tokens=3)
    return "yes", s["age"] // 10


ARGUMENTS = {
    "few_shot": [
        {"rows": [], "row": ["q?", "x"], "keys": []},
        {"rows": [["a?", "b", "c"]], "row": ["q?", "x", "y"], "keys": ["B"]},
    ],
    "likeliest": [
        {"shots": [], "start": "He", "ends": []},
        {"shots": ["x"], "start": "He", "ends": [" ran", " sat"]},
    ],
    "replay": [
        {"question": "q", "steps": [{"thought": f"t{i}", "act": "a"} for i in range(n)]}
        for n in (0, 1, 3)
    ],
    "acting": [{"question": "q", "most": n} for n in (0, 1, 3)],
    "event": [{"who": "Bo", "about": "Tall.", "what": "it rains"}],
    "tree": [{"question": "q", "width": n} for n in (0, 1, 3)],
    "tree_gathered": [{"question": "q", "width": n} for n in (0, 1, 2)],
    "longer": [{"topic": "t", "tip": "x"}],
    "tips": [{"topic": "t", "number": n} for n in (0, 1, 3)],
    "side_by_side": [{"topic": "t"}],
    "chains": [{"question": "q"}],
    "judged": [{"text": "t", "sides": ["B: is it?", "A: why?", "C"][:n]} for n in (0, 1, 3)],
    "solve": [{"essay": "e", "topic": "t"}],
    "record": [{"text": "t"}],
    "long_record": [{"document": "d"}],
    "talk": [{"turns": [{f"t{i}": 2 + i} for i in range(n)]} for n in (0, 1, 3)],
    "documents": [{"papers": ["a ", " b", "c"][:n], "question": "q"} for n in (0, 1, 3)],
    "expert": [{"question": "q"}],
    "routed": [{"article": "a"}],
    "paths": [{"question": "q", "width": n} for n in (0, 1, 3)],
    "voted": [{"question": "q", "n": n} for n in (0, 1, 3)],
    "refined": [{"task": "t", "rounds": n} for n in (0, 1, 3)],
    "brief": [{"text": "t", "limit": 4}],
    "reduced": [{"texts": ["a", "b", "c"][:n]} for n in (0, 1, 3)],
    "extracted": [{"text": "t"}],
}

SCRIPTS = [
    {},
    {"key": " B", "do_0": "look", "do_1": "end", "fit": "related", "kind": "news", "verdict": "bad",
     "member": "True", "age": "30", "rate": "7"},
    {"key": " ?", "do_0": "end", "fit": "unrelated", "kind": "poem", "verdict": "good",
     "member": "True", "age": "70", "rate": "none"},
    {"kind": "other", "member": "False", "age": "12"},
]  # fmt: skip
