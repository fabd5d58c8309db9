"""Where an argument stands before constant text, which runs could share if it stood behind."""

from dataclasses import dataclass

from lmc.ir.core import Op
from lmc.passes.cost.prompts import AbstractPrompt, IdRun, TextRun
from lmc.passes.cost.values import Unknown
from lmc.passes.cost.walk import CostWalk


@dataclass(frozen=True, slots=True)
class Blocked:
    """An argument that keeps constant tokens behind it from being shared by runs.

    Attributes:
        name: the parameter.
        op: the first call that it stands before.
        position: tokens before it.
        tokens: constant tokens between it and the call.
    """

    name: str
    op: Op
    position: int
    tokens: int


def blocked_prefixes(walk: CostWalk, unknown: dict[str, Unknown]) -> list[Blocked]:
    """Return the arguments that stand first in the prompts of a finished walk.

    `unknown` are the parameters that the walk knew nothing of. One entry per parameter: the
    call with the most constant tokens behind it, among those with nothing generated before.
    """
    names = {value.serial: name for name, value in unknown.items()}
    found: dict[str, Blocked] = {}
    for op, prompt in walk.asked:
        blocked = _blocked(walk, op, prompt, names)
        if blocked is not None and blocked.tokens > _tokens(found.get(blocked.name)):
            found[blocked.name] = blocked
    return list(found.values())


def _tokens(found: Blocked | None) -> int:
    return found.tokens if found is not None else 0


def _blocked(
    walk: CostWalk, op: Op, prompt: AbstractPrompt, names: dict[int, str]
) -> Blocked | None:
    encode = walk.encoder.tokenizer.encode
    name, position, tokens = None, len(walk.encoder.tokenizer.start_ids), 0
    for run in prompt.runs:
        if isinstance(run, IdRun):
            count = len(run.token_ids)
            position, tokens = (
                position + count * (name is None),
                tokens + count * (name is not None),
            )
        elif isinstance(run, TextRun):
            for part in run.parts:
                if isinstance(part, str):
                    count = len(encode(part))
                    if name is None:
                        position += count
                    else:
                        tokens += count
                elif name is None:
                    name = names.get(part.serial)
                    if name is None:
                        return None
        else:
            break  # what was generated differs from run to run
    return Blocked(name, op, position, tokens) if name is not None and tokens else None
