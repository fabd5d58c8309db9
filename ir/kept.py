"""Kept: the last few things compiled from source texts, refusals among them."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from lmc.errors import ConstraintError

T = TypeVar("T")


class Kept(Generic[T]):
    """What was compiled last, by source; safe between threads.

    Args:
        size: how many are kept.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, T | ConstraintError] = OrderedDict()

    def find(self, source: str) -> T | None:
        """Return what is kept of a source; None where nothing is.

        Raises:
            ConstraintError: the source was refused.
        """
        with self._lock:
            found = self._entries.get(source)
            if found is not None:
                self._entries.move_to_end(source)
        if isinstance(found, ConstraintError):
            raise found.again()
        return found

    def get(self, source: str, build: Callable[[], T]) -> T:
        """Return what is kept of a source, or build and keep it.

        Raises:
            ConstraintError: `build` raised it, now or before.
        """
        found = self.find(source)
        if found is None:
            try:
                found = build()
            except ConstraintError as error:
                self._put(source, error.again())
                raise
            self._put(source, found)
        return found

    def _put(self, source: str, entry: "T | ConstraintError") -> None:
        with self._lock:
            self._entries[source] = entry
            self._entries.move_to_end(source)
            while len(self._entries) > self._size:
                self._entries.popitem(last=False)
