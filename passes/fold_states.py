"""Rules of `fold` for `lm.*` ops: texts that meet, variables whose value is known."""

from lmc.ir.core import Op, Value
from lmc.ir.expressions import CHOICES_METHODS, TYPE_REGEX
from lmc.ir.types import is_attr
from lmc.passes.analysis import Missing, lookup
from lmc.passes.rewriting import Rewriter, Rule, make_const


def drop_empty_extend(rewriter: Rewriter, op: Op) -> list[Op] | None:
    """Drop the appending of "" ."""
    if rewriter.facts.constant_text(op.operands[1]) != "":
        return None
    rewriter.remarks.fired('appending "" does nothing', op)
    rewriter.replace(op.result, op.operands[0])
    return []


def merge_extends(rewriter: Rewriter, op: Op) -> list[Op] | None:
    """Make one append of two constants that follow each other."""
    facts = rewriter.facts
    before = facts.op_of(op.operands[0], "lm.extend")
    text = facts.constant_text(op.operands[1])
    if before is None or text is None or not _is_only_step(rewriter, before, op):
        return None
    head = facts.constant_text(before.operands[1])
    if head is None or len(head) + len(text) > rewriter.max_text:
        return None
    made = make_const(head + text, before.location or op.location, "c")
    rewriter.remarks.fired("appended together with the constant before", op)
    rewriter.skip(before)
    op.operands = [before.operands[0], made.result]
    op.attributes = dict(before.attributes)  # the first of them says whose text it is
    op.location = before.location or op.location
    return [made, op]


def merge_ticks(rewriter: Rewriter, op: Op) -> list[Op] | None:
    """Add up two ticks that follow each other; drop one of 0."""
    if op.attributes["n"] == 0:
        rewriter.replace(op.result, op.operands[0])
        return []
    before = rewriter.facts.op_of(op.operands[0], "lm.tick")
    if before is None or not _is_only_step(rewriter, before, op):
        return None
    rewriter.skip(before)
    op.operands = list(before.operands)
    op.attributes = {"n": int(before.attributes["n"]) + int(op.attributes["n"])}  # type: ignore[arg-type]
    return [op]


def _is_only_step(rewriter: Rewriter, before: Op, op: Op) -> bool:
    """Whether `op` alone takes the state that `before` made, in the same block."""
    facts = rewriter.facts
    return facts.blocks[before] is facts.blocks[op] and len(facts.uses(before.result)) == 1


def read_variable(rewriter: Rewriter, op: Op) -> list[Op] | None:
    """Resolve a read of a variable to the value that was set."""
    found = _lookup(rewriter, op)
    if not isinstance(found, tuple):
        return None
    source, _ = found
    value = source.operands[1] if source.name == "lm.set" else source.results[1]
    return _read(rewriter, op, value)


def read_meta(rewriter: Rewriter, op: Op) -> list[Op] | None:
    """Resolve a read of a call's meta dict."""
    found = _lookup(rewriter, op)
    if not isinstance(found, tuple) or found[0].name == "lm.set":
        return None
    return _read(rewriter, op, found[0].results[2])


def _read(rewriter: Rewriter, op: Op, value: Value) -> list[Op] | None:
    if not rewriter.can_replace(op.result, value):
        return None
    rewriter.remarks.fired(f"the value of {op.attributes['name']!r} is known here", op)
    rewriter.replace(op.result, value)
    return []


def has_variable(rewriter: Rewriter, op: Op) -> list[Op] | None:
    """Resolve a test whether a variable is set."""
    found = _lookup(rewriter, op)
    if found is None:
        return None
    is_set = not isinstance(found, Missing)
    rewriter.remarks.fired(f"{op.attributes['name']!r} is {'' if is_set else 'not '}set here", op)
    return [Op("val.const", [], [op.result], {"value": is_set}, [], op.location)]


def _lookup(rewriter: Rewriter, op: Op) -> "tuple[Op, int] | Missing | None":
    name = op.attributes.get("name")
    return lookup(op.operands[0], name, rewriter.facts) if isinstance(name, str) else None


_NAME_OPERAND = {"lm.get": 1, "lm.has": 1, "lm.meta": 1, "lm.set": 2}


def name_from_constant(rewriter: Rewriter, op: Op) -> list[Op] | None:
    """Write a constant dynamic name as an attribute."""
    index = _NAME_OPERAND[op.name]
    if "name" in op.attributes or len(op.operands) <= index:
        return None
    name = rewriter.facts.constant_text(op.operands[index])
    if name is None:
        return None
    op.attributes["name"] = name
    del op.operands[index]
    return [op]


def count_from_constant(rewriter: Rewriter, op: Op) -> list[Op] | None:
    """Write a fork's constant count as an attribute."""
    if "count" in op.attributes or len(op.operands) < 2:
        return None
    count = rewriter.facts.constant_int(op.operands[1])
    if count is None or count < 0:
        return None
    op.attributes["count"] = count
    del op.operands[1]
    rewriter.remarks.fired(f"the number of children is {count}", op)
    return [op]


_WORDS = {"type": (*TYPE_REGEX, "str"), "choices_method": CHOICES_METHODS}


def params_from_constants(rewriter: Rewriter, op: Op) -> list[Op] | None:
    """Write a call's constant dynamic parameters as attributes; None stays, it means unset."""
    dynamic = op.attributes["dynamic"]
    assert isinstance(dynamic, list)
    first = len(op.operands) - len(dynamic)
    for position, key in enumerate(dynamic):
        known = rewriter.facts.constant(op.operands[first + position])
        if known is None or known.value is None:
            continue
        if known.value not in _WORDS.get(str(key), (known.value,)):
            continue
        if key == "name" and not isinstance(known.value, str):
            continue
        if not is_attr(known.value):
            continue
        _take_param(op, position, first, known.value)
        return [op]
    return None


def _take_param(op: Op, position: int, first: int, value: object) -> None:
    dynamic = list(op.attributes["dynamic"])  # type: ignore[arg-type]
    key = dynamic.pop(position)
    del op.operands[first + position]
    op.attributes["dynamic"] = dynamic
    if key == "name":
        op.attributes["name"] = value  # type: ignore[assignment]
    else:
        op.attributes["params"] = {**op.attributes["params"], key: value}  # type: ignore[dict-item]


RULES: dict[str, tuple[Rule, ...]] = {
    "lm.extend": (drop_empty_extend, merge_extends),
    "lm.tick": (merge_ticks,),
    "lm.get": (name_from_constant, read_variable),
    "lm.has": (name_from_constant, has_variable),
    "lm.meta": (name_from_constant, read_meta),
    "lm.set": (name_from_constant,),
    "lm.fork": (count_from_constant,),
    "lm.gen": (params_from_constants,),
    "lm.select": (params_from_constants,),
}
