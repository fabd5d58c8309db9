"""Which pure expressions can never raise, so that an unread one may be left out.

An error is observable: `int(s["n"])` whose value nobody reads still fails where the text is
no number. Dropping is exact only for expressions that give a value whatever their operands.
"""

from collections.abc import Callable, Sequence

from lmc.ir.core import Op, Value
from lmc.ir.ops import SPECS
from lmc.ir.tries import result_sources
from lmc.ir.types import BOOL, DICT, FLOAT, INT, META, NONE, PY, STATE, TEXT, Type, list_of
from lmc.passes.analysis import Const, Facts, known_items, lookup

SCALARS = frozenset({TEXT, BOOL, INT, FLOAT, NONE})
WHOLE = frozenset({BOOL, INT})
NUMBERS = frozenset({BOOL, INT, FLOAT})

_TEXT_METHODS = frozenset({
    "capitalize", "casefold", "isalnum", "isalpha", "isascii", "isdecimal", "isdigit",
    "isidentifier", "islower", "isnumeric", "isprintable", "isspace", "istitle", "isupper",
    "lower", "lstrip", "rstrip", "split", "splitlines", "strip", "swapcase", "title", "upper",
})  # fmt: skip
"""Methods of str that give a value without arguments."""

_TEXT_TO_TEXT = frozenset({
    "count", "endswith", "find", "lstrip", "removeprefix", "removesuffix", "rfind", "rstrip",
    "startswith", "strip",
})  # fmt: skip
"""Methods of str that give a value for any one text."""


def is_total(op: Op, facts: Facts) -> bool:
    """Whether an op gives its results for all operands, as far as types and constants show.

    Model calls with sound parameters and turn markers are total here: one that nobody demands
    may be dropped with the failure it might have had.
    """
    if op.name in _ON_STATES:
        return _ON_STATES[op.name](op, facts)
    if not SPECS[op.name].is_pure:
        return True
    if op.name in ("val.const", "val.undefined"):
        return True
    if any(may_be_undefined(value, facts) for value in op.operands):
        return False
    rule = _RULES.get(op.name)
    return rule is not None and rule(op, [value.type for value in op.operands], facts)


def _is_read_total(op: Op, facts: Facts) -> bool:
    """Whether the variable that an op reads is certainly set."""
    name = op.attributes.get("name")
    return isinstance(name, str) and isinstance(lookup(op.operands[0], name, facts), tuple)


def _is_meta_total(op: Op, facts: Facts) -> bool:
    """Whether the variable whose meta dict an op reads was certainly set by a call."""
    name = op.attributes.get("name")
    found = lookup(op.operands[0], name, facts) if isinstance(name, str) else None
    return isinstance(found, tuple) and found[0].name != "lm.set"


def _is_call_total(op: Op, facts: Facts) -> bool:
    """Whether a call's parameters are known; capture has checked those."""
    dynamic = op.attributes["dynamic"]
    assert isinstance(dynamic, list)
    given = zip(dynamic, op.operands[len(op.operands) - len(dynamic) :], strict=True)
    return all(key == "name" and value.type == TEXT for key, value in given)


def _is_select_total(op: Op, facts: Facts) -> bool:
    """Whether there are choices, all of them texts."""
    items = known_items(op.operands[1], facts)
    if items is None or not items.items or not _is_call_total(op, facts):
        return False
    return all(
        isinstance(item.value, str)
        if isinstance(item, Const)
        else isinstance(item, Value) and item.type == TEXT
        for item in items.items
    )


def _is_name_total(op: Op, index: int) -> bool:
    return "name" in op.attributes or op.operands[index].type == TEXT


_ON_STATES: dict[str, Callable[[Op, Facts], bool]] = {
    "cf.for": lambda op, facts: is_iterable(op.operands[0], facts),
    "lm.extend": lambda op, facts: op.operands[1].type == TEXT,
    "lm.fork": lambda op, facts: "count" in op.attributes,
    "lm.get": _is_read_total,
    "lm.has": lambda op, facts: _is_name_total(op, 1),
    "lm.image": lambda op, facts: False,  # a file may be missing
    "lm.join": lambda op, facts: op.operands[1].type == list_of(STATE),
    "lm.gen": _is_call_total,
    "lm.meta": _is_meta_total,
    "lm.select": _is_select_total,
    "lm.set": lambda op, facts: _is_name_total(op, 2),
}


def is_iterable(value: Value, facts: Facts) -> bool:
    """Whether a loop over the value certainly starts and ends."""
    if value.type.name in ("list", "text", "dict"):
        return not may_be_undefined(value, facts)
    if facts.op_of(value, "val.tuple", "val.set") is not None:
        return True
    known = facts.constant(value)
    return known is not None and isinstance(known.value, (list, tuple, dict, str))


def may_be_undefined(value: Value, facts: Facts) -> bool:
    """Whether a value may be that of a name which no path assigned."""
    return _may_be_undefined(value, facts, set())


def _may_be_undefined(value: Value, facts: Facts, seen: set[Value]) -> bool:
    if value in seen or value.type != PY:
        return False
    seen.add(value)
    return any(_may_be_undefined(source, facts, seen) for source in _sources(value, facts)) or (
        facts.op_of(value, "val.undefined") is not None
    )


def _sources(value: Value, facts: Facts) -> list[Value]:
    """Return the values that a result or argument of a cf op may be."""
    if value in facts.arguments:
        owner, index = facts.arguments[value]
        if owner is None or (owner.name == "cf.for" and index == 0):
            return []
        carried = index - (owner.name == "cf.for")
    else:
        owner, carried = facts.definitions[value]
    if owner is None or not owner.blocks:
        return []
    if owner.name == "cf.try":
        return result_sources(owner, carried)
    if owner.name == "cf.if":
        return [block.terminator.operands[carried] for block in owner.blocks]
    init = owner.operands[carried + (owner.name == "cf.for")]
    return [init, owner.blocks[0].terminator.operands[carried + 1]]


Rule = Callable[[Op, Sequence[Type], Facts], bool]


def _always(op: Op, types: Sequence[Type], facts: Facts) -> bool:
    return True


def _texts(op: Op, types: Sequence[Type], facts: Facts) -> bool:
    return all(kind == TEXT for kind in types)


def _truth(op: Op, types: Sequence[Type], facts: Facts) -> bool:
    return types[0] in SCALARS or types[0] in (DICT, META) or types[0].name == "list"


def _format(op: Op, types: Sequence[Type], facts: Facts) -> bool:
    return types[0] in SCALARS and facts.constant_text(op.operands[1]) == ""


def _compare(op: Op, types: Sequence[Type], facts: Facts) -> bool:
    match op.attributes["op"]:
        case "is" | "is not":
            return True
        case "==" | "!=":
            return all(kind in SCALARS for kind in types)
        case "in" | "not in":
            return list(types) == [TEXT, TEXT]
        case _:
            return list(types) == [TEXT, TEXT] or all(kind in NUMBERS for kind in types)


def _binary(op: Op, types: Sequence[Type], facts: Facts) -> bool:
    sign = op.attributes["op"]
    if sign == "+" and list(types) == [TEXT, TEXT]:
        return True
    if sign == "+" and all(kind.name == "list" for kind in types):
        return True
    return sign in ("+", "-", "&", "|", "^") and all(kind in WHOLE for kind in types)


def _unary(op: Op, types: Sequence[Type], facts: Facts) -> bool:
    return types[0] == INT or (types[0] == FLOAT and op.attributes["op"] != "~")


def _index(op: Op, types: Sequence[Type], facts: Facts) -> bool:
    items = known_items(op.operands[0], facts)
    index = facts.constant_int(op.operands[1])
    return items is not None and index is not None and in_range(index, len(items.items))


def in_range(index: int, count: int) -> bool:
    """Whether Python's index exists in a sequence of `count` items."""
    return -count <= index < count


def _unpack(op: Op, types: Sequence[Type], facts: Facts) -> bool:
    items = known_items(op.operands[0], facts)
    return items is not None and len(items.items) == len(op.results)


def _slice(op: Op, types: Sequence[Type], facts: Facts) -> bool:
    sliceable = types[0] == TEXT or types[0].name == "list"
    bounds = [facts.constant(value) for value in op.operands[1:]]
    sound = all(bound is not None and type(bound.value) in (int, type(None)) for bound in bounds)
    return sliceable and sound and (bounds[2] is not None and bounds[2].value != 0)


def _dict(op: Op, types: Sequence[Type], facts: Facts) -> bool:
    return all(kind in SCALARS for kind in types[::2])


def _set(op: Op, types: Sequence[Type], facts: Facts) -> bool:
    return all(kind in SCALARS for kind in types)


def _method(op: Op, types: Sequence[Type], facts: Facts) -> bool:
    if op.attributes.get("keywords") or types[0] != TEXT:
        return False
    name = op.attributes["name"]
    if len(types) == 1:
        return name in _TEXT_METHODS
    return list(types[1:]) == [TEXT] and name in _TEXT_TO_TEXT


def _call(op: Op, types: Sequence[Type], facts: Facts) -> bool:
    if op.attributes.get("keywords"):
        return False
    is_list = [kind.name == "list" for kind in types]
    match op.attributes["callee"], len(types):
        case "len" | "list" | "tuple" | "reversed" | "enumerate", 1:
            return is_list[0] or types[0] == TEXT
        case "bool", 1:
            return _truth(op, types, facts)
        case "zip", _:
            return all(is_list)
        case (("any" | "all"), 1):
            element = types[0].element
            return element is not None and element in SCALARS
        case _:
            return False


def _mutate(op: Op, types: Sequence[Type], facts: Facts) -> bool:
    if op.attributes.get("keywords") or types[0].name != "list":
        return False
    match op.attributes["name"], len(types):
        case ("append", 2) | ("copy" | "clear" | "reverse", 1) | ("insert", 3):
            return op.attributes["name"] != "insert" or types[1] == INT
        case "extend", 2:
            return types[1].name == "list"
        case "__setitem__", 3:
            return known_items(op.results[0], facts) is not None
        case _:
            return False


_RULES: dict[str, Rule] = {
    "val.list": _always, "val.tuple": _always, "val.set": _set, "val.dict": _dict,
    "val.concat": _texts, "val.format": _format, "val.truth": _truth, "val.not": _truth,
    "val.compare": _compare, "val.binary": _binary, "val.unary": _unary, "val.index": _index,
    "val.slice": _slice, "val.unpack": _unpack, "val.method": _method, "val.call": _call,
    "val.mutate": _mutate,
}  # fmt: skip
