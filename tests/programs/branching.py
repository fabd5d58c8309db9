"""Forks: tree of thought, skeleton of thought, parallel decoding, judges, consistency."""

import lmc

DIMENSIONS = ["clarity", "order", "evidence", "style", "depth", "tone"]
CHAINS = {"think": "Let us think step by step.", "guess": "Quickly,", "doubt": "Carefully,"}


def propose(s, question, width):
    """Fork plans for a question."""
    s += "Question: " + question + "\nPlan:"
    forks = s.fork(width)
    forks += lmc.gen("plan", max_tokens=5, temperature=0.7, stop="\n")
    return forks


def execute(s, width):
    """Fork solutions of a plan."""
    s += "\nSolve it:"
    forks = s.fork(width)
    forks += lmc.gen("solution", max_tokens=5, temperature=0.7)
    return forks


@lmc.function
def tree(s, question, width):
    """A tree of thought, its leaves' texts as nested lists."""
    plans = propose(s, question, width)
    solved = []
    for plan in plans:
        forks = execute(plan, width)
        solved.extend(forks)
    answers = []
    for solution in solved:
        solution += "\nAnswer:"
        forks = solution.fork(width)
        forks += lmc.gen("answer", max_tokens=3)
        answers.append([fork.text() for fork in forks])
    return answers


@lmc.function
def tree_joined(s, question, width):
    """A tree of thought whose forks are joined from the leaves up."""
    plans = propose(s, question, width)
    for plan in plans:
        solutions = execute(plan, width)
        for solution in solutions:
            scores = solution.fork(2)
            scores += "\nScore:" + lmc.gen("score", max_tokens=2)
            scores.join()
        solutions.join()
    plans.join()
    return [s["plan"], s["solution"], s["score"]]


@lmc.function
def beam(s, question, width=2, depth=2):
    """Keep the best branch of each round."""
    s += question
    current = s
    for step in range(depth):
        forks = current.fork(width)
        forks += f"\nStep {step}:" + lmc.gen("step", max_tokens=4)
        best = forks[0]
        for fork in forks:
            if len(fork["step"]) > len(best["step"]):
                best = fork
        current = best
    return current.text()


@lmc.function
def expand(s, tip):
    """Expand one tip."""
    s += "Expand this tip in a few words: " + tip + "\n" + lmc.gen("detail", max_tokens=6)
    return s["detail"].strip()


@lmc.function
def tips(s, topic, number):
    """Tips one by one, each expanded by another program, then merged."""
    s += f"{number} tips for {topic}.\n"
    for i in range(number):
        s += f"{i + 1}." + lmc.gen(f"tip{i}", max_tokens=5, stop=["\n", "."]) + ".\n"
    details = [expand(s[f"tip{i}"]) for i in range(number)]
    for i in range(number):
        s += f"Tip {i + 1}: " + details[i]["detail"] + " / " + details[i].value + "\n"
    s += "In summary:" + lmc.gen("summary", max_tokens=6)
    return [detail.value for detail in details]


@lmc.function
def parallel(s, topic):
    """Skeleton, branches, join, merge, summary."""
    s += "Topic: " + topic + "\n"
    for i in range(3):
        s += f"{i}." + lmc.gen(f"point{i}", max_tokens=4, stop="\n") + "\n"
    forks = s.fork(3)
    for i in range(3):
        forks[i] += f"Now point {i}: " + s[f"point{i}"] + "\n"
        forks[i] += lmc.gen("paragraph", max_tokens=6)
    forks.join()
    for i, paragraph in enumerate(s["paragraph"]):
        s += f"Paragraph {i}: " + paragraph + "\n"
    s += lmc.gen("summary", max_tokens=4)


@lmc.function
def chains(s, question):
    """Several chains with different starts, merged."""
    s += "Question: " + question + "\n"
    forks = s.fork(len(CHAINS))
    for fork, (name, start) in zip(forks, CHAINS.items(), strict=True):
        fork += name + ": " + start
        fork += lmc.gen("chain", max_tokens=6, temperature=0.3)
    s += "Chains:\n"
    for number, fork in enumerate(forks):
        s += f"Chain {number}: " + fork["chain"].strip() + "\n"
    s += "So the answer is" + lmc.gen("answer", max_tokens=4)


@lmc.function
def rate(s, article):
    """Six judges, merged, two tokens."""
    s += "Article: " + article + "\n"
    judges = s.fork(6)
    for judge, dimension in zip(judges, DIMENSIONS, strict=False):
        judge += "Judge its " + dimension + "." + lmc.gen("judgment", max_tokens=6, stop="END")
    verdicts = [judge["judgment"].strip().split("\n")[0] for judge in judges]
    s += "\n".join(f"{d}: {v}" for d, v in zip(DIMENSIONS, verdicts, strict=True)) + "\nScore:"
    s += lmc.gen("score", max_tokens=2)
    return verdicts


@lmc.function
def judge(s, essay):
    """Branch, solve, merge, with an early return."""
    s += "Essay:\n" + essay + "\nIs it an essay? "
    s += lmc.select("related", choices=["yes", "no"])
    if s["related"] == "no":
        return {"grade": None}
    forks = s.fork(3)
    for fork, dimension in zip(forks, DIMENSIONS[:3], strict=True):
        fork += f"\nOn {dimension}:" + lmc.gen("judgment", max_tokens=6, stop="END")
    merged = ""
    for fork, dimension in zip(forks, DIMENSIONS):  # noqa: B905
        merged += dimension + ": " + fork["judgment"] + "\n"
    s += merged + "Summary:" + lmc.gen("summary", max_tokens=8)
    s += "\nGrade: " + lmc.gen("grade", max_tokens=3, regex="[A-D][+-]?")
    return {"grade": s["grade"], "summary": s["summary"].strip(), "n": len(forks)}


@lmc.function
def many_documents(s, documents, question):
    """A branch per document by a lambda, texts appended."""
    s += "Read.\n"
    forks = s.fork(len(documents))
    forks += lambda i: f"Document {i}: " + documents[i] + "\n"
    forks.join("concate_and_append")
    s += "Question: " + question + lmc.gen("answer", max_tokens=5)


@lmc.function
def consistent(s, question, n=3):
    """The majority of sampled answers."""
    s += question + " Answer:"
    forks = s.fork(n)
    forks += lmc.gen("answer", max_tokens=3, temperature=0.9)
    votes = {}
    for fork in forks:
        answer = extract(fork["answer"])
        votes[answer] = votes.get(answer, 0) + 1
    best, most = None, 0
    for answer, count in votes.items():
        if count > most:
            best, most = answer, count
    return [best, most, max(votes, key=lambda a: votes[a]), sorted(votes)]


def extract(text):
    """Return the first word."""
    for word in text.split():
        if word.isalpha():
            return word
    return ""


@lmc.function
def decode_paths(s, question):
    """Fork on the first tokens, fill later, score in Python."""
    s += "Question: " + question + "\nAnswer:"
    starts = s.fork(1)[0]
    starts += lmc.gen("start", max_tokens=2, return_logprob=True)
    info = starts.get_meta_info("start")
    forks = s.fork(3)
    kept = []
    for i in range(3):
        token = ["the", "", "a"][i]
        if token.strip() == "":
            continue
        forks[i] += " " + token
        forks[i] += lmc.gen("rest", max_tokens=4, return_logprob=True)
        probabilities = forks[i].get_meta_info("rest")["logprobs"]
        score = round(sum(probabilities) / max(len(probabilities), 1), 4)
        kept.append([token, score, forks[i]["rest"]])
    kept.sort(key=lambda item: item[1], reverse=True)
    return [kept, len(info["token_ids"])]


@lmc.function
def refine(s, task, k):
    """Draft, criticise, revise until good."""
    s += task + "\nDraft:" + lmc.gen("draft", max_tokens=5)
    i = 0
    verdict = "bad"
    while verdict != "good" and i < k:
        s += "\nCritique:" + lmc.gen("critique", max_tokens=4)
        s += "\nIt is " + lmc.select("verdict", choices=["good", "bad"])
        verdict = s["verdict"]
        if verdict == "bad":
            s += "\nRevision:" + lmc.gen("draft", max_tokens=5)
        i += 1
    return (s["draft"], i)


@lmc.function
def summarise(s, document):
    """Summarise one document."""
    s += "Summarise: " + document + lmc.gen("summary", max_tokens=4)
    return s["summary"]


@lmc.function
def map_reduce(s, documents):
    """Summaries of documents, reduced to one."""
    parts = [summarise(document, temperature=0).value for document in documents]
    s += "Combine:\n" + "\n".join(parts) + "\n" + lmc.gen("all", max_tokens=5)
    return s["all"]


@lmc.function
def fork_first(s):
    """Fork before any text."""
    branches = s.fork(3)
    for i, branch in enumerate(branches):
        branch += f"{i}: "
        branch += lmc.gen("out", max_tokens=4)
    return [branch["out"] for branch in branches]


ARGUMENTS = {
    "tree": [{"question": "2+2?", "width": 2}, {"question": "?", "width": 0}],
    "tree_joined": [{"question": "2+2?", "width": 2}],
    "beam": [{"question": "2+2?"}, {"question": "?", "depth": 0}],
    "tips": [{"topic": "tea", "number": 2}, {"topic": "tea", "number": 0}],
    "parallel": [{"topic": "tea"}],
    "chains": [{"question": "Why?"}],
    "rate": [{"article": "Rain fell."}],
    "judge": [{"essay": "Dogs are good."}],
    "many_documents": [{"documents": ["a b", "c"], "question": "?"}],
    "consistent": [{"question": "What?"}],
    "decode_paths": [{"question": "What?"}],
    "refine": [{"task": "Write.", "k": 2}, {"task": "Write.", "k": 0}],
    "map_reduce": [{"documents": ["one", "two", "three"]}, {"documents": []}],
    "fork_first": [{}],
}

SCRIPTS = [
    {}, {"related": "yes", "verdict": "bad", "step": " longer"}, {"related": "no"},
    {"verdict": "good", "answer": " same"},
]  # fmt: skip
