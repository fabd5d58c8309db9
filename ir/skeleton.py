"""The skeleton of a constrained generation: what its text must be, as far as that is decided.

A skeleton is a list of parts, in the order of the text:

    ["text", "..."]             these characters, in every text
    ["gate", ["...", "..."]]    one of these
    ["hole", 3, 40]             so many bytes of UTF-8, at least and at most; none: no bound

Every text that the constraint allows is one text, one alternative per gate, and some bytes
per hole, in this order. The reverse need not hold: what stands in a hole has rules of its own.
`lmc.ir.automata.skeleton` computes it; this module knows its form and imports no numpy.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from lmc.ir.types import Attr

MAX_SHOWN = 60


def skeleton_faults(skeleton: Attr) -> Iterator[str]:
    """Yield what is wrong with the form of a skeleton."""
    if not isinstance(skeleton, list):
        yield "skeleton is a list of parts"
        return
    kinds: list[str] = []
    for part in skeleton:
        kind = _kind(part)
        if kind is None:
            yield f"skeleton part {part!r} is none of ['text', t], ['gate', texts], ['hole', a, b]"
        else:
            kinds.append(kind)
    for kind in ("text", "hole"):
        if (kind, kind) in pairwise(kinds):
            yield f"two {kind}s of the skeleton follow each other"


def _kind(part: Attr) -> str | None:
    """Return the kind of a sound part."""
    match part:
        case ["text", str(text)] if text:
            return "text"
        case ["gate", [_, _, *_] as texts]:
            words = {text for text in texts if isinstance(text, str)}
            return "gate" if len(words) == len(texts) else None
        case ["hole", least, most]:
            sound = type(least) is int and least >= 0
            sound = sound and (most is None or (type(most) is int and most >= max(least, 1)))  # type: ignore[operator]
            return "hole" if sound else None
        case _:
            return None


def shown_skeleton(skeleton: Sequence[Attr]) -> str:
    """Return a skeleton as one short line: `"a" (yes|no) <3-40> "b"`."""
    words = [_shown_part(part) for part in skeleton]  # type: ignore[arg-type]
    line = " ".join(words)
    return line if len(line) <= MAX_SHOWN else line[: MAX_SHOWN - 1] + "…"


def _shown_part(part: Sequence[Attr]) -> str:
    match part:
        case ["text", str(text)]:
            return repr(text)
        case ["gate", list(texts)]:
            return f"({'|'.join(map(str, texts))})"
        case [_, least, most]:
            return f"<{least}>" if least == most else f"<{least}-{'' if most is None else most}>"
        case _:
            raise ValueError(f"{part!r} is no part of a skeleton")
