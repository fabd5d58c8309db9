"""Rules on the text of prompts: blanks before generations, control tokens, turns."""

from collections.abc import Iterator

from lmc.ir.core import Op, Value
from lmc.ir.expressions import CONSTRAINTS
from lmc.passes.lint.context import CALLS, Context
from lmc.passes.lint.finding import (
    CONTROL_TEXT,
    EMPTY_PROMPT,
    TRAILING_BLANK,
    UNBALANCED_ROLE,
    Finding,
    Focus,
    found,
)
from lmc.passes.lint.walk import back, last_pieces

BLANKS = " \t"


def trailing_blanks(context: Context) -> Iterator[Finding]:
    """Find constants that end in a blank right before free text is generated.

    Silent where a constraint decides how the text begins, for selects (they score options as
    they would be written), and where the tokenizer joins the blank to what stands before it.
    """
    told: set[Value] = set()
    for op in context.calls("lm.gen"):
        if context.shared.languages.constraint(context.params(op)) is not None:
            continue
        if any(context.is_dynamic(op, key) for key in CONSTRAINTS):
            continue
        if context.param(op, "max_tokens") == 0:
            continue
        for piece in last_pieces(op.operands[0], context.facts).ops:
            if piece.name != "lm.extend":
                continue
            end = last_constant(piece.operands[1], context)
            if end is None or end[0] in told or not _ends_in_lone_blank(end[1], context):
                continue
            told.add(end[0])
            value, text = end
            defined = context.facts.op_of(value)
            blank = "tab" if text.endswith("\t") else "blank"
            yield found(
                TRAILING_BLANK,
                (defined.location if defined is not None else None) or piece.location,
                f"the prompt ends in a {blank} before the generation: it is a token of its own, "
                "and words that begin with their blank cannot follow",
                f"leave the {blank} out, the model writes it; strip() the value where it is used",
                focus=Focus("text", text),
            )  # fmt: skip


def last_constant(value: Value, context: Context) -> tuple[Value, str] | None:
    """Return the constant that a text ends in, None where its end is not known."""
    op = context.facts.op_of(value)
    if op is None:
        return None
    if op.name == "val.const":
        text = op.attributes["value"]
        return (value, text) if isinstance(text, str) and text else None
    is_sum = op.name == "val.binary" and op.attributes["op"] == "+"
    if op.name != "val.concat" and not is_sum:
        return None
    for part in reversed(op.operands):
        if context.facts.constant_text(part) != "":
            return last_constant(part, context)
    return None


def first_constant(value: Value, context: Context) -> tuple[str, bool] | None:
    """Return the constant that a text begins with, and whether it is all of the text."""
    op = context.facts.op_of(value)
    if op is None:
        return None
    if op.name == "val.const":
        text = op.attributes["value"]
        return (text, True) if isinstance(text, str) else None
    is_sum = op.name == "val.binary" and op.attributes["op"] == "+"
    if op.name != "val.concat" and not is_sum:
        return None
    out = ""
    for part in op.operands:
        found_first = first_constant(part, context)
        if found_first is None:
            return (out, False) if out else None
        out += found_first[0]
        if not found_first[1]:
            return out, False
    return out, True


def _ends_in_lone_blank(text: str, context: Context) -> bool:
    """Whether a text's last token is nothing but blanks."""
    if text[-1] not in BLANKS or any("\ud800" <= c <= "\udfff" for c in text):
        return False
    tokenizer = context.target.tokenizer
    ids = tokenizer.encode(text[-200:])
    return bool(ids) and not tokenizer.decode(ids[-1:]).strip(BLANKS)


def control_texts(context: Context) -> Iterator[Finding]:
    """Find constants that spell a control token of the model: they stay plain text."""
    spellings = context.shared.languages.control_spellings()
    told: set[tuple[object, str]] = set()
    for op in context.calls("lm.extend"):
        for value, text in _constants(op.operands[1], context):
            spelled = next((s for s in spellings if s in text), None)
            defined = context.facts.op_of(value)
            place = defined.location if defined is not None else op.location
            if spelled is None or (place, text) in told:
                continue
            told.add((place, text))
            yield found(
                CONTROL_TEXT, place,
                f"{spelled!r} in a text is not the control token: it is encoded letter by letter",
                f"use roles (lmc.user(...)), or append lmc.control({spelled!r})",
                focus=Focus("text", text),
            )  # fmt: skip


def _constants(value: Value, context: Context) -> Iterator[tuple[Value, str]]:
    op = context.facts.op_of(value)
    if op is None:
        return
    if op.name == "val.const" and isinstance(op.attributes["value"], str):
        yield value, op.attributes["value"]
    elif op.name in ("val.concat", "val.binary"):
        for part in op.operands:
            yield from _constants(part, context)


def empty_prompts(context: Context) -> Iterator[Finding]:
    """Find generations at the very beginning of a prompt."""
    for op in context.calls("lm.gen", "lm.select"):
        pieces = last_pieces(op.operands[0], context.facts)
        if pieces.certain and all(piece.name == "lm.prompt" for piece in pieces.ops):
            yield found(
                EMPTY_PROMPT, op.location,
                "the prompt is empty here: the model has nothing to go by",
                "append text first",
            )  # fmt: skip


def unbalanced_roles(context: Context) -> Iterator[Finding]:
    """Find turns that are opened in a turn, closed when they are not open, or left open.

    An assistant's turn may stay open at the end: what it generates is the program's result.
    """
    for op in context.calls("lm.begin", "lm.end"):
        role = str(op.attributes["role"])
        borders = _last_borders(op.operands[0], context)
        if borders is None:
            continue
        opened = _open_roles(borders)
        if op.name == "lm.begin" and None not in opened:
            other = sorted(str(each) for each in opened)[0]
            yield found(
                UNBALANCED_ROLE, op.location,
                f"a turn of '{role}' is opened while one of '{other}' is open",
                f"close it first: s += lmc.{other}_end()",
            )  # fmt: skip
        is_nested = any(b.name == "lm.end" and b.attributes["role"] != role for b in borders)
        if op.name == "lm.end" and role not in opened and not is_nested:
            yield found(
                UNBALANCED_ROLE, op.location, f"no turn of '{role}' is open here",
                f"open it first: s += lmc.{role}_begin()",
            )  # fmt: skip
    yield from _left_open(context)


def _left_open(context: Context) -> Iterator[Finding]:
    end = context.function.body.terminator
    if context.function.kind != "program":
        return

    def step(op: Op, index: int) -> bool | None:
        return op.name in ("lm.begin", "lm.end", "lm.prompt", "lm.prologue")

    found_ops = back(end.operands[1], context.facts, step)
    for op in found_ops.certain if all(o.name == "lm.begin" for o in found_ops.ops) else ():
        role = str(op.attributes["role"])
        if role != "assistant":
            yield found(
                UNBALANCED_ROLE, op.location, f"the turn of '{role}' is never closed",
                f"close it: s += lmc.{role}_end(), or write lmc.{role}(...)",
            )  # fmt: skip


def _last_borders(state: Value, context: Context) -> tuple[Op, ...] | None:
    """Return the ops that may have opened or closed a turn last (or made the prompt)."""

    def step(op: Op, index: int) -> bool | None:
        if op.name == "lm.join":
            return None
        return op.name in ("lm.begin", "lm.end", "lm.prompt", "lm.prologue")

    return back(state, context.facts, step).certain or None


def _open_roles(borders: tuple[Op, ...]) -> set[str | None]:
    """Return the roles that may be open after the last borders, None for no role."""
    return {str(op.attributes["role"]) if op.name == "lm.begin" else None for op in borders}


def role_of_generation(context: Context) -> Iterator[Finding]:
    """Find generations in a turn of the user or of the system."""
    for op in context.ops:
        if op.name not in CALLS:
            continue
        borders = _last_borders(op.operands[0], context)
        if borders is not None and _open_roles(borders) == {"system"}:
            yield found(
                UNBALANCED_ROLE, op.location, "this is generated in a turn of 'system'",
                "close the turn first, and generate in lmc.assistant(...)", severity="hint",
            )  # fmt: skip


RULES = (trailing_blanks, control_texts, empty_prompts, unbalanced_roles, role_of_generation)
