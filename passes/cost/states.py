"""What each op of a prompt state does to what is known of it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lmc.ir.core import Op
from lmc.ir.media import MARK
from lmc.passes.cost.contexts import Gap, Stretch
from lmc.passes.cost.intervals import Interval, exactly
from lmc.passes.cost.prompts import AbstractPrompt, IdRun, name_of
from lmc.passes.cost.tally import Cost
from lmc.passes.cost.values import (
    Abstract,
    Items,
    Known,
    OneOf,
    alternatives,
    items_of,
)

if TYPE_CHECKING:
    from lmc.passes.cost.walk import CostWalk, Scene

Rule = Callable[["CostWalk", Op, list[Abstract], "Scene"], list[Abstract] | None]
"""Returns what is known of the results, or None where nothing is."""

MAX_CHILDREN = 256


def root_prompt(walk: "CostWalk", pieces: Sequence[Sequence[str]]) -> AbstractPrompt:
    """Return a root state with constant pieces appended."""
    prompt = AbstractPrompt()
    for kind, text in pieces:
        if kind == "text":
            prompt = prompt.append(text, len(text.encode("utf-8", "surrogatepass")))
        else:
            prompt = append_marker(walk, prompt, kind, text)
    return prompt


def append_marker(walk: "CostWalk", prompt: AbstractPrompt, kind: str, word: str) -> AbstractPrompt:
    """Append a control token, or what opens or closes a turn."""
    if kind == "control":
        token_id = walk.target.tokenizer.control_id(word)
        run = IdRun(() if token_id is None else (token_id,))
        return prompt.append_run(run, len(word), prompt.ready)
    template = walk.target.template
    if template is None:
        return prompt
    if kind == "end":
        return prompt.append_pieces(template.end(word))
    opened = prompt.append_pieces(template.begin(word, is_first=not prompt.turns))
    return replace(opened, turns=prompt.turns + 1)


def _prompt(walk: "CostWalk", op: Op, given: list[Abstract], scene: "Scene") -> list[Abstract]:
    pieces: Any = op.attributes.get("pieces", ())
    return [Abstract(root_prompt(walk, pieces))]


def _prologue(walk: "CostWalk", op: Op, given: list[Abstract], scene: "Scene") -> list[Abstract]:
    (made,) = _prompt(walk, op, given, scene)
    _compute_ahead(walk, op, made.value, scene)
    return [made]


def _compute_ahead(walk: "CostWalk", op: Op, prompt: AbstractPrompt, scene: "Scene") -> None:
    """Count a prefix that is computed before the calls that share it."""
    symbols = prompt.symbols(walk.encoder, stable=True)
    prefill, held = scene.computed.missing(symbols)
    scene.tally.add(op.location, Cost(prefill=prefill, held=Interval(0, held)))
    scene.computed.add(symbols)


def _extend(walk: "CostWalk", op: Op, given: list[Abstract], scene: "Scene") -> Any:
    prompt, text = given
    if not isinstance(prompt.value, AbstractPrompt):
        return None
    if math.isinf(_size(text)):
        scene.tally.unbounded.setdefault(op.location, "the length of this text is not known")
    made = prompt.value.append_value(text, walk.serials)
    return [Abstract(made, max(prompt.ready, text.ready))]


def _size(given: Abstract) -> float:
    from lmc.passes.cost.values import size_of

    return size_of(given.value)


def _marker(walk: "CostWalk", op: Op, given: list[Abstract], scene: "Scene") -> Any:
    prompt = given[0].value
    if not isinstance(prompt, AbstractPrompt):
        return None
    kind = op.name.removeprefix("lm.")
    word = str(op.attributes["token" if kind == "control" else "role"])
    return [Abstract(append_marker(walk, prompt, kind, word), given[0].ready)]


def _image(walk: "CostWalk", op: Op, given: list[Abstract], scene: "Scene") -> Any:
    """Append a picture: one id, known by its bytes."""
    prompt, *source = given
    known = alternatives(source[0].value)
    key = known[0] if known and len(known) == 1 else walk.serials.next()
    run = Stretch(("image", op.attributes["kind"], key), exactly(1), exactly(1), 1)
    ready = max(operand.ready for operand in given)
    return [Abstract(prompt.value.append_run(run, len(MARK), ready), ready)]


def _fork(walk: "CostWalk", op: Op, given: list[Abstract], scene: "Scene") -> Any:
    prompt, count = given[0], op.attributes.get("count")
    if count is None:
        counts = alternatives(given[1].value)
        count = counts[0] if counts and len(counts) == 1 else None
    if not isinstance(prompt.value, AbstractPrompt) or type(count) is not int:
        return None
    child = Abstract(prompt.value.child(), prompt.ready)
    children = tuple(child for _ in range(min(count, MAX_CHILDREN + 1)))
    return None if len(children) > MAX_CHILDREN else [prompt, Abstract(Items(children))]


def _group(walk: "CostWalk", op: Op, given: list[Abstract], scene: "Scene") -> Any:
    if isinstance(given[0].value, AbstractPrompt):
        _compute_ahead(walk, op, given[0].value, scene)
    return given[1:]


def _join(walk: "CostWalk", op: Op, given: list[Abstract], scene: "Scene") -> Any:
    parent, items = given[0], items_of(given[1].value)
    if not isinstance(parent.value, AbstractPrompt) or items is None:
        return None
    children = [item.value for item in items]
    if not all(isinstance(child, AbstractPrompt) for child in children):
        return None
    made, ready = parent.value, max([parent.ready, *(item.ready for item in items)])
    if op.attributes["mode"] == "concate_and_append":
        for child in children:
            added = max(0.0, child.size - child.forked_text)
            made = made.append(Gap(walk.serials.next(), added), added)
    names = dict.fromkeys(n for c in children for n in c.variables if n not in c.forked_names)
    nothing = Abstract(Known(None))
    for name in names:
        values = tuple(child.variables.get(name, nothing) for child in children)
        made = made.set(name, Abstract(Items(values), ready), has_meta=True)
    made = replace(made, ready=max(made.ready, ready))
    if any(child.has_unknown_names for child in children):
        made = replace(made, has_unknown_names=True)
    return [Abstract(made, ready)]


def _same(walk: "CostWalk", op: Op, given: list[Abstract], scene: "Scene") -> list[Abstract]:
    return [given[0]]


def _again(walk: "CostWalk", op: Op, given: list[Abstract], scene: "Scene") -> Any:
    """Take the answer of an equal call: the contexts are equal, so what is behind them is."""
    prompt, after, value, meta = given
    if not isinstance(prompt.value, AbstractPrompt) or not isinstance(after.value, AbstractPrompt):
        return None
    ready = max(prompt.ready, after.ready, value.ready)
    size = max(prompt.value.size, after.value.size)
    made = replace(prompt.value, runs=after.value.runs, size=size, ready=ready)
    if "name" in op.attributes:
        made = made.set(str(op.attributes["name"]), value, has_meta=True)
    return [Abstract(made, ready), value, meta]


def _set(walk: "CostWalk", op: Op, given: list[Abstract], scene: "Scene") -> Any:
    prompt, value, *names = given
    if not isinstance(prompt.value, AbstractPrompt):
        return None
    name = op.attributes.get("name") if not names else _only_name(names[0])
    return [Abstract(prompt.value.set(name, value, has_meta=False), prompt.ready)]  # type: ignore[arg-type]


def _only_name(given: Abstract) -> str | None:
    found = name_of(given)
    return found[0] if found and len(found) == 1 else None


def _get(walk: "CostWalk", op: Op, given: list[Abstract], scene: "Scene") -> Any:
    prompt, *names = given
    name = op.attributes.get("name") if not names else _only_name(names[0])
    if not isinstance(prompt.value, AbstractPrompt) or name not in prompt.value.variables:
        return None
    # A variable is read off a state, which is there once all that stands on it is answered.
    found = prompt.value.variables[str(name)]
    return [Abstract(found.value, max(found.ready, prompt.ready, prompt.value.ready))]


def _has(walk: "CostWalk", op: Op, given: list[Abstract], scene: "Scene") -> Any:
    prompt, *names = given
    name = op.attributes.get("name") if not names else _only_name(names[0])
    if not isinstance(prompt.value, AbstractPrompt) or name is None:
        return None
    state = prompt.value
    is_open = state.has_unknown_names or name in state.may_have
    found = Known(name in state.variables) if not is_open else OneOf((True, False))
    return [Abstract(found, prompt.ready)]


def _text(walk: "CostWalk", op: Op, given: list[Abstract], scene: "Scene") -> Any:
    prompt = given[0].value
    if not isinstance(prompt, AbstractPrompt):
        return None
    return [Abstract(walk.serials.unknown(prompt.size, is_text=True), prompt.ready)]


STATE_RULES: dict[str, Rule] = {
    "lm.prompt": _prompt, "lm.prologue": _prologue, "lm.extend": _extend, "lm.begin": _marker,
    "lm.end": _marker, "lm.control": _marker, "lm.fork": _fork, "lm.group": _group,
    "lm.join": _join, "lm.tick": _same, "lm.unordered": _same, "lm.foresee": _same,
    "lm.image": _image, "lm.set": _set, "lm.get": _get, "lm.has": _has, "lm.text": _text,
    "lm.again": _again, "lm.place": _same,
}  # fmt: skip
