"""The language's own words: building what is appended to a state."""

import ast
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

from lmc.errors import CompileError, UsageError
from lmc.frontend.capture.emitter import describe, is_state, kind_of
from lmc.frontend.capture.frame import MISSING
from lmc.frontend.capture.limits import Limits
from lmc.frontend.capture.values import (
    Abstract,
    Element,
    Known,
    Packed,
    Piece,
    Pieces,
    Plain,
    Ref,
    has_states,
)
from lmc.frontend.dsl import (
    GEN_ORDER,
    SHORT_ORDER,
    check_append,
    string_regex,
)
from lmc.frontend.schema import type_text
from lmc.frontend.turns import check_not_appending, check_splits, reasoning_kind
from lmc.ir.core import Value
from lmc.ir.decode_params import ALMOST_ZERO, check_param, check_together
from lmc.ir.expressions import (
    CHOICES_METHODS,
    GEN_PARAMS,
    SELECT_PARAMS,
    UNNAMED_HINT,
    UNNAMED_KEY,
    unknown_parameter,
)
from lmc.ir.types import Attr

POSITIONAL = {
    "gen": GEN_ORDER,
    "gen_int": SHORT_ORDER,
    "gen_string": SHORT_ORDER,
    "select": ("name", "choices", "temperature", "choices_method"),
    "control": ("token",),
    "system": ("expr",),
    "user": ("expr",),
    "assistant": ("expr",),
    "separate_reasoning": ("expr", "model_type"),
    "image": ("source",),
    "video": ("path", "num_frames"),
}


class PieceBuilder(Limits):
    """Makes pieces of calls of the language's words."""

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
        self.module.keep_place(node, self.frame.source)
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
            inner = self.expression(given["expr"]) if "expr" in given else Known(None)
            if isinstance(inner, Packed):
                return self.turn_of(word, inner, node)
            said = () if inner == Known(None) else self.pieces(inner, given["expr"]).parts
            ends = (Piece("begin", node, word=word), Piece("end", node, word=word))
            return Pieces((ends[0], *said, ends[1]))
        if word == "separate_reasoning":
            return self._separate(given, node)
        if word in ("image", "video"):
            return self._media(word, given, node)
        if word == "gen":
            is_limited = "constraint" in given
            return self.limited(given, node) if is_limited else self.generation(given, node)
        if word == "select":
            return self._select(word, given, node)
        return self._gen(word, given, node)

    def generation(  # type: ignore[override]
        self, given: dict[str, ast.expr], node: ast.Call
    ) -> Pieces:
        """Walk a call of `gen` with these parameters."""
        if "choices" not in given:
            return self._gen("gen", given, node)
        if "append" in given:
            self._append_param(given, node)
        return self._select("gen", {k: v for k, v in given.items() if k != "append"}, node)

    def turn_of(self, role: str, inner: Abstract, node: ast.expr) -> Abstract:
        """Return a turn around what is one of several expressions."""
        begin, end = (Pieces((Piece(kind, node, word=role),)) for kind in ("begin", "end"))
        return self.joined(self.joined(begin, inner, node), end, node)

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
        left_out = self.module.left_out
        if not left_out:
            return given
        return {k: place for k, place in given.items() if self.locate(place) not in left_out}

    def _gen(self, word: str, given: dict[str, ast.expr], node: ast.Call) -> Pieces:
        ignored = ("name", "choices_method", "append", "constraint")
        append = self._append_param(given, node) if "append" in given else False
        is_dtype = "dtype" in given
        if is_dtype:
            if "type" in given:
                self._refuse(given["dtype"], "dtype is another name of type; both are given",
                             "give one of them")  # fmt: skip
            given = {"type" if key == "dtype" else key: value for key, value in given.items()}
        params, dynamic, name = self._params(word, given, GEN_PARAMS, ignored)
        if word == "gen_int":
            params["type"] = "int"
        is_quoted = is_dtype and params.get("type") == "str"
        if is_quoted or word == "gen_string":
            self._quote(params, dict(dynamic), node)
        self._check_together(params, node)
        made = Piece("gen", node, name=name, params=tuple(params.items()), dynamic=tuple(dynamic),
                     serial=self.fresh_id(), append=append)  # fmt: skip
        return Pieces((made,))

    def _append_param(self, given: dict[str, ast.expr], node: ast.Call) -> bool:
        """Return whether a generation is added to the list that its variable holds."""
        append = self.static(given["append"])
        if not isinstance(append, bool):
            self.fail(given["append"], "append= must be a constant", "True or False")
        try:
            if append:
                check_append(given.get("name"), self.static(given["n"]) if "n" in given else None,
                             given.get("choices"))  # fmt: skip
        except UsageError as error:
            self._refuse(node, error.message, error.hint)
        return append

    def _quote(self, params: dict[str, Attr], dynamic: dict[str, Value], node: ast.Call) -> None:
        """Make text of a generation that is to be words between quotes."""
        params.pop("type", None)
        try:
            params["regex"] = string_regex(params.get("regex", dynamic.get("regex")))
        except UsageError as error:
            self._refuse(node, error.message, error.hint)

    def _media(self, word: str, given: dict[str, ast.expr], node: ast.Call) -> Pieces:
        names = POSITIONAL[word]
        for name in (*names, *given):
            if name not in given or name not in names:
                self.fail(node, f"{word} takes {' and '.join(names)}", "check the call")
        values = [self.data(given[name]) for name in names]
        dynamic = tuple(zip(names[1:], values[1:], strict=True))
        return Pieces((Piece("media", node, values[0], word=word, dynamic=dynamic),))

    def _separate(self, given: dict[str, ast.expr], node: ast.Call) -> Pieces:
        """Mark the generations whose reasoning is taken away."""
        found = self.expression(given["expr"]) if "expr" in given else Known(None)
        parts = () if found == Known(None) else self.pieces(found, given["expr"]).parts
        model_type = self.static(given["model_type"]) if "model_type" in given else None
        try:
            kind = reasoning_kind(model_type)
            return Pieces(tuple(_separated(part, kind) for part in parts))
        except UsageError as error:
            self._refuse(node, error.message, error.hint)

    def _select(self, word: str, given: dict[str, ast.expr], node: ast.Call) -> Pieces:
        if "choices" not in given:
            self._params(word, given, SELECT_PARAMS, ("name", "choices"))
            self.fail(node, "select needs choices", 'select("name", choices=["a", "b"])')
        if word == "gen":
            # The other parameters of gen have no meaning for a choice, as in the reference.
            given = {k: v for k, v in given.items() if k not in (*GEN_PARAMS, "dtype")
                     or k in SELECT_PARAMS}  # fmt: skip
        choices = self.expression(given["choices"])
        value = self.read(choices, given["choices"])
        params, dynamic, name = self._params(word, given, SELECT_PARAMS, ("name", "choices"))
        method = params.get("choices_method", CHOICES_METHODS[0])
        if method not in CHOICES_METHODS:
            self._refuse(given["choices_method"], f"choices_method={method!r} is unknown",
                         f"use one of {', '.join(CHOICES_METHODS)}")  # fmt: skip
        if params.get("temperature", 0) > ALMOST_ZERO:  # type: ignore[operator]
            self._refuse(given["temperature"], "select takes the likeliest choice; its temperature "
                         f"must be 0, not {params['temperature']!r}", "leave it out")  # fmt: skip
        made = Piece("select", node, name=name, params=tuple(params.items()),
                     dynamic=tuple(dynamic), choices=value, serial=self.fresh_id())  # fmt: skip
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
                self._refuse(node, *unknown_parameter(word, key, ("name", *apart, *known)))
            value = self._type_param(node) if key == "type" else self._static_param(key, node)
            if value is MISSING:
                dynamic[key] = self.data(node)
            elif value is not None:
                params[key] = self.checked(key, value, node)
        ordered = [(key, dynamic[key]) for key in known if key in dynamic]
        return params, ordered, name

    def _refuse(self, node: ast.AST, message: str, hint: str | None) -> NoReturn:
        """Raise the error of a call that is wrong in whatever mode the program runs."""
        raise CompileError(message, hint=hint, location=self.locate(node))

    def checked(self, key: str, value: Attr, node: ast.expr) -> Attr:
        """Return a constant decode parameter as plain data.

        Raises:
            CompileError: it cannot have this value, in whatever mode the program runs.
        """
        try:
            return value if key == "choices_method" else check_param(key, value)
        except UsageError as error:
            self._refuse(node, error.message, error.hint)

    def _check_together(self, params: dict[str, Attr], node: ast.Call) -> None:
        try:
            check_together(params)
        except UsageError as error:
            self._refuse(node, error.message, error.hint)

    def _static_param(self, key: str, node: ast.expr) -> Any:
        """Return a constant, MISSING for others; keys of logit_bias may be ids."""
        if key == "json_schema" and isinstance(node, ast.Call) and not node.args:
            return self._model_schema(node.func)
        if key != "logit_bias" or not isinstance(node, ast.Dict):
            return self.static_content(node)
        keys = [MISSING if item is None else self.static(item) for item in node.keys]
        values = [self.static(item) for item in node.values]
        if any(item is MISSING for item in (*keys, *values)):
            return MISSING
        return dict(zip(keys, values, strict=True))

    def name_of(self, node: ast.expr) -> str | Value | None:
        """Return a variable's name: a constant, or the value that it has at run time."""
        value = self.static(node)
        if value is not MISSING:
            if value is not None and not isinstance(value, str):
                self.fail(node, f"a variable's name is text, not {value!r}", "quote the name")
            return value
        found = self.expression(node)
        if isinstance(found, Packed):
            return self.name_of_packed(found, node)
        if isinstance(found, Pieces):
            return self.name_of_call(found, node)
        return found.value if isinstance(found, Known) else self.read(found, node)

    def name_of_call(self, pieces: Pieces, node: ast.AST) -> str | Value:
        """Return the name of the variable that a generation or choice sets."""
        part = self.only_call(pieces, node)
        if part.kind == "either":
            assert part.test is not None
            sides = [partial(self._named_value, option, node) for option in part.options]
            return self.read(self.choose(node, Plain(part.test), *sides), node)
        if part.name is None:
            self._refuse(node, UNNAMED_KEY, UNNAMED_HINT)
        return part.name

    def name_of_packed(self, found: Packed, node: ast.AST) -> Value:
        """Return the name of whichever call a value is."""
        named = self.by_template(found, node, lambda each: self._named_value(each, node))
        return self.read(named, node)

    def _named_value(self, pieces: Abstract, node: ast.AST) -> Abstract:
        if not isinstance(pieces, Pieces):
            return pieces
        name = self.name_of_call(pieces, node)
        return Plain(name) if isinstance(name, Value) else Known(name)

    def only_call(self, pieces: Pieces, node: ast.AST) -> Piece:
        """Return the one call that an expression is; other expressions name no variable."""
        part = pieces.parts[0] if len(pieces.parts) == 1 else None
        if part is None or part.kind not in ("gen", "select", "either") or part.reasoning:
            self._refuse(node, "a variable's name is a str, or its gen or select, not something "
                         "else to append", "keep the gen under a name of its own")  # fmt: skip
        return part

    def _type_param(self, node: ast.expr) -> Any:
        """Return the type of generated values that an expression of live objects names."""
        kind = self.live_type(node)
        if kind is MISSING:
            self.fail(node, "gen's type is not known before the program runs",
                      "name a type of the module")  # fmt: skip
        try:
            return None if kind is None else type_text(kind)
        except UsageError as error:
            self._refuse(node, error.message, error.hint)

    def _model_schema(self, node: ast.expr) -> Any:
        """Return what `Model.model_json_schema()` gives for a class of the module."""
        if not isinstance(node, ast.Attribute) or node.attr != "model_json_schema":
            return MISSING
        model = self.live_type(node.value)
        return model.model_json_schema() if isinstance(model, type) else MISSING


def _separated(part: Piece, kind: str) -> Piece:
    """Mark a piece's generations; raises UsageError for one that cannot be split."""
    if part.kind == "either":
        options = (
            Pieces(tuple(_separated(inner, kind) for inner in option.parts))
            for option in part.options
        )
        return replace(part, options=tuple(options))
    if part.kind != "gen":
        return part
    check_not_appending(part.append)
    check_splits(dict(part.params) | {name: MISSING for name, _ in part.dynamic})
    return replace(part, reasoning=kind)
