"""Abstract interpretation of a module: follows what is known of values, and counts tokens.

A branch that is not known is taken both ways, each with its own idea of what is computed. What
comes after it knows as computed what both have computed. A loop runs until it certainly ends;
one that may go on after `max_trips` trips has no bound.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from lmc.ir.core import Block, Function, Module, Op, Value
from lmc.ir.location import Location
from lmc.ir.target import Target
from lmc.ir.types import BOOL, STATE
from lmc.passes.analysis import UNSHARED, Facts
from lmc.passes.cost.calls import CertainCall, gen_cost, select_cost
from lmc.passes.cost.contexts import Computed, Stretch, encoder_of
from lmc.passes.cost.evaluating import evaluate_abstract
from lmc.passes.cost.intervals import UNBOUNDED
from lmc.passes.cost.joining import join_values
from lmc.passes.cost.lengths import Length, lengths_of
from lmc.passes.cost.prompts import AbstractPrompt
from lmc.passes.cost.states import STATE_RULES
from lmc.passes.cost.tally import Cost, Tally
from lmc.passes.cost.values import (
    Abstract,
    Known,
    OneOf,
    Serials,
    deep_ready,
    items_of,
)

MAX_DEPTH = 64


@dataclass(slots=True)
class Scene:
    """Where an analysis stands on one path.

    Attributes:
        computed: what is in the cache.
        tally: what it has cost.
        after: the decode steps after which it is known that this path is taken.
    """

    computed: Computed
    tally: Tally
    after: float = 0

    def fork(self, ready: float) -> "Scene":
        """Return the scene of one way on, known after `ready` steps: it counts from nothing."""
        return Scene(self.computed.copy(), Tally(), max(self.after, ready))

    def copy(self) -> "Scene":
        """Return a copy that goes on by itself."""
        return Scene(self.computed.copy(), Tally.of_one([self.tally]), self.after)

    def join(self, ways: Sequence["Scene"]) -> None:
        """Go on after one of several ways was taken."""
        self.computed.join(way.computed for way in ways)
        self.tally.extend(Tally.of_one([way.tally for way in ways]))


@dataclass(frozen=True, slots=True)
class Way:
    """One way through a block: the scene at its end, and what it yields."""

    scene: Scene
    values: list[Abstract]


@dataclass(frozen=True, slots=True)
class Frame:
    """One activation of a function; `saved` is what the block of a try around noted so far."""

    facts: Facts
    values: dict[Value, Abstract]
    defaults: Mapping[str, Any]
    depth: int
    saved: list[list[Abstract]] = field(default_factory=list[list[Abstract]])


class CostWalk:
    """Walks functions; one walk is one run of a program.

    `asked` holds the calls with the prompts that they were made on, as they were met; `latest`
    is after how many decode steps the last of them is answered; `calls` holds generations by
    the key of the run that they append, `constraints` what is known of constraints by place.
    """

    def __init__(self, module: Module, target: Target, *, max_trips: int, max_ops: int) -> None:
        self.module = module
        self.target = target
        self.encoder = encoder_of(target.tokenizer)
        self.lengths = lengths_of(target.tokenizer)
        self.serials = Serials()
        self._max_trips = max_trips
        self._max_ops = max_ops
        self._known_facts: dict[str, Facts] = {}
        self._asking = _asking_functions(module)
        self._ops = 0
        self.asked: list[tuple[Op, AbstractPrompt]] = []
        self.latest = 0.0
        self.calls: dict[object, CertainCall] = {}
        self.constraints: dict[Location | None, Length] = {}

    def run(
        self, function: Function, arguments: Sequence[Abstract], defaults: Mapping[str, Any],
        scene: Scene,
    ) -> list[Abstract]:  # fmt: skip
        """Walk a program; return its effect, final state and value."""
        frame = Frame(self._facts(function), {}, defaults, 1)
        return self._block(function.body, [Abstract(Known(None)), *arguments], frame, scene)

    def _block(
        self, block: Block, arguments: Sequence[Abstract], frame: Frame, scene: Scene
    ) -> list[Abstract]:
        frame.values.update(zip(block.arguments, arguments, strict=True))
        for op in block.ops[:-1]:
            operands = [frame.values[value] for value in op.operands]
            results = self._op(op, operands, frame, scene)
            frame.values.update(zip(op.results, results, strict=True))
        return [frame.values[value] for value in block.terminator.operands]

    def _op(self, op: Op, operands: list[Abstract], frame: Frame, scene: Scene) -> list[Abstract]:
        self._ops += 1
        if op.name.startswith("lm."):
            operands = [
                self._as_prompt(given) if value.type == STATE else given
                for value, given in zip(op.operands, operands, strict=True)
            ]
        if op.name.startswith("val."):
            made = evaluate_abstract(op, operands, self.serials)
            exposed = [frame.facts.is_exposed(value) for value in op.results]
            return [
                Abstract(self.serials.unknown(math.inf), deep_ready(given))
                if is_exposed and value.type not in UNSHARED
                else given
                for value, given, is_exposed in zip(op.results, made, exposed, strict=True)
            ]
        rule = self._RULES.get(op.name)
        if rule is not None:
            return rule(self, op, operands, frame, scene)
        state_rule = STATE_RULES.get(op.name)
        found = state_rule(self, op, operands, scene) if state_rule is not None else None
        return found if found is not None else self.unknown(op, operands, scene)

    def _as_prompt(self, given: Abstract) -> Abstract:
        """Return a state as a prompt; one out of a container may not be known at all."""
        if isinstance(given.value, AbstractPrompt):
            return given
        return Abstract(unknown_prompt(self.serials, given.ready), given.ready)

    def unknown(self, op: Op, operands: Sequence[Abstract], scene: Scene) -> list[Abstract]:
        """Return results that nothing is known of; a state of that kind has no bound."""
        ready = max(scene.after, *map(deep_ready, operands)) if operands else scene.after
        made = []
        for result in op.results:
            if result.type == STATE:
                scene.tally.unbounded[op.location] = "the prompt here is not known"
                made.append(Abstract(unknown_prompt(self.serials, ready), ready))
            elif result.type == BOOL:
                made.append(Abstract(OneOf((True, False)), ready))
            else:
                made.append(Abstract(self.serials.unknown(math.inf), ready))
        return made

    def _gen(self, op: Op, operands: list[Abstract], frame: Frame, scene: Scene) -> list[Abstract]:
        self.asked.append((op, operands[0].value))
        own: Any = op.attributes.get("defaults") or {}
        return gen_cost(self, op, operands, {**frame.defaults, **own}, scene)

    def _select(
        self, op: Op, operands: list[Abstract], frame: Frame, scene: Scene
    ) -> list[Abstract]:
        self.asked.append((op, operands[0].value))
        return select_cost(self, op, operands, scene)

    def _if(self, op: Op, operands: list[Abstract], frame: Frame, scene: Scene) -> list[Abstract]:
        (condition,) = operands
        match condition.value:
            case Known(value=value):
                before, scene.after = scene.after, max(scene.after, condition.ready)
                results = self._block(op.blocks[0 if value else 1], (), frame, scene)
                scene.after = before
            case _:
                ways = [scene.fork(condition.ready), scene.fork(condition.ready)]
                results = self._joined(
                    [
                        Way(way, self._block(block, (), frame, way))
                        for block, way in zip(op.blocks, ways, strict=True)
                    ],
                    scene,
                )
        return [later(result, condition.ready) for result in results]

    def _joined(self, ways: Sequence[Way], scene: Scene) -> list[Abstract]:
        """Go on after one of several ways was taken; return what is known of their values."""
        computed = [way.scene.computed for way in ways]
        columns = zip(*(way.values for way in ways), strict=True)
        results = [join_values(each, computed, self.encoder, self.serials) for each in columns]
        scene.join([way.scene for way in ways])
        return results

    def _for(self, op: Op, operands: list[Abstract], frame: Frame, scene: Scene) -> list[Abstract]:
        items = items_of(operands[0].value)
        if items is None:
            return self._endless(op, operands, frame, scene, "the number of trips is not known")
        ready = operands[0].ready
        given = [[later(item, ready)] for item in items]
        return self._loop(op, given, operands[1:], frame, scene)

    def _while(
        self, op: Op, operands: list[Abstract], frame: Frame, scene: Scene
    ) -> list[Abstract]:
        return self._loop(op, None, operands, frame, scene)

    def _loop(
        self,
        op: Op,
        items: Sequence[list[Abstract]] | None,
        carried: list[Abstract],
        frame: Frame,
        scene: Scene,
    ) -> list[Abstract]:
        """Follow a loop trip by trip; each trip that may be the last leaves one way out."""
        ways: list[Way] = []
        here, trip = scene.fork(0), 0
        while items is None or trip < len(items):
            if trip == self._max_trips or self._ops > self._max_ops:
                return self._endless(op, carried, frame, scene, "the loop may go on for ever")
            item = items[trip] if items is not None else []
            going: list[Way] = []
            for way in self._paths(op.blocks[0], [*item, *carried], frame, here):
                go_on = way.values[0]
                way.scene.after = max(way.scene.after, go_on.ready)
                way = Way(way.scene, [later(value, go_on.ready) for value in way.values[1:]])
                if go_on.value != Known(True):
                    ways.append(way)
                if go_on.value != Known(False):
                    going.append(way)
            if not going:
                return self._joined(ways, scene)
            trip += 1
            here = going[0].scene.copy() if len(going) == 1 else scene.fork(0)
            carried = going[0].values if len(going) == 1 else self._joined(going, here)
        return self._joined([*ways, Way(here, carried)], scene)

    def _paths(
        self, block: Block, arguments: Sequence[Abstract], frame: Frame, scene: Scene
    ) -> list[Way]:
        """Walk a loop's body; a branch that is not known at its end leaves a way per arm.

        So what carries over goes with the arm that goes on, not with the one that leaves.
        """
        frame.values.update(zip(block.arguments, arguments, strict=True))
        *before, _ = block.ops
        last = before[-1] if before and before[-1].name == "cf.if" else None
        for op in before:
            operands = [frame.values[value] for value in op.operands]
            if op is last and not isinstance(operands[0].value, Known):
                return self._arms(op, operands[0].ready, block.terminator, frame, scene)
            results = self._op(op, operands, frame, scene)
            frame.values.update(zip(op.results, results, strict=True))
        return [Way(scene, [frame.values[value] for value in block.terminator.operands])]

    def _arms(self, op: Op, ready: float, terminator: Op, frame: Frame, scene: Scene) -> list[Way]:
        ways, condition = [], op.operands[0]
        for arm, holds in zip(op.blocks, (True, False), strict=True):
            frame.values[condition] = Abstract(Known(holds), ready)
            copy = scene.copy()
            copy.after = max(copy.after, ready)
            for way in self._paths(arm, (), frame, copy):
                results = [later(value, ready) for value in way.values]
                frame.values.update(zip(op.results, results, strict=True))
                ways.append(Way(way.scene, [frame.values[v] for v in terminator.operands]))
        return ways

    def _endless(
        self, op: Op, operands: Sequence[Abstract], frame: Frame, scene: Scene, why: str
    ) -> list[Abstract]:
        if any(_asks(inner, self._asking) for inner in op.blocks[0].walk()):
            scene.tally.unbounded[op.location] = why
            scene.tally.add(op.location, Cost(UNBOUNDED, UNBOUNDED, UNBOUNDED, UNBOUNDED))
        return [
            Abstract(unknown_prompt(self.serials, math.inf), math.inf)
            if result.type == STATE
            else Abstract(self.serials.unknown(math.inf), math.inf)
            for result in op.results
        ]

    def _try(self, op: Op, operands: list[Abstract], frame: Frame, scene: Scene) -> list[Abstract]:
        """Follow a block that may end anywhere: what it computed may be missing afterwards.

        What it gives is known once all its calls are answered: any of them may fail.
        """
        latest, self.latest = self.latest, 0.0
        effect, *inits = operands
        way = scene.fork(0)
        saved = [[init] for init in inits]
        inner = replace(frame, saved=saved)
        after, *values = self._block(op.blocks[0], (), inner, way)
        before = scene.computed
        before.maybe |= way.computed.maybe
        scene.tally.extend(Tally.of_one([way.tally, Tally()]))
        ended, self.latest = self.latest, max(latest, self.latest)
        ready = max(ended, *map(deep_ready, [after, *values, *(held[-1] for held in saved)]))
        raised = Abstract(self.serials.unknown(math.inf), ready)
        results = [raised, later(after, max(ended, effect.ready))]
        for held in saved:
            joined = join_values(held, [before] * len(held), self.encoder, self.serials)
            results.append(later(joined, ready))
        return [*results, *(later(value, ended) for value in values)]

    def _save(self, op: Op, operands: list[Abstract], frame: Frame, scene: Scene) -> list[Abstract]:
        slots: Any = op.attributes["slots"]
        for slot, value in zip(slots, operands, strict=True):
            frame.saved[slot].append(value)
        return []

    def _call(self, op: Op, operands: list[Abstract], frame: Frame, scene: Scene) -> list[Abstract]:
        given: Any = op.attributes.get("defaults") or {}
        effect, caller, *arguments = operands
        results = self._enter(
            op, [effect, *arguments], {**frame.defaults, **given}, frame.depth, scene
        )
        if results is None:
            return self.unknown(op, operands, scene)
        effect, state, value = results
        return [effect, caller, state, value]

    def _apply(
        self, op: Op, operands: list[Abstract], frame: Frame, scene: Scene
    ) -> list[Abstract]:
        results = self._enter(op, operands, frame.defaults, frame.depth, scene)
        return self.unknown(op, operands, scene) if results is None else results

    def _enter(
        self,
        op: Op,
        arguments: Sequence[Abstract],
        defaults: Mapping[str, Any],
        depth: int,
        scene: Scene,
    ) -> list[Abstract] | None:
        callee = self.module.functions[str(op.attributes["callee"])]
        if depth >= MAX_DEPTH or self._ops > self._max_ops:
            if callee.name in self._asking:
                scene.tally.unbounded[op.location] = "the recursion may go on for ever"
                scene.tally.add(op.location, Cost(UNBOUNDED, UNBOUNDED, UNBOUNDED, UNBOUNDED))
            return None
        frame = Frame(self._facts(callee), {}, defaults, depth + 1)
        return self._block(callee.body, arguments, frame, scene)

    def _facts(self, function: Function) -> Facts:
        if function.name not in self._known_facts:
            self._known_facts[function.name] = Facts.of(function)
        return self._known_facts[function.name]

    _RULES: ClassVar[dict[str, Callable[..., list[Abstract]]]] = {
        "lm.gen": _gen, "lm.select": _select, "cf.if": _if, "cf.for": _for, "cf.while": _while,
        "func.call": _call, "func.apply": _apply, "cf.try": _try, "cf.save": _save,
    }  # fmt: skip


def _asks(op: Op, asking: Collection[str]) -> bool:
    """Whether an op asks the model, itself or in a function that it runs."""
    return op.name in ("lm.gen", "lm.select") or op.attributes.get("callee") in asking


def _asking_functions(module: Module) -> frozenset[str]:
    """Return the functions that may ask the model."""
    found: set[str] = set()
    before = -1
    while len(found) != before:
        before = len(found)
        for name, function in module.functions.items():
            if any(_asks(op, found) for op in function.body.walk()):
                found.add(name)
    return frozenset(found)


def later(given: Abstract, ready: float) -> Abstract:
    """Return a value that is known only after some steps as well."""
    value = given.value
    if isinstance(value, AbstractPrompt):
        value = replace(value, ready=max(value.ready, ready), handle=max(value.handle, ready))
    return Abstract(value, max(given.ready, ready))


def unknown_prompt(serials: Serials, ready: float) -> AbstractPrompt:
    """Return a state that nothing is known of."""
    run = Stretch(("unknown", serials.next()), UNBOUNDED, UNBOUNDED, math.inf)
    return AbstractPrompt(
        runs=(run,), has_unknown_names=True, ready=ready, handle=ready, size=math.inf
    )
