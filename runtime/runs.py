"""The runs of a prompt: chains of closed runs, and the pieces of the open text run."""

from itertools import chain

from lmc.runtime.encodings import Encodings

CACHE_EVERY = 16
"""Runs between two places of a chain that remember all ids before them."""


class Run:
    """One closed run at the end of a chain of runs."""

    __slots__ = ("_ids", "_prefix", "encodings", "is_first", "parent", "text")

    def __init__(
        self,
        parent: "Run | None",
        text: str,
        ids: tuple[int, ...] | None,
        encodings: Encodings,
    ) -> None:
        self.parent = parent
        self.text = text
        self.is_first = parent is None
        self.encodings = encodings
        self._ids = ids  # None: a text run that was not encoded yet
        self._prefix: tuple[int, ...] | None = None

    @property
    def ids(self) -> tuple[int, ...]:
        """The run's own token ids."""
        if self._ids is None:
            self._ids = self.encodings.encode(self.text, first=self.is_first)
        return self._ids

    def context(self) -> tuple[int, ...]:
        """Return the ids of the chain up to and with this run."""
        if self._prefix is not None:
            return self._prefix
        parts: list[tuple[int, ...]] = []
        run: Run | None = self
        while run is not None and run._prefix is None:
            parts.append(run.ids)
            run = run.parent
        start = run._prefix if run is not None else None
        joined = tuple(chain.from_iterable(reversed(parts)))
        joined = joined if start is None else start + joined
        if len(parts) >= CACHE_EVERY:
            self._prefix = joined
        return joined


class Text:
    """One appended piece of the open text run, linked to the pieces before it."""

    __slots__ = ("_joined", "parent", "piece")

    def __init__(self, parent: "Text | None", piece: str) -> None:
        self.parent = parent
        self.piece = piece
        self._joined: str | None = None

    def join(self) -> str:
        """Return the whole run's text."""
        if self._joined is None:
            parts: list[str] = []
            node: Text | None = self
            while node is not None and node._joined is None:
                parts.append(node.piece)
                node = node.parent
            if node is not None:
                parts.append(node._joined or "")
            self._joined = "".join(reversed(parts))
        return self._joined
