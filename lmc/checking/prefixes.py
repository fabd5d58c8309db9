"""Prefixes that are computed ahead: they must be ones that no continuation can change.

What a run shows does not depend on them: a call whose context does not begin with a prefix
just finds nothing computed. So they are looked at apart.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from lmc.checking.outcome import Mismatch
from lmc.codegen.plan import Plan
from lmc.ir.core import Op
from lmc.ir.interpreter_states import root_state
from lmc.ir.target import Target

TokenIds = tuple[int, ...]


def wrong_prologue(plan: Plan, target: Target) -> Mismatch | None:
    """Return a prologue of a plan whose token ids are not its stable ones, if there is one."""
    for pieces, given in _prologues(plan):
        stable = _stable(pieces, target)
        if given != stable:
            return Mismatch("prologue", str(stable), str(given))
    return None


def wrong_prefill(
    prefills: Iterable[TokenIds], groups: Collection[TokenIds], plan: Plan
) -> Mismatch | None:
    """Return a prefix that was computed and is none of the plan's, if there is one.

    `groups` are the stable ids of the parents of groups, as the interpreter met them.
    """
    allowed = {*groups, *(ids for _, ids in _prologues(plan))}
    for prefix in prefills:
        if prefix not in allowed:
            return Mismatch("prefix", "\n".join(map(str, sorted(groups))) or "none", str(prefix))
    return None


def _prologues(plan: Plan) -> Iterator[tuple[Any, Any]]:
    """Yield the pieces and the token ids of every prologue."""
    for function in plan.functions.values():
        for step in function.body.walk():
            if step.op == "lm.prologue":
                yield step.attributes["pieces"], step.attributes.get("token_ids", ())


def _stable(pieces: Any, target: Target) -> TokenIds:
    """Return the ids of constant pieces that no continuation can change."""
    tokenizer = target.tokenizer
    prompt = root_state(target, Op("lm.prologue", attributes={"pieces": pieces}), ())
    stable = prompt.options(tokenizer, [""])[0]
    return () if stable in ((tokenizer.empty_context_id,), tokenizer.start_ids) else stable
