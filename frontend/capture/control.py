"""Structured control flow: branches and loops over stores."""

import ast
from collections.abc import Callable
from dataclasses import dataclass, field

from lmc.frontend.capture.emitter import Emitter, OpenLoop, is_state, kind_of
from lmc.frontend.capture.merge import Merger, Sources, is_scalar, joined_names, retype
from lmc.frontend.capture.shapes import (
    PlainShape,
    RefShape,
    Shape,
    instantiate,
    scalars,
    wide_enough,
    widen,
)
from lmc.frontend.capture.store import Key, Store
from lmc.frontend.capture.values import (
    OBJECT,
    Abstract,
    Cell,
    Element,
    HostObject,
    Known,
    Packed,
    Plain,
    Ref,
    Undefined,
    has_states,
    ir_type,
    is_opaque,
    same,
)
from lmc.ir.core import Block, Op, Value
from lmc.ir.types import BOOL, PY, TEXT, Type

MAX_ROUNDS = 40


@dataclass(slots=True)
class LoopPlan:
    """What a loop carries, found by walking its body until nothing new turns up."""

    names: dict[Key, Shape] = field(default_factory=dict)
    cells: dict[Cell, Sources] = field(default_factory=dict)
    joined: dict[Cell, Sources] = field(default_factory=dict)
    flags: Store = field(default_factory=Store)
    begun: tuple[list[Key], list[Cell]] | None = None

    def carries_idly(self, head: Store, end: Store) -> bool:
        """Whether something that the plan began with is left alone by the body this time."""
        names, cells = self.begun or ([], [])
        return any(
            key in end.names and same(head.names[key], end.names[key]) for key in names
        ) or any(head.contents[cell] is end.contents[cell] for cell in cells)

    def restart(self) -> None:
        """Forget everything."""
        self.names, self.cells, self.joined = {}, {}, {}
        self.flags, self.begun = Store(), None


class ControlFlow(Emitter):
    """Branches and loops."""

    # Truth values: Known or Plain of type bool.

    def truth(self, abstract: Abstract, node: ast.AST) -> Known | Plain:
        """Return the truth of a value."""
        if isinstance(abstract, Known):
            return Known(bool(abstract.value))
        if kind_of(abstract) == BOOL and isinstance(abstract, Plain):
            return abstract
        if isinstance(abstract, Element) and abstract.kind == OBJECT:
            operands = [self.raw(abstract.index, node), self.constant(None, node)]
            made = self.emit("val.compare", operands, [PY], node, op="is not")[0]
            return Plain(self.emit("val.truth", [made], [BOOL], node)[0])
        if isinstance(abstract, Packed):
            return self.negate(self.is_constant(abstract, None, node), node)
        if is_state(abstract) or (is_opaque(abstract) and not isinstance(abstract, HostObject)):
            return Known(True)
        if isinstance(abstract, (Ref, Element)) and has_states(kind_of(abstract)):
            members = self.members(abstract, node)
            return Plain(self.emit("val.truth", [members], [BOOL], node)[0])
        value = self.read(abstract, node)
        return Plain(self.emit("val.truth", [value], [BOOL], node)[0])

    is_constant: Callable[..., Known | Plain]
    members: Callable[[Abstract, ast.AST], Value]

    def negate(self, abstract: Known | Plain, node: ast.AST) -> Known | Plain:
        """Return the opposite truth value."""
        if isinstance(abstract, Known):
            return Known(not abstract.value)
        return Plain(self.emit("val.not", [abstract.value], [BOOL], node)[0])

    def either(self, left: Abstract, right: Abstract, node: ast.AST) -> Known | Plain:
        """Return whether one of two truth values holds."""
        for known, other in ((left, right), (right, left)):
            if isinstance(known, Known):
                assert isinstance(other, (Known, Plain))
                return Known(True) if known.value else other
        operands = [self.read(left, node), self.read(right, node)]
        return Plain(self.emit("val.binary", operands, [BOOL], node, op="|")[0])

    # Branches.

    def branch(
        self,
        node: ast.AST,
        condition: Known | Plain,
        then: Callable[[], None],
        otherwise: Callable[[], None],
    ) -> None:
        """Walk both sides on their own and join what they left; a known one alone."""
        if isinstance(condition, Known):
            (then if condition.value else otherwise)()
            return
        entry, outer = self.store, self.block
        sides: list[tuple[Block, Store]] = []
        for body in (then, otherwise):
            self.store, self.block = entry.copy(), Block()
            with self.inside(node):
                body()
            sides.append((self.block, self.store))
        self.join(node, condition.value, sides, outer)

    def join(
        self, node: ast.AST, condition: Value, sides: list[tuple[Block, Store]], outer: Block
    ) -> None:
        """Make the cf.if of two walked sides and go on behind it."""
        (_, left), (_, right) = sides
        merger = Merger(left, right, self, node)
        shapes = {
            key: merger.shape(
                left.names.get(key, Undefined(plain_name(key))),
                right.names.get(key, Undefined(plain_name(key))),
                left.names.get(key, Undefined(plain_name(key))),
            )
            for key in joined_names(left, right)
        }  # fmt: skip
        name_cells(shapes)
        for cell in left.contents:
            if cell in right.contents and left.contents[cell] is not right.contents[cell]:
                merger.cells.setdefault(cell, Sources(Ref(cell), Ref(cell), Ref(cell)))
        yields = [
            self._yielded(node, block, store, shapes, merger.cells, is_left=store is left)
            for block, store in sides
        ]
        self.store, self.block = Store(), outer
        results: list[Value] = []

        def fresh(kind: Type) -> Value:
            results.append(Value(kind))
            return results[-1]

        for key, shape in shapes.items():
            self.store.names[key] = instantiate(shape, fresh)
        for cell, value in left.contents.items():
            if cell in right.contents:
                self.store.contents[cell] = value
        for cell in merger.cells:
            self.store.contents[cell] = fresh(ir_type(cell.kind))
        self.store.saved = {
            place: held for place, held in left.saved.items() if right.saved.get(place) == held
        }
        self._hint_results(results, shapes, merger.cells)
        for index, result in enumerate(results):
            self.phi_sources[result] = [side[index] for side in yields]
        self._retype_all(merger.cells, results)
        for side in (left, right):
            self.store.add_flags(side)
        blocks = [block for block, _ in sides]
        where = self.locate(node)
        outer.ops.append(Op("cf.if", [condition], results, {}, blocks, where))

    def _yielded(
        self,
        node: ast.AST,
        block: Block,
        store: Store,
        shapes: dict[Key, Shape],
        cells: dict[Cell, Sources],
        *,
        is_left: bool,
    ) -> list[Value]:
        """End one side's block with the values that it gives."""
        self.store, self.block = store, block
        values: list[Value] = []
        for key, shape in shapes.items():
            side = store.names.get(key, Undefined(plain_name(key)))
            values += scalars(shape, side, self, node)
        for sources in cells.values():
            values.append(self.raw(sources.left if is_left else sources.right, node))
        self.emit("cf.yield", values, [], node)
        return values

    def _retype_all(self, cells: dict[Cell, Sources], results: list[Value]) -> None:
        tail = results[len(results) - len(cells) :]
        for cell, result in zip(cells, tail, strict=True):
            if cell.kind.name == "list":
                for source in self.phi_sources.get(result, ()):
                    retype(source, cell.kind, self.phi_sources)

    def _hint_results(
        self, results: list[Value], shapes: dict[Key, Shape], cells: dict[Cell, Sources]
    ) -> None:
        for value, hint in zip(results, hints_of(shapes, cells), strict=True):
            value.hint = value.hint or hint

    # Loops.

    def loop(
        self,
        node: ast.AST,
        items: Value | None,
        body: Callable[[Value | None], Known | Plain],
    ) -> None:
        """Make a cf.for (items given) or cf.while; `body` returns whether to go on.

        The body is walked again until the names and cells that it changes, their types and
        their aliases are those that the walk began with.
        """
        entry, outer, mark = self.store, self.block, len(self.block.ops)
        key = (node, self.frame.id)
        plan = self._begun_plan(self.plans.get(key), entry)
        for _ in range(MAX_ROUNDS):
            del outer.ops[mark:]
            if self._round(node, items, body, plan, entry, outer):
                self.plans[key] = plan
                return
        self.fail(node, "what this loop carries does not settle",
                  "give each name one kind of value, assigned before the loop")  # fmt: skip

    def _begun_plan(self, known: LoopPlan | None, entry: Store) -> LoopPlan:
        """Begin with what the loop carried when it was walked before, as far as it fits.

        A loop within others is walked once per round of theirs: were its plan found anew each
        time, the work would double with every level.
        """
        plan = LoopPlan()
        if known is None:
            return plan
        for key, shape in known.names.items():
            before = entry.names.get(key)
            if before is not None and isinstance(shape, PlainShape) and is_scalar(before):
                if shape.type in (PY, kind_of(before)):
                    plan.names[key] = shape
        for cell, sources in known.cells.items():
            if sources == Sources(Ref(cell), Ref(cell), Ref(cell)) and cell in entry.contents:
                plan.cells[cell] = sources
        plan.begun = list(plan.names), list(plan.cells)
        return plan

    def _round(
        self,
        node: ast.AST,
        items: Value | None,
        body: Callable[[Value | None], Known | Plain],
        plan: LoopPlan,
        entry: Store,
        outer: Block,
    ) -> bool:
        """Walk the body once; make the op and return True if the plan held."""
        block = Block()
        item = None if items is None else Value(_item_type(items.type), "item")
        head, inits = self._head(node, block, plan, entry, outer)
        kinds = {cell: cell.kind for cell in head.contents}
        relations = self.aliases.count(head.contents)
        self.block, self.store = block, head.copy()
        if item is not None:
            block.arguments.insert(0, item)
        self.open_loops.append(OpenLoop({item} if item is not None else set(), head.contents))
        with self.inside(node):
            go_on = body(item)
        self.open_loops.pop()
        end = self.store
        merger = Merger(head, end, self, node, plan.joined, is_loop=True)
        is_new = self._update(plan, merger, head, end, entry)
        is_new |= any(cell.kind != kind for cell, kind in kinds.items())
        is_new |= self.aliases.count(head.contents) != relations
        if not is_new and plan.begun and plan.carries_idly(head, end):
            plan.restart()
            is_new = True
        if is_new:
            self.store, self.block = entry, outer
            return False
        self._finish(node, items, block, plan, merger, (head, end), go_on, inits, outer)
        return True

    def _head(
        self, node: ast.AST, block: Block, plan: LoopPlan, entry: Store, outer: Block
    ) -> tuple[Store, list[Value]]:
        """Return the store at the body's start, and the values that are carried in."""
        self.store, self.block = entry, outer
        head = entry.copy()
        inits: list[Value] = []

        def fresh(kind: Type) -> Value:
            block.arguments.append(Value(kind))
            return block.arguments[-1]

        for key, shape in plan.names.items():
            before = entry.names.get(key, Undefined(plain_name(key)))
            inits += scalars(shape, before, self, node)
            head.names[key] = instantiate(shape, fresh)
        for cell, sources in plan.cells.items():
            inits.append(self.raw(sources.entry, node))
            head.contents[cell] = fresh(ir_type(cell.kind))
        for value, hint in zip(block.arguments, hints_of(plan.names, plan.cells), strict=True):
            value.hint = hint
        for argument, init in zip(block.arguments, inits, strict=True):
            self.phi_sources[argument] = [init]
        for own, found in zip(head.flags(), plan.flags.flags(), strict=True):
            own.update(found)
        return head, inits

    def _update(
        self, plan: LoopPlan, merger: Merger, head: Store, end: Store, entry: Store
    ) -> bool:
        """Add to the plan what the body changed; tell whether anything is new."""
        is_new = False
        for key in joined_names(head, end):
            missing = Undefined(plain_name(key))
            sides = [store.names.get(key, missing) for store in (head, end)]
            wanted = merger.shape(*sides, entry.names.get(key, missing))
            if not wide_enough(plan.names.get(key), wanted):
                plan.names[key] = widen(plan.names.get(key), wanted)
                is_new = True
        name_cells(plan.names)
        for cell, sources in merger.cells.items():
            if sources.right != Ref(cell):
                # The next iteration's object is another one: its marks came with it.
                for flags in end.flags():
                    flags.pop(cell, None)
        for cell, sources in merger.cells.items():
            is_new |= cell not in plan.cells
            plan.joined.setdefault(cell, sources)
            plan.cells.setdefault(cell, sources)
        for cell, value in head.contents.items():
            if cell not in plan.cells and end.contents[cell] is not value:
                plan.cells[cell] = Sources(Ref(cell), Ref(cell), Ref(cell))
                is_new = True
        for own, *found in zip(plan.flags.flags(), head.flags(), end.flags(), strict=True):
            for flags in found:
                for cell, reason in flags.items():
                    if cell not in own and (cell in head.contents or cell in plan.cells):
                        own[cell] = reason
                        is_new = True
        return is_new

    def _finish(
        self,
        node: ast.AST,
        items: Value | None,
        block: Block,
        plan: LoopPlan,
        merger: Merger,
        stores: tuple[Store, Store],
        go_on: Known | Plain,
        inits: list[Value],
        outer: Block,
    ) -> None:
        """End the body, make the op, and go on behind it."""
        head, end = stores
        self.store, self.block = end, block
        yields = [self.raw(go_on, node)]
        for key, shape in plan.names.items():
            side = end.names.get(key, Undefined(plain_name(key)))
            yields += scalars(shape, side, self, node)
        for cell in plan.cells:
            source = merger.cells[cell].right if cell in merger.cells else Ref(cell)
            yields.append(self.raw(source, node))
        self.emit("cf.yield", yields, [], node)
        self.block, self.store = outer, head.copy()
        results: list[Value] = []

        def fresh(kind: Type) -> Value:
            results.append(Value(kind))
            return results[-1]

        for key, shape in plan.names.items():
            self.store.names[key] = instantiate(shape, fresh)
        for cell in plan.cells:
            self.store.contents[cell] = fresh(ir_type(cell.kind))
        self._hint_results(results, plan.names, plan.cells)
        for result, init, back in zip(results, inits, yields[1:], strict=True):
            self.phi_sources[result] = [init, back]
        arguments = block.arguments if items is None else block.arguments[1:]
        for argument, back in zip(arguments, yields[1:], strict=True):
            self.phi_sources[argument].append(back)
        self._retype_all(plan.cells, results)
        self.store.add_flags(end)
        operands = inits if items is None else [items, *inits]
        name = "cf.while" if items is None else "cf.for"
        outer.ops.append(Op(name, operands, results, {}, [block], self.locate(node)))


def plain_name(key: Key) -> str:
    """Return a name as people know it."""
    return key[1].lstrip("$").partition("#")[0]


def name_cells(shapes: dict[Key, Shape]) -> None:
    """Name joined cells after the names that they are bound to."""
    for key, shape in shapes.items():
        if isinstance(shape, RefShape) and not shape.cell.hint:
            shape.cell.hint = plain_name(key)


def hints_of(shapes: dict[Key, Shape], cells: dict[Cell, Sources]) -> list[str]:
    """Return a name for each joined value, in order."""
    hints: list[str] = []
    for key, shape in shapes.items():
        count: list[Value] = []

        def fresh(kind: Type, made: list[Value] = count) -> Value:
            made.append(Value(kind))
            return made[-1]

        instantiate(shape, fresh)
        hints += [plain_name(key)] * len(count)
    return [*hints, *(cell.hint or "object" for cell in cells)]


def _item_type(items: Type) -> Type:
    if items == TEXT:
        return TEXT
    if items.name == "list" and items.element is not None:
        return items.element
    return PY
