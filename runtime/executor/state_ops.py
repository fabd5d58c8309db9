"""The ops on prompt states that ask no model."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from lmc.errors import RunError
from lmc.ir.evaluate import Undefined
from lmc.ir.media import REFUSAL_HINT, Content, load_content, refusal
from lmc.runtime.executor.code import Operation
from lmc.runtime.executor.slots import Identity, Slot, StateHandle, link, undefined
from lmc.runtime.executor.task import Task
from lmc.runtime.origins import Origin, join_origins, needing, shape_of
from lmc.runtime.prompt_state import Lineage, PromptState, checked_text, root_state

MAX_CHILDREN = 65_536


def give_state(task: Task, state: PromptState) -> None:
    """Give the first output its content, and tell the listener what text was added.

    Text that was moved ahead of a fork is told by the children that it was written for; what
    the state itself was given before is told first.
    """
    if "hoisted" not in task.step.attributes:
        task.give_one(0, tell(task, state))
        return
    told_len = tell_inherited(task, task.state()).told_len
    task.give_one(0, replace(state, told_len=told_len, untold=None))


def tell(task: Task, state: PromptState) -> PromptState:
    """Tell the listener, if there is one, what it was not told yet; return the state after."""
    state = tell_inherited(task, state)
    run, untold = task.run, state.text_len - state.told_len
    if run.on_event is None or untold <= 0:
        return state
    text = state.tail(untold)
    task.tell(partial(run.emit, "text", None, text, state.lineage))
    return state.told()


def tell_inherited(task: Task, state: PromptState) -> PromptState:
    """Tell the listener what a child was given by its parent; return the state after."""
    run, untold = task.run, state.untold
    if run.on_event is None or untold is None:
        return state
    if not untold.is_told:
        untold.is_told = True
        text = state.tail(state.text_len - state.told_len)[: untold.end - state.told_len]
        run.emit("text", None, text, state.lineage)
    return replace(state, told_len=untold.end, untold=None)


def prompt(task: Task) -> None:
    """Open the root state of the running program, or of one that was put in its place."""
    with_root(task, partial(task.give_one, 0))


def with_root(task: Task, then: Callable[[PromptState], None]) -> None:
    """Give the root its identity and call `then` with the empty state, once its lineage is known.

    That of a program called from a state is known before the state's text is.
    """

    def opened(lineage: Lineage) -> None:
        handle: StateHandle = task.output(0).value
        handle.identity.resolve((lineage, 0), None, task.run.ready)
        then(root_state(task.run.backend.target, lineage))

    if not task.step.inputs:
        opened(task.frame.scope.lineage)
        return
    caller = task.handle()
    task.wait([caller.identity], lambda: opened(called_from(caller.identity.value)))


def called_from(identity: Identity) -> Lineage:
    """Return the lineage of a program that is called from a state."""
    lineage, ordinal = identity
    return (*lineage, f"call{ordinal}")


def check_text(task: Task) -> str:
    """Return the text to append; raises RunError for other values."""
    text = task.value(1)
    if isinstance(text, Undefined):
        raise undefined(text)
    if isinstance(text, StateHandle):
        raise RunError("a prompt state is not text", hint="use its text(): s.text()")
    return checked_text(text)


def extend(task: Task) -> None:
    """Append text."""
    text: str = task.checked
    give_state(task, task.state().extend(text, task.slot(1).origin))


def marker(task: Task) -> None:
    """Open or close a turn, or append a control token."""
    before, attributes = task.state(), task.step.attributes
    match task.step.op:
        case "lm.begin":
            state = before.begin(attributes["role"])
        case "lm.end":
            state = before.end(attributes["role"])
        case _:
            state = before.control_token(attributes["token"])
    give_state(task, state)


def unordered(task: Task) -> None:
    """Begin or end a stretch whose order is free: the prompt is as it was."""
    task.give_one(0, task.state())


def check_image(task: Task) -> Content:
    """Return the image or video to append; raises RunError where the backend takes none."""
    backend, kind = task.run.backend, task.step.attributes["kind"]
    if not getattr(backend, "takes_media", False):
        raise RunError(refusal(backend.target.name, kind), hint=REFUSAL_HINT)
    given = [task.value(position) for position in range(1, len(task.step.inputs))]
    for value in given:
        if isinstance(value, Undefined):
            raise undefined(value)
    return load_content(kind, *given)


def image(task: Task) -> None:
    """Append an image or a video."""
    origin = join_origins(
        task.slot(position).origin for position in range(1, len(task.step.inputs))
    )
    give_state(task, task.state().with_media(task.checked, origin))


def tick(task: Task) -> None:
    """Count calls that a pass dropped or put in place; the state's content follows."""
    origin, count = task.slot(0).origin, task.step.attributes["n"]

    def counted(state: PromptState) -> PromptState:
        return state.needing(origin).tick(count)

    link(task.handle().content, task.output(0).value.content, task.run.ready, change=counted)


def place(task: Task) -> None:
    """Give the first state, at the place of the second."""
    origin, where = task.slot(0).origin, task.handle(1)

    def placed(state: PromptState) -> PromptState:
        lineage, ordinal = where.identity.value
        return replace(state.needing(origin), lineage=lineage, ordinal=ordinal)

    def known() -> None:
        link(task.handle().content, task.output(0).value.content, task.run.ready, change=placed)

    task.wait([where.identity], known)


def variable_name(task: Task, position: int) -> tuple[str, Origin | None]:
    """Return the name of the variable that a step is about: an attribute or an input."""
    if len(task.step.inputs) <= position:
        return task.step.attributes["name"], None
    name = task.value(position)
    if not isinstance(name, str):
        raise RunError(f"a variable's name is a str, not {name!r:.80}")
    return name, task.slot(position).origin


def check_variable(task: Task) -> tuple[str, Origin | None]:
    """Return the name of the variable to set; raises RunError for a wrong one or no value."""
    if isinstance(task.value(1), Undefined):
        raise undefined(task.value(1))
    return variable_name(task, 2)


def set_variable(task: Task) -> None:
    """Set a variable."""
    value = task.value(1)
    name, origin = task.checked
    state = task.state().set(name, value, task.slot(1).origin)
    if origin is not None:
        state = state.naming(origin)
    task.give_one(0, state)


def get_variable(task: Task) -> None:
    """Read a variable, or the meta dict of the call that set it."""
    state = task.state()
    name, origin = variable_name(task, 1)
    value = state.get(name) if task.step.op == "lm.get" else state.meta(name)
    known_after = join_origins((state.names.get(name), origin))
    task.give_one(0, value, needing(state.origins.get(name), known_after))


def has_variable(task: Task) -> None:
    """Tell whether a variable is set."""
    state = task.state()
    name, origin = task.checked
    known_after = state.names[name] if name in state.names else state.name_origin
    task.give_one(0, name in state.variables, join_origins((known_after, origin)))


def read_text(task: Task) -> None:
    """Read the whole text or the turns."""
    state = task.state()
    value: Any = state.text() if task.step.op == "lm.text" else state.messages()
    task.give_one(0, value, state.text_origin)


def fork(task: Task) -> None:
    """Fork a state: children are handles at once, their contents follow the parent's."""
    parent = task.handle()
    count: Any = task.step.attributes.get("count")
    origin = None
    if count is None:
        count, origin = task.value(1), task.slot(1).origin
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MAX_CHILDREN:
        raise RunError(f"cannot fork {count!r:.80} children", hint=f"0 to {MAX_CHILDREN}")
    content = Slot()
    link(parent.content, content, task.run.ready, change=partial(tell_inherited, task))
    children = [_child(task, parent, content, index, origin) for index in range(count)]
    task.give_one(1, children, origin)
    link(content, task.output(0).value.content, task.run.ready, change=_ticked(task))


def _child(
    task: Task, parent: StateHandle, told: Slot, index: int, origin: Origin | None
) -> StateHandle:
    """Return one child's handle; `told` will hold the parent's content."""

    def identity(of_parent: tuple[Lineage, int]) -> tuple[Lineage, int]:
        lineage, ordinal = of_parent
        return (*lineage, f"fork{ordinal}.{index}"), 0

    def content(state: PromptState) -> PromptState:
        return state.needing(task.slot(0).origin).child(index)

    child, ready = StateHandle(), task.run.ready
    link(parent.identity, child.identity, ready, change=identity)
    link(told, child.content, ready, change=content, control=origin)
    return child


def _ticked(task: Task) -> Callable[[PromptState], PromptState]:
    origin = task.slot(0).origin
    return lambda state: state.needing(origin).tick()


def check_children(task: Task) -> Sequence[StateHandle]:
    """Return the children to join; raises RunError for other values."""
    children = task.value(1)
    is_list = isinstance(children, (list, tuple))
    if not is_list or not all(isinstance(child, StateHandle) for child in children):
        raise RunError("join takes a list of prompt states")
    return children


def join(task: Task) -> None:
    """Join children into the parent, once all their contents are there."""
    children: Sequence[StateHandle] = task.checked

    def joined() -> None:
        parent = task.state()
        contents = [child.content.value for child in children]
        state = parent.join(contents, task.step.attributes["mode"])
        give_state(task, state.needing(shape_of(task.slot(1).origin)))

    task.wait([child.content for child in children], joined)


STATE_OPERATIONS: dict[str, Operation] = {
    "lm.prompt": Operation(prompt),
    "lm.extend": Operation(extend, reads=(0,), ticks=0, check=check_text),
    "lm.begin": Operation(marker, reads=(0,), ticks=0),
    "lm.end": Operation(marker, reads=(0,), ticks=0),
    "lm.control": Operation(marker, reads=(0,), ticks=0),
    "lm.image": Operation(image, reads=(0,), ticks=0, check=check_image),
    "lm.unordered": Operation(unordered, reads=(0,), ticks=0),
    "lm.tick": Operation(tick, ticks=1),
    "lm.place": Operation(place, ticks=0),
    "lm.set": Operation(set_variable, reads=(0,), ticks=0, check=check_variable),
    "lm.get": Operation(get_variable, reads=(0,)),
    "lm.meta": Operation(get_variable, reads=(0,)),
    "lm.has": Operation(has_variable, reads=(0,), check=partial(variable_name, position=1)),
    "lm.text": Operation(read_text, reads=(0,)),
    "lm.messages": Operation(read_text, reads=(0,)),
    "lm.fork": Operation(fork, ticks=1),
    "lm.join": Operation(join, reads=(0,), ticks=0, check=check_children, is_late=True),
}
