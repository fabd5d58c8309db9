"""Names: locals, enclosing functions, and live objects of the module, read once and guarded."""

import ast
import builtins
import importlib
from os import PathLike, fspath
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from lmc.frontend import dsl
from lmc.frontend.capture.frame import MISSING
from lmc.frontend.capture.indexed import IndexedStates
from lmc.frontend.capture.values import (
    Abstract,
    Builtin,
    HostObject,
    Known,
    Piece,
    Pieces,
    Plain,
    ProgramRef,
    Ref,
    Tuple,
    Undefined,
    Word,
)
from lmc.ir.calls import Constraint
from lmc.ir.evaluate import FUNCTIONS
from lmc.ir.expressions import (
    Control,
    Expression,
    Gen,
    Media,
    RoleBegin,
    RoleEnd,
    Select,
    sequence,
)
from lmc.ir.types import is_attr

WORDS = {
    getattr(dsl, name): name
    for name in (
        "gen", "gen_int", "gen_string", "select", "control", "system", "user", "assistant",
        "system_begin", "system_end", "user_begin", "user_end", "assistant_begin", "assistant_end",
        "image", "video", "separate_reasoning", "unordered",
    )
}  # fmt: skip
"""The language's functions, by the live object."""

OWN_BUILTINS = ("map", "filter", "next", "iter", "print", "divmod", "pow", "callable", "type")


UNNAMED = {"type name", "dict.fromkeys", "starred"}
"""Functions of the IR that no name of Python leads to."""


def _known_builtins() -> dict[int, str]:
    found = {id(getattr(builtins, name)): name for name in OWN_BUILTINS}
    for name in FUNCTIONS.keys() - UNNAMED:
        module, _, member = name.rpartition(".")
        home = importlib.import_module(module) if module else builtins
        found[id(getattr(home, member))] = name
    return found


BUILTINS = _known_builtins()
"""Functions that capture knows, by the identity of the live object."""


class Environment(IndexedStates):
    """Looks names up and turns live objects into abstract values."""

    def lookup(self, name: str, node: ast.AST) -> Abstract:
        """Return what a name is bound to."""
        owner = self.frame.owner(name)
        if owner is not None:
            return self.store.names.get((owner.id, name), Undefined(name))
        where, obj = self.frame.live(name)
        if obj is MISSING:
            self.fail(node, f"the name '{name}' is not known", "define or import it")
        return self.from_python(obj, name, node, is_guarded=where != "builtin")

    def assign_name(self, name: str, value: Abstract, node: ast.AST) -> None:
        """Bind a name of the running frame."""
        self.check_usable(value, node)
        owner = self.frame.owner(name)
        if owner is None:
            self.fail(node, f"'{name}' is a global and cannot be assigned in a program",
                      "return the value instead")  # fmt: skip
        if isinstance(value, Plain) and not value.value.hint:
            value.value.hint = name
        if isinstance(value, Ref):
            value.cell.hint = value.cell.hint or name
            content = self.store.contents.get(value.cell)
            if content is not None and not content.hint:
                content.hint = name
        self.store.names[owner.id, name] = value
        self.note_progress(node)

    def from_python(
        self, obj: Any, name: str, node: ast.AST, *, is_guarded: bool = True
    ) -> Abstract:
        """Turn a live object into what capture can work with."""
        if isinstance(obj, (FunctionType, type, BuiltinFunctionType)):
            return self._function(obj, name, is_guarded=is_guarded)
        if hasattr(obj, "__lmc_function__"):
            return ProgramRef(obj)
        if isinstance(obj, ModuleType):
            return HostObject(obj, name)
        if isinstance(obj, Expression):
            self.module.guard(self.frame, name, obj)
            return self._live_pieces(obj, node)
        if is_attr(obj):
            if is_guarded:
                self.module.guard(self.frame, name, obj)
            return self._data(obj, name, node)
        if isinstance(obj, Constraint):
            self.module.guard(self.frame, name, obj)
        return HostObject(obj, name)

    def _live_pieces(self, obj: Expression, node: ast.AST) -> Pieces:
        """Turn an expression that the module holds into pieces."""
        parts = []
        for part in sequence(obj).parts:
            if isinstance(part, str):
                text: Any = node
                parts.append(Piece("text", text, self.constant(part, node)))
                continue
            where = self.module.node_of(part.made, node)
            match part:
                case RoleBegin(role):
                    parts.append(Piece("begin", where, word=role))
                case RoleEnd(role):
                    parts.append(Piece("end", where, word=role))
                case Control(token):
                    parts.append(Piece("control", where, word=token))
                case Media(kind, source, num_frames):
                    parts.append(self._live_media(kind, source, num_frames, where))
                case Gen(name, params, reasoning):
                    parts.append(Piece(
                        "gen", where, name=name, params=tuple(params.items()),
                        reasoning=reasoning, serial=self.module.serial_of(part),
                        append=part.append,
                    ))  # fmt: skip
                case Select(name, choices, params):
                    parts.append(Piece(
                        "select", where, name=name, params=tuple(params.items()),
                        choices=self.constant(choices, node), serial=self.module.serial_of(part),
                    ))  # fmt: skip
        return Pieces(tuple(parts))

    def _live_media(self, kind: str, source: Any, num_frames: int | None, node: ast.AST) -> Piece:
        """Turn an image that the module holds into a piece; its path is all that IR keeps."""
        if isinstance(source, PathLike):
            source = fspath(source)
        if not isinstance(source, str):
            self.fail(node, f"the bytes of {kind}s cannot be part of a compiled program",
                      "give the path, or pass the bytes as an argument")  # fmt: skip
        frames = ()
        if kind == "video":
            frames = (("num_frames", self.constant(num_frames, node)),)
        where: Any = node
        return Piece("media", where, self.constant(source, node), word=kind, dynamic=frames)

    def _function(self, obj: Any, name: str, *, is_guarded: bool) -> Abstract:
        if isinstance(obj, FunctionType) and obj in WORDS:
            return Word(WORDS[obj])
        if id(obj) in BUILTINS:
            return Builtin(BUILTINS[id(obj)])
        return HostObject(obj, name)

    def _data(self, obj: Any, name: str, node: ast.AST) -> Abstract:
        if isinstance(obj, tuple):
            return Tuple(tuple(self._data(item, name, node) for item in obj))
        if isinstance(obj, (list, dict)):
            value = self.constant(obj, node)
            value.hint = name.rpartition(".")[2]
            return self.fresh(value, external=f"the constant '{name}' of the module")
        return Known(obj)

    def attribute_of(self, host: HostObject, attribute: str, node: ast.AST) -> Abstract:
        """Read an attribute of a live module or object."""
        obj = getattr(host.obj, attribute, MISSING)
        name = f"{host.name}.{attribute}"
        if obj is MISSING:
            self.fail(node, f"'{host.name}' has no attribute '{attribute}'", "check its name")
        return self.from_python(obj, name, node, is_guarded=not isinstance(obj, ModuleType))

    def item_of_host(self, host: HostObject, key: Any, node: ast.AST) -> Abstract:
        """Read an item of a live list, tuple, dict or enum."""
        try:
            obj = host.obj[key]
        except (TypeError, LookupError):
            self.fail(node, f"'{host.name}' has no item {key!r}", "check the index")
        return self.from_python(obj, f"{host.name}[{key!r}]", node, is_guarded=False)

    # Values known without running anything.

    def static(self, node: ast.expr) -> Any:
        """Return the value of an expression made of constants, else MISSING."""
        match node:
            case ast.Constant(value=value):
                return value if is_attr(value) else MISSING
            case ast.Name(id=name):
                return self._static_name(name, node)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                values = [self.static(item) for item in items]
                if any(value is MISSING for value in values):
                    return MISSING
                return values if isinstance(node, ast.List) else tuple(values)
            case ast.Dict(keys=keys, values=values):
                return self._static_dict(keys, values)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                value = self.static(operand)
                return -value if type(value) in (int, float) else MISSING
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                both = [self.static(left), self.static(right)]
                if all(type(value) is str for value in both):
                    return both[0] + both[1]
                return MISSING
            case ast.Attribute(value=ast.Name(id=name)):
                if self.frame.owner(name) is None:
                    found = self.frame.live(name)[1]
                    value = getattr(found, node.attr, MISSING)
                    if isinstance(found, ModuleType) and is_attr(value):
                        self.module.guard(self.frame, f"{name}.{node.attr}", value)
                        return value
                return MISSING
            case _:
                return MISSING

    def _static_name(self, name: str, node: ast.expr) -> Any:
        owner = self.frame.owner(name)
        if owner is not None:
            bound = self.store.names.get((owner.id, name))
            return bound.value if isinstance(bound, Known) else MISSING
        where, obj = self.frame.live(name)
        if obj is MISSING or not is_attr(obj):
            return MISSING
        if where != "builtin":
            self.module.guard(self.frame, name, obj)
        return obj

    def _static_dict(self, keys: list[ast.expr | None], values: list[ast.expr]) -> Any:
        found: dict[str, Any] = {}
        for key, value in zip(keys, values, strict=True):
            pair = (MISSING if key is None else self.static(key), self.static(value))
            if type(pair[0]) is not str or pair[1] is MISSING:
                return MISSING
            found[pair[0]] = pair[1]
        return found
