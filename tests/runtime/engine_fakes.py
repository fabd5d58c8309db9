"""A model without weights, and a tokenizer, for tests of the engine.

The model keeps in every KV slot a hash of all tokens up to there, made from the slot of the
position before. Its logits are a function of that hash. So any slot that is shared, freed or
rewritten wrongly changes the output.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch

from lmc.codegen.respelling import growth_of
from lmc.ir.calls import GenCall, GenResult, SamplingParams, ScoreCall, ScoreResult
from lmc.runtime.engine.engine import Engine

MIX = np.uint64(0x9E3779B97F4A7C15)


def mix(value: np.ndarray) -> np.ndarray:
    """Scramble 64-bit numbers (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@dataclass(frozen=True)
class FakeConfig:
    """Sizes of the fake model."""

    num_layers: int = 1
    num_kv_heads: int = 1
    head_dim: int = 1
    vocab_size: int = 80
    max_positions: int = 4096


class FakeKV(np.ndarray):
    """One hash per slot, also as what moves KV knows: a layer of keys and values."""

    nbytes_per_token = 16

    @property
    def keys(self) -> tuple[torch.Tensor]:
        """The hashes as bits, [slots, 1, 1]."""
        return (torch.from_numpy(self.view(np.ndarray).view(np.int64).reshape(-1, 1, 1)),)

    @property
    def values(self) -> tuple[torch.Tensor]:
        """The same: there is nothing else."""
        return self.keys


@dataclass
class FakeModel:
    """See the module's text. `before_forward` is called with every batch."""

    config: FakeConfig = field(default_factory=FakeConfig)
    favourite: int | None = None
    before_forward: object = None
    weights_fingerprint: str = "fake"
    batches: list[tuple[int, int]] = field(default_factory=list)

    @property
    def kv_fingerprint(self) -> dict[str, str]:
        """Return what the hashes depend on."""
        return {"weights": self.weights_fingerprint}

    def new_kv(self, num_slots: int) -> FakeKV:
        """Return one hash per slot, wrong until written."""
        return np.full(num_slots, 0xDEAD, dtype=np.uint64).view(FakeKV)

    def forward(self, batch, kv: np.ndarray) -> torch.Tensor:
        """Write the hashes of the batch's tokens, return logits made from them."""
        self.batches.append((len(batch.table_rows), len(batch.token_ids)))
        if self.before_forward is not None:
            self.before_forward(batch)
        tokens, positions, slots = (
            x.numpy() for x in (batch.token_ids, batch.positions, batch.slots)
        )
        starts, table = batch.seq_starts.tolist(), batch.page_table.numpy()
        state = np.zeros(len(tokens), dtype=np.uint64)
        for index, row in enumerate(batch.table_rows.tolist()):
            for at in range(starts[index], starts[index + 1]):
                position = int(positions[at])
                assert table[row, position] == slots[at]
                before = kv[table[row, position - 1]] if position else np.uint64(1)
                state[at] = self._next(before, tokens[at])
                kv[slots[at]] = state[at]
        return torch.from_numpy(self.logits(state[batch.logit_rows.numpy()]))

    @staticmethod
    def _next(before, token) -> np.uint64:
        with np.errstate(over="ignore"):
            return mix(np.array([before * MIX + np.uint64(token + 1)], dtype=np.uint64))[0]

    def logits(self, state: np.ndarray) -> np.ndarray:
        """Return float32 [n, vocab] for n hashes."""
        with np.errstate(over="ignore"):
            ids = np.arange(1, self.config.vocab_size + 1, dtype=np.uint64) * MIX
            bits = mix(state[:, None] + ids[None, :]) >> np.uint64(40)
        values = bits.astype(np.float32) / np.float32(2**21) - np.float32(4)
        if self.favourite is not None:
            values[:, self.favourite] = 9.0
        return values

    def logits_after(self, token_ids) -> np.ndarray:
        """Return the logits after a whole sequence: what any schedule must give."""
        state = np.uint64(1)
        for token_id in token_ids:
            state = self._next(state, token_id)
        return self.logits(np.array([state], dtype=np.uint64))[0]


class FakeTokenizer:
    """Letters, digits, some pairs, bytes of two characters, one broken byte; three controls."""

    fingerprint = "fake"
    start_ids = ()
    empty_context_id = 0
    eos_ids = frozenset({1})
    controls = ("<bos>", "<eos>", "<turn>")

    def __init__(self) -> None:
        text = [bytes([c]) for c in b'abcdefghijklmnopqrstuvwxyz0123456789 .,:\n"[]{}-']
        pairs = [b"th", b"he", b"in", b"er", b"an", b"the", b" the", b", ", b"abc", b"12", b"00"]
        broken = [b"\xc3", b"\xa9", b"\xf0\x9f", b"\x98\x80", b"\xff", b"\xa9x"]
        self.table = [None, None, None, *text, *pairs, *broken]
        self.vocab_size = len(self.table)
        self._ids = {piece: i for i, piece in enumerate(self.table) if piece is not None}

    def id_of(self, piece: bytes) -> int:
        """Return the id of a token by its bytes."""
        return self._ids[piece]

    def encode(self, text: str, *, first: bool = False) -> list[int]:
        """Encode by longest piece first."""
        data, ids = text.encode(), []
        while data:
            size = next(n for n in range(min(4, len(data)), 0, -1) if data[:n] in self._ids)
            ids.append(self._ids[data[:size]])
            data = data[size:]
        return ids

    def stable_len(self, text: str, *, first: bool = False) -> int:
        """Say nothing about stability."""
        return 0

    def cut(self, text: str) -> int:
        """Know no cuts."""
        return 0

    def forced_ids(self, text: str, written: list[int], crosses) -> list[int] | None:
        """Go from left to right, as long as no longer piece may come."""
        data, ids = text.encode(), []
        while data:
            sizes = [n for n in range(1, min(4, len(data)) + 1) if data[:n] in self._ids]
            is_known = len(ids) < len(written)
            if not sizes or (crosses is not None and not is_known and crosses(data)):
                break
            ids.append(self._ids[data[: sizes[-1]]])
            data = data[sizes[-1] :]
        return ids[len(written) :] if ids[: len(written)] == written else None

    def decode(self, token_ids) -> str:
        """Return the text of ids."""
        return b"".join(self.table[i] or b"" for i in token_ids).decode("utf-8", "replace")

    def token_bytes(self):
        """Return the bytes of every id."""
        return self.table

    @property
    def growth(self) -> int:
        """Count what generated tokens may become, encoded anew."""
        return growth_of(self)

    def control_id(self, token: str) -> int | None:
        """Return a control id."""
        return self.controls.index(token) if token in self.controls else None

    def control_text(self, token_id: int) -> str | None:
        """Return a control token's spelling."""
        return self.controls[token_id] if token_id < len(self.controls) else None


class FakeTarget:
    """A target over the fake tokenizer."""

    name = "fake"
    fingerprint = "fake"
    template = None

    def __init__(self, tokenizer=None) -> None:
        self.tokenizer = tokenizer or FakeTokenizer()


class Waiter:
    """Collects what one call gave: the outcome and how often it came, and the pieces."""

    def __init__(self) -> None:
        self.outcomes: list[object] = []
        self.pieces: list[str] = []
        self._event = threading.Event()

    def __call__(self, outcome: object) -> None:
        self.outcomes.append(outcome)
        self._event.set()

    def outcome(self, seconds: float = 60.0):
        """Wait for the outcome and return it, an error included."""
        assert self._event.wait(seconds), "the call never ended"
        return self.outcomes[0]

    def result(self, seconds: float = 60.0):
        """Wait for the outcome and return it; raise it when it is an error."""
        outcome = self.outcome(seconds)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


def make_engine(model=None, **options) -> Engine:
    """Return an engine over a fake model."""
    return Engine(model or FakeModel(), FakeTarget(), **{"num_slots": 4096, **options})


@contextmanager
def held(engine) -> Iterator[None]:
    """Hold an engine's thread, so that what is submitted within comes into one step."""
    is_held, is_over = threading.Event(), threading.Event()
    engine._post(lambda: is_held.set() or is_over.wait())
    is_held.wait()
    yield
    is_over.set()


def run_all(engine, calls) -> list:
    """Submit all calls at once and return their results in order."""
    waiters = []
    for call in calls:
        waiter = Waiter()
        waiters.append(waiter)
        if isinstance(call, GenCall):
            engine.submit_gen(call, waiter, waiter.pieces.append)
        else:
            engine.submit_score(call, waiter)
    wait_for_all(waiters)
    results = [waiter.result() for waiter in waiters]
    for waiter, result in zip(waiters, results, strict=True):
        assert len(waiter.outcomes) == 1
        if isinstance(result, GenResult):
            check_pieces(waiter.pieces, result)
    return results


def wait_for_all(waiters, seconds: float = 60.0) -> None:
    """Wait until all calls have ended, as long as one ends now and then."""
    num_ended = -1
    for waiter in waiters:
        while not waiter._event.wait(seconds):
            before, num_ended = num_ended, sum(bool(each.outcomes) for each in waiters)
            assert num_ended > before, f"{num_ended} of {len(waiters)} calls ended, and no more"


def check_pieces(pieces, result: GenResult) -> None:
    """The pieces join to the text; the tokens that they tell of are the first of the result's."""
    assert "".join(pieces) == result.text
    ids = [token_id for piece in pieces for token_id in piece.token_ids]
    assert tuple(ids) == result.token_ids[: len(ids)]
    if result.logprobs is None:
        last = bool(pieces) and len(result.text) - len(result.tail)
        assert not last or ids, "tokens whose text was given were not told"
        return
    logprobs = [value for piece in pieces for value in piece.logprobs]
    assert tuple(logprobs) == result.logprobs[: len(ids)]


def gen(context, **params) -> GenCall:
    """Return a greedy call unless told otherwise."""
    options = {"temperature": 0.0, "max_tokens": 8, **params}
    constraint, key = options.pop("constraint", None), options.pop("key", 0)
    return GenCall(tuple(context), SamplingParams(**options), constraint, key)


def score(context, options) -> ScoreCall:
    """Return a score call."""
    return ScoreCall(tuple(context), tuple(tuple(option) for option in options))


__all__ = [
    "FakeConfig",
    "FakeModel",
    "FakeTarget",
    "FakeTokenizer",
    "ScoreResult",
    "Waiter",
    "gen",
    "held",
    "make_engine",
    "run_all",
    "score",
]
