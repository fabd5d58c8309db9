"""A tiny merging tokenizer, its target, and a model that is a pure function of the call."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from lmc.ir.calls import GenCall, GenResult, ScoreCall, ScoreResult
from lmc.ir.target import Piece

EMPTY, END, MARK, BLANK = range(4)
MERGES = ("ab", "abc", "ca", "tip", "p a", "ip", " a", "b\n", "xy", "yz", "\nx")
FIRST = 4
WORDS = ("ab", "c", "abc", "tip ", " a", "b\n", "xy", "z", "\n", "abcabc", "")


class MergingTokenizer:
    """Longest match over characters and a few merges; a text that opens gets a blank id.

    Ids: 0 stands for an empty context, 1 ends a generation, 2 is the control token
    `<|m|>`, 3 the blank before an opening text, then the merges, then all characters.
    """

    fingerprint = "merging"
    empty_context_id = EMPTY
    eos_ids = frozenset({END})

    def __init__(self, start_ids: tuple[int, ...] = (), merges: tuple[str, ...] = MERGES) -> None:
        self.start_ids = start_ids
        self.merges = merges
        self.vocab_size = FIRST + len(merges) + 0x110000
        self._longest = max(map(len, merges))

    def _cut(self, text: str) -> list[tuple[int, int]]:
        """Return (start, id) of each token."""
        cuts, at = [], 0
        while at < len(text):
            fits = [merge for merge in self.merges if text.startswith(merge, at)]
            piece = max(fits, key=len, default=text[at])
            code = self.merges.index(piece) if fits else len(self.merges) + ord(piece)
            cuts.append((at, FIRST + code))
            at += len(piece)
        return cuts

    def encode(self, text: str, *, first: bool = False) -> list[int]:
        return [BLANK] * (first and bool(text)) + [token_id for _, token_id in self._cut(text)]

    def stable_len(self, text: str, *, first: bool = False) -> int:
        stable = [start for start, _ in self._cut(text) if start + self._longest <= len(text)]
        return len(stable) + (first and bool(text))

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(self._text(token_id) for token_id in token_ids)

    def _text(self, token_id: int) -> str:
        code = token_id - FIRST
        if code < 0:
            return ""
        merges = self.merges
        return merges[code] if code < len(merges) else chr(code - len(merges))

    def token_bytes(self) -> Sequence[bytes | None]:
        raise NotImplementedError("nobody lists a million characters")

    def control_id(self, token: str) -> int | None:
        return {"<|m|>": MARK}.get(token)

    def control_text(self, token_id: int) -> str | None:
        return {MARK: "<|m|>"}.get(token_id)


class MarkTemplate:
    """A marker and the role open a turn; the first turn of a user greets."""

    def begin(self, role: str, *, is_first: bool) -> tuple[Piece, ...]:
        greeting: tuple[Piece, ...] = (MARK, "hi\n") if is_first and role != "system" else ()
        return (*greeting, MARK, f"{role}:")

    def end(self, role: str) -> tuple[Piece, ...]:
        return ("\n",)


@dataclass
class MergingTarget:
    """The target of the tests."""

    tokenizer: MergingTokenizer = field(default_factory=MergingTokenizer)
    template: MarkTemplate | None = field(default_factory=MarkTemplate)
    name: str = "merging"
    fingerprint: str = "merging"


class HashModel:
    """Answers by a hash of what a call is: equal calls get equal answers, others rarely."""

    tokenizer = MergingTokenizer()

    def _draw(self, *parts: object) -> Random:
        digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
        return Random(int.from_bytes(digest, "big"))

    def generate(self, call: GenCall) -> GenResult:
        draw = self._draw(call.context, call.params, call.constraint, call.key)
        text = "".join(draw.choice(WORDS) for _ in range(draw.randint(0, 3)))
        if call.constraint is not None:
            text = str(draw.randint(0, 3))
        tail = draw.choice(("", "", "b")) if call.constraint is None else ""
        return GenResult(token_ids=tuple(self.tokenizer.encode(text)), text=text + tail, tail=tail)

    def score(self, call: ScoreCall) -> ScoreResult:
        draws = [self._draw(call.context, option) for option in call.options]
        return ScoreResult(
            logprobs=tuple(
                tuple(-draw.random() for _ in option)
                for draw, option in zip(draws, call.options, strict=True)
            )
        )
