"""The `profile` pass: notes what recorded runs say of branches and generations."""

from dataclasses import dataclass
from math import ceil
from typing import Any, ClassVar

from lmc.ir.core import Module, Op
from lmc.ir.location import Location
from lmc.ir.profile import Profile, unknown_places
from lmc.passes.base import Level, Pass, Remarks, counted


@dataclass(frozen=True, slots=True, kw_only=True)
class UseProfilePass(Pass):
    """Note on ops what a profile says of their places.

    Exact (level E): a `cf.if` gets `taken`, how often each arm was taken; a `lm.gen` gets
    `expected`, the tokens that one call gave on average. Both say what is likely, so that
    later passes and the engine can prepare for it; neither means anything. Places of the
    profile that the program has no more are ignored, with a remark.

    It is not named in pipelines: `compile` puts it before the first pass, where every op still
    stands at its place in the source.
    """

    name: ClassVar[str] = "profile"
    level: ClassVar[Level] = "E"

    profile: Profile

    def options(self) -> dict[str, Any]:
        """Return what the pass log says of the profile."""
        return {"program": self.profile.program, "runs": self.profile.runs}

    def __str__(self) -> str:
        return self.name

    def rewrite(self, module: Module, remarks: Remarks) -> bool:
        """Note what is known in every function."""
        changed = False
        places: dict[str, None] = {}
        for function in module.functions.values():
            made_at = {value: op.location for op in function.body.walk() for value in op.results}
            for op in function.body.walk():
                if op.name == "cf.if":
                    changed |= self._branch(op, made_at.get(op.operands[0]), remarks)
                elif op.name == "lm.gen":
                    changed |= self._generation(op, remarks)
                if op.name in ("cf.if", "lm.gen", "lm.select"):
                    places[str(op.location or "")] = None
        for place in unknown_places(self.profile, places):
            remarks.missed(f"the program has no call or branch at {place or 'no place'} any more")
        return changed

    def _branch(self, op: Op, test: Location | None, remarks: Remarks) -> bool:
        taken = self.profile.taken(op.location, test)
        if not sum(taken):
            return False
        op.attributes["taken"] = list(taken)
        remarks.fired(f"the first arm was taken {taken[0]} of {counted(sum(taken), 'time')}", op)
        return True

    def _generation(self, op: Op, remarks: Remarks) -> bool:
        site = self.profile.site(op.location, op.name, str(op.attributes.get("name") or ""))
        if site is None:
            return False
        op.attributes["expected"] = expected = ceil(site.output_mean)
        remarks.fired(f"{counted(expected, 'token')} are expected", op)
        return True
