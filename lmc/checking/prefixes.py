"""Prefixes that are computed ahead: they must be ones that no continuation can change.

What a run shows does not depend on them: a call whose context does not begin with a prefix
just finds nothing computed. So they are looked at apart.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any

from lmc.checking.outcome import Mismatch
from lmc.codegen.plan import Plan
from lmc.errors import ConstraintError, UsageError
from lmc.ir.calls import Constraint
from lmc.ir.core import Op
from lmc.ir.decode_params import check_params, constraint_from
from lmc.ir.interpreter_prompt import Prompt
from lmc.ir.interpreter_states import root_state
from lmc.ir.languages import steps_of
from lmc.ir.target import Target

TokenIds = tuple[int, ...]


def wrong_prologue(plan: Plan, target: Target) -> Mismatch | None:
    """Return a prologue of a plan with wrong token ids, if there is one.

    Right are the stable ones of its text, and all of them with what a generation must begin with.
    """
    for pieces, given in _prologues(plan):
        prompt = root_state(target, Op("lm.prologue", attributes={"pieces": pieces}), ())
        stable = _stable(prompt, target)
        if given != stable and not _is_begun(given, prompt, plan, target):
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


def _stable(prompt: Prompt, target: Target) -> TokenIds:
    """Return the ids of constant text that no continuation can change."""
    tokenizer = target.tokenizer
    stable = prompt.options(tokenizer, [""])[0]
    return () if stable in ((tokenizer.empty_context_id,), tokenizer.start_ids) else stable


def _is_begun(given: TokenIds, prompt: Prompt, plan: Plan, target: Target) -> bool:
    """Whether ids are those of a prompt and of text that a generation of the plan begins with."""
    context = prompt.context(target.tokenizer)
    if given[: len(context)] != context:
        return False
    token_bytes = target.tokenizer.token_bytes()
    head = b"".join(token_bytes[token_id] or b"" for token_id in given[len(context) :])
    return head != b"" and any(text.startswith(head) for text in _beginnings(plan))


def _beginnings(plan: Plan) -> Iterator[bytes]:
    """Yield what the constraints of a plan's generations force at their start."""
    for function in plan.functions.values():
        for step in function.body.walk():
            if step.op == "lm.gen":
                params: Any = step.attributes["params"]
                defaults: Any = step.attributes.get("defaults", {})
                with suppress(UsageError, ConstraintError):  # told when the call is due
                    limit = constraint_from(check_params(defaults | params))
                    yield b"" if limit is None else _forced_bytes(limit)


@lru_cache(maxsize=256)
def _forced_bytes(limit: Constraint) -> bytes:
    steps = steps_of(limit)
    return steps.forced_bytes(steps.start)
