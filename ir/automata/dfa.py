"""Deterministic automata over bytes: what a constraint compiles to."""

import struct
import zlib
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lmc.errors import ArtifactError
from lmc.ir.automata.minimise import distances

DEAD = -1
_MAGIC = b"LMCDFA02"
_HEADER = struct.Struct("<8sIIII")
"""Format, states, byte classes, bytes behind the header, CRC-32 of the numbers and these bytes."""

_SIZES = struct.Struct("<III")

States = NDArray[np.int16] | NDArray[np.int32]


def states_type(count: int) -> type[np.int16] | type[np.int32]:
    """Return the number type of tables that name `count` states."""
    return np.int16 if count < 2**15 else np.int32


@dataclass(frozen=True, slots=True, eq=False)
class ByteDfa:
    """A minimal automaton over bytes in which every state can still reach an end.

    Args:
        table: next state by [state, byte class], `DEAD` (-1) where no text may go on so;
            int16, or int32 for 32,768 states and more; C-contiguous, read-only.
        classes: byte class of each of the 256 bytes; uint8.
        accepting: whether the text may end, by state.

    State 0 is the start. States are numbered the same way for equal languages, so equal
    automata are equal byte for byte. `padded` is the table with a row of DEAD at its end, so
    that indexing it with DEAD (-1) gives DEAD.
    """

    table: States
    classes: NDArray[np.uint8]
    accepting: NDArray[np.bool_]
    padded: States = field(init=False, repr=False)
    _flat: memoryview = field(init=False, repr=False)
    _class_of: bytes = field(init=False, repr=False)
    _exits: NDArray[np.int16] | None = field(init=False, repr=False, default=None)
    _heads: list[int] | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        states, width = self.table.shape
        padded = np.full((states + 1, width), DEAD, dtype=states_type(states))
        padded[:-1] = self.table
        self._set(padded)

    def _set(self, padded: States) -> None:
        """Take over a table with its row of DEAD."""
        object.__setattr__(self, "padded", padded)
        object.__setattr__(self, "table", padded[:-1])
        for part in (self.padded, self.table, self.classes, self.accepting):
            part.flags.writeable = False
        object.__setattr__(self, "_flat", memoryview(self.table.reshape(-1)))
        object.__setattr__(self, "_class_of", self.classes.tobytes())

    @property
    def start(self) -> int:
        """The state of the empty text."""
        return 0

    @property
    def state_count(self) -> int:
        """The number of states."""
        return len(self.table)

    @property
    def nbytes(self) -> int:
        """Memory held by the arrays."""
        return self.table.nbytes + self.classes.nbytes + self.accepting.nbytes

    def step(self, state: int, data: bytes) -> int:
        """Return the state after `data`, or DEAD."""
        flat, class_of, width = self._flat, self._class_of, self.table.shape[1]
        for byte in data:
            state = flat[state * width + class_of[byte]]
            if state < 0:
                return DEAD
        return state

    def is_accepting(self, state: int) -> bool:
        """Return whether the text may end in `state`."""
        return bool(self.accepting[state])

    def matches(self, data: bytes) -> bool:
        """Return whether `data` is in the language."""
        state = self.step(0, data)
        return state != DEAD and self.is_accepting(state)

    def allowed_bytes(self, state: int) -> bytes:
        """Return the bytes that may come next, ascending."""
        return np.flatnonzero(self.table[state, self.classes] != DEAD).astype(np.uint8).tobytes()

    @property
    def exits(self) -> NDArray[np.int16]:
        """The one byte that each state can read; -1 where there are none or several."""
        if self._exits is None:
            object.__setattr__(self, "_exits", _single_exits(self.table, self.classes))
        assert self._exits is not None
        return self._exits

    def is_forced(self, state: int) -> bool:
        """Return whether one byte only may come next, and no end."""
        return not self.accepting[state] and self.exits[state] >= 0

    def forced_heads(self) -> list[int]:
        """Return the states where forced text begins, ascending."""
        if self._heads is None:
            forced = ~self.accepting & (self.exits >= 0)
            entered = np.zeros(len(self.table) + 1, dtype=bool)  # the last entry serves DEAD
            entered[self.table[~forced]] = True
            entered[self.start] = True
            heads: list[int] = np.flatnonzero(entered[:-1] & forced).tolist()
            object.__setattr__(self, "_heads", heads)
        assert self._heads is not None
        return self._heads

    def forced_bytes(self, state: int) -> bytes:
        """Return the bytes that must come next: as long as one byte only may, and no end."""
        out = bytearray()
        while self.is_forced(state):
            byte = int(self.exits[state])
            out.append(byte)
            state = int(self.table[state, self.classes[byte]])
        return bytes(out)

    def shortest_len(self) -> int:
        """Return the length in bytes of the shortest text."""
        return int(distances(self.table, self.accepting)[0][0])

    def longest_len(self) -> int | None:
        """Return the length in bytes of the longest text; None if there is none."""
        longest = int(distances(self.table, self.accepting)[1][0])
        return None if longest < 0 else longest

    def to_bytes(self) -> bytes:
        """Return a versioned, checksummed form; equal automata give equal bytes.

        It holds what is found out from the table, too, so that reading it computes nothing.
        """
        states, width = self.table.shape
        heads = np.zeros(states, dtype=bool)
        heads[self.forced_heads()] = True
        body = b"".join(
            (
                self.padded.astype(f"<i{self.padded.itemsize}").tobytes(),
                self.exits.astype("<i2").tobytes(),
                self.classes.tobytes(),
                np.packbits(self.accepting, bitorder="little").tobytes(),
                np.packbits(heads, bitorder="little").tobytes(),
            )
        )
        sizes = states, width, len(body)
        return _HEADER.pack(_MAGIC, *sizes, _checksum(sizes, body)) + body

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> "ByteDfa":
        """Read what `to_bytes` wrote; the data is kept, and is not to change.

        Raises:
            ArtifactError: the data is not an automaton, is damaged, or is of a later version.
        """
        if len(data) < _HEADER.size or data[:6] != _MAGIC[:6]:
            raise _damaged("the data does not begin with an automaton's header")
        magic, states, width, size, checksum = _HEADER.unpack_from(data)
        if magic != _MAGIC:
            raise _damaged(f"format {magic[6:].decode('latin-1')!r} is not {_MAGIC[6:].decode()!r}")
        body = memoryview(data)[_HEADER.size :]
        cells, packed = (states + 1) * width, (states + 7) // 8
        kind = np.dtype(f"<i{np.dtype(states_type(states)).itemsize}")
        if len(body) != size or size != cells * kind.itemsize + 2 * states + 256 + 2 * packed:
            raise _damaged(f"{len(body)} bytes follow the header, {size} are announced")
        if _checksum((states, width, size), body) != checksum:
            raise _damaged("the checksum does not fit")
        padded = _native(np.frombuffer(body, kind, cells)).reshape(-1, width)
        at = cells * kind.itemsize
        exits = _native(np.frombuffer(body, "<i2", states, at))
        at += 2 * states
        classes = np.frombuffer(body, np.uint8, 256, at)
        accepting, heads = (
            np.unpackbits(part, count=states, bitorder="little").astype(bool)
            for part in np.frombuffer(body, np.uint8, 2 * packed, at + 256).reshape(2, packed)
        )
        _check(padded, classes)
        made = object.__new__(cls)
        for name, part in (("classes", classes), ("accepting", accepting), ("_exits", exits)):
            object.__setattr__(made, name, part)
        object.__setattr__(made, "_heads", np.flatnonzero(heads).tolist())
        made._set(padded)
        return made


def _checksum(sizes: tuple[int, int, int], body: bytes | memoryview) -> int:
    return zlib.crc32(body, zlib.crc32(_SIZES.pack(*sizes)))


def _native(part: np.ndarray) -> np.ndarray:
    """Return numbers in this machine's order of bytes: the same ones, where they are."""
    return part.astype(part.dtype.newbyteorder("="), copy=False)


def _check(padded: States, classes: NDArray[np.uint8]) -> None:
    """Refuse a table whose numbers are out of range."""
    states, width = len(padded) - 1, padded.shape[1]
    if not states or not width or int(classes.max()) >= width:
        raise _damaged("its byte classes do not fit its table")
    is_dead = bool((padded[-1] == DEAD).all())
    if not is_dead or int(padded.min()) < DEAD or int(padded.max()) >= states:
        raise _damaged("its table names states that it does not have")


def _damaged(reason: str) -> ArtifactError:
    return ArtifactError(f"automaton cannot be read: {reason}", hint="compile the program again")


def _single_exits(table: States, classes: NDArray[np.uint8]) -> NDArray[np.int16]:
    """Return the one byte that each state can read, or -1 where there are none or several."""
    live = table != DEAD
    only = np.full(table.shape[1], DEAD, dtype=np.int16)  # the byte of classes that have one
    singles = np.bincount(classes, minlength=table.shape[1])[classes] == 1
    only[classes[singles]] = np.flatnonzero(singles)
    return np.where(np.count_nonzero(live, axis=1) == 1, only[live.argmax(axis=1)], DEAD)
