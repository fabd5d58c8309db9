"""Executor: runs the programs of a plan on a backend."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from lmc.codegen.plan import Plan, PlanFunction
from lmc.errors import LmcError, UsageError
from lmc.ir.decode_params import check_params
from lmc.ir.target import Backend
from lmc.runtime.executor.code import PlanCode
from lmc.runtime.executor.frame import Scope
from lmc.runtime.executor.host import HostFunctions
from lmc.runtime.executor.instance import Instance
from lmc.runtime.executor.loop import Loop
from lmc.runtime.executor.operations import OPERATIONS
from lmc.runtime.executor.run import Run
from lmc.runtime.executor.runner import Runner, Sessions, Start
from lmc.runtime.executor.slots import Slot, known
from lmc.runtime.executor.switches import ALL, Switches
from lmc.runtime.executor.task import open_frame
from lmc.runtime.result import RunResult

CHARS_PER_TOKEN = 4
"""Of most text; tells whether a batch may be larger than a backend's memory."""

Check = Callable[[Mapping[str, Any], Mapping[str, Any]], None]
"""Looks at a run's arguments and decode parameters before it starts."""


class Executor:
    """Runs the programs of a plan.

    Args:
        backend: what answers the model calls.
        plan: what `lower` gave, for the backend's target or for any.
        host: the user's functions by 'module:qualname'; others are imported when called.
        switches: what is left out, to measure what it is worth.

    Raises:
        UsageError: the plan was lowered for another tokenizer or template.
    """

    def __init__(
        self,
        backend: Backend,
        plan: Plan,
        host: Mapping[str, Callable[..., Any]] | None = None,
        switches: Switches = ALL,
    ) -> None:
        expected, given = plan.target_fingerprint, backend.target.fingerprint
        if expected and expected != given:
            raise UsageError(
                f"the plan '{plan.name}' was made for another tokenizer or chat template than "
                f"that of model '{backend.target.name}'",
                hint="compile the program for this model",
            )
        self.backend = backend
        self.plan = plan
        self.switches = switches
        self.host = HostFunctions(host)
        self.code = PlanCode(plan, OPERATIONS)
        self.sessions = Sessions()

    def program(self, entry: str, check: Check | None = None) -> "PlanRunner":
        """Return the runner of one program; raises UsageError where there is none.

        `check` is called before each run with its arguments and decode parameters; what it raises
        refuses the run.
        """
        return PlanRunner(self, self._entry(entry), check)

    def run(self, entry: str, args: Mapping[str, Any], **options: Any) -> RunResult:
        """Run a program and return its result; options as in `Runner.run`.

        Raises:
            UsageError: an unknown program, or arguments that do not fit.
            RunError: the program failed; of several failures, the first in program order.
            Cancelled: `cancel` was called.
        """
        return self.program(entry).run(args, **options)

    def run_many(
        self, entry: str, batch: Iterable[Mapping[str, Any]], **options: Any
    ) -> Iterator[RunResult | LmcError]:
        """Run a program once per set of arguments; options as in `Runner.run_many`."""
        return self.program(entry).run_many(batch, **options)

    def cancel(self) -> None:
        """Cancel all runs of this executor; they raise Cancelled. From any thread."""
        self.sessions.cancel()

    def _entry(self, name: str) -> PlanFunction:
        function = self.plan.functions.get(name)
        if function is None or function.kind != "program":
            known_names = [f.name for f in self.plan.functions.values() if f.kind == "program"]
            raise UsageError(
                f"the plan '{self.plan.name}' has no program '{name}'",
                hint=f"it has: {', '.join(known_names) or 'none'}",
            )
        return function


class PlanRunner(Runner):
    """Runs one program of a plan."""

    def __init__(
        self, executor: Executor, function: PlanFunction, check: Check | None = None
    ) -> None:
        super().__init__(executor.sessions)
        self._check = check
        self._executor = executor
        self._function = function

    def start_order(
        self, batch: Sequence[Mapping[str, Any] | LmcError], defaults: Mapping[str, Any]
    ) -> list[int]:
        """Return an order in which prefixes are shared, where memory may not hold all texts."""
        executor = self._executor
        num_slots = getattr(executor.backend, "num_slots", None)
        given = (args.values() for args in batch if isinstance(args, Mapping))
        chars = sum(len(str(value)) for values in given for value in values)
        if num_slots is None or chars // CHARS_PER_TOKEN <= num_slots // 2:
            return super().start_order(batch, defaults)
        from lmc.runtime.executor.batch_plan import start_order  # it uses this module

        target = executor.backend.target
        return start_order(executor.plan, self._function.name, target, batch, defaults)

    def starter(self, args: Mapping[str, Any], instance: Instance) -> Start:
        """Return what starts one instance; arguments are checked at once."""
        executor, function = self._executor, self._function
        values = bind_arguments(function, args)
        scope = Scope((), checked_defaults(instance.defaults))
        if self._check is not None:
            self._check(args, scope.defaults)

        def make_run(loop: Loop) -> Run:
            run = Run(
                loop, executor.backend, executor.code, executor.host, instance, executor.switches
            )
            run.program = f"{executor.plan.name}:{function.name}"
            return run

        def open_entry(run: Run) -> Sequence[Slot]:
            arguments = [known(None), *map(known, values)]
            return open_frame(run, executor.code.body(function.name), arguments, (), (), scope)

        return lambda session: session.start(make_run, open_entry)


def checked_defaults(defaults: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a run's decode parameters; raises UsageError for wrong ones."""
    return check_params(defaults or {})


def bind_arguments(function: PlanFunction, args: Mapping[str, Any]) -> list[Any]:
    """Return one value per parameter, defaults copied.

    Raises:
        UsageError: an argument is missing or unknown.
    """
    names = [param.name for param in function.params]
    for name in args:
        if name not in names:
            raise UsageError(
                f"program '{function.name}' has no argument '{name}'",
                hint=f"it has: {', '.join(names) or 'none'}",
            )
    missing = [p.name for p in function.params if not p.has_default and p.name not in args]
    if missing:
        raise UsageError(
            f"program '{function.name}' needs a value for {', '.join(map(repr, missing))}"
        )
    return [
        args[param.name] if param.name in args else copy.deepcopy(param.default)
        for param in function.params
    ]
