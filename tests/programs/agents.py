"""Agents: ReAct replayed and real, generative agents, tool use, an article router."""

import json

import lmc

LOG = []


@lmc.tool(effects="write")
def look_up(query):
    """Note the query and answer it."""
    LOG.append(query)
    return f"{len(query)} letters"


@lmc.tool(effects="none")
def shout(text):
    """Return the text in capitals."""
    return text.upper()


@lmc.function
def react_replay(s, question, steps):
    """Replay recorded steps; each turn forks once for nothing."""
    s += "Question: " + question + "\n"
    for i in range(len(steps)):
        s += f"Thought {i + 1}:" + lmc.gen(f"thought{i}", max_tokens=6, stop="\n") + "\n"
        s.fork(1)
        if i == len(steps) - 1:
            break
        s += "Action: " + steps[i]["action"] + "\nObservation: " + steps[i]["observation"] + "\n"
    s += "Answer:" + lmc.gen("answer", max_tokens=6)


@lmc.function
def react(s, question, k=3):
    """Think, act, observe, up to k turns."""
    s += "Question: " + question + "\n"
    for turn in range(1, k + 1):
        s += f"Thought {turn}:" + lmc.gen("thought", max_tokens=8, stop="\n")
        s += "\nAction: " + lmc.select("action", choices=["search", "finish"])
        if s["action"] == "search":
            s += "\nQuery:" + lmc.gen("query", max_tokens=5, stop="\n")
            s += "\nObservation: " + look_up(s["query"]) + "\n"
        else:
            s += "\nAnswer:" + lmc.gen("answer", max_tokens=8, stop="\n")
            break
    else:
        s += "No answer."
    return s["answer"] if "answer" in s else None


@lmc.function
def poignancy(s, name, traits, event):
    """Rate how much an event matters to somebody."""
    s += "Here is a brief description of " + name + ".\n" + traits + "\n"
    s += "On a scale of 1 to 9, how much does this matter to " + name + "?\nEvent: " + event
    s += "\nRating:" + lmc.gen("rating", type=int, max_tokens=8)
    return s["rating"] + 1


@lmc.function
def action_event(s, name, action):
    """Turn an action into subject, verb and object."""
    s += "Input: Ada is reading a book.\nOutput: (Ada, read, book)\n---\n"
    s += "Input: " + name + " is " + action + ".\nOutput: (" + name + ","
    s += lmc.gen("triple", max_tokens=6, stop=[")", "\n"]) + ")"


@lmc.function
def next_place(s, name, home, sectors, current, plan, goal, first, second, hour):
    """Choose where to go; many arguments, some used twice, constants after them."""
    s += "Task -- choose a place from the list.\n"
    s += f"{name} lives in {home} that has {', '.join(sectors)}.\n"
    s += name + " is in " + current + " at " + str(hour) + " o'clock.\n"
    s += "Plan: " + plan + ". Goal: " + goal + ". Before: " + first + ", " + second + ".\n"
    s += "For " + goal + ", " + name + " should go to:" + lmc.gen("place", max_tokens=4, stop="\n")
    s += "\nDone."


@lmc.function
def count_tool(s, text):
    """Use Python on what was generated, within a scope."""
    with s.var_scope("calculation"):
        s += "Words: " + lmc.gen("words", max_tokens=6, stop="\n")
        n = len(s["words"].split())
        s += f" ({n} words, {n * 2 + 1} odd)"
    s += "\nLoud: " + shout(s["words"]) + "\n" + lmc.gen("end", max_tokens=3)
    total = sum(len(word) for word in s["words"].split() if word.isalpha())
    return [s["calculation"], total, json.loads("[1, 2]"), max(n, 2) ** 2]


@lmc.function
def router(s, title):
    """Different prompts for different kinds, then common code."""
    s += "Title: " + title + "\nKind: "
    s += lmc.select("kind", choices=["news", "recipe", "poem"])
    kind = s["kind"]
    if kind == "news":
        s += "\nWho:" + lmc.gen("who", max_tokens=4, stop="\n")
        s += "\nWhen:" + lmc.gen("when", max_tokens=4, stop="\n")
        opening = s["who"] + " at " + s["when"]
    elif kind == "recipe":
        s += "\nMain part:" + lmc.gen("part", max_tokens=4, stop="\n")
        opening = "Take " + s["part"]
    else:
        opening = "O"
    s += "\n" + opening + ":" + lmc.gen("body", max_tokens=10)
    return {"kind": kind, "body": s["body"], "who": s["who"] if "who" in s else None}


@lmc.function
def matched(s, request):
    """The same by a match statement, with early returns."""
    s += request + "\n" + lmc.select("verb", choices=["go", "stop", "wait", "say"])
    match s["verb"]:
        case "go" | "wait" as verb:
            s += " " + verb + lmc.gen("where", max_tokens=3)
        case "stop":
            return "stopped"
        case str() if len(request) > 3:
            s += " long"
        case _:
            s += " short"
    s += lmc.gen("last", max_tokens=2)
    return s["last"]


STEPS = [{"action": "search[a]", "observation": "b"}, {"action": "look[c]", "observation": "d"}]

ARGUMENTS = {
    "react_replay": [{"question": "?", "steps": STEPS}, {"question": "?", "steps": []}],
    "react": [{"question": "Who?"}, {"question": "Who?", "k": 0}, {"question": "Who?", "k": 1}],
    "poignancy": [{"name": "Ada", "traits": "Ada is calm.", "event": "tea"}],
    "action_event": [{"name": "Bo", "action": "running"}],
    "next_place": [{"name": "Bo", "home": "a hut", "sectors": ["yard", "hall"], "current": "hall",
                    "plan": "eat", "goal": "tea", "first": "x", "second": "y", "hour": 7}],
    "count_tool": [{"text": "x"}],
    "router": [{"title": "Rain"}],
    "matched": [{"request": "Do it"}, {"request": "x"}],
}  # fmt: skip

SCRIPTS = [
    {}, {"action": "search", "kind": "news", "verb": "go", "query": " tea", "words": "a bc d1"},
    {"action": "finish", "kind": "recipe", "verb": "stop", "words": ""},
    {"action": "finish", "kind": "poem", "verb": "say"}, {"verb": "wait"},
]  # fmt: skip
