"""What the engine asks of a constraint while it decodes."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lmc.errors import EngineError

Words = NDArray[np.int32]
"""A token mask: bit `id % 32` of word `id // 32` says whether the id may come next."""


class Matcher(Protocol):
    """One generation's place in a constraint.

    A token's bit is set in the mask if and only if `accept_token` takes it. End tokens are
    allowed exactly where the text so far is a full match.
    """

    def fill_bitmask(self, row: Words) -> None:
        """Write the mask of the next token; words past the vocabulary become 0."""
        ...

    def accept_token(self, token_id: int) -> None:
        """Go on by one token.

        Raises:
            TokenRefused: the token is not allowed here; nothing has changed.
        """
        ...

    def rollback(self, count: int) -> None:
        """Take the last `count` accepted tokens back, an end token included."""
        ...

    def fork(self) -> "Matcher":
        """Return an independent matcher at the same place."""
        ...

    def can_end(self) -> bool:
        """Return whether the text so far is a full match."""
        ...

    def is_terminated(self) -> bool:
        """Return whether nothing may follow but the end (or an end token has come)."""
        ...

    def single_token(self) -> int | None:
        """Return the only token that may come next, if there is one and the end may not."""
        ...

    def forced_ids(self, written: Sequence[int]) -> tuple[int, ...]:
        """Return the ids that spell what must come next; none where nothing is certain.

        They are those that the tokenizer writes, given the ids before.

        Args:
            written: all ids of the generation so far, those accepted.
        """
        ...


def write_mask(row: Words, mask: Words | None, words: int) -> None:
    """Write a mask of `words` words into a row; None allows nothing, nor do words past it.

    Raises:
        EngineError: the row is too short.
    """
    if len(row) < words:
        raise EngineError(
            f"mask row of {len(row)} words is too short for {words} words",
            hint="make it as wide as the logits",
        )
    if mask is None:
        row[:] = 0
        return
    row[:words] = mask
    row[words:] = 0
