"""Rules on what is made for nothing: generations, text, names, forks, arguments."""

from collections.abc import Iterator

from lmc.ir.core import Op, Value
from lmc.ir.expressions import HIDDEN
from lmc.ir.ops import SPECS
from lmc.passes.lint.context import CALLS, Context
from lmc.passes.lint.finding import (
    NAME_REUSED,
    NOT_GATHERED,
    UNREACHABLE_TEXT,
    UNUSED_ARGUMENT,
    UNUSED_FORK,
    UNUSED_GENERATION,
    Finding,
    Focus,
    argument,
    found,
)
from lmc.passes.lint.names import set_name
from lmc.passes.lint.walk import back, next_ops
from lmc.passes.purity import CALLEES


def unused_generations(context: Context) -> Iterator[Finding]:
    """Find generations, and runs of other programs, that nothing observable needs."""
    lost = {op for op, *_ in _lost_in_joins(context)}
    for op in context.calls("lm.gen", "lm.select"):
        if op in context.demand.used or op in lost or _is_inside_unknown(op, context):
            continue
        name, _ = set_name(op)
        is_named = name is not None and not name.startswith(HIDDEN)
        what = f"'{name}' is generated" if is_named else "this is generated"
        yield found(
            UNUSED_GENERATION, op.location,
            f"{what}, but neither its value nor the prompt after it is used",
            "read it, join its branch, or leave it out",
        )  # fmt: skip
    for op in context.calls("func.call"):
        if op in context.demand.used or op in context.demand.executed:
            continue
        callee = str(op.attributes["callee"])
        if _generates(callee, context, set()):
            yield found(
                UNUSED_GENERATION, op.location,
                f"'{callee}' is run, but nothing of its result is used",
                "read its value or its variables, or leave the call out",
            )  # fmt: skip


def _generates(name: str, context: Context, seen: set[str]) -> bool:
    """Whether a program asks the model, itself or through others."""
    function = context.module.functions.get(name)
    if function is None or name in seen:
        return False
    seen.add(name)
    return any(
        op.name in CALLS
        or (op.name in CALLEES and _generates(str(op.attributes["callee"]), context, seen))
        for op in function.body.walk()
    )


def _is_inside_unknown(op: Op, context: Context) -> bool:
    """Whether an op stands in a block of an op that no rule knows."""
    owner = context.facts.owners[context.facts.blocks[op]]
    while owner is not None:
        if owner.name not in SPECS or not owner.name.startswith("cf."):
            return True
        if owner.name not in ("cf.if", "cf.for", "cf.while"):
            return True
        owner = context.facts.owners[context.facts.blocks[owner]]
    return False


def unread_text(context: Context) -> Iterator[Finding]:
    """Find text that is appended to a state which nobody reads afterwards.

    Marks that only close what a used generation opened (line ends, brackets) are left alone,
    and so is text beside a generation that is told as unused.
    """
    told: set[int] = set()
    for op in context.calls("lm.extend"):
        if op in context.demand.told or op.attributes.get("hoisted"):
            continue
        if _is_inside_unknown(op, context) or _leads_to_call(op, context):
            continue
        text = _constant_text(op.operands[1], context)
        is_closing = text is not None and not any(c.isalnum() for c in text)
        after_call = any(piece.name in CALLS for piece in _earlier_pieces(op, context))
        if is_closing and after_call:
            continue
        line = op.location.line if op.location else 0
        if line in told or any(
            piece.name in CALLS and piece not in context.demand.used
            for piece in _earlier_pieces(op, context)
        ):
            continue
        told.add(line)
        yield found(
            UNREACHABLE_TEXT, op.location,
            "this text is appended to a branch that nobody reads, generates from or joins after it",
            "use the branch (its text(), a generation, join), or leave the text out",
            focus=None if not text else Focus("text", text),
        )  # fmt: skip


def _leads_to_call(op: Op, context: Context) -> bool:
    """Whether a model call, used or not, has the text in its prompt."""
    pending: list[Value] = list(op.results)
    seen = set(pending)
    while pending:
        for user in next_ops(pending.pop(), context.facts):
            if user.name in CALLS:
                return True
            fresh = [r for r in user.results if user.name.startswith("lm.") and r not in seen]
            seen.update(fresh)
            pending += fresh
    return False


def _earlier_pieces(op: Op, context: Context) -> tuple[Op, ...]:
    """Return the ops that appended to the branch of a text before it."""
    facts, pieces = context.facts, []

    def step(before: Op, index: int) -> bool | None:
        if before.name in ("lm.prompt", "lm.prologue", "lm.fork"):
            return True
        pieces.append(before)
        return False

    back(op.operands[0], facts, step)
    return tuple(pieces)


def _constant_text(value: Value, context: Context) -> str | None:
    """Return a text all of whose parts are constants."""
    op = context.facts.op_of(value)
    if op is None:
        return None
    if op.name == "val.const":
        return context.facts.constant_text(value)
    if op.name == "val.concat" or (op.name == "val.binary" and op.attributes["op"] == "+"):
        parts = [_constant_text(part, context) for part in op.operands]
        return None if None in parts else "".join(part for part in parts if part is not None)
    return None


def reused_names(context: Context) -> Iterator[Finding]:
    """Find variables that are set again on every way before their first value is read."""
    demand = context.demand
    for op in context.calls("lm.gen", "lm.select", "lm.set"):
        name, is_late = set_name(op)
        if name is None or is_late or op in demand.read or name.startswith(HIDDEN):
            continue
        if op.name in CALLS and op not in demand.used:
            continue
        if demand.has(op.results[0], "name", name) or _is_inside_unknown(op, context):
            continue
        for other in _overwriting(op, name, context):
            if not _is_read_at_last(other, name, context) or other.location == op.location:
                continue  # a helper that is called twice goes on in one place
            first = op.location.line if op.location else "?"
            yield found(
                NAME_REUSED, other.location,
                f"'{name}' is set again before its value of line {first} is read",
                "use another name for one of them, or read the first before",
                focus=argument("name") if other.name in CALLS else None,
            )  # fmt: skip


def _is_read_at_last(op: Op, name: str, context: Context) -> bool:
    """Whether a variable is read after an op sets it, or after it was set once more."""
    pending, seen = [op], {op}
    while pending:
        each = pending.pop()
        if each in context.demand.read:
            return True
        more = [other for other in _overwriting(each, name, context) if other not in seen]
        seen.update(more)
        pending += more
    return False


def _overwriting(op: Op, name: str, context: Context) -> list[Op]:
    """Return the ops that set a variable again, further on in the same trip of every loop."""
    facts = context.facts
    inside = {id(owner) for owner in _owners(op, context)}
    ended: dict[Op, None] = {}
    pending, seen = [op.results[0]], {op.results[0]}
    while pending:
        for user in next_ops(pending.pop(), facts, frozenset({"lm.tick", "lm.unordered"})):
            if user is op or not user.name.startswith("lm."):
                continue
            if any(
                owner.name in ("cf.for", "cf.while") and id(owner) not in inside
                for owner in _owners(user, context)
            ):
                continue  # in a loop that may not run, or runs again
            if _precedes(user, op, context):
                continue  # the next trip
            own, is_late = set_name(user) if user.name in (*CALLS, "lm.set") else (None, False)
            if own == name and not is_late:
                ended.setdefault(user)
                continue
            if user.name in ("lm.fork", "lm.join", "lm.get", "lm.text"):
                continue
            pending += [result for result in user.results[:1] if result not in seen]
            seen.update(user.results[:1])
    return list(ended)


def _owners(op: Op, context: Context) -> list[Op]:
    made: list[Op] = []
    owner = context.facts.owners[context.facts.blocks[op]]
    while owner is not None:
        made.append(owner)
        owner = context.facts.owners[context.facts.blocks[owner]]
    return made


def _precedes(op: Op, other: Op, context: Context) -> bool:
    """Whether an op stands before another in the function's text."""
    return context.order[op] <= context.order[other]


def lost_in_joins(context: Context) -> Iterator[Finding]:
    """Find variables of branches that a join drops: the parent has the name already."""
    for op, name, join in _lost_in_joins(context):
        line = join.location.line if join.location else "?"
        yield found(
            NOT_GATHERED, op.location,
            f"the parent has '{name}' already, so the join in line {line} does not gather it",
            "give the branches' variable another name, or read it from the branches",
            focus=argument("name"),
        )  # fmt: skip


def _lost_in_joins(context: Context) -> list[tuple[Op, str, Op]]:
    made: dict[Op, tuple[Op, str, Op]] = {}
    for join in context.calls("lm.join"):
        if join.attributes.get("mode") == "concate_and_append":
            continue
        before = context.names.at(join.operands[0]).sure
        for op in _set_in_branches(join, context):
            name, is_late = set_name(op)
            if name is None or is_late or name not in before or op in context.demand.read:
                continue
            if name.startswith(HIDDEN):
                continue
            made.setdefault(op, (op, name, join))
    return list(made.values())


def _set_in_branches(join: Op, context: Context) -> list[Op]:
    """Return the calls in the branches that a join takes."""
    pieces: dict[Op, None] = {}

    def step(op: Op, index: int) -> bool | None:
        if op.name == "lm.fork":
            return True
        if op.name in CALLS:
            pieces.setdefault(op)
        return False

    back(join.operands[1], context.facts, step)
    return list(pieces)


def unused_forks(context: Context) -> Iterator[Finding]:
    """Find forks whose children nothing is done with."""
    for op in context.calls("lm.fork"):
        if not context.facts.uses(op.results[1]) and not _is_inside_unknown(op, context):
            yield found(
                UNUSED_FORK, op.location, "nothing is done with the children of this fork",
                "append to them, or leave the fork out",
            )  # fmt: skip


def unused_arguments(context: Context) -> Iterator[Finding]:
    """Find parameters that the program never looks at."""
    function = context.function
    if function.kind != "program":
        return
    for param, value in zip(function.params, function.body.arguments[1:], strict=True):
        if not context.facts.uses(value) and not param.name.startswith("_"):
            yield found(
                UNUSED_ARGUMENT, function.location,
                f"the argument '{param.name}' is not used",
                f"use it, leave it out, or call it _{param.name}", focus=argument(param.name),
            )  # fmt: skip


RULES = (
    unused_generations, unread_text, reused_names, lost_in_joins, unused_forks, unused_arguments,
)  # fmt: skip
