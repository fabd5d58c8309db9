"""CompiledProgram: what compiling gives; runs, saves to an artifact, loads from one."""

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lmc import __version__
from lmc.codegen.artifact import load_artifact, save_artifact
from lmc.codegen.lower import lower
from lmc.codegen.media import refuse_constant_files
from lmc.codegen.plan import Plan
from lmc.codegen.requirements import host_params, misfits, params_text
from lmc.codegen.signature import signature_of
from lmc.errors import CompileError, LmcError, PrefixKvWarning, RunError, UsageError
from lmc.ir.core import Module
from lmc.ir.value_types import find_class
from lmc.passes.base import counted
from lmc.program import user_level
from lmc.running import BatchItem, Runnable

if TYPE_CHECKING:
    import typing_extensions

    from lmc.codegen.artifact import Artifact
    from lmc.frontend.capture import Captured
    from lmc.ir.target import Backend, Target
    from lmc.pool_check import PoolCheck
    from lmc.runtime.executor import Executor, Switches
    from lmc.runtime.executor.batch_plan import BatchPlan
    from lmc.runtime.executor.runner import Runner

    R = typing_extensions.TypeVar("R", default=Any)
else:
    R = TypeVar("R")


class CompiledProgram(Runnable[R], Generic[R]):
    """A program compiled for one tokenizer and chat template.

    Call it, or `run` it, with the program's own arguments; `save` it to a file that runs
    without the source. On a backend with another tokenizer it is lowered again.
    """

    def __init__(
        self,
        plan: Plan,
        entry: str,
        *,
        module: Module | None = None,
        target: "Target | None" = None,
        pass_log: Sequence[Any] = (),
        pipeline: str = "",
        captured: "Captured | None" = None,
        first: Module | None = None,
        artifact: "Artifact | None" = None,
    ) -> None:
        self.plan = plan
        self.name = entry
        self.target = target
        self.pass_log = list(pass_log)
        self.pipeline = pipeline
        self._module = module
        self._captured = captured
        self._first = first
        self._is_checked = artifact is None
        self._artifact = artifact
        self._pool_checks: dict[int, PoolCheck] = {}
        self._executors: dict[int, tuple[Backend, Executor]] = {}
        function = plan.functions[entry]
        self.__lmc_fixed__ = {}
        self.__signature__ = signature_of(function)
        self.__doc__ = str(function.attributes.get("doc") or "") or None
        self.__name__ = entry

    def __repr__(self) -> str:
        return f"<compiled lmc program {self.name}{self.__signature__}>"

    @property
    def module(self) -> Module:
        """The optimised IR."""
        if self._module is None:
            assert self._artifact is not None, "made from a module or from an artifact"
            self._module = self._artifact.module()
        return self._module

    @property
    def captured_module(self) -> Module:
        """The IR before all passes: as captured, with what a profile says of it."""
        if self._first is not None:
            return self._first
        assert self._artifact is not None, "captured, or from an artifact"
        return self._artifact.captured()

    @property
    def model_name(self) -> str:
        """The name of the model that the program was compiled for."""
        if self.target is not None:
            return self.target.name
        return str(self._artifact.target["name"]) if self._artifact is not None else ""

    @property
    def programs(self) -> "dict[str, CompiledProgram]":
        """All programs that were compiled with this one, by name, in their order."""
        return {name: self._sibling(name) for name in self.plan.entries}

    def _sibling(self, name: str) -> "CompiledProgram":
        """Return another program of the same plan; it shares what runs them."""
        if name == self.name and not self.__lmc_fixed__:
            return self
        made = CompiledProgram(
            self.plan, name, module=self._module, target=self.target, pass_log=self.pass_log,
            pipeline=self.pipeline, captured=self._captured, first=self._first,
            artifact=self._artifact,
        )  # fmt: skip
        made._executors = self._executors
        return made

    @property
    def required_imports(self) -> list[str]:
        """Host functions and classes that must be importable, as 'module:qualname'.

        Of an artifact with several programs, those that this one may come to.
        """
        return self.imports(self.name)

    def imports(self, program: str | None = None) -> list[str]:
        """Return what one program needs, or all of them, as 'module:qualname'."""
        names = [n for n in self.plan.callees(program) if not n.startswith("builtins:")]
        return list(dict.fromkeys([*names, *self.plan.classes(program)]))

    def _host(self) -> dict[str, Any]:
        return self._captured.host if self._captured is not None else {}

    def check_imports(self) -> None:
        """Import what the program needs, and check that it still takes the calls' arguments.

        Raises:
            RunError: a function or class cannot be imported, or takes other parameters than
                when the program was compiled; tells what was expected, and what to do.
        """
        from lmc.runtime.executor.host import HostFunctions

        classes = self.plan.classes(self.name)
        for name in classes:
            find_class(name)
        host = HostFunctions(self._host())
        expected = self._artifact.hosts if self._artifact is not None else {}
        problems: list[str] = []
        hint: str | None = None
        for callee in self.required_imports:
            try:
                found = None if callee in classes else host.find(callee)
            except RunError as error:
                known = expected.get(callee)
                wanted = (
                    f" (expected {callee.partition(':')[2]}{params_text(known)})" if known else ""
                )
                problems.append(f"{error.message}{wanted}")
                hint = hint or error.hint
                continue
            for step, text in misfits(self.plan, self.name, callee, found, expected.get(callee)):
                place = self.plan.location(step)
                module, _, name = callee.partition(":")
                problems.append(
                    f"the program calls {name} of module '{module}'"
                    f"{f' at {place}' if place is not None else ''}, which takes other parameters "
                    f"than when it was compiled: {text}"
                )
                hint = hint or f"use the {module} that it was compiled with, or compile it again"
        if problems:
            raise RunError("\n".join(problems), hint=hint)

    def is_current(self) -> bool:
        """Whether the globals that capture read still have the values that it read."""
        return self._captured is None or self._captured.is_current()

    def __call__(self, /, *args: Any, **keywords: Any) -> R:
        """Run the program and return what it returned."""
        return self._run(args, keywords).value  # type: ignore[no-any-return]

    def save(self, path: str | Path, *, kv_backend: "Backend | None" = None) -> None:
        """Write the artifact; the same program gives the same bytes.

        Args:
            path: the file to write.
            kv_backend: an engine that computes the KV of the constant prefixes, which the
                artifact then carries. It fits this model, kernels and machine only.

        Raises:
            UsageError: this program was loaded from an artifact already.
            UsageError: `kv_backend` keeps no KV.
            CompileError: it calls a function that no other process can import.
            ArtifactError: the file cannot be written.
        """
        from lmc.prefix_kv import compute_prefixes
        from lmc.runtime.executor.host import HostFunctions

        if self.target is None or self._captured is None:
            raise UsageError(f"'{self.name}' was loaded from an artifact", hint="copy the file")
        self._refuse_local_functions()
        refuse_constant_files(self.module)
        find = HostFunctions(self._host()).find
        kv = b"" if kv_backend is None else compute_prefixes(self.plan, kv_backend)
        save_artifact(
            path, captured=self.captured_module, module=self.module, plan=self.plan,
            target=self.target, entry=self.name, pass_log=self.pass_log,
            hosts=host_params(self.plan, find), lmc_version=__version__, pipeline=self.pipeline,
            kv=kv,
        )  # fmt: skip

    def _refuse_local_functions(self) -> None:
        for function in self.module.functions.values():
            for op in function.body.walk():
                callee = str(op.attributes.get("callee", ""))
                if op.name in ("host.call", "host.pure") and "<locals>" in callee:
                    raise CompileError(
                        f"'{callee.rpartition('.')[2]}' is defined inside a function, where no "
                        "other process finds it",
                        hint="define it at the top of a module, under its own name",
                        location=op.location,
                    )

    def plan_batch(
        self, batch: "Iterable[BatchItem]", *, target: "Target | None" = None, **defaults: Any
    ) -> "BatchPlan":
        """Return what the runs of a batch ask before any generation, and what they share.

        No weights are loaded and no host function is called.

        Args:
            batch: arguments as `run_batch` takes them.
            target: what to plan for; by default what the program was compiled for.
            defaults: decode parameters of the batch.

        Raises:
            UsageError: arguments or parameters do not fit.
        """
        from lmc.runtime.executor.batch_plan import plan_batch

        chosen, plan = target or self.target, self.plan
        if chosen is None:
            raise UsageError(
                f"'{self.name}' was loaded from an artifact, which holds no tokenizer",
                hint="give target=lmc.open_backend(...).target",
            )
        if plan.target_fingerprint != chosen.fingerprint:
            plan = lower(self.module, chosen)
        bound: list[dict[str, Any]] = []
        for number, item in enumerate(batch):
            found = self._bind_item(number, item)
            if isinstance(found, LmcError):
                raise found
            bound.append(found)
        return plan_batch(plan, self.name, chosen, bound, defaults)

    def _runner(self, options: dict[str, Any]) -> "Runner":
        from lmc.backends import resolve_backend

        return self.runner_on(resolve_backend(options.pop("backend", None)))

    def runner_on(self, backend: "Backend") -> "Runner":
        """Return what runs the program on a backend, lowered again for another tokenizer."""
        if not self._is_checked:
            self.check_imports()
            self._is_checked = True
        known = self._executors.get(id(backend))
        if known is None:
            self._load_prefixes(backend)
            known = self._executors[id(backend)] = (backend, self.executor_on(backend))
        return known[1].program(self.name, self._pool_check(backend))

    def _pool_check(self, backend: "Backend") -> "PoolCheck":
        """Return what looks before a run whether it fits the backend's KV memory."""
        from lmc.pool_check import PoolCheck

        known = self._pool_checks.get(id(backend))
        if known is None or known.backend is not backend:
            known = self._pool_checks[id(backend)] = PoolCheck(self, backend)
        return known

    def executor_on(self, backend: "Backend", switches: "Switches | None" = None) -> "Executor":
        """Return a new executor of the plan on a backend; `switches` leave things out."""
        from lmc.runtime.executor import Executor, Switches

        plan = self.plan
        if plan.target_fingerprint and plan.target_fingerprint != backend.target.fingerprint:
            plan = lower(self.module, backend.target)
        return Executor(backend, plan, self._host(), switches or Switches())

    def _load_prefixes(self, backend: "Backend") -> None:
        """Have the KV that the artifact carries put into the backend's cache."""
        from lmc.prefix_kv import load_prefixes

        if self._artifact is None or not self._artifact.kv:
            return
        reason = self.kv_refusal(backend)
        if reason is None:
            load_prefixes(self._artifact.kv, backend)
        else:
            warnings.warn(reason, PrefixKvWarning, stacklevel=user_level())

    def kv_refusal(self, backend: "Backend") -> str | None:
        """Return why a backend cannot use the artifact's prefix KV; None where nothing is wrong."""
        from lmc.prefix_kv import why_not_loaded

        if self._artifact is None or not self._artifact.kv:
            return None
        return why_not_loaded(self._artifact.kv, backend)

    def remark_lines(self) -> list[str]:
        """Return what each pass did, or why not."""
        lines: list[str] = []
        for item in self.pass_log:
            record = item.as_data() if hasattr(item, "as_data") else item
            lines.append(f"{record['name']} (level {record['level']})")
            for remark in record["remarks"]:
                mark = "did" if remark["fired"] else "did not"
                place = f" at {remark['at']}" if remark["at"] else ""
                lines.append(f"  {mark}: {remark['message']}{place}")
        return lines

    def profile_lines(self) -> list[str]:
        """Return what the pass log says of the profile that was used; nothing without one."""
        records = [item.as_data() if hasattr(item, "as_data") else item for item in self.pass_log]
        if not records or records[0]["name"] != "profile":
            return []
        record = records[0]
        fired = sum(remark["fired"] for remark in record["remarks"])
        unknown = [remark["message"] for remark in record["remarks"] if not remark["fired"]]
        program, runs = record["options"]["program"], record["options"]["runs"]
        used = f"{counted(fired, 'place')} {'was' if fired == 1 else 'were'}"
        if not fired and program not in self.programs:
            return [f"note: the profile is of '{program}', and has no place of this program"]
        return [
            f"profile of {counted(runs, 'run')}: {used} used",
            *(f"note: {message}, so what the profile says of it is ignored" for message in unknown),
        ]


def load(path: str | Path, name: str | None = None) -> CompiledProgram:
    """Load an artifact; `name` chooses one of several programs.

    Raises:
        UsageError: no such file, or no such program in it.
        ArtifactError: the file is damaged, foreign, or was made by a newer lmc.
    """
    if not Path(path).is_file():
        raise UsageError(f"there is no file {path}", hint="make one with lmc compile")
    artifact = load_artifact(path)
    entries = [program["name"] for program in artifact.manifest["programs"]]
    chosen = name or artifact.manifest["entry"]
    if chosen not in entries:
        raise UsageError(f"{path} has no program '{name}'", hint=f"it has: {', '.join(entries)}")
    return CompiledProgram(
        artifact.plan, chosen, pass_log=artifact.pass_log, pipeline=artifact.pipeline,
        artifact=artifact,
    )  # fmt: skip


def load_programs(path: Path, names: Sequence[str]) -> dict[str, CompiledProgram]:
    """Load the artifact beside a module of `--emit py`, which needs programs of these names.

    Raises:
        UsageError: no such file, or one without these programs.
        ArtifactError: as `load`.
    """
    programs = load(path).programs
    missing = [name for name in names if name not in programs]
    if missing:
        raise UsageError(
            f"{path} has no program '{missing[0]}': it was compiled without its module",
            hint="make both again: lmc compile --emit py",
        )
    return programs
