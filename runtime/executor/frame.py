"""Frames: what an activation of a block holds."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lmc.runtime.executor.run import Run
from lmc.runtime.executor.slots import Order, Slot
from lmc.runtime.origins import Origin
from lmc.runtime.prompt_state import Lineage

if TYPE_CHECKING:
    from lmc.runtime.executor.guard import Guard


@dataclass(frozen=True, slots=True)
class Scope:
    """What a running program hands to its steps: lineage, sampling defaults, depth of calls.

    `guard` is the nearest running `cf.try`, of the callers as well; `is_tried` says of a step
    of eager mode that it stands in a `try`.
    """

    lineage: Lineage
    defaults: dict[str, Any]
    depth: int = 0
    guard: "Guard | None" = None
    is_tried: bool = False


class Frame:
    """An activation of a block: its registers, and its place in program order.

    `control` is what decided that the block runs: the conditions around it.
    """

    __slots__ = ("control", "path", "registers", "run", "scope")

    def __init__(
        self,
        run: Run,
        registers: list[Slot],
        path: Order,
        scope: Scope,
        control: Origin | None = None,
    ) -> None:
        self.run = run
        self.registers = registers
        self.path = path
        self.scope = scope
        self.control = control
