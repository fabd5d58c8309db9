"""The ops on prompt states that ask no model: what they append, read, fork and join."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace

from lmc.errors import AppendError, RunError, VariableError
from lmc.ir.core import Op
from lmc.ir.expressions import HIDDEN, NO_VALUE, NO_VALUE_HINT, shown_names
from lmc.ir.interpreter_demand import Traced, join_prompts, union
from lmc.ir.interpreter_prompt import Prompt
from lmc.ir.media import load_content
from lmc.ir.target import Target
from lmc.ir.turns import default_turns, nested_turn

MAX_CHILDREN = 65_536


def root_state(target: Target, op: Op, lineage: tuple[str, ...]) -> Prompt:
    """Return the state that `lm.prompt` or `lm.prologue` opens in a running program."""
    made = Prompt(lineage=lineage)
    for kind, text in op.attributes.get("pieces", []):  # type: ignore[union-attr, misc]
        made = _append(target, made, str(kind), str(text))
    return made


def _append(target: Target, prompt: Prompt, kind: str, text: str) -> Prompt:
    """Append a text, a role's opening or closing, or a control token."""
    tokenizer, template = target.tokenizer, target.template
    if kind == "text":
        return prompt.append_text(text)
    if kind == "control":
        token_id = tokenizer.control_id(text)
        if token_id is None:
            raise RunError(
                f"model '{target.name}' has no control token {text!r}",
                hint="control tokens are those that the tokenizer lists as special",
            )
        return prompt.append_ids((token_id,), text)
    if template is None:
        raise RunError(
            f"model '{target.name}' has no chat template, so it has no role '{text}'",
            hint="write the prompt without roles, or choose an instruct model",
        )
    index = prompt.open_index
    if kind == "begin" and index is not None:
        raise nested_turn(text, prompt.turns[index].role)
    if kind == "begin":
        before = () if prompt.turns else default_turns(template, tokenizer, text, len(prompt.text))
        pieces = template.begin(text, is_first=not prompt.turns)
        return prompt.append_pieces(pieces, tokenizer).open_turn(text, before)
    if index is None or prompt.turns[index].role != text:
        opened = "none is" if index is None else f"that of '{prompt.turns[index].role}' is"
        raise RunError(
            f"no turn of '{text}' can be closed: {opened} open",
            hint="every begin needs an end of the same role",
        )
    return prompt.close_turn().append_pieces(template.end(text), tokenizer)


def _extend(target: Target, op: Op, operands: Sequence[Traced]) -> list[Traced]:
    state, text = operands
    if isinstance(text.value, Prompt):
        raise RunError("a prompt state is not text", hint="use its text(): s.text()")
    if not isinstance(text.value, str):
        raise AppendError(
            f"only text can be appended to a prompt, not {type(text.value).__name__}: "
            f"{text.value!r:.80}",
            hint="make it a str first: str(...) or an f-string",
        )
    return [Traced(state.value.append_text(text.value, text.all_calls))]


def _marker(target: Target, op: Op, operands: Sequence[Traced]) -> list[Traced]:
    prompt: Prompt = operands[0].value
    if prompt.failed is not None:
        return [operands[0]]
    kind = op.name.removeprefix("lm.")
    word = op.attributes["token" if kind == "control" else "role"]
    return [Traced(_append(target, prompt, kind, str(word)))]


def _image(target: Target, op: Op, operands: Sequence[Traced]) -> list[Traced]:
    prompt: Prompt = operands[0].value
    kind, given = str(op.attributes["kind"]), [operand.value for operand in operands[1:]]
    content = load_content(kind, *given)
    return [Traced(prompt.append_media(content, union(operands[1:])))]


def _fork(target: Target, op: Op, operands: Sequence[Traced]) -> list[Traced]:
    prompt: Prompt = operands[0].value
    count, calls = op.attributes.get("count"), union(operands[1:])
    if count is None:
        count = operands[1].value
    if type(count) is not int or not 0 <= count <= MAX_CHILDREN:
        raise RunError(f"cannot fork {count!r:.80} children", hint=f"0 to {MAX_CHILDREN}")
    children = [prompt.child(index) for index in range(count)]
    items = {i: Traced(child).needing(calls) for i, child in enumerate(children)}
    values = [item.value for item in items.values()]
    return [Traced(prompt.count()), Traced(values, calls, items)]


def _group(target: Target, op: Op, operands: Sequence[Traced]) -> list[Traced]:
    return list(operands[1:])


def _join(target: Target, op: Op, operands: Sequence[Traced]) -> list[Traced]:
    parent, children = operands
    held = children.value
    if not isinstance(held, (list, tuple)) or not all(isinstance(c, Prompt) for c in held):
        raise RunError("join takes a list of prompt states")
    joined = join_prompts(parent.value, held, str(op.attributes["mode"]))
    return [Traced(joined.needing(children.calls) if children.calls else joined)]


def _tick(target: Target, op: Op, operands: Sequence[Traced]) -> list[Traced]:
    return [Traced(operands[0].value.count(op.attributes["n"]))]


def _again(target: Target, op: Op, operands: Sequence[Traced]) -> list[Traced]:
    """Take the answer of an equal call: what it appended, and copies of value and meta."""
    state, after, *answer = operands
    prompt, first = state.value, after.value
    value, meta = map(_copied, answer)
    made = replace(prompt, runs=first.runs, text_calls=prompt.text_calls | first.text_calls).count()
    if "name" in op.attributes:
        made = made.set(str(op.attributes["name"]), value, meta)
    return [Traced(made), value, meta]


def _copied(given: Traced) -> Traced:
    items = None
    if given.items is not None:
        items = {key: _copied(item) for key, item in given.items.items()}
    return replace(given, value=copy.deepcopy(given.value), items=items)


def _place(target: Target, op: Op, operands: Sequence[Traced]) -> list[Traced]:
    state, place = (operand.value for operand in operands)
    return [Traced(replace(state, lineage=place.lineage, ordinal=place.ordinal))]


def _set(target: Target, op: Op, operands: Sequence[Traced]) -> list[Traced]:
    name = _name(op, operands[2:])
    return [Traced(operands[0].value.set(name, operands[1], None, union(operands[2:])))]


def _get(target: Target, op: Op, operands: Sequence[Traced]) -> list[Traced]:
    prompt, name = operands[0].value, _name(op, operands[1:])
    if prompt.failed is not None:
        raise prompt.failed.error
    held = prompt.metas if op.name == "lm.meta" else prompt.variables
    if name not in held:
        known = shown_names(held)
        if name.startswith(HIDDEN):
            raise VariableError(NO_VALUE, hint=NO_VALUE_HINT)
        if op.name == "lm.get":
            raise VariableError(
                f"the state has no variable {name!r}", hint=f"variables set so far: {known}"
            )
        raise VariableError(
            f"no generation set the variable {name!r}", hint=f"generated so far: {known}"
        )
    return [held[name].needing(prompt.names[name] | union(operands[1:]))]


def _has(target: Target, op: Op, operands: Sequence[Traced]) -> list[Traced]:
    prompt: Prompt = operands[0].value
    name = _name(op, operands[1:])
    known_after = prompt.names.get(name, prompt.name_calls)
    found = name in prompt.variables if prompt.failed is None else prompt.failed
    return [Traced(found, known_after | union(operands[1:]))]


def _text(target: Target, op: Op, operands: Sequence[Traced]) -> list[Traced]:
    prompt: Prompt = operands[0].value
    value: object = prompt.text if op.name == "lm.text" else prompt.messages
    if prompt.failed is not None:
        value = prompt.failed
    return [Traced(value, prompt.text_calls)]


def _name(op: Op, operands: Sequence[Traced]) -> str:
    name = operands[0].value if operands else op.attributes["name"]
    if not isinstance(name, str):
        raise RunError(f"a variable's name is a str, not {name!r:.80}")
    return name


STATE_OPS: dict[str, Callable[[Target, Op, Sequence[Traced]], list[Traced]]] = {
    "lm.extend": _extend, "lm.begin": _marker, "lm.end": _marker, "lm.control": _marker,
    "lm.image": _image,
    "lm.unordered": lambda target, op, operands: [operands[0]],
    "lm.foresee": lambda target, op, operands: [operands[0]],
    "lm.fork": _fork, "lm.group": _group, "lm.join": _join, "lm.tick": _tick, "lm.set": _set,
    "lm.again": _again, "lm.place": _place,
    "lm.get": _get, "lm.meta": _get, "lm.has": _has, "lm.text": _text, "lm.messages": _text,
}  # fmt: skip
"""What carries out each op, given its operands."""
