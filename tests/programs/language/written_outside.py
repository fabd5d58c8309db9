"""Idioms of people who know Python and have not seen this project."""

import dataclasses
import enum
from functools import partial

import pydantic

import lmc


class Level(enum.Enum):
    """A closed set of words."""

    LOW = "low"
    HIGH = "high"


@dataclasses.dataclass
class Person:
    """What a dataclass gives."""

    name: str
    age: int


@dataclasses.dataclass
class Worker(Person):
    """A class that stands below another."""

    level: Level = Level.LOW


class Order(pydantic.BaseModel):
    """What a model gives."""

    item: str
    count: int


WORDS = {"x": partial(lmc.gen, max_tokens=1), "y": partial(lmc.gen, max_tokens=2, stop="\n")}
PICK = partial(lmc.select, choices=["a", "b"])


def news(s):
    """Write one kind of text."""
    s += lmc.gen("title", max_tokens=2)
    return "news"


def blog(s):
    """Write another kind."""
    s += "Blog" + lmc.gen("title", max_tokens=1)
    return "blog"


HANDLERS = {"news": news, "blog": blog}
SHOTS = [("2+2", 4), ("3*3", 9), ("1+1",)]


def shot(question, answer=None, end="\n"):
    """Return a line of an example."""
    return f"{question}:" + (f" {answer}{end}" if answer is not None else "")


def told(s, first, second="B", *, last="C"):
    """Append some words."""
    s += first + second + last


@lmc.function
def expert(s, tip: str):
    """A nested program."""
    s += "x" + tip + lmc.gen("detail", max_tokens=2)


@lmc.function
def partial_words(s, a: str):
    """Words of the language with some parameters fixed, in a dict and alone."""
    s += "q" + WORDS["x" if a else "y"]("v") + WORDS["x"]("w") + PICK("z")
    return s["v"], s["w"], s["z"]


@lmc.function
def handlers(s, request: str):
    """Names of a dict of helpers as choices."""
    s += request + lmc.select("kind", choices=list(HANDLERS))
    kind = HANDLERS[s["kind"]](s)
    return kind, sorted(HANDLERS), request in HANDLERS


@lmc.function
def keys_of_results(s, xs: list[str]):
    """The keys of a dict of results."""
    results = {x: expert(x) for x in xs}
    s += "".join(f"{key}={result['detail']};" for key, result in results.items())
    return sorted(results, reverse=True), list(results), tuple(results), "a" in results


@lmc.function
def keys_of_states(s, n: int):
    """The keys of a dict of branches."""
    held = {f"{i}": s.copy() for i in range(n % 4)}
    for key in tuple(held):
        held[key] += key + lmc.gen("v", max_tokens=1)
    return sorted(held, key=lambda key: -int(key)), max(held, key=len, default=None)


@lmc.function
def best_of(s, n: int):
    """The best branch and answer of any number."""
    kids = s.fork(n % 4)
    kids += lmc.gen("a", max_tokens=3)
    best = max(kids, key=lambda kid: len(kid["a"]), default=None)
    answers = [kid["a"] for kid in kids]
    return min(answers, default="none", key=len), best["a"] if best is not None else None


@lmc.function
def starred_shots(s, k: int):
    """Lists of unknown length for parameters of which some may be left out."""
    for item in SHOTS[: k % 4]:
        s += shot(*item)
    s += lmc.gen("z", max_tokens=1)


@lmc.function
def starred_too_many(s, xs: list[str]):
    """What Python says of a call with too few or too many arguments."""
    try:
        told(s, *xs, last="d")
        return shot(*xs)
    except TypeError as error:
        s += str(error)
        return str(error)


@lmc.function
def classes_matched(s, text: str):
    """Patterns of classes, by name and by place."""
    person = lmc.gen("person", type=Person, max_tokens=80)
    s += text + person
    match s[person]:
        case Worker():
            return "worker"
        case Person("a" | "", age):
            return "short", age
        case Person(age=age, name=name) if age > 30:
            return "old", name
        case Person(name=name):
            return "young", name


@lmc.function
def classes_in_lists(s, text: str):
    """Patterns of classes within patterns of sequences."""
    orders = lmc.gen("orders", type=list[Order], max_tokens=200)
    level = lmc.gen("level", type=Level)
    s += text + orders + level
    match s[orders], s[level]:
        case [Order(count=n), *_], Level.LOW:
            return n
        case [], Level(value=value):
            return value
        case found, _:
            return len(found), [isinstance(order, (int, Order)) for order in found]


@lmc.function
def copied_fields(s, text: str):
    """Library functions over what a generation gave."""
    s += text + lmc.gen("person", type=Person, max_tokens=80)
    person = s["person"]
    older = dataclasses.replace(person, age=3)
    return dataclasses.asdict(person)["name"], older.age, older == person


@lmc.function
def members_compared(s, text: str):
    """Members of an enum by identity and by value."""
    s += text + lmc.gen("worker", type=Worker, max_tokens=80)
    worker = s["worker"]
    if worker.level is Level.HIGH and worker.age > 3:
        s += "high" + lmc.gen("more", max_tokens=1)
    return Level(worker.level.value) is worker.level, isinstance(worker, Person)


@lmc.function
def tuple_of_pieces(s, n: int):
    """A piece for each branch from a tuple."""
    forks = s.fork(n % 4)
    pieces = tuple(lmc.gen("v", max_tokens=i + 1) for i in range(n % 4))
    forks += pieces
    forks += tuple(f"{i}" for i in range(n % 4))
    return [fork["v"] for fork in forks]


@lmc.function
def block_not_entered(s, a: str):
    """A turn that nobody enters."""
    s.user()
    s.user(a)
    s += lmc.gen("v", max_tokens=1)


@lmc.function
def pieces_by_key(s, key: str):
    """Texts, turns and generations in one dict, of which one is taken."""
    parts = {"a": lmc.user("x"), "b": "y", "": lmc.gen("t", max_tokens=1) + "z"}
    s += "q"
    if key in parts:
        s += parts[key]
    s += lmc.gen("w", max_tokens=1)
    return s["w"]
