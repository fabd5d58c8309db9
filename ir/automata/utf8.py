"""From letters to UTF-8 bytes.

Every state's map from code points to next states is unfolded into the byte tree of UTF-8:
64 code points share all but their last byte, 64 such blocks all but their last two. A
block that leads to one state throughout, or blocks that look alike, become one state; as
the automaton over letters is minimal, so is the result.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmc.ir.automata.budget import Budget
from lmc.ir.automata.determinise import DEAD, CharDfa
from lmc.ir.automata.minterms import SPAN_END, Minterms

_BLOCK = 64
_BLOCKS = SPAN_END // _BLOCK
_PAGES = _BLOCKS // _BLOCK
"""A page is 64 blocks, 4,096 code points: what one three-byte lead covers."""

Tree = tuple[NDArray[np.int32], list["NDArray[np.int32]"]]


@dataclass(frozen=True, slots=True)
class _Shape:
    """The byte tree of one partition of the non-ASCII code points into classes.

    Args:
        nodes: per node the class (>= 0), node (-2 - number) or DEAD by continuing byte;
            a node comes after the ones it leads to.
        leads: the same by lead byte, for 0xC0 to 0xFF.
    """

    nodes: list[NDArray[np.int32]]
    leads: NDArray[np.int32]


def to_bytes_dfa(
    dfa: CharDfa, minterms: Minterms, budget: Budget
) -> tuple[NDArray[np.int32], NDArray[np.uint8], NDArray[np.bool_]]:
    """Return next states by [state, byte class], the class of each byte, and which states
    accept; state 0 is the start.

    Raises:
        ConstraintError: there are too many states.
    """
    expansion = _Expansion(dfa, minterms, budget)
    expansion.run()
    return expansion.result()


class _Expansion:
    """Collects the states between the bytes of a character."""

    def __init__(self, dfa: CharDfa, minterms: Minterms, budget: Budget) -> None:
        self.dfa = dfa
        self.minterms = minterms
        self.budget = budget
        self.base = len(dfa.rows)
        self.heads = np.full((self.base, 256), DEAD, dtype=np.int32)
        self.inner: list[bytes] = []
        self.numbers: dict[bytes, int] = {}

    def run(self) -> None:
        starts, letters = self.minterms.starts, self.minterms.letters
        padded = np.concatenate(
            [self.dfa.rows, np.full((self.base, 1), DEAD, dtype=np.int32)], axis=1
        )
        ascii_letters = letters[np.searchsorted(starts, np.arange(128), side="right") - 1]
        self.heads[:, :128] = padded[:, ascii_letters]
        # Letters beyond ASCII in the order of their first such character: the numbers of
        # inner states then depend on the language alone, not on how it was written.
        beyond = letters[(np.append(starts[1:], SPAN_END) > 128) & (letters != DEAD)]
        wide = np.array(list(dict.fromkeys(beyond.tolist())), dtype=np.int64)
        groups: dict[bytes, list[int]] = {}
        for state, row in enumerate(self.dfa.rows[:, wide]):
            groups.setdefault(_canonical(row).tobytes(), []).append(state)
        for pattern, states in groups.items():
            self._group(wide, np.frombuffer(pattern, dtype=np.int32), np.array(states))

    def _group(
        self, wide: NDArray[np.int64], pattern: NDArray[np.int32], states: NDArray[np.int64]
    ) -> None:
        """Unfold states whose letters fall together in the same way."""
        if pattern.max(initial=DEAD) == DEAD:
            return
        to_class = np.full(self.minterms.count + 1, DEAD, dtype=np.int32)
        to_class[wide] = pattern
        shape = _shape(self.minterms.starts, to_class[self.minterms.letters])
        first = [int(np.argmax(pattern == number)) for number in range(pattern.max() + 1)]
        targets = self.dfa.rows[np.ix_(states, wide[first])]  # [state, class]
        made: list[NDArray[np.int32]] = []  # per node of the shape: its number by state
        for node in shape.nodes:
            made.append(self._instances(node, targets, made))
        self.heads[states, 0xC0:] = _resolve(shape.leads, targets, made)

    def _instances(
        self,
        node: NDArray[np.int32],
        targets: NDArray[np.int32],
        made: list[NDArray[np.int32]],
    ) -> NDArray[np.int32]:
        """Return the number of a node's copy for every state of a group."""
        used = np.unique(node[node != DEAD])
        columns = np.stack([_column(code, targets, made) for code in used], axis=1)
        distinct, inverse = np.unique(columns, axis=0, return_inverse=True)
        position = np.searchsorted(used, node)
        position[node == DEAD] = len(used)
        padded = np.concatenate(
            [distinct, np.full((len(distinct), 1), DEAD, dtype=np.int32)], axis=1
        )
        numbers = [self._number(row.tobytes()) for row in padded[:, position]]
        return np.array(numbers, dtype=np.int32)[inverse.reshape(-1)]

    def _number(self, row: bytes) -> int:
        """Return the number of the inner state with this row of 64 continuing bytes."""
        found = self.numbers.get(row)
        if found is None:
            found = self.numbers[row] = self.base + len(self.inner)
            self.inner.append(row)
            self.budget.check_states(found + 1)
        return found

    def result(self) -> tuple[NDArray[np.int32], NDArray[np.uint8], NDArray[np.bool_]]:
        """Return the table with its equal columns merged.

        A column of continuing bytes is dead in all heads, any other one is dead in all
        inner states, so the two halves are merged apart and share the dead class only.
        """
        flat = np.frombuffer(b"".join(self.inner), dtype=np.int32)
        inner = flat.reshape(len(self.inner), _BLOCK)
        count, base = self.base + len(self.inner), self.base
        seen: dict[tuple[bool, bytes], int] = {}
        columns: list[NDArray[np.int32]] = []
        classes = np.zeros(256, dtype=np.uint8)
        for byte in range(256):
            is_inner = 0x80 <= byte < 0xC0
            part = np.ascontiguousarray(inner[:, byte - 0x80] if is_inner else self.heads[:, byte])
            is_dead = bool((part == DEAD).all())
            key = (is_inner and not is_dead, b"" if is_dead else part.tobytes())
            if key not in seen:
                seen[key] = len(columns)
                columns.append(np.full(count, DEAD, dtype=np.int32))
                columns[-1][base if is_inner else 0 : count if is_inner else base] = part
            classes[byte] = seen[key]
        accepting = np.zeros(count, dtype=bool)
        accepting[:base] = self.dfa.accepting
        return np.ascontiguousarray(np.stack(columns, axis=1)), classes, accepting


def _canonical(row: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the row with its states renamed 0, 1, ... in order of appearance."""
    numbers: dict[int, int] = {DEAD: DEAD}
    renamed = [numbers.setdefault(state, len(numbers) - 1) for state in row.tolist()]
    return np.array(renamed, dtype=np.int32)


def _column(
    code: int, targets: NDArray[np.int32], made: list[NDArray[np.int32]]
) -> NDArray[np.int32]:
    """Return what a class or node stands for, by state of the group."""
    return targets[:, code] if code >= 0 else made[-2 - code]


def _resolve(
    codes: NDArray[np.int32], targets: NDArray[np.int32], made: list[NDArray[np.int32]]
) -> NDArray[np.int32]:
    """Return next states by [state, position] for a row of classes and nodes."""
    out = np.full((len(targets), len(codes)), DEAD, dtype=np.int32)
    for position, code in enumerate(codes.tolist()):
        if code != DEAD:
            out[:, position] = _column(code, targets, made)
    return out


def _shape(starts: NDArray[np.int64], classes: NDArray[np.int32]) -> _Shape:
    """Return the byte tree of the spans that begin at `starts` with the given classes."""
    builder = _ShapeBuilder()
    is_new = np.append(True, classes[1:] != classes[:-1])
    starts, classes = starts[is_new], classes[is_new]
    blocks = builder.blocks(starts, classes)
    pages = np.full(_PAGES, DEAD, dtype=np.int32)
    pages[1:] = builder.rows(blocks.reshape(_PAGES, _BLOCK)[1:])
    leads = np.full(64, DEAD, dtype=np.int32)
    leads[0x02:0x20] = blocks[2:32]  # C2..DF: U+0080 to U+07FF
    first = blocks[:_BLOCK].copy()
    first[:32] = DEAD  # E0 80..9F would spell code points below U+0800
    leads[0x20] = builder.node(first)
    leads[0x21:0x30] = pages[1:16]
    planes = np.full(5 * _BLOCK, DEAD, dtype=np.int32)
    planes[16 : len(pages)] = pages[16:]  # F0 80..8F would spell code points below U+10000
    leads[0x30:0x35] = builder.rows(planes.reshape(5, _BLOCK))
    return _Shape(builder.nodes, leads)


class _ShapeBuilder:
    """Numbers the distinct rows of a byte tree."""

    def __init__(self) -> None:
        self.nodes: list[NDArray[np.int32]] = []
        self.numbers: dict[bytes, int] = {}

    def node(self, row: NDArray[np.int32]) -> int:
        """Return the code of a row of 64: DEAD if all of it is dead, else a node."""
        if (row == DEAD).all():
            return DEAD
        key = row.tobytes()
        if key not in self.numbers:
            self.numbers[key] = -2 - len(self.nodes)
            self.nodes.append(row)
        return self.numbers[key]

    def rows(self, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the codes of several rows."""
        return np.array([self.node(row) for row in rows], dtype=np.int32)

    def blocks(self, starts: NDArray[np.int64], classes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the code of each block of 64 code points beyond ASCII.

        Only blocks in which a span begins are looked into; the others hold one class.
        """
        mixed = np.zeros(_BLOCKS, dtype=bool)
        mixed[starts[starts % _BLOCK != 0] // _BLOCK] = True
        origins = np.arange(_BLOCKS, dtype=np.int64) * _BLOCK
        uniform = classes[np.searchsorted(starts, origins, side="right") - 1]
        uniform[:2] = DEAD
        codes = np.full(_BLOCKS, DEAD, dtype=np.int32)
        for value in np.unique(uniform[~mixed]):
            codes[~mixed & (uniform == value)] = self.node(np.full(_BLOCK, value, dtype=np.int32))
        inside = np.arange(_BLOCK)
        for block in np.flatnonzero(mixed[2:]) + 2:
            points = block * _BLOCK + inside
            codes[block] = self.node(classes[np.searchsorted(starts, points, side="right") - 1])
        return codes
