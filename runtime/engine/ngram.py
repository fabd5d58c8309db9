"""NgramDrafts: draft tokens are what followed, earlier in a text, the same last few tokens.

Earlier places of the last two tokens are linked from the latest to the first, as in the match
finders of LZ77 compressors; the latest few are compared further back for the longest match. So
a token costs the same however long the text is.

The use of such matches as drafts is prompt lookup decoding (Saxena, 2023) and, over any text,
"Inference with Reference" (Yang et al., 2023).
"""

from collections.abc import Iterable

from lmc.runtime.engine.drafting import least_chance, most_drafts
from lmc.runtime.engine.sequence import Sequence

LONGEST = 5
"""Tokens of a match that are compared; longer ones count as these."""

SHORTEST = 2

_PLACES = 8
"""Earlier places that are looked at."""

_WEIGHT = 1 / 12
_FIRST_RATES = (0.0, 0.0, 0.3, 0.4, 0.5, 0.6)
"""What is expected of matches of each length before any were seen."""


class NgramIndex:
    """The tokens of one text, and how well matches of each length have foretold them.

    Attributes:
        rates: share of right forecasts, by the length of the match (0 to LONGEST): moving
            averages over the last dozen.
    """

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._last: dict[tuple[int, int], int] = {}
        self._before: list[int] = []
        self._match = (0, 0)
        self.rates = list(_FIRST_RATES)

    def __len__(self) -> int:
        """Tokens that were read."""
        return len(self._ids)

    def read(self, token_ids: Iterable[int]) -> None:
        """Read tokens; nothing is learnt of forecasts."""
        for token_id in token_ids:
            self._add(token_id)
        self._match = self._find()

    def learn(self, token_ids: Iterable[int]) -> None:
        """Read tokens one by one, and note which of them were foretold."""
        for token_id in token_ids:
            start, length = self._match
            if length:
                is_right = self._ids[start] == token_id
                self.rates[length] += (is_right - self.rates[length]) * _WEIGHT
            self._add(token_id)
            self._match = self._find()

    def continuation(self, limit: int, least: float) -> list[int]:
        """Return the tokens that followed the longest match, while all of them are likely.

        Args:
            limit: the most tokens.
            least: the probability below which the last of them must not fall.
        """
        start, length = self._match
        found: list[int] = []
        chance = 1.0
        while length and len(found) < limit:
            chance *= self.rates[min(length + len(found), LONGEST)]
            if chance < least:
                break
            # A match may reach into what it foretells: then it repeats itself.
            place = start + len(found)
            known = place < len(self._ids)
            found.append(self._ids[place] if known else found[place - len(self._ids)])
        return found

    def check(self, token_ids: list[int]) -> None:
        """Verify that the tokens read are the first of some."""
        assert self._ids == token_ids[: len(self._ids)], "an index holds other tokens"

    def _add(self, token_id: int) -> None:
        place = len(self._ids)
        self._ids.append(token_id)
        if place:
            pair = self._ids[place - 1], token_id
            self._before.append(self._last.get(pair, 0))
            self._last[pair] = place
        else:
            self._before.append(0)

    def _find(self) -> tuple[int, int]:
        """Return the place behind the longest match of the end, and its length; 0 for none."""
        ids, end = self._ids, len(self._ids) - 1
        best = (0, 0)
        place = self._before[end] if end > 0 else 0
        for _ in range(_PLACES):
            if not place:
                break
            length = SHORTEST
            while length < LONGEST and length <= place and ids[place - length] == ids[end - length]:
                length += 1
            if length > best[1]:
                best = place + 1, length
                if length == LONGEST:
                    break
            place = self._before[place]
        return best


class NgramDrafts:
    """Draft tokens from each sequence's own context and output.

    Forecasts are compared with what comes also when they are not used as drafts, so a
    sequence that begins to repeat itself is noticed without computing anything.

    Args:
        limit: the most draft tokens per sequence and step.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._indexes: dict[Sequence, NgramIndex] = {}

    def propose(self, seqs: list[Sequence], room: int) -> list[list[int]]:
        """See Drafter. A forecast that leaves the constraint is cut there."""
        least = least_chance(len(seqs))
        proposals: list[list[int]] = []
        for seq in seqs:
            index = self._read(seq)
            token_ids = index.continuation(most_drafts(seq, self._limit, room), least)
            if token_ids and seq.chooser is not None:
                token_ids = seq.chooser.leading(token_ids)
            room -= len(token_ids)
            proposals.append(token_ids)
        return proposals

    def may_draft(self, seqs: list[Sequence]) -> bool:
        """See Drafter."""
        return bool(seqs)

    def settle(self) -> None:
        """See Drafter."""
        for seq in [seq for seq in self._indexes if seq.is_finished]:
            del self._indexes[seq]

    def check(self) -> None:
        """See Drafter: the indexes hold what their sequences hold."""
        for seq, index in self._indexes.items():
            index.check(seq.token_ids.tolist())

    def _read(self, seq: Sequence) -> NgramIndex:
        """Return a sequence's index, up to its last token."""
        index = self._indexes.get(seq)
        if index is None:
            index = self._indexes[seq] = NgramIndex()
            index.read(seq.token_ids.tolist())
        else:
            index.learn(seq.token_ids[len(index) :].tolist())
        return index
