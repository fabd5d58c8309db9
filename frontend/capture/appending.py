"""Appending pieces and text to states."""

import ast
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from lmc.frontend.capture.pieces import PieceBuilder
from lmc.frontend.capture.unread import META_SUFFIX, hidden_name
from lmc.frontend.capture.values import (
    Abstract,
    Known,
    Packed,
    Piece,
    Plain,
)
from lmc.ir.core import Value
from lmc.ir.reasoning import REASONING_NAME, SPLIT_REASONING
from lmc.ir.types import BOOL, FLOAT, INT, META, PY, STATE, TEXT, Attr, Type, list_of

VALUE_TYPES = {"int": INT, "float": FLOAT, "bool": BOOL, "str": TEXT}


class Appending(PieceBuilder):
    """Appends pieces to states."""

    def append(self, place: Abstract, value: Abstract, node: ast.AST) -> None:
        """Append pieces, or text, to the state at a place."""
        if isinstance(value, Packed):
            self.by_template(value, node, lambda found: self._appended(place, found, node))
            return
        pieces = self.pieces(value, node)
        self.check_usable(place, node)
        if any(part.kind in ("gen", "select") for part in pieces.parts):
            self.check_callable(place, node)
        state = self.raw(place, node)
        hint = state.hint
        for part in pieces.parts:
            if part.kind == "either":
                self.write(place, state, node)
                self._append_either(place, part, node)
                state = self.raw(place, node)
                continue
            if self.tries and part.kind in ("gen", "select"):
                self.note_failed_call(place, state, node)
            state = self._append_part(state, part)
            state.hint = hint
            if self.tries:
                self.assign_content(place, state, node)
        self.write(place, state, node)

    def _append_either(self, place: Abstract, part: Piece, node: ast.AST) -> None:
        """Append one of two expressions, by the path that the program took before."""
        assert part.test is not None
        sides = [partial(self.append, place, option, node) for option in part.options]
        self.branch(node, Plain(part.test), *sides)

    def note_failed_call(self, place: Abstract, state: Value, node: ast.AST) -> None:
        """In a `try`, note that a call counts which fails: the next one has another key."""
        counted = self.emit("lm.tick", [state], [STATE], node, n=1)[0]
        self.assign_content(place, counted, node)

    def append_value(self, place: Abstract, value: Abstract, node: ast.AugAssign) -> None:
        """Walk `place += value`; what is wrong with the value is told at the value."""
        is_packed = isinstance(value, Packed)
        self.append(place, value if is_packed else self.pieces(value, node.value), node)

    def _appended(self, place: Abstract, value: Abstract, node: ast.AST) -> Abstract:
        self.append(place, value, node)
        return Known(None)

    by_template: Callable[..., Abstract]
    walked: Callable[[ast.Call], ast.Call]

    def _append_part(self, state: Value, part: Piece) -> Value:
        node = part.node
        match part.kind:
            case "text":
                assert part.text is not None
                return self.emit("lm.extend", [state, part.text], [STATE], node)[0]
            case "begin" | "end":
                return self.emit(f"lm.{part.kind}", [state], [STATE], node, role=part.word)[0]
            case "media":
                assert part.text is not None
                operands = [state, part.text, *(value for _, value in part.dynamic)]
                return self.emit("lm.image", operands, [STATE], node, kind=part.word)[0]
            case "control":
                return self.emit("lm.control", [state], [STATE], node, token=part.word)[0]
            case _:
                return self._append_call(state, part)

    def _append_call(self, state: Value, part: Piece) -> Value:
        operands = [state] if part.choices is None else [state, part.choices]
        operands += [value for _, value in part.dynamic]
        dynamic: list[Attr] = [key for key, _ in part.dynamic]
        attributes: dict[str, Attr] = {}
        if isinstance(part.name, Value):
            operands.append(part.name)
            dynamic.append("name")
        elif part.name is not None:
            attributes["name"] = part.name
        if part.reasoning:
            attributes["quiet"] = True
        params = dict(part.params)
        kind = TEXT if part.kind == "select" else _gen_type(params, dynamic)
        made = self.emit(
            f"lm.{part.kind}", operands, [STATE, kind, META], part.node,
            **attributes, params=params, dynamic=dynamic,
        )  # fmt: skip
        made[1].hint = part.name if isinstance(part.name, str) and part.name.isidentifier() else ""
        made[1].hint = made[1].hint or "text"
        made[2].hint = "meta"
        if part.reasoning:
            return self._answer_alone(state, made[1], part)
        if part.name is None:
            return self._remember(made[0], made[1], part, made[2])
        if part.append:
            return self._added(state, made[0], made[1], part)
        return made[0]

    def _added(self, before: Value, after: Value, value: Value, part: Piece) -> Value:
        """Make the variable of a call the list that it was before, and the value."""
        node, named = part.node, {}
        names = [part.name] if isinstance(part.name, Value) else []
        if not names:
            named = {"name": part.name}
        has = self.emit("lm.has", [before, *names], [BOOL], node, **named)[0]

        def held() -> Abstract:
            return Plain(self.emit("lm.get", [before, *names], [PY], node, **named)[0])

        def empty() -> Abstract:
            return Plain(self.emit("val.list", [], [list_of(PY)], node)[0])

        old = self.read(self.choose(node, Plain(has), held, empty), node)
        one = self.emit("val.list", [value], [list_of(PY)], node)[0]
        joined = self.emit("val.binary", [old, one], [PY], node, op="+")[0]
        return self.emit("lm.set", [after, joined, *names], [STATE], node, **named)[0]

    def _remember(
        self, state: Value, value: Value, part: Piece, meta: Value | None = None
    ) -> Value:
        """Keep the value and meta dict of an unnamed call for reads by its expression.

        They are hidden variables; `drop_unread` takes away those that nobody reads.
        """
        named = [(value, hidden_name(part))]
        if meta is not None:
            named.append((meta, hidden_name(part, META_SUFFIX)))
        for held, name in named:
            state = self.emit("lm.set", [state, held], [STATE], part.node, name=name)[0]
        return state

    def _answer_alone(self, before: Value, text: Value, part: Piece) -> Value:
        """Append to the state before a generation what follows its reasoning."""
        node = part.node
        reasoning, answer = self._reasoning_of(text, part)
        state = self.emit("lm.tick", [before], [STATE], node, n=1)[0]
        state = self.emit("lm.extend", [state, answer], [STATE], node)[0]
        if part.name is None:
            return self._remember(state, answer, part)
        for value, ending in ((answer, ""), (reasoning, REASONING_NAME)):
            if isinstance(part.name, Value):
                operands = [part.name, self.constant(ending, node)]
                name = self.emit("val.binary", operands, [PY], node, op="+")[0]
                state = self.emit("lm.set", [state, value, name], [STATE], node)[0]
            elif part.name is not None:
                named = part.name + ending
                state = self.emit("lm.set", [state, value], [STATE], node, name=named)[0]
        return state

    def _reasoning_of(self, text: Value, part: Piece) -> list[Value]:
        """Compute the reasoning in a text, and the answer."""
        node = part.node
        operands = [text, self.constant(part.reasoning, node)]
        both = self.emit("val.call", operands, [PY], node, callee=SPLIT_REASONING)[0]
        return self.emit("val.unpack", [both], [TEXT] * 2, node)


def _gen_type(params: dict[str, Any], dynamic: Sequence[Attr]) -> Type:
    if "n" in dynamic or "type" in dynamic:
        return PY
    kind = VALUE_TYPES.get(params.get("type", "str"), PY)
    return list_of(kind) if params.get("n", 1) not in (None, 0, 1) else kind
