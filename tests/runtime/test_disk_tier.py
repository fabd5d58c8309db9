"""The disk tier alone: files that are whole or of no use, a bounded folder, one quiet thread."""

import errno
import logging
import os
import random
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from lmc.errors import UsageError
from lmc.runtime.cache import disk_folder, disk_tier
from lmc.runtime.cache.block_file import (
    BLOCK_TOKENS,
    DamagedBlock,
    blocks_of,
    file_size,
    namespace_of,
    read_block,
    write_block,
)
from lmc.runtime.cache.disk_folder import DiskFolder
from lmc.runtime.cache.disk_tier import DiskTier

PER_TOKEN = 3
SIZE = file_size(PER_TOKEN)
SPACE = namespace_of({"weights": "a", "dtype": "b"})


def prefix(seed, num_blocks):
    ids = np.random.default_rng(seed).integers(0, 50_000, num_blocks * BLOCK_TOKENS)
    return blocks_of(SPACE, ids.astype(np.int32))


def kv_of(block):
    """Return bytes that stand for a block's KV."""
    return (block.key * PER_TOKEN)[: BLOCK_TOKENS * PER_TOKEN]


def open_tier(folder, *, max_files=1000, wake=lambda: None):
    made = DiskFolder(folder, max_bytes=max_files * SIZE, file_size=SIZE)
    return DiskTier(made, namespace=SPACE, bytes_per_token=PER_TOKEN, wake=wake)


def stored(tier, blocks):
    tier.store(blocks, lambda index: kv_of(blocks[index]))
    assert tier.wait_idle(60)


def fetched(tier, blocks):
    fetch = tier.fetch(blocks)
    assert fetch is not None
    assert tier.wait_idle(60)
    assert tier.take_ended() == [fetch]
    return [bytes(data) for data in fetch.data]


# -- one file --------------------------------------------------------------------------------


def test_what_was_written_is_read(tmp_path):
    for block in prefix(0, 3):
        write_block(tmp_path, SPACE, block, kv_of(block))
        assert bytes(read_block(tmp_path, SPACE, block, PER_TOKEN)) == kv_of(block)
        assert (tmp_path / block.file_name).stat().st_mode & 0o777 == 0o600


def test_a_key_stands_for_the_model_and_every_token_before():
    ids = np.arange(3 * BLOCK_TOKENS, dtype=np.int32)
    other = ids.copy()
    other[0] += 1
    spaces = (SPACE, namespace_of({"weights": "a", "dtype": "c"}))
    keys = [b.key for space in spaces for each in (ids, other) for b in blocks_of(space, each)]
    assert len(set(keys)) == 12
    assert [len(blocks_of(SPACE, ids[:n])) for n in (31, 32, 63, 96)] == [0, 1, 1, 3]


def test_every_flipped_bit_is_noticed(tmp_path):
    block = prefix(1, 2)[1]
    write_block(tmp_path, SPACE, block, kv_of(block))
    path = tmp_path / block.file_name
    whole = path.read_bytes()
    assert len(whole) == SIZE
    for at in range(SIZE):
        for bit in range(8):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << bit)]) + whole[at + 1 :])
            with pytest.raises(DamagedBlock):
                read_block(tmp_path, SPACE, block, PER_TOKEN)
    for size in (*range(0, SIZE, 7), SIZE - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(DamagedBlock):
            read_block(tmp_path, SPACE, block, PER_TOKEN)
    path.write_bytes(whole + b"\0")
    with pytest.raises(DamagedBlock):
        read_block(tmp_path, SPACE, block, PER_TOKEN)
    path.write_bytes(whole)
    assert bytes(read_block(tmp_path, SPACE, block, PER_TOKEN)) == kv_of(block)


def test_a_file_of_something_else_is_not_used(tmp_path):
    """Another model's, another prefix's, one with other sizes: under our name, with a checksum."""
    wanted, other = prefix(2, 1)[0], prefix(3, 1)[0]
    foreign = namespace_of({"weights": "x"})
    for space, block in ((foreign, wanted), (SPACE, other)):
        write_block(tmp_path, space, block, kv_of(block))
        if block is other:
            (tmp_path / other.file_name).replace(tmp_path / wanted.file_name)
        with pytest.raises(DamagedBlock, match="something else"):
            read_block(tmp_path, SPACE, wanted, PER_TOKEN)
    write_block(tmp_path, SPACE, wanted, kv_of(wanted))
    with pytest.raises(DamagedBlock, match="bytes instead of"):
        read_block(tmp_path, SPACE, wanted, PER_TOKEN + 1)


def test_what_is_no_plain_file_neither_blocks_nor_is_read(tmp_path):
    block = prefix(4, 1)[0]
    path = tmp_path / block.file_name
    os.mkfifo(path)
    with pytest.raises(DamagedBlock):
        read_block(tmp_path, SPACE, block, PER_TOKEN)
    path.unlink()
    path.mkdir()
    with pytest.raises(DamagedBlock):
        read_block(tmp_path, SPACE, block, PER_TOKEN)
    path.rmdir()
    path.symlink_to("/dev/zero")
    with pytest.raises(OSError, match="symbolic links"):
        read_block(tmp_path, SPACE, block, PER_TOKEN)
    path.unlink()
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(DamagedBlock):
        read_block(tmp_path, SPACE, block, PER_TOKEN)


# -- the tier --------------------------------------------------------------------------------


def test_a_new_tier_finds_what_an_old_one_wrote(tmp_path):
    blocks = prefix(5, 6)
    tier = open_tier(tmp_path)
    stored(tier, blocks[:4])
    tier.close()
    tier = open_tier(tmp_path)
    assert tier.num_readable(blocks) == 4
    assert tier.num_readable(blocks[1:]) == 3
    assert fetched(tier, blocks) == [kv_of(block) for block in blocks[:4]]
    stored(tier, blocks)
    assert tier.counts.written == 2, "what is there is not written again"
    tier.close()


def test_damage_ends_a_prefix_there_and_is_removed(tmp_path):
    blocks = prefix(6, 5)
    tier = open_tier(tmp_path)
    stored(tier, blocks)
    path = tmp_path / blocks[2].file_name
    data = bytearray(path.read_bytes())
    data[-40] ^= 4
    path.write_bytes(data)
    (tmp_path / blocks[4].file_name).unlink()
    assert fetched(tier, blocks) == [kv_of(block) for block in blocks[:2]]
    assert tier.counts.damaged == 1
    assert not path.exists()
    assert tier.num_readable(blocks) == 2
    stored(tier, blocks)
    assert fetched(tier, blocks) == [kv_of(block) for block in blocks[:4]], "the last one is gone"
    stored(tier, blocks)
    assert fetched(tier, blocks) == [kv_of(block) for block in blocks]
    tier.close()


def test_the_folder_stays_within_its_bound_and_loses_ends_and_old_ones(tmp_path):
    tier = open_tier(tmp_path, max_files=10)
    (tmp_path / "mine.txt").write_bytes(b"x" * 50_000)
    old, used, new = prefix(7, 4), prefix(8, 4), prefix(9, 6)
    for blocks in (old, used):
        stored(tier, blocks)
    assert fetched(tier, old) == [kv_of(block) for block in old]
    stored(tier, new)
    assert len(list(tmp_path.glob("*.kv"))) == 10
    assert tier.folder.evicted == 4
    assert [tier.num_readable(blocks) for blocks in (old, used, new)] == [4, 0, 6]
    stored(tier, prefix(10, 2))
    assert [tier.num_readable(blocks) for blocks in (old, new)] == [2, 6], "ends go first"
    assert (tmp_path / "mine.txt").exists(), "other files are left alone"
    tier.close()


def test_what_was_never_finished_is_counted_and_removed_when_old(tmp_path):
    blocks = prefix(11, 3)
    fresh = tmp_path / f"{blocks[0].file_name}.12.0123abcd.tmp"
    stale = tmp_path / f"{blocks[1].file_name}.13.0123abcd.tmp"
    for path in (fresh, stale):
        path.write_bytes(b"x" * SIZE)
    os.utime(stale, (1, 1))
    tier = open_tier(tmp_path, max_files=3)
    assert fresh.exists()
    assert not stale.exists()
    stored(tier, blocks)
    assert len(list(tmp_path.glob("*.kv"))) == 2, "an unfinished file takes room too"
    tier.close()


def test_a_full_queue_drops_and_never_waits(tmp_path, monkeypatch):
    go_on = threading.Event()
    monkeypatch.setattr(disk_tier, "MAX_QUEUED_BYTES", 3 * SIZE)
    monkeypatch.setattr(disk_tier, "MAX_FETCHES", 2)
    real = disk_tier.write_block
    monkeypatch.setattr(disk_tier, "write_block", lambda *a: (go_on.wait(30), real(*a)))
    tier = open_tier(tmp_path)
    blocks = prefix(12, 8)
    tier.store(blocks, lambda index: kv_of(blocks[index]))
    assert tier.counts.dropped == 5
    assert [tier.fetch(blocks) is not None for _ in range(3)] == [True, True, False]
    go_on.set()
    assert tier.wait_idle(60)
    assert tier.counts.written == 3
    assert len(tier.take_ended()) == 2
    stored(tier, blocks)
    assert tier.num_readable(blocks) == 6
    tier.close()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EACCES])
def test_a_failing_write_turns_the_tier_off_with_one_warning(tmp_path, monkeypatch, caplog, code):
    tier = open_tier(tmp_path)
    stored(tier, prefix(13, 2))
    real, opened = os.open, []

    def fail(path, flags, *rest):
        if flags & os.O_CREAT:
            opened.append(path)
            raise OSError(code, os.strerror(code))
        return real(path, flags, *rest)

    monkeypatch.setattr(os, "open", fail)
    with caplog.at_level(logging.WARNING):
        for seed in range(14, 20):
            stored(tier, prefix(seed, 4))
    assert len(opened) == 1
    warnings = [record.message for record in caplog.records]
    assert len(warnings) == 1
    assert "the disk tier is off" in warnings[0]
    assert os.strerror(code).lower() in warnings[0]
    assert tier.is_off
    assert tier.fetch(prefix(13, 2)) is None
    assert not list(tmp_path.glob("*.tmp"))
    tier.close()


def test_a_write_that_fails_half_way_leaves_nothing(tmp_path, monkeypatch):
    block = prefix(20, 1)[0]
    monkeypatch.setattr(disk_tier, "write_block", write_block)

    class Full:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def writelines(self, parts):
            self.file.write(parts[0])
            raise OSError(errno.ENOSPC, "no space left on device")

    real = os.fdopen
    monkeypatch.setattr(os, "fdopen", lambda *a, **k: Full(real(*a, **k)))
    with pytest.raises(OSError, match="no space"):
        write_block(tmp_path, SPACE, block, kv_of(block))
    assert not list(tmp_path.iterdir())


def test_closing_writes_what_waits(tmp_path):
    blocks = prefix(21, 40)
    tier = open_tier(tmp_path)
    tier.store(blocks, lambda index: kv_of(blocks[index]))
    tier.close()
    assert len(list(tmp_path.glob("*.kv"))) == 40
    assert not [t for t in threading.enumerate() if t.name == "lmc-disk-tier"]


def test_closing_does_not_wait_for_a_disk_that_hangs(tmp_path, monkeypatch):
    go_on = threading.Event()
    monkeypatch.setattr(disk_tier, "CLOSE_SECONDS", 0.1)
    monkeypatch.setattr(disk_tier, "write_block", lambda *_: go_on.wait(30))
    tier = open_tier(tmp_path)
    blocks = prefix(22, 3)
    tier.store(blocks, lambda index: kv_of(blocks[index]))
    begun = time.monotonic()
    assert not tier.wait_idle(0.1)
    tier.close()
    assert time.monotonic() - begun < 15
    go_on.set()


@pytest.mark.parametrize(
    ("path", "what"),
    [("file", "file exists"), ("file/below", "not a directory")],
)
def test_a_folder_that_cannot_be_used_is_refused(tmp_path, path, what):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UsageError, match=what):
        DiskFolder(tmp_path / path, max_bytes=10**6, file_size=SIZE)
    with pytest.raises(UsageError, match="holds nothing"):
        DiskFolder(tmp_path / "new", max_bytes=SIZE - 1, file_size=SIZE)


# -- several processes, and those that are killed ----------------------------------------------

WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
from test_disk_tier import *
tier = open_tier(__import__("pathlib").Path(sys.argv[2]), max_files=60)
print("ready", flush=True)
for seed in range(int(sys.argv[3]), int(sys.argv[4])):
    blocks = prefix(seed, 1 + seed % 5)
    stored(tier, blocks)
    assert all(data == kv_of(block) for data, block in zip(fetched(tier, blocks), blocks))
assert tier.counts.damaged == 0 and not tier.is_off
tier.close()
"""


def writer(folder, first, last):
    here = os.path.dirname(__file__)
    command = [sys.executable, "-c", WRITER, here, str(folder), str(first), str(last)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def check_folder(folder, seeds):
    """Every file that has a block's name holds that block."""
    known = {block.file_name: block for seed in seeds for block in prefix(seed, 1 + seed % 5)}
    for path in folder.glob("*.kv"):
        block = known[path.name]
        assert bytes(read_block(folder, SPACE, block, PER_TOKEN)) == kv_of(block)


def test_several_processes_share_a_folder(tmp_path):
    writers = [writer(tmp_path, first, first + 150) for first in (0, 0, 100)]
    for process in writers:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    check_folder(tmp_path, range(250))
    # Below the bound: what another process was just writing over a file that is there already
    # counts twice, once for each of the others.
    count = len(list(tmp_path.glob("*.kv")))
    others = len(writers) - 1
    assert 60 - others <= count <= 60 + others * disk_folder.WRITES_BETWEEN_LOOKS


def test_a_process_killed_while_it_writes_leaves_only_whole_blocks(tmp_path):
    rng = random.Random(0)
    for turn in range(4):
        process = writer(tmp_path, 1000 * turn, 1000 * turn + 1000)
        assert process.stdout.readline() == "ready\n"
        time.sleep(rng.uniform(0.02, 0.2))
        process.kill()
        process.communicate()
    check_folder(tmp_path, range(4000))
    assert list(tmp_path.glob("*.kv"))
