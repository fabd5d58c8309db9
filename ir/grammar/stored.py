"""Networks as bytes: a versioned, checksummed form, of which arrays are used as they lie."""

import json
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmc.errors import ArtifactError
from lmc.ir.automata.dfa import DEAD, states_type
from lmc.ir.grammar.network import Network

MAGIC = b"LMCNET02"
_HEADER = struct.Struct("<8sI")
_COUNTS = struct.Struct("<7I")


def network_to_bytes(network: Network) -> bytes:
    """Return a network's versioned, checksummed form."""
    states, width = network.table.shape
    controls = json.dumps(network.controls, separators=(",", ":")).encode()
    counts = _COUNTS.pack(
        states, width, len(network.calls), len(network.starts), len(network.controls),
        len(controls), network.may_be_empty,
    )  # fmt: skip
    # Long numbers first, so that each part lies where its numbers may.
    body = b"".join(
        (
            counts,
            network.calls.astype("<i4").tobytes(),
            network.starts.astype("<i4").tobytes(),
            network.ranks.astype("<i4").tobytes(),
            network.table.astype(f"<i{network.table.itemsize}").tobytes(),
            network.classes.tobytes(),
            network.accepting.astype(np.uint8).tobytes(),
            controls,
        )
    )
    return _HEADER.pack(MAGIC, zlib.crc32(body)) + body


def network_from_bytes(data: bytes | memoryview) -> Network:
    """Read what `network_to_bytes` wrote; the data is kept, and is not to change.

    Raises:
        ArtifactError: the data is no network, is damaged, or is of another version.
    """
    if len(data) < _HEADER.size + _COUNTS.size or data[:8] != MAGIC:
        raise _damaged("the data does not begin with a network's header")
    _, checksum = _HEADER.unpack_from(data)
    body = memoryview(data)[_HEADER.size :]
    if zlib.crc32(body) != checksum:
        raise _damaged("the checksum does not fit")
    states, width, num_calls, num_rules, num_controls, num_names, is_empty = _COUNTS.unpack_from(
        body
    )
    parts = _Parts(body, _COUNTS.size)
    calls = parts.array("<i4", 3 * num_calls).reshape(num_calls, 3)
    starts, ranks = parts.array("<i4", num_rules), parts.array("<i4", num_rules)
    kind = f"<i{np.dtype(states_type(states)).itemsize}"
    table = parts.array(kind, states * width).reshape(states, width)
    classes, accepting = parts.array("u1", 256), parts.array("u1", states).astype(bool)
    controls = _controls(bytes(parts.take(num_names)))
    is_whole = parts.is_at_end and len(controls) == num_controls
    if not is_whole or not _is_in_range(table, classes, calls, starts, controls):
        raise _damaged("its parts do not fit each other")
    return Network(table, classes, accepting, calls, controls, starts, ranks, bool(is_empty))


def _controls(data: bytes) -> tuple[tuple[int, str, int], ...]:
    rows: list[list[Any]] = json.loads(data)
    return tuple((int(state), str(name), int(after)) for state, name, after in rows)


def _is_in_range(
    table: NDArray[Any],
    classes: NDArray[np.uint8],
    calls: NDArray[np.int32],
    starts: NDArray[np.int32],
    controls: tuple[tuple[int, str, int], ...],
) -> bool:
    """Return whether all states, classes and rules that are named exist."""
    states, width = table.shape
    if not states or not width or not len(starts) or int(classes.max()) >= width:
        return False
    named = [table.reshape(-1), calls[:, 0], calls[:, 2], starts]
    named.append(np.array([each for row in controls for each in (row[0], row[2])], dtype=np.int64))
    if any(int(part.max(initial=DEAD)) >= states for part in named):
        return False
    if int(table.min()) < DEAD or any(int(part.min(initial=0)) < 0 for part in named[1:]):
        return False
    rules, callers = calls[:, 1], calls[:, 0]
    in_order = bool((callers[1:] >= callers[:-1]).all())
    return in_order and (
        not len(rules) or (int(rules.min()) >= 0 and int(rules.max()) < len(starts))
    )


class _Parts:
    """The parts of a body, one after another."""

    def __init__(self, body: memoryview, offset: int) -> None:
        self._body = body
        self._offset = offset

    @property
    def is_at_end(self) -> bool:
        """Whether nothing is left."""
        return self._offset == len(self._body)

    def take(self, size: int) -> memoryview:
        part = self._body[self._offset : self._offset + size]
        if len(part) != size:
            raise _damaged("it is cut short")
        self._offset += size
        return part

    def array(self, kind: str, count: int) -> NDArray[Any]:
        kept = np.dtype(kind)
        found = np.frombuffer(self.take(count * kept.itemsize), dtype=kept)
        return found.astype(kept.newbyteorder("="), copy=False)


def _damaged(reason: str) -> ArtifactError:
    return ArtifactError(f"network cannot be read: {reason}", hint="compile the program again")
