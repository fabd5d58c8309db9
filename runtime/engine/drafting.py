"""Drafting: tokens that are likely to come are computed together with the known ones.

A decoding sequence gets draft tokens behind its last one. One forward pass gives the logits
behind each of them; tokens are then chosen as always, one after the other, and a draft token
is *accepted* if it is the one that was chosen. Randomness is keyed by position, and rows do
not depend on each other, so the tokens and log-probabilities are those of a run without drafts.
(Leviathan et al., 2023, and Chen et al., 2023, accept by a ratio of probabilities, which keeps
the distribution only; here the very tokens are kept.)

Drafts take what is left of a step's budget, and free slots only: for them nothing is evicted
or preempted. The slots of tokens that were not accepted are free again after the step.
"""

from typing import Protocol

from lmc.runtime.cache.prefix_cache import PrefixCache
from lmc.runtime.engine.sequence import Sequence
from lmc.runtime.engine.step_plan import OpenStep

PASS_ROWS = 8.0
"""The fixed cost of a forward pass, as so many rows: reading the weights takes that long."""


class Drafter(Protocol):
    """Where draft tokens come from."""

    def propose(self, seqs: list[Sequence], room: int) -> list[list[int]]:
        """Return draft tokens for each of some decoding sequences, `room` at most in all."""
        ...

    def may_draft(self, seqs: list[Sequence]) -> bool:
        """Return whether it may come to propose tokens for some of these sequences."""
        ...

    def settle(self) -> None:
        """Take note that a step is over: forget the sequences that have ended."""
        ...

    def check(self) -> None:
        """Verify what it holds; raises AssertionError or PageOwnershipError."""
        ...


def least_chance(num_decoding: int) -> float:
    """Return the chance of coming true from which on a draft token saves time.

    A row costs 1, a pass PASS_ROWS more, shared by the sequences that decode. A token that is
    accepted saves a row and a share of a pass.
    """
    return 1.0 / (1.0 + PASS_ROWS / num_decoding)


def add_drafts(
    step: OpenStep, drafter: Drafter, cache: PrefixCache, *, room: int, free_slots: int
) -> None:
    """Let the decoding sequences of a step go on with draft tokens.

    Args:
        step: what every call has had its part of.
        drafter: gives the tokens.
        cache: the KV memory; tells how many slots tokens need.
        room: tokens that are left of the step's budget.
        free_slots: slots that are left of the free ones.
    """
    room = min(room, step.logits_left, free_slots)
    seqs = [seq for seq, length in step.parts.items() if _takes_drafts(seq, length)]
    if room <= 0 or not seqs:
        return
    for seq, token_ids in zip(seqs, drafter.propose(seqs, room), strict=True):
        end = seq.cached_len + step.parts[seq]
        # Where pages hold several tokens, the sequences begin more slots than they have tokens.
        token_ids = token_ids[: cache.tokens_within(end, max(0, free_slots))]
        if token_ids:
            step.add_drafts(seq, token_ids)
            free_slots -= cache.new_slots(end, end + len(token_ids))


def most_drafts(seq: Sequence, limit: int, room: int) -> int:
    """Return how many draft tokens can be of use to a sequence."""
    return min(limit, room, seq.max_len - seq.total_len)


def _takes_drafts(seq: Sequence, length: int) -> bool:
    """Whether a part of a step ends where the next token is chosen, and has begun before."""
    if seq.chooser is None or seq.is_guess or seq.is_prefilling:
        return False
    return seq.cached_len + length == seq.goal_len == seq.total_len < seq.max_len
