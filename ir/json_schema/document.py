"""A schema document: its text, its places by JSON pointer, and where references lead."""

import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from lmc.errors import ConstraintError

MAX_SOURCE = 1_000_000
MAX_NESTING = 200
_SCHEMAS = frozenset((
    "items", "additionalItems", "prefixItems", "contains", "unevaluatedItems", "not", "if", "then",
    "else", "allOf", "anyOf", "oneOf", "additionalProperties", "unevaluatedProperties",
    "propertyNames", "contentSchema", "extends", "disallow",
))  # fmt: skip
"""Keywords that hold schemas, or lists of them; what others hold has no identifiers."""
_MAPS = (
    "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies",
)  # fmt: skip


def refuse(
    pointer: str, message: str, hint: str, *, kind: type[ConstraintError] = ConstraintError
) -> ConstraintError:
    """Return the refusal of a place in a schema; the error carries the pointer."""
    error = kind(f"schema at {pointer or '/'!r}: {message}", hint=hint)
    error.pointer = pointer
    return error


def refuse_all(message: str, hint: str) -> ConstraintError:
    """Return the refusal of a whole schema."""
    error = ConstraintError(message, hint=hint)
    error.pointer = ""
    return error


def canonical(schema: object) -> str:
    """Return a schema's text as constraints carry it: keys in their order, no blanks.

    Raises:
        ConstraintError: it is not JSON, is too long or nested too deep.
    """
    if isinstance(schema, str):
        schema = parse(schema)
    try:
        return dump(schema)
    except RecursionError:
        raise _too_deep() from None
    except (TypeError, ValueError) as error:
        raise refuse_all(
            f"schema is not JSON: {error}", hint="use dict, list, str, numbers, bool and None"
        ) from None


def dump(value: object) -> str:
    """Return JSON text that keeps the digits of decimals."""
    if isinstance(value, dict):
        wrong = next((key for key in value if not isinstance(key, str)), None)
        if wrong is not None:
            raise TypeError(f"key {wrong!r} is no string")
        return "{" + ",".join(f"{json.dumps(k)}:{dump(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(dump, value)) + "]"
    if isinstance(value, Decimal):
        return str(value)
    return json.dumps(value, allow_nan=False)


def parse(text: str) -> Any:
    """Read a schema's text; fractions come as Decimal.

    Raises:
        ConstraintError: it is not JSON, is too long or nested too deep.
    """
    if len(text) > MAX_SOURCE:
        raise refuse_all(
            f"schema is too long: {len(text)} characters", hint=f"at most {MAX_SOURCE} are read"
        )
    if _nesting(text) > MAX_NESTING:
        raise _too_deep()
    try:
        return json.loads(
            text, parse_float=Decimal, parse_constant=_no_constant, object_pairs_hook=_no_twins
        )
    except ValueError as error:
        raise refuse_all(
            f"schema is not JSON: {error}", hint="give a dict, or the text of a JSON object"
        ) from None


_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


def _nesting(text: str) -> int:
    """Return how deep the brackets of a JSON text go."""
    depth = deepest = 0
    for char in re.findall(r"[\[\]{}]", _STRING.sub("", text)):
        depth += 1 if char in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _too_deep() -> ConstraintError:
    return refuse_all("schema nesting too deep", hint=f"at most {MAX_NESTING} levels are accepted")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        twin = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"key {twin!r} is given twice")
    return made


def escape(token: str | int) -> str:
    """Return one step of a JSON pointer."""
    return str(token).replace("~", "~0").replace("/", "~1")


class Document:
    """A parsed schema with its identifiers."""

    def __init__(self, text: str) -> None:
        """Read a document.

        Raises:
            ConstraintError: see `parse`; or its dialect is not known.
        """
        self.root = parse(text)
        self.is_old = self._dialect_is_old()
        self.bases: dict[str, str] = {}
        self.ids: dict[str, str] = {}
        self.anchors: dict[tuple[str, str], str] = {}
        self.dynamic: dict[str, list[str]] = {}
        self._places: dict[str, Any] = {"": self.root}
        self._index(self.root, "", "")

    def _dialect_is_old(self) -> bool:
        """Return whether `$ref` stands alone and `$id` is read as up to draft 7."""
        name = self.root.get("$schema") if isinstance(self.root, dict) else None
        if name is None:
            return False
        if not isinstance(name, str):
            raise refuse("/$schema", f"{name!r:.60} names no dialect", "leave it out")
        if "2020-12" in name or "2019-09" in name:
            return False
        if re.search(r"draft-0?[3467]\b|json-schema\.org/(draft/)?schema", name):
            return "draft-03" not in name or self._no_draft(name)
        if "json-schema.org" in name:
            return self._no_draft(name)
        return False

    @staticmethod
    def _no_draft(name: str) -> bool:
        raise refuse("/$schema", f"dialect {name!r:.80} is not supported", "use draft 7 or 2020-12")

    def _index(self, node: Any, pointer: str, base: str) -> None:
        """Note the identifiers of a subschema and of those below it."""
        if not isinstance(node, dict):
            return
        alone = self.is_old and "$ref" in node
        name = node.get("$id", node.get("id") if self.is_old else None)
        if isinstance(name, str) and not alone:
            target, fragment = urldefrag(urljoin(base, name))
            if fragment and not name.startswith("#"):
                fragment = ""
            if fragment:
                self.anchors[base, fragment] = pointer
            elif target:
                base = target
                self.bases[pointer] = base
                self.ids.setdefault(base, pointer)
        if pointer == "":
            self.bases.setdefault("", base)
            self.ids.setdefault(base, "")
        for word in ("$anchor", "$dynamicAnchor"):
            if isinstance(node.get(word), str):
                self.anchors[base, node[word]] = pointer
                if word == "$dynamicAnchor":
                    self.dynamic.setdefault(node[word], []).append(pointer)
        for path, child in self._children(node, pointer):
            self._index(child, path, base)

    @staticmethod
    def _children(node: dict[str, Any], pointer: str) -> Iterator[tuple[str, Any]]:
        for key, value in node.items():
            path = f"{pointer}/{escape(key)}"
            if key in _MAPS and isinstance(value, dict):
                yield from ((f"{path}/{escape(k)}", v) for k, v in value.items())
            elif key in _SCHEMAS and isinstance(value, dict):
                yield path, value
            elif key in _SCHEMAS and isinstance(value, list):
                yield from ((f"{path}/{i}", v) for i, v in enumerate(value))

    def at(self, pointer: str) -> Any:
        """Return what stands at a JSON pointer; raises KeyError if nothing does."""
        if pointer not in self._places:
            parent, _, token = pointer.rpartition("/")
            inside = self.at(parent)
            token = token.replace("~1", "/").replace("~0", "~")
            if isinstance(inside, list):
                if not token.isdecimal() or int(token) >= len(inside):
                    raise KeyError(pointer)
                self._places[pointer] = inside[int(token)]
            elif isinstance(inside, dict):
                self._places[pointer] = inside[token]
            else:
                raise KeyError(pointer)
        return self._places[pointer]

    def _base(self, pointer: str) -> tuple[str, str]:
        """Return the base address at a place, and the pointer of its resource."""
        while pointer not in self.bases:
            pointer = pointer.rpartition("/")[0]
        return self.bases[pointer], pointer

    @property
    def references(self) -> tuple[tuple[str, Callable[[Any, str], str]], ...]:
        """The keywords that refer, with what resolves them."""
        return ("$ref", self.resolve), ("$dynamicRef", self._resolve_dynamic)

    def _resolve_dynamic(self, reference: Any, pointer: str) -> str:
        """Return where a dynamic reference leads, if that is the same on every way to it.

        It leads to the outermost of the resources passed through that has the anchor; the
        document's own is always the outermost.
        """
        found = self.resolve(reference, pointer, "$dynamicRef")
        name = urldefrag(reference)[1]
        places = self.dynamic.get(name, [])
        if found not in places:
            return found  # it leads to no dynamic anchor, so it is a plain reference
        own = [place for place in places if self._base(place)[1] == ""]
        if len(places) > 1 and not own:
            raise refuse(
                f"{pointer}/$dynamicRef", f"where {reference!r:.100} leads depends on the way",
                "name the schema by '$ref'",
            )  # fmt: skip
        return own[0] if own else found

    def resolve(self, reference: Any, pointer: str, word: str = "$ref") -> str:
        """Return the pointer that a reference at a place leads to.

        Raises:
            ConstraintError: it leads nowhere, or out of the document.
        """
        here = f"{pointer}/{word}"
        if not isinstance(reference, str):
            raise refuse(here, "a reference is text", 'write {"$ref": "#/$defs/name"}')
        base, _ = self._base(pointer)
        target, fragment = urldefrag(urljoin(base, reference))
        if reference.startswith("#"):
            target, fragment = base, reference[1:]
        root = self.ids.get(target)
        if root is None:
            raise refuse(
                here, f"{reference!r:.100} leads out of the document", "put the schema into '$defs'"
            )
        fragment = unquote(fragment)
        found: str | None = root + fragment
        if fragment and not fragment.startswith("/"):
            found = self.anchors.get((target, fragment))
        try:
            if found is None:
                raise KeyError(fragment)
            self.at(found)
        except (KeyError, RecursionError):
            raise refuse(
                here, f"{reference!r:.100} leads nowhere", "name a schema of this document"
            ) from None
        return found
