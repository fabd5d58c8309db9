"""Prefixes that are computed ahead: they must be ones that no continuation can change.

What a run shows does not depend on them: a call whose context does not begin with a prefix
just finds nothing computed. So they are looked at apart.
"""

from collections.abc import Sequence

from lmc.check_outcome import Mismatch
from lmc.codegen.plan import Plan
from lmc.ir.core import Op
from lmc.ir.interpreter_states import root_state
from lmc.ir.target import Target

NEAR = 4
"""Ids at the end of a prefix that what follows may have changed, if they were not held back."""

TokenIds = tuple[int, ...]


def wrong_prologue(plan: Plan, target: Target) -> Mismatch | None:
    """Return a prologue of a plan whose token ids are not its stable ones, if there is one."""
    tokenizer = target.tokenizer
    for function in plan.functions.values():
        for step in function.body.walk():
            if step.op != "lm.prologue":
                continue
            attributes = {"pieces": step.attributes["pieces"]}
            prompt = root_state(target, Op(step.op, attributes=attributes), ())
            stable = prompt.options(tokenizer, [""])[0]
            if stable in ((tokenizer.empty_context_id,), tokenizer.start_ids):
                stable = ()
            given = step.attributes.get("token_ids", ())
            if given != stable:
                return Mismatch("prologue", str(stable), str(given))
    return None


def wrong_prefill(prefills: Sequence[TokenIds], contexts: Sequence[TokenIds]) -> Mismatch | None:
    """Return a prefix that no call begins with, although one nearly does, if there is one."""
    for prefix in prefills:
        if any(context[: len(prefix)] == prefix for context in contexts):
            continue
        for context in contexts:
            if _shared_len(prefix, context) >= max(1, len(prefix) - NEAR):
                return Mismatch("prefix", str(context[: len(prefix)]), str(prefix))
    return None


def _shared_len(left: TokenIds, right: TokenIds) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(left), len(right)))
