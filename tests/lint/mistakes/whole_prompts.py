"""Whole programs with mistakes in prompts, stop strings and limits."""
# fmt: off

import enum
from dataclasses import dataclass
from typing import Literal

import lmc


@lmc.function
def few_shot(s, question: str):
    s += "Q: What is 2 + 2?\nA: 4\n\n"
    s += "Q: " + question + "\nA: "  # LMC201 "\nA: "
    s += lmc.gen("answer", max_tokens=8, stop="\n")


@lmc.function
def translate(s, text: str, lang: str):
    s += "Translate.\n"
    s += f"English: {text}\n{lang}: " + lmc.gen("out", max_tokens=20, stop="\n")  # LMC201 f"English: {te
    return s["out"]


PROMPT = """Answer in one word.
Question: Which planet is the largest?
Answer: Jupiter
"""
CUE = "Answer: "


@lmc.function
def one_word(s, question: str):
    s += PROMPT
    s += "Question: " + question + "\n"
    s += CUE  # LMC201 CUE
    s += lmc.gen("word", max_tokens=4, stop="\n")


@lmc.function
def poet(s, topic: str):
    s += lmc.system("You are a poet.")
    s += lmc.user("Write about " + topic)
    s += lmc.assistant("Here it is: " + lmc.gen("poem", max_tokens=60))  # LMC201 "Here it is: "


@lmc.function
def steps(s, tasks: list[str]):
    s += "Plan.\n"
    forks = s.fork(len(tasks))
    for f, task in zip(forks, tasks):
        f += "Task: " + task + "\nFirst step: "  # LMC201 "\nFirst step:
        f += lmc.gen("step", max_tokens=20, stop="\n")
    forks.join()
    return s["step"]


def cue(s, label):
    s += label + ":\t"  # LMC201 ":\t"
    s += lmc.gen("value", max_tokens=10, stop="\n")


@lmc.function
def sheet(s, doc: str):
    s += doc + "\n"
    cue(s, "Name")
    return s["value"]


@lmc.function
def year(s, person: str):
    s += person + " was born in"
    s += lmc.gen("year", regex=r" [12][0-9]{3}", max_tokens=8, stop="\n")  # LMC301 "\n")
    return s["year"]


@lmc.function
def word(s, text: str):
    s += "Text: " + text + "\nOne word:"
    s += lmc.gen("word", max_tokens=6, regex=r" [a-z]{1,12}", stop=["e", "."])  # LMC301 "."])
    return s["word"]


@lmc.function
def chat2(s, q: str):
    s += lmc.user(q)
    s += lmc.assistant(lmc.gen("a", max_tokens=40, stop="<|im_end|>"))  # LMC301 "<|im_end|>"))
    return s["a"]


@lmc.function
def label(s, doc: str):
    s += doc + "\nLabel:"
    s += lmc.gen("label", max_tokens=2, stop="\n\nThe end of the whole document is here")  # LMC301 "\n\nThe end o
    return s["label"]


def number(s, cue: str):
    s += cue
    s += lmc.gen("n", type=int, max_tokens=8, stop="apples")  # LMC301 "apples")


@lmc.function
def basket(s):
    s += "A basket has "
    number(s, "how many apples? ")
    return s["n"]


@lmc.function
def free(s, q: str):
    s += "Q: " + q + "\nA:"
    s += lmc.gen("a", max_tokens=20, stop=["", "\n"])  # LMC301 ["", "\n"])
    return s["a"]


SCHEMA = {
    "type": "object",
    "properties": {"age": {"type": "integer"}},
    "required": ["age"],
    "additionalProperties": False,
}


@lmc.function
def extract(s, doc: str):
    s += doc + "\nJSON: "
    s += lmc.gen("data", json_schema=SCHEMA, max_tokens=30, stop="```")  # LMC301 "```")
    return s["data"]


@lmc.function
def date(s, doc: str):
    s += doc + "\nDate:"
    s += lmc.gen("date", regex=r" \d{4}-\d{2}-\d{2}", max_tokens=20, stop_regex=r"[A-Z]+")  # LMC301 r"[A-Z]+")
    return s["date"]


@lmc.function
def record(s, doc: str):
    s += doc + "\n"
    s += '{"title": "'
    s += lmc.gen("title", max_tokens=12, stop='"')  # LMC302 '"')
    s += ', "year": ' + lmc.gen("year", type=int, max_tokens=6) + "}"


@lmc.function
def cite(s, q: str):
    s += lmc.user(q)
    s += lmc.assistant(
        "See ["
        + lmc.gen("source", max_tokens=8, stop="]")  # LMC302 "]")
        + " for more."
        + lmc.gen("more", max_tokens=20)
    )


@lmc.function
def tagged(s, q: str):
    s += "Q: " + q + "\n<thought>"
    s += lmc.gen("thought", max_tokens=40, stop="</thought>")  # LMC302 "</thought>")
    s += "\n<answer>"
    s += lmc.gen("answer", max_tokens=20, stop="</answer>")
    s += "</answer>"


@lmc.function
def code(s, task: str):
    s += "Task: " + task + "\n```python\n"
    s += lmc.gen("code", max_tokens=60, stop="```")  # LMC302 "```")
    s += "\nThe code does this:"
    s += lmc.gen("explain", max_tokens=40)


def field(s, key: str):
    s += f"<{key}>" + lmc.gen(key, max_tokens=10, stop="<")  # LMC302 "<")
    s += f"/{key}>\n"


@lmc.function
def form(s, doc: str):
    s += doc + "\n"
    field(s, "name")
    field(s, "town")
    return s["name"] + s["town"]


@lmc.function
def names(s, items: list[str]):
    s += "Latin names.\n"
    for item in items:
        s += item + " (" + lmc.gen("latin", max_tokens=8, stop=")") + "\n"  # LMC302 ")") + "\n"
    s += "End." + lmc.gen("end", max_tokens=3)


@lmc.function
def when(s, event: str):
    s += "Event: " + event + "\nDate (ISO):"
    s += lmc.gen("date", regex=r" \d{4}-\d{2}-\d{2}T\d{2}:\d{2}", max_tokens=5)  # LMC303 5)
    return s["date"]


@dataclass
class Person:
    name: str
    age: int
    town: str


@lmc.function
def extract_again(s, text: str):
    s += text + "\nJSON: "
    s += lmc.gen("person", type=Person, max_tokens=6)  # LMC303 6)
    return s["person"].age


SCHEMA_2 = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "authors": {"type": "array", "items": {"type": "string"}, "minItems": 2},
    },
    "required": ["title", "authors"],
    "additionalProperties": False,
}
LIMIT = 4


@lmc.function
def paper(s, text: str):
    s += text + "\n"
    s += lmc.gen("paper", json_schema=SCHEMA_2, max_tokens=LIMIT)  # LMC303 LIMIT)


def verdict(s):
    s += "Verdict: " + lmc.gen(
        "verdict",
        type=Literal["absolutely fascinating performance", "utterly disappointing performance"],
        max_tokens=1,  # LMC303 1,
    )


@lmc.function
def review(s, film: str):
    s += "Film: " + film + "\n"
    verdict(s)
    return s["verdict"]


@lmc.function
def phones(s, text: str):
    s += text + "\n"
    forks = s.fork(2)
    for f in forks:
        f += "Phone:" + lmc.gen("phone", max_tokens=3, regex=r" \+49 \d{3} \d{7}")  # LMC303 3, regex=r" \+
    forks.join()
    return s["phone"]


class Colour(enum.Enum):
    A = "a rather dark midnight blue"
    B = "a rather bright signal orange"


@lmc.function
def colour(s, thing: str):
    s += lmc.user("Colour of " + thing + "?")
    s += lmc.assistant(lmc.gen("colour", type=Colour, max_tokens=2))  # LMC303 2))
    return s["colour"].name


@lmc.function
def loopy(s, qs: list[str]):
    s += "Quiz\n"
    for i, q in enumerate(qs):
        s += f"Q{i}: {q}\n"
        s += f"A{i}: "  # LMC201 f"A{i}: "
        s += lmc.gen(f"a{i}", max_tokens=8, stop="\n") + "\n"


@lmc.function
def br(s, q: str, formal: bool):
    s += q
    if formal:
        s += "\nDear Sir, "  # LMC201 "\nDear Sir, "
    else:
        s += "\nHi"
    s += lmc.gen("letter", max_tokens=20)


@lmc.function
def rm(s, q: str):
    s.user(q)
    s.assistant("The answer is " + lmc.gen("a", max_tokens=8))  # LMC201 "The answer is


CUE_2 = "\nA: "


@lmc.function
def cued(s, q: str):
    s += q + CUE_2 + lmc.gen("a", max_tokens=8)  # LMC201 CUE_2 + lmc.ge


STOPS = ["\n", "END"]


@lmc.function
def lc(s, q: str):
    s += q + "\nCode:" + lmc.gen("code", regex=" [A-Z]{3}-[0-9]{2}", stop=STOPS, max_tokens=12)  # LMC301 STOPS, max_tok
    return s["code"]


@lmc.function
def fl(s, q: str):
    s += q + "\nPrice: " + lmc.gen("price", type=float, stop="EUR", max_tokens=12)  # LMC301 "EUR", max_tok
    return s["price"] * 2


@lmc.function
def lit(s, q: str):
    s += q + "\nKind: " + lmc.gen("kind", type=Literal["cat", "dog"], stop="\n", max_tokens=12)  # LMC301 "\n", max_toke
    return s["kind"]


@lmc.function
def mult(s, q: str):
    s += q + '\n{"name": "' + lmc.gen("name", max_tokens=10, stop='",') + ' "town": "'  # LMC302 '",') + ' "tow
    s += lmc.gen("town", max_tokens=10, stop='"') + '"}'


@lmc.function
def mid(s, q: str):
    s += q + "\nThought:" + lmc.gen("t", max_tokens=30, stop="\nAction:")  # LMC302 "\nAction:")
    s += "Action:" + lmc.gen("a", max_tokens=10, stop="\n")


@lmc.function
def xml(s, q: str):
    s += q + "\n<name>"
    with s.var_scope("doc"):
        s += lmc.gen("name", max_tokens=10, stop="</name>")  # LMC302 "</name>")
        s += "<town>" + lmc.gen("town", max_tokens=10, stop="</town>") + "</town>"
    return s["doc"]


@lmc.function
def latex(s, q: str):
    s += (
        q
        + "\n\\boxed{"
        + lmc.gen("a", max_tokens=10, stop="}")  # LMC302 "}")
        + ". Sure? "
        + lmc.select("sure", choices=["yes", "no"])
    )


@lmc.function
def lst(s, q: str):
    s += q + "\nJSON: " + lmc.gen("xs", type=list[int], max_tokens=1)  # LMC303 1)
    return len(s["xs"])


LIMITS = {"date": 2}


@lmc.function
def lim(s, q: str):
    s += q + "\nDate:" + lmc.gen("d", regex=r" \d{2}\.\d{2}\.\d{4}", max_tokens=LIMITS["date"])  # LMC303 LIMITS["date"]
    return s["d"]
