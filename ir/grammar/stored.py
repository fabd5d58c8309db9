"""Networks as bytes: a versioned, checksummed form."""

import hashlib
import json
import struct

import numpy as np
from numpy.typing import NDArray

from lmc.errors import ArtifactError
from lmc.ir.automata.dfa import DEAD
from lmc.ir.grammar.network import Network

MAGIC = b"LMCNET01"
_HEADER = struct.Struct("<8s32s")
_COUNTS = struct.Struct("<6I")


def network_to_bytes(network: Network) -> bytes:
    """Return a network's versioned, checksummed form."""
    states, width = network.table.shape
    calls = _triples([[(s, *call) for call in row] for s, row in enumerate(network.calls)])
    controls = [(s, *each) for s, row in enumerate(network.controls) for each in row]
    names = json.dumps(controls, separators=(",", ":")).encode()
    rules = np.array([network.starts, network.ranks], dtype="<i4")
    body = b"".join(
        (
            _COUNTS.pack(
                states, width, len(calls), len(network.starts), len(names), network.may_be_empty
            ),
            network.table.astype("<i4").tobytes(),
            calls.tobytes(),
            rules.tobytes(),
            network.classes.tobytes(),
            network.accepting.astype(np.uint8).tobytes(),
            names,
        )
    )
    return _HEADER.pack(MAGIC, hashlib.blake2b(body, digest_size=32).digest()) + body


def network_from_bytes(data: bytes | memoryview) -> Network:
    """Read what `network_to_bytes` wrote; nothing of the data is kept.

    Raises:
        ArtifactError: the data is no network, is damaged, or is of another version.
    """
    if len(data) < _HEADER.size + _COUNTS.size or data[:8] != MAGIC:
        raise _damaged("the data does not begin with a network's header")
    _, digest = _HEADER.unpack_from(data)
    body = memoryview(data)[_HEADER.size :]
    if hashlib.blake2b(body, digest_size=32).digest() != digest:
        raise _damaged("the checksum does not fit")
    states, width, num_calls, num_rules, num_names, is_empty = _COUNTS.unpack_from(body)
    parts = _Parts(body, _COUNTS.size)
    table = parts.array("<i4", states * width).reshape(states, width)
    calls = parts.array("<i4", 3 * num_calls).reshape(num_calls, 3)
    starts, ranks = parts.array("<i4", 2 * num_rules).reshape(2, num_rules)
    classes, accepting = parts.array("u1", 256), parts.array("u1", states).astype(bool)
    controls = json.loads(bytes(parts.take(num_names)))
    if int(table.max(initial=DEAD)) >= states or int(classes.max()) >= width:
        raise _damaged("its table names states or classes that it does not have")
    return Network(
        table, classes, accepting,
        _rows(states, calls.tolist()),
        _rows(states, controls),
        tuple(starts.tolist()), tuple(ranks.tolist()), bool(is_empty),
    )  # fmt: skip


class _Parts:
    """The parts of a body, one after another."""

    def __init__(self, body: memoryview, offset: int) -> None:
        self._body = body
        self._offset = offset

    def take(self, size: int) -> memoryview:
        part = self._body[self._offset : self._offset + size]
        if len(part) != size:
            raise _damaged("it is cut short")
        self._offset += size
        return part

    def array(self, kind: str, count: int) -> "NDArray[np.generic]":
        kept = np.dtype(kind)
        found = np.frombuffer(self.take(count * kept.itemsize), dtype=kept)
        return found.astype(kept.newbyteorder("="))


def _triples(rows: "list[list[tuple[int, ...]]]") -> "NDArray[np.int32]":
    flat = [number for row in rows for call in row for number in call]
    return np.array(flat, dtype="<i4").reshape(-1, 3)


def _rows(
    states: int, entries: "list[list[object]]"
) -> "tuple[tuple[tuple[object, int], ...], ...]":
    """Return (state, what, next) entries by state."""
    rows: list[list[tuple[object, int]]] = [[] for _ in range(states)]
    for state, what, after in entries:
        rows[state].append((what, after))  # type: ignore[arg-type, index]
    return tuple(map(tuple, rows))


def _damaged(reason: str) -> ArtifactError:
    return ArtifactError(f"network cannot be read: {reason}", hint="compile the program again")
