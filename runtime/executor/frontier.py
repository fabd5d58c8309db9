"""The frontier: the steps that may still fail, in program order.

Steps run as soon as their inputs are there, in any order. Still a run behaves as if they ran
one after another: it fails with the first error in program order, though nobody reads what
failed, and a host call with effects starts only when no step before it can fail any more.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from lmc.runtime.executor.slots import Order

SLACK = 1024
"""Entries of steps that have ended which the heap may hold besides four per live step."""


class Frontier:
    """Keeps the orders of live steps; belongs to the loop's thread.

    `on_change` is called when a step has left.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._live: set[Order] = set()
        self._heap: list[Order] = []
        self._waiting: list[tuple[Order, Callable[[], None]]] = []

    @property
    def is_empty(self) -> bool:
        """Whether no step can fail any more."""
        return not self._live

    def first(self) -> Order | None:
        """Return the place of the first step that can still fail."""
        heap, live = self._heap, self._live
        while heap and heap[0] not in live:
            heappop(heap)
        return heap[0] if heap else None

    def enter(self, order: Order) -> None:
        """Note a step that may fail."""
        self._live.add(order)
        heap = self._heap
        if len(heap) > SLACK + 4 * len(self._live):
            heap[:] = self._live
            heapify(heap)
        else:
            heappush(heap, order)

    def leave(self, order: Order) -> None:
        """Note that a step cannot fail any more, or has failed."""
        self._live.discard(order)
        if self._waiting:
            self._start_waiting()
        self._on_change()

    def move(self, before: Order, after: Order) -> None:
        """Note that a loop's next trip is the first thing of it that can still fail."""
        self.enter(after)
        self.leave(before)

    def when_first(self, order: Order, then: Callable[[], None]) -> None:
        """Call `then` when no step before the live one at `order` can fail."""
        if self.first() == order:
            then()
        else:
            heappush(self._waiting, (order, then))

    def drop(self, after: Order, before: Order) -> None:
        """Forget the steps between two places: they are not carried out any more."""
        self._live = {order for order in self._live if not after < order < before}
        self._waiting = [entry for entry in self._waiting if not after < entry[0] < before]
        heapify(self._waiting)
        self._start_waiting()

    def _start_waiting(self) -> None:
        while self._waiting and self._waiting[0][0] == self.first():
            heappop(self._waiting)[1]()
