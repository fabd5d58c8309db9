"""Measuring: a workload is run on an engine, and its calls are compared with their trie."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lmc.benching.measure import least_computed
from lmc.ir.token_trie import trie_size
from lmc.runtime.engine.stats import EngineStats
from sharing.offline import Call, best_offline, schedule_cost
from sharing.replay import Recorded, ReplayEngine, ReplayModel, words_of
from sharing.workloads import Workload

SEED = 20260

MARGIN = 512
"""Slots that a small pool holds besides the longest call."""


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run: values, calls per instance in the order of asking, engine's totals."""

    values: list[Any]
    calls: list[Recorded]
    owners: list[int]
    stats: EngineStats
    held_back: int
    chain: int

    @property
    def computed(self) -> int:
        """Tokens that went through the model, again computed ones included."""
        return self.stats.forward_tokens

    @property
    def trie(self) -> int:
        """Tokens of the trie of all contexts and of what was generated behind them."""
        return trie_size(sequence for call in self.calls for sequence in call.sequences)

    @property
    def tokens(self) -> int:
        """Tokens that go through the model where nothing is shared, within a call apart."""
        parts = [(len(call.call.context), call.sequences) for call in self.calls]
        return sum(size + sum(len(s) - size for s in sequences) for size, sequences in parts)

    @property
    def least(self) -> int:
        """Tokens that any schedule computes: the trie, and what equal calls generate again."""
        sequences = (sequence for call in self.calls for sequence in call.sequences)
        return least_computed(sequences, [(call.call.context, call.made) for call in self.calls])

    @property
    def allowance(self) -> int:
        """What may be computed beyond the trie: a token per call, and tails held back."""
        return len(self.calls) + self.held_back

    def offline_calls(self) -> list[Call]:
        """Return the calls with what they waited for: those answered before, of their run."""
        made: list[Call] = []
        of_owner: dict[int, list[int]] = {}
        for number, (call, owner) in enumerate(zip(self.calls, self.owners, strict=True)):
            earlier = of_owner.setdefault(owner, [])
            after = frozenset(n for n in earlier if self.calls[n].answered < call.asked)
            earlier.append(number)
            made.append(Call(call.call.context, call.sequences, call.made, after))
        return made


def run_workload(
    workload: Workload,
    target: Any,
    *,
    num_slots: int,
    mode: str = "compiled",
    inner: Any = None,
    batch_options: dict[str, Any] | None = None,
    **options: Any,
) -> Run:
    """Run a workload on a new engine.

    Args:
        workload: what to run.
        target: what it is lowered for.
        num_slots: tokens of KV memory.
        mode: "compiled" or "eager".
        inner: a real model that computes every step; None for none.
        batch_options: options of `run_batch`.
        options: options of the engine.
    """
    tokenizer = target.tokenizer
    model = ReplayModel(tokenizer.vocab_size, words_of(tokenizer), inner)
    with ReplayEngine(model, target, workload.answer, num_slots=num_slots, **options) as engine:
        results = workload.program.run_batch(
            workload.batch, backend=engine, seed=SEED, mode=mode, **(batch_options or {})
        )
        owners = owners_of(engine.log.calls, results)
        return Run(
            values=[result.value for result in results],
            calls=engine.log.calls,
            owners=owners,
            stats=engine.stats(),
            held_back=sum(result.usage.held_back_tokens for result in results),
            chain=max((r.usage.chain_steps for r in results), default=0),
        )


def pool_of(run: Run) -> int:
    """Return half the trie's size, but at least room for the longest call with a margin."""
    longest = max(len(sequence) for call in run.calls for sequence in call.sequences)
    return max(run.trie // 2, longest + MARGIN)


def owners_of(calls: Sequence[Recorded], results: Sequence[Any]) -> list[int]:
    """Return the instance of each call; every call of these workloads is needed."""
    known = {id(record.call): i for i, result in enumerate(results) for record in result.calls}
    return [known[id(call.call)] for call in calls]


@dataclass(frozen=True, slots=True)
class Offline:
    """Costs of offline schedules with a memory: the best that was found, and plain LRU."""

    best: int
    arrival_lru: int


def offline(calls: list[Call], capacity: int) -> Offline:
    """Return the costs of a run's calls when all are known ahead."""
    arrival = list(range(len(calls)))
    return Offline(
        best_offline(calls, capacity), schedule_cost(calls, arrival, capacity, "recency")
    )
