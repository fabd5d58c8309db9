"""The language's own words: building what is appended to a state, and appending it."""

import ast
from collections.abc import Sequence
from typing import Any

from lmc.frontend.capture.emitter import describe, is_state, kind_of
from lmc.frontend.capture.expressions import Expressions
from lmc.frontend.capture.frame import MISSING
from lmc.frontend.capture.values import (
    Abstract,
    Builtin,
    Element,
    Known,
    Piece,
    Pieces,
    Plain,
    Ref,
    has_states,
)
from lmc.ir.core import Value
from lmc.ir.expressions import CHOICES_METHODS, GEN_PARAMS, SELECT_PARAMS, TYPE_REGEX
from lmc.ir.types import BOOL, FLOAT, INT, META, PY, STATE, TEXT, Attr, Type, list_of

POSITIONAL = {
    "gen": ("name", "max_tokens"),
    "gen_int": ("name", "max_tokens"),
    "select": ("name", "choices", "temperature", "choices_method"),
    "control": ("token",),
    "system": ("expr",),
    "user": ("expr",),
    "assistant": ("expr",),
}
VALUE_TYPES = {"int": INT, "float": FLOAT, "bool": BOOL, "str": TEXT}


class PieceBuilder(Expressions):
    """Makes pieces of calls of the language's words, and appends pieces to states."""

    def pieces(self, value: Abstract, node: ast.AST) -> Pieces:  # type: ignore[override]
        """Return a value as something to append; wrong kinds are told here."""
        if isinstance(value, Pieces):
            return value
        self.check_usable(value, node)
        wrong = None
        if isinstance(value, Known) and not isinstance(value.value, str):
            wrong = f"{value.value!r} is not text"
        elif is_state(value) or not isinstance(value, (Known, Plain, Ref, Element)):
            wrong = f"{describe(value)} cannot be appended"
        elif has_states(kind_of(value)) or kind_of(value).name in ("list", "dict"):
            wrong = f"a {kind_of(value).name} cannot be appended"
        if wrong:
            self.fail(node, wrong, "make it text first: str(x), an f-string, or '...'.join(xs)")
        assert isinstance(node, (ast.expr, ast.stmt))
        return Pieces((Piece("text", node, self.read(value, node)),))  # type: ignore[arg-type]

    def word_call(self, word: str, node: ast.Call) -> Abstract:
        """Walk a call of one of the language's words."""
        if word.endswith(("_begin", "_end")):
            role, _, kind = word.rpartition("_")
            self._named(word, (), node)
            return Pieces((Piece(kind, node, word=role),))
        given = self._named(word, POSITIONAL[word], node)
        if word == "control":
            token = self.static(given["token"]) if "token" in given else MISSING
            if not isinstance(token, str):
                self.fail(node, "control takes the spelling of a token as a constant",
                          'write lmc.control("<|im_end|>")')  # fmt: skip
            return Pieces((Piece("control", node, word=token),))
        if word in ("system", "user", "assistant"):
            if "expr" not in given:
                self.fail(node, f"{word}() needs what the turn says", f"{word}('text')")
            inner = self.pieces(self.expression(given["expr"]), given["expr"])
            ends = (Piece("begin", node, word=word), Piece("end", node, word=word))
            return Pieces((ends[0], *inner.parts, ends[1]))
        if word == "select" or "choices" in given:
            return self._select(word, given, node)
        return self._gen(word, given, node)

    def _named(self, word: str, names: Sequence[str], node: ast.Call) -> dict[str, ast.expr]:
        """Return a call's arguments by name, in source order."""
        given: dict[str, ast.expr] = {}
        if len(node.args) > len(names):
            self.fail(node, f"{word}() takes at most {len(names)} positional argument(s)",
                      "give the others by name")  # fmt: skip
        for name, argument in zip(names, node.args, strict=False):
            if isinstance(argument, ast.Starred):
                self.fail(argument, "starred arguments of a word cannot be captured", "name them")
            given[name] = argument
        for keyword in node.keywords:
            if keyword.arg is None:
                self.fail(keyword.value, "**arguments of a word cannot be captured", "name them")
            if keyword.arg in given:
                self.fail(keyword.value, f"'{keyword.arg}' is given twice", "give it once")
            given[keyword.arg] = keyword.value
        return given

    def _gen(self, word: str, given: dict[str, ast.expr], node: ast.Call) -> Pieces:
        ignored = ("name", "choices_method")
        params, dynamic, name = self._params(word, given, GEN_PARAMS, ignored)
        if word == "gen_int":
            params.setdefault("type", "int")
        made = Piece("gen", node, name=name, params=tuple(params.items()), dynamic=tuple(dynamic))
        return Pieces((made,))

    def _select(self, word: str, given: dict[str, ast.expr], node: ast.Call) -> Pieces:
        if "choices" not in given:
            self.fail(node, "select needs choices", 'select("name", choices=["a", "b"])')
        if word == "gen":
            given = {k: v for k, v in given.items() if k in ("name", "choices", *SELECT_PARAMS)}
        choices = self.expression(given["choices"])
        value = self.read(choices, given["choices"])
        params, dynamic, name = self._params(word, given, SELECT_PARAMS, ("name", "choices"))
        method = params.get("choices_method", CHOICES_METHODS[0])
        if method not in CHOICES_METHODS:
            self.fail(given["choices_method"], f"choices_method={method!r} is unknown",
                      f"use one of {', '.join(CHOICES_METHODS)}")  # fmt: skip
        made = Piece("select", node, name=name, params=tuple(params.items()),
                     dynamic=tuple(dynamic), choices=value)  # fmt: skip
        return Pieces((made,))

    def _params(
        self, word: str, given: dict[str, ast.expr], known: Sequence[str], apart: Sequence[str]
    ) -> tuple[dict[str, Attr], list[tuple[str, Value]], str | Value | None]:
        """Part decode parameters into constant ones and ones known at run time."""
        params: dict[str, Attr] = {}
        dynamic: dict[str, Value] = {}
        name: str | Value | None = None
        for key, node in given.items():
            if key == "name":
                name = self.name_of(node)
                continue
            if key in apart:
                continue
            if key not in known:
                self.fail(node, f"{word} has no parameter '{key}'",
                          f"it has: name, {', '.join(known)}")  # fmt: skip
            value = self._type_param(node) if key == "type" else self.static(node)
            if value is MISSING:
                dynamic[key] = self.data(node)
            elif value is not None:
                params[key] = value
        ordered = [(key, dynamic[key]) for key in known if key in dynamic]
        return params, ordered, name

    def name_of(self, node: ast.expr) -> str | Value | None:
        """Return a variable's name: a constant, or the value that it has at run time."""
        value = self.static(node)
        if value is not MISSING:
            if value is not None and not isinstance(value, str):
                self.fail(node, f"a variable's name is text, not {value!r}", "quote the name")
            return value
        found = self.expression(node)
        return found.value if isinstance(found, Known) else self.read(found, node)

    def _type_param(self, node: ast.expr) -> Any:
        found = self.expression(node)
        name = found.name if isinstance(found, Builtin) else None
        if isinstance(found, Known):
            name = found.value
            if name is None:
                return None
        if name not in (*TYPE_REGEX, "str"):
            self.fail(node, "gen cannot make a value of this type", "use int, float, bool or str")
        return name

    # Appending.

    def append(self, place: Abstract, value: Abstract, node: ast.AST) -> None:
        """Append pieces, or text, to the state at a place."""
        pieces = self.pieces(value, node)
        self.check_usable(place, node)
        if any(part.kind in ("gen", "select") for part in pieces.parts):
            self.check_callable(place, node)
        state = self.raw(place, node)
        hint = state.hint
        for part in pieces.parts:
            state = self._append_part(state, part)
            state.hint = hint
        self.write(place, state, node)

    def _append_part(self, state: Value, part: Piece) -> Value:
        node = part.node
        match part.kind:
            case "text":
                assert part.text is not None
                return self.emit("lm.extend", [state, part.text], [STATE], node)[0]
            case "begin" | "end":
                return self.emit(f"lm.{part.kind}", [state], [STATE], node, role=part.word)[0]
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
        params = dict(part.params)
        kind = TEXT if part.kind == "select" else _gen_type(params, dynamic)
        made = self.emit(
            f"lm.{part.kind}", operands, [STATE, kind, META], part.node,
            **attributes, params=params, dynamic=dynamic,
        )  # fmt: skip
        made[1].hint = part.name if isinstance(part.name, str) and part.name.isidentifier() else ""
        made[1].hint = made[1].hint or "text"
        made[2].hint = "meta"
        return made[0]


def _gen_type(params: dict[str, Any], dynamic: Sequence[Attr]) -> Type:
    if "n" in dynamic or "type" in dynamic:
        return PY
    kind = VALUE_TYPES[params.get("type", "str")]
    return list_of(kind) if params.get("n", 1) not in (None, 0, 1) else kind
