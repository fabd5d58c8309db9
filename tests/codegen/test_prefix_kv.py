"""The KV of prefixes as bytes: shared beginnings once, everything back, nothing foreign taken."""

import json
import struct

import pytest

from lmc.codegen.prefix_kv import MAX_PREFIXES, pack_kv, unpack_kv
from lmc.errors import ArtifactError

BINDING = {"weights": "w", "dtype": "float32"}


def read(ids, start):
    return b"".join(bytes([i, 7]) for i in ids[start:])


def packed(*prefixes):
    return pack_kv(prefixes, BINDING, 2, read)


def test_prefixes_come_back_with_their_common_beginning_once():
    made = unpack_kv(memoryview(packed((1, 2), (1, 2, 3, 4), (1, 2, 9), (), (1, 2))))
    assert made.binding == BINDING
    assert [(p.token_ids, p.start, bytes(p.data)) for p in made.prefixes] == [
        ((1, 2, 3, 4), 0, bytes([1, 7, 2, 7, 3, 7, 4, 7])),
        ((1, 2, 9), 2, bytes([9, 7])),
        ((1, 2), 2, b""),
    ]
    assert unpack_kv(memoryview(packed())).prefixes == ()
    assert packed((5,), (6,)) == packed((6,), (5,))


def test_the_longest_are_kept():
    made = unpack_kv(memoryview(packed(*[tuple(range(n)) for n in range(1, 60)])))
    assert len(made.prefixes) == MAX_PREFIXES
    assert len(made.prefixes[0].token_ids) == 59


def test_a_difference_is_named():
    made = unpack_kv(memoryview(packed((1,))))
    assert made.difference(BINDING) is None
    assert made.difference(BINDING | {"dtype": "bfloat16"}) == "dtype"
    assert made.difference(BINDING | {"kernels": "k"}) == "kernels"
    assert made.difference({"dtype": "float32"}) == "weights"


def with_header(**changes):
    header = {"binding": BINDING, "bytes_per_token": 2,
              "prefixes": [{"token_ids": [1, 2], "start": 0}]} | changes  # fmt: skip
    text = json.dumps(header).encode()
    return struct.pack("<I", len(text)) + text + bytes(4)


def test_foreign_bytes_are_refused():
    assert unpack_kv(memoryview(with_header())).prefixes
    good = packed((1, 2, 3))
    for data in (
        b"", b"\xff" * 3, b"\xff" * 40, good[:-1], good + b"x", good[4:],
        with_header(binding=[]),
        with_header(bytes_per_token=-2),
        with_header(bytes_per_token="2"),
        with_header(bytes_per_token=10**12),
        with_header(prefixes=7),
        with_header(prefixes=[{"token_ids": [1, 2], "start": 1}]),
        with_header(prefixes=[{"token_ids": [1, -2], "start": 0}]),
        with_header(prefixes=[{"token_ids": [1, True], "start": 0}]),
        with_header(prefixes=[{"token_ids": [1, 2], "start": 3}]),
    ):  # fmt: skip
        with pytest.raises(ArtifactError, match="prefix KV is damaged"):
            unpack_kv(memoryview(data))
