"""CompiledProgram: what compiling gives; runs, saves to an artifact, loads from one."""

import secrets
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmc import __version__
from lmc.codegen.artifact import load_artifact, save_artifact
from lmc.codegen.lower import lower
from lmc.codegen.plan import Plan
from lmc.codegen.signature import signature_of
from lmc.errors import UsageError
from lmc.ir.core import Module
from lmc.ir.value_types import find_class

if TYPE_CHECKING:
    from lmc.codegen.artifact import Artifact
    from lmc.frontend.capture import Captured
    from lmc.ir.target import Backend, Target
    from lmc.runtime.executor import Executor
    from lmc.runtime.result import RunResult


class CompiledProgram:
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
        return [*callees, *self.plan.classes()]

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
        return self.run(*args, **keywords).value

    def run(self, *args: Any, **keywords: Any) -> "RunResult":
        """Run the program; options as in Program.run.

        Raises:
            RunError: the program failed; tells the line and the prompt's tail.
            UsageError: the arguments do not fit the program.
        """
        from lmc.program import DEFAULTS, bind_arguments

        own = self.__signature__.parameters
        options = {
            name: keywords.pop(name)
            for name in ("backend", "seed", "on_event")
            if name in keywords and name not in own
        }
        defaults = {
            name: keywords.pop(name) for name in DEFAULTS if name in keywords and name not in own
        }
        bound = bind_arguments(self.name, self.__signature__, args, keywords)
        return self.run_bound(bound, defaults=defaults, **options)

    def run_bound(
        self,
        bound: Mapping[str, Any],
        *,
        backend: Any = None,
        seed: int | None = None,
        instance: int = 0,
        defaults: Mapping[str, Any] | None = None,
        on_event: Any = None,
    ) -> "RunResult":
        """Run with a value per parameter; decode parameters in `defaults`."""
        drawn = secrets.randbits(63) if seed is None else seed
        executor = self._executor(backend)
        return executor.run(
            self.name, bound, seed=drawn, instance=instance, defaults=defaults, on_event=on_event
        )

    def run_batch(
        self,
        batch: Iterable[Mapping[str, Any]],
        *,
        backend: Any = None,
        seed: int | None = None,
        defaults: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> "Iterator[RunResult]":
        """Run once per set of arguments, many at a time; yield results in order."""
        from lmc.program import DEFAULTS

        given = dict(defaults or {})
        for name, value in more.items():
            if name not in DEFAULTS:
                raise UsageError(f"'{self.name}' has no run option {name!r}")
            given[name] = value
        drawn = secrets.randbits(63) if seed is None else seed
        executor = self._executor(backend)
        yield from executor.run_many(self.name, batch, seed=drawn, defaults=given)

    def save(self, path: str | Path) -> None:
        """Write the artifact; the same program gives the same bytes.

        Raises:
            UsageError: this program was loaded from an artifact already.
            ArtifactError: the file cannot be written.
        """
        if self.target is None:
            raise UsageError(f"'{self.name}' was loaded from an artifact", hint="copy the file")
        save_artifact(
            path, module=self.module, plan=self.plan, target=self.target, entry=self.name,
            pass_log=self.pass_log, lmc_version=__version__,
        )  # fmt: skip

    def _executor(self, backend: Any) -> "Executor":
        """Return the executor on a backend, lowering again for another tokenizer."""
        from lmc.backends import resolve_backend
        from lmc.runtime.executor import Executor

        opened = resolve_backend(backend)
        known = self._executors.get(id(opened))
        if known is not None:
            return known[1]
        plan = self.plan
        if plan.target_fingerprint and plan.target_fingerprint != opened.target.fingerprint:
            plan = lower(self.module, opened.target)
        host = self._captured.host if self._captured is not None else {}
        executor = Executor(opened, plan, host)
        self._executors[id(opened)] = (opened, executor)
        return executor

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

    def describe_lines(self, path: Path) -> list[str]:
        """Return what `lmc compile` tells about the artifact that it wrote."""
        size = path.stat().st_size
        ops = sum(1 for _ in self.module.walk())
        what = f"{self.name}{self.__signature__} for {self.model_name}"
        lines = [f"wrote {path}: {what}, {ops} ops, {size:,} bytes"]
        needed = self.required_imports
        if needed:
            lines.append(f"needs when it runs, importable: {', '.join(needed)}")
        lines.append(f"next: `lmc run {shlex.quote(str(path))}` runs it, from any folder")
        return lines


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
