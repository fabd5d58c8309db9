"""The command `lmc compile`: what is written, and what is told about it."""

import keyword
import shlex
import sys
from pathlib import Path
from typing import Any

from lmc.codegen.python_module import MARK, module_text, stub_text
from lmc.compiled import CompiledProgram
from lmc.errors import UsageError
from lmc.ir.profile_file import read_profile
from lmc.progress import Progress
from lmc.sources import artifact_path, compile_source, write_text


def compile_to_file(
    source: str,
    *,
    output: Path | None,
    model: str | None,
    passes: str | None,
    print_after: Any,
    with_kv: bool,
    dtype: str | None,
    weights: str,
    activations: str,
    profile: Path | None,
    emit: str | None,
) -> tuple[CompiledProgram, list[str]]:
    """Compile programs and write their artifact; return them, and what to tell.

    Raises:
        UsageError: wrong options, no such file, program or model.
        CompileError: a program could not be compiled, or the file cannot be written.
    """
    if not with_kv:
        _expect_defaults(dtype, weights, activations)
    path, module = _paths(source, output, emit)
    recorded = read_profile(profile) if profile is not None else None
    with Progress() as progress:
        with progress.running(f"compiling {source}"):
            compiled = compile_source(source, model, passes, print_after, recorded)
        backend: Any = None
        if with_kv:
            from lmc.backends import open_backend

            chosen: Any = {"weights": weights, "activations": activations}
            if dtype is not None:
                chosen["dtype"] = dtype
            backend = open_backend(model, progress=progress, **chosen)
        with progress.running("computing the constant prefixes" if with_kv else f"writing {path}"):
            compiled.save(path, kv_backend=backend)
    told = describe_lines(compiled, path)
    if with_kv:
        told.insert(1, kv_line(path))
    if module is not None:
        told.insert(-1, write_module(compiled, path, module))
    return compiled, [*compiled.profile_lines(), *told]


def _expect_defaults(dtype: str | None, weights: str, activations: str) -> None:
    """Refuse options that say how the KV is computed where there is none.

    Raises:
        UsageError: one of them is given.
    """
    for name, is_given in (
        ("dtype", dtype is not None),
        ("weights", weights != "full"),
        ("activations", activations != "full"),
    ):
        if is_given:
            raise UsageError(
                f"--{name} is that of the KV", hint="give --with-kv too, or leave it out"
            )


def _paths(source: str, output: Path | None, emit: str | None) -> tuple[Path, Path | None]:
    """Return where the artifact goes, and the module of `--emit py`: `-o` may name either.

    Raises:
        UsageError: no file, or no module that can be imported, can be written there.
    """
    if emit is None:
        return artifact_path(source, output), None
    if output is not None and output.suffix == ".py":
        path, module = artifact_path(source, output.with_suffix(".lmc")), output
    else:
        path = artifact_path(source, output)
        module = path.with_name(f"{path.stem}_lmc.py")
    if not module.stem.isidentifier() or keyword.iskeyword(module.stem):
        raise UsageError(
            f"a module cannot be named {module.stem!r}", hint="name it: -o judge_lmc.py"
        )
    for file in (module, module.with_suffix(".pyi")):
        if file.exists() and MARK not in file.read_text(encoding="utf-8", errors="replace")[:1000]:
            raise UsageError(
                f"{file} is there, and was not made by lmc",
                hint="name another one: -o judge_lmc.py",
            )
    return path, module


def write_module(compiled: CompiledProgram, path: Path, module: Path) -> str:
    """Write the importable module of an artifact and its stub; return what to tell."""
    write_text(module, module_text(compiled.plan, path.name))
    write_text(module.with_suffix(".pyi"), stub_text(compiled.plan))
    call = f"{module.stem}.{compiled.name}{compiled.__signature__}"
    return f"wrote {module} and its stub: `import {module.stem}`, then {call}"


def kv_line(path: Path) -> str:
    """Return what the KV in an artifact is."""
    from lmc.codegen.artifact import load_artifact
    from lmc.codegen.prefix_kv import unpack_kv

    made = unpack_kv(load_artifact(path).kv)
    tokens = sum(len(prefix.token_ids) - prefix.start for prefix in made.prefixes)
    size = sum(len(prefix.data) for prefix in made.prefixes)
    prefixes = f"{len(made.prefixes)} constant prefix{'es' * (len(made.prefixes) != 1)}"
    return f"with the KV of {prefixes}: {tokens:,} tokens, {size:,} bytes"


def describe_lines(compiled: CompiledProgram, path: Path) -> list[str]:
    """Return what `lmc compile` tells about the artifact that it wrote."""
    ops = sum(1 for _ in compiled.module.walk())
    shown = [f"{name}{made.__signature__}" for name, made in compiled.programs.items()]
    what = f"{', '.join(shown)} for {compiled.model_name}"
    lines = [f"wrote {path}: {what}, {ops} ops, {path.stat().st_size:,} bytes"]
    if len(shown) > 1:
        lines.append(f"`lmc run {path}` runs {compiled.name}, {path}:NAME another one")
    needed = [name for name in compiled.imports() if _package(name) != "lmc"]
    where = "from any folder"
    if needed:
        lines.append(f"needs when it runs, importable: {', '.join(needed)}")
        standard = sys.stdlib_module_names
        modules = {n.split(":")[0]: None for n in needed if _package(n) not in standard}
        if modules:
            where = f"where {', '.join(modules)} can be imported: beside it, or installed"
    lines.append(f"next: `lmc run {shlex.quote(str(path))}` runs it, {where}")
    return lines


def _package(name: str) -> str:
    """Return the package of 'module:qualname'."""
    return name.split(":")[0].split(".")[0]
