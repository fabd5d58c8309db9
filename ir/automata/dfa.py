"""Deterministic automata over bytes: what a constraint compiles to."""

import hashlib
import struct
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lmc.errors import ArtifactError
from lmc.ir.automata.minimise import distances

DEAD = -1
_MAGIC = b"LMCDFA01"
_HEADER = struct.Struct("<8sIII32s")


@dataclass(frozen=True, slots=True, eq=False)
class ByteDfa:
    """A minimal automaton over bytes in which every state can still reach an end.

    Args:
        table: next state by [state, byte class], `DEAD` (-1) where no text may go on so;
            int32, C-contiguous, read-only.
        classes: byte class of each of the 256 bytes; uint8.
        accepting: whether the text may end, by state.

    State 0 is the start. States are numbered the same way for equal languages, so equal
    automata are equal byte for byte. `padded` is the table with a row of DEAD at its end, so
    that indexing it with DEAD (-1) gives DEAD.
    """

    table: NDArray[np.int32]
    classes: NDArray[np.uint8]
    accepting: NDArray[np.bool_]
    padded: NDArray[np.int32] = field(init=False, repr=False)
    _flat: memoryview = field(init=False, repr=False)
    _class_of: bytes = field(init=False, repr=False)
    _exits: NDArray[np.int16] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        width = self.table.shape[1]
        padded = np.concatenate([self.table, np.full((1, width), DEAD, dtype=np.int32)])
        object.__setattr__(self, "padded", padded)
        object.__setattr__(self, "table", padded[:-1])
        for part in (self.padded, self.table, self.classes, self.accepting):
            part.flags.writeable = False
        object.__setattr__(self, "_flat", memoryview(self.table.reshape(-1)))
        object.__setattr__(self, "_class_of", self.classes.tobytes())
        object.__setattr__(self, "_exits", _single_exits(self.table, self.classes))

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

    def is_forced(self, state: int) -> bool:
        """Return whether one byte only may come next, and no end."""
        return not self.accepting[state] and self._exits[state] >= 0

    def forced_heads(self) -> list[int]:
        """Return the states where forced text begins, ascending."""
        forced = ~self.accepting & (self._exits >= 0)
        entered = np.zeros(len(self.table) + 1, dtype=bool)  # the last entry serves DEAD
        entered[self.table[~forced]] = True
        entered[self.start] = True
        return np.flatnonzero(entered[:-1] & forced).tolist()

    def forced_bytes(self, state: int) -> bytes:
        """Return the bytes that must come next: as long as one byte only may, and no end."""
        out = bytearray()
        while self.is_forced(state):
            byte = int(self._exits[state])
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
        """Return a versioned, checksummed form; equal automata give equal bytes."""
        body = b"".join(
            (
                self.classes.tobytes(),
                np.packbits(self.accepting, bitorder="little").tobytes(),
                self.table.astype("<i4").tobytes(),
            )
        )
        digest = hashlib.blake2b(body, digest_size=32).digest()
        states, width = self.table.shape
        return _HEADER.pack(_MAGIC, states, width, len(body), digest) + body

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> "ByteDfa":
        """Read what `to_bytes` wrote; nothing of the data is kept.

        Raises:
            ArtifactError: the data is not an automaton, is damaged, or is of a later version.
        """
        if len(data) < _HEADER.size or data[:6] != _MAGIC[:6]:
            raise _damaged("the data does not begin with an automaton's header")
        magic, states, width, size, digest = _HEADER.unpack_from(data)
        if magic != _MAGIC:
            raise _damaged(f"format {magic[6:].decode('latin-1')!r} is not {_MAGIC[6:].decode()!r}")
        body = data[_HEADER.size :]
        packed = (states + 7) // 8
        if len(body) != size or size != 256 + packed + 4 * states * width:
            raise _damaged(f"{len(body)} bytes follow the header, {size} are announced")
        if hashlib.blake2b(body, digest_size=32).digest() != digest:
            raise _damaged("the checksum does not fit")
        classes = np.frombuffer(body, dtype=np.uint8, count=256)
        bits = np.frombuffer(body, dtype=np.uint8, count=packed, offset=256)
        accepting = np.unpackbits(bits, count=states, bitorder="little").astype(bool)
        table = np.frombuffer(body, dtype="<i4", offset=256 + packed).astype(np.int32)
        return cls(_checked(table.reshape(states, width), classes), classes.copy(), accepting)


def _checked(table: NDArray[np.int32], classes: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Return the table if all its numbers are in range."""
    states, width = table.shape
    if not states or not width or int(classes.max()) >= width:
        raise _damaged("its byte classes do not fit its table")
    if int(table.min()) < DEAD or int(table.max()) >= states:
        raise _damaged("its table names states that it does not have")
    return table


def _damaged(reason: str) -> ArtifactError:
    return ArtifactError(f"automaton cannot be read: {reason}", hint="compile the program again")


def _single_exits(table: NDArray[np.int32], classes: NDArray[np.uint8]) -> NDArray[np.int16]:
    """Return the one byte that each state can read, or -1 where there are none or several."""
    sizes = np.bincount(classes, minlength=table.shape[1])
    live = table != DEAD
    first_byte = np.zeros(table.shape[1], dtype=np.int16)
    for byte in range(255, -1, -1):
        first_byte[classes[byte]] = byte
    counts = live @ sizes
    return np.where(counts == 1, first_byte[live.argmax(axis=1)], -1).astype(np.int16)
