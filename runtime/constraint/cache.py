"""Compiled constraints, kept by use and by size; one compilation per constraint."""

import threading
from collections import OrderedDict
from concurrent.futures import Future

from lmc.errors import ConstraintError
from lmc.ir.calls import Constraint
from lmc.ir.grammar import Network
from lmc.ir.languages import DEFAULT_SECONDS, CompilationLost, Language, language_of
from lmc.ir.target import Tokenizer
from lmc.runtime.constraint.grammar import GrammarConstraint
from lmc.runtime.constraint.regex import RegexConstraint
from lmc.runtime.constraint.vocabulary import vocabulary_of
from lmc.runtime.constraint.walk import trie_index

Compiled = RegexConstraint | GrammarConstraint
DEFAULT_MAX_BYTES = 256 * 2**20
_REFUSAL_BYTES = 1024


class ConstraintCache:
    """Constraints of one tokenizer; safe between threads.

    Threads that ask for the same constraint at once share one compilation. Refusals are
    remembered as well, so that a costly pattern is refused at once the second time; but not
    those for which another process was late, or has died.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        seconds: float = DEFAULT_SECONDS,
    ) -> None:
        """Args:
        tokenizer: what constraints are compiled for.
        max_bytes: memory above which the least recently used constraints are dropped.
        seconds: time that a process may take for a constraint.
        """
        self.tokenizer = tokenizer
        self.seconds = seconds
        self.max_bytes = max_bytes
        self._lock = threading.Lock()
        self._entries: OrderedDict[Constraint, Future[Compiled]] = OrderedDict()

    def __len__(self) -> int:
        """The number of constraints kept, refusals and running compilations included."""
        return len(self._entries)

    def get(self, constraint: Constraint) -> Compiled:
        """Return the compiled constraint, compiling it if need be.

        Raises:
            ConstraintError: it is refused.
        """
        with self._lock:
            entry = self._entries.get(constraint)
            is_mine = entry is None
            if entry is None:
                entry = self._entries[constraint] = Future()
            self._entries.move_to_end(constraint)
        if is_mine:
            self._compile(constraint, entry)
        error = entry.exception()
        if isinstance(error, ConstraintError):
            raise error.again()
        return entry.result()

    def _compile(self, constraint: Constraint, entry: "Future[Compiled]") -> None:
        try:
            entry.set_result(self._build(constraint))
        except BaseException as error:
            is_refusal = isinstance(error, ConstraintError)
            if not is_refusal or isinstance(error, CompilationLost):
                with self._lock:
                    self._entries.pop(constraint, None)
            entry.set_exception(error)
            if not is_refusal:
                raise
        with self._lock:
            self._evict()

    def _build(self, constraint: Constraint) -> Compiled:
        return bind(language_of(constraint, self.seconds), self.tokenizer)

    def _evict(self) -> None:
        """Drop the least recently used constraints, but never the last one."""
        sizes = {key: _size(entry) for key, entry in self._entries.items() if entry.done()}
        total = sum(sizes.values())
        for key in list(sizes)[:-1]:
            if total <= self.max_bytes:
                break
            total -= sizes[key]
            del self._entries[key]


def prepare_vocabulary(tokenizer: Tokenizer) -> None:
    """Make the tables of a vocabulary that all of its constraints share, if they are not there.

    They take some 50 ms for 50,000 tokens, which nobody's first constraint is to take.
    """
    trie_index(vocabulary_of(tokenizer))


def bind(language: Language, tokenizer: Tokenizer) -> Compiled:
    """Return a language as a constraint on the tokens of a vocabulary.

    Raises:
        ConstraintError: the vocabulary cannot spell any of its texts.
    """
    if isinstance(language, Network):
        return GrammarConstraint(language, tokenizer)
    return RegexConstraint(language, tokenizer)


def _size(entry: "Future[Compiled]") -> int:
    return _REFUSAL_BYTES if entry.exception() else entry.result().nbytes
