"""InNamespace: an engine as one namespace sees it, which shares cached tokens with no other.

For tenants that must not learn from the time of an answer what others have asked.
"""

from typing import TYPE_CHECKING, Any

from lmc.errors import UsageError
from lmc.ir.calls import CallHint, GenCall, ScoreCall
from lmc.ir.target import OnGen, OnPrefill, OnScore, OnText, Target, Ticket
from lmc.runtime.guess import Guess
from lmc.runtime.reference_names import ServerNames

if TYPE_CHECKING:
    from lmc.runtime.engine.engine import Engine

MAX_NAMESPACE = 256
"""Characters of a namespace's name, at the most."""


def check_namespace(namespace: object) -> str:
    """Return a namespace's name.

    Raises:
        UsageError: it is no text, or too long.
    """
    if not isinstance(namespace, str) or len(namespace) > MAX_NAMESPACE:
        raise UsageError(
            f"a namespace is a text of at most {MAX_NAMESPACE} characters, not {namespace!r:.80}"
        )
    return namespace


class InNamespace(ServerNames):
    """A backend whose calls and prefixes are all in one namespace of an engine's cache.

    What it does not have itself is the engine's own.
    """

    takes_guesses = True

    def __init__(self, engine: "Engine", namespace: str) -> None:
        self.engine = engine
        self.namespace = check_namespace(namespace)

    @property
    def target(self) -> Target:  # type: ignore[override]
        """What programs must be lowered for."""
        return self.engine.target

    def submit_gen(
        self,
        call: GenCall,
        on_done: OnGen,
        on_text: OnText | None = None,
        *,
        guess: Guess | None = None,
    ) -> Ticket:
        """Start a generation."""
        return self.engine.submit_gen(call, on_done, on_text, guess=guess, namespace=self.namespace)

    def submit_score(self, call: ScoreCall, on_done: OnScore) -> Ticket:
        """Start scoring options."""
        return self.engine.submit_score(call, on_done, namespace=self.namespace)

    def submit_prefill(
        self, context: tuple[int, ...], on_done: OnPrefill, *, guess: Guess | None = None
    ) -> Ticket:
        """Compute a prefix so that later calls of the namespace find it, and pin it."""
        return self.engine.submit_prefill(context, on_done, guess=guess, namespace=self.namespace)

    def submit_hinted_prefill(
        self, hint: CallHint, context: tuple[int, ...], on_done: OnPrefill
    ) -> Ticket:
        """As `submit_prefill`, for a run that alone needs the prefix."""
        return self.engine.submit_hinted_prefill(hint, context, on_done, namespace=self.namespace)

    def read_kv(self, context: tuple[int, ...], start: int, end: int | None = None) -> bytes:
        """Return the KV of a pinned prefix of the namespace from token `start` to `end`."""
        return self.engine.read_kv(context, start, end, namespace=self.namespace)

    def submit_loaded(
        self, context: tuple[int, ...], start: int, data: memoryview, on_done: OnPrefill
    ) -> Ticket:
        """As `submit_prefill`, with the KV from token `start` on, as `read_kv` gave it."""
        return self.engine.submit_loaded(context, start, data, on_done, namespace=self.namespace)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)
