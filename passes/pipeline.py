"""The pass manager: a list of passes from text, run in order, verified, timed and logged.

Pipeline text names passes with their options and reads both ways:

    fold,unroll{max_trips=8,max_ops=500},dce
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any, get_type_hints

from lmc.errors import PassError, UsageError, VerifyError
from lmc.ir.core import Module
from lmc.ir.verifier import verify
from lmc.passes.base import Pass, Remark

REGISTRY: dict[str, tuple[str, str]] = {
    "inline": ("lmc.passes.inline", "InlinePass"),
    "fold": ("lmc.passes.fold", "FoldPass"),
    "unroll": ("lmc.passes.unroll", "UnrollPass"),
    "dce": ("lmc.passes.dce", "DcePass"),
    "reorder": ("lmc.passes.reorder", "ReorderPass"),
    "cse": ("lmc.passes.cse", "CsePass"),
    "hoist-prefix": ("lmc.passes.hoist_prefix", "HoistPrefixPass"),
    "batch-forks": ("lmc.passes.batch_forks", "BatchForksPass"),
    "jump-forward": ("lmc.passes.jump_forward", "JumpForwardPass"),
    "speculate": ("lmc.passes.speculate", "SpeculatePass"),
    "liveness": ("lmc.passes.liveness", "LivenessPass"),
}
"""Module and class of every pass by its name; a pass is imported when it is asked for."""

DEFAULT_PIPELINE = (
    "fold,unroll,fold,inline,fold,unroll,fold,dce,reorder,cse,fold,hoist-prefix,fold,batch-forks,"
    "jump-forward,speculate,liveness,dce"
)
"""What `lmc compile` runs: exact passes, and `reorder` where the author has marked that."""

_ITEM = re.compile(r"\s*([A-Za-z][\w-]*)\s*(?:\{([^{}]*)\})?\s*(?:,|$)")

PrintAfter = Callable[[str, Module], None]
"""Called with a pass's name and the module that it left."""


def pass_names() -> list[str]:
    """Return the names of all passes."""
    return list(REGISTRY)


def load_pass(name: str) -> type[Pass]:
    """Return the class of a pass; raises UsageError that lists the passes there are."""
    if name not in REGISTRY:
        raise UsageError(f"there is no pass {name!r}", hint=f"passes: {', '.join(REGISTRY)}")
    module, class_name = REGISTRY[name]
    return getattr(import_module(module), class_name)  # type: ignore[no-any-return]


def parse_pipeline(text: str) -> tuple[Pass, ...]:
    """Read pipeline text; "" is the empty pipeline.

    Raises:
        UsageError: unknown pass or option, a value of the wrong type, or text that does not
            read as a pipeline.
    """
    return tuple(_parse_items(text)) if text.strip() else ()


def _parse_items(text: str) -> Iterator[Pass]:
    position = 0
    while position < len(text):
        match = _ITEM.match(text, position)
        if match is None:
            raise UsageError(
                f"cannot read the pipeline at {text[position : position + 20]!r}",
                hint="write passes like fold,unroll{max_trips=8},dce",
            )
        yield make_pass(match[1], match[2] or "")
        position = match.end()


def make_pass(name: str, option_text: str = "") -> Pass:
    """Make one pass from its name and `key=value` options parted by commas or blanks."""
    kind = load_pass(name)
    types = {option.name: get_type_hints(kind)[option.name] for option in fields(kind)}
    options: dict[str, Any] = {}
    for part in re.split(r"[,\s]+", option_text.strip()):
        if not part:
            continue
        key, equals, value = part.partition("=")
        if not equals or key not in types:
            known = ", ".join(f"{k} ({v.__name__})" for k, v in types.items()) or "none"
            raise UsageError(f"pass {name!r} has no option {part!r}", hint=f"options: {known}")
        options[key] = _read_option(name, key, value, types[key])
    return kind(**options)


def _read_option(name: str, key: str, value: str, kind: type) -> Any:
    try:
        if kind is bool:
            return {"true": True, "false": False}[value.lower()]
        return kind(value)
    except (KeyError, ValueError):
        raise UsageError(
            f"option {key!r} of pass {name!r} must be {kind.__name__}, not {value!r}",
            hint="write true or false" if kind is bool else f"write {key}=<{kind.__name__}>",
        ) from None


@dataclass(frozen=True, slots=True)
class PassRecord:
    """One line of the pass log."""

    name: str
    level: str
    options: dict[str, Any]
    changed: bool
    remarks: tuple[Remark, ...]
    seconds: float

    def as_data(self) -> dict[str, Any]:
        """Return plain data for the artifact; without times, so that it is reproducible."""
        return {
            "name": self.name,
            "level": self.level,
            "options": dict(self.options),
            "changed": self.changed,
            "remarks": [
                {"message": r.message, "at": str(r.location or ""), "fired": r.fired}
                for r in self.remarks
            ],
        }


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """The module after all passes, and the pass log.

    `exact` lists pairs of modules that mean the same: a new pair begins where a pass changed
    the module and kept less than level E. Its last one ends with the module.
    """

    module: Module
    log: tuple[PassRecord, ...]
    exact: tuple[tuple[Module, Module], ...]

    @property
    def reference(self) -> Module:
        """What the module means the same as: the given one, if every pass was exact."""
        return self.exact[-1][0]

    @property
    def level(self) -> str:
        """The weakest level among the passes that changed something: E, D or C."""
        return max((r.level for r in self.log if r.changed), key="EDC".index, default="E")


@dataclass(frozen=True, slots=True, kw_only=True)
class PassManager:
    """Runs passes in order; `verify` checks the module before the first and after each."""

    passes: tuple[Pass, ...]
    verify: bool = True

    @classmethod
    def parse(cls, text: str = DEFAULT_PIPELINE, *, verify: bool = True) -> "PassManager":
        """Make a manager from pipeline text; raises UsageError like `parse_pipeline`."""
        return cls(passes=parse_pipeline(text), verify=verify)

    def __str__(self) -> str:
        return ",".join(map(str, self.passes))

    def run(
        self,
        module: Module,
        *,
        print_after: PrintAfter | None = None,
        names: str | Sequence[str] = "all",
        is_verified: bool = False,
    ) -> PipelineResult:
        """Run all passes on `module`, which stays as it is.

        Args:
            module: the module to rewrite.
            print_after: called with (pass name, module) after passes.
            names: after which passes, as a list or parted by commas; "all" is every one.
            is_verified: the given module has been verified, and nothing has changed it since.

        Raises:
            VerifyError: the given module is broken already.
            PassError: a pass raised or left a module that does not verify; it names the pass
                and those that ran before.
            UsageError: `names` names no pass.
        """
        shown = _shown_names(names)
        if self.verify and not is_verified:
            verify(module)
        log: list[PassRecord] = []
        exact: list[tuple[Module, Module]] = []
        reference = module
        for step in self.passes:
            before = module
            module, record = self._run_one(step, module, log)
            log.append(record)
            if record.changed and record.level != "E":
                exact.append((reference, before))
                reference = module
            if print_after is not None and (shown is None or step.name in shown):
                print_after(step.name, module)
        return PipelineResult(module, tuple(log), (*exact, (reference, module)))

    def _run_one(
        self, step: Pass, module: Module, log: Sequence[PassRecord]
    ) -> tuple[Module, PassRecord]:
        before = ", ".join(record.name for record in log)
        place = f"after {before}" if before else "the first pass"
        started = time.perf_counter()
        try:
            result = step.run(module)
            if self.verify and result.changed:
                verify(result.module)
        except VerifyError as error:
            raise PassError(
                f"pass {step} ({place}) left IR that does not verify: {error.message}",
                hint=error.hint,
                location=error.location,
            ) from error
        except Exception as error:
            # A pass of ours that raises is named, so that the user can go on without it.
            raise PassError(
                f"pass {step} ({place}) failed: {type(error).__name__}: {error}",
                hint=f"compile without {step.name!r} by giving the pipeline in --passes",
            ) from error
        seconds = time.perf_counter() - started
        return result.module, PassRecord(
            step.name,
            result.level or step.level,
            step.options(),
            result.changed,
            result.remarks,
            seconds,
        )


def _shown_names(names: str | Sequence[str]) -> frozenset[str] | None:
    """Return the passes to show after; None stands for all."""
    listed = names.split(",") if isinstance(names, str) else list(names)
    found = frozenset(name.strip() for name in listed if name.strip())
    if "all" in found:
        return None
    for name in found:
        load_pass(name)
    return found
