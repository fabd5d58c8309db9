"""Programs written as for the reference frontend: only the import says lmc."""

from math import exp
from pprint import pformat

import lmc as sgl
from lmc import function, gen, set_default_backend
from lmc.lang.ir import REGEX_INT, REGEX_STR

assert set_default_backend is sgl.set_default_backend

YELLOW, CLEAR = "\033[1;33m", "\033[1;0m"
REGEX_LIST = r"\[(" + REGEX_STR + ", )*" + REGEX_STR + r"\]"
temp = 0.2
tests = ["Taste: is it eaten with joy?", "Price: does it cost too much?", "Look: is it nice?"]


@sgl.function
def replayed(s, question, steps):
    s += (
        """Think, act, observe.
Thought 1: a map is needed.
"""
        + question)  # fmt: skip
    for i in range(1, len(steps) + 2):
        s += "Thought " + str(i) + ":"
        # Nobody reads what is generated here.
        ss = s.fork(1)
        ss[0] += sgl.gen(name="turn", max_tokens=20, stop="Observed")
        ss.join()
        if i > len(steps):
            break
        s += (steps[i - 1]["thought"] + "\nAct " + str(i) + ":" +
              steps[i - 1]["act"] + "\n")  # fmt: skip


def ask_plan(s, question, width):
    s += sgl.user("""Plan it first. Question: """ + question)
    forks = s.fork(width)
    forks += sgl.assistant(sgl.gen("plan", max_tokens=12, temperature=temp))
    return forks


def ask_answer(s, width):
    s += sgl.user("""Now do it.""")
    forks = s.fork(width)
    forks += sgl.assistant(sgl.gen("answer", max_tokens=12, temperature=temp))
    return forks


@sgl.function
def searched(s, question, width):
    plans = ask_plan(s, question, width)

    states = []
    for plan in plans:
        forks = ask_answer(plan, width)
        states.extend(forks)

    solutions = []
    for state in states:
        forks = ask_answer(state, width)
        solutions.append(forks)
    solutions = [[s.text() for s in forks] for forks in solutions]

    return solutions


@sgl.function
def searched_backwards(s, question, width):
    to_join = []
    plans = ask_plan(s, question, width)
    to_join.append(plans)
    for plan in plans:
        forks = ask_answer(plan, width)
        to_join.append(forks)
    for f in reversed(to_join):
        f.join()


@sgl.function
def judged(s, dish):
    s += "Judge this dish.\n```\n" + dish + "\n```\n"
    forks = s.fork(len(tests))
    for i in range(len(tests)):
        forks[i] += (
            "Look at one thing only. "
            + tests[i]
            + " One paragraph. "
            'End it with "END"\nJUDGE:'
        )  # fmt: skip
        forks[i] += sgl.gen("view", max_tokens=16, stop="END")
    forks.join()
    for i in range(len(tests)):
        s += tests[i].split(":")[0] + ": " + forks[i]["view"].strip() + "\n"
    s += "Points out of ten:"
    s += sgl.gen("points", max_tokens=2)


@sgl.function
def read_documents(s, docs, question):
    s += sgl.user_begin()
    s += "Read.\n"
    forks = s.fork(len(docs), [i * 10 for i in range(len(docs))])
    forks += lambda i: f"{i}: " + docs[i]
    forks.join("concate_and_append")
    s += "\nAnswer:\n" + question
    s += sgl.user_end()
    s += sgl.assistant(sgl.gen("answer", max_tokens=6))


@sgl.function
def turns(s, questions):
    for q in questions:
        s += q["prompt"]
        s += sgl.gen(max_tokens=q["length"], ignore_eos=True)


@sgl.function
def benched(s, first, second):
    s += sgl.system()
    s += sgl.user(first)
    s += sgl.assistant(sgl.gen("answer_1"))
    with s.user():
        s += second
    with s.assistant():
        s += sgl.gen("answer_2")


@sgl.function
def as_json(s, thing):
    from lmc.lang.ir import REGEX_FLOAT

    s += "As JSON: " + thing + "\n"
    with s.var_scope("json"):
        s += "{\n"
        s += '  "name": ' + sgl.gen("name", max_tokens=8, regex=REGEX_STR + ",") + "\n"
        s += '  "weight": ' + sgl.gen(regex=REGEX_FLOAT, stop=[" ", "\n"]) + ",\n"
        s += '  "count": ' + sgl.gen("count", max_tokens=8, regex=REGEX_INT + ",") + "\n"
        s += '  "parts": ' + sgl.gen("parts", max_tokens=24, regex=REGEX_LIST) + "\n"
        s += "}"
    print(f"it is:\n{s['json']}")


@function(num_api_spec_tokens=64)
def person(s):
    s += "Name:" + gen("name", stop="\n") + "\nBorn:" + gen("born", stop="\n")
    s += "\nWork:" + gen("work", stop="\n") + "\n"


@sgl.function
def several(s, question, n):
    s += "Question: " + question + "\n"
    forks = s.fork(n)
    forks += "Why:" + sgl.gen("why", stop="\n") + "\n"
    forks += "Tool:" + sgl.gen("tool", choices=["abacus", "book"]) + "\n"
    forks += "Answer:" + sgl.gen("answer", stop="\n") + "\n"
    forks.join()


@sgl.function
def sampled(s, question):
    s += sgl.user(question)
    s += sgl.assistant(sgl.gen("one", max_tokens=10, n=2))
    s += sgl.user("More")
    s += sgl.assistant(sgl.gen("two", min_tokens=4, max_tokens=10))


@sgl.function
def paths(s, question, width, is_chat, verbose):
    """Decoding along the likeliest first tokens."""
    if is_chat:
        s += sgl.user("Q: " + question)
        s += sgl.assistant_begin()
    else:
        s += "Q: " + question

    first = s.fork(1)[0]
    forks = s.fork(width)
    answers = s.fork(width)
    first += sgl.gen(
        "top", max_tokens=0, return_logprob=True, top_logprobs_num=width,
        return_text_in_logprobs=True,
    )  # fmt: skip
    found = first.get_meta_info("top")["output_top_logprobs"][0]
    print("Begin:", ", ".join(pformat(token[2]) for token in found))
    for idx, (f, token) in enumerate(zip(forks, found)):  # noqa: B905
        logprob, token_id, text = token
        f += text
        if text == " and":
            print(f"{YELLOW}{idx} {pformat(text)} {token_id} [{exp(logprob):.3f}]{CLEAR}")
            continue
        f += sgl.gen(
            "answer", temperature=0, max_tokens=8, return_logprob=True, top_logprobs_num=2,
            return_text_in_logprobs=True,
        )  # fmt: skip
        x1s = [exp(xt[0][0]) for xt in f.get_meta_info("answer")["output_top_logprobs"]]
        x2s = [exp(xt[1][0]) for xt in f.get_meta_info("answer")["output_top_logprobs"]]
        tokens = [xt[0][2] for xt in f.get_meta_info("answer")["output_top_logprobs"]]
        delta = (sum(x1s) - sum(x2s)) / len(x1s) if x1s else 0.0
        answers[idx] += text + f["answer"] + "\nSo it is"
        answers[idx] += sgl.gen("span", temperature=0, max_tokens=4)
        answer = answers[idx]["span"].replace("\n", " ").strip(":")
        print(f"{idx} {answer} {delta:.3f}")
        print(str(answers[idx])[len("ProgramState(") : -1])
        if verbose:
            for token, x1, x2 in zip(tokens, x1s, x2s):  # noqa: B905
                print(f" {pformat(token)}({x1:.3f}-{x2:.3f})", end="")


@sgl.function
def routed(s, question):
    s += "For " + question + ". "
    s += "I take a " + sgl.gen("tool", choices=["abacus", "book"]) + ". "
    if s["tool"] == "abacus":
        s += "The sum is" + sgl.gen("sum")
    elif s["tool"] == "book":
        s += "The word is" + sgl.gen("word")


@sgl.function
def swept(s, context, firms, question):
    """A branch for each key of a dict."""
    s += context + "\n"
    names = list(firms.keys())
    forks = s.fork(len(names))
    for i, name in enumerate(names):
        forks[i] += f"--- {name} ---\n{firms[name]}\n"
        forks[i] += sgl.gen(f"on_{name}", max_tokens=8, stop="\n\n", temperature=0.3)
    for i, name in enumerate(names):
        s += f"\n[{name}] " + forks[i][f"on_{name}"]
    s += question + "\n"
    s += sgl.gen("pick", max_tokens=8, temperature=0.2)


@sgl.function
def acted(s, question):
    s += "Question: " + question + "\n"
    for i in range(1, 5):
        s += f"Thought {i}:" + sgl.gen(stop=[".", "\n"]) + ".\n"
        s += f"Act {i}: " + sgl.select(f"act_{i}", ["Look", "End"])
        if s[f"act_{i}"] == "Look":
            s += " [" + sgl.gen(stop="]") + "].\n"
        else:
            s += " [" + sgl.gen("answer", stop="]") + "].\n"
            break


@sgl.function
def tipped(s, topic):
    s += "Two tips for " + topic + ":\n"
    forks = s.fork(2)
    for i, f in enumerate(forks):
        f += f"Tip {i + 1} at length:\n"
        f += sgl.gen("tip", max_tokens=8, stop="\n\n")
    s += "1:" + forks[0]["tip"] + "\n"
    s += "2:" + forks[1]["tip"] + "\n"
    s += "In short" + sgl.gen("short")


@sgl.function
def thought(s, question):
    s += sgl.user(question)
    s += sgl.assistant(
        "Well: " + sgl.separate_reasoning(sgl.gen("reply", max_tokens=24), model_type="deepseek-r1")
    )
    s += sgl.user("And?")
    s += sgl.assistant(sgl.separate_reasoning(sgl.gen("other", max_tokens=24), "kimi_k2"))
    return s["reply"], s["reply_reasoning_content"]


@sgl.function
def copied(s):
    s += "A"
    with s.copy() as c:
        c += "b" + sgl.gen("x", max_tokens=4)
    s += sgl.gen("z", max_tokens=3)
    s.set_var("seen", s.get_var("z") + "!")
    s.sync()
    return s["x"], "x" in s, s.error()


def with_examples(shots, is_chat):
    """Programs that are defined inside a function and use what is around them."""

    @sgl.function
    def chosen(s, question, choices):
        s += shots + question
        s += sgl.select("answer", choices=choices)

    if is_chat:

        @sgl.function
        def shot(s, question):
            s += sgl.user(shots + question)
            s += sgl.assistant(gen("answer"))

    else:

        @sgl.function
        def shot(s, question):
            s += shots + question + gen("answer")

    return chosen, shot


chosen, shot = with_examples("One.\n\nTwo.\n\n", False)
_, chat_shot = with_examples("One.\n\n", True)

STEPS = [{"thought": f" t{i}", "act": f" a{i}"} for i in range(2)]

CASES = [
    ("replayed", replayed, {"question": "Where?\n", "steps": STEPS}),
    ("replayed, no steps", replayed, {"question": "Where?\n", "steps": []}),
    *(
        (f"{name}, width {width}", program, {"question": "2+2?", "width": width})
        for name, program in (("searched", searched), ("backwards", searched_backwards))
        for width in (0, 1, 3)
    ),
    ("judged", judged, {"dish": "Soup."}),
    *(
        (f"documents {count}", read_documents, {"docs": ["a ", "b ", "c"][:count], "question": "?"})
        for count in (0, 1, 3)
    ),
    ("turns", turns, {"questions": [{"prompt": "Hi", "length": 3}, {"prompt": "Ho", "length": 5}]}),
    ("no turns", turns, {"questions": []}),
    ("benched", benched, {"first": "Hi", "second": "Bye"}),
    ("as_json", as_json, {"thing": "a lamp"}),
    ("person", person, {}),
    *((f"several {n}", several, {"question": "?", "n": n}) for n in (0, 1, 3)),
    ("sampled", sampled, {"question": "?"}),
    ("paths, chat", paths, {"question": "?", "width": 3, "is_chat": True, "verbose": False}),
    ("paths", paths, {"question": "?", "width": 2, "is_chat": False, "verbose": True}),
    ("routed", routed, {"question": "a sum"}),
    ("swept", swept, {"context": "Of two:", "firms": {"A": "x", "B": "y"}, "question": "Which"}),
    ("swept, none", swept, {"context": "Of none:", "firms": {}, "question": "Which"}),
    ("acted", acted, {"question": "?"}),
    ("tipped", tipped, {"topic": "sleep"}),
    ("thought", thought, {"question": "2+2?"}),
    ("copied", copied, {}),
    ("chosen", chosen, {"question": "He", "choices": ["runs.", "sits.", "runs away."]}),
    ("shot", shot, {"question": "He"}),
    ("chat shot", chat_shot, {"question": "He"}),
]
