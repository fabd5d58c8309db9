"""The command `lmc run`: arguments from text, running, what is printed."""

import inspect
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from lmc.compiled import CompiledProgram, load
from lmc.errors import UsageError
from lmc.program import Program, bind_arguments
from lmc.progress import Progress
from lmc.sources import compile_source, find_program, is_artifact, read_text

TEXT_ANNOTATIONS = ("", "str", "Any", "typing.Any", "text")


def run_program(source: str, options: dict[str, Any]) -> None:
    """Carry out `lmc run`.

    Raises:
        UsageError: a wrong argument or a missing file or model.
        CompileError: the program could not be compiled.
        RunError: it failed while running.
    """
    runner: CompiledProgram | Program
    if options["eager"]:
        if is_artifact(source):
            raise UsageError("an artifact has no Python body", hint="leave --eager out")
        runner = find_program(source)[1]
    elif is_artifact(source):
        runner = load(Path(source))
    else:
        runner = compile_source(source, options["model"], options["passes"])
    signature = inspect.signature(runner)
    batch = list(argument_sets(runner.name, signature, options))
    _run(source, runner, batch, options)


def _run(
    source: str,
    runner: CompiledProgram | Program,
    batch: list[dict[str, Any]],
    options: dict[str, Any],
) -> None:
    from lmc.backends import open_backend
    from lmc.summary import json_object, shown_value, summary_lines

    with Progress() as progress:
        backend = open_backend(options["model"], dtype=options["dtype"], progress=progress)
    keywords = {name: options[name] for name in ("seed", "temperature", "max_tokens")}
    keywords |= {"backend": backend}
    if options["eager"]:
        keywords["mode"] = "eager"
    started = time.monotonic()
    results = []
    for result in _results(runner, batch, keywords, options):
        results.append(result)
        if options["as_json"]:
            click.echo(json_object(result))
        elif not options["stream"]:
            click.echo(shown_value(result))
    for line in summary_lines(runner.name, results, time.monotonic() - started):
        click.echo(line, err=True)
    for line in next_steps(source, backend):
        click.echo(line, err=True)


def _results(
    runner: CompiledProgram | Program,
    batch: list[dict[str, Any]],
    keywords: dict[str, Any],
    options: dict[str, Any],
) -> Iterator[Any]:
    if len(batch) == 1 and not options["args_file"]:
        if options["stream"]:
            keywords["on_event"] = StreamPrinter()
        yield runner.run(**batch[0], **keywords)
        if options["stream"]:
            click.echo()
        return
    if options["stream"]:
        raise UsageError("--stream prints one run", hint="leave --args or --stream out")
    yield from runner.run_batch(batch, **keywords)


class StreamPrinter:
    """Prints the text of the program's own state as it comes."""

    def __call__(self, kind: str, name: str | None, text: str, lineage: tuple[str, ...]) -> None:
        """Take one event of the executor."""
        if lineage == ():
            sys.stdout.write(text)
            sys.stdout.flush()


def next_steps(source: str, backend: Any) -> list[str]:
    """Return where to look next, and any warning about exactness."""
    lines = []
    notice = getattr(backend, "notice", None)
    if notice:
        lines.append(f"note: {notice}")
    if not is_artifact(source):
        lines.append(f"next: lmc ir {source} | lmc viz {source} | lmc compile {source}")
    return lines


def argument_sets(
    name: str, signature: inspect.Signature, options: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield the program's arguments per run, from --arg and --args.

    Raises:
        UsageError: an argument is unknown, missing or does not parse; names it.
    """
    given = dict(parse_argument(signature, name, text) for text in options["arguments"])
    if options["args_file"] is None:
        yield bind_arguments(name, signature, (), given)
        return
    path = options["args_file"]
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise UsageError(f"{path}:{number}: not JSON: {error}") from None
        if not isinstance(row, dict):
            raise UsageError(f"{path}:{number}: not a JSON object")
        try:
            yield bind_arguments(name, signature, (), given | row)
        except UsageError as error:
            raise UsageError(f"{path}:{number}: {error.message}", hint=error.hint) from None


def parse_argument(signature: inspect.Signature, program: str, text: str) -> tuple[str, Any]:
    """Parse NAME=VALUE: text unless the signature says otherwise, then JSON.

    Raises:
        UsageError: no '=', an unknown name, a file that cannot be read, or bad JSON.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--arg {text!r} has no '='", hint="write --arg name=value")
    if name not in signature.parameters:
        known = ", ".join(signature.parameters) or "none"
        raise UsageError(f"program '{program}' has no argument '{name}'", hint=f"it has: {known}")
    if value.startswith("@@"):
        value = value[1:]
    elif value.startswith("@"):
        value = read_text(Path(value[1:]))
    parameter = signature.parameters[name]
    if _is_text(parameter):
        return name, value
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        raise UsageError(
            f"--arg {name}: {value!r} is not JSON",
            hint=f"'{name}' is declared as {parameter.annotation}",
        ) from None


def _is_text(parameter: inspect.Parameter) -> bool:
    annotation = parameter.annotation
    if annotation is inspect.Parameter.empty:
        return parameter.default is inspect.Parameter.empty or isinstance(parameter.default, str)
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return name in TEXT_ANNOTATIONS
