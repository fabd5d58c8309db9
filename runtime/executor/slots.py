"""Slots: promises of values that the executor's steps give and wait for.

Everything here runs on the loop's thread, except that slots may be made on any. A slot is
resolved or failed once; its waiters then go to the loop's queue, never called in place, so
that a chain of any length costs no depth of the Python stack.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from lmc.errors import RunError
from lmc.ir.evaluate import Undefined, undefined_error
from lmc.runtime.origins import Origin, needing
from lmc.runtime.prompt_state import Lineage, PromptState

Ready = deque[Callable[[], None]]
Order = tuple[int, ...]
Identity = tuple[Lineage, int]
"""Lineage and ordinal of a state: known before the state's text is."""


class Failure:
    """Why a slot has no value; `order` is the failing op's place in program order."""

    __slots__ = ("error", "order")

    def __init__(self, order: Order, error: BaseException) -> None:
        self.order = order
        self.error = error


class Slot:
    """A value that is known, failed, or still to come (`waiters` is None once it is there)."""

    __slots__ = ("failure", "origin", "value", "waiters")

    def __init__(self) -> None:
        self.value: Any = None
        self.failure: Failure | None = None
        self.origin: Origin | None = None
        self.waiters: list[Callable[[], None]] | None = []

    @property
    def is_done(self) -> bool:
        """Whether the slot has its value or its failure."""
        return self.waiters is None

    def resolve(self, value: Any, origin: Origin | None, ready: Ready) -> None:
        """Give the slot its value."""
        self.value = value
        self.origin = origin
        self._wake(ready)

    def fail(self, failure: Failure, ready: Ready) -> None:
        """Give the slot a failure instead of a value."""
        self.failure = failure
        self._wake(ready)

    def _wake(self, ready: Ready) -> None:
        waiters = self.waiters
        assert waiters is not None, "a slot is resolved once"
        self.waiters = None
        ready.extend(waiters)


class StateHandle:
    """A prompt state to come: its identity is known early, its content when calls are done."""

    __slots__ = ("content", "identity")

    def __init__(self, identity: Slot | None = None, content: Slot | None = None) -> None:
        self.identity = identity if identity is not None else Slot()
        self.content = content if content is not None else Slot()


def undefined(value: Undefined) -> RunError:
    """Return the error of reading a name that has no value."""
    return undefined_error(value.name)


def not_a_state(value: Any) -> RunError:
    """Return the error of using another value as a prompt state."""
    if isinstance(value, Undefined):
        return undefined(value)
    return RunError(f"expected a prompt state, got {type(value).__name__}")


def known(value: Any, origin: Origin | None = None) -> Slot:
    """Return a slot that has its value."""
    slot = Slot()
    slot.value = value
    slot.origin = origin
    slot.waiters = None
    return slot


def link(
    source: Slot,
    target: Slot,
    ready: Ready,
    *,
    control: Origin | None = None,
    change: Callable[[Any], Any] | None = None,
) -> None:
    """Give `target` what `source` gets, changed by `change`; it is known after `control`."""

    def copy() -> None:
        if target.failure is not None:
            return  # the step that made the link has failed since
        if source.failure is not None:
            target.fail(source.failure, ready)
            return
        value = source.value if change is None else change(source.value)
        if isinstance(value, PromptState):
            value = value.needing(control)
        target.resolve(value, needing(source.origin, control), ready)

    if source.waiters is None:
        copy()
    else:
        source.waiters.append(copy)


def link_state(
    source: Slot, target: StateHandle, ready: Ready, order: Order, *, control: Origin | None = None
) -> None:
    """Give a handle the state that `source` will hold; another kind of value is an error."""

    def copy() -> None:
        failure = source.failure
        if failure is None and not isinstance(source.value, StateHandle):
            failure = Failure(order, not_a_state(source.value))
        if failure is not None:
            for slot in (target.identity, target.content):
                if not slot.is_done:
                    slot.fail(failure, ready)
            return
        link(source.value.identity, target.identity, ready)
        origin = needing(source.origin, control)
        link(source.value.content, target.content, ready, control=origin)

    if source.waiters is None:
        copy()
    else:
        source.waiters.append(copy)
