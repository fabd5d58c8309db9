"""Replay: an engine whose model answers as a record says; all else is the engine's own.

Contexts, radix tree, scheduler, chunks, sampling and stop strings are real. Only the logits
are decided beforehand: each KV slot also holds a hash of all tokens up to there, made from the
slot of the position before, and a table says which ids may follow which hash. So a slot that is
shared or rewritten wrongly changes the answers. Over a real model the forward pass is computed
as well and its logits are replaced; without one, runs of thousands of calls take seconds.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch

from lmc.ir.calls import GenCall, GenResult, ScoreCall, ScoreResult
from lmc.ir.target import OnGen, OnPrefill, OnScore, OnText, Target
from lmc.runtime.engine.engine import CallTicket, Engine
from lmc.runtime.engine.prefilling import PinnedPrefix

FIRST = 1
RAISED = 30.0
MASK = 2**64 - 1

Answer = Callable[[str, str], Iterable[str]]
"""From the program's name for a call and its prompt's text to the answers that may come."""


def next_hash(before: int, token_id: int) -> int:
    """Return the hash of a sequence with one more token."""
    mixed = ((before ^ (token_id + 1)) * 0x9E3779B97F4A7C15) & MASK
    return mixed ^ (mixed >> 29)


def hash_of(token_ids: Iterable[int], start: int = FIRST) -> int:
    """Return the hash of a sequence."""
    found = start
    for token_id in token_ids:
        found = next_hash(found, token_id)
    return found


@cache
def words_of(tokenizer: Any) -> list[int]:
    """Return the ids of plain words with a blank before: text that encodes to itself."""
    table = tokenizer.token_bytes()
    return [
        i for i, piece in enumerate(table)
        if piece and len(piece) > 3 and piece[:1] == b" " and piece[1:].isalpha()
        and piece[1:].islower()
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes that an engine asks for, of a model without weights."""

    vocab_size: int
    num_layers: int = 1
    num_kv_heads: int = 1
    head_dim: int = 1
    max_positions: int = 8192


class ReplayModel:
    """A model whose logits raise what `following` lists for the tokens so far.

    Where it lists nothing, one of `words` is raised, chosen by the hash.

    Args:
        vocab_size: width of the logits.
        words: ids for text that no record decides.
        inner: a real model that computes every step; None for none.
    """

    def __init__(self, vocab_size: int, words: list[int], inner: Any = None) -> None:
        self.config = inner.config if inner is not None else Shape(vocab_size)
        self.weights_fingerprint = "replay"
        self.following: dict[int, list[int]] = {}
        self._words = words
        self._inner = inner

    def new_kv(self, num_slots: int) -> tuple[list[int], Any]:
        """Return a hash per slot, wrong until written, and the inner model's memory."""
        inner = self._inner.new_kv(num_slots) if self._inner is not None else None
        return [0xDEAD] * num_slots, inner

    def forward(self, batch: Any, kv: tuple[list[int], Any]) -> torch.Tensor:
        """Write the hashes of the batch's tokens; return logits, float32 [rows, vocab]."""
        hashes, memory = kv
        if self._inner is not None:
            self._inner.forward(batch, memory)
        tokens, slots = batch.token_ids.tolist(), batch.slots.tolist()
        positions, starts = batch.positions.tolist(), batch.seq_starts.tolist()
        table = batch.page_table.numpy()
        state = [0] * len(tokens)
        for index, row in enumerate(batch.table_rows.tolist()):
            first = positions[starts[index]]
            before = hashes[int(table[row, first - 1])] if first else FIRST
            for at in range(starts[index], starts[index + 1]):
                before = state[at] = next_hash(before, tokens[at])
                hashes[slots[at]] = before
        rows = batch.logit_rows.tolist()
        logits = np.zeros((len(rows), self.config.vocab_size), dtype=np.float32)
        for out, row in enumerate(rows):
            found = state[row]
            listed = self.following.get(found) or [self._words[found % len(self._words)]]
            logits[out, listed] = RAISED
        return torch.from_numpy(logits)


@dataclass(slots=True)
class Recorded:
    """One call: `asked` and `answered` are places in the one order of such events."""

    call: GenCall | ScoreCall
    asked: int
    answered: int = -1
    result: Any = None

    @property
    def made(self) -> tuple[int, ...]:
        """The generated tokens that went through the model: all but the last, none of a score."""
        if not isinstance(self.call, GenCall):
            return ()
        kept = self.result.token_ids
        return kept[:-1] if len(kept) == self.result.usage.output_tokens else kept

    @property
    def sequences(self) -> list[tuple[int, ...]]:
        """The token sequences that must go through the model: with options, or what was made."""
        if isinstance(self.call, GenCall):
            return [self.call.context + self.made]
        return [self.call.context + option[:-1] for option in self.call.options]


@dataclass(slots=True)
class Log:
    """The calls of an engine in the order of asking."""

    calls: list[Recorded] = field(default_factory=list[Recorded])
    num_events: int = 0

    def event(self) -> int:
        """Return the place of the next event."""
        self.num_events += 1
        return self.num_events


class ReplayEngine(Engine):
    """An engine over a ReplayModel that notes its calls.

    Args:
        model: the model.
        target: what programs are lowered for.
        answer: the recorded answers; "" ends an answer at once. Of several one is sampled,
            token by token, or the first is taken by a greedy call.
        options: options of Engine.
    """

    def __init__(
        self, model: ReplayModel, target: Target, answer: Answer | None = None, **options: Any
    ) -> None:
        self.log = Log()
        self._replayed = model
        self._answer = answer
        self._end = min(target.tokenizer.eos_ids)
        super().__init__(model, target, **options)

    def submit_gen(
        self, call: GenCall, on_done: OnGen, on_text: OnText | None = None
    ) -> CallTicket:
        """Start a generation whose answer is the recorded one."""
        self._script(call, is_greedy=call.params.is_greedy)
        return super().submit_gen(call, self._noted(call, on_done), on_text)

    def submit_score(self, call: ScoreCall, on_done: OnScore) -> CallTicket:
        """Score options, the recorded one highest."""
        self._script(call, is_greedy=True)
        return super().submit_score(call, self._noted(call, on_done))

    def submit_prefill(self, context: tuple[int, ...], on_done: OnPrefill) -> CallTicket:
        """Compute a prefix; the engine's own."""

        def done(result: PinnedPrefix | BaseException) -> None:
            on_done(result)

        return super().submit_prefill(context, done)

    def _noted(self, call: GenCall | ScoreCall, on_done: Callable[[Any], None]) -> Any:
        noted = Recorded(call, self.log.event())
        self.log.calls.append(noted)

        def done(result: GenResult | ScoreResult | BaseException) -> None:
            noted.result = result
            noted.answered = self.log.event()
            on_done(result)

        return done

    def _script(self, call: GenCall | ScoreCall, *, is_greedy: bool) -> None:
        """List the ids of the recorded answers behind the call's context."""
        if self._answer is None:
            return
        tokenizer = self.target.tokenizer
        name = call.site.partition("@")[0]
        answers = list(self._answer(name, tokenizer.decode(call.context)))
        root = hash_of(call.context)
        for answer in answers[:1] if is_greedy else answers:
            found = root
            for token_id in [*tokenizer.encode(answer), self._end]:
                listed = self._replayed.following.setdefault(found, [])
                if token_id not in listed:
                    listed.append(token_id)
                found = next_hash(found, token_id)
