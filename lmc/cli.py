"""The command line: compile, run, ir, opt, viz, explain, bench, check, lint, pull.

Results go to stdout, everything else to stderr. Exit codes: 0 done, 1 the program failed,
2 wrong use, 3 could not compile, 130 interrupted.
"""

import contextlib
import errno
import io
import os
import sys
from pathlib import Path
from typing import Any

import click

from lmc import __version__
from lmc.errors import LmcError, UsageError

OUTPUT_ERRORS = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""What can be wrong with stdout while a command runs."""

CONTEXT = {"help_option_names": ["-h", "--help"]}


def main(argv: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Half of a surrogate pair, or a terminal without Unicode, must not end a run.
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run_command(sys.argv[1:] if argv is None else argv))


def run_command(argv: list[str]) -> int:
    """Run one command and return its exit code; failures print one clear message."""
    try:
        with cli.make_context("lmc", list(argv)) as context:
            cli.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as error:
        return error.exit_code
    except (KeyboardInterrupt, click.exceptions.Abort):
        tell("interrupted")
        return 130
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "lmc"
        message = error.format_message()
        tell(f"error: {message[:1].lower()}{message[1:]}\nhint: see `{path} --help`")
        return error.exit_code
    except LmcError as error:
        tell(f"error: {error}")
        return error.exit_code
    except OSError as error:
        if error.errno not in OUTPUT_ERRORS:
            raise
        give_up_output()
        if isinstance(error, BrokenPipeError):
            return 0  # the reader of our output has left with what it wanted
        tell(f"error: cannot write the output: {(error.strerror or '').lower()}")
        return 1
    return 0


def give_up_output() -> None:
    """Drop what is still to be written to stdout, so that Python does not complain at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def tell(text: str) -> None:
    """Print to stderr, if it is still read."""
    with contextlib.suppress(BrokenPipeError):
        click.echo(text, err=True)


@click.group(context_settings=CONTEXT)
@click.version_option(__version__, prog_name="lmc")
def cli() -> None:
    """Compile language-model programs and run them."""


model_option = click.option(
    "--model", metavar="MODEL",
    help="Directory in Hugging Face format, GGUF file, hub id, or 'oracle'.",
)  # fmt: skip
weights_option = click.option(
    "--weights", type=click.Choice(["full", "stored", "int8", "int4"]), default="full",
    help="stored: quantized as the file has them; int8, int4: quantized at load.",
)  # fmt: skip
activations_option = click.option(
    "--activations", type=click.Choice(["full", "int8"]), default="full",
    help="int8: rounded where they meet quantized weights.",
)  # fmt: skip
passes_option = click.option(
    "--passes", metavar="PIPELINE", help='Passes to run, as "fold,dce"; "none" for none.'
)


@cli.command(name="compile", short_help="Compile a program to an artifact.")
@click.argument("program")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The artifact to write.")
@model_option
@passes_option
@click.option("--print-after", metavar="PASS", help="Print the IR after a pass, or after 'all'.")
@click.option("--remarks", is_flag=True, help="Say what each pass did, or why not.")
@click.option("--profile", type=click.Path(path_type=Path), metavar="RUN.json",
              help="Prepare for what recorded runs took; see `lmc run --profile`.")  # fmt: skip
@click.option("--emit", type=click.Choice(["py"]),
              help="py: write an importable module and its type stub beside it, too.")  # fmt: skip
@click.option("--with-kv", is_flag=True, help="Keep the KV of the constant prefixes in it.")
@click.option("--dtype", type=click.Choice(["bfloat16", "float32"]),
              help="Type of that KV; bfloat16 by default.")  # fmt: skip
@weights_option
@activations_option
def compile_command(program: str, **options: Any) -> None:
    """Compile PROGRAM to an artifact that runs without its source.

    prog.py means all programs of the file, prog.py:name one of them, prog.py:a,b several.
    """
    from lmc.cli_compile import compile_to_file

    options["passes"] = pipeline(options["passes"])
    printer, remarks = ir_printer(options.pop("print_after")), options.pop("remarks")
    compiled, lines = compile_to_file(program, print_after=printer, **options)
    if remarks:
        for line in compiled.remark_lines():
            click.echo(line, err=True)
    for line in lines:
        click.echo(line, err=True)


@cli.command(name="run", short_help="Run a program or an artifact on a model.")
@click.argument("program")
@model_option
@click.option("--arg", "arguments", multiple=True, metavar="NAME=VALUE",
              help="An argument; @file reads a file, @- stdin, @@ is a literal @.")  # fmt: skip
@click.option("--args", "rows", type=click.Path(path_type=Path), metavar="FILE.jsonl",
              help="Run once per line, each a JSON object of arguments.")  # fmt: skip
@click.option("--stream", is_flag=True, help="Print the prompt's text as it comes.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per run.")
@click.option("--seed", type=int, help="Seed of all sampling; drawn and told when not given.")
@click.option("--temperature", type=float, help="For generations that do not set their own.")
@click.option("--max-tokens", type=int, help="For generations that do not set their own.")
@click.option("--eager", is_flag=True, help="Run the Python body as it is, uncompiled.")
@click.option("--dtype", type=click.Choice(["bfloat16", "float32"]), default="bfloat16",
              help="Type of weights and KV; bfloat16 by default.")  # fmt: skip
@weights_option
@activations_option
@click.option("--profile", type=click.Path(path_type=Path), metavar="RUN.json",
              help="Write what calls and branches took, for compile and viz.")  # fmt: skip
@click.option("--trace", type=click.Path(path_type=Path), metavar="TRACE.json",
              help="Write a trace for Perfetto or Chrome's trace viewer.")  # fmt: skip
@click.option("--kv-dir", type=click.Path(path_type=Path), metavar="FOLDER",
              help="Keep KV there for later runs, and use what is there.")  # fmt: skip
@passes_option
def run_subcommand(program: str, **options: Any) -> None:
    """Run PROGRAM (prog.py, prog.py:name or an artifact) on a model."""
    from lmc.cli_run import run_program

    if options["stream"] and options["as_json"]:
        raise UsageError("--stream and --json exclude each other", hint="leave one of them out")
    options["passes"] = pipeline(options["passes"])
    run_program(program, options)


@cli.command(short_help="Print the IR of a program, an artifact or IR text.")
@click.argument("source")
@passes_option
@click.option("--after", metavar="PASS", help="Stop after this pass of the pipeline.")
@click.option("--diff", metavar="STAGE,STAGE",
              help="Print what differs between two stages: captured, PASS, final.")  # fmt: skip
def ir(source: str, passes: str | None, after: str | None, diff: str | None) -> None:
    """Print the IR of SOURCE: a program, an artifact, or an IR text file (.lmir)."""
    from lmc.ir.printer import print_module
    from lmc.sources import module_of
    from lmc.stages import stage_diff

    if diff is not None:
        if after is not None:
            raise UsageError("--after and --diff exclude each other", hint="leave one of them out")
        click.echo(stage_diff(source, pipeline(passes), diff), nl=False)
        return
    click.echo(print_module(module_of(source, pipeline(passes), after)), nl=False)


@cli.command(short_help="Run passes on IR text.")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--passes", metavar="PIPELINE", required=True, help='Passes to run, as "fold,dce".')
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write.")
@click.option("--remarks", is_flag=True, help="Say what each pass did, or why not.")
def opt(file: Path, passes: str, output: Path | None, remarks: bool) -> None:
    """Run passes on the IR text of FILE (- is standard input) and print the result."""
    from lmc.sources import write_text
    from lmc.stages import rewrite_text

    text, told = rewrite_text(file, pipeline(passes) or "")
    for line in told if remarks else ():
        tell(line)
    write_text(output or Path("-"), text)


@cli.command(short_help="Draw a program, an artifact or IR text.")
@click.argument("source")
@click.option("--format", "kind", type=click.Choice(["html", "dot", "mermaid", "svg"]),
              default="dot", show_default=True,
              help="html is a page with every pass as a step.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write.")
@click.option("--arg", "arguments", multiple=True, metavar="NAME=VALUE",
              help="An argument that is known, for the costs on the page.")  # fmt: skip
@click.option("--profile", type=click.Path(path_type=Path), metavar="RUN.json",
              help="Show on the page what recorded runs took.")  # fmt: skip
@click.option("--constraint", metavar="NAME",
              help="Draw the automaton of a generation's constraint instead.")  # fmt: skip
@model_option
@passes_option
def viz(
    source: str, kind: str, output: Path | None, arguments: tuple[str, ...],
    profile: Path | None, constraint: str | None, model: str | None, passes: str | None,
) -> None:  # fmt: skip
    """Draw SOURCE (a program, an artifact, or IR text)."""
    from lmc.drawing import draw
    from lmc.progress import Progress
    from lmc.sources import write_text

    with Progress() as progress, progress.running(f"drawing {source}"):
        text = draw(source, kind, pipeline(passes), model, arguments, profile, constraint)
    output = output or Path("-")
    write_text(output, text)
    if str(output) != "-":
        click.echo(f"wrote {output}", err=True)


@cli.command(short_help="Say what a program will cost, by line.")
@click.argument("program")
@model_option
@click.option("--arg", "arguments", multiple=True, metavar="NAME=VALUE",
              help="An argument that is known; others may be anything.")  # fmt: skip
@click.option("--args", "rows", type=click.Path(path_type=Path), metavar="FILE.jsonl",
              help="A batch: a JSON object of arguments per line.")  # fmt: skip
@passes_option
@click.option("--dtype", type=click.Choice(["bfloat16", "float32"]), default="bfloat16",
              show_default=True, help="In which keys and values are kept.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def explain(
    program: str, model: str | None, arguments: tuple[str, ...], rows: Path | None,
    passes: str | None, dtype: str, as_json: bool,
) -> None:  # fmt: skip
    """Bound the tokens and steps of PROGRAM (prog.py, prog.py:name or an artifact)."""
    from lmc.explain import explain_source
    from lmc.progress import Progress

    with Progress() as progress, progress.running(f"explaining {program}"):
        made = explain_source(program, model, pipeline(passes), arguments, rows=rows, dtype=dtype)
    click.echo(made.as_json() if as_json else str(made))


@cli.command(short_help="Measure a program compiled against eager, and without what helps.")
@click.argument("program")
@model_option
@click.option("--arg", "arguments", multiple=True, metavar="NAME=VALUE",
              help="An argument; @file reads a file, @- stdin, @@ is a literal @.")  # fmt: skip
@click.option("--args", "rows", type=click.Path(path_type=Path), metavar="FILE.jsonl",
              help="One run per line, each a JSON object of arguments.")  # fmt: skip
@click.option("--repeat", type=click.IntRange(min=1), default=3, show_default=True,
              help="How often each row is measured; medians count.")  # fmt: skip
@click.option("--ablate", is_flag=True, help="Add rows without one thing that helps each.")
@click.option("--slots", type=click.IntRange(min=1), metavar="TOKENS",
              help="KV memory of the engine.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of all sampling.")
@click.option("--dtype", type=click.Choice(["bfloat16", "float32"]), default="bfloat16",
              help="Type of weights and KV; bfloat16 by default.")  # fmt: skip
@weights_option
@activations_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def bench(program: str, as_json: bool, **options: Any) -> None:
    """Run PROGRAM (prog.py, prog.py:name or an artifact) eager and compiled on one model.

    Every row is measured on an engine of its own with an empty cache, taking turns. All rows
    must give the same results; where they do not, this is told and the exit code is 1.
    """
    from lmc.benching.source import bench_source

    report = bench_source(program, **options)
    click.echo(report.json_text() if as_json else str(report))
    if report.different:
        raise click.exceptions.Exit(1)


@cli.command(short_help="Check that a program runs alike in every mode.")
@click.argument("program")
@click.option("--examples", type=click.IntRange(min=1), default=50, show_default=True,
              help="Sets of arguments and answers to try.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Decides which are tried.")
@click.option("--args", "args_file", type=click.Path(path_type=Path), metavar="FILE.jsonl",
              help="Try these arguments, a JSON object a line; none are drawn.")  # fmt: skip
@click.option("--call-host", is_flag=True, help="Call the program's own functions, no stand-ins.")
def check(program: str, examples: int, seed: int, args_file: Path | None, call_host: bool) -> None:
    """Run PROGRAM (prog.py or prog.py:name) on the oracle in every mode and compare.

    Eager mode, the unoptimised plan, each pass alone and the whole pipeline must show what the
    program means, for arguments drawn from its signature and answers that drive its branches.
    """
    from lmc.checking.source import check_source

    report = check_source(
        program, examples=examples, seed=seed, args_file=args_file, call_host=call_host
    )
    click.echo(str(report))
    if not report.is_equal:
        raise click.exceptions.Exit(1)


@cli.command(short_help="Look for mistakes in programs without running them.")
@click.argument("program")
@model_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def lint(program: str, model: str | None, as_json: bool) -> None:
    """Look for mistakes in the programs of PROGRAM (prog.py, or prog.py:name for one of them).

    Exits with 1 where there is an error or a warning; hints alone are no failure.
    """
    from lmc.linting.report import lint_source

    report = lint_source(program, model)
    click.echo(report.json_text() if as_json else report.text(), nl=as_json)
    if not as_json:
        click.echo(report.summary(), err=True)
    if report.has_failed:
        raise click.exceptions.Exit(1)


@cli.command(short_help="Fetch a model; the default one without a name.")
@click.argument("name", required=False)
def pull(name: str | None) -> None:
    """Fetch a model (without NAME: the default one, SmolLM2-135M-Instruct)."""
    from lmc.models_store import pull as pull_model
    from lmc.progress import Progress

    with Progress() as progress:
        path = pull_model(name, progress=progress)
    click.echo(f"model: {path}", err=True)


def pipeline(text: str | None) -> str | None:
    """Return the pipeline text that an option means: 'none' is the empty one."""
    return "" if text == "none" else text


def ir_printer(name: str | None) -> Any:
    """Return the callback that prints IR after the pass of that name, or after all."""
    if name is None:
        return None
    from lmc.ir.printer import print_module
    from lmc.passes.pipeline import pass_names

    if name != "all" and name not in pass_names():
        raise UsageError(
            f"there is no pass '{name}'", hint=f"passes: {', '.join(pass_names())}, or all"
        )

    def show(passed: str, module: Any) -> None:
        if name in ("all", passed):
            click.echo(f"// after {passed}\n{print_module(module)}", err=True, nl=False)

    return show
