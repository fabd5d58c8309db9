"""What the oracle answers while a program is checked: scenarios that drive every branch."""

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from lmc.ir.calls import GenCall, ScoreCall
from lmc.ir.core import Module, Op, Value
from lmc.ir.target import OnPrefill, Tokenizer
from lmc.runtime.oracle import DoneTicket, Oracle
from lmc.runtime.oracle_text import Draw

Manner = Literal["free", "mixed", "fixed"]
MANNERS: tuple[Manner, ...] = ("free", "mixed", "fixed")

DEFAULTS: tuple[dict[str, Any], ...] = (
    {}, {}, {"min_p": 0.25}, {"temperature": 0.5, "max_tokens": 64, "top_k": 9}, {"temperature": 0},
)  # fmt: skip
"""Decode parameters of the run, for generations that set none."""

PLAIN = ("", " ", "\n", "a", "don't", "naïve 🙂 é", "12")
MAX_WORDS = 60


@dataclass(frozen=True, slots=True)
class Scenario:
    """How the oracle answers one example, and how the run is seeded.

    Attributes:
        seed: changes every answer, the run's seed, its place in a batch and its defaults.
        manner: "free": answers drawn by the oracle alone; "mixed": some taken, call by call,
            from what the program compares with and stops at; "fixed": one such answer per name,
            so that loops go on and end.
    """

    seed: int
    manner: Manner

    @property
    def instance(self) -> int:
        """The run's place in a batch."""
        return self.seed % 3

    @property
    def defaults(self) -> dict[str, Any]:
        """Decode parameters for generations that set none."""
        return dict(DEFAULTS[self.seed % len(DEFAULTS)])

    @property
    def hosts_may_raise(self) -> bool:
        """Whether some calls of host functions fail."""
        return self.seed % 7 == 6

    def __str__(self) -> str:
        hosts = ", host functions may raise" if self.hosts_may_raise else ""
        return f"seed {self.seed}, {self.manner} answers, defaults {self.defaults}{hosts}"


@dataclass(slots=True)
class Words:
    """Texts and numbers that a program looks for, found in its constants."""

    texts: list[str] = field(default_factory=list[str])
    numbers: list[int] = field(default_factory=list[int])
    stops: list[str] = field(default_factory=list[str])


LOOKED_AT = frozenset({"val.compare", "val.method", "val.index", "lm.select"})


def words_of(module: Module) -> Words:
    """Return what a module compares values with, and the strings that its generations stop at."""
    constants: dict[Value, Any] = {}
    texts: dict[str, None] = {}
    numbers: dict[int, None] = {}
    stops: dict[str, None] = {}
    for op in module.walk():
        if op.name == "val.const":
            constants[op.result] = op.attributes["value"]
        elif op.name in LOOKED_AT:
            for value in op.operands:
                _take(constants.get(value), texts, numbers)
        elif op.name == "lm.gen":
            _take(_stops(op), stops, {})
    cut = MAX_WORDS
    return Words(list(texts)[:cut], list(numbers)[:cut], [stop for stop in stops if stop][:cut])


def _take(value: Any, texts: dict[str, None], numbers: dict[int, None]) -> None:
    if isinstance(value, str):
        texts.setdefault(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        numbers.setdefault(value)
    elif isinstance(value, (list, tuple, dict)):
        for item in value:  # type: ignore[reportUnknownVariableType]
            _take(item, texts, numbers)


def _stops(op: Op) -> Any:
    params = op.attributes["params"]
    return params.get("stop") if isinstance(params, dict) else None


class Script:
    """Answers calls as a scenario says; a pure function of the call, as the oracle must be."""

    def __init__(self, scenario: Scenario, words: Words, tokenizer: Tokenizer) -> None:
        self._scenario = scenario
        self._words = words
        self._tokenizer = tokenizer

    def __call__(self, name: str, prompt: str, call: GenCall | ScoreCall) -> str | None:
        """Return an answer to a call, None to leave it to the oracle."""
        draw = self._draw(name, call)
        if isinstance(call, ScoreCall):
            return self._option(call, draw)
        if self._scenario.manner == "mixed" and draw.below(3) == 0:
            return None
        if call.constraint is None:
            return self._text(call, draw)
        fitting = [word for word in self._typed() if self._is_fitting(word, call)]
        return draw.choose(fitting) if fitting else None

    def _draw(self, name: str, call: GenCall | ScoreCall) -> Draw:
        if self._scenario.manner == "fixed":
            return Draw(self._scenario.seed, ("fixed", name))
        if isinstance(call, GenCall):
            return Draw(self._scenario.seed, call)
        return Draw(self._scenario.seed, (call.context, call.options))

    def _text(self, call: GenCall, draw: Draw) -> str:
        own = [*self._words.texts, *map(str, self._words.numbers)]
        words = own if own and draw.below(3) else PLAIN
        made = draw.choose(words)
        stops = [*call.params.stop, *self._words.stops]
        # Text on both sides of a stop string: the cut then often lies within a token.
        return made + draw.choose(stops) + draw.choose(words) if stops and draw.below(2) else made

    def _typed(self) -> list[str]:
        near = {number + step for number in self._words.numbers for step in (-1, 0, 1)}
        floats = [f"{number}.5" for number in self._words.numbers]
        return ["True", "False", "0", "-1", "0.5", *map(str, sorted(near)), *floats,
                *self._words.texts]  # fmt: skip

    def _is_fitting(self, word: str, call: GenCall) -> bool:
        """Whether a call can be answered by a word, as a whole."""
        assert call.constraint is not None, "the caller looked"
        if call.constraint.kind != "regex":
            return False  # the oracle draws texts of schemas by itself
        if re.fullmatch(call.constraint.source, word) is None:
            return False
        is_cut = any(stop in word for stop in call.params.stop)
        return not is_cut and len(self._tokenizer.encode(word)) <= call.params.max_tokens

    def _option(self, call: ScoreCall, draw: Draw) -> str | None:
        """Return what tells one option from the others."""
        texts = [self._tokenizer.decode(option) for option in call.options]
        if len(set(texts)) < len(texts) or any("\ufffd" in text for text in texts):
            return None
        shared = len(_common_prefix(texts))
        return draw.choose(texts)[shared:]


def _common_prefix(texts: list[str]) -> str:
    first, last = min(texts), max(texts)
    for index, (a, b) in enumerate(zip(first, last, strict=False)):
        if a != b:
            return first[:index]
    return first[: len(last)]


class ScenarioOracle(Oracle):
    """An oracle that is set to one scenario after another.

    Args:
        base: gives the target, and the script where it has one: that is kept in all scenarios.
        words: what scripted answers are taken from.
    """

    def __init__(self, base: Oracle, words: Words) -> None:
        super().__init__(base.script, seed=base.seed, target=base.target)
        self._constraints = base._constraints  # compiled once for all programs
        self.prefills: list[tuple[int, ...]] = []
        self._base = base
        self._words = words

    def forget(self) -> None:
        """Forget the prefixes that a run asked for."""
        self.prefills = []

    def submit_prefill(self, context: tuple[int, ...], on_done: OnPrefill) -> DoneTicket:
        """Note a prefix."""
        self.prefills.append(context)
        return super().submit_prefill(context, on_done)

    def play(self, scenario: Scenario) -> None:
        """Answer as a scenario says from now on."""
        self.seed = self._base.seed + scenario.seed
        if self._base.script is None:
            is_free = scenario.manner == "free"
            tokenizer = self.target.tokenizer
            self.script = None if is_free else Script(scenario, self._words, tokenizer)
