"""Random walks through constraints: whatever is done, masks, accept and ends agree.

Each step accepts a token of the mask, or any token at all, takes some back, forks, or goes on
with another fork. A model remembers the mask of every place passed; at some places the mask is
compared with accepting every id of the vocabulary.
"""

import hashlib
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import lmc

JSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 12},
        "mood": {"enum": ["good", "bad", "gr\u00fc\u00df", None, 12]},
        "tags": {"type": "array", "items": {"pattern": "^[a-z]{2,}$", "type": "string"},
                 "maxItems": 4},
        "at": {"type": "string", "format": "date-time"},
        "more": {"anyOf": [{"type": "number", "minimum": -3.5, "maximum": 1000}, {"type": "null"}]},
    },
    "required": ["name", "mood"],
}  # fmt: skip
TREE = {
    "$defs": {"node": {
        "type": "object",
        "properties": {"v": {"type": "integer"}, "kids": {"type": "array",
                       "items": {"$ref": "#/$defs/node"}}},
        "required": ["v"],
    }},
    "$ref": "#/$defs/node",
}  # fmt: skip
SUM = r"""
start: sum
sum: sum ("+" | "-") term | term
term: term "*" factor | factor
factor: NUMBER | "(" sum ")" | "-" factor
NUMBER: /[0-9]{1,4}(\.[0-9]+)?/
"""
TAGS = [
    {"begin": "<call>", "json_schema": JSON, "end": "</call>"},
    {"begin": "<sum>", "grammar": SUM, "end": "</sum>"},
    {"begin": "[[", "regex": r"\w{1,6}", "end": "]]"},
]
CONSTRAINTS = {
    "words": lmc.Constraint.regex(r"\w+( \w+){0,6}[.!?]?"),
    "anything": lmc.Constraint.regex(r"(?s:.)*"),
    "address": lmc.Constraint.regex(r"[a-z]{1,8}(\.[a-z]{1,8})*@[a-z]{2,}\.(com|org|de)"),
    "look": lmc.Constraint.regex(r"(?!foo)(\b[a-z]{1,5}\b ?){1,5}(?<!bar)"),
    "characters": lmc.Constraint.regex("[\U0001f600-\U0001f64f\u00e0-\u00ff\u4e00-\u4eff]{1,9}"),
    "quotes": lmc.Constraint.regex(r"(['\"])[^'\"\\]*\1"),
    "choices": lmc.Constraint.choices(["yes", "yes, but", "no", "na\u00efve", "no way"]),
    "object": lmc.Constraint.json_schema(JSON),
    "open": lmc.Constraint.json_schema(JSON, open_objects=True, separators=(",", ":")),
    "tree": lmc.Constraint.json_schema(TREE),
    "any": lmc.Constraint.json_schema(True),
    "sum": lmc.Constraint.ebnf(SUM),
    "pairs": lmc.Constraint.ebnf('root ::= "a" root "b" | "[" root "]" | root root | "\u00e9"'),
    "tags": lmc.Constraint.tags(TAGS),
    "one tag": lmc.Constraint.tags(TAGS, free_text=False, at_least=1, at_most=1),
}

Row = np.ndarray[Any, np.dtype[np.int32]]


@dataclass
class Walk:
    """A walk under way; `digest` is over all that was seen."""

    limit: lmc.CompiledConstraint
    rng: random.Random
    steps: int = 0
    compared: int = 0
    digest: Any = field(default_factory=hashlib.sha256)

    def __post_init__(self) -> None:
        self.ends = sorted(self.limit.eos_token_ids)
        self.row = np.empty(self.limit.mask_words + 2, dtype=np.int32)
        self.places: list[tuple[lmc.ConstraintMatcher, list[bytes]]] = []
        self.start()

    def start(self) -> None:
        """Go back to the beginning, with a matcher of its own."""
        self.matcher = self.limit.matcher()
        self.masks = [self.mask()]

    def mask(self) -> bytes:
        """Return the mask here; it says whether the text may end."""
        self.row[:] = -1
        self.matcher.fill_bitmask(self.row)
        assert not self.row[self.limit.mask_words :].any()
        if not self.is_ended:
            ends = {self.bit(end) for end in self.ends}
            assert ends == {self.matcher.can_end()}
        return self.row.tobytes()

    @property
    def is_ended(self) -> bool:
        return self.matcher.is_terminated() and not np.any(self.row)

    def bit(self, token_id: int) -> bool:
        """Return whether the mask here has a token."""
        return bool(self.row[token_id >> 5] >> (token_id & 31) & 1)

    def go(self, steps: int, every: int) -> None:
        """Take some steps; after so many compare the mask with accepting every id."""
        for step in range(1, steps + 1):
            draw = self.rng.random()
            if draw < 0.7:
                self.accept(self.allowed())
            elif draw < 0.8:
                self.accept(self.rng.randrange(-1, self.limit.vocab_size + 40))
            elif draw < 0.9:
                self.roll_back()
            else:
                self.change_place()
            if every and step % every == 0:
                self.compare()
            self.digest.update(self.masks[-1])
        self.steps += steps

    def allowed(self) -> int:
        """Return a token of the mask; an end token where there is no other."""
        words = np.flatnonzero(self.row)
        if not len(words):
            self.start()
            words = np.flatnonzero(self.row)
        word = int(self.rng.choice(words))
        bits = int(self.row[word]) & 0xFFFFFFFF
        return 32 * word + self.rng.choice([i for i in range(32) if bits >> i & 1])

    def accept(self, token_id: int) -> None:
        """Accept a token, which the mask must say; a refused one changes nothing."""
        said = 0 <= token_id < self.limit.vocab_size and self.bit(token_id)
        assert self.matcher.accept_token(token_id) == said, (token_id, said)
        if said:
            self.masks.append(self.mask())
            if token_id in self.ends:
                assert not self.row.any()
                assert self.matcher.is_terminated()
        elif self.rng.random() < 0.1:
            assert self.mask() == self.masks[-1]

    def roll_back(self) -> None:
        """Take some tokens back; the mask is what it was there."""
        count = min(len(self.masks) - 1, self.rng.choice((0, 1, 1, 2, 3, 8, 60)))
        self.matcher.rollback(count)
        del self.masks[len(self.masks) - count :]
        assert self.mask() == self.masks[-1]

    def change_place(self) -> None:
        """Fork and go on with the fork, or with one that was left before."""
        if len(self.places) < 4 or self.rng.random() < 0.5:
            self.places.append((self.matcher, self.masks))
            self.matcher, self.masks = self.matcher.fork(), self.masks.copy()
        else:
            index = self.rng.randrange(len(self.places))
            self.matcher, self.masks = self.places.pop(index)
        if len(self.places) > 4 or len(self.masks) > 200:
            self.places = self.places[-3:]
            self.start()
        assert self.mask() == self.masks[-1]

    def compare(self) -> None:
        """Compare the mask with accepting every id, forced ids with the mask."""
        fork = self.matcher.fork()
        for token_id in range(self.limit.vocab_size):
            found = fork.accept_token(token_id)
            if found:
                fork.rollback(1)
            assert found == self.bit(token_id), token_id
        for token_id in fork.forced_token_ids():
            assert fork.accept_token(token_id)
        self.compared += 1


def walk(limit: lmc.CompiledConstraint, seed: int, steps: int, every: int = 0) -> Walk:
    """Walk through a constraint."""
    made = Walk(limit, random.Random(f"{limit.constraint.source} {seed}"))
    made.go(steps, every)
    return made
