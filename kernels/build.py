"""Compile the C++ kernels with the system's compiler, once per machine and source state.

The shared library lies in a cache folder under a name that is a hash of everything its code
depends on: sources, flags, compiler version and the processor's features (`-march=native`).
It is written beside its final name and renamed, so processes that build at once do no harm.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lmc.errors import LmcError
from lmc.kernels.threads import usable_cores

SOURCE_FOLDER = Path(__file__).resolve().parent / "csrc"
COMPILERS = ("g++", "clang++", "c++")
BASE_FLAGS = (
    "-std=c++20",
    "-O3",
    "-pthread",
    "-ffp-contract=off",
    "-fvisibility=hidden",
    "-fPIC",
    "-w",
)
COMPILE_TIMEOUT_S = 300


class BuildError(LmcError):
    """The kernels could not be compiled; callers fall back to the reference kernels."""


def cache_folder() -> Path:
    """Return the folder of compiled kernels: $LMC_CACHE, $XDG_CACHE_HOME/lmc or ~/.cache/lmc."""
    if own := os.environ.get("LMC_CACHE"):
        base = Path(own)
    elif shared := os.environ.get("XDG_CACHE_HOME"):
        base = Path(shared) / "lmc"
    else:
        base = Path.home() / ".cache" / "lmc"
    return base / "kernels"


def find_compiler() -> str | None:
    """Return the path of a C++ compiler ($CXX first), or None where there is none."""
    wanted = os.environ.get("CXX")
    for name in (wanted,) if wanted else COMPILERS:
        if name and (path := shutil.which(name)):
            return path
    return None


def build_library(arch: str = "native", defines: Sequence[str] = ()) -> Path:
    """Return the compiled kernels, building them first if the cache has none.

    Args:
        arch: value of the compiler's `-march`.
        defines: preprocessor names to define.

    Raises:
        BuildError: no compiler, or it failed.
    """
    compiler = find_compiler()
    if compiler is None:
        raise BuildError(
            f"no C++ compiler found (looked for {os.environ.get('CXX') or ', '.join(COMPILERS)})",
            hint="install g++ or clang++, or set CXX",
        )
    flags = [*BASE_FLAGS, f"-march={arch}", *(f"-D{name}" for name in defines)]
    digest = _digest(compiler, flags)
    folder = cache_folder()
    library = folder / f"{digest}.so"
    if library.exists():
        return library
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="lmc-kernels-"))
        library = folder / f"{digest}.so"
    _compile(compiler, flags, library)
    return library


def _compile(compiler: str, flags: Sequence[str], library: Path) -> None:
    """Compile all sources, at the same time, and move the linked library to its place."""
    with tempfile.TemporaryDirectory(prefix=".build-", dir=library.parent) as scratch:
        sources = _sources("*.cpp")
        objects = [str(Path(scratch) / f"{source.stem}.o") for source in sources]
        commands = [
            [compiler, *flags, "-c", str(source), "-o", target]
            for source, target in zip(sources, objects, strict=True)
        ]
        with ThreadPoolExecutor(max_workers=usable_cores()) as pool:
            list(pool.map(_run_compiler, commands))
        linked = Path(scratch) / "linked.so"
        _run_compiler([compiler, *flags, "-shared", "-o", str(linked), *objects])
        os.replace(linked, library)


def _run_compiler(command: Sequence[str]) -> None:
    """Run one compiler command."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{command[0]} could not compile the kernels: {error}") from error
    if done.returncode != 0:
        raise BuildError(
            f"{command[0]} could not compile the kernels:\n{done.stderr.strip()[-2000:]}",
            hint="a compiler with C++20 is needed (g++ 11 or clang++ 14)",
        )


def _sources(pattern: str) -> list[Path]:
    """Return the sources in a stable order."""
    return sorted(SOURCE_FOLDER.glob(pattern))


def _digest(compiler: str, flags: Sequence[str]) -> str:
    """Hash everything that the compiled code depends on."""
    digest = hashlib.sha256()
    for path in [*_sources("*.cpp"), *_sources("*.h")]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    try:
        version = subprocess.run(
            [compiler, "--version"], capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{compiler} does not run: {error}") from error
    for part in (*flags, version, platform.machine(), _cpu_features()):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:24]


def _cpu_features() -> str:
    """Return the processor's model and feature flags, where the system tells them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    wanted = ("model name", "flags", "Features", "CPU part")
    found = {line.split(":")[0].strip(): line for line in reversed(lines)}
    return "\n".join(found[key] for key in wanted if key in found)
