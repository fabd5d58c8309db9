"""What the command line is given: program files, artifacts and IR text."""

from pathlib import Path
from typing import Any

from lmc.compiled import CompiledProgram, load
from lmc.compiler import capture_programs, compile_captured, optimise
from lmc.errors import UsageError
from lmc.frontend.load import load_programs
from lmc.ir.core import Module
from lmc.program import Program


def split_source(source: str) -> tuple[Path, str | None]:
    """Split 'prog.py:name' into path and name; a Windows drive letter is no name."""
    head, colon, tail = source.rpartition(":")
    if colon and tail.isidentifier() and head:
        return Path(head), tail
    return Path(source), None


def is_artifact(source: str) -> bool:
    """Whether a source is a compiled program by its name."""
    return split_source(source)[0].suffix == ".lmc"


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


def compile_source(
    source: str, model: str | None, passes: str | None, print_after: Any = None
) -> CompiledProgram:
    """Compile a program file for a model; needs no weights.

    Raises:
        UsageError: no such file, program or model.
        CompileError: the program could not be compiled.
    """
    from lmc.backends import open_target

    if is_artifact(source):
        raise UsageError(f"{source} is compiled already", hint=f"run it: lmc run {source}")
    path, _ = split_source(source)
    _, program = find_program(source)
    captured = capture_programs([program], folder=path.resolve().parent)
    return compile_captured(
        captured, open_target(model), entry=program.name, passes=passes, print_after=print_after
    )


def module_of(source: str, passes: str | None, after: str | None) -> Module:
    """Return the module of a program file, an artifact or an IR text file.

    A program's module is shown after the default pipeline; `passes` chooses another, `after`
    cuts it behind a pass. Artifacts and IR text are shown as they are unless `passes` is given.

    Raises:
        UsageError: no such file, or `after` names no pass of the pipeline.
        ParseError: IR text that does not parse.
    """
    path, _ = split_source(source)
    if path.suffix == ".lmir":
        from lmc.ir.parser import parse_module

        module = parse_module(read_text(path), str(path))
        default: str | None = ""
    elif path.suffix == ".lmc":
        module, default = load(path).module, ""
    else:
        _, program = find_program(source)
        module = capture_programs([program], folder=path.resolve().parent).module
        default = None
    chosen = default if passes is None else passes
    if after is not None:
        chosen = cut_pipeline(chosen, after)
    return optimise(module, chosen)[0] if chosen != "" else module


def cut_pipeline(passes: str | None, after: str) -> str:
    """Return the part of a pipeline text that ends behind the last pass named `after`."""
    from lmc.passes.pipeline import DEFAULT_PIPELINE, PassManager

    parts = [str(each) for each in PassManager.parse(passes or DEFAULT_PIPELINE).passes]
    names = [part.split("{")[0] for part in parts]
    if after not in names:
        raise UsageError(
            f"'{after}' is not in the pipeline", hint=f"its passes: {', '.join(names)}"
        )
    last = len(names) - 1 - names[::-1].index(after)
    return ",".join(parts[: last + 1])


def read_text(path: Path) -> str:
    """Read a UTF-8 text file; raises UsageError where that fails."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error


def write_text(path: Path, text: str) -> None:
    """Write a text file; raises UsageError where that fails."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error}") from error
