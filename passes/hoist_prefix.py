"""The `hoist-prefix` pass: constant text moves to where it is computed once for all."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from lmc.ir.core import Attr, Block, Function, Module, Op, Value, copy_attr, replace_values
from lmc.ir.types import STATE
from lmc.passes.analysis import APPENDING, Facts
from lmc.passes.base import Level, Pass, Remarks, counted
from lmc.passes.prefix_states import joins_added_text, unchanged_states
from lmc.passes.prefixes import Head, append_op, common_head, head_of, without_head
from lmc.passes.purity import guarded_blocks, guarded_functions, is_observed
from lmc.passes.rewriting import sweep_total

READS = frozenset({"lm.text", "lm.messages", "lm.get", "lm.has", "lm.meta"})
"""Ops that look at a state and leave it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoistPrefixPass(Pass):
    """Move constant text and turn markers before forks and branches, and into prologues.

    Exact (level E): a text run is encoded as one string however it was appended, so what all
    children of a fork append first may be appended before the fork, and what both arms of a
    `cf.if` append first, before it. The parent of such a fork goes on without it; the fork
    counts its ordinal once. Children whose added text a join appends keep theirs. What moves
    before a fork in a loop moves before the loop, if the loop only counts calls of the forked
    state; `lm.place` keeps the place of each trip's own. Then `lm.prompt` and the constants
    that follow become one `lm.prologue`, which the runtime computes once per process.

    Options: `min_chars` is the shortest common part of differing texts worth splitting off.
    """

    name: ClassVar[str] = "hoist-prefix"
    level: ClassVar[Level] = "E"

    min_chars: int = 4

    def rewrite(self, module: Module, remarks: Remarks) -> bool:
        """Hoist in every function."""
        changed = False
        guarded = guarded_functions(module)
        for function in module.functions.values():
            hoister = _Hoister(self, function, remarks, guarded)
            while hoister.step() or hoister.make_prologues():
                # What a move leaves unread would count as a use of states in the next one.
                sweep_total(function)
                changed = True
        return changed


class _Hoister:
    """Hoists in one function, one move at a time."""

    def __init__(
        self, limits: HoistPrefixPass, function: Function, remarks: Remarks, guarded: set[str]
    ) -> None:
        self._limits = limits
        self._guarded = guarded_blocks(function, guarded)
        self._function = function
        self._remarks = remarks
        self._facts = Facts()

    def step(self) -> bool:
        """Move from each fork and branch once, outer ones first; return whether any moved.

        The facts are those from before the first move. That is enough: an op appends to one
        state, so a move changes no other one's start, and what is new is not looked into.
        """
        self._facts = Facts.of(self._function)
        moved = False
        for block, op in list(_ops_with_blocks(self._function.body)):
            if op.name == "lm.fork":
                moved |= self._hoist_from_children(block, op)
            elif op.name == "cf.if":
                moved |= self._hoist_from_arms(block, op)
            elif op.name in ("cf.for", "cf.while"):
                moved |= self._hoist_from_trips(block, op)
        return moved

    # Forks

    def _hoist_from_children(self, block: Block, fork: Op) -> bool:
        starts = self._child_starts(block, fork)
        if not starts:
            return False
        heads = [head_of(op, self._facts) for op in starts]
        if None in heads:
            return False
        head = common_head([head for head in heads if head is not None], self._limits.min_chars)
        if head is None or not self._can_move(head, block, fork, starts):
            return False
        if joins_added_text(fork, self._facts):
            self._remarks.missed("a join appends the text that the children add", fork)
            return False
        self._move_before_fork(block, fork, head, starts)
        self._remarks.fired(f"{_told(head)} moved before the fork", fork)
        return True

    def _child_starts(self, block: Block, fork: Op) -> list[Op]:
        """Return the first op of every child; none if the children do not all start with one."""
        starts: list[Op] = []
        for user, position in self._facts.uses(fork.results[1]):
            if user.name == "cf.for" and position == 0:
                child, home = user.blocks[0].arguments[0], user.blocks[0]
            elif self._is_child(user, position, block):
                child, home = user.result, block
            else:
                return []
            start = self._facts.only_user(child)
            if start is None or start[1] != 0 or start[0].name not in APPENDING:
                return []
            if self._facts.blocks[start[0]] is not home:
                return []
            starts.append(start[0])
        return starts

    def _is_child(self, op: Op, position: int, block: Block) -> bool:
        is_taken = op.name == "val.index" and position == 0 and self._facts.blocks[op] is block
        return is_taken and self._facts.constant_int(op.operands[1]) is not None

    def _can_move(self, head: Head, block: Block, fork: Op, starts: list[Op]) -> bool:
        """Whether a head may move; a marker can fail, so it passes nothing that is observed."""
        if head.kind == "text":
            return True
        if block in self._guarded:
            return False  # a try sees in which order things fail
        if any(self._facts.blocks[op] is not block for op in starts):
            return False
        first, last = block.ops.index(fork), max(block.ops.index(op) for op in starts)
        return not any(is_observed(op) for op in block.ops[first:last])

    def _move_before_fork(self, block: Block, fork: Op, head: Head, starts: list[Op]) -> None:
        parent, goes_on = fork.operands[0], fork.results[0]
        extended = Value(STATE, parent.hint)
        for op in starts:
            self._strip(op, head)
        before = append_op(head, parent, extended, starts[0], hoisted=True)
        place = block.ops.index(fork)
        block.ops[place:place] = before
        fork.operands[0] = extended
        if self._facts.uses(goes_on):
            fork.results[0] = Value(STATE, goes_on.hint)
            tick = Op("lm.tick", [parent], [goes_on], {"n": 1}, [], fork.location)
            block.ops.insert(place + len(before) + 1, tick)

    def _strip(self, op: Op, head: Head) -> None:
        """Take a head away from an op, and the op if nothing is left."""
        block = self._facts.blocks[op]
        rest = without_head(op, head, self._facts)
        place = block.ops.index(op)
        block.ops[place : place + 1] = rest
        if not rest:
            replace_values(self._function.body, {op.result: op.operands[0]})

    # Branches

    def _hoist_from_arms(self, block: Block, branch: Op) -> bool:
        for op in branch.blocks[0].ops:
            if op.name not in APPENDING or self._is_within(op.operands[0], branch):
                continue
            other = self._first_append(branch.blocks[1], op.operands[0])
            if other is not None and self._hoist_pair(block, branch, op, other):
                return True
        return False

    def _is_within(self, value: Value, branch: Op) -> bool:
        """Whether a value is made in an arm of a branch; what is new may be."""
        if value in self._facts.arguments:
            return False
        found = self._facts.definitions.get(value)
        return found is None or self._facts.blocks[found[0]] in branch.blocks

    def _first_append(self, block: Block, state: Value) -> Op | None:
        for op in block.ops:
            if op.name in APPENDING and op.operands[0] is state:
                return op
        return None

    def _hoist_pair(self, block: Block, branch: Op, first: Op, second: Op) -> bool:
        heads = head_of(first, self._facts), head_of(second, self._facts)
        if heads[0] is None or heads[1] is None:
            return False
        head = common_head([heads[0], heads[1]], self._limits.min_chars)
        if head is None:
            return False
        may_move = block not in self._guarded and _start_arms(branch, first, second)
        if head.kind != "text" and not may_move:
            return False
        is_hoisted = "hoisted" in first.attributes
        if is_hoisted != ("hoisted" in second.attributes):
            return False  # of one arm's own state, and of the children of the other's fork
        extended = Value(STATE, first.operands[0].hint)
        before = append_op(head, first.operands[0], extended, first, hoisted=is_hoisted)
        for op in (first, second):
            op.operands[0] = extended
            self._strip(op, head)
        place = block.ops.index(branch)
        block.ops[place:place] = before
        self._remarks.fired(f"{_told(head)} moved before the branch", branch)
        return True

    # Loops

    def _hoist_from_trips(self, block: Block, loop: Op) -> bool:
        """Move before a loop what every trip's children append first to a state it leaves as is.

        The trip's own state stays what it forks: `lm.place` puts the text before it.
        """
        body = loop.blocks[0]
        if body in self._guarded:
            return False  # a try sees in which order things fail
        bases = unchanged_states(loop, self._facts)
        for op in body.ops:
            head = head_of(op, self._facts) if "hoisted" in op.attributes else None
            if head is None or not self._may_leave(op, head, body):
                continue
            state = op.operands[0]
            place = self._facts.op_of(state, "lm.place")
            if state in bases:
                place = self._new_place(body, op, bases[state])
            elif place is None or not self._is_of_loop(place, body):
                continue
            extended = Value(STATE, place.operands[0].hint)
            before = append_op(head, place.operands[0], extended, op, hoisted=True)
            place.operands[0] = extended
            self._strip(op, head)
            index = block.ops.index(loop)
            block.ops[index:index] = before
            self._remarks.fired(f"{_told(head)} moved before the loop", loop)
            return True
        return False

    def _may_leave(self, op: Op, head: Head, body: Block) -> bool:
        """Whether a head may move; a marker can fail, so it passes nothing that is observed."""
        return head.kind == "text" or not any(map(is_observed, body.ops[: body.ops.index(op)]))

    def _is_of_loop(self, place: Op, body: Block) -> bool:
        """Whether an `lm.place` of a trip has one user and goes on from before the loop."""
        base = place.operands[0]
        made = {value for op in body.ops for value in op.results}
        is_before = base not in made and base not in body.arguments
        return is_before and place in body.ops and self._facts.only_user(place.result) is not None

    def _new_place(self, body: Block, op: Op, base: Value) -> Op:
        """Let an op of a trip go on from a state before the loop, at its own state's place."""
        state = op.operands[0]
        made = Op("lm.place", [base, state], [Value(STATE, state.hint)], {}, [], op.location)
        body.ops.insert(body.ops.index(op), made)
        self._facts.add(made, body)
        op.operands[0] = made.result
        return made

    # Prologues

    def make_prologues(self) -> bool:
        """Turn root states and the constants after them into prologues."""
        changed = False
        seen: set[Value] = set()
        while True:
            self._facts = Facts.of(self._function)
            roots = [pair for pair in _ops_with_blocks(self._function.body) if _is_root(pair[1])]
            fresh = next((pair for pair in roots if pair[1].result not in seen), None)
            if fresh is None:
                return changed
            state, grew = self._make_prologue(*fresh)
            if grew:
                changed = True
            else:
                seen.add(state)

    def _make_prologue(self, block: Block, root: Op) -> tuple[Value, bool]:
        """Grow a root by the constants after it, or split it; return its state and if it did."""
        pieces: list[tuple[Head, bool]] = []
        state = root.result
        while (found := self._next_head(block, root, state)) is not None:
            op, head = found
            opened = _open_role(root, pieces)
            if (head.kind == "end" and opened != head.text) or (head.kind == "begin" and opened):
                break  # it fails, at its own line
            pieces.append((head, "hoisted" in op.attributes))
            op.operands[0] = state
            rest = without_head(op, head, self._facts)
            place = block.ops.index(op)
            block.ops[place : place + 1] = rest
            if rest:
                break
            state = op.result
        if pieces:
            self._replace_root(block, root, state, pieces)
        return state, bool(pieces) or self._split(block, root)

    def _next_head(self, block: Block, root: Op, state: Value) -> tuple[Op, Head] | None:
        """Return the one op that appends to the state, if it begins with a constant."""
        user = self._facts.only_user(state)
        return None if user is None else self._head_of_user(block, root, *user)

    def _head_of_user(
        self, block: Block, root: Op, op: Op, position: int
    ) -> tuple[Op, Head] | None:
        head = head_of(op, self._facts) if position == 0 else None
        if head is None or self._facts.blocks[op] is not block:
            return None
        first, last = block.ops.index(root), block.ops.index(op)
        is_marker = head.kind != "text"
        if is_marker and (
            block in self._guarded or any(is_observed(each) for each in block.ops[first:last])
        ):
            return None
        return op, head

    def _split(self, block: Block, root: Op) -> bool:
        """Give each constant way on from a root that is used several times its own root.

        What is only read does not tell its text: the way on does.
        """
        users = self._facts.uses(root.result)
        ways = [self._head_of_user(block, root, *user) for user in users]
        if len(users) < 2 or not any(ways):
            return False
        others = [user for (user, _), way in zip(users, ways, strict=True) if way is None]
        pieces = root.attributes.get("pieces")
        num_own = len(pieces) if isinstance(pieces, list) else 0
        # One of the ways tells what the root's own pieces are: one that is its own as well.
        own = [way for way in ways if way is not None and "hoisted" not in way[0].attributes]
        is_told = bool(own) or any(user.name not in READS for user in others)
        place = block.ops.index(root)
        for way in ways:
            if way is None:
                continue
            result, attributes = Value(STATE, root.result.hint), copy_attr(root.attributes)
            tells = attributes.pop("tells", False)
            if num_own and "hoisted" in way[0].attributes and "told" not in attributes:
                attributes["told"], tells = num_own, True
            if tells and not (is_told or others):
                attributes["tells"], is_told = True, True
            copy = Op(root.name, list(root.operands), [result], attributes, [], root.location)
            way[0].operands[0] = copy.result
            place += 1
            block.ops.insert(place, copy)
        if not others:
            block.ops.remove(root)
        elif own and num_own and all(user.name in READS for user in others):
            root.attributes["told"] = num_own
        return True

    def _replace_root(
        self, block: Block, root: Op, state: Value, new: list[tuple[Head, bool]]
    ) -> None:
        pieces: list[list[str]] = [list(piece) for piece in root.attributes.get("pieces", [])]  # type: ignore[union-attr, arg-type]
        attributes: dict[str, Attr] = dict(root.attributes)
        for head, is_hoisted in new:
            if is_hoisted and "told" not in attributes:
                attributes["told"] = len(pieces)
                if pieces:
                    attributes["tells"] = True  # this is the only way on from the root
            _add_piece(pieces, head, may_merge=len(pieces) != attributes.get("told"))
        attributes["pieces"] = list(pieces)
        made = Op("lm.prologue", root.operands, [state], attributes, [], root.location)
        block.ops[block.ops.index(root)] = made
        chars = sum(len(text) for kind, text in pieces if kind == "text")
        markers = sum(kind != "text" for kind, _ in pieces)
        self._remarks.fired(
            f"the constant prefix is a prologue of {counted(chars, 'character')} "
            f"and {counted(markers, 'marker')}",
            root,
        )


def _add_piece(pieces: list[list[str]], head: Head, *, may_merge: bool) -> None:
    if may_merge and pieces and pieces[-1][0] == head.kind == "text":
        pieces[-1][1] += head.text
    else:
        pieces.append(head.piece)


def _open_role(root: Op, new: list[tuple[Head, bool]]) -> str | None:
    """Return the role whose turn is open after a root and some heads; None if none is."""
    old: list[list[str]] = [list(piece) for piece in root.attributes.get("pieces", [])]  # type: ignore[union-attr, arg-type]
    opened: list[str] = []
    for kind, word in (*old, *(head.piece for head, _ in new)):
        if kind == "begin":
            opened.append(word)
        elif kind == "end" and opened:
            opened.pop()
    return opened[-1] if opened else None


def _is_root(op: Op) -> bool:
    return op.name in ("lm.prompt", "lm.prologue")


def _told(head: Head) -> str:
    if head.kind == "text":
        return counted(len(head.text), "character")
    return f"{head.kind} {head.text!r}"


def _ops_with_blocks(block: Block) -> Iterator[tuple[Block, Op]]:
    for op in block.ops:
        yield block, op
        for nested in op.blocks:
            yield from _ops_with_blocks(nested)


def _start_arms(branch: Op, *ops: Op) -> bool:
    """Whether nothing that is observed comes before the ops in their arms."""
    return all(
        not any(is_observed(each) for each in arm.ops[: arm.ops.index(op)])
        for arm, op in zip(branch.blocks, ops, strict=True)
    )
