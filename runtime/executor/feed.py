"""The feed of a run: the text of its own state as it comes, kept for readers on any thread."""

import threading
from collections.abc import Callable
from typing import Any

from lmc.runtime.prompt_state import Lineage


class Feed:
    """Pieces of the text of a run's own state and of the variables that calls set on it.

    The executor's thread adds; readers ask for what came since their last look. What stands
    under a name are the pieces of the first call with that name.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._text: list[str] = []
        self._pieces: dict[str, list[str]] = {}
        self._metas: dict[str, Any] = {}
        self._is_ended = False
        self._wakers: list[Callable[[], None]] = []

    def on_event(self, kind: str, name: str | None, text: str, lineage: Lineage) -> None:
        """Take a piece of text."""
        if lineage:
            return
        with self._changed:
            self._text.append(text)
            if kind != "text" and name is not None and name not in self._metas:
                self._pieces.setdefault(name, []).append(text)
        self._wake()

    def on_variable(self, name: str, value: Any, meta: Any, lineage: Lineage) -> None:
        """Take note that a call has given a variable its value."""
        if lineage:
            return
        with self._changed:
            self._metas.setdefault(name, meta)
            self._pieces.setdefault(name, [])
        self._wake()

    def end(self) -> None:
        """Note that the run has ended."""
        with self._changed:
            self._is_ended = True
        self._wake()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
            wakers = list(self._wakers)
        for waker in wakers:
            waker()

    def look(self, name: str | None, seen: int) -> tuple[list[str], bool]:
        """Return the pieces behind the first `seen`, and whether they are the last ones."""
        with self._changed:
            return self._look(name, seen)

    def _look(self, name: str | None, seen: int) -> tuple[list[str], bool]:
        pieces = self._text if name is None else self._pieces.get(name, [])
        is_over = self._is_ended or (name is not None and name in self._metas)
        return pieces[seen:], is_over

    def wait(self, name: str | None, seen: int) -> tuple[list[str], bool]:
        """Return what `look` does, once there is something to return."""
        with self._changed:
            self._changed.wait_for(lambda: any(self._look(name, seen)))
            return self._look(name, seen)

    def meta(self, name: str) -> Any:
        """Return the meta dict of the call that set a variable; None before it has."""
        with self._changed:
            return self._metas.get(name)

    def has(self, name: str) -> bool:
        """Whether a call with that name has given pieces or its value."""
        with self._changed:
            return name in self._pieces

    def subscribe(self, waker: Callable[[], None]) -> Callable[[], None]:
        """Have `waker` called after every change, on any thread; returns what ends that."""
        with self._changed:
            self._wakers.append(waker)

        def leave() -> None:
            with self._changed:
                self._wakers.remove(waker)

        return leave
