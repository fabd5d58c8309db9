"""Whether a run fits the engine's KV memory, asked before it starts.

A run is refused only where a call that it cannot do without can never fit, by lower bounds.
One that may need more than there is gets a warning: what is evicted is computed again when it
is needed.
"""

import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from lmc.errors import PoolWarning, RunError
from lmc.ir.calls import SamplingParams
from lmc.ir.core import Module
from lmc.program import user_level

if TYPE_CHECKING:
    from lmc.compiled import CompiledProgram
    from lmc.ir.target import Backend
    from lmc.passes.cost.analysis import CostReport

MAX_TRIPS = 64
MAX_OPS = 20_000
"""Ops that are followed: a check takes well under a second."""

_REPEATING = ("cf.for", "cf.while", "func.call", "func.apply", "lm.fork")
"""Ops that may do more than once what stands in them, or behind them."""


class PoolCheck:
    """Checks runs of one program on one backend; small ones pass without any analysis.

    An analysis is kept: it is made again for arguments that are longer than those before, where
    their bound came near the pool or they have doubled.
    """

    def __init__(self, program: "CompiledProgram", backend: "Backend") -> None:
        self.backend = backend
        self._program = program
        self._num_slots: int | None = getattr(backend, "num_slots", None)
        self._max_len: int = getattr(backend, "max_len", None) or self._num_slots or 0
        self._shape: _Shape | None = None
        self._checked_size = -1
        self._peak = 0.0
        self._is_told = False

    def __call__(self, args: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        """Look at a run before it starts.

        Raises:
            RunError: it cannot fit, whatever the model answers.
        """
        if self._num_slots is None:
            return
        size = sum(_size(value) for value in args.values())
        if self._is_small(size, defaults) or not self._is_new(size):
            return
        report = self._report(args, defaults)
        self._refuse(report)
        self._checked_size, self._peak = size, report.peak_tokens
        self._warn(report)

    def _is_small(self, size: int, defaults: Mapping[str, Any]) -> bool:
        """Whether a run would fit even if each append added all that there is to add."""
        if self._shape is None:
            self._shape = _shape_of(self._program.module)
        shape = self._shape
        made = shape.calls * max(SamplingParams().max_tokens, defaults.get("max_tokens") or 0)
        context = shape.texts + shape.appends * (size + made)
        return not shape.repeats and shape.calls * context < (self._num_slots or 0)

    def _is_new(self, size: int) -> bool:
        is_near = 2 * self._peak >= (self._num_slots or 0)
        return size > self._checked_size and (is_near or size > 2 * self._checked_size)

    def _report(self, args: Mapping[str, Any], defaults: Mapping[str, Any]) -> "CostReport":
        from lmc.passes.cost.analysis import estimate_cost

        return estimate_cost(
            self._program.module, self._program.name, self.backend.target, args,
            defaults=defaults, max_trips=MAX_TRIPS, max_ops=MAX_OPS, is_warm_wanted=False,
        )  # fmt: skip

    def _refuse(self, report: "CostReport") -> None:
        call = report.longest
        if call is None or call.tokens <= self._max_len:
            return
        what = "pool" if self._max_len == self._num_slots else "model's context"
        raise RunError(
            f"this run cannot fit: a call needs at least {call.tokens:,.0f} tokens "
            f"({call.context:,.0f} of its context, max_tokens={call.max_tokens:,}), "
            f"but the {what} holds {self._max_len:,}",
            hint="shorten the prompt or lower max_tokens",
            location=call.op.location,
        )

    def _warn(self, report: "CostReport") -> None:
        peak, slots = report.peak_tokens, self._num_slots or 0
        if self._is_told or peak <= slots or not report.cold.held.is_bounded:
            return
        self._is_told = True
        place, cost = max(report.lines.items(), key=lambda item: item[1].held.high)
        each = getattr(self.backend, "kv_bytes_per_token", 0)
        memory = f" ({peak * each / 2**20:,.0f} MiB of {slots * each / 2**20:,.0f})" if each else ""
        warnings.warn(
            f"'{self._program.name}' may need up to {peak:,.0f} tokens of KV memory, but the pool "
            f"holds {slots:,}{memory}: what does not fit is computed again when it is needed. "
            f"Up to {cost.held.high:,.0f} come from {place or 'the program'}. Lower max_tokens or "
            "shorten texts there, or open the model with more: "
            f"lmc.open_backend(..., num_slots={_rounded(peak)})",
            PoolWarning,
            stacklevel=user_level(),
        )


@dataclass(frozen=True, slots=True)
class _Shape:
    """How much a module appends: its calls, its appends, the length of its texts and limits."""

    calls: int
    appends: int
    texts: int
    repeats: bool


def _shape_of(module: Module) -> _Shape:
    ops = list(module.walk())
    names = [op.name for op in ops]
    return _Shape(
        calls=names.count("lm.gen") + names.count("lm.select"),
        appends=names.count("lm.extend") + names.count("val.concat") + names.count("lm.join"),
        texts=sum(_size(op.attributes) for op in ops),
        repeats=any(name in _REPEATING for name in names),
    )


def _size(value: Any) -> int:
    """Return the length of all texts in a value; numbers count as what they may ask for."""
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return sum(_size(key) + _size(item) for key, item in items)
    if isinstance(value, (list, tuple, set, frozenset)):
        held = cast("Collection[Any]", value)
        return sum(map(_size, held)) + len(held)
    if isinstance(value, int):
        return max(8, min(abs(value), 10**9))
    return len(str(value))


def _rounded(tokens: float) -> int:
    """Return a number of tokens, rounded up to a thousand."""
    return -int(-tokens // 1000) * 1000
