"""Checking a program: every way of running it does what its source means.

    report = lmc.check(judge, examples=100)
    assert report.is_equal, report

Runs the program on the oracle with arguments drawn from its signature and answers that drive
its branches, in every mode: eager, the unoptimised plan, each pass alone, the whole pipeline.
The reference interpreter says what each run must show. A difference is shrunk: first the
arguments and answers, then the IR.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lmc.checking.arguments import arguments_strategy, require_hypothesis, scenarios
from lmc.checking.meaning import TooLong
from lmc.checking.modes import Checker, Example, Finding
from lmc.checking.outcome import Mismatch, compare_modules
from lmc.checking.reduce import reduce_module
from lmc.errors import UsageError
from lmc.ir.core import Module
from lmc.ir.location import Location
from lmc.ir.printer import print_module
from lmc.passes.base import Pass
from lmc.passes.pipeline import DEFAULT_PIPELINE, PassManager
from lmc.runtime.oracle import Oracle

DEFAULT_EXAMPLES = 50
MAX_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Branch:
    """A condition of the program and the ways it went."""

    location: Location
    was_true: bool
    was_false: bool

    @property
    def is_covered(self) -> bool:
        """Whether it went both ways."""
        return self.was_true and self.was_false

    def __str__(self) -> str:
        if self.is_covered:
            return f"{self.location}: both ways"
        if not self.was_true and not self.was_false:
            return f"{self.location}: never reached"
        return f"{self.location}: never {not self.was_true}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One mode that does not do what the program means.

    Attributes:
        mode: the mode that differs.
        fault: what is at fault, in words: a pass, the executor, eager mode or capture.
        mismatch: the aspect that differs, what it should be and what it is.
        example: the shrunk arguments and answers.
        ir: a short module that shows the difference; "" where none was found.
    """

    mode: str
    fault: str
    mismatch: Mismatch
    example: Example
    ir: str = ""

    def __str__(self) -> str:
        lines = [
            f"difference: {self.fault}: {self.mismatch.aspect} (mode {self.mode})",
            f"  arguments: {self.example.args!r}",
            f"  answers: {self.example.scenario}",
            "  expected:",
            *(f"    {line}" for line in self.mismatch.expected.splitlines() or [""]),
            "  got:",
            *(f"    {line}" for line in self.mismatch.got.splitlines() or [""]),
        ]
        if self.ir:
            lines += ["  reduced IR:", *(f"    {line}" for line in self.ir.splitlines())]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What checking a program found; `str` of it is the report for people."""

    program: str
    modes: tuple[str, ...]
    examples: int
    failed: int = 0
    unjudged: int = 0
    branches: tuple[Branch, ...] = ()
    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def is_equal(self) -> bool:
        """Whether no mode differed."""
        return not self.differences

    def __str__(self) -> str:
        covered = sum(branch.is_covered for branch in self.branches)
        lines = [
            f"checked {self.program}: {self.examples} examples in modes {', '.join(self.modes)}",
            f"  {self.failed} examples end in an error, {self.unjudged} were too long to judge",
            f"  branches: {covered} of {len(self.branches)} went both ways",
            *(f"    {branch}" for branch in self.branches if not branch.is_covered),
            *(f"  note: {note}" for note in self.notes),
            *map(str, self.differences),
        ]
        lines.append("no difference" if self.is_equal else f"{len(self.differences)} difference(s)")
        return "\n".join(lines)


def check_program(
    program: Any,
    *,
    examples: int = DEFAULT_EXAMPLES,
    seed: int = 0,
    oracle: Oracle | None = None,
    strategies: Mapping[str, Any] | None = None,
    arguments: Sequence[Mapping[str, Any]] | None = None,
    call_host: bool = False,
    reduce: bool = True,
    rounds: int = MAX_ROUNDS,
) -> CheckReport:
    """Check that every mode runs a program as its source means.

    Args:
        program: what `@lmc.function` made.
        examples: how many sets of arguments and answers to try.
        seed: decides which; the same seed tries the same ones.
        oracle: gives the tokenizer, the chat template and, if it is scripted, the answers.
        strategies: hypothesis strategies for arguments, by name.
        arguments: sets of arguments to choose from, instead of drawing any.
        call_host: call the program's real host functions, once per example, instead of
            stand-ins that answer by a hash of what they are given.
        reduce: shrink the IR of a difference as well.
        rounds: searches of so many examples at most; more than one only while they show arms
            of branches that were not taken before, or other differences.

    Raises:
        CaptureError: the program cannot be captured.
        UsageError: hypothesis is missing, or an argument's type is not known.
    """
    checker = Checker(program, oracle, call_host=call_host)
    return check_in_modes(
        checker, examples=examples, seed=seed, strategies=strategies, arguments=arguments,
        reduce=reduce, rounds=rounds,
    )  # fmt: skip


def check_in_modes(
    checker: Checker,
    *,
    examples: int,
    seed: int = 0,
    strategies: Mapping[str, Any] | None = None,
    arguments: Sequence[Mapping[str, Any]] | None = None,
    reduce: bool = True,
    rounds: int = MAX_ROUNDS,
) -> CheckReport:
    """Check the program of a checker, as `check_program` does; the modes stay in the checker."""
    if examples < 1:
        raise UsageError(f"examples must be at least 1, not {examples}")
    strategy = _examples(checker, strategies, arguments)
    found: list[Difference] = []
    skipped: set[str] = set()
    for part in range(rounds):
        seen = len(checker.tally.arms)
        result = _search(checker, strategy, examples, seed + part, skipped)
        if result is not None:
            found.append(_explain(checker, *result, reduce=reduce))
            # A pass that is at fault makes the whole pipeline differ as well.
            skipped |= {result[1].mode, "pipeline"}
        elif found or checker.is_covered or len(checker.tally.arms) == seen:
            break
    return _report(checker, found)


def _examples(
    checker: Checker,
    strategies: Mapping[str, Any] | None,
    arguments: Sequence[Mapping[str, Any]] | None,
) -> Any:
    st = require_hypothesis().strategies
    if arguments is not None:
        if not arguments:
            raise UsageError("there is no set of arguments to check with", hint="give at least one")
        drawn = st.sampled_from([dict(item) for item in arguments])
    else:
        drawn = arguments_strategy(checker.function, strategies, checker.words)
    return st.builds(Example, drawn, scenarios())


class _Differs(Exception):
    """Tells hypothesis that an example shows a difference."""


def _search(
    checker: Checker, strategy: Any, examples: int, seed: int, skipped: set[str]
) -> tuple[Example, Finding] | None:
    """Return the simplest example that differs in some mode, if one is found."""
    hypothesis = require_hypothesis()
    last: list[tuple[Example, Finding]] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples, database=None, deadline=None, print_blob=False,
        report_multiple_bugs=False, verbosity=hypothesis.Verbosity.quiet,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
    )  # fmt: skip
    @hypothesis.given(strategy)
    def run(example: Example) -> None:
        finding = checker.examine(example, last[-1][1].mode if last else None, skipped)
        if finding is not None:
            last.append((example, finding))
            raise _Differs

    try:
        run()
    except _Differs:
        return last[-1]
    except hypothesis.errors.Flaky:
        return last[-1]
    return None


# Explaining.


def _explain(checker: Checker, example: Example, finding: Finding, *, reduce: bool) -> Difference:
    """Name what is at fault and reduce the IR."""
    checker.begin(example)
    module, step, fault = _locate(checker, example, finding)
    text = ""
    if module is not None and reduce:
        shows = _shower(checker, example, step, finding.mismatch.aspect)
        if shows(module):
            text = print_module(reduce_module(module, shows))
    return Difference(
        mode=finding.mode, fault=fault, mismatch=finding.mismatch, example=example, ir=text
    )


def _locate(
    checker: Checker, example: Example, finding: Finding
) -> tuple[Module | None, Pass | None, str]:
    """Return the module that the fault is seen on, the pass at fault if one is, and words."""
    if finding.mode == "eager":
        return None, None, "eager mode and the captured module differ"
    text = {"unoptimised": "", "pipeline": DEFAULT_PIPELINE}.get(finding.mode, finding.mode)
    module, done = checker.module, "the unoptimised module"
    for step in PassManager.parse(text).passes:
        if _mismatch(checker, example, module, None) is not None:
            break
        if _mismatch(checker, example, module, step) is not None:
            return module, step, f"pass {step}"
        module = step.run(module).module
        done = f"the module that {step} left"
    return module, None, f"the executor on {done}"


def _mismatch(
    checker: Checker, example: Example, module: Module, step: Pass | None
) -> Mismatch | None:
    """Return what differs when a module is run, or when a pass rewrites it."""
    try:
        before = checker.meaning(module, example)
        if step is None:
            return checker.judge(checker.executor(module), before, example)
        result = step.run(module)
        if not result.changed or (result.level or step.level) != "E":
            return None
        after = checker.meaning(result.module, example)
    except TooLong as error:
        return Mismatch("end", "the run ends", str(error))
    except Exception as error:
        # A pass of ours may raise anything; that is a difference, not the end of the check.
        return Mismatch("compilation", "no error", str(error))
    return compare_modules(before, after)


def _shower(checker: Checker, example: Example, step: Pass | None, aspect: str) -> Any:
    def shows(module: Module) -> bool:
        try:
            found = _mismatch(checker, example, module, step)
        except Exception:
            # A module that makes lmc itself fail otherwise is another difference.
            return False
        return found is not None and found.aspect == aspect

    return shows


def _report(checker: Checker, found: Sequence[Difference]) -> CheckReport:
    notes: list[str] = []
    if not checker.is_eager_compared:
        names = ", ".join(checker.places.unreached)
        notes.append(f"eager mode is not compared: no stand-in can replace {names} there")
    if checker.reordered:
        modes = ", ".join(sorted(checker.reordered))
        notes.append(f"unordered pieces are in another order in {modes}: compared in two parts")
    return CheckReport(
        program=checker.entry,
        modes=tuple(checker.mode_names),
        examples=checker.tally.examples,
        failed=checker.tally.failed,
        unjudged=checker.tally.unjudged,
        branches=tuple(_branches(checker)),
        differences=tuple(found),
        notes=tuple(notes),
    )


def _branches(checker: Checker) -> list[Branch]:
    """Return the branches of the source in its order; several at one place count as one."""
    taken: dict[Location, set[bool]] = {}
    for op in checker.module.walk():
        if op.name == "cf.if" and op.location is not None:
            arms = {arm for arm in (True, False) if (op, arm) in checker.tally.arms}
            taken.setdefault(op.location, set()).update(arms)
    return [
        Branch(location, True in arms, False in arms) for location, arms in sorted(taken.items())
    ]
