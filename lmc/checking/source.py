"""The command `lmc check`: a program from a file, arguments from a file or drawn."""

from pathlib import Path
from typing import Any

from lmc.arguments import argument_sets
from lmc.checking.program import CheckReport, check_program
from lmc.errors import UsageError
from lmc.progress import Progress
from lmc.sources import find_program, is_artifact


def check_source(
    source: str, *, examples: int, seed: int, args_file: Path | None, call_host: bool
) -> CheckReport:
    """Check the program of a file.

    Args:
        source: prog.py or prog.py:name.
        examples: how many sets of arguments and answers to try.
        seed: decides which.
        args_file: arguments to choose from, a JSON object per line; None draws them.
        call_host: call the program's real host functions instead of stand-ins.

    Raises:
        UsageError: no such file or program, or arguments that do not fit.
        CaptureError: the program cannot be captured.
    """
    if is_artifact(source):
        raise UsageError("an artifact has no Python body to compare with", hint="check its source")
    _, program = find_program(source)
    arguments: list[dict[str, Any]] | None = None
    if args_file is not None:
        arguments = argument_sets(program.name, program.__signature__, (), args_file)
    with Progress() as progress, progress.running(f"checking {program.name}"):
        return check_program(
            program, examples=examples, seed=seed, arguments=arguments, call_host=call_host
        )
