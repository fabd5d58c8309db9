"""The block of a `try`: what is walked as a `cf.try`, and what its handlers start from.

Whatever names and objects the block changes has a slot, and each change is followed by a
`cf.save`, so that a handler finds what was there when the block failed. What the slots are is
found as for loops: by walking the block until nothing new turns up.
"""

import ast
from collections.abc import Callable
from dataclasses import dataclass, field

from lmc.frontend.capture.carried import rename_store
from lmc.frontend.capture.control import MAX_ROUNDS, LoopPlan, hints_of, plain_name
from lmc.frontend.capture.merge import Merger
from lmc.frontend.capture.patterns import Patterns
from lmc.frontend.capture.shapes import scalars
from lmc.frontend.capture.store import Key, Store
from lmc.frontend.capture.values import Abstract, Ref, Undefined, same
from lmc.ir.core import Block, Op, Value
from lmc.ir.types import EFFECT, PY


@dataclass(slots=True)
class OpenTry:
    """A block that is being walked.

    `head` is the store that handlers start from; `frames` are those whose names they can see;
    `sources` are the values that each slot may hold; `found` are names whose slots are to be
    made anew in the next round.
    """

    plan: LoopPlan
    entry: Store
    head: Store
    frames: frozenset[int]
    sources: list[list[Value]]
    found: set[Key] = field(default_factory=set)
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """A walked block: what it raised, and the stores after it failed or came to its end."""

    raised: Value
    failed: Store
    ended: Store


class Attempts(Patterns):
    """Walks blocks that may fail."""

    def attempt(self, node: ast.Try, walk: Callable[[], None]) -> Attempt:
        """Walk statements as the block of a `cf.try`, until what they change settles."""
        entry, outer, mark = self.store, self.block, len(self.block.ops)
        plan = LoopPlan()
        for _ in range(MAX_ROUNDS):
            del outer.ops[mark:]
            made = self._attempt_once(node, walk, plan, entry, outer)
            if made is not None:
                return made
        self.fail(node, "what this try leaves when it fails does not settle",
                  "give each name one kind of value, assigned before the try")  # fmt: skip

    def _attempt_once(
        self, node: ast.Try, walk: Callable[[], None], plan: LoopPlan, entry: Store, outer: Block
    ) -> Attempt | None:
        """Walk the block once; make the op if the plan held."""
        slots = Block()
        head, inits = self._head(node, slots, plan, entry, outer)
        kinds = {cell: cell.kind for cell in head.contents}
        opened = OpenTry(plan, entry, head, self._frames(), [[init] for init in inits])
        block = Block()
        self.store, self.block = entry.copy(), block
        self.store.saved = _first_saved(plan, entry)
        self.tries.append(opened)
        with self.inside(node):
            walk()
        self.note_progress(node)
        self.tries.pop()
        if opened.is_new or any(cell.kind != kind for cell, kind in kinds.items()):
            self.store, self.block = entry, outer
            return None
        return self._close(node, opened, slots.arguments, inits, block, outer)

    def _frames(self) -> frozenset[int]:
        frames, frame = set[int](), self.frame
        while frame is not None:
            frames.add(frame.id)
            frame = frame.parent
        return frozenset(frames)

    def _close(
        self,
        node: ast.Try,
        opened: OpenTry,
        slots: list[Value],
        inits: list[Value],
        block: Block,
        outer: Block,
    ) -> Attempt:
        """Make the op; what the block made is handed out under new values."""
        end, entry, failed = self.store, opened.entry, opened.head
        effect = end.contents[self.effect]
        own = {value for op in block.ops for value in op.results if value.type != EFFECT}
        renamed = rename_store(end, own, entry)
        self.emit("cf.yield", [effect, *renamed], [], node)
        raised, after = Value(PY, "raised"), Value(EFFECT, "effect")
        for old, new in renamed.items():
            self.phi_sources[new] = [old]
            for loop in self.open_loops:
                if old in loop.indices:
                    loop.indices.add(new)
        for slot, sources in zip(slots, opened.sources, strict=True):
            self.phi_sources[slot] = sources
        self._retype_all(opened.plan.cells, slots)
        results = [raised, after, *slots, *renamed.values()]
        operands = [entry.contents[self.effect], *inits]
        outer.ops.append(Op("cf.try", operands, results, {}, [block], self.locate(node)))
        for store in (end, failed):
            store.contents[self.effect] = after
            store.saved = dict(entry.saved)
        self.store, self.block = entry, outer
        return Attempt(raised, failed, end)

    def note_progress(self, node: ast.AST) -> None:  # type: ignore[override]
        """Note what has changed, for the handlers of the `try` around."""
        if not self.tries:
            return
        opened: OpenTry = self.tries[-1]
        plan, kept, end = opened.plan, self.store, self._visible(opened)
        merger = Merger(opened.head, end, self, node, plan.joined, is_loop=True)
        before = dict(plan.names)
        opened.is_new |= self._update(plan, merger, opened.head, end, opened.entry)
        if opened.is_new:
            opened.found.update(k for k, shape in plan.names.items() if before.get(k) != shape)
            return  # the block is walked again
        self.store = end
        slots: list[int] = []
        values: list[Value] = []
        number = 0
        for key, shape in plan.names.items():
            bound = end.names.get(key, Undefined(plain_name(key)))
            count = len(hints_of({key: shape}, {}))
            if count and not _is_saved(kept, key, bound):
                slots += range(number, number + count)
                values += scalars(shape, bound, self, node)
                kept.saved[key] = bound
            number += count
        for cell in plan.cells:
            source = merger.cells[cell].right if cell in merger.cells else Ref(cell)
            # An object of an earlier round, which no name leads to any more, is not there.
            is_there = not isinstance(source, Ref) or source.cell in end.contents
            content = _content(source, end) if is_there else None
            if is_there and not _is_saved(kept, cell, content):
                slots.append(number)
                values.append(self.raw(source, node))
                kept.saved[cell] = content
            number += 1
        self.store = kept
        for slot, value in zip(slots, values, strict=True):
            opened.sources[slot].append(value)
        if slots:
            self.emit("cf.save", values, [], node, slots=[*slots])

    def _visible(self, opened: OpenTry) -> Store:
        """Return the store as far as handlers see it: no flags, no names of inner functions."""
        end, head = self.store.copy(), opened.head
        for key in list(end.names):
            if key[0] not in opened.frames or key[1].startswith("$") or key in opened.found:
                del end.names[key]
        for key, bound in head.names.items():
            if key[0] not in opened.frames or key[1].startswith("$") or key in opened.found:
                end.names[key] = bound
        end.contents[self.effect] = head.contents[self.effect]
        return end


def _first_saved(plan: LoopPlan, entry: Store) -> dict[object, object]:
    """Return what the slots hold when the block begins."""
    saved: dict[object, object] = {
        key: entry.names.get(key, Undefined(plain_name(key))) for key in plan.names
    }
    for cell, sources in plan.cells.items():
        saved[cell] = _content(sources.entry, entry)
    return saved


def _content(source: Abstract, store: Store) -> object:
    """Return what tells whether the content of a slot has changed."""
    return store.contents[source.cell] if isinstance(source, Ref) else source


def _is_saved(store: Store, place: object, now: object) -> bool:
    if place not in store.saved:
        return False
    before = store.saved[place]
    if isinstance(before, Abstract) and isinstance(now, Abstract):
        return same(before, now)
    return before is now
