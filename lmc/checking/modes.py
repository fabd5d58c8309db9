"""The modes that a program is checked in, and one example run in all of them."""

import copy
import json
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from types import FunctionType
from typing import Any

from lmc.checking.answers import Scenario, ScenarioOracle, words_of
from lmc.checking.hosts import HostStandIns, Places
from lmc.checking.meaning import Failure, Meaning, TooLong, failure_of, meaning_of
from lmc.checking.outcome import (
    Mismatch,
    Outcome,
    compare_compiled,
    compare_eager,
    compare_modules,
    compare_streams,
    result_outcome,
)
from lmc.checking.prefixes import wrong_prefill, wrong_prologue
from lmc.codegen.lower import lower
from lmc.codegen.plan_json import plan_from_json, plan_to_json
from lmc.errors import Cancelled, LmcError
from lmc.frontend.capture import capture
from lmc.ir.core import Module, Op
from lmc.passes.pipeline import DEFAULT_PIPELINE, PassManager, pass_names
from lmc.runtime.eager import run_eager
from lmc.runtime.executor import Executor
from lmc.runtime.oracle import Oracle
from lmc.runtime.prompt_state import Lineage
from lmc.runtime.result import RunResult

Run = Callable[..., RunResult]

MAX_STEPS = 200_000
MORE_STEPS = 20
"""How many times more steps than the program's own a module after passes may take."""

TIME_LIMIT_S = 20.0


@dataclass(frozen=True, slots=True)
class Example:
    """Arguments, and how the oracle answers."""

    args: dict[str, Any]
    scenario: Scenario


@dataclass(frozen=True, slots=True)
class Finding:
    """A mode that differs on an example.

    `is_executor` says that the module is as it should be and what ran it is not.
    """

    mode: str
    mismatch: Mismatch
    is_executor: bool = False


@dataclass(slots=True)
class Mode:
    """A compiled way of running the program: a module and what runs it, or why there is none.

    `exact` lists pairs of modules that must mean the same (see `PipelineResult`).
    """

    name: str
    module: Module
    executor: Executor | None = None
    failure: Failure | None = None
    exact: tuple[tuple[Module, Module], ...] = ()


@dataclass(slots=True)
class Tally:
    """What was seen of a program so far."""

    examples: int = 0
    unjudged: int = 0
    failed: int = 0
    arms: set[tuple[Op, bool]] = field(default_factory=set[tuple[Op, bool]])


class Checker:
    """Runs examples of one program in every mode.

    `pipelines` are the compiled modes by name, instead of the usual ones.

    Raises:
        CaptureError: the program cannot be captured, so it has nothing to be compared.
    """

    def __init__(
        self,
        program: Any,
        oracle: Oracle | None = None,
        *,
        call_host: bool = False,
        pipelines: Mapping[str, str] | None = None,
    ) -> None:
        self.function: FunctionType = getattr(program, "__lmc_function__", program)
        captured = capture([self.function])
        self.module = captured.module
        self.entry = self.module.entries[0]
        self.words = words_of(self.module)
        self.oracle = ScenarioOracle(oracle or _plain_oracle(), self.words)
        self.hosts = HostStandIns(
            captured.host, self.module, self.words.texts, call_host=call_host
        )  # fmt: skip
        self.places = Places(self.hosts, self.function)
        self.call_lines = {
            op.location.line
            for op in self.module.walk()
            if op.name in ("lm.gen", "lm.select") and op.location is not None
        }
        self.quiet = {
            str(op.attributes.get("name") or "")
            for op in self.module.walk()
            if op.attributes.get("quiet")
        }
        self.tally = Tally()
        passes = {name: name for name in pass_names()}
        usual = {"unoptimised": "", **passes, "pipeline": DEFAULT_PIPELINE}
        self._pipelines = dict(usual if pipelines is None else pipelines)
        self._modes: dict[str, Mode] = {}
        self._is_verified = False
        self.reordered: set[str] = set()
        self._eager: Outcome | None = None
        self.is_eager_compared = not self.places.unreached

    @property
    def is_covered(self) -> bool:
        """Whether every branch went both ways."""
        branches = [op for op in self.module.walk() if op.name == "cf.if"]
        return len(self.tally.arms) == 2 * len(branches)

    @property
    def mode_names(self) -> list[str]:
        """The names of all modes that are compared."""
        eager = ["eager"] if self.is_eager_compared else []
        return [*eager, *self._pipelines]

    def module_of(self, name: str) -> Module:
        """Return the module that a compiled mode runs."""
        return self._mode(name).module

    def _mode(self, name: str) -> Mode:
        """Return a compiled mode, made when it is first needed."""
        if name not in self._modes:
            self._modes[name] = self._compile(name, self._pipelines[name])
        return self._modes[name]

    def _compile(self, name: str, pipeline: str) -> Mode:
        try:
            manager = PassManager.parse(pipeline)
            result = manager.run(self.module, is_verified=self._is_verified)
            self._is_verified = True
            mode = Mode(name, result.module, exact=result.exact)
            if result.level != "E":
                self.reordered.add(name)
            if result.module is not self.module or not pipeline:
                mode.executor = self.executor(result.module, stored=name == "pipeline")
            return mode
        except LmcError as error:
            return Mode(name, self.module, failure=failure_of(error))

    def executor(self, module: Module, *, stored: bool = True) -> Executor:
        """Return what runs a module; `stored` takes the plan through the form of artifacts."""
        plan = lower(module, self.oracle.target)
        if stored:
            plan = plan_from_json(json.loads(json.dumps(plan_to_json(plan))))
        return Executor(self.oracle, plan, self.hosts.functions)

    # -- one example -----------------------------------------------------------------------

    def examine(
        self, example: Example, only: str | None = None, skipped: Collection[str] = ()
    ) -> Finding | None:
        """Run an example; return the first mode that differs, if one does.

        `only` names the mode to look at; the others are then left out, as are `skipped` ones.
        """
        looked_at = [only] if only is not None else self.mode_names
        looked_at = [name for name in looked_at if name not in skipped]
        self.begin(example)
        try:
            meaning = self.meaning(self.module, example)
        except TooLong:
            self.tally.unjudged += 1
            return None
        self.tally.examples += 1
        self.tally.failed += meaning.failure is not None
        self.tally.arms |= meaning.arms
        self._eager = None
        if "eager" in looked_at:
            self._eager = self.run_eager(example)
            mismatch = compare_eager(meaning, self._eager, self.call_lines)
            if mismatch is not None:
                return Finding("eager", mismatch)
        for name in looked_at:
            if name != "eager":
                finding = self._examine_mode(self._mode(name), meaning, example)
                if finding is not None:
                    return finding
        return None

    def begin(self, example: Example) -> None:
        """Have the oracle and the host functions answer as an example says."""
        self.oracle.play(example.scenario)
        self.hosts.begin_example(example.scenario.seed, may_raise=example.scenario.hosts_may_raise)

    def _examine_mode(self, mode: Mode, meaning: Meaning, example: Example) -> Finding | None:
        if mode.failure is not None:
            return Finding(mode.name, Mismatch("compilation", "no error", str(mode.failure)))
        if mode.executor is None:
            return None  # the pass changed nothing
        own = self._compare_exact(mode, meaning, example)
        if isinstance(own, Mismatch):
            return Finding(mode.name, own)
        if own is None:
            return None
        is_reordered = mode.name in self.reordered
        mismatch = self.judge(mode.executor, own, example, is_reordered=is_reordered)
        return None if mismatch is None else Finding(mode.name, mismatch, is_executor=True)

    def _compare_exact(
        self, mode: Mode, meaning: Meaning, example: Example
    ) -> Meaning | Mismatch | None:
        """Return what a mode's module means, how an exact pass changed it, or None: not judged.

        What a reordered program does is its own affair, also how long it takes.
        """
        max_steps = MORE_STEPS * (meaning.steps + 100)
        for index, (before, after) in enumerate(mode.exact):
            try:
                if index:
                    meaning = self.meaning(before, example, max_steps)
            except TooLong:
                return None
            if after is before:
                continue
            try:
                own = self.meaning(after, example, MORE_STEPS * (meaning.steps + 100))
            except TooLong as error:
                return Mismatch("end", "the run ends", str(error))
            mismatch = compare_modules(meaning, own)
            if mismatch is not None:
                return mismatch
            meaning = own
        return meaning

    def judge(
        self,
        executor: Executor,
        meaning: Meaning,
        example: Example,
        *,
        is_reordered: bool = False,
    ) -> Mismatch | None:
        """Run a plan on an example; return how it differs from its module's meaning.

        The streams of children are compared with eager mode's, unless pieces were reordered.
        """
        outcome = self.run_compiled(executor, example)
        mismatch = compare_compiled(meaning, outcome) or wrong_prologue(
            executor.plan, self.oracle.target
        )
        if mismatch is not None or meaning.failure is not None:
            return mismatch
        if self._eager is not None and not is_reordered:
            mismatch = compare_streams(self._eager, outcome)
        return mismatch or wrong_prefill(self.oracle.prefills, meaning.groups, executor.plan)

    # -- runs ------------------------------------------------------------------------------

    def meaning(self, module: Module, example: Example, max_steps: int = MAX_STEPS) -> Meaning:
        """Return what a module means for an example.

        Raises:
            TooLong: it takes more than `max_steps`.
        """
        self.hosts.begin_mode()
        return meaning_of(
            module, self.entry, arguments_for(module, self.entry, example.args),
            model=self.oracle, target=self.oracle.target, seed=example.scenario.seed,
            instance=example.scenario.instance, defaults=example.scenario.defaults,
            host=self.hosts.functions, max_steps=max_steps,
        )  # fmt: skip

    def run_compiled(self, executor: Executor, example: Example) -> Outcome:
        """Run an executor's plan on an example."""
        args = {param.name for param in executor.plan.functions[self.entry].params}
        given = {name: value for name, value in example.args.items() if name in args}
        timer = threading.Timer(TIME_LIMIT_S, executor.cancel)
        timer.daemon = True
        timer.start()
        try:
            return self._outcome(partial(executor.run, self.entry), example, given)
        finally:
            timer.cancel()

    def run_eager(self, example: Example) -> Outcome:
        """Run the Python body on an example."""

        def run(args: Mapping[str, Any], **options: Any) -> RunResult:
            with self.places.filled(self.hosts.functions):
                return run_eager(self.oracle, self.function, args, **options)

        return self._outcome(run, example, example.args)

    def _outcome(self, run: Run, example: Example, args: Mapping[str, Any]) -> Outcome:
        scenario = example.scenario
        streams: dict[Lineage, str] = {}

        def on_event(kind: str, name: str | None, text: str, lineage: Lineage) -> None:
            streams[lineage] = streams.get(lineage, "") + text

        self.hosts.begin_mode()
        self.oracle.forget()
        try:
            result = run(
                args=copy.deepcopy(dict(args)), seed=scenario.seed, instance=scenario.instance,
                defaults=scenario.defaults, on_event=on_event,
            )  # fmt: skip
        except Cancelled:
            failure = Failure("Cancelled", None, f"it did not end within {TIME_LIMIT_S} s")
            return Outcome(failure=failure, host_calls=self.hosts.calls)
        except Exception as error:
            # Also errors of lmc itself: they are what a check is there to find.
            return Outcome(failure=failure_of(error), host_calls=self.hosts.calls)
        return result_outcome(result, self.hosts.calls, streams, self.quiet)


@cache
def _plain_oracle() -> Oracle:
    return Oracle()


def arguments_for(module: Module, entry: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return copies of the arguments that a module's program still has."""
    names = {param.name for param in module.functions[entry].params}
    return {name: copy.deepcopy(value) for name, value in args.items() if name in names}
