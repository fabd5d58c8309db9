"""Artifacts: the same bytes for the same program, everything back, nothing damaged accepted."""

import hashlib
import inspect
import io
import json
import random
import struct
import typing
import zipfile
from collections import Counter

import pytest
from manual_backend import module_of

import lmc
from lmc.codegen.artifact import load_artifact, pack_artifact, save_artifact, unpack_artifact
from lmc.codegen.artifact_file import ENTRIES, FORMAT_VERSION, HEADER, MAGIC
from lmc.codegen.lower import lower
from lmc.codegen.plan import PLAN_VERSION, PlanBlock, PlanFunction, PlanParam
from lmc.codegen.prefix_kv import pack_kv
from lmc.codegen.signature import annotation_of, signature_of
from lmc.codegen.target import oracle_target
from lmc.errors import ArtifactError, RunError, UsageError
from lmc.ir.printer import print_module

TEXT = """
module "m" {} {
  entry @main
  func @main program (%effect: effect, %x: py, %n: py) {params = [
      {name = "x", annotation = "str"},
      {name = "n", annotation = "list[int]", default = (1, 2)}], doc = "Say it."} {
    %s: state = lm.prologue {pieces = [["text", "Say: "]]} loc(#0)
    %s1: state = lm.extend %s, %x
    %s2: state, %v: text, %m: meta = lm.gen %s1 {name = "v", params = {stop = "\\n"}, dynamic = []}
    %e: effect, %r: py = host.call %effect, %v {callee = "builtins:len"}
    func.return %e, %s2, %r
  }
}
#0 = "m.py":3:5-3:9 "    s += 'ü'"
"""
LOG = [{"name": "fold", "level": "E", "options": {}, "changed": True, "remarks": []}]


def module():
    return module_of(TEXT)


def packed(**changes):
    made = module()
    given = {
        "captured": made, "module": made, "plan": lower(made, oracle_target()),
        "target": oracle_target(),
        "entry": "main", "pass_log": LOG, "lmc_version": "0.1.0",
    }  # fmt: skip
    return pack_artifact(**(given | changes))


def test_everything_comes_back(tmp_path):
    path = tmp_path / "m.lmc"
    made, target = module(), oracle_target()
    plan = lower(made, target)
    save_artifact(
        path, captured=made, module=made, plan=plan, target=target, entry="main", pass_log=LOG,
        lmc_version="9", pipeline="fold", hosts={"builtins:len": None},
    )  # fmt: skip
    loaded = load_artifact(path)
    assert [item.name for item in tmp_path.iterdir()] == ["m.lmc"]
    assert loaded.plan == plan
    assert loaded.module_text == print_module(made)
    assert print_module(loaded.module()) == print_module(made)
    assert loaded.captured_text == print_module(made)
    assert loaded.pipeline == "fold"
    assert loaded.hosts == {"builtins:len": None}
    assert loaded.pass_log == LOG
    assert loaded.doc == "Say it."
    assert loaded.host_imports == ["builtins:len"]
    assert loaded.manifest["model"] == "oracle"
    assert loaded.manifest["lmc_version"] == "9"
    assert loaded.manifest["passes"] == [{"name": "fold", "level": "E"}]
    assert loaded.manifest["programs"][0]["params"][1]["default"] == (1, 2)
    assert loaded.target["fingerprint"] == target.fingerprint
    assert loaded.target["tokenizer_fingerprint"] == target.tokenizer.fingerprint
    begin = list(target.template.begin("user", is_first=False))
    assert loaded.target["template"]["user"]["begin"] == begin


def test_the_same_program_gives_the_same_bytes():
    assert packed() == packed()
    assert packed(lmc_version="0.2.0") != packed()


def test_every_flipped_byte_is_refused():
    data = packed()
    assert unpack_artifact(data)
    for position in [*range(HEADER.size), *range(HEADER.size, len(data), 50), len(data) - 1]:
        for bit in (0x01, 0x80):
            damaged = bytearray(data)
            damaged[position] ^= bit
            with pytest.raises(ArtifactError):
                unpack_artifact(bytes(damaged))


def test_every_cut_is_refused():
    data = packed()
    for length in [*range(HEADER.size + 2), *range(HEADER.size, len(data), 97), len(data) - 1]:
        with pytest.raises(ArtifactError):
            unpack_artifact(data[:length])
    with pytest.raises(ArtifactError, match="added"):
        unpack_artifact(data + b"x")


def with_payload(payload, version=FORMAT_VERSION, kv=b""):
    digest = hashlib.sha256(payload).digest()
    kv_digest = hashlib.sha256(kv).digest() if kv else bytes(32)
    return HEADER.pack(MAGIC, version, len(payload), digest, len(kv), kv_digest) + payload + kv


def zipped(entries, compression=zipfile.ZIP_STORED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return with_payload(buffer.getvalue())


def contents():
    with zipfile.ZipFile(io.BytesIO(packed()[HEADER.size :])) as archive:
        return [(name, archive.read(name)) for name in ENTRIES]


def test_foreign_files_are_told(tmp_path):
    for name, data, message in (
        ("empty", b"", "not an lmc artifact"),
        ("zip", packed()[HEADER.size :], "not an lmc artifact"),
        ("text", packed().replace(b"\r\n", b"\n", 1), "transfer as text"),
        ("short", packed()[:20], "cut off"),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(ArtifactError, match=message) as caught:
            load_artifact(path)
        assert str(path) in caught.value.message
    with pytest.raises(ArtifactError, match="cannot read"):
        load_artifact(tmp_path / "missing")
    with pytest.raises(ArtifactError, match="cannot write"):
        save_artifact(
            tmp_path / "no" / "m.lmc", captured=module(), module=module(),
            plan=lower(module(), oracle_target()), target=oracle_target(), entry="main",
        )  # fmt: skip


def test_newer_versions_are_told():
    payload = packed()[HEADER.size :]
    with pytest.raises(ArtifactError, match="format 3, this lmc reads up to 2"):
        unpack_artifact(with_payload(payload, version=3))
    with pytest.raises(ArtifactError, match="format 1, this lmc reads format 2") as caught:
        unpack_artifact(with_payload(payload, version=1))
    assert "compile the program again" in (caught.value.hint or "")
    with pytest.raises(ArtifactError, match="format 0"):
        unpack_artifact(with_payload(payload, version=0))
    entries = [
        (n, d.replace(b'"version":%d' % PLAN_VERSION, b'"version":7') if n == "plan.json" else d)
        for n, d in contents()
    ]
    with pytest.raises(ArtifactError, match="version 7"):
        unpack_artifact(zipped(entries))


def changed(name, data):
    return [(n, data if n == name else d) for n, d in contents()]


def test_crafted_payloads_with_right_checksums_are_refused():
    bomb = [*contents()[:-1], ("pass_log.json", b"[" + b" " * 5_000_000 + b"]")]
    for data in (
        with_payload(b"no zip"),
        zipped(contents()[:-1]),
        zipped([*contents(), ("more", b"")]),
        zipped([("../" + n, d) for n, d in contents()]),
        zipped(bomb, zipfile.ZIP_DEFLATED),
        zipped(changed("manifest.json", b"[]")),
        zipped(changed("manifest.json", b"{}")),
        zipped(changed("target.json", b"{}")),
        zipped(changed("plan.json", b"[" * 100_000)),
        zipped(changed("plan.json", b"{")),
        zipped(changed("pass_log.json", b"7")),
        zipped(changed("module.lmir", b"\xff")),
        zipped(changed("captured.lmir", b"\xff")),
        zipped(changed("plan.json", b'{"shared":[],"data":{"$shared":0}}')),
        zipped(changed("plan.json", b'{"shared":7,"data":1}')),
    ):
        with pytest.raises(ArtifactError):
            unpack_artifact(data)


def test_sizes_that_lie_are_refused():
    payload = bytearray(packed()[HEADER.size :])
    directory = payload.rindex(b"PK\x01\x02")
    struct.pack_into("<I", payload, directory + 24, 2**31)
    with pytest.raises(ArtifactError):
        unpack_artifact(with_payload(bytes(payload)))


def signature(*params):
    return signature_of(PlanFunction("f", "program", params, PlanBlock(0, (), 0, (), (), ())))


def test_signatures_are_real():
    made = signature(
        PlanParam("essay", "str"),
        PlanParam("items", "list[str]", has_default=True, default=["a"]),
        PlanParam("limit", has_default=True, default=3, keyword_only=True),
    )

    def expected(essay: str, items: list[str] = ["a"], *, limit=3): ...  # noqa: B006

    assert made == inspect.signature(expected)
    assert made.bind("x").arguments == {"essay": "x"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("str", str),
        ("dict[str, list[int]]", dict[str, list[int]]),
        ("int | None", int | None),
        ("Literal['a', 1]", typing.Literal["a", 1]),
        ("typing.Any", typing.Any),
        ("tuple[int, ...]", tuple[int, ...]),
        ("'str'", str),
        ("Essay", "Essay"),
        ("print('x')", "print('x')"),
        ("__import__('os')", "__import__('os')"),
        ("list[Essay]", "list[Essay]"),
        ("not python", "not python"),
    ],
)
def test_annotations_are_read_and_never_run(text, expected):
    assert annotation_of(text) == expected


EDITS = (
    None, True, -1, 7, 10**12, 1.5, "", "lm.gen", "host.call", "os:system", [], [1, 2], {},
    {"$int": "z"}, {"$tuple": [1]}, {"$text": [-1]}, {"$shared": -1}, {"$dict": [[1, 2]]},
)  # fmt: skip


def places(data, path=()):
    """Yield the path of every part of JSON data but the whole."""
    for key, item in data.items() if isinstance(data, dict) else enumerate(data):
        yield (*path, key)
        if isinstance(item, (dict, list)):
            yield from places(item, (*path, key))


def edited(data, draw):
    """Return JSON data with some part left out, repeated, or another value there."""
    made = json.loads(data)
    *path, key = draw.choice(list(places(made)))
    owner = made
    for part in path:
        owner = owner[part]
    kind = draw.randrange(4)
    if kind == 0:
        del owner[key]
    elif kind == 1 and isinstance(owner, list):
        owner.insert(key, owner[key])
    elif kind == 2 and type(owner[key]) is int:
        owner[key] += draw.choice((1, -1))
    else:
        owner[key] = draw.choice(EDITS)
    return json.dumps(made).encode()


def test_edits_with_right_checksums_are_refused_or_run(tmp_path):
    draw, path, outcomes = random.Random(4), tmp_path / "m.lmc", Counter()
    names = ("plan.json", "plan.json", "manifest.json", "target.json", "pass_log.json")
    for _ in range(500):
        name = draw.choice(names)
        path.write_bytes(zipped(changed(name, edited(dict(contents())[name], draw))))
        try:
            loaded = lmc.load(path)
            loaded.remark_lines()
            loaded.run("x", [2], backend="oracle", timeout=10).text()
            outcomes["ran"] += 1
        except ArtifactError:
            outcomes["refused"] += 1
        except (
            RunError,
            UsageError,
        ):  # what a program can say as well: another method, another value
            outcomes["failed"] += 1
    assert outcomes["refused"] > 250, outcomes
    assert outcomes["failed"] < 25, outcomes


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'"lm.extend"', b'"lm.nothing"', "there is no step 'lm.nothing'"),
        (b'"lm.extend"', b'"func.return"', "there is no step 'func.return'"),
        (
            b'"lm.extend",[3,1],[4]',
            b'"lm.extend",[3,5],[4]',
            "operand 1 (r5) is not defined before this op",
        ),
        (b'"lm.extend",[3,1],[4]', b'"lm.extend",[3,1],[3]', "not filled once"),
        (b'"lm.extend",[3,1],[4]', b'"lm.extend",[1,3],[4]', "takes states at other places"),
        (b'"host.call",[0,6]', b'"host.call",[0,9]', "is not defined before this op"),
        (b'"host.call",[0,6]', b'"host.call",[6,0]', "operand 0 is py instead of effect"),
        (b'"params":{"stop"', b'"params":{"halt"', "unknown parameter 'halt'"),
        (b'"held_back":', b'"held_back":-', "its token ids are no numbers from 0"),
        (b'"kind":"program"', b'"kind":"helper"', "entry @main is a helper"),
    ],
)
def test_a_plan_that_lowering_never_makes_is_refused(old, new, message):
    plan = dict(contents())["plan.json"]
    assert plan.count(old) == 1, plan
    with pytest.raises(ArtifactError, match="the plan is damaged") as caught:
        unpack_artifact(zipped(changed("plan.json", plan.replace(old, new))))
    assert message in caught.value.message


@pytest.mark.parametrize("text", [b"", b"module", b'module "m" {} {\n  entry @main\n}\n'])
def test_ir_text_that_is_none_is_told_when_it_is_needed(text):
    for name in ("captured.lmir", "module.lmir"):
        loaded = unpack_artifact(zipped(changed(name, text)))
        with pytest.raises(ArtifactError, match="the artifact is damaged"):
            loaded.captured() if name == "captured.lmir" else loaded.module()


def test_token_ids_beyond_the_vocabulary_and_foreign_kv_are_refused():
    plan = dict(contents())["plan.json"]
    wrong = plan.replace(b'"token_ids":{"$tuple":[', b'"token_ids":{"$tuple":[1000000000,')
    assert wrong != plan
    with pytest.raises(ArtifactError, match="a token id of a prologue is none of"):
        unpack_artifact(zipped(changed("plan.json", wrong)))
    ids = lower(module(), oracle_target()).functions["main"].body.steps[0].attributes["token_ids"]
    own = pack_kv([ids], {}, 2, lambda ids, start: bytes(2 * (len(ids) - start)))
    assert unpack_artifact(packed(kv=own)).kv == own
    other = pack_kv([(1, 2)], {}, 2, lambda ids, start: bytes(2 * (len(ids) - start)))
    with pytest.raises(ArtifactError, match="its prefix KV is that of another program"):
        unpack_artifact(packed(kv=other))
