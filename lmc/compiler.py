"""The compiler's line: capture, passes, lowering."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lmc.compiled import CompiledProgram
from lmc.frontend.capture import Captured, capture
from lmc.ir.core import Module
from lmc.ir.profile import Profile, check_profile
from lmc.ir.target import Backend, Target
from lmc.program import Program

PrintAfter = Callable[[str, Module], None]


def capture_programs(programs: Sequence[Program], folder: Path | None = None) -> Captured:
    """Turn the source of programs into one module.

    Raises:
        CaptureError: the source holds something that cannot be captured.
    """
    return capture([program.__lmc_function__ for program in programs], folder=folder)


def optimise(
    module: Module,
    passes: str | None = None,
    print_after: PrintAfter | None = None,
    profile: Profile | None = None,
) -> tuple[Module, Sequence[Any]]:
    """Run a pipeline (None: the default one, "": none) and return the module and pass log.

    What a `profile` says of the program is noted before the first pass.

    Raises:
        UsageError: the pipeline text names what does not exist.
        PassError: a pass failed or left IR that does not verify.
    """
    from lmc.passes.pipeline import DEFAULT_PIPELINE, PassManager

    manager = PassManager.parse(DEFAULT_PIPELINE if passes is None else passes)
    if profile is not None:
        from lmc.passes.use_profile import UseProfilePass

        check_profile(profile)
        manager = PassManager(passes=(UseProfilePass(profile=profile), *manager.passes))
    result = manager.run(module, print_after=print_after)
    return result.module, result.log


def compile_captured(
    captured: Captured,
    target: Target,
    *,
    entry: str,
    passes: str | None = None,
    print_after: PrintAfter | None = None,
    takes_media: bool = False,
    profile: Profile | None = None,
) -> CompiledProgram:
    """Compile a captured module for a target; `takes_media`: its backend sees images.

    `profile` is what recorded runs took; it changes what is prepared for, never a result.

    Raises:
        CompileError: a pass or lowering failed; tells where.
    """
    from lmc.codegen.lower import lower
    from lmc.codegen.media import refuse_media
    from lmc.passes.pipeline import DEFAULT_PIPELINE

    pipeline = DEFAULT_PIPELINE if passes is None else passes
    first = captured.module

    def show(name: str, made: Module) -> None:
        nonlocal first
        if name == "profile":
            first = made  # what later pipelines start from
        if print_after is not None:
            print_after(name, made)

    module, log = optimise(first, pipeline, show, profile)
    if not takes_media:
        refuse_media(module, target.name)
    plan = lower(module, target)
    return CompiledProgram(
        plan, entry, module=module, target=target, pass_log=log, pipeline=pipeline,
        captured=captured,
        first=first,
    )  # fmt: skip


def compile_program(
    program: Program | Sequence[Program],
    *,
    model: Backend | str | Path | None = None,
    target: Target | None = None,
    passes: str | None = None,
    print_after: PrintAfter | None = None,
    takes_media: bool = False,
    profile: Profile | None = None,
) -> CompiledProgram:
    """Compile a program for a model, or for a target that is already open.

    Args:
        program: what `@lmc.function` made; or several, to be kept in one artifact, of which
            the first is meant when none is named.
        model: a backend, a model's path or name, "oracle", or None for the default model.
        target: what to compile for, instead of `model`.
        passes: pipeline text; None takes the default pipeline, "" none.
        print_after: called with (pass name, module) after each pass.
        takes_media: whether what runs `target` sees images; of a `model` it is known.
        profile: what recorded runs took; it changes what is prepared for, never a result.

    Raises:
        CompileError: capture, a pass or lowering failed; tells where.
        ModelError: there is no such model.
    """
    from lmc.backends import open_target

    if target is None:
        target = open_target(None) if model is None else _target_of(model)
        takes_media = getattr(model, "takes_media", getattr(target, "sees", False))
    programs = [program] if isinstance(program, Program) else list(program)
    captured = capture_programs(programs)
    return compile_captured(
        captured, target, entry=programs[0].name, passes=passes, print_after=print_after,
        takes_media=takes_media, profile=profile,
    )  # fmt: skip


def _target_of(model: Backend | str | Path) -> Target:
    """Return the target of a backend, or of a model by its path or name."""
    from lmc.backends import open_target

    return open_target(str(model)) if isinstance(model, (str, Path)) else model.target
