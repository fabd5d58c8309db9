"""What a pass is: a named rewrite of a module, with options, a level and remarks.

A pass is a frozen dataclass: its fields are its options, its docstring is its contract, and
`name` is what the command line calls it. `unroll{max_trips=8}` makes
`UnrollPass(max_trips=8)`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

from lmc.ir.core import Module, Op, clone_module
from lmc.ir.location import Location

Level = Literal["E", "D", "C"]
"""What a pass keeps: E every observable, D the distribution, C the author's freedom only."""


@dataclass(frozen=True, slots=True)
class Remark:
    """What a pass did at a place (`fired`), or why it did not."""

    pass_name: str
    message: str
    location: Location | None
    fired: bool

    def __str__(self) -> str:
        place = f"{self.location}: " if self.location is not None else ""
        return f"{place}{self.pass_name}: {'' if self.fired else 'not done: '}{self.message}"


@dataclass(slots=True)
class Remarks:
    """Collects the remarks of one run of a pass, each said once per place."""

    pass_name: str
    made: dict[Remark, None] = field(default_factory=dict)

    def fired(self, message: str, op: Op) -> None:
        """Say what was done at an op."""
        self.made.setdefault(Remark(self.pass_name, message, op.location, True))

    def missed(self, message: str, op: Op | None = None) -> None:
        """Say why nothing was done, at an op if there is one."""
        location = op.location if op is not None else None
        self.made.setdefault(Remark(self.pass_name, message, location, False))


@dataclass(frozen=True, slots=True)
class PassResult:
    """A rewritten module; the given one itself where nothing changed.

    `level` is what was kept, where that is more than the pass promises.
    """

    module: Module
    changed: bool
    remarks: tuple[Remark, ...] = ()
    level: Level | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass(ABC):
    """A rewrite from module to module that never changes the module it is given."""

    name: ClassVar[str]
    level: ClassVar[Level]

    def run(self, module: Module) -> PassResult:
        """Rewrite a copy of `module`."""
        copy = clone_module(module)
        remarks = Remarks(self.name)
        changed = self.rewrite(copy, remarks)
        return PassResult(copy if changed else module, changed, tuple(remarks.made))

    @abstractmethod
    def rewrite(self, module: Module, remarks: Remarks) -> bool:
        """Rewrite `module` in place; return whether anything changed."""

    def options(self) -> dict[str, Any]:
        """Return the options by name, in the order of the fields."""
        return {option.name: getattr(self, option.name) for option in fields(self)}

    def __str__(self) -> str:
        defaults = {option.name: option.default for option in fields(self)}
        given = [
            f"{name}={format_option(value)}"
            for name, value in self.options().items()
            if value != defaults[name]
        ]
        return self.name + (f"{{{','.join(given)}}}" if given else "")


def counted(count: int, noun: str) -> str:
    """Return '1 trip', '2 trips' for remarks."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def format_option(value: bool | int | float | str) -> str:
    """Return an option's value as pipeline text has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
