"""What images ask of a target, and what an artifact cannot hold of them."""

from collections.abc import Iterator

from lmc.errors import LowerError, UsageError
from lmc.ir.core import Module, Op
from lmc.ir.media import REFUSAL_HINT, refusal


def refuse_media(module: Module, target_name: str) -> None:
    """Refuse a module whose every run appends an image; others are refused where one does.

    Raises:
        LowerError: the program appends an image, whatever its arguments.
    """
    for op in _certain_ops(module):
        if op.name == "lm.image":
            kind = str(op.attributes["kind"])
            raise LowerError(refusal(target_name, kind), hint=REFUSAL_HINT, location=op.location)


def _certain_ops(module: Module) -> Iterator[Op]:
    """Yield the ops that every run of an entry carries out."""
    pending, seen = list(module.entries), set[str]()
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        for op in module.functions[name].body.ops:
            yield op
            if op.name == "func.call":
                pending.append(str(op.attributes["callee"]))


def refuse_constant_files(module: Module) -> None:
    """Refuse to keep a program whose images are files of this machine.

    Raises:
        UsageError: an image is named by a constant path.
    """
    constants = {
        op.result: op.attributes["value"] for op in module.walk() if op.name == "val.const"
    }
    for op in module.walk():
        if op.name == "lm.image" and op.operands[1] in constants:
            raise UsageError(
                f"an artifact cannot hold the file {constants[op.operands[1]]!r} "
                f"(an {op.attributes['kind']} at {op.location})",
                hint="make it an argument of the program: lmc run prog.lmc --arg picture=@file",
            )
