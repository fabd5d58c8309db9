"""Whole programs with mistakes in what is made: unused, unread, never reached, set twice."""
# fmt: off

import lmc


@lmc.function
def judge(s, essay: str):
    s += lmc.system("You judge essays.")
    s += lmc.user("Essay: " + essay)
    forks = s.fork(3)
    for fork, side in zip(forks, ["clarity", "evidence", "style"]):
        fork += lmc.user("Judge " + side + ".")
        fork += lmc.assistant("It is" + lmc.gen("judgment", max_tokens=40, stop="\n"))  # LMC101 lmc.gen("judgm
    s += lmc.user("Give a grade.")
    s += lmc.assistant(lmc.gen("grade", max_tokens=4))
    return s["grade"]


@lmc.function
def research(s, topic: str):
    s += "Topic: " + topic + "\nFacts:"
    s += lmc.gen("facts", max_tokens=60, stop="\n\n")
    return s["facts"]


@lmc.function
def writer(s, topic: str):
    research(topic)  # LMC101 research(topic
    s += "Write about " + topic + ":\n"
    s += lmc.gen("text", max_tokens=100)
    return s["text"]


def think(branch, question: str):
    branch += "Q: " + question + "\nThought:"
    branch += lmc.gen("thought", max_tokens=30, stop="\n")  # LMC101 lmc.gen("thoug


@lmc.function
def answer(s, question: str):
    scratch = s.copy()
    think(scratch, question)
    s += "Q: " + question + "\nA:"
    s += lmc.gen("answer", max_tokens=30, stop="\n")
    return s["answer"]


@lmc.function
def rate(s, docs: list[str]):
    s += "Summarise.\n"
    for doc in docs:
        side = s.copy()
        side += doc + "\nRelevant? "
        side += lmc.select("relevant", choices=["yes", "no"])  # LMC101 lmc.select("re
        s += doc + "\n"
    s += "Summary:" + lmc.gen("summary", max_tokens=50)


@lmc.function
def tips(s, topic: str):
    s += "Two tips about " + topic + ".\n"
    forks = s.fork(2)
    for i, f in enumerate(forks):
        f += f"Tip {i + 1}:" + lmc.gen("tip", max_tokens=32, stop="\n")
        f += "\nWhy:" + lmc.gen("why", max_tokens=32, stop="\n")  # LMC101 lmc.gen("why",
    s += "1." + forks[0]["tip"] + "\n2." + forks[1]["tip"] + "\n"
    s += "In short:" + lmc.gen("short", max_tokens=30)


@lmc.function
def chat(s, question: str):
    s += lmc.user(question)
    plan = s.copy()
    with plan.assistant():
        plan += "Plan:"
        plan += lmc.gen("plan", max_tokens=20)  # LMC101 lmc.gen("plan"
    with s.assistant():
        s += lmc.gen("answer", max_tokens=40)
    return s["answer"]


@lmc.function
def helpdesk(s, question: str, careful: bool):
    s += "Question: " + question + "\n"
    if careful:
        probe = s.fork(1)[0]
        probe += "Is this safe?" + lmc.gen("safe", max_tokens=4)  # LMC101 lmc.gen("safe"
    s += "Answer:" + lmc.gen("answer", max_tokens=40)
    return s["answer"]


@lmc.function
def classify(s, text: str):
    s += text + "\nSentiment: "
    s += lmc.select("mood", choices=["positive", "negative"])
    if s["mood"] == "positive":
        return "good"
    else:
        return "bad"
    s += "\nThanks."  # LMC102 s += "\nThanks


@lmc.function
def react(s, question: str):
    s += "Question: " + question + "\n"
    for i in range(5):
        s += f"Thought {i}:" + lmc.gen("thought", max_tokens=30, stop="\n") + "\n"
        s += f"Act {i}: " + lmc.select("act", choices=["search", "finish"]) + "\n"
        if s["act"] == "finish":
            break
            s += "Finished.\n"  # LMC102 s += "Finished
        s += "Observation: nothing.\n"
    s += "Answer:" + lmc.gen("answer", max_tokens=20)


@lmc.function
def panel(s, topic: str):
    s += "Topic: " + topic + "\n"
    forks = s.fork(2)
    forks += "Opinion:" + lmc.gen("opinion", max_tokens=20, stop="\n")
    forks += "\nThis ends the opinion."  # LMC102 "\nThis ends t
    s += "A says" + forks[0]["opinion"] + ", B says" + forks[1]["opinion"] + "\n"
    s += "Verdict:" + lmc.gen("verdict", max_tokens=20)


def pick(s, kind: str):
    if kind == "short":
        return 10
    raise ValueError(kind)
    s += "default"  # LMC102 s += "default"


@lmc.function
def write(s, kind: str):
    s += "Write:"
    s += lmc.gen("text", max_tokens=20)
    n = pick(s, kind)
    s += f"\nIn {n} words:" + lmc.gen("short", max_tokens=20)


@lmc.function
def grade(s, answer: str):
    s += "Answer: " + answer + "\nGrade: "
    s += lmc.select("grade", choices=["A", "B", "C"])
    if s["grade"] == "D":  # LMC503 s["grade"] ==
        s += "\nFailed:" + lmc.gen("why", max_tokens=20)
    return s["grade"]


@lmc.function
def mark(s, lines: list[str]):
    s += "Mark.\n"
    for line in lines:
        s += line + lmc.gen("mark", max_tokens=3, stop="\n")
        continue
        s += "\n"  # LMC102 s += "\n"
    return s.text()


@lmc.function
def guide(s, q: str):
    s += "Help with " + q + "\n"
    n = 0
    while True:
        s += "Step:" + lmc.gen("step", max_tokens=20, stop="\n") + "\n"
        n += 1
        if n == 3:
            return s.text()
    s += "All done."  # LMC102 s += "All done


@lmc.function
def json_like(s, doc: str):
    s += doc + '\n{\n  "name": "'
    s += lmc.gen("name", max_tokens=10, stop='"')
    s += '",\n  "town": "'
    s += lmc.gen("name", max_tokens=10, stop='"')  # LMC103 "name", max_to
    s += '"\n}'
    return s["name"]


@lmc.function
def two_turns(s, first: str, second: str):
    s += lmc.user(first)
    s += lmc.assistant(lmc.gen("reply", max_tokens=30))
    s += lmc.user(second)
    s += lmc.assistant(lmc.gen("reply", max_tokens=30))  # LMC103 "reply", max_t
    return s["reply"]


@lmc.function
def triage(s, report: str):
    s += "Report: " + report + "\nSummary:"
    s += lmc.gen("result", max_tokens=20, stop="\n")
    s += "\nUrgent? "
    s += lmc.select("result", choices=["yes", "no"])  # LMC103 "result", choi
    return s["result"]


@lmc.function
def explore(s, problem: str):
    s += problem + "\n"
    forks = s.fork(3)
    for f in forks:
        f += "Idea:" + lmc.gen("idea", max_tokens=20, stop="\n")
        f += "\nBetter idea:" + lmc.gen("idea", max_tokens=20, stop="\n")  # LMC103 "idea", max_to
    forks.join()
    return s["idea"]


@lmc.function
def total(s, question: str):
    s += question + "\nTotal: "
    s += lmc.gen("total", type=int, max_tokens=8)
    s["total"] = 7  # LMC103 s["total"] = 7
    return s["total"]


@lmc.function
def fact(s, topic: str):
    s += "A fact about " + topic + ":" + lmc.gen("fact", max_tokens=20, stop="\n")
    return s["fact"]


@lmc.function
def essay(s, topics: list[str]):
    s += "An essay.\n"
    for topic in topics:
        result = fact(topic)  # LMC101 fact(topic)
        s += "On " + topic + "\n"
    s += "Text:" + lmc.gen("text", max_tokens=50)


@lmc.function
def votes(s, q: str):
    s += q + "\n"
    forks = s.fork(3)
    for f in forks:
        f += "Vote: " + lmc.select("vote", choices=["yes", "no"])
        f += "\nReason:" + lmc.gen("reason", max_tokens=20)  # LMC101 lmc.gen("reaso
    counted = [f["vote"] for f in forks]
    return counted.count("yes")


@lmc.function
def redo(s, q: str):
    draft = s.copy()
    draft += q + "\nDraft:" + lmc.gen("draft", max_tokens=20)  # LMC101 lmc.gen("draft
    draft = s.copy()
    draft += q + "\nBetter draft:" + lmc.gen("draft", max_tokens=20)
    s += q + "\nDraft:" + draft["draft"] + "\nFinal:" + lmc.gen("final", max_tokens=20)


@lmc.function
def chat_again(s, q: str):
    s.user(q)
    other = s.copy()
    other.assistant(lmc.gen("other", max_tokens=10))  # LMC101 lmc.gen("other
    s.assistant(lmc.gen("answer", max_tokens=10))
    return s["answer"]


@lmc.function
def tries(s, q: str):
    s += q
    n = 0
    while n < 3:
        probe = s.copy()
        probe += "\nCheck:" + lmc.gen("check", max_tokens=3)  # LMC101 lmc.gen("check
        n += 1
    s += "\nA:" + lmc.gen("a", max_tokens=10)


@lmc.function
def branchy(s, q: str, long: bool):
    s += q + "\nNote:"
    s += lmc.gen("note", max_tokens=10, stop="\n")
    if long:
        s += "\nLong note:" + lmc.gen("note", max_tokens=40)  # LMC103 "note", max_to
    else:
        s += "\nShort note:" + lmc.gen("note", max_tokens=4)  # LMC103 "note", max_to
    return s["note"]


@lmc.function
def kw(s, q: str):
    s += q + "\nA:" + lmc.gen(name="a", max_tokens=10, stop="\n")
    s += "\nB:" + lmc.gen(name="a", max_tokens=10)  # LMC103 "a", max_token
    return s["a"]


@lmc.function
def typed(s, q: str):
    s += q + "\nFirst: " + lmc.gen("n", type=int, max_tokens=6)
    s += "\nSecond: " + lmc.gen("n", type=int, max_tokens=6)  # LMC103 "n", type=int,
    return s["n"] + 1


@lmc.function
def roles(s, q: str):
    with s.user():
        s += q
    with s.assistant():
        s += lmc.gen("r", max_tokens=6)
    with s.user():
        s += "And?"
    with s.assistant():
        s += lmc.gen("r", max_tokens=6)  # LMC103 "r", max_token
    return s["r"]


@lmc.function
def ue(s, q: str):
    s += q + "\nA:"
    s += lmc.gen("a", max_tokens=5)
    if s["a"]:
        return s["a"]
    else:
        raise ValueError("empty")
    s += lmc.gen("b", max_tokens=5)  # LMC102 s += lmc.gen("
    return s["b"]


@lmc.function
def um(s, q: str):
    s += q + "\nA: " + lmc.select("a", choices=["x", "y"])
    match s["a"]:
        case "x":
            return 1
        case _:
            return 2
    s += "never"  # LMC102 s += "never"


DEBUG = False


@lmc.function
def ud(s, q: str):
    if DEBUG:
        s += "Debug.\n"  # LMC102 s += "Debug.\n
    s += q + "\nA:" + lmc.gen("a", max_tokens=5)


@lmc.function
def un(s, q: str):
    s += q
    for i in range(3):
        s += f"\n{i}:" + lmc.gen("a", max_tokens=5, stop="\n")
        if s["a"] == "":
            raise ValueError("nothing")
            s += "\nstop"  # LMC102 s += "\nstop"
