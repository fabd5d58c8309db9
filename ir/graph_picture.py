"""What a drawing of a module shows, before it is written as DOT or Mermaid.

A module as text has a line per op; a drawing has a box per decision: neighbouring text
appends share one box, pure expressions and constants stand inside the labels of what uses
them, and each prompt state flows along one bold path.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from lmc.ir.core import Block, Function, Module, Op, Value
from lmc.ir.graph_boxes import (
    Edge,
    Node,
    NodeKind,
    Picture,
    Region,
    entered,
    is_within,
    nodes_of,
    path_of,
)
from lmc.ir.graph_labels import NEW_LINE, Expressions, call_lines, function_call, wrap
from lmc.ir.tries import result_sources
from lmc.ir.types import EFFECT, STATE, Type, list_of

Source = tuple[Node, bool, str]
"""A box that a value comes from, whether it carries a state, and a label such as `[0]`."""

_ROOTS = frozenset({"lm.prompt", "lm.prologue"})
_APPENDS = frozenset({
    "lm.prompt", "lm.prologue", "lm.extend", "lm.begin", "lm.end", "lm.control", "lm.image",
    "lm.unordered", "lm.foresee", "lm.set", "lm.tick", "lm.place",
})  # fmt: skip
_READS = frozenset({"lm.get", "lm.has", "lm.meta", "lm.text", "lm.messages"})
_STATEFUL: tuple[Type, ...] = (STATE, list_of(STATE))


def picture_of(module: Module) -> Picture:
    """Return the drawing of a module."""
    drawer = _Drawer()
    functions = [drawer.function(function) for function in module.functions.values()]
    _mark_shared(drawer.edges, functions)
    return Picture(module.name, functions, list(drawer.edges))


def _is_quiet(block: Block) -> bool:
    """Whether a block only computes values, so that a drawing need not open it."""
    return all(
        op.name.startswith("val.")
        or op.name in _READS
        or op.name in ("cf.yield", "host.matches")
        or (op.name.startswith("cf.") and not any(r.type == STATE for r in op.results))
        for op in block.walk()
    )


class _Drawer:
    """Walks functions and collects boxes and arrows."""

    def __init__(self) -> None:
        self.edges: dict[Edge, None] = {}
        self._pairs: set[tuple[Node, Node]] = set()
        self._count = 0
        self._region: Region
        self._sources: dict[Value, list[Source]] = {}
        self._items: dict[Value, dict[str, list[Source]]] = {}
        self._bases: dict[Value, list[Source]] = {}
        self._expressions: Expressions
        self._uses: dict[Value, list[Op]] = {}

    def function(self, function: Function) -> Region:
        """Draw one function."""
        producers = {value: op for op in function.body.walk() for value in op.results}
        self._expressions = Expressions(producers)
        self._uses = {}
        for op in function.body.walk():
            for value in op.operands:
                self._uses.setdefault(value, []).append(op)
        signature = ", ".join(param.name for param in function.params)
        region = Region(self._id("c"), f"{function.name}({signature})", "function")
        self._region = region
        for value in function.body.arguments[1:]:
            self._sources[value] = []
            if value in self._uses:
                self._sources[value] = [(self._node("param", [value.hint]), False, "")]
        self._block(function.body)
        end = function.body.terminator
        text = "return " + self._expressions.of(end.operands[-1], limit=160)
        node = self._node("return", wrap(text), end)
        self._feed(node, [value for value in end.operands if value.type != EFFECT])
        return region

    def _id(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def _node(self, kind: NodeKind, lines: Sequence[str], op: Op | None = None) -> Node:
        location = op.location if op else None
        node = Node(self._id("n"), kind, list(lines), location, self._region)
        self._region.nodes.append(node)
        return node

    def _open(self, kind: Literal["arm", "body"], label: str, entry: Node) -> Region:
        region = Region(self._id("c"), label, kind, self._region, entry)
        return region

    def _keep(self, region: Region) -> None:
        if region.nodes or region.regions:
            self._region.regions.append(region)

    def _block(self, block: Block) -> None:
        ops = block.ops[:-1]
        while ops:
            run = self._text_run(ops)
            if len(run) == 1 and run[0].name == "lm.tick":
                self._pure(ops.pop(0))
            elif run:
                self._text(run)
                del ops[: len(run)]
            else:
                self._op(ops.pop(0))

    # Text: neighbouring appends in one box.

    def _text_run(self, ops: list[Op]) -> list[Op]:
        """Return the leading appends (and pure ops between) that make one box.

        A prologue has a box of its own: it is computed once.
        """
        if ops[0].name not in _APPENDS:
            return []
        if ops[0].name == "lm.prologue":
            return ops[:1]
        run, last = [ops[0]], 1
        state = ops[0].result
        for index, op in enumerate(ops[1:], start=2):
            is_next = op.name in _APPENDS - _ROOTS and op.operands[:1] == [state]
            if is_next and self._has_one_heir(state):
                run, last, state = ops[:index], index, op.result
            elif not op.name.startswith("val.") and op.name not in _READS:
                break
        return run[:last]

    def _has_one_heir(self, state: Value) -> bool:
        return sum(op.name not in _READS for op in self._uses.get(state, [])) == 1

    def _text(self, run: list[Op]) -> None:
        kind: NodeKind = "prologue" if run[0].name == "lm.prologue" else "text"
        text, fed = "", list[Value]()
        lines: list[str] = ["prologue: computed once"] if kind == "prologue" else []
        node = self._node(kind, lines, run[0])
        for op in run:
            if op.name not in _APPENDS:
                self._op(op)
                continue
            if op.operands and op.name not in _ROOTS:
                fed += [value for value in op.operands[1:] if op.name != "lm.place"]
            text += self._appended(op)
            self._sources[op.result] = [(node, True, "")]
        node.lines += wrap(text)
        if not node.lines:
            node.lines.append("empty prompt" if run[0].name == "lm.prompt" else "…")
        before = [] if run[0].name in _ROOTS else run[0].operands[:1]
        self._feed(node, [*before, *fed])

    def _appended(self, op: Op) -> str:
        match op.name:
            case "lm.extend":
                return "".join(self._expressions.pieces(op.operands[1]))
            case "lm.begin":
                return f"{NEW_LINE}<{op.attributes['role']}>"
            case "lm.end":
                return f"</{op.attributes['role']}>"
            case "lm.control":
                return f"<{op.attributes['token']}>"
            case "lm.unordered":
                return {"begin": "{", "next": "|", "end": "}"}[str(op.attributes["side"])]
            case "lm.image":
                return f"<{op.attributes['kind']} {self._expressions.of(op.operands[1])}>"
            case "lm.set":
                name = op.attributes.get("name") or self._expressions.of(op.operands[2])
                return f"[{name} := {self._expressions.of(op.operands[1])}]"
            case "lm.prologue":
                return "".join(_piece(*piece) for piece in op.attributes["pieces"])  # type: ignore
            case _:
                return ""

    # Other ops.

    def _op(self, op: Op) -> None:
        if op.name.startswith("val.") or op.name in _READS or op.name == "host.matches":
            self._pure(op)
        elif op.name == "cf.if":
            self._branch(op)
        elif op.name == "cf.try":
            self._try(op)
        elif op.name == "cf.save":
            pass  # drawn as what the slots of its try may come from
        elif op.name.startswith("cf."):
            self._loop(op)
        elif op.name == "lm.group":
            self._group(op)
        else:
            node = self._node(*self._described(op), op)
            self._feed(node, [value for value in op.operands if value.type != EFFECT])
            for value in op.results:
                self._sources[value] = [(node, value.type in _STATEFUL, "")]

    def _described(self, op: Op) -> tuple[NodeKind, list[str]]:
        match op.name:
            case "lm.gen":
                return "gen", call_lines(op, self._expressions)
            case "lm.select":
                return "select", call_lines(op, self._expressions)
            case "lm.again":
                name = op.attributes.get("name")
                return "compute", [*([str(name)] if name else []), "answered by an equal call"]
            case "lm.fork":
                count = op.attributes.get("count")
                times = count if count is not None else self._expressions.of(op.operands[1])
                return "fork", [f"fork into {times}"]
            case "lm.join":
                return "join", [f"join: {str(op.attributes['mode']).replace('_', ' ')}"]
            case "func.call":
                return "call", ["run " + function_call(op, self._expressions)]
            case "func.apply":
                return "compute", [function_call(op, self._expressions)]
            case _:
                return "host", [function_call(op, self._expressions)]

    def _pure(self, op: Op) -> None:
        if op.name == "val.mutate" and op.attributes["name"] == "__setitem__":
            self._set_item(op)
            return
        is_read = op.name in _READS
        label = ""
        if op.name == "val.index" and op.results[0].type == STATE:
            label = f"[{self._expressions.of(op.operands[1])}]"
            items = self._items.get(op.operands[0], {})
            if label in items:
                self._sources[op.result] = items[label]
                return
        found = [
            (node, is_state and not is_read, label if is_state and label else held)
            for node, is_state, held in self._from(op.operands)
        ]
        for value in op.results:
            self._sources[value] = list(dict.fromkeys(found))

    def _set_item(self, op: Op) -> None:
        """Remember what each item of a list was set to, so that reading it leads there."""
        whole, index, item = op.operands
        items = dict(self._items.get(whole, {}))
        items[f"[{self._expressions.of(index)}]"] = self._from([item])
        base = self._bases.get(whole, self._from([whole]))
        result = op.results[0]
        self._items[result], self._bases[result] = items, base
        self._sources[result] = [*base, *(held for kept in items.values() for held in kept)]
        self._sources[op.results[1]] = []

    def _group(self, op: Op) -> None:
        node = self._node("group", ["together: the common text first"], op)
        self._feed(node, op.operands)
        for value, result in zip(op.operands[1:], op.results, strict=True):
            labels = [label for _, _, label in self._sources.get(value, ()) if label]
            self._sources[result] = [(node, True, labels[0] if labels else "")]

    def _branch(self, op: Op) -> None:
        if all(map(_is_quiet, op.blocks)) and not any(r.type == STATE for r in op.results):
            for block in op.blocks:
                for inner in block.ops[:-1]:
                    self._op(inner)
            yields = [block.terminator.operands for block in op.blocks]
            for index, value in enumerate(op.results):
                parts = [op.operands[0], *(operands[index] for operands in yields)]
                self._sources[value] = self._from(parts)
            return
        condition = self._expressions.of(op.operands[0])
        branch = self._node("branch", [f"{condition}?"], op)
        self._feed(branch, op.operands)
        merge = self._node("merge", [""], op)
        for label, block in zip(("yes", "no"), op.blocks, strict=True):
            outer, self._region = self._region, self._open("arm", label, branch)
            self._block(block)
            inner, self._region = self._region, outer
            self._leave(inner, merge, block.terminator.operands, label)
            self._keep(inner)
        for value in op.results:
            self._sources[value] = [(merge, value.type in _STATEFUL, "")]

    def _leave(self, arm: Region, merge: Node, values: list[Value], label: str) -> None:
        """Connect what an arm yields; what it leaves as it was comes from the branch."""
        assert arm.entry is not None
        found = self._from(value for value in values if value.type != EFFECT)
        inside = [source for source in found if is_within(source[0], arm)]
        outside_state = any(s[1] for s in found if not is_within(s[0], arm))
        for node, is_state, held in inside:
            self._connect(node, merge, is_state, held)
        if outside_state or not inside:
            self._add(Edge(arm.entry, merge, "state" if outside_state else "value", label))
        for node, is_state, held in found:
            if not is_state and not is_within(node, arm) and not self._reaches(node, arm.entry):
                self._connect(node, merge, False, held)

    def _loop(self, op: Op) -> None:
        is_for = op.name == "cf.for"
        body = op.blocks[0]
        items = f"for {body.arguments[0].hint or 'each'} in " if is_for else "repeat"
        title = items + (self._expressions.of(op.operands[0]) if is_for else "")
        if _is_quiet(body) and not any(r.type == STATE for r in op.results):
            names = ", ".join(value.hint for value in op.results if value.hint)
            node = self._node("compute", [title, f"compute {names or 'values'}"], op)
            for argument in body.arguments:
                self._sources[argument] = []
            for inner in body.ops[:-1]:
                self._op(inner)
            self._feed(node, [*op.operands, *body.terminator.operands])
        else:
            node = self._node("loop", [title], op)
            self._feed(node, op.operands)
            self._body(op, node)
        for value in op.results:
            self._sources[value] = [(node, value.type in _STATEFUL, "")]

    def _try(self, op: Op) -> None:
        """Draw a block in a frame of its own; what it raised and left comes from its end."""
        body = op.blocks[0]
        if _is_quiet(body) and not any(r.type == STATE for r in op.results):
            for inner in body.ops[:-1]:
                self._op(inner)
            for index, value in enumerate(op.results):
                parts = result_sources(op, index) if index else body.terminator.operands
                self._sources[value] = self._from(parts)
            return
        start = self._node("branch", ["try"], op)
        self._feed(start, [value for value in op.operands if value.type != EFFECT])
        merge = self._node("merge", [""], op)
        outer, self._region = self._region, self._open("arm", "try", start)
        self._block(body)
        inner_region, self._region = self._region, outer
        left = [value for index in range(1, len(op.results)) for value in result_sources(op, index)]
        self._leave(inner_region, merge, left, "try")
        self._keep(inner_region)
        for value in op.results:
            self._sources[value] = [(merge, value.type in _STATEFUL, "")]

    def _body(self, op: Op, start: Node) -> None:
        body = op.blocks[0]
        for argument in body.arguments:
            is_state = argument.type in _STATEFUL
            self._sources[argument] = [(start, is_state, "")]
        outer, self._region = self._region, self._open("body", "each time", start)
        self._block(body)
        inner, self._region = self._region, outer
        self._keep(inner)
        go_on, *carried = body.terminator.operands
        text = self._expressions.of(go_on)
        label = "" if text == "True" else f"while {text}"
        states = [s for s in self._from(carried) if s[1] and s[0] is not start]
        for node, _, _ in states or [s for s in self._from([go_on]) if s[0] is not start]:
            self._add(Edge(node, start, "back", label))

    # Arrows.

    def _from(self, values: Iterable[Value]) -> list[Source]:
        found = [source for value in values for source in self._sources.get(value, ())]
        return list(dict.fromkeys(found))

    def _feed(self, node: Node, values: Iterable[Value]) -> None:
        for source, is_state, label in self._from(values):
            self._connect(source, node, is_state, label)

    def _connect(self, source: Node, target: Node, is_state: bool, label: str) -> None:
        if source is target:
            return
        if not is_state:
            # What the start of a loop gives is at hand everywhere in its body.
            if not any(region.entry is source for region in path_of(target)):
                self._add(Edge(source, target, "value"))
            return
        # A state from outside enters each region on the way through the region's entry.
        for region in entered(source, target):
            assert region.entry is not None
            if source is not region.entry:
                self._add(Edge(source, region.entry, "state", label))
            label = region.label if region.kind == "arm" else ""
            source = region.entry
        if source is not target:
            self._add(Edge(source, target, "state", label))

    def _reaches(self, source: Node, entry: Node) -> bool:
        return source is entry or (source, entry) in self._pairs

    def _add(self, edge: Edge) -> None:
        pair = (edge.source, edge.target)
        if edge.kind == "value" and pair in self._pairs:
            return
        if edge.kind == "state":
            self.edges.pop(Edge(*pair, "value"), None)
        self._pairs.add(pair)
        self.edges.setdefault(edge)


def _piece(kind: str, text: str) -> str:
    marks = {"text": text, "end": f"</{text}>", "begin": f"{NEW_LINE}<{text}>"}
    return marks.get(kind, f"<{text}>")


def _mark_shared(edges: Iterable[Edge], functions: list[Region]) -> None:
    """Mark the boxes whose text several branches continue: all that lead to a fork."""
    before: dict[Node, list[Node]] = {}
    for edge in edges:
        if edge.kind == "state":
            before.setdefault(edge.target, []).append(edge.source)
    nodes = [node for region in functions for node in nodes_of(region)]
    for node in nodes:
        node.is_shared = node.kind in ("group", "prologue")
    pending = [node for node in nodes if node.kind == "fork"]
    seen: set[Node] = set()
    while pending:
        node = pending.pop()
        if node not in seen:
            seen.add(node)
            node.is_shared = True
            pending += before.get(node, [])
