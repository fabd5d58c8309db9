"""Methods of states, of the children of a fork, and of nested programs' results."""

import ast
from collections.abc import Callable

from lmc.frontend.capture.emitter import is_state, kind_of
from lmc.frontend.capture.loops import Loops
from lmc.frontend.capture.stretch import Stretch
from lmc.frontend.capture.unread import META_SUFFIX, hidden_name
from lmc.frontend.capture.values import (
    FAMILY,
    GROUP,
    Abstract,
    Called,
    Cell,
    Closure,
    Element,
    HostObject,
    Known,
    Packed,
    Piece,
    Pieces,
    Plain,
    Ref,
    Tuple,
    Word,
)
from lmc.ir.core import Value
from lmc.ir.types import BOOL, INT, META, PY, STATE, TEXT, Attr, Type, list_of

ROLES = ("system", "user", "assistant")
JOIN_MODES = ("gather_variable", "concate_and_append")
STATE_METHODS = (
    "text", "messages", "get_meta_info", "get_var", "set_var", "set", "fork", "copy", "sync",
    "error", "var_scope", "unordered", "user", "system", "assistant",
)  # fmt: skip
_VARIABLE_RESULTS: dict[str, Type] = {"lm.get": PY, "lm.has": BOOL, "lm.meta": META}

PARAMETERS = {
    "get_meta_info": ("name",), "get_var": ("name",), "set_var": ("name", "value"),
    "set": ("name", "value"),
    "fork": ("size", "position_ids_offset"), "copy": ("position_ids_offset",),
    "var_scope": ("name",), "user": ("expr",), "system": ("expr",), "assistant": ("expr",),
    "join": ("mode",),
}  # fmt: skip
"""Parameters of the methods of states and of groups of states."""


class States(Loops):
    """What can be done with states besides appending."""

    inline: Callable[..., Abstract]

    def state_method(self, place: Abstract, name: str, node: ast.Call) -> Abstract:
        """Walk a method call on a state."""
        arguments = self._arguments(node, name)
        match name, len(arguments):
            case "text", 0:
                return Plain(self.emit("lm.text", [self.content(place, node)], [TEXT], node)[0])
            case "messages", 0:
                made = self.emit("lm.messages", [self.content(place, node)], [PY], node)[0]
                return self.fresh(made)
            case "get_meta_info", 1:
                made = self.named_op("lm.meta", place, arguments[0], node)
                return self.fresh(made, external="what is told about a call")
            case "get_var", 1:
                return self.item(place, self.expression(arguments[0]), node)
            case (("set_var" | "set"), 2):
                name_value = self.name_of(arguments[0])
                self.set_variable(place, name_value, self.expression(arguments[1]), node)
            case "fork", 0 | 1 | 2:
                return self.fork(place, arguments[0] if arguments else None, node)
            case "copy", 0:
                return self.copy_state(place, node)
            case "sync", 0:
                pass
            case "error", 0:
                return Known(None)
            case (("user" | "system" | "assistant"), 1):
                inner = self.expression(arguments[0])
                inner = inner if isinstance(inner, Packed) else self.pieces(inner, arguments[0])
                self.append(place, self.turn_of(name, inner, node), node)
            case (("user" | "system" | "assistant"), 0):
                self.fail(node, f"{name}() opens a turn only in a with statement",
                          f"write: with s.{name}(): ...")  # fmt: skip
            case _ if name.endswith(("_begin", "_end")) and not arguments:
                role, _, kind = name.rpartition("_")
                if role not in ROLES:
                    self.fail(node, f"a state has no method '{name}'", "check its name")
                self.append(place, Pieces((Piece(kind, node, word=role),)), node)
            case _:
                self.fail(node, f"a state has no method '{name}' with {len(arguments)} argument(s)",
                          f"it has: {', '.join(STATE_METHODS)}")  # fmt: skip
        return Known(None)

    def _arguments(self, node: ast.Call, name: str) -> list[ast.expr]:
        """Return a method's arguments, all of them in order, without what changes nothing."""
        names = PARAMETERS.get(name, ())
        starred = any(isinstance(argument, ast.Starred) for argument in node.args)
        if starred or any(keyword.arg is None for keyword in node.keywords):
            self.fail(node, "starred arguments here cannot be captured", "write them out")
        given = dict(zip(names, node.args, strict=False))
        for keyword in node.keywords:
            if keyword.arg not in names or keyword.arg in given:
                self.fail(keyword.value, f"'{name}' of a state has no free parameter {keyword.arg}",
                          f"it has: {', '.join(names) or 'none'}")  # fmt: skip
            given[keyword.arg] = keyword.value
        given.pop("position_ids_offset", None)
        return [given[key] for key in names if key in given] + node.args[len(names) :]

    # Variables.

    def variable_op(  # type: ignore[override]
        self, op: str, state: Abstract, name: Abstract, node: ast.AST
    ) -> Value:
        """Read something of a variable of a state, by a name that may be known at run time."""
        if isinstance(name, Packed):
            found = self.by_template(
                name, node, lambda each: Plain(self.variable_op(op, state, each, node))
            )
            return self.read(found, node)
        if isinstance(name, Pieces):
            return self._call_op(op, state, self.only_call(name, node), node)
        operands = [self._state_content(state, node)]
        attributes: dict[str, Attr] = {}
        if isinstance(name, Known):
            if not isinstance(name.value, str):
                self.fail(node, f"a variable's name is text, not {name.value!r}", "quote the name")
            attributes["name"] = name.value
        else:
            operands.append(self.read(name, node))
        made = self.emit(op, operands, [_VARIABLE_RESULTS[op]], node, **attributes)[0]
        if isinstance(name, Known) and op == "lm.get" and name.value.isidentifier():
            made.hint = name.value
        return made

    def _call_op(self, op: str, state: Abstract, part: Piece, node: ast.AST) -> Value:
        """Do what `variable_op` does for the variable of a generation or choice."""
        if part.kind == "either":
            assert part.test is not None
            sides = [
                lambda option=option: Plain(self.variable_op(op, state, option, node))
                for option in part.options
            ]
            return self.read(self.choose(node, Plain(part.test), *sides), node)
        if part.name is not None:
            name = Plain(part.name) if isinstance(part.name, Value) else Known(part.name)
            return self.variable_op(op, state, name, node)
        if isinstance(state, Called):
            self.name_of_call(Pieces((part,)), node)  # which tells that it has none
        if part.serial in self.escaped:
            self.fail(node, "which unnamed generation is read here depends on the path or the list "
                      "that it comes from", "give it a name")  # fmt: skip
        hidden = hidden_name(part, META_SUFFIX if op == "lm.meta" else "")
        self.hidden_reads.add(hidden)
        return self.variable_op("lm.get" if op == "lm.meta" else op, state, Known(hidden), node)

    def named_op(self, op: str, state: Abstract, name: ast.expr, node: ast.AST) -> Value:
        """Do what `variable_op` does for a name in the source."""
        return self.variable_op(op, state, self.expression(name), node)

    def _state_content(self, state: Abstract, node: ast.AST) -> Value:
        if isinstance(state, Called):
            state = state.state
        return self.content(state, node)

    def set_variable(
        self, place: Abstract, name: str | Value | None, value: Abstract, node: ast.AST
    ) -> None:
        """Set a variable of a state; what it holds must not change afterwards."""
        operands = [self.content(place, node), self.read(value, node)]
        attributes: dict[str, Attr] = {}
        if isinstance(name, Value):
            operands.append(name)
        elif name is None:
            self.fail(node, "a variable needs a name", "s['name'] = value")
        else:
            attributes["name"] = name
        if isinstance(value, Ref):
            self.store.frozen.setdefault(
                value.cell, f"this changes what a state's variable holds since {self.locate(node)}"
            )
        self.write(place, self.emit("lm.set", operands, [STATE], node, **attributes)[0], node)

    # Forks.

    def fork(self, place: Abstract, count: ast.expr | None, node: ast.AST) -> Abstract:
        """Fork a state into a group."""
        number = Known(1) if count is None else self.expression(count)
        attributes: dict[str, Attr] = {}
        operands: list[Value] = []
        if isinstance(number, Known):
            if type(number.value) is not int or number.value < 0:
                self.fail(node, f"fork needs a whole number, not {number.value!r}", "s.fork(3)")
            attributes["count"] = number.value
        else:
            operands.append(self.read(number, node))
        return self._forked(place, operands, attributes, node)

    def _forked(
        self, place: Abstract, operands: list[Value], attributes: dict[str, Attr], node: ast.AST
    ) -> Abstract:
        children = self._fork_op(place, operands, attributes, node)
        if self.heap is not None:
            return self.keep_children(place, children, node)
        assert isinstance(place, (Ref, Element))
        cell = Cell(GROUP, "forks", parent=place)
        self.store.contents[cell] = children
        return Ref(cell)

    def _fork_op(
        self, place: Abstract, operands: list[Value], attributes: dict[str, Attr], node: ast.AST
    ) -> Value:
        """Make the op and put the parent back; return the list of children."""
        self.check_callable(place, node)
        before = self.content(place, node)
        kinds = [STATE, list_of(STATE)]
        parent, made = self.emit("lm.fork", [before, *operands], kinds, node, **attributes)
        self.count_call(place, parent, before.hint, node)
        return made

    def count_call(self, place: Abstract, state: Value, hint: str, node: ast.AST) -> None:
        """Put back a state on which a call was counted, its text unchanged."""
        state.hint = hint
        self.check_changeable(place, node)
        self.assign_content(place, state, node)
        self.mark_called(place, node)

    def copy_state(self, place: Abstract, node: ast.AST) -> Abstract:
        """Copy a state: a fork of one."""
        children = self._fork_op(place, [], {"count": 1}, node)
        if self.heap is not None:
            return self.keep_child(children, node)
        zero = self.constant(0, node)
        cell = Cell(STATE, "copy")
        self.store.contents[cell] = self.emit("val.index", [children, zero], [STATE], node)[0]
        return Ref(cell)

    def group_of(self, abstract: Abstract) -> bool:
        """Whether a value is what a fork gave."""
        return isinstance(abstract, (Ref, Element)) and kind_of(abstract) in (GROUP, FAMILY)

    def join_group(self, group: Abstract, arguments: list[ast.expr], node: ast.Call) -> Abstract:
        """Walk forks.join(mode)."""
        mode = self.static(arguments[0]) if arguments else JOIN_MODES[0]
        if mode not in JOIN_MODES or len(arguments) > 1:
            self.fail(node, "join takes one constant mode", f"one of {', '.join(JOIN_MODES)}")
        if kind_of(group) == FAMILY:
            parent, children = self.family_parts(group, node)
        elif not isinstance(group, Ref) or group.cell.parent is None:
            self.fail(node, "which state these forks came from is not known here",
                      "join them where they were forked, under their own name")  # fmt: skip
        else:
            parent, children = group.cell.parent, self.content(group, node)
        operands = [self.content(parent, node), children]
        made = self.emit("lm.join", operands, [STATE], node, mode=mode)[0]
        made.hint = operands[0].hint
        self.write(parent, made, node)
        return Known(None)

    def append_to_group(self, group: Abstract, value: Abstract, node: ast.stmt) -> None:
        """Append to every child of a fork: the same, the i-th of a list, or what a lambda says."""
        if isinstance(value, Tuple):
            if isinstance(group, Ref) and kind_of(group) == GROUP:
                self._check_count(self.content(group, node), len(value.items), node)
            for index, item in enumerate(value.items):
                self.append(self.element(self._ref(group), Known(index), node), item, node)
            return
        held = isinstance(value, (Plain, Ref, Element))
        if held and kind_of(value) == PY:
            self.branch(
                node, self._is_sequence(value, node),
                lambda: self._append_to_each(group, value, node, texts=value),
                lambda: self._append_to_each(group, value, node),
            )  # fmt: skip
            return
        is_list = held and kind_of(value).name == "list"
        self._append_to_each(group, value, node, texts=value if is_list else None)

    def _is_sequence(self, value: Abstract, node: ast.stmt) -> Known | Plain:
        """Whether a value is a list or a tuple, as far as is known when the program runs."""
        found: Known | Plain = Known(False)
        for kind in ("list", "tuple"):
            operands = [self.read(value, node), self.constant(kind, node)]
            made = self.emit("val.call", operands, [BOOL], node, callee="isinstance")
            found = self.either(found, Plain(made[0]), node)
        return found

    def _append_to_each(
        self, group: Abstract, value: Abstract, node: ast.stmt, texts: Abstract | None = None
    ) -> None:
        """Append to every child, where `texts` is given the i-th of them."""
        slots = self._states(self._ref(group), node)
        source = slots if texts is None else self.zipped([slots, value], node, strict=True)
        is_called = texts is None and isinstance(value, (Closure, HostObject))
        if is_called and kind_of(group) == FAMILY:
            # The index of a child by number is its number among all states.
            source = self.enumerated(slots, Known(0), node)

        def body(item: Abstract) -> Known | Plain:
            place, what = item, value
            if texts is not None:
                assert isinstance(item, Tuple)
                place, what = item.items
            elif is_called:
                index: Abstract
                if isinstance(item, Tuple):
                    index, place = item.items
                else:
                    assert isinstance(place, Element)
                    index = place.index
                what = self.inline(value, [index], {}, node)
            self.append(place, what, node)
            return Known(True)

        self.for_each(source, node, body)

    def _check_count(self, children: Value, count: int, node: ast.stmt) -> None:
        """Have the run fail where there are not as many children as values for them."""
        operands = [children, self.constant([None] * count, node), self.constant(True, node)]
        self.emit("val.call", operands, [list_of(PY)], node, callee="zip", keywords=["strict"])

    def _ref(self, group: Abstract) -> Ref | Element:
        assert isinstance(group, (Ref, Element))
        return group

    # Blocks.

    def with_item(self, node: ast.With, item: ast.withitem) -> Callable[[], None] | None:
        """Open a with statement on a state; return what closes it."""
        call = item.context_expr
        if not isinstance(call, ast.Call):
            return None
        if len(call.args) == 1 and self._is_unordered(call.func) and item.optional_vars is None:
            return self._unordered(self.place(call.args[0]), call)
        if not isinstance(call.func, ast.Attribute):
            return None
        place = self.place(call.func.value)
        if not is_state(place):
            return None
        if call.func.attr == "copy" and isinstance(item.optional_vars, ast.Name):
            return self._copied(place, call, item.optional_vars)
        if item.optional_vars is not None:
            return None
        role = call.func.attr
        if role in ROLES and not call.args and not call.keywords:
            self.append(place, Pieces((Piece("begin", call, word=role),)), call)
            return lambda: self.append(place, Pieces((Piece("end", call, word=role),)), call)
        if role == "unordered" and not call.args and not call.keywords:
            return self._unordered(place, call)
        if role == "var_scope" and len(self._arguments(call, role)) == 1:
            return self._scope(place, call)
        return None

    def _is_unordered(self, function: ast.expr) -> bool:
        if isinstance(function, ast.Attribute):
            is_named = function.attr == "unordered" and isinstance(function.value, ast.Name)
            return is_named and self.expression(function) == Word("unordered")
        return isinstance(function, ast.Name) and self.expression(function) == Word("unordered")

    def _unordered(self, place: Abstract, call: ast.Call) -> Stretch:
        """Mark a stretch whose order is free."""
        if not is_state(place):
            self.fail(call, "unordered takes a state", "with lmc.unordered(s):")

        def mark(side: str) -> Value:
            before = self.content(place, call)
            made = self.emit("lm.unordered", [before], [STATE], call, side=side)[0]
            made.hint = before.hint
            self.write(place, made, call)
            return made

        return Stretch(mark, lambda: self.content(place, call), mark("begin"))

    def _copied(self, place: Abstract, call: ast.Call, target: ast.Name) -> Callable[[], None]:
        """with s.copy() as c: a fork of one that is joined at the end."""
        self._arguments(call, "copy")
        group = self.fork(place, None, call)
        child = self.element(self._ref(group), Known(0), call)
        self.assign_name(target.id, child, call)

        def close() -> None:
            self.join_group(group, [], call)

        return close

    def _scope(self, place: Abstract, call: ast.Call) -> Callable[[], None]:
        name = self.name_of(self._arguments(call, "var_scope")[0])
        before = self.emit("lm.text", [self.content(place, call)], [TEXT], call)[0]

        def close() -> None:
            whole = self.emit("lm.text", [self.content(place, call)], [TEXT], call)[0]
            start = self.emit("val.call", [before], [INT], call, callee="len")[0]
            nothing = self.constant(None, call)
            operands = [whole, start, nothing, nothing]
            added = self.emit("val.slice", operands, [TEXT], call)[0]
            self.set_variable(place, name, Plain(added), call)

        return close
