"""Constraints as a library: what texts are allowed, token by token, for any tokenizer.

    limit = lmc.Constraint.regex(r"[0-9]{4}-[0-9]{2}").compile("smollm2")
    matcher = limit.matcher()
    matcher.fill_bitmask(row)          # numpy or torch, int32: a bit per token id
    matcher.accept_token(token_id)     # False, and nothing has changed, where it is not allowed

The engine compiles and follows constraints in the same way (lmc.runtime.constraint).
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from lmc.constraint_arguments import (
    check_schema_options,
    end_ids,
    option_texts,
    tag_dicts,
    text_of,
    whole_number,
)
from lmc.errors import ModelError, TokenRefused, UsageError
from lmc.ir.calls import Constraint as Request
from lmc.ir.target import Tokenizer

if TYPE_CHECKING:
    from lmc.ir.automata.drawing import Drawing
    from lmc.runtime.constraint import ConstraintCache, Matcher, Words

SEPARATORS = (", ", ": ")
_KEPT = 4
"""Tokenizers whose vocabularies and compiled constraints are kept."""


class TensorRow(Protocol):
    """A row of a torch tensor, as far as it is used here."""

    @property
    def device(self) -> Any:
        """Where it lies."""
        ...

    def numpy(self) -> Any:
        """Return the same memory as an array."""
        ...

    def new_tensor(self, data: Any) -> Any:
        """Return a new tensor of the same kind and place."""
        ...

    def copy_(self, source: Any) -> Any:
        """Write over it."""
        ...


@dataclass(frozen=True, slots=True)
class Constraint(Request):
    """What a text must be: a regular expression, a JSON schema, a grammar, or one of some texts.

    `gen(constraint=...)` takes it in a program; `compile` makes it for any tokenizer. Equal
    constraints compare equal. Nothing is checked before, except that a schema must be JSON and
    choices must be texts.
    """

    @classmethod
    def regex(cls, pattern: str) -> "Constraint":
        """Return the texts that `re.fullmatch(pattern, text)` accepts.

        Raises:
            ConstraintError: the pattern is no text.
        """
        return cls("regex", text_of(pattern, "a regex", "a pattern as re.compile takes it"))

    @classmethod
    def json_schema(
        cls,
        schema: Any,
        *,
        separators: tuple[str, str] = SEPARATORS,
        open_objects: bool = False,
        max_depth: int | None = None,
    ) -> "Constraint":
        """Return the JSON texts that are valid under a schema.

        Args:
            schema: a dict, its JSON text, or a type: a pydantic model, a dataclass, an Enum,
                `list[...]` and so on of them.
            separators: between items, and between a name and its value.
            open_objects: let objects whose schema lists properties, and says nothing of
                others, have others (the standard's meaning).
            max_depth: how often a recursive schema may stand inside itself; None for as often
                as the limits allow.

        Raises:
            ConstraintError: the schema is not JSON, or separators are no such marks.
            UsageError: the type has no schema; another kind of value for an option.
        """
        from lmc.ir.json_schema import schema_source

        check_schema_options(open_objects, max_depth)
        plain: Any = schema
        if isinstance(schema, Mapping):
            plain = dict(cast(Mapping[str, Any], schema))
        elif not isinstance(schema, (str, bool)):
            from lmc.frontend.schema import schema_of

            plain = schema_of(schema)
        source = schema_source(
            plain, separators=separators, open_objects=open_objects, max_depth=max_depth
        )
        return cls("json_schema", source)

    @classmethod
    def ebnf(cls, grammar: str) -> "Constraint":
        """Return the texts that a context-free grammar derives.

        Raises:
            ConstraintError: the grammar is no text.
        """
        return cls("ebnf", text_of(grammar, "a grammar", 'start: "yes" | "no"'))

    @classmethod
    def tags(
        cls,
        tags: Iterable[Mapping[str, Any]],
        *,
        free_text: bool = True,
        at_least: int = 0,
        at_most: int | None = None,
    ) -> "Constraint":
        """Return free text in which begin marks open what a schema or grammar must follow.

        Args:
            tags: dicts with `begin`, `end` and one of `json_schema`, `regex` and `grammar`; a
                mark is a text or `{"control": name}` for a control token of the model.
            free_text: whether there is text outside of tags.
            at_least: 1 where a tag must come.
            at_most: 1 where the text ends with the first tag.

        Raises:
            ConstraintError: they are not as said.
        """
        from lmc.ir.grammar import tags_source

        listed = tag_dicts(tags)
        source = tags_source(listed, free_text=free_text, at_least=at_least, at_most=at_most)
        return cls("tags", source)

    @classmethod
    def choices(cls, texts: Iterable[str]) -> "Constraint":
        """Return the constraint of being one of some texts.

        Raises:
            ConstraintError: there are none, or something else than texts.
        """
        return cls("regex", "|".join(map(re.escape, option_texts(texts))))

    def compile(
        self, tokenizer: Any, *, eos_token_ids: Iterable[int] | None = None
    ) -> "CompiledConstraint":
        """Return the constraint compiled for a tokenizer.

        Args:
            tokenizer: an object of the packages `tokenizers` or `transformers`; the path of a
                tokenizer.json, of a folder with one, or of a GGUF file; a model's name as
                `lmc run --model` takes it; or a tokenizer of lmc's own.
            eos_token_ids: the tokens that end a text. None for those that the tokenizer or its
                files name; where they name none, control tokens with a usual spelling.

        Raises:
            ConstraintError: it is wrong, holds what cannot be followed, or is too costly;
                `.pointer` or `.position` is the place.
            ModelError: there is no such tokenizer, or it is of an unsupported kind.
            UsageError: `eos_token_ids` are no list of ids, or none of the tokenizer's.
        """
        ends = None if eos_token_ids is None else end_ids(eos_token_ids)
        cache = _cache_of(tokenizer, ends)
        return CompiledConstraint(self, cache, cache.get(self.request()))

    def to_dot(self) -> str:
        """Return a drawing of the automaton in Graphviz' DOT language; a large one's skeleton.

        What nests is drawn rule by rule.

        Raises:
            ConstraintError: it is refused.
        """
        return self._drawing().to_dot()

    def to_mermaid(self) -> str:
        """Return the same drawing in Mermaid's flowchart language; errors as of `to_dot`."""
        return self._drawing().to_mermaid()

    def _drawing(self) -> "Drawing":
        from lmc.automaton_drawings import drawing_of

        return drawing_of(self.request())

    def request(self) -> Request:
        """Return the constraint as calls carry it."""
        return Request(self.kind, self.source)


class CompiledConstraint:
    """A constraint for one tokenizer; safe between threads, its matchers are not."""

    def __init__(self, constraint: Constraint, cache: "ConstraintCache", compiled: Any) -> None:
        self.constraint = constraint
        self._tokenizer = cache.tokenizer
        self._compiled = compiled

    @property
    def vocab_size(self) -> int:
        """One more than the highest token id with a meaning."""
        return self._tokenizer.vocab_size

    @property
    def mask_words(self) -> int:
        """The fewest int32 words of a mask: one bit per token id."""
        return (self.vocab_size + 31) // 32

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """The tokens that end a text."""
        return self._tokenizer.eos_ids

    def encode(self, text: str) -> list[int]:
        """Return the canonical token ids of a text."""
        return self._tokenizer.encode(text)

    def matcher(self) -> "ConstraintMatcher":
        """Return a matcher at the start of the text."""
        return ConstraintMatcher(self._compiled.matcher())


class ConstraintMatcher:
    """One text's place in a constraint; not to be shared by threads.

    A token's bit is set in the mask if and only if `accept_token` takes it. End tokens are
    allowed exactly where `can_end()`.
    """

    __slots__ = ("_accepted", "_matcher")

    def __init__(self, matcher: "Matcher", accepted: Iterable[int] = ()) -> None:
        self._matcher = matcher
        self._accepted = list(accepted)

    def accept_token(self, token_id: int) -> bool:
        """Go on by one token; False, and nothing has changed, where it is not allowed.

        Raises:
            UsageError: it is no integer.
        """
        number = whole_number(
            token_id, "a token id", "give ids as encode() or the sampler gives them"
        )
        try:
            self._matcher.accept_token(number)
        except TokenRefused:
            return False
        self._accepted.append(number)
        return True

    def fill_bitmask(self, row: Any) -> None:
        """Write the mask of the next token: bit `id % 32` of word `id // 32`.

        Args:
            row: int32 or uint32 words, of numpy or torch, one row (shape (n,) or (1, n)), on
                any device; at least `mask_words` of them, others become 0.

        Raises:
            UsageError: it is no such row.
            EngineError: the row is too short.
        """
        if hasattr(row, "new_tensor"):
            self._fill_tensor(cast(TensorRow, row))
        else:
            self._matcher.fill_bitmask(_words(row))

    def _fill_tensor(self, row: TensorRow) -> None:
        if row.device.type == "cpu":
            self._matcher.fill_bitmask(_words(row.numpy()))
            return
        import numpy as np

        shape: tuple[int, ...] = tuple(cast(Any, row).shape)
        words = np.zeros(shape, dtype=np.int32)
        self._matcher.fill_bitmask(_words(words))
        row.copy_(row.new_tensor(words))

    def can_end(self) -> bool:
        """Return whether the text so far is complete."""
        return self._matcher.can_end()

    def is_terminated(self) -> bool:
        """Return whether nothing may follow but the end, or an end token has come."""
        return self._matcher.is_terminated()

    def rollback(self, count: int) -> None:
        """Take the last `count` accepted tokens back, an end token included.

        Raises:
            EngineError: fewer have been accepted.
            UsageError: it is no integer.
        """
        number = whole_number(count, "a count of tokens", "count accepted tokens only")
        self._matcher.rollback(number)
        del self._accepted[len(self._accepted) - number :]

    def fork(self) -> "ConstraintMatcher":
        """Return an independent matcher at the same place."""
        return ConstraintMatcher(self._matcher.fork(), self._accepted)

    def forced_token_ids(self) -> list[int]:
        """Return the ids of the text that must come next; none where nothing is certain.

        They are those that the tokenizer writes after the tokens accepted; a last token that
        what follows might change is not among them.
        """
        return list(self._matcher.forced_ids(self._accepted))


def _words(row: Any) -> "Words":
    """Return an array's memory as one row of int32 words.

    Raises:
        UsageError: it is not one row of 32-bit words that can be written in place.
    """
    import numpy as np

    if isinstance(row, np.ndarray):
        array = cast("np.ndarray[Any, np.dtype[Any]]", row)
        flat = array[0] if array.ndim == 2 and len(array) == 1 else array
        fits = flat.ndim == 1 and flat.dtype in (np.int32, np.uint32)
        if fits and flat.flags.c_contiguous and flat.flags.writeable:
            return flat.view(np.int32)
        told = f"shape {array.shape}, {array.dtype}"
    else:
        told = f"a {type(row).__name__}"
    raise UsageError(
        f"a mask is one row of int32 or uint32 words that can be written, not {told}",
        hint="numpy.zeros(limit.mask_words, dtype=numpy.int32)",
    )


# Tokenizers.

_lock = threading.Lock()
_caches: "OrderedDict[tuple[Any, ...], tuple[Any, ConstraintCache]]" = OrderedDict()


def _cache_of(given: Any, ends: frozenset[int] | None) -> "ConstraintCache":
    """Return the compiled constraints of a tokenizer, kept for the last few tokenizers."""
    from lmc.runtime.constraint import ConstraintCache

    if isinstance(given, (str, PathLike)):
        key: tuple[Any, ...] = ("path", fspath(cast("str | PathLike[str]", given)), ends)
    else:
        # The object is kept beside its constraints, so that no other can have its id.
        size = given.get_vocab_size() if hasattr(given, "get_vocab_size") else 0
        key = ("object", id(given), size, ends)
    with _lock:
        if key not in _caches:
            _caches[key] = (given, ConstraintCache(_tokenizer_of(given, ends)))
            while len(_caches) > _KEPT:
                _caches.popitem(last=False)
        _caches.move_to_end(key)
        return _caches[key][1]


def _tokenizer_of(given: Any, ends: frozenset[int] | None) -> Tokenizer:
    from lmc.codegen.tokenizer import FastTokenizer
    from lmc.codegen.tokenizer_given import tokenizer_of_object, with_ends

    found: Any = tokenizer_of_object(given)
    if found is None:
        if isinstance(given, (str, PathLike)):
            found = _tokenizer_at(fspath(cast("str | PathLike[str]", given)))
        elif hasattr(given, "token_bytes"):
            found = given
        else:
            raise ModelError(
                f"{type(given).__name__} is no tokenizer",
                hint="give an object of tokenizers or transformers, a path, or a model's name",
            )
    if ends is None:
        return cast(Tokenizer, found)
    if not isinstance(found, FastTokenizer):
        raise UsageError("eos_token_ids are given beside a tokenizer that has its own")
    return cast(Tokenizer, with_ends(found, ends))


def _tokenizer_at(name: str) -> Any:
    from lmc.codegen.target import oracle_target
    from lmc.codegen.tokenizer_given import tokenizer_of_file
    from lmc.models_store import find_model

    path = Path(name).expanduser()
    if name == "oracle":
        return oracle_target().tokenizer
    is_file = path.suffix == ".json" or (path / "tokenizer.json").is_file()
    return tokenizer_of_file(path if is_file else find_model(name))
