"""Measuring the rows of a bench: every repeat on an engine of its own, with an empty cache."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from lmc.benching.rows import Row
from lmc.compiled import CompiledProgram
from lmc.errors import LmcError
from lmc.ir.calls import GenCall, GenResult
from lmc.ir.token_trie import Tokens, trie_size
from lmc.program import Program
from lmc.runtime.executor.runner import Runner
from lmc.runtime.result import RunResult
from lmc.summary import json_value

MakeEngine = Callable[[Mapping[str, Any]], Any]
"""From options of an engine to a new engine on the same model."""

AT_ONCE = 32
"""Runs of a batch that go on at the same time, in every row."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one repeat of a row took.

    Attributes:
        calls: model calls that were answered.
        computed: tokens that went through the model, again computed ones included.
        steps: forward passes of the engine.
        chain: decode steps of the longest chain of calls of one run that waited for each other.
        seconds: from the first run's start to the last one's end.
        least: tokens that any order computes for the calls that the results needed.
        results: what the runs gave, for comparing.
    """

    calls: int
    computed: int
    steps: int
    chain: int
    seconds: float
    least: int
    results: list[Any]


@dataclass(frozen=True, slots=True)
class Measured:
    """A row's repeats; figures are medians over them."""

    row: Row
    samples: list[Sample]

    def figure(self, name: str) -> float:
        """Return the median of one figure."""
        return median(getattr(sample, name) for sample in self.samples)


@dataclass(frozen=True, slots=True)
class Bench:
    """A program and what is needed to run it in every row.

    Attributes:
        compiled: the compiled program.
        program: its source, for eager mode; None for an artifact.
        batch: a set of arguments per run.
        make_engine: opens an engine on the model.
        seed: of all sampling.
    """

    compiled: CompiledProgram
    program: Program | None
    batch: Sequence[dict[str, Any]]
    make_engine: MakeEngine
    seed: int

    def measure(
        self, rows: Sequence[Row], repeat: int, on_sample: Callable[[], None]
    ) -> list[Measured]:
        """Run every row `repeat` times, taking turns; `on_sample` is called after each.

        Raises:
            RunError: a run failed; tells the row and the run.
        """
        samples: list[list[Sample]] = [[] for _ in rows]
        for turn in range(repeat):
            # Each repeat begins with another row, so that no row has the same neighbour.
            for place in range(len(rows)):
                number = (place + turn) % len(rows)
                samples[number].append(self._sample(rows[number]))
                on_sample()
        return [Measured(row, listed) for row, listed in zip(rows, samples, strict=True)]

    def _sample(self, row: Row) -> Sample:
        with self.make_engine(row.engine) as engine:
            runner = self._runner(row, engine)
            before, begun = engine.stats(), time.perf_counter()
            results = self._run_all(row, runner)
            seconds = time.perf_counter() - begun
            stats = engine.stats() - before
        return Sample(
            calls=sum(result.usage.calls for result in results),
            computed=stats.forward_tokens,
            steps=stats.engine_steps,
            chain=max((result.usage.chain_steps for result in results), default=0),
            seconds=seconds,
            least=least_of(results),
            results=[shown(result) for result in results],
        )

    def _runner(self, row: Row, engine: Any) -> Runner:
        if row.switches is not None:
            return self.compiled.executor_on(engine, row.switches).program(self.compiled.name)
        from lmc.runtime.eager import EagerRunner

        assert self.program is not None, "eager mode needs the source"
        return EagerRunner(engine, self.program.__lmc_function__)

    def _run_all(self, row: Row, runner: Runner) -> list[RunResult]:
        results: list[RunResult] = []
        try:
            for _, result in runner.run_completed(
                self.batch, seed=self.seed, limit=AT_ONCE, in_order=True
            ):
                assert isinstance(result, RunResult), "errors are raised"
                results.append(result)
        except LmcError as error:
            error.message = f"{row.name}, run {len(results) + 1}: {error.message}"
            raise
        return results


def least_of(results: Sequence[RunResult]) -> int:
    """Return the tokens that any order of serving computes for the calls of runs."""
    sequences: list[tuple[int, ...]] = []
    generated: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    for record in (record for result in results for record in result.calls):
        call, answer = record.call, record.result
        if isinstance(call, GenCall) and isinstance(answer, GenResult):
            made = answer.token_ids
            made = made[:-1] if len(made) == answer.usage.output_tokens else made
            sequences.append(call.context + made)
            generated.append((call.context, made))
        elif not isinstance(call, GenCall):
            sequences += [call.context + option[:-1] for option in call.options]
    return least_computed(sequences, generated)


def least_computed(sequences: Iterable[Tokens], generated: Iterable[tuple[Tokens, Tokens]]) -> int:
    """Return the least number of tokens that must go through the model.

    `generated` are the context of each generation, and of its tokens those that went through
    the model: all but the last. Each needs a forward pass of its own, for the logits behind
    it, also where an equal call has computed the same; so what is generated again counts again.
    """
    made = list(generated)
    distinct = {
        (*context, *tokens[: n + 1]) for context, tokens in made for n in range(len(tokens))
    }
    again = sum(len(tokens) for _, tokens in made) - len(distinct)
    return trie_size(sequences) + again


def shown(result: RunResult) -> Any:
    """Return what a run gave in a form that can be compared."""
    return [json_value(result.value), json_value(result.state.variables), result.state.text()]
