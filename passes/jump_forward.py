"""jump-forward: note what the constraint of a generation forces."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from lmc.errors import ConstraintError, UsageError
from lmc.ir.calls import Constraint
from lmc.ir.core import Module, Op
from lmc.ir.decode_params import check_params, check_together, constraint_from
from lmc.ir.expressions import CONSTRAINTS
from lmc.ir.skeleton import shown_skeleton
from lmc.ir.types import Attr
from lmc.passes.base import Level, Pass, Remarks


@dataclass(frozen=True, slots=True, kw_only=True)
class JumpForwardPass(Pass):
    """Note on constrained generations what their text must be.

    Exact (level E): a `lm.gen` whose constraint is known gets `skeleton`, the forced texts,
    alternatives and free lengths (see `lmc.ir.skeleton`). It means nothing, and nothing that
    runs looks at it: the engine has the automaton. Not noted where the constraint is known at
    run time only, is refused, or has more than `max_states` states.
    """

    name: ClassVar[str] = "jump-forward"
    level: ClassVar[Level] = "E"

    max_states: int = 2000

    def rewrite(self, module: Module, remarks: Remarks) -> bool:
        """Note skeletons in every function."""
        changed = False
        for op in module.walk():
            if op.name == "lm.gen":
                changed |= self._note(op, remarks)
        return changed

    def _note(self, op: Op, remarks: Remarks) -> bool:
        params, dynamic = op.attributes["params"], op.attributes["dynamic"]
        assert isinstance(dynamic, list)
        if any(name in dynamic for name in CONSTRAINTS):
            remarks.missed("the constraint is known only when the program runs", op)
            return False
        try:
            given = check_params(_limits(params))
            check_together(given)
            given = check_params(_limits(op.attributes.get("defaults", {}))) | given
        except UsageError as error:
            remarks.missed(f"the call will fail: {error.message}", op)
            return False
        limit = constraint_from(given)
        if limit is None:
            return False
        found = _skeleton(limit, self.max_states)
        if isinstance(found, str):
            remarks.missed(found, op)
            return op.attributes.pop("skeleton", None) is not None
        if op.attributes.get("skeleton") == list(found):
            return False
        op.attributes["skeleton"] = _fresh(found)
        remarks.fired(f"the text is {shown_skeleton(found)}", op)
        return True


def _limits(params: Attr) -> dict[str, Attr]:
    assert isinstance(params, dict)
    return {key: params[key] for key in CONSTRAINTS if key in params}


def _fresh(skeleton: tuple[Attr, ...]) -> list[Attr]:
    return [list(part) if isinstance(part, list) else part for part in skeleton]


@lru_cache(maxsize=256)
def _skeleton(limit: Constraint, max_states: int) -> tuple[Attr, ...] | str:
    """Return the skeleton of a constraint, or why there is none."""
    # These import numpy, which reading a pipeline does without.
    from lmc.ir.automata import ByteDfa
    from lmc.ir.automata.skeleton import skeleton_of
    from lmc.ir.grammar import network_skeleton
    from lmc.ir.languages import language_of

    try:
        language = language_of(limit)
    except ConstraintError as error:
        if "too complex" in error.message:
            return f"the automaton is over max_states={max_states}"
        return f"the constraint is refused: {error.message}"
    if isinstance(language, ByteDfa):
        found = skeleton_of(language, max_states=max_states)
    else:
        found = network_skeleton(language, max_states=max_states)
    return f"the automaton is over max_states={max_states}" if found is None else tuple(found)
