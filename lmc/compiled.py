"""CompiledProgram: what compiling gives; runs, saves to an artifact, loads from one."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmc import __version__
from lmc.codegen.artifact import load_artifact, save_artifact
from lmc.codegen.lower import lower
from lmc.codegen.media import refuse_constant_files
from lmc.codegen.plan import Plan
from lmc.codegen.signature import signature_of
from lmc.errors import CompileError, UsageError
from lmc.ir.core import Module
from lmc.ir.value_types import find_class
from lmc.running import Runnable

if TYPE_CHECKING:
    from lmc.codegen.artifact import Artifact
    from lmc.frontend.capture import Captured
    from lmc.ir.target import Backend, Target
    from lmc.runtime.executor import Executor, Switches
    from lmc.runtime.executor.runner import Runner


class CompiledProgram(Runnable):
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
        captured: "Captured | None" = None,
        artifact: "Artifact | None" = None,
    ) -> None:
        self.plan = plan
        self.name = entry
        self.target = target
        self.pass_log = list(pass_log)
        self._module = module
        self._captured = captured
        self._artifact = artifact
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
    def model_name(self) -> str:
        """The name of the model that the program was compiled for."""
        if self.target is not None:
            return self.target.name
        return str(self._artifact.target["name"]) if self._artifact is not None else ""

    @property
    def required_imports(self) -> list[str]:
        """Host functions and classes that must be importable, as 'module:qualname'."""
        callees = [name for name in self.plan.callees() if not name.startswith("builtins:")]
        return list(dict.fromkeys([*callees, *self.plan.classes()]))

    def check_imports(self) -> None:
        """Import the host functions that the program calls, and the classes that it makes.

        Raises:
            RunError: one cannot be imported; says which and from where.
        """
        from lmc.runtime.executor.host import HostFunctions

        host = HostFunctions(self._captured.host if self._captured is not None else {})
        classes = self.plan.classes()
        for name in classes:
            find_class(name)
        for callee in self.required_imports:
            if callee not in classes:
                host.find(callee)

    def is_current(self) -> bool:
        """Whether the globals that capture read still have the values that it read."""
        return self._captured is None or self._captured.is_current()

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Run the program and return what it returned."""
        return self._run(args, keywords).value

    def save(self, path: str | Path) -> None:
        """Write the artifact; the same program gives the same bytes.

        Raises:
            UsageError: this program was loaded from an artifact already.
            CompileError: it calls a function that no other process can import.
            ArtifactError: the file cannot be written.
        """
        if self.target is None:
            raise UsageError(f"'{self.name}' was loaded from an artifact", hint="copy the file")
        self._refuse_local_functions()
        refuse_constant_files(self.module)
        save_artifact(
            path, module=self.module, plan=self.plan, target=self.target, entry=self.name,
            pass_log=self.pass_log, lmc_version=__version__,
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

    def _runner(self, options: dict[str, Any]) -> "Runner":
        from lmc.backends import resolve_backend

        return self.runner_on(resolve_backend(options.pop("backend", None)))

    def runner_on(self, backend: "Backend") -> "Runner":
        """Return what runs the program on a backend, lowered again for another tokenizer."""
        known = self._executors.get(id(backend))
        if known is None:
            known = self._executors[id(backend)] = (backend, self.executor_on(backend))
        return known[1].program(self.name)

    def executor_on(self, backend: "Backend", switches: "Switches | None" = None) -> "Executor":
        """Return a new executor of the plan on a backend; `switches` leave things out."""
        from lmc.runtime.executor import Executor, Switches

        plan = self.plan
        if plan.target_fingerprint and plan.target_fingerprint != backend.target.fingerprint:
            plan = lower(self.module, backend.target)
        host = self._captured.host if self._captured is not None else {}
        return Executor(backend, plan, host, switches or Switches())

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
        runs = record["options"]["runs"]
        return [
            f"profile of {runs} runs: {fired} places were used",
            *(f"note: {message}, so what the profile says of it is ignored" for message in unknown),
        ]

    def describe_lines(self, path: Path) -> list[str]:
        """Return what `lmc compile` tells about the artifact that it wrote."""
        size = path.stat().st_size
        ops = sum(1 for _ in self.module.walk())
        what = f"{self.name}{self.__signature__} for {self.model_name}"
        lines = [f"wrote {path}: {what}, {ops} ops, {size:,} bytes"]
        needed = [name for name in self.required_imports if _package(name) != "lmc"]
        where = "from any folder"
        if needed:
            lines.append(f"needs when it runs, importable: {', '.join(needed)}")
            standard = sys.stdlib_module_names
            modules = {n.split(":")[0]: None for n in needed if _package(n) not in standard}
            if modules:
                where = f"where {', '.join(modules)} can be imported: beside it, or installed"
        lines.append(f"next: `lmc run {shlex.quote(str(path))}` runs it, {where}")
        return lines


def _package(name: str) -> str:
    """Return the package of 'module:qualname'."""
    return name.split(":")[0].split(".")[0]


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
    return CompiledProgram(artifact.plan, chosen, pass_log=artifact.pass_log, artifact=artifact)
