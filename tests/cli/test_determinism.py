"""The same program gives the same bytes, wherever and whenever; changed bytes never run."""

import os
import random
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from command_support import EXAMPLES, environment

import lmc
from lmc.codegen.artifact_file import HEADER
from lmc.codegen.prefix_kv import pack_kv
from lmc.errors import ArtifactError
from lmc.frontend.load import load_programs

RICH = '''
import datetime
import lmc
from rich_tools import stamp

KINDS = sorted({"good", "bad", "neither"})
TABLE = {"b": 1.5, "a": float("inf"), "c": 2**70, "d": ("x", -0.0), "u": "ü \\u2028 \\ud800"}

def label(kind, *, width=8):
    """Be embedded."""
    return f"[{kind:>{width}}] {TABLE['b']:.3f}"

@lmc.function
def rich(s, topic: str, table: dict = TABLE, n: int = 3) -> "str | None":
    """Have much to say.

        Indented.
    """
    for kind in KINDS:
        forks = s.fork(2)
        for fork in forks:
            fork += label(kind) + topic + lmc.gen("view", max_tokens=n)
        s += forks[0]["view"] + stamp(topic, kind=kind) + str(datetime.date(2020, 1, n))
    if s.text() == "":
        return None
    s += lmc.gen("last", regex=r"[a-z]{2,5}(ly)?", temperature=0.5)
    return s["last"]

@lmc.function
def other(s):
    s += lmc.user("Hello!") + lmc.assistant(lmc.select("which", choices=["yes", "no"]))
'''
TOOLS = """
def stamp(text, *, kind, seen=object()):
    with open(text) as file:
        return file.read() + kind
"""

COMPILE = """
import os, site, sys
for folder in {folders!r}:
    site.addsitedir(folder)
os.umask({umask})
from lmc.cli import run_command
for number, source in enumerate({sources!r}):
    made = f"made{{number}}.lmc"
    code = run_command(["compile", source, "--model", "oracle", "-o", made, *{options!r}])
    if code:
        sys.exit(code)
"""


def made_in(
    folder: Path, *sources: str, python: str = sys.executable, umask: int = 0o22,
    options: tuple[str, ...] = (), **variables: str,
) -> list[bytes]:  # fmt: skip
    """Compile in a process of its own, in a folder, and return the artifacts."""
    folders = [sysconfig.get_paths()["purelib"]]
    code = COMPILE.format(folders=folders, sources=sources, umask=umask, options=options)
    done = subprocess.run(
        [python, "-c", code], cwd=folder, env=environment(**variables), text=True,
        capture_output=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [(folder / f"made{number}.lmc").read_bytes() for number in range(len(sources))]


def test_surroundings_do_not_change_a_byte(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "a folder" / "of another name"
    for folder in (one, two):
        folder.mkdir(parents=True)
        (folder / "rich.py").write_text(RICH, encoding="utf-8")
        (folder / "rich_tools.py").write_text(TOOLS)
    (tmp_path / "link").symlink_to(one)
    os.utime(two / "rich.py", (0, 1_000_000_000))
    first = made_in(one, "rich.py", PYTHONHASHSEED="0", TZ="UTC", LC_ALL="C")
    assert first == made_in(
        two, "rich.py", umask=0o77, PYTHONHASHSEED="4242", TZ="Asia/Tokyo", LC_ALL="C.UTF-8",
        LANG="tr_TR.UTF-8",
    )  # fmt: skip
    assert first == made_in(two, str(one / "rich.py"), PYTHONHASHSEED="7", HOME=str(two))
    assert first == made_in(tmp_path, "link/rich.py", PYTHONOPTIMIZE="1")
    assert str(tmp_path).encode() not in first[0]
    changed = RICH.replace('"neither"', '"none"')
    (one / "rich.py").write_text(changed, encoding="utf-8")
    assert first != made_in(one, "rich.py")


def other_python(version: str) -> str:
    """Return a Python of another minor version that can use the packages of this one."""
    if f"{sys.version_info[0]}.{sys.version_info[1]}" == version:
        pytest.skip("that is this one")
    site = sysconfig.get_paths()["purelib"]
    probe = f"import site; site.addsitedir({site!r}); import click, tokenizers, jinja2, lmc"
    places = [shutil.which(f"python{version}"),
              *Path.home().glob(f".pyenv/versions/{version}.*/bin/python")]  # fmt: skip
    for python in filter(None, places):
        tried = subprocess.run([python, "-c", probe], capture_output=True, timeout=60)
        if tried.returncode == 0:
            return str(python)
    pytest.skip(f"no Python {version} here that can use the installed packages")


# The constraints of jump-forward need numpy, which one Python's packages hold for it alone.
PASSES = ("--passes", "fold,unroll,fold,inline,fold,dce,cse,hoist-prefix,fold,batch-forks,dce")
SOURCES = ("rich.py", *(str(EXAMPLES / f"{name}.py") for name in ("judge", "react", "few_shot")))


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program that has much to say."""
    folder = tmp_path_factory.mktemp("rich")
    (folder / "rich.py").write_text(RICH, encoding="utf-8")
    (folder / "rich_tools.py").write_text(TOOLS)
    return folder


@pytest.fixture(scope="module")
def expected(rich: Path) -> list[bytes]:
    """The artifacts that this Python makes."""
    return made_in(rich, *SOURCES, options=PASSES)


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_another_python_gives_the_same_bytes(
    rich: Path, expected: list[bytes], version: str
) -> None:
    python = other_python(version)
    assert made_in(rich, *SOURCES, python=python, options=PASSES) == expected


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory) -> dict[str, bytes]:
    """The judge's artifact, and the same with a section of KV."""
    from lmc.codegen.artifact import load_artifact
    from lmc.codegen.artifact_file import join_file, split_file

    path = tmp_path_factory.mktemp("artifacts") / "judge.lmc"
    compiled = load_programs(EXAMPLES / "judge.py")["judge"].compile("oracle")
    compiled.save(path)
    plain = path.read_bytes()
    found = {step.attributes.get("token_ids", ()) for step in compiled.plan.steps()}
    prefixes = sorted(ids for ids in found if ids)
    assert prefixes
    kv = pack_kv(prefixes, {"weights": "w"}, 64, lambda ids, start: bytes(64 * (len(ids) - start)))
    with_kv = join_file(split_file(plain)[0], kv)
    path.write_bytes(with_kv)
    assert load_artifact(path).kv == kv
    return {"plain": plain, "kv": with_kv}


def damaged(data: bytes, draw: random.Random) -> bytes:
    """Return data with a bit or byte changed, cut off, left out, doubled, or added."""
    place = draw.randrange(len(data)) if draw.random() < 0.8 else draw.randrange(HEADER.size)
    match draw.randrange(8):
        case 0 | 1 | 2:
            changed = bytes([data[place] ^ 1 << draw.randrange(8)])
        case 3 | 4:
            changed = bytes([(data[place] + draw.randrange(1, 256)) % 256])
        case 5:
            return data[:place]
        case 6:
            return data + draw.randbytes(draw.randrange(1, 50))
        case _:
            changed = draw.choice([b"", bytes([data[place]]) * 2])
    return data[:place] + changed + data[place + 1 :]


@pytest.mark.parametrize("kind", ["plain", "kv"])
def test_two_thousand_changed_files_never_run(
    artifacts: dict[str, bytes], tmp_path: Path, kind: str
) -> None:
    data, path = artifacts[kind], tmp_path / "changed.lmc"
    draw = random.Random(kind)
    messages: set[str] = set()
    for _ in range(2_000):
        changed = damaged(data, draw)
        if changed == data:
            continue
        path.write_bytes(changed)
        with pytest.raises(ArtifactError) as caught:
            lmc.load(path)
        assert caught.value.message.startswith(f"{path}: ")
        assert caught.value.hint
        messages.add(
            caught.value.message.removeprefix(f"{path}: ").split(":")[0].split("format")[0]
        )
    assert {"the artifact is damaged", "the artifact is cut off"} <= messages
    assert {"the artifact has bytes added to it", "not an lmc artifact"} <= messages


@pytest.mark.parametrize("kind", ["plain", "kv"])
def test_every_byte_of_the_header_and_every_part_is_checked(
    artifacts: dict[str, bytes], kind: str
) -> None:
    from lmc.codegen.artifact import unpack_artifact

    data = artifacts[kind]
    step = max(1, len(data) // 500)
    for place in [*range(HEADER.size), *range(HEADER.size, len(data), step), len(data) - 1]:
        for bit in range(8):
            changed = bytearray(data)
            changed[place] ^= 1 << bit
            with pytest.raises(ArtifactError):
                unpack_artifact(changed)
