"""The rules of single ops: `ir.ops.SPECS` and what a spec cannot say."""

from collections.abc import Iterator, Sequence

from lmc.ir.arguments import SPREAD
from lmc.ir.core import Function, Module, Op, Value
from lmc.ir.evaluate import BINARY, COMPARE, FUNCTIONS, METHODS, MUTATORS, UNARY
from lmc.ir.expressions import CHOICES_METHODS, GEN_PARAMS, SELECT_PARAMS, TYPE_REGEX
from lmc.ir.ops import SPECS, OpSpec
from lmc.ir.skeleton import skeleton_faults
from lmc.ir.tries import FIRST_SLOT, num_slots, saved_slots
from lmc.ir.types import BOOL, EFFECT, INT, PY, STATE, Attr, Type, is_attr, list_of
from lmc.ir.value_types import is_type

ROLES = ("system", "user", "assistant")
JOIN_MODES = ("gather_variable", "concate_and_append")
_PATH_KEYS = {"choice", "pieces", "ticks", "share", "gen"}
PIECES = ("text", "begin", "end", "control")

_CHOICES: dict[tuple[str, str], Sequence[str]] = {
    ("lm.begin", "role"): ROLES,
    ("lm.end", "role"): ROLES,
    ("lm.join", "mode"): JOIN_MODES,
    ("lm.unordered", "side"): ("begin", "next", "end"),
    ("lm.again", "kind"): ("gen", "select"),
    ("lm.foresee", "call"): ("lm.select", "lm.gen"),
    ("lm.image", "kind"): ("image", "video"),
    ("val.format", "conversion"): ("", "s", "r", "a"),
    ("val.binary", "op"): tuple(BINARY),
    ("val.unary", "op"): tuple(UNARY),
    ("val.compare", "op"): tuple(COMPARE),
    ("val.call", "callee"): tuple(FUNCTIONS),
    ("val.method", "name"): sorted(METHODS),
    ("val.mutate", "name"): sorted(MUTATORS),
}
"""Attributes that hold one of a few words."""

_TEXTS = ("name", "callee", "role", "mode", "token", "op", "conversion", "first")
# Which operand says at run time what the attribute says at compile time.
_EITHER = {
    "lm.fork": ("count", 1), "lm.set": ("name", 2), "lm.get": ("name", 1), "lm.has": ("name", 1),
    "lm.meta": ("name", 1),
}  # fmt: skip


def is_assignable(source: Type, target: Type) -> bool:
    """Whether a value of one type may stand where another is declared: `py` covers all data."""
    if source is target or source == target:
        return True
    if target == PY:
        return source != EFFECT
    if source.name == target.name == "list" and source.element and target.element:
        return is_assignable(source.element, target.element)
    return False


def check_op(module: Module, op: Op) -> Iterator[str]:
    """Yield what is wrong with an op in itself, leaving aside where its operands come from."""
    spec = SPECS.get(op.name)
    if spec is None:
        yield f"unknown op {op.name!r}"
        return
    shape = [*_shape(spec, op), *_attributes(spec, op)]
    yield from shape
    if not shape:
        yield from _particular(module, op)


def _shape(spec: OpSpec, op: Op) -> Iterator[str]:
    if len(op.blocks) != spec.blocks:
        yield f"has {len(op.blocks)} block(s) instead of {spec.blocks}"
    fixed = len(spec.operands)
    if len(op.operands) < fixed or (len(op.operands) > fixed and not spec.rest):
        more = " or more" if spec.rest else ""
        yield f"takes {fixed}{more} operand(s), not {len(op.operands)}"
    yield from _types("operand", op.operands, spec.operands)
    if spec.results is not None:
        if len(op.results) != len(spec.results):
            yield f"gives {len(spec.results)} result(s), not {len(op.results)}"
        yield from _types("result", op.results, spec.results)


def _types(what: str, values: list[Value], wanted: Sequence[Type | None]) -> Iterator[str]:
    for index, (value, kind) in enumerate(zip(values, wanted, strict=False)):
        # Most types are one object each: comparing dataclasses takes long.
        if kind is not None and value.type is not kind and value.type != kind:
            yield f"{what} {index} is {value.type} instead of {kind}"


def _attributes(spec: OpSpec, op: Op) -> Iterator[str]:
    for name in spec.required:
        if name not in op.attributes:
            yield f"lacks the attribute {name!r}"
    known = {*spec.required, *spec.optional}
    for name, value in op.attributes.items():
        if name not in known:
            yield f"has the unknown attribute {name!r}"
        if not is_attr(value):
            yield f"attribute {name!r} holds {value!r}, which is no plain data"
        if name in _TEXTS and not isinstance(value, str):
            yield f"attribute {name!r} is {value!r} instead of a string"
        words = _CHOICES.get((op.name, name))
        if words is not None and value not in words:
            shown = f"; one of {', '.join(map(repr, words))}" if len(words) <= 14 else ""
            yield f"attribute {name!r} is {value!r}{shown}"


def _particular(module: Module, op: Op) -> Iterator[str]:
    match op.name:
        case "cf.if":
            for which, block in zip(("first", "second"), op.blocks, strict=True):
                yield from _yields(op, block.ops[-1:], op.results, f"the {which} block", False)
            taken = op.attributes.get("taken", [0, 0])
            if not isinstance(taken, list) or len(taken) != 2:
                yield f"taken is {taken!r} instead of two counts"
            else:
                for count in taken:
                    yield from _natural("taken", count)
        case "cf.for" | "cf.while":
            yield from _loop(op)
        case "cf.try":
            yield from _try(op)
        case "host.matches":
            classes = op.attributes["classes"]
            if not _is_words(classes) or not all(":" in name for name in classes):  # type: ignore
                yield f"classes {classes!r} are not names of the form 'module:qualname'"
        case "func.call" | "func.apply":
            yield from _callee(module, op)
        case "lm.gen":
            yield from _call_params(op, GEN_PARAMS, 1)
            yield from _natural("expected", op.attributes.get("expected", 0))
            yield from skeleton_faults(op.attributes.get("skeleton", []))
            yield from _defaults(op)
        case "lm.prompt":
            yield from _root(op)
        case "lm.select":
            yield from _call_params(op, SELECT_PARAMS, 2)
        case "lm.fork" | "lm.set" | "lm.get" | "lm.has" | "lm.meta":
            yield from _either(op, *_EITHER[op.name])
        case "lm.group":
            yield from _group(op)
        case "lm.prologue":
            yield from _root(op)
            yield from _pieces(op.attributes["pieces"])
            yield from _natural("told", op.attributes.get("told", 0))
            if op.attributes.get("tells", True) is not True or (
                "tells" in op.attributes and "told" not in op.attributes
            ):
                yield "tells is true beside told, or not there"
        case "lm.foresee":
            yield from _paths(op.attributes["paths"])
        case "lm.extend" | "lm.begin" | "lm.end" | "lm.control":
            if op.attributes.get("hoisted", True) is not True:
                yield "hoisted is true or not there"
        case "lm.image" if len(op.operands) != (3 if op.attributes["kind"] == "video" else 2):
            yield "takes the state, the source and, for a video, the number of frames"
        case "lm.tick":
            yield from _natural("n", op.attributes["n"])
        case "lm.again" if op.results[1].type != op.operands[2].type:
            yield f"gives a {op.results[1].type}, but the call gave a {op.operands[2].type}"
        case "host.call" | "host.pure" | "host.method" | "val.call" | "val.method" | "val.mutate":
            yield from _keywords(op)
        case "val.dict" if len(op.operands) % 2:
            yield "takes pairs of key and value"
        case _:
            return


def _yields(
    op: Op, end: list[Op], targets: list[Value], where: str, is_loop: bool
) -> Iterator[str]:
    if not end or end[0].name != "cf.yield":
        return  # told by the check of how blocks end
    found = [value.type for value in end[0].operands]
    wanted = [value.type for value in targets]
    if is_loop:
        wanted.insert(0, BOOL)
    if len(found) != len(wanted):
        yield f"{where} yields {len(found)} value(s) instead of {len(wanted)}"
    for index, (source, target) in enumerate(zip(found, wanted, strict=False)):
        if not is_assignable(source, target):
            yield f"value {index} that {where} yields is {source} instead of {target}"


def _loop(op: Op) -> Iterator[str]:
    is_for = op.name == "cf.for"
    init, arguments = op.operands[is_for:], op.blocks[0].arguments[is_for:]
    if len(op.blocks[0].arguments) != len(op.operands) or len(init) != len(op.results):
        item = "the item and " if is_for else ""
        yield (
            f"carries {len(init)} value(s) in; the block takes {item}{len(arguments)}, "
            f"{len(op.results)} come out"
        )
        return
    for index, (value, argument) in enumerate(zip(init, arguments, strict=True)):
        if not is_assignable(value.type, argument.type):
            yield f"carried value {index} is {value.type}, the block takes {argument.type}"
        if argument.type != op.results[index].type:
            yield f"carried value {index} leaves as {op.results[index].type}"
    if is_for and op.blocks[0].arguments[0].type == EFFECT:
        yield "the item is an effect"
    yield from _yields(op, op.blocks[0].ops[-1:], op.results, "the block", True)


def _try(op: Op) -> Iterator[str]:
    inits = op.operands[1:]
    if op.blocks[0].arguments:
        yield "its block takes no arguments"
    kinds = [value.type for value in op.results]
    if kinds[:FIRST_SLOT] != [PY, EFFECT] or len(kinds) < FIRST_SLOT + len(inits):
        yield f"gives what was raised, an effect, {len(inits)} slot(s), then its values"
        return
    for index, (init, result) in enumerate(zip(inits, op.results[FIRST_SLOT:], strict=False)):
        if not is_assignable(init.type, result.type):
            yield f"init {index} is {init.type}, its slot {result.type}"
    values = [op.results[1], *op.results[FIRST_SLOT + len(inits) :]]
    yield from _yields(op, op.blocks[0].ops[-1:], values, "the block", False)


def check_save(save: Op, owner: Op | None) -> Iterator[str]:
    """Yield what is wrong with a `cf.save`, given the nearest `cf.try` around it."""
    slots = save.attributes.get("slots")
    if owner is None:
        yield "stands in no cf.try"
    elif not isinstance(slots, list) or len(slots) != len(save.operands):
        yield "slots is a list with a number per operand"
    elif not all(type(slot) is int and 0 <= slot < num_slots(owner) for slot in slots):
        yield f"slots are numbers below {num_slots(owner)}, not {slots!r}"
    elif len(owner.results) >= FIRST_SLOT + num_slots(owner):
        for slot, value in zip(saved_slots(save), save.operands, strict=True):
            target = owner.results[FIRST_SLOT + slot]
            if not is_assignable(value.type, target.type):
                yield f"the value for slot {slot} is {value.type} instead of {target.type}"


def _callee(module: Module, op: Op) -> Iterator[str]:
    kind, skipped = ("program", 2) if op.name == "func.call" else ("helper", 1)
    name = op.attributes["callee"]
    callee = module.functions.get(name)  # type: ignore[arg-type]
    if callee is None:
        yield f"@{name} is no function of the module"
        return
    if callee.kind != kind:
        yield f"@{name} is a {callee.kind}; {op.name} takes a {kind}"
    given = len(op.operands) - skipped
    if given != len(callee.params):
        yield f"@{name} takes {len(callee.params)} argument(s), not {given}"
    given_types = [value.type for value in op.operands[skipped:]]
    taken = [value.type for value in callee.body.arguments[1:]]
    for number, kind in enumerate(given_types):
        wanted = taken[number] if number < len(taken) else PY
        if kind == EFFECT or (kind == STATE) != (wanted == STATE):
            yield f"argument {number} of @{name} is a {kind}, not a {wanted}"
    if op.name == "func.apply":
        yield from _results_of(op, callee)
    yield from _defaults(op)


def _defaults(op: Op) -> Iterator[str]:
    defaults = op.attributes.get("defaults", {})
    if not isinstance(defaults, dict) or not set(defaults) <= set(GEN_PARAMS):
        yield f"defaults are decode parameters, not {defaults!r}"


def _root(op: Op) -> Iterator[str]:
    if [value.type for value in op.operands] not in ([], [STATE]):
        yield "takes nothing, or the state that its program is called from"


def _results_of(op: Op, callee: Function) -> Iterator[str]:
    """Check the results of a helper's call against what the helper returns."""
    ends = callee.body.ops[-1:]
    if not ends or ends[0].name != "func.return":
        return  # told by the check of how blocks end
    found, wanted = [value.type for value in op.results], [v.type for v in ends[0].operands]
    fits = len(found) == len(wanted) and all(
        one == PY if other not in (STATE, EFFECT) and one == PY else one == other
        for one, other in zip(found, wanted, strict=True)
    )
    if not fits:
        yield (
            f"@{callee.name} returns ({', '.join(map(str, wanted))}), "
            f"not ({', '.join(map(str, found))})"
        )


def _call_params(op: Op, known: Sequence[str], fixed: int) -> Iterator[str]:
    params, dynamic = op.attributes["params"], op.attributes["dynamic"]
    if not isinstance(params, dict) or not _is_words(dynamic):
        yield "params is a dict and dynamic a list of names"
        return
    assert isinstance(dynamic, list)
    for name in [*params, *dynamic]:
        if name not in known and not (name == "name" and name in dynamic):
            yield f"unknown parameter {name!r}; known: {', '.join(known)}"
    given = [*params, *dynamic, *(["name"] if "name" in op.attributes else [])]
    if len(set(given)) != len(given):  # type: ignore[arg-type]
        yield "a parameter is given twice"
    if len(op.operands) != fixed + len(dynamic):
        yield f"takes {fixed + len(dynamic)} operand(s): dynamic names {len(dynamic)}"
    if not is_type(params.get("type", "str")):
        yield f"type {params['type']!r} is none of {', '.join(TYPE_REGEX)}, str or a type's text"
    if params.get("choices_method", CHOICES_METHODS[0]) not in CHOICES_METHODS:
        yield f"choices_method is one of {', '.join(CHOICES_METHODS)}"


def _either(op: Op, name: str, index: int) -> Iterator[str]:
    extra = len(op.operands) - index
    if extra + (name in op.attributes) != 1 or extra > 1:
        yield f"takes either the attribute {name!r} or operand {index}"
    if name == "count" and name in op.attributes:
        yield from _natural(name, op.attributes[name])
    if name == "count" and extra and op.operands[index].type not in (INT, PY):
        yield f"operand {index} is {op.operands[index].type} instead of int"


def _group(op: Op) -> Iterator[str]:
    children, results = op.operands[1:], op.results
    if [value.type for value in children] != [value.type for value in results]:
        yield "gives back the children, one result each, of the same types"
    if any(value.type not in (STATE, list_of(STATE)) for value in children):
        yield "a child is not a state"


def _pieces(pieces: Attr) -> Iterator[str]:
    if not isinstance(pieces, list):
        yield "pieces is a list"
        return
    for piece in pieces:
        sound = _is_words(piece) and len(piece) == 2 and piece[0] in PIECES  # type: ignore
        if not sound or (piece[0] in ("begin", "end") and piece[1] not in ROLES):  # type: ignore
            yield f"piece {piece!r} is none of ['text', t], ['begin', role], ..."


def _paths(paths: Attr) -> Iterator[str]:
    if not isinstance(paths, list):
        yield "paths is a list"
        return
    for path in paths:
        if not isinstance(path, dict) or not {"choice", "pieces"} <= path.keys() <= _PATH_KEYS:
            yield f"path {path!r:.80} is none of {{choice, pieces, ...}}"
            continue
        if not isinstance(path["choice"], str):
            yield f"choice {path['choice']!r:.80} is no string"
        yield from _pieces(path["pieces"])
        yield from _natural("ticks", path.get("ticks", 0))
        share, gen = path.get("share", 0.0), path.get("gen", {"params": {}, "dynamic": []})
        if not isinstance(share, float) or not 0 <= share <= 1:
            yield f"share {share!r:.80} is no number from 0 to 1"
        is_call = isinstance(gen, dict) and isinstance(gen.get("params"), dict)
        if not is_call or gen.get("dynamic") != []:  # type: ignore[union-attr]
            yield "gen has constant parameters, and no others"


def _natural(name: str, value: Attr) -> Iterator[str]:
    if type(value) is not int or value < 0:
        yield f"{name} is {value!r} instead of a whole number from 0"


def _keywords(op: Op) -> Iterator[str]:
    names = op.attributes.get("keywords", [])
    positional = 2 if op.name == "host.method" else 1
    if op.name in ("host.pure", "val.call"):
        positional = 0
    if not _is_words(names) or len(names) > len(op.operands) - positional:  # type: ignore
        yield f"keywords {names!r} do not name the last operands"
    elif _has_twice(names):
        yield "a keyword is given twice"
    if op.name in ("host.call", "host.pure") and ":" not in str(op.attributes["callee"]):
        yield f"callee {op.attributes['callee']!r} is not 'module:qualname'"


def _has_twice(names: Attr) -> bool:
    named = [name for name in names if name not in SPREAD]  # type: ignore
    return len(set(named)) != len(named)


def _is_words(value: Attr) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
