"""The `speculate` pass: what follows a finite choice is prepared while the choice is made."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from lmc.ir.core import Block, Function, Module, Op, Value
from lmc.ir.types import STATE, Attr
from lmc.passes.analysis import Facts
from lmc.passes.base import Level, Pass, Remarks, counted
from lmc.passes.options import Option, options_of
from lmc.passes.paths import Path, follow
from lmc.passes.purity import guarded_blocks, guarded_functions


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculatePass(Pass):
    """Say ahead of a finite choice what may follow each option.

    Exact (level E): `lm.foresee` gives its state back as it is. It lists, per option of the
    call behind it, the constant text that follows up to the next call, as far as the option
    decides every branch on the way; the runtime computes these prefixes ahead, as far as
    there is room. Where a profile says that one option is likely, its path holds the next
    generation too, which the runtime starts early; its answer is used only by a call that is
    equal in context, parameters, constraint and key. Nothing with effects is done ahead, and
    no path goes past it.

    Options: `min_chars` of constant text that make a prefix worth it; `max_options` of a
    choice; `likely`, the share of runs from which on a generation is started early; `rare`,
    the share below which nothing is prepared.
    """

    name: ClassVar[str] = "speculate"
    level: ClassVar[Level] = "E"

    min_chars: int = 16
    max_options: int = 8
    likely: float = 0.6
    rare: float = 0.2

    def rewrite(self, module: Module, remarks: Remarks) -> bool:
        """Look at every choice of every function."""
        changed = False
        guarded = guarded_functions(module)
        for function in module.functions.values():
            changed |= _Speculator(self, function, guarded, remarks).run()
        return changed


class _Speculator:
    """Puts the ops of one function in place."""

    def __init__(
        self, limits: SpeculatePass, function: Function, guarded: set[str], remarks: Remarks
    ) -> None:
        self._limits = limits
        self._function = function
        self._facts = Facts.of(function)
        self._guarded = guarded_blocks(function, guarded)
        self._remarks = remarks

    def run(self) -> bool:
        """Return whether anything was foreseen."""
        changed = False
        for op in list(self._function.body.walk()):
            if op.name not in ("lm.select", "lm.gen"):
                continue
            if self._facts.op_of(op.operands[0], "lm.foresee") is not None:
                continue
            options = options_of(op, self._facts, self._limits.max_options)
            if not isinstance(options, str):
                changed |= self._choice(op, self._facts.blocks[op], options)
            elif options:
                self._remarks.missed(options, op)
        return changed

    def _choice(self, op: Op, block: Block, options: Sequence[Option]) -> bool:
        if block in self._guarded:
            self._remarks.missed("the choice is made in a try", op)
            return False
        found = [follow(op, block, option, self._facts) for option in options]
        paths: list[Path] = []
        for option, path in zip(options, _shared_out(found), strict=True):
            reason = path if isinstance(path, str) else self._obstacle(path)
            if isinstance(path, Path) and reason is None:
                paths.append(path)
            else:
                self._remarks.missed(f"after {option.text!r:.60}: {reason}", op)
        if paths:
            self._insert(op, block, paths)
        return bool(paths)

    def _obstacle(self, path: Path) -> str | None:
        """Return why a path is not worth it."""
        if path.share is not None and path.share < self._limits.rare:
            return f"it is rare ({path.share:.0%})"
        if not self._starts(path) and path.num_chars < self._limits.min_chars:
            return f"only {counted(path.num_chars, 'character')} of constant text follow"
        return None

    def _starts(self, path: Path) -> bool:
        """Whether the generation of a path is started early."""
        is_likely = path.share is not None and path.share >= self._limits.likely
        return is_likely and path.generation is not None

    def _insert(self, op: Op, block: Block, paths: Sequence[Path]) -> None:
        # The likeliest first: the runtime stops where there is no room.
        ordered = sorted(paths, key=lambda path: -(path.share or 0.0))
        listed: list[Attr] = [path.as_data(with_generation=self._starts(path)) for path in ordered]
        state = op.operands[0]
        result = Value(STATE, state.hint)
        attributes: dict[str, Attr] = {"call": op.name, "paths": listed}
        foresee = Op("lm.foresee", [state], [result], attributes, [], op.location)
        block.ops.insert(block.ops.index(op), foresee)
        op.operands = [result, *op.operands[1:]]
        self._facts.add(foresee, block)
        text = f"the text after {counted(len(paths), 'option')} is computed ahead"
        started = [path.choice for path in ordered if self._starts(path)]
        if started:
            text += f", and a generation after {started[0]!r:.60} is started"
        self._remarks.fired(text, op)


def _shared_out(found: Sequence[Path | str]) -> list[Path | str]:
    """Divide the share of an arm among the options that lead to it."""
    arms = Counter(path.arms for path in found if isinstance(path, Path))
    return [
        path
        if isinstance(path, str) or path.share is None
        else replace(path, share=path.share / arms[path.arms])
        for path in found
    ]
