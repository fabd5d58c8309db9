"""Programs and helpers that are methods; objects of plain classes."""

import dataclasses
from typing import NamedTuple

import lmc


class Agent:
    """An agent whose methods take a state."""

    style = "brief"

    def __init__(self, name, options=("yes", "no")):
        self.name = name
        self.options = list(options)

    def introduce(self, s, greeting="I am"):
        """Append the name."""
        s += f"{greeting} {self.name} ({self.style}). "

    def ask(self, s, question):
        """Ask and choose."""
        self.introduce(s)
        s += question + lmc.select("choice", choices=self.options)
        return self.describe(s["choice"])

    def describe(self, choice):
        """Plain text."""
        return f"{self.name} says {choice}"

    @property
    def title(self):
        """A property."""
        return self.name.title()

    @staticmethod
    def rule(s, n=3):
        """A static helper."""
        s += "-" * n

    @classmethod
    def about(cls):
        """A class method."""
        return cls.style

    def __call__(self, s, text):
        """Call the object itself."""
        s += self.name + ": " + text


ADA = Agent("ada")
BOB = Agent("bob", ["left", "right"])
AGENTS = [ADA, BOB]


@dataclasses.dataclass(frozen=True)
class Config:
    """Settings."""

    limit: int = 3
    stop: str = "\n"
    tags: tuple[str, ...] = ("x", "y")

    def prompt(self, text):
        """Plain text."""
        return f"[{','.join(self.tags)}] {text}"


CONFIG = Config()


class Point(NamedTuple):
    """A named tuple."""

    x: int
    y: int


ORIGIN = Point(0, 0)


class Judges:
    """Programs in a class."""

    @staticmethod
    @lmc.function
    def static_judge(s, essay: str):
        """A program as a static method."""
        s += essay + lmc.gen("grade", max_tokens=1)
        return s["grade"]

    @lmc.function
    def plain_judge(s, essay: str):
        """A program reached through its class."""
        s += "plain" + essay + lmc.gen("grade", max_tokens=1)
        return s["grade"]


static_judge = Judges.static_judge
plain_judge = Judges.plain_judge


@lmc.function
def asks(s, question: str):
    """Methods of constants of the module."""
    first = ADA.ask(s, question)
    s += "\n"
    second = BOB.ask(s, question)
    Agent.rule(s, 2)
    ADA.rule(s)
    return first, second, ADA.title, Agent.about()


@lmc.function
def calls_object(s, text: str):
    """An object that can be called."""
    ADA(s, text)
    return ADA.describe("x")


@lmc.function
def loops_objects(s, question: str):
    """A loop over constant objects."""
    out = []
    for agent in AGENTS:
        agent.introduce(s)
        out.append(agent.ask(s, question))
    return out


@lmc.function
def configured(s, t: str):
    """Settings from a dataclass."""
    s += CONFIG.prompt(t) + lmc.gen("x", max_tokens=CONFIG.limit, stop=CONFIG.stop)
    return CONFIG.tags[0], len(CONFIG.tags)


@lmc.function
def made_inside(s, t: str):
    """An object made in the program."""
    config = Config(limit=2, stop=".")
    p = Point(1, y=2)
    s += t + config.stop + lmc.gen("x", max_tokens=2)
    return config.limit + p.x, p.y, p[0], ORIGIN.x


@lmc.function
def nested_programs_of_class(s, essay: str):
    """Programs of a class called inside another."""
    a = Judges.static_judge(essay)
    b = Judges.plain_judge(essay)
    s += a.value + b["grade"]
    return a.value


@lmc.function
def bound_method_value(s, t: str):
    """A bound method under a name and as a key."""
    tell = ADA.introduce
    tell(s, greeting="Call me")
    words = sorted([t, "b"], key=ADA.describe)
    return words, [f for f in map(BOB.describe, ["x"])]


@lmc.function
def replaced(s, t: str):
    """dataclasses.replace and fields of the result."""
    other = dataclasses.replace(CONFIG, limit=2)
    s += t
    return other.limit, dataclasses.asdict(other)
