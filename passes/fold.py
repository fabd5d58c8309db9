"""The `fold` pass: compute at compile time what does not depend on arguments or the model."""

from dataclasses import dataclass
from typing import ClassVar

from lmc.ir.core import Module
from lmc.passes import fold_control, fold_states, fold_values
from lmc.passes.base import Level, Pass, Remarks
from lmc.passes.purity import CALLEES
from lmc.passes.rewriting import rewrite_function

RULES = {**fold_values.RULES, **fold_states.RULES, **fold_control.RULES}


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldPass(Pass):
    """Propagate constants through values, states and control flow.

    Exact (level E): calls, contexts, keys, errors and effects stay as they are. Expressions
    are computed by `ir.evaluate`; one that raises stays in place and raises at run time. A
    branch on a constant becomes its arm, a loop over nothing goes, carried values that never
    change become the values they start from. Adjacent constant appends become one: a text run
    is encoded as one string, however it was appended. A read of a variable becomes the value
    that was set, where the states before show it.

    Options: `max_text` bounds the size in characters of a constant that the pass may make.
    """

    name: ClassVar[str] = "fold"
    level: ClassVar[Level] = "E"

    max_text: int = 65536

    def rewrite(self, module: Module, remarks: Remarks) -> bool:
        """Fold every function."""
        called = {op.attributes["callee"] for op in module.walk() if op.name in CALLEES}
        changes = [
            rewrite_function(
                function, remarks, RULES, max_text=self.max_text, is_called=name in called
            )
            for name, function in module.functions.items()
        ]
        return any(changes)
