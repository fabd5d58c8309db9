"""What the command line is given: program files, artifacts and IR text."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lmc.codegen.artifact_file import MAGIC
from lmc.compiled import CompiledProgram, load
from lmc.compiler import capture_programs, compile_captured, optimise
from lmc.errors import UsageError
from lmc.frontend.load import load_programs
from lmc.ir.core import Module
from lmc.ir.profile import Profile
from lmc.program import Program


def split_source(source: str) -> tuple[Path, str | None]:
    """Split 'prog.py:name' into path and name; a Windows drive letter is no name."""
    head, colon, tail = source.rpartition(":")
    if colon and tail.isidentifier() and head:
        return Path(head), tail
    return Path(source), None


def is_artifact(source: str) -> bool:
    """Whether a source is a compiled program, by its name or by how the file begins."""
    path = split_source(source)[0]
    if path.suffix in (".lmc", ".py", ".lmir"):
        return path.suffix == ".lmc"
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def artifact_path(source: str, output: Path | None) -> Path:
    """Return where the artifact of a program file goes: `output`, or its stem with `.lmc`.

    Raises:
        UsageError: its name is that of source, or no file can be written there.
    """
    program = split_source(source)[0]
    path = output or Path(f"{program.stem}.lmc")
    refuse_unwritable(path, "-o")
    if str(path) == "-":
        raise UsageError("an artifact is not written to standard output", hint="give -o a file")
    if path.suffix in (".py", ".lmir"):
        raise UsageError(f"an artifact is not named {path.name}", hint="its name ends in .lmc")
    return path


def find_program(source: str) -> tuple[dict[str, Program], Program]:
    """Return all programs of a file and the one that the source means.

    Raises:
        UsageError: no such file or program, or several without a name to choose by.
    """
    path, name = split_source(source)
    programs = load_programs(path)
    if name is not None:
        if name not in programs:
            raise UsageError(
                f"{path} has no program '{name}'", hint=f"it has: {', '.join(programs)}"
            )
        return programs, programs[name]
    if len(programs) == 1:
        return programs, next(iter(programs.values()))
    if path.stem in programs:
        return programs, programs[path.stem]
    raise UsageError(
        f"{path} has several programs: {', '.join(programs)}",
        hint=f"choose one: {path}:{next(iter(programs))}",
    )


def find_programs(source: str) -> list[Program]:
    """Return the programs that `lmc compile` packs, the one meant when none is named first.

    'prog.py' means all programs of the file, 'prog.py:name' one, 'prog.py:a,b' several in this
    order. Of all, the entry is the one that is called as the file is, else the first.

    Raises:
        UsageError: no such file or program.
    """
    head, colon, tail = source.rpartition(":")
    names = tail.split(",") if colon and head else []
    if not names or not all(name.isidentifier() for name in names):
        path = Path(source)
        programs = load_programs(path)
        names = sorted(programs, key=lambda name: name != path.stem)
    else:
        path = Path(head)
        programs = load_programs(path)
    for name in names:
        if name not in programs:
            raise UsageError(
                f"{path} has no program '{name}'", hint=f"it has: {', '.join(programs)}"
            )
    return list({id(programs[name]): programs[name] for name in names}.values())


def compile_source(
    source: str, model: str | None, passes: str | None, print_after: Any = None,
    profile: Profile | None = None,
) -> CompiledProgram:  # fmt: skip
    """Compile the programs of a file for a model; needs no weights.

    Raises:
        UsageError: no such file, program or model.
        CompileError: the program could not be compiled.
    """
    if is_artifact(source):
        raise UsageError(f"{source} is compiled already", hint=f"run it: lmc run {source}")
    return compile_found(source, find_programs(source), model, passes, print_after, profile)


def compile_found(
    source: str,
    programs: Sequence[Program],
    model: str | None,
    passes: str | None,
    print_after: Any = None,
    profile: Profile | None = None,
) -> CompiledProgram:
    """Compile programs that were found in a source; as compile_source."""
    from lmc.backends import open_target

    folder = split_source(source)[0].resolve().parent
    captured = capture_programs(programs, folder=folder)
    return compile_captured(
        captured,
        open_target(model),
        entry=programs[0].name,
        passes=passes,
        print_after=print_after,
        takes_media=model == "oracle",
        profile=profile,
    )


def captured_of(source: str) -> tuple[Module, str | None]:
    """Return the module of a source before all passes, and the pipeline that it went through.

    For a program file that is None, the default one; IR text has gone through none.

    Raises:
        UsageError: no such file.
        ParseError: IR text that does not parse.
        VerifyError: IR text that breaks an invariant.
    """
    path, name = split_source(source)
    if path.suffix == ".lmir":
        from lmc.ir.parser import read_module

        return read_module(read_text(path), str(path)), ""
    if is_artifact(source):
        compiled = load(path, name)
        return compiled.captured_module, compiled.pipeline
    _, program = find_program(source)
    return capture_programs([program], folder=path.resolve().parent).module, None


def module_of(source: str, passes: str | None, after: str | None) -> Module:
    """Return the module of a program file, an artifact or an IR text file.

    A program is shown after the default pipeline, an artifact after its own, IR text as it is.
    `passes` chooses another pipeline, `after` cuts it behind a pass.

    Raises:
        UsageError: no such file, or `after` names no pass of the pipeline.
        ParseError: IR text that does not parse.
    """
    if is_artifact(source) and passes is None and after is None:
        return load(*split_source(source)).module
    module, pipeline = captured_of(source)
    chosen = pipeline if passes is None else passes
    if after is not None:
        chosen = cut_pipeline(chosen, after)
    return optimise(module, chosen)[0] if chosen != "" else module


def cut_pipeline(passes: str | None, after: str) -> str:
    """Return the part of a pipeline text that ends behind a pass: 'fold:2' is the second fold,
    'fold' the last."""
    from lmc.passes.pipeline import DEFAULT_PIPELINE, PassManager

    parts = [str(each) for each in PassManager.parse(passes or DEFAULT_PIPELINE).passes]
    names = [part.split("{")[0] for part in parts]
    name, _, which = after.partition(":")
    places = [place for place, each in enumerate(names) if each == name]
    number = int(which) if which.isdecimal() else len(places)
    if which.strip("0123456789") or not 1 <= number <= len(places):
        raise UsageError(
            f"'{after}' is not in the pipeline", hint=f"its passes: {', '.join(names)}"
        )
    return ",".join(parts[: places[number - 1] + 1])


def read_text(path: Path) -> str:
    """Read a UTF-8 text file, or standard input for "-"; raises UsageError where that fails."""
    if str(path) == "-":
        return sys.stdin.read()
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {reason(error)}") from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"cannot read {path}: byte {error.start} is not UTF-8", hint="save it as UTF-8"
        ) from error


def read_bytes(path: Path) -> bytes:
    """Read a file, or standard input for "-"; raises UsageError where that fails."""
    try:
        return sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {reason(error)}") from error


def write_text(path: Path, text: str) -> None:
    """Write a text file, or to standard output for "-"; raises UsageError where that fails."""
    if str(path) == "-":
        sys.stdout.write(text)
        return
    refuse_unwritable(path, "-o")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {reason(error)}") from error


def refuse_unwritable(path: Path, option: str) -> None:
    """Raise UsageError where no file can be written that an option names."""
    if path.is_dir():
        raise UsageError(
            f"cannot write {path}: it is a folder", hint=f"give {option} a file's name"
        )
    folder = path.parent
    if not folder.is_dir():
        raise UsageError(
            f"cannot write {path}: there is no folder {folder}", hint="make the folder first"
        )


def reason(error: OSError) -> str:
    """Return why a file could not be read or written, in a few words."""
    return (error.strerror or str(error)).lower()
