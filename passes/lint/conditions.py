"""Whether the conditions of a way through branches can hold together, as far as can be told."""

from collections.abc import Sequence

from lmc.ir.core import Op, Value
from lmc.passes.lint.context import Context
from lmc.passes.lint.origins import texts_of

Condition = tuple[Value, bool]
"""A value that decides a branch, and which way it goes."""

OPPOSITES = {"!=": "==", "<=": ">", ">=": "<", "not in": "in", "is not": "is"}
MAX_PARTS = 200

COMPLETE = frozenset({"<", "==", ">"})
"""One of these holds between any two numbers."""


def can_hold(conditions: Sequence[Condition], context: Context) -> bool:
    """Whether conditions may all come out as given; False also where nothing can be told.

    So it is where a condition asks for a type, as the patterns of a `match` do: whether these
    leave something out depends on what is given.
    """
    if not _fits_choices(conditions, context):
        return False
    known: dict[object, bool] = {}
    orders: dict[object, set[str]] = {}
    for value, wanted in conditions:
        value, wanted = _plain(value, wanted, context)
        if _asks_for_type(value, context):
            return False
        fact, is_true = _fact(value, wanted, context)
        if known.setdefault(fact, is_true) != is_true:
            return False
        if isinstance(fact, tuple) and fact[0] in COMPLETE and not is_true:
            missed = orders.setdefault(fact[1:], set())
            missed.add(str(fact[0]))
            if missed == COMPLETE:
                return False
    return True


def _plain(value: Value, wanted: bool, context: Context) -> Condition:
    """Take `bool(...)` and `not` off a condition."""
    while (op := context.facts.op_of(value, "val.truth", "val.not")) is not None:
        value, wanted = op.operands[0], wanted != (op.name == "val.not")
    return value, wanted


def _asks_for_type(value: Value, context: Context) -> bool:
    pending, seen = [value], {value}
    while pending:
        op = context.facts.op_of(pending.pop())
        if op is None or not op.name.startswith(("val.", "cf.if")):
            continue
        if op.name == "val.call" and op.attributes["callee"] in ("isinstance", "type"):
            return True
        more = [*op.operands, *(v for block in op.blocks for v in block.terminator.operands)]
        pending += [each for each in more if each not in seen]
        seen.update(more)
    return False


def _fact(value: Value, wanted: bool, context: Context) -> tuple[object, bool]:
    """Return a condition in a form that is the same for the same question."""
    op = context.facts.op_of(value, "val.compare")
    if op is None:
        return subject(value, context), wanted
    name = str(op.attributes["op"])
    if name in OPPOSITES:
        name, wanted = OPPOSITES[name], not wanted
    left, right = (subject(each, context) for each in op.operands)
    return (name, left, right), wanted


def subject(value: Value, context: Context) -> object:
    """Return what is the same for every read of one thing: a variable, a constant, a value."""
    known = context.constant(value)
    if known is not None:
        return "constant", repr(known.value)
    op = context.facts.op_of(value)
    if op is not None and op.name in ("lm.get", "lm.has") and "name" in op.attributes:
        return op.name, op.attributes["name"]
    if op is not None and op.name == "val.method" and len(op.operands) == 1:
        return op.attributes["name"], subject(op.operands[0], context)
    return value


def _fits_choices(conditions: Sequence[Condition], context: Context) -> bool:
    """Whether each text that is one of a few can be one under which the conditions hold."""
    domains: dict[object, set[str]] = {}
    for value, _ in conditions:
        for part in _parts(value, context):
            texts = texts_of(part, context)
            if texts is not None:
                domains.setdefault(subject(part, context), texts)
    return all(
        any(
            all(_outcome(value, {about: text}, context) in (wanted, None)
                for value, wanted in conditions)
            for text in texts
        )
        for about, texts in domains.items()
    )  # fmt: skip


def _parts(value: Value, context: Context) -> list[Value]:
    """Return all values that a condition is computed from."""
    found = [value]
    seen = {value}
    for each in found:
        op = context.facts.op_of(each)
        if op is None or not op.name.startswith(("val.", "cf.if")) or len(found) > MAX_PARTS:
            continue
        more = [*op.operands, *(v for block in op.blocks for v in block.terminator.operands)]
        found += [other for other in more if other not in seen]
        seen.update(more)
    return found


def _outcome(value: Value, given: dict[object, str], context: Context) -> bool | None:
    """Compute a condition for given texts; None where they do not decide it."""
    op = context.facts.op_of(value)
    known = context.constant(value)
    if known is not None:
        return bool(known.value)
    if op is None:
        return None
    match op.name:
        case "val.truth" | "val.not":
            inner = _outcome(op.operands[0], given, context)
            return inner if inner is None else inner != (op.name == "val.not")
        case "val.compare":
            return _compared(op, given, context)
        case "cf.if":
            ends = [block.terminator.operands[op.results.index(value)] for block in op.blocks]
            first = _outcome(op.operands[0], given, context)
            arms = ends if first is None else [ends[0 if first else 1]]
            outcomes = {_outcome(end, given, context) for end in arms}
            return outcomes.pop() if len(outcomes) == 1 else None
        case _:
            return None


def _compared(op: Op, given: dict[object, str], context: Context) -> bool | None:
    sides: list[object] = []
    for operand in op.operands:
        known = context.constant(operand)
        text = given.get(subject(operand, context))
        if known is None and text is None:
            items = context.constant_items(operand)
            if items is None:
                return None
            sides.append(items)
        else:
            sides.append(text if known is None else known.value)
    left, right = sides
    match op.attributes["op"]:
        case "==" | "!=" as name:
            return (left == right) == (name == "==")
        case "in" | "not in" as name if isinstance(right, (list, tuple, dict, str)):
            is_in = left in right if not isinstance(right, str) else str(left) in right
            return is_in == (name == "in")
        case _:
            return None
