"""The start-up self-check: do rows depend on what is computed beside them, or before?

A sequence of random tokens goes through the model in one piece, in chunks down to single rows,
in chunks beside other sequences, and as forks behind a prefix that is cached. All must give the
same bits. Two layers of the model are enough: all layers have the same shapes, and what one row
of the first gives reaches every later row of the second. The promise rests on torch, processor,
kernels, threads and the model's shapes; a check that was passed is kept in the cache folder
under a hash of these, so that it costs its tenths of a second once.
"""

import hashlib
import itertools
import json
import os
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lmc.runtime.exactness import Exactness

if TYPE_CHECKING:
    import torch

IntArray = NDArray[np.int32]
Span = tuple[int, int, int]
"""Rows of a step: a row of the page table, and the first and last-but-one position."""

LENGTH = 72
"""Tokens of the sequence: more than one tile of attention."""

CACHED = 48
"""Tokens of the prefix that forks find cached."""

NUM_LAYERS = 2

CHUNKS = (33, 1, 7, 24, 1, 1, 5)
NEIGHBOURS = ((1, 5), (9,), (), (2, 1, 1), (1,), (16, 3), (1, 1, 1))
"""Rows of other sequences in the same step, chunk by chunk; every second one stands before."""

PROBES = frozenset([*range(7, LENGTH, 8), *(end - 1 for end in itertools.accumulate(CHUNKS))])
"""Positions whose logits are compared; the rows between count by what later ones see of them."""

_known: dict[str, Exactness] = {}
_lock = threading.Lock()


class CheckedModel(Protocol):
    """What a model tells of itself so that it can be checked."""

    @property
    def config(self) -> Any:
        """Its sizes; see lmc.runtime.engine.model_runner.ModelShape."""
        ...

    @property
    def claims_exactness(self) -> bool:
        """Whether its kernels promise that rows are independent."""
        ...

    @property
    def exactness_basis(self) -> dict[str, str]:
        """What the promise depends on, by name."""
        ...

    def shallow(self, num_layers: int) -> "CheckedModel":
        """Return the model of its first layers, which may compute beside it."""
        ...

    def new_kv(self, num_slots: int) -> Any:
        """Make KV memory."""
        ...

    def forward(self, batch: Any, kv: Any) -> "torch.Tensor":
        """Compute a batch; return float32 [logit rows, vocab]."""
        ...


def check_exactness(model: Any, folder: Path | None = None) -> Exactness:
    """Return whether a model is exact here; only the first call computes.

    Args:
        model: a CheckedModel; of any other nothing is known.
        folder: where passed checks are kept; the kernels' cache folder by default.
    """
    if not hasattr(model, "exactness_basis"):
        return Exactness(detail="the model says nothing of its kernels")
    basis = json.dumps({"check": _own_digest(), **model.exactness_basis}, sort_keys=True)
    with _lock:
        if basis not in _known:
            _known[basis] = _look_up_or_check(model, basis, folder)
        return _known[basis]


def forget_checks() -> None:
    """Forget what this process has found, but not what lies in the cache folder."""
    with _lock:
        _known.clear()


def _look_up_or_check(model: CheckedModel, basis: str, folder: Path | None) -> Exactness:
    from lmc.kernels.build import cache_folder

    digest = hashlib.sha256(basis.encode()).hexdigest()[:24]
    path = (folder or cache_folder()) / f"exact-{digest}.json"
    try:
        if path.read_text(encoding="utf-8") == basis:
            return Exactness("checked")
    except (OSError, UnicodeDecodeError):
        pass  # not kept, or not ours: checked anew
    try:
        found = differences(model)
    except Exception as error:
        return Exactness("unknown", f"the check itself failed: {type(error).__name__}: {error}")
    if not model.claims_exactness:
        seen = f", and {' and '.join(found)}" if found else ""
        return Exactness("unclaimed", f"these kernels do not promise it{seen}")
    if found:
        return Exactness("differs", " and ".join(found))
    _keep(path, basis)
    return Exactness("checked")


def differences(model: CheckedModel) -> list[str]:
    """Compute one sequence in several ways; return those that gave other bits, in words."""
    length = min(LENGTH, model.config.max_positions)
    steps = _Steps(model.shallow(NUM_LAYERS), length)
    whole = steps.compute([[(0, 0, length)]])
    ends = [min(end, length) for end in itertools.accumulate(CHUNKS)]
    pieces = [(1, a, b) for a, b in itertools.pairwise([0, *ends]) if a < b]
    found: list[str] = []
    if steps.compute([[piece] for piece in pieces]) != whole:
        found.append("results differ with the chunks that a prompt is computed in")
    pieces = [(2, first, end) for _, first, end in pieces]
    beside = [
        _beside(piece, [min(count, length) for count in rows])
        for piece, rows in zip(pieces, NEIGHBOURS, strict=False)
    ]
    if steps.compute(beside) != whole:
        found.append("results differ with the sequences in the same batch")
    cached = min(CACHED, length - 1)
    for row in (3, 4):
        steps.share(0, row, cached)
    forked = steps.compute([[(4, cached, length), (3, cached, length)]])
    if forked != {position: bits for position, bits in whole.items() if position >= cached}:
        found.append("results differ behind a cached prefix")
    return found


def _beside(piece: Span, rows: list[int]) -> list[Span]:
    """Return a step of our piece and of others, which start anew each time."""
    others = [(3 + index, 0, count) for index, count in enumerate(rows)]
    return [*others[::2], piece, *others[1::2]]


class _Steps:
    """Steps over a model with KV memory of their own.

    Rows 0 to 2 of the page table are our sequence, the others serve neighbours and forks.
    """

    NUM_ROWS = 6

    def __init__(self, model: CheckedModel, length: int) -> None:
        self._model = model
        num_slots = self.NUM_ROWS * length
        self._kv = model.new_kv(num_slots)
        random = np.random.default_rng(5)
        # Slots lie scattered, as in a pool that has been used.
        order = random.permutation(num_slots).astype(np.int32)
        self._table: IntArray = order.reshape(self.NUM_ROWS, length)
        vocab_size: int = model.config.vocab_size
        self._tokens: IntArray = random.integers(0, vocab_size, self._table.shape, dtype=np.int32)
        self._tokens[1:3] = self._tokens[0]

    def share(self, source: int, row: int, count: int) -> None:
        """Have a row begin with the cached tokens of another and go on as that one does."""
        self._table[row, :count] = self._table[source, :count]
        self._tokens[row] = self._tokens[source]

    def compute(self, steps: list[list[Span]]) -> dict[int, bytes]:
        """Return the bits of our sequence's logits at the probed positions.

        What several sequences of ours give for one position is joined where it differs.
        """
        found: dict[int, set[bytes]] = {}
        for spans in steps:
            rows = [(row, p) for row, first, end in spans for p in range(first, end)]
            is_probed = [p in PROBES for _, p in rows]
            probes = itertools.compress(rows, is_probed)
            logits = self._forward(spans, np.flatnonzero(is_probed))
            for (row, position), values in zip(probes, logits, strict=True):
                if np.array_equal(self._tokens[row], self._tokens[0]):
                    found.setdefault(position, set()).add(values.tobytes())
        return {position: b"".join(sorted(values)) for position, values in found.items()}

    def _forward(self, spans: list[Span], logit_rows: NDArray[Any]) -> NDArray[np.float32]:
        import torch

        from lmc.runtime.models.batch import ForwardBatch

        lengths = [end - first for _, first, end in spans]
        batch = ForwardBatch(
            token_ids=_tensor(self._tokens[row, first:end] for row, first, end in spans),
            positions=_tensor(np.arange(first, end) for _, first, end in spans),
            slots=_tensor(self._table[row, first:end] for row, first, end in spans),
            seq_starts=_tensor([np.cumsum([0, *lengths])]),
            table_rows=_tensor([np.array([row for row, _, _ in spans])]),
            page_table=torch.from_numpy(self._table),
            logit_rows=_tensor([logit_rows]),
        )
        with torch.inference_mode():
            return self._model.forward(batch, self._kv).numpy()


def _tensor(parts: Iterable[NDArray[Any]]) -> "torch.Tensor":
    import torch

    return torch.from_numpy(np.concatenate(list(parts)).astype(np.int32))


def _own_digest() -> str:
    """Return a hash of this check: another check is not answered by what this one found."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]


def _keep(path: Path, basis: str) -> None:
    """Write a passed check; where that cannot be it is done again next time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=".exact-", delete=False
        ) as file:
            file.write(basis)
        os.replace(file.name, path)
    except OSError:
        pass
