"""IR text between passes: what two stages of a pipeline differ in, and passes run on text."""

import difflib
from collections.abc import Mapping
from pathlib import Path

from lmc.compiler import optimise
from lmc.errors import UsageError
from lmc.ir.core import Module
from lmc.ir.parser import read_module
from lmc.ir.printer import print_module
from lmc.passes.pipeline import PassManager
from lmc.sources import captured_of, is_artifact, read_text

CONTEXT_LINES = 3


def stage_diff(source: str, passes: str | None, stages: str) -> str:
    """Return a unified diff of the IR after two stages.

    A stage is 'captured' (before all passes), 'final', or a pass of the pipeline by its name;
    where it runs several times, `name:2` is its second run, and the name alone the last.

    Raises:
        UsageError: not two stages, or one that the pipeline does not have.
    """
    names = [name.strip() for name in stages.split(",")]
    if len(names) != 2:
        raise UsageError(
            f"--diff takes two stages, not {stages!r}", hint="write --diff captured,final"
        )
    module, pipeline = captured_of(source)
    if passes is None and is_artifact(source):
        passes = pipeline
    texts = _texts(module, passes)
    for name in names:
        if name not in texts:
            raise UsageError(f"there is no stage '{name}'", hint=f"stages: {', '.join(texts)}")
    first, second = (texts[name].splitlines(keepends=True) for name in names)
    return "".join(difflib.unified_diff(first, second, *names, n=CONTEXT_LINES))


def _texts(module: Module, passes: str | None) -> Mapping[str, str]:
    """Return the IR text of every stage, in order."""
    manager = PassManager.parse(passes) if passes is not None else PassManager.parse()
    texts = {"captured": print_module(module)}
    counts: dict[str, int] = {}
    last: dict[str, str] = {}

    def keep(name: str, made: Module) -> None:
        counts[name] = counts.get(name, 0) + 1
        last[name] = texts[f"{name}:{counts[name]}"] = print_module(made)

    final = manager.run(module, print_after=keep).module
    return {**texts, **last, "final": print_module(final)}


def rewrite_text(file: Path, passes: str) -> tuple[str, list[str]]:
    """Run passes on the IR text of a file; return the text they leave, and their remarks.

    Raises:
        UsageError: the file cannot be read or is a program, or there is no such pass.
        ParseError: the text is no IR.
        VerifyError: it is IR that breaks an invariant.
    """
    if file.suffix == ".py" or is_artifact(str(file)):
        raise UsageError(
            f"{file} is no IR text",
            hint=f"print its IR first: lmc ir {file} --passes none | lmc opt - --passes ...",
        )
    made, log = optimise(read_module(read_text(file), str(file)), passes)
    return print_module(made), [str(remark) for record in log for remark in record.remarks]
