"""The `liveness` pass: note at each call whether a later one continues its prompt."""

from dataclasses import dataclass
from typing import ClassVar

from lmc.ir.core import Attr, Module, Op
from lmc.passes.base import Level, Pass, Remarks
from lmc.passes.chains import chains
from lmc.passes.continuation import MODEL_CALLS, Continuations


@dataclass(frozen=True, slots=True, kw_only=True)
class LivenessPass(Pass):
    """Give each `lm.gen` and `lm.select` the attribute `liveness`.

    Exact (level E): the attribute is a hint for the engine's memory and means nothing.
    `result` tells whether a later call continues the prompt that the call leaves ("none",
    "more"), `context` whether another call, not before this one, continues the prompt that it
    starts from ("last" for no other, "more"); "unknown" stands where the prompt goes into a
    container, a variable or host code. A finding holds for all runs: "more" means that there
    may be such a call. With a profile, `remaining` is the number of tokens that are expected
    from the call on, along the longest chain of calls that need it. Runs last, since passes
    that move calls make it stale.
    """

    name: ClassVar[str] = "liveness"
    level: ClassVar[Level] = "E"

    def rewrite(self, module: Module, remarks: Remarks) -> bool:
        """Annotate every call."""
        found, changed = Continuations.of(module), False
        for function in module.functions.values():
            remaining = chains(function)
            for op in function.body.walk():
                if op.name in MODEL_CALLS:
                    changed |= _annotate(op, found, remaining[op], remarks)
        return changed


def _annotate(op: Op, found: Continuations, remaining: int, remarks: Remarks) -> bool:
    context, result = found.context(op), found.result(op)
    if result == "none":
        also = ", nor what it starts from" if context == "last" else ""
        remarks.fired(f"no later call continues what {op.name} leaves{also}", op)
    elif result == "unknown":
        remarks.missed(f"where the prompt of {op.name} goes cannot be seen", op)
    made: dict[str, Attr] = {"context": context, "result": result}
    if remaining:
        made["remaining"] = remaining
    changed = op.attributes.get("liveness") != made
    op.attributes["liveness"] = made
    return changed
