"""Prologues and groups: prefixes that are computed before the calls that share them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from lmc.ir.target import Prefill
from lmc.runtime.executor.code import Operation
from lmc.runtime.executor.prologues import prologues_of
from lmc.runtime.executor.slots import StateHandle, link, not_a_state
from lmc.runtime.executor.state_ops import tell, with_root
from lmc.runtime.executor.task import Task
from lmc.runtime.prompt_state import PromptState, prologue_state


class GroupPin:
    """A group's common prefix, kept computed until each child's first call is answered."""

    def __init__(self, prefill: Prefill, num_children: int) -> None:
        self._prefill: Prefill | None = prefill
        self._missing = set(range(num_children))

    def use(self, child: int) -> None:
        """Note that a child's first call is answered; the last one gives the pin back."""
        self._missing.discard(child)
        if not self._missing:
            self.release()

    def release(self) -> None:
        """Give the pin back, once."""
        prefill, self._prefill = self._prefill, None
        if prefill is not None:
            prefill.release()


class ChildPin:
    """A child's share in its group's pin; the state's next call uses it up."""

    __slots__ = ("_child", "_pin")

    def __init__(self, pin: GroupPin, child: int) -> None:
        self._pin = pin
        self._child = child

    def used(self) -> None:
        """Note that the child's first call is answered."""
        self._pin.use(self._child)


def prologue(task: Task) -> None:
    """Open a root state with constant text, once its prefix is computed."""
    with_root(task, partial(_open_prologue, task))


def _open_prologue(task: Task, root: PromptState) -> None:
    run, attributes = task.run, task.step.attributes
    state = prologue_state(attributes["pieces"], root)
    ids = tuple(attributes.get("token_ids") or state.stable_context())
    own = prologue_state(attributes["pieces"][: attributes.get("told", 0)], root)
    held_back = len(state.context_ids()) - len(ids) if state.text_len else 0
    run.held_back_tokens = max(run.held_back_tokens, held_back)
    forced = max(0, -held_back)  # ids behind the prompt that the next generation begins with

    def ready(computed: Any) -> None:
        if isinstance(computed, int):
            run.prologue_tokens += max(0, computed - forced)
        if "told" not in attributes:
            task.give_one(0, tell(task, state))
            return
        if "tells" in attributes:
            tell(task, own)
        task.give_one(0, replace(state, told_len=own.text_len))

    if not ids:
        ready(0)
        return
    store = prologues_of(run.backend)
    run.begin(partial(store.ensure, run.backend, ids), ready)


def group(task: Task) -> None:
    """Have the parent's prefix computed; the children's contents follow."""
    handles = task.values()
    for handle in handles:
        if not isinstance(handle, StateHandle):
            raise not_a_state(handle)
    parent, children = handles[0], handles[1:]
    for position, child in enumerate(children):
        link(child.identity, task.output(position).value.identity, task.ready)
    if task.run.switches.groups:
        task.wait([parent.content], partial(_prefill, task, parent, children))
    else:
        _give_children(task, children, None)


def _prefill(task: Task, parent: StateHandle, children: Sequence[StateHandle]) -> None:
    ids = parent.content.value.stable_context()
    if not ids:
        _give_children(task, children, None)
        return

    def ready(result: Any) -> None:
        # A prefix that cannot be computed is told by the calls behind it.
        pin = None
        if not isinstance(result, BaseException):
            task.run.shared_tokens += result.computed_tokens
            pin = GroupPin(result, len(children))
            task.run.pins.append(pin)
        _give_children(task, children, pin)

    run = task.run
    submit = run.backend.submit_prefill
    hinted = getattr(run.backend, "submit_hinted_prefill", None)
    if hinted is not None:
        submit = partial(hinted, replace(run.hint(parent.content.value.live), number=0))
    run.begin(run.loop.opening.holding(ids, partial(submit, ids)), ready)


def _give_children(task: Task, children: Sequence[StateHandle], pin: GroupPin | None) -> None:
    for position, child in enumerate(children):
        origin = task.slot(position + 1).origin
        change = partial(_pinned, pin, position, origin)
        link(child.content, task.output(position).value.content, task.ready, change=change)


def _pinned(pin: GroupPin | None, child: int, origin: Any, state: PromptState) -> PromptState:
    state = state.needing(origin)
    return state if pin is None else state.pinned(ChildPin(pin, child))


PREFILL_OPERATIONS: dict[str, Operation] = {
    "lm.prologue": Operation(prologue),
    "lm.group": Operation(group),
}
