"""Chooser: the rules by which one generation picks its tokens, and how far it has come in them.

A token may be accepted ahead, as one that is only drafted, and taken back.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lmc.ir.calls import GenCall
from lmc.runtime.constraint.matcher import Matcher
from lmc.runtime.engine.sampler import (
    BlockedIds,
    FloatRow,
    Penalties,
    forbid_unless,
    pick_token,
)


class Chooser:
    """Picks the tokens of one generation: penalties, biases, masks, then the draw.

    Args:
        call: whose parameters and key hold.
        blocked: ids that must not come.
        logits_len: width of the logits.
        vocab_size: ids of the tokenizer, which masks cover.
    """

    def __init__(
        self, call: GenCall, blocked: BlockedIds, *, logits_len: int, vocab_size: int
    ) -> None:
        self.matcher: Matcher | None = None
        self.token_ids: list[int] = []
        self.logits_len = logits_len
        self.is_masked = call.params.constraint_mode == "mask"
        self._params = call.params
        self._key = call.key
        self._blocked = blocked
        self._penalties = Penalties(call.params, logits_len)
        self._mask_words = (max(logits_len, vocab_size) + 31) // 32
        self._bitmask: NDArray[np.int32] | None = None

    @property
    def num_tokens(self) -> int:
        """How many tokens have come."""
        return len(self.token_ids)

    def follow(self, matcher: Matcher, control_ids: Iterable[int]) -> None:
        """Keep to a constraint, which may let some control tokens come.

        Args:
            matcher: at the beginning of the text.
            control_ids: those that come where the matcher allows them, and are no ends.
        """
        self.matcher = matcher
        ids = np.array(list(control_ids), dtype=np.int64)
        if len(ids):
            self._blocked = replace(
                self._blocked,
                early=np.setdiff1d(self._blocked.early, ids),
                late=np.setdiff1d(self._blocked.late, ids),
            )

    def pick(self, row: FloatRow) -> int:
        """Choose the next token from a row of logits, float32 [logits_len], which is used up.

        Raises:
            EngineError: no token may come.
        """
        self._rule(row)
        return self._draw(row)

    def draft(self, row: FloatRow) -> int | None:
        """As `pick`, from the logits of a draft model; None where nothing or an end comes."""
        if decided := self.decided():
            return decided[0]
        self._rule(row)
        if not np.isfinite(row.max()):
            return None
        token_id = self._draw(row)
        return None if self.is_end(token_id) else token_id

    def accept(self, token_id: int) -> bool:
        """Go on by one token; return whether the constraint allows nothing more."""
        self.token_ids.append(token_id)
        self._penalties.count(token_id)
        if self.matcher is None:
            return False
        self.matcher.accept_token(token_id)
        return self.matcher.is_terminated()

    def take_back(self, token_ids: Iterable[int]) -> None:
        """Take tokens back, the last ones that were accepted."""
        taken = list(token_ids)
        del self.token_ids[len(self.token_ids) - len(taken) :]
        for token_id in taken:
            self._penalties.uncount(token_id)
        if self.matcher is not None:
            self.matcher.rollback(len(taken))

    def decided(self) -> list[int]:
        """Return the ids that the constraint leaves no choice about, up to one that is an end."""
        if self.matcher is None:
            return []
        token_ids = [] if self.is_masked else list(self.matcher.forced_ids(self.token_ids))
        if not token_ids and (only := self.matcher.single_token()) is not None:
            token_ids = [only]
        for place, token_id in enumerate(token_ids):
            if self.is_end(token_id):
                return token_ids[:place]
        return token_ids

    @property
    def has_drafts(self) -> bool:
        """Whether forced text may come that is sampled under the mask."""
        return self.is_masked and self.matcher is not None

    @property
    def is_forced(self) -> bool:
        """Whether the text that comes next is certain."""
        return self.matcher is not None and bool(self.matcher.forced_ids(self.token_ids))

    def drafts(self, limit: int) -> list[int]:
        """Return the first ids that are likely where forced text is sampled under the mask."""
        if self.matcher is None or not self.is_masked:
            return []
        return self.leading(list(self.matcher.forced_ids(self.token_ids)[:limit]))

    def is_end(self, token_id: int) -> bool:
        """Whether a token ends the generation."""
        return token_id in self._blocked.ends

    def leading(self, token_ids: list[int]) -> list[int]:
        """Return the first of some tokens, as long as each may come and one may follow it."""
        taken = useful = 0
        for token_id in token_ids:
            if self.is_end(token_id) or not self._is_allowed(token_id):
                break
            taken += 1
            if self.accept(token_id):
                break
            useful = taken
        self.take_back(token_ids[:taken])
        return token_ids[:useful]

    def _draw(self, row: FloatRow) -> int:
        return pick_token(row, self._params, key=self._key, position=self.num_tokens)

    def _rule(self, row: FloatRow) -> None:
        """Apply what comes before the draw: penalties and biases, then the masks."""
        self._penalties.apply(row)
        self._mask(row)

    def _mask(self, row: FloatRow) -> None:
        """Forbid what may not come: set it to -inf in place."""
        if self.matcher is not None:
            forbid_unless(row, self._allowed(len(row)))
            if not self.matcher.can_end():
                row[self._blocked.end_controls] = -np.inf
        is_late = self.num_tokens >= self._params.min_tokens
        row[self._blocked.late if is_late else self._blocked.early] = -np.inf

    def _allowed(self, size: int) -> NDArray[np.uint8]:
        """Return 1 for tokens that the constraint allows and for end controls, else 0."""
        bits = np.unpackbits(self._filled().view(np.uint8), bitorder="little")
        allowed = bits[:size]
        allowed[self._blocked.end_controls] = 1
        return allowed

    def _is_allowed(self, token_id: int) -> bool:
        """Whether the constraint allows a text token next."""
        if self.matcher is None:
            return True
        return bool(int(self._filled()[token_id // 32]) >> (token_id % 32) & 1)

    def _filled(self) -> NDArray[np.int32]:
        """Return the mask of the constraint as it stands."""
        assert self.matcher is not None, "only constrained calls have a bitmask"
        if self._bitmask is None:
            self._bitmask = np.zeros(self._mask_words, dtype=np.int32)
        self.matcher.fill_bitmask(self._bitmask)
        return self._bitmask
