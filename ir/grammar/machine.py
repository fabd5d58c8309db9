"""Following a network from left to right: what has been read, as one interned state.

A `Place` is where a reading may be: a state of the network's rules, and a `Context`, which says
where each way goes on when its rule ends. Ways that called the same rule after the same text
share a context, so the places stay few where ways would be many (as in Earley's method), and a
text of length n never has more than n contexts per rule. `Reading`s that are equal are one
object; their next readings are kept, so a machine becomes a deterministic automaton by use.
"""

import threading

import numpy as np

from lmc.errors import EngineError
from lmc.ir.automata.dfa import DEAD
from lmc.ir.grammar.network import Network

MAX_READINGS = 50_000
"""Readings kept; beyond it all are forgotten but those in use."""

MAX_PLACES = 20_000
"""The most places of one reading: what grammars with very many meanings come to."""


class Context:
    """Where to go on when a rule ends: states with contexts. The text's own has none."""

    __slots__ = ("returns", "serial")

    def __init__(self, returns: "tuple[Place, ...]", serial: int) -> None:
        self.returns = returns
        self.serial = serial


Place = tuple[int, Context]


class Reading:
    """A text that has been read, as far as it matters for what may follow.

    Args:
        places: those from which a byte or a control token leads on.
        may_end: whether the text is derived as it stands.
    """

    __slots__ = ("may_end", "next", "places")

    def __init__(self, places: tuple[Place, ...], may_end: bool) -> None:
        self.places = places
        self.may_end = may_end
        self.next: dict[int | str, Reading | None] = {}


class Machine:
    """The readings of one network; safe between threads."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.root = Context((), 0)
        self.class_of = network.classes.tobytes()
        self.width = network.table.shape[1]
        self._flat = memoryview(network.table.reshape(-1))
        states = network.state_count
        accepting, is_open = network.accepting, (network.table != DEAD).any(axis=1)
        self._controls: dict[int, list[tuple[str, int]]] = {}
        for state, name, after in network.controls:
            is_open[state] = True
            self._controls.setdefault(state, []).append((name, after))
        callers = network.calls[:, 0]
        bounds = np.searchsorted(callers, np.arange(states + 1))
        has_calls = bounds[1:] > bounds[:-1]
        self._is_open: list[bool] = is_open.tolist()
        self._accepting: list[bool] = accepting.tolist()
        self._ends_only: list[bool] = (accepting & ~is_open & ~has_calls).tolist()
        self._is_plain: list[bool] = (is_open & ~accepting & ~has_calls).tolist()
        self._has_calls: list[bool] = has_calls.tolist()
        self._call_bounds: list[int] = bounds.tolist()
        self._calls: dict[int, list[tuple[int, int]]] = {}
        self._starts: list[int] = network.starts.tolist()
        self._ranks: list[int] = network.ranks.tolist()
        self._lock = threading.RLock()
        self._forget()

    def _forget(self) -> None:
        """Begin anew; readings that are in use go on by themselves."""
        self._contexts: dict[frozenset[Place], Context] = {}
        self._readings: dict[tuple[frozenset[Place], bool], Reading] = {}
        self._serial = getattr(self, "_serial", 0)
        start = self._closed([(self._starts[0], self.root)])
        if self.network.may_be_empty:
            start = self._interned(start.places, True)
        self.start = start

    @property
    def nbytes(self) -> int:
        """Memory held by readings, about."""
        return 600 * len(self._readings)

    def at(self, state: int, *, opens: bool = True) -> Reading:
        """Return the reading that stands in one state, as if its rule were the text's own.

        Without `opens` the rules that the state calls are left out.
        """
        with self._lock:
            if opens:
                return self._closed([(state, self.root)])
            return self._interned(((state, self.root),), False)

    def step(self, reading: Reading, letter: int | str) -> Reading | None:
        """Return the reading after a byte class or a control token's name; None if none may be.

        Raises:
            EngineError: the text has too many meanings at once.
        """
        found = reading.next.get(letter, self)
        if found is self:
            with self._lock:
                found = reading.next[letter] = self._step(reading, letter)
        return found  # type: ignore[return-value]

    def read(self, reading: Reading | None, data: bytes) -> Reading | None:
        """Return the reading after some bytes; None if they may not come."""
        class_of = self.class_of
        for byte in data:
            if reading is None:
                return None
            letter = class_of[byte]
            try:
                reading = reading.next[letter]
            except KeyError:
                reading = self.step(reading, letter)
        return reading

    def matches(self, data: bytes) -> bool:
        """Return whether the network derives a text."""
        reading = self.read(self.start, data)
        return reading is not None and reading.may_end

    def allowed_bytes(self, reading: Reading) -> bytes:
        """Return the bytes that may come next, ascending."""
        states = [state for state, _ in reading.places]
        live = (self.network.table[states] != DEAD).any(axis=0)
        return np.flatnonzero(live[self.network.classes]).astype(np.uint8).tobytes()

    def allowed_controls(self, reading: Reading) -> tuple[str, ...]:
        """Return the names of the control tokens that may come next."""
        if not self._controls:
            return ()
        named = [self._controls.get(state, ()) for state, _ in reading.places]
        names = [name for each in named for name, _ in each]
        return tuple(dict.fromkeys(names))

    def _step(self, reading: Reading, letter: int | str) -> Reading | None:
        places: list[Place] = []
        if isinstance(letter, str):
            for state, context in reading.places:
                named = self._controls.get(state, ())
                places += [(target, context) for name, target in named if name == letter]
        else:
            flat, width = self._flat, self.width
            for state, context in reading.places:
                after = flat[state * width + letter]
                if after >= 0:
                    places.append((after, context))
        return self._closed(places) if places else None

    def _closed(self, places: list[Place]) -> Reading:
        """Return the reading of places and all that they come to without reading on."""
        plain = self._is_plain
        if len(places) == 1 and plain[places[0][0]]:
            return self._interned((places[0],), False)
        accepting, has_calls = self._accepting, self._has_calls
        callers: dict[int, dict[Place, None]] = {}
        pending, seen = places[::-1], set(places)
        kept: list[Place] = []
        may_end = False
        while pending:
            place = pending.pop()
            state, context = place
            if self._is_open[state]:
                kept.append(place)
            if has_calls[state]:
                self._note(callers, place)
            if accepting[state]:
                may_end = may_end or context is self.root
                fresh = [each for each in context.returns if each not in seen]
                seen.update(fresh)
                pending += fresh
        while callers:
            rule = min(callers, key=self._ranks.__getitem__)
            context = self._context(callers.pop(rule))
            place = (self._starts[rule], context)
            if self._is_open[place[0]]:
                kept.append(place)
            if has_calls[place[0]]:
                self._note(callers, place)
        if len(kept) > MAX_PLACES:
            raise EngineError(
                f"the grammar has more than {MAX_PLACES} meanings for the text so far",
                hint="make the grammar less ambiguous",
            )
        return self._interned(tuple(kept), may_end)

    def _note(self, callers: dict[int, dict[Place, None]], place: Place) -> None:
        """Add what comes after each call of a place; the last call of a rule returns for it."""
        state, context = place
        for rule, after in self._calls_of(state):
            returns = callers.setdefault(rule, {})
            if self._ends_only[after] and context is not self.root:
                returns.update(dict.fromkeys(context.returns))
            else:
                returns[after, context] = None

    def _calls_of(self, state: int) -> list[tuple[int, int]]:
        """Return (rule, state after it) of what a state calls; made when first asked for."""
        found = self._calls.get(state)
        if found is None:
            rows = self.network.calls[self._call_bounds[state] : self._call_bounds[state + 1]]
            found = self._calls[state] = [(rule, after) for _, rule, after in rows.tolist()]
        return found

    def _context(self, returns: dict[Place, None]) -> Context:
        key = frozenset(returns)
        found = self._contexts.get(key)
        if found is None:
            self._serial += 1
            found = self._contexts[key] = Context(tuple(returns), self._serial)
        return found

    def _interned(self, places: tuple[Place, ...], may_end: bool) -> Reading:
        key = (frozenset(places), may_end)
        found = self._readings.get(key)
        if found is None:
            if len(self._readings) > MAX_READINGS:
                self._forget()
            found = self._readings[key] = Reading(places, may_end)
        return found
