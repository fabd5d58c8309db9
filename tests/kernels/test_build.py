"""The cache of compiled kernels, and what happens without a compiler."""

import os
import stat

import pytest

from lmc.kernels import build, default_kernels
from lmc.kernels.build import BuildError, build_library, cache_folder
from lmc.kernels.cpu import CpuKernels


@pytest.fixture
def fake_compiler(tmp_path, monkeypatch):
    """A compiler that counts its calls and writes what it was asked to write."""
    path = tmp_path / "fake-c++"
    path.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = --version ]; then echo "fake $FAKE_VERSION"; exit; fi\n'
        f'echo "$@" >> {tmp_path}/calls\n'
        'if [ -n "$FAKE_FAILURE" ]; then echo "$FAKE_FAILURE" >&2; exit 1; fi\n'
        'while [ $# -gt 0 ]; do [ "$1" = -o ] && echo code > "$2"; shift; done\n'
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CXX", str(path))
    monkeypatch.setenv("LMC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "calls"


def num_calls(calls):
    return len(calls.read_text().splitlines()) if calls.exists() else 0


def test_a_second_build_takes_the_library_from_the_cache(fake_compiler):
    first = build_library()
    count = num_calls(fake_compiler)
    assert count == len(list(build.SOURCE_FOLDER.glob("*.cpp"))) + 1
    assert build_library() == first
    assert num_calls(fake_compiler) == count
    assert sorted(p.name for p in cache_folder().iterdir()) == [first.name], "nothing left behind"


def test_flags_and_compiler_version_name_the_library(fake_compiler, monkeypatch):
    libraries = {build_library(), build_library("x86-64"), build_library(defines=["A"])}
    monkeypatch.setenv("FAKE_VERSION", "2")
    libraries.add(build_library())
    assert len(libraries) == 4


def test_a_failing_compiler_is_reported_and_leaves_nothing(fake_compiler, monkeypatch):
    monkeypatch.setenv("FAKE_FAILURE", "simd.h:1: no such vector")
    with pytest.raises(BuildError, match="no such vector"):
        build_library()
    assert list(cache_folder().iterdir()) == []


def test_without_a_compiler_the_reference_says_that_it_is_not_exact(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    kernels = default_kernels()
    assert kernels.name == "reference"
    assert not kernels.is_exact
    assert "no C++ compiler found" in kernels.warning


def test_an_unwritable_cache_is_no_failure(fake_compiler, monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("LMC_CACHE", str(blocked / "below"))
    library = build_library()
    assert library.read_text() == "code\n"
    library.unlink()
    library.parent.rmdir()


@pytest.mark.parametrize(
    ("own", "shared", "expected"),
    [("/a", "/b", "/a/kernels"), (None, "/b", "/b/lmc/kernels")],
)
def test_the_cache_folder_follows_the_environment(monkeypatch, own, shared, expected):
    for name, value in (("LMC_CACHE", own), ("XDG_CACHE_HOME", shared)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert str(cache_folder()) == expected


def test_compiled_kernels_are_the_default():
    kernels = default_kernels()
    assert isinstance(kernels, CpuKernels)
    assert kernels.is_exact
    assert kernels.warning is None
    assert os.path.exists(kernels.library.path)
