"""Prologues: constant prefixes that are computed once per process and backend, and pinned."""

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from weakref import WeakKeyDictionary

from lmc.errors import LmcError
from lmc.ir.target import Backend, OnPrefill, Prefill, Ticket

MAX_PROLOGUES = 32
"""Prologues that stay pinned per backend; the one unused for longest is given back first."""

TokenIds = tuple[int, ...]
OnReady = Callable[[int], None]
Submit = Callable[[OnPrefill], Ticket]


class Waiter:
    """One run that waits for a prologue; `cancel` ends its wait."""

    def __init__(self, store: "PrologueStore", entry: "Entry", on_ready: OnReady) -> None:
        self._store = store
        self._entry = entry
        self.on_ready = on_ready

    def cancel(self) -> None:
        """Stop waiting; a prefill that nobody else waits for is cancelled."""
        self._store.leave(self._entry, self)


class Entry:
    """A prologue: being computed while `waiters` is a list, pinned when `prefill` is set."""

    def __init__(self) -> None:
        self.waiters: list[Waiter] | None = []
        self.prefill: Prefill | None = None
        self.ticket: Ticket | None = None


class PrologueStore:
    """The prologues of one backend; used from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: OrderedDict[TokenIds, Entry] = OrderedDict()

    def load(self, ids: TokenIds, submit: Submit) -> None:
        """Have a prefix pinned in another way than by computing it, unless it is there."""
        with self._lock:
            if ids in self._entries:
                return
            entry = self._entries[ids] = Entry()
        self._trim()
        self._submit(ids, entry, submit)

    def ensure(self, backend: Backend, ids: TokenIds, on_ready: OnReady) -> Waiter | None:
        """Have a prefix computed and pinned, once.

        `on_ready` is called from any thread, when the prefix is computed or cannot be, with
        the number of tokens computed for this caller: 0 for all callers but the first.
        """
        with self._lock:
            entry = self._entries.get(ids)
            is_new = entry is None
            if entry is None:
                entry = self._entries[ids] = Entry()
            self._entries.move_to_end(ids)
            waiter = Waiter(self, entry, on_ready)
            if entry.waiters is not None:
                entry.waiters.append(waiter)
            is_ready = entry.waiters is None
        if is_ready:
            on_ready(0)
            return None
        if is_new:
            self._trim()
            self._submit(ids, entry, partial(backend.submit_prefill, ids))
        return waiter

    def _submit(self, ids: TokenIds, entry: Entry, submit: Submit) -> None:
        try:
            entry.ticket = submit(partial(self._done, ids, entry))
        except LmcError as error:
            self._done(ids, entry, error)

    def leave(self, entry: Entry, waiter: Waiter) -> None:
        """Take a waiter out, or cancel the prefill if it is the only one."""
        with self._lock:
            waiters = entry.waiters
            if waiters is None or waiter not in waiters:
                return
            is_last = len(waiters) == 1
            if not is_last:
                waiters.remove(waiter)
        if not is_last:
            waiter.on_ready(0)
        elif entry.ticket is not None:
            entry.ticket.cancel()

    def _done(self, ids: TokenIds, entry: Entry, result: Prefill | BaseException) -> None:
        with self._lock:
            waiters, entry.waiters = entry.waiters or [], None
            if isinstance(result, BaseException):
                # Only a prefix that is not shared: the calls behind it tell what is wrong.
                if self._entries.get(ids) is entry:
                    del self._entries[ids]
            elif self._entries.get(ids) is entry:
                entry.prefill = result
            else:
                result.release()
        computed = 0 if isinstance(result, BaseException) else result.computed_tokens
        for waiter in waiters:
            waiter.on_ready(computed)
            computed = 0

    def _trim(self) -> None:
        """Give back the prologues that were unused for longest."""
        with self._lock:
            surplus = len(self._entries) - MAX_PROLOGUES
            ready = [ids for ids, entry in self._entries.items() if entry.prefill is not None]
            dropped = [self._entries.pop(ids) for ids in ready[: max(0, surplus)]]
        for entry in dropped:
            if entry.prefill is not None:
                entry.prefill.release()

    def release_all(self) -> None:
        """Give all pins back."""
        with self._lock:
            entries = list(self._entries.values())
            self._entries.clear()
        for entry in entries:
            if entry.prefill is not None:
                entry.prefill.release()


_stores: WeakKeyDictionary[Backend, PrologueStore] = WeakKeyDictionary()
_stores_lock = threading.Lock()


def prologues_of(backend: Backend) -> PrologueStore:
    """Return the prologues of a backend."""
    with _stores_lock:
        if backend not in _stores:
            store = _stores[backend] = PrologueStore()
            # A namespace of an engine may end long before the engine that has its pins.
            weakref.finalize(backend, store.release_all).atexit = False
        return _stores[backend]


def release_prologues(backend: Backend) -> None:
    """Give back what is pinned for constant prefixes on a backend."""
    prologues_of(backend).release_all()
