"""The command `lmc run`: what is run, on what, and what is printed."""

import contextlib
import secrets
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from lmc.arguments import argument_sets
from lmc.compiled import CompiledProgram, load
from lmc.errors import CaptureError, LmcError, PoolWarning, PrefixKvWarning, UsageError
from lmc.ir.profile import Profile
from lmc.program import Program
from lmc.progress import Progress
from lmc.sources import compile_found, find_program, is_artifact, refuse_unwritable, split_source

Runner = CompiledProgram | Program


def run_program(source: str, options: dict[str, Any]) -> None:
    """Carry out `lmc run`.

    Raises:
        UsageError: a wrong argument or a missing file or model.
        CompileError: the program could not be compiled.
        RunError: it failed while running.
    """
    found = find_runner(source, options)
    batch = argument_sets(found.name, found.__signature__, options["arguments"], options["rows"])
    if options["stream"] and options["rows"]:
        raise UsageError("--stream prints one run", hint="leave --args or --stream out")
    for name in ("profile", "trace"):
        if options[name] is not None:
            refuse_unwritable(options[name], f"--{name}")
    if options["kv_dir"] is not None and options["model"] == "oracle":
        raise UsageError("the oracle keeps no KV", hint="leave --kv-dir out")
    if not batch:
        click.echo(f"{found.name}: {options['rows']} has no arguments, so nothing ran", err=True)
        return
    _run(source, compiled_runner(source, found, options), batch, options)


def find_runner(source: str, options: dict[str, Any]) -> Runner:
    """Return the program that a source names, not compiled yet unless it is an artifact.

    Raises:
        UsageError: no such program, or options that do not fit an artifact.
        RunError: a host function that an artifact needs cannot be imported.
    """
    if not is_artifact(source):
        return find_program(source)[1]
    for name in ("eager", "passes"):
        if options[name] not in (None, False):
            raise UsageError(f"--{name} does not fit an artifact", hint="run its source instead")
    path, name = split_source(source)
    compiled = load(path, name)
    # Its host functions may lie beside it, or where the user stands, behind all that is installed.
    sys.path += [str(path.resolve().parent), str(Path.cwd())]
    compiled.check_imports()
    return compiled


def compiled_runner(source: str, found: Runner, options: dict[str, Any]) -> Runner:
    """Return a program compiled, or as it is for eager mode.

    A program that capture cannot read (a graph break) runs in eager mode, with a warning.

    Raises:
        UsageError: no such model or pass.
        CompileError: a pass or lowering failed.
    """
    if isinstance(found, CompiledProgram) or options["eager"]:
        return found
    try:
        return compile_found(source, [found], options["model"], options["passes"])
    except CaptureError as error:
        click.echo(f"warning: {error}\n'{found.name}' runs uncompiled, in eager mode", err=True)
        return found


def _run(source: str, runner: Runner, batch: list[dict[str, Any]], options: dict[str, Any]) -> None:
    from lmc.backends import open_backend
    from lmc.runtime.tracing import Trace
    from lmc.summary import seed_line, summary_lines

    # Told as a note below.
    warnings.simplefilter("ignore", PrefixKvWarning)
    warnings.simplefilter("always", PoolWarning)
    warnings.showwarning = _shown_by(warnings.showwarning)
    with Progress() as progress:
        tiers = {} if options["kv_dir"] is None else {"disk_tier": options["kv_dir"]}
        chosen = {name: options[name] for name in ("dtype", "weights", "activations")}
        backend = open_backend(options["model"], progress=progress, **chosen, **tiers)
        defaults = {name: options[name] for name in ("temperature", "max_tokens")}
        seed = secrets.randbits(63) if options["seed"] is None else options["seed"]
        keywords: dict[str, Any] = {"backend": backend, "seed": seed, "defaults": defaults}
        profile_path: Path | None = options["profile"]
        if profile_path is not None:
            keywords["profile"] = Profile()
        path: Path | None = options["trace"]
        started = time.monotonic()
        try:
            with contextlib.nullcontext() if path is None else Trace(path):
                if options["stream"]:
                    results = [_streamed(runner, batch[0], keywords)]
                else:
                    results = _shown(runner, batch, keywords, options, progress)
        finally:
            if profile_path is not None:
                keywords["profile"].save(profile_path)
    for line in summary_lines(runner.name, results, time.monotonic() - started):
        click.echo(line, err=True)
    if tiers:
        engine: Any = backend
        read: int = engine.stats().disk_loaded_tokens
        click.echo(f"  {'kv folder':<15}{read:>7,} tokens read", err=True)
    for line in (seed_line(results), *notes(source, runner, backend)):
        if line is not None:
            click.echo(line, err=True)


def _shown_by(show: Callable[..., None]) -> Callable[..., None]:
    """Return what shows warnings as `show` does, but ours without a place in the code."""

    def shown(message: Any, category: type[Warning], *rest: Any) -> None:
        if issubclass(category, PoolWarning):
            click.echo(f"warning: {message}", err=True)
        else:
            show(message, category, *rest)

    return shown


def _streamed(runner: Runner, arguments: dict[str, Any], keywords: dict[str, Any]) -> Any:
    """Run once, printing the prompt's text as it comes."""
    printer = StreamPrinter()
    try:
        return run_once(runner, arguments, keywords | {"on_event": printer})
    finally:
        printer.end_line()


def _shown(
    runner: Runner, batch: list[dict[str, Any]], keywords: dict[str, Any],
    options: dict[str, Any], progress: Progress,
) -> list[Any]:  # fmt: skip
    """Run all, printing each result as soon as those before it are there."""
    from lmc.summary import json_object, shown_value

    show = json_object if options["as_json"] else shown_value
    total = len(batch) if len(batch) > 1 else None
    results: list[Any] = []
    with progress.running(f"running {runner.name}", total) as task:
        for result in _results(runner, batch, keywords):
            results.append(result)
            task.num_done += 1
            progress.clear()
            click.echo(show(result))
    return results


def _results(
    runner: Runner, batch: list[dict[str, Any]], keywords: dict[str, Any]
) -> Iterator[Any]:
    """Yield results in order; an error tells which run of several failed."""
    if len(batch) == 1:
        yield run_once(runner, batch[0], keywords)
        return
    number = 1
    options = {key: value for key, value in keywords.items() if key != "defaults"}
    if not isinstance(runner, CompiledProgram):
        options["mode"] = "eager"
    try:
        for result in runner.run_batch_iter(batch, **options, **keywords["defaults"]):
            yield result
            number += 1
    except LmcError as error:
        error.message = f"run {number} of {len(batch)}: {error.message}"
        raise


def run_once(runner: Runner, arguments: dict[str, Any], keywords: dict[str, Any]) -> Any:
    """Run once; a program that is not compiled runs in eager mode."""
    if isinstance(runner, CompiledProgram):
        return runner.run_bound(arguments, **keywords)
    return runner.run_bound(arguments, mode="eager", **keywords)


class StreamPrinter:
    """Prints the text of the program's own state as it comes."""

    def __init__(self) -> None:
        self._last = "\n"

    def __call__(self, kind: str, name: str | None, text: str, lineage: tuple[str, ...]) -> None:
        """Take one event of the executor."""
        if lineage == ():
            self._last = text[-1]
            sys.stdout.write(text)
            sys.stdout.flush()

    def end_line(self) -> None:
        """End the line, if one was begun."""
        if self._last != "\n":
            click.echo()


def notes(source: str, runner: Runner, backend: Any) -> list[str]:
    """Return what to know about exactness and models, and where to look next."""
    lines: list[str] = []
    if notice := getattr(backend, "notice", None):
        lines.append(f"note: {notice}")
    if isinstance(runner, CompiledProgram) and is_artifact(source):
        if (reason := runner.kv_refusal(backend)) is not None:
            lines.append(f"note: {reason}")
        if runner.plan.target_fingerprint not in ("", backend.target.fingerprint):
            names = f"{runner.model_name}, lowered again for {backend.target.name}"
            lines.append(f"note: compiled for {names}")
    elif isinstance(runner, CompiledProgram):
        path = shlex.quote(source)
        lines.append(
            f"next: `lmc ir {path}` prints its IR, `lmc viz` draws it, `lmc compile` saves it"
        )
    return lines
