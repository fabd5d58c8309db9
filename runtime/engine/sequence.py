"""Sequence: tokens that the engine computes, and what it holds for them.

The life of a sequence's token positions:

    0 ........ handle.length ........ cached_len ........ alloc_len   goal_len   total_len
    | in the tree, locked | own slots, KV computed | in flight |  to do  | known |

`cached_len` tokens have their KV; `extend_len` = `goal_len` - `cached_len` are still to be
computed; the slots of the first `alloc_len` stand in the sequence's row of the page table.

Draft tokens stand behind `total_len` while a step computes them. The token that comes then is
compared with the first of them: if it is the same, its KV is there already; if not, the drafts
are void.
"""

import enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmc.ir.calls import CallHint
from lmc.runtime.cache.prefix_cache import CacheHandle
from lmc.runtime.engine.chooser import Chooser
from lmc.runtime.guess import Guess

TokenArray = NDArray[np.int32]


class SequenceState(enum.Enum):
    """Where a sequence stands."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"


class Sequence:
    """One token sequence in the engine; mutable, owned by the engine's thread.

    Args:
        serial: place in the order of arrival, unique in the engine.
        token_ids: the tokens known at the start.
        max_len: the most tokens whose KV this sequence can ever need.
        logits_from: the first position whose logits are wanted, and all after it; equal to
            the number of tokens when none are.
        owner: whom the engine tells about this sequence; opaque here.
        guess: the guess that it works for, if it does. `is_guess` says that the scheduler
            treats it as one.
        hint: what is known of its call's place in a program.
        chooser: by which its next tokens are chosen; only such sequences take draft tokens.
        context_len: tokens of the call's context; by default all that are known.
        namespace: cached tokens of which it shares; never those of another.

    When it started first, `first_cached_len` tokens were cached: `first_pool_len` in the pool,
    the rest below it. Tokens `disk_start` to `disk_end` were read from disk while it waited.
    """

    __slots__ = (
        "__weakref__",
        "_buffer",
        "accepted",
        "alloc_len",
        "arrival_step",
        "cached_len",
        "chooser",
        "common_lens",
        "context_len",
        "disk_end",
        "disk_start",
        "drafted",
        "epoch",
        "first_cached_len",
        "first_pool_len",
        "goal_len",
        "guess",
        "handle",
        "hint",
        "is_guess",
        "logits_from",
        "match_version",
        "matched_len",
        "max_len",
        "namespace",
        "num_drafts",
        "num_preemptions",
        "order_key",
        "owner",
        "prefill_len",
        "rank_key",
        "row",
        "serial",
        "started_len",
        "state",
        "tenant",
        "total_len",
    )

    def __init__(
        self,
        serial: int,
        token_ids: TokenArray,
        *,
        max_len: int,
        logits_from: int,
        owner: object = None,
        guess: Guess | None = None,
        hint: CallHint | None = None,
        chooser: Chooser | None = None,
        context_len: int | None = None,
        namespace: str = "",
    ) -> None:
        self.serial = serial
        self.namespace = namespace
        self.guess = guess
        self.is_guess = False
        self.owner = owner
        self.hint = hint
        self.tenant = "" if hint is None else hint.tenant
        self.chooser = chooser
        self.context_len = len(token_ids) if context_len is None else context_len
        self.max_len = max_len
        self.logits_from = logits_from
        self._buffer: TokenArray = np.empty(len(token_ids) + 64, dtype=np.int32)
        self._buffer[: len(token_ids)] = token_ids
        self.total_len = len(token_ids)
        self.goal_len = self.total_len
        self.state = SequenceState.WAITING
        self.epoch = 0
        self.arrival_step = 0
        self.num_preemptions = 0
        self.num_drafts = self.drafted = self.accepted = 0
        self.first_cached_len = -1
        self.first_pool_len = 0
        self.disk_start = self.disk_end = 0
        self.matched_len = 0
        self.match_version = -1
        self.rank_key: tuple[Any, ...] = ()
        self.order_key = self.token_ids.astype(">i4").tobytes()
        self.common_lens: dict[tuple[int, int], int] = {}
        self.cached_len = self.alloc_len = self.prefill_len = self.started_len = 0
        self.row = -1
        self.handle: CacheHandle | None = None

    @property
    def token_ids(self) -> TokenArray:
        """The known tokens (a view)."""
        return self._buffer[: self.total_len]

    @property
    def next_unmatched(self) -> int:
        """The first token that is not cached; -1 where all that may be matched is."""
        end = self.matched_len
        return int(self._buffer[end]) if end < self.logits_from else -1

    @property
    def extend_len(self) -> int:
        """Tokens that are still to be computed."""
        return self.goal_len - self.cached_len

    @property
    def is_prefilling(self) -> bool:
        """Whether tokens known at admission are still to be computed."""
        return self.cached_len < self.prefill_len

    @property
    def is_finished(self) -> bool:
        """Whether the sequence has ended and owns nothing."""
        return self.state is SequenceState.FINISHED

    def first_lower_lens(self, limit: int) -> tuple[int, int]:
        """Return which of the first `limit` tokens host memory and the disk gave at first."""
        high = max(0, min(limit, self.first_cached_len))
        low = min(high, self.first_pool_len)
        disk = max(0, min(high, self.disk_end) - max(low, self.disk_start))
        return high - low - disk, disk

    def append(self, token_id: int) -> None:
        """Add one token at the end; it becomes part of the goal. Constant cost on average."""
        if self.num_drafts and self._buffer[self.total_len] == token_id:
            self.num_drafts -= 1
            self.accepted += 1
            self.cached_len += 1
        else:
            self.num_drafts = 0
        self._make_room(1)
        self._buffer[self.total_len] = token_id
        self.total_len += 1
        self.goal_len = self.total_len

    def rewind(self, length: int) -> None:
        """Forget the tokens from `length` on."""
        self.total_len = self.goal_len = length
        self.cached_len = min(self.cached_len, length)

    def propose(self, token_ids: list[int]) -> None:
        """Have the next step compute draft tokens behind the known ones."""
        self._make_room(len(token_ids))
        self._buffer[self.total_len : self.total_len + len(token_ids)] = token_ids
        self.num_drafts = len(token_ids)
        self.drafted += len(token_ids)

    def fed_ids(self, end: int) -> TokenArray:
        """Return the first `end` tokens, draft tokens among them (a view)."""
        return self._buffer[:end]

    def fed_id(self, at: int) -> np.int32:
        """Return the token at a position, which may be a draft token."""
        return self._buffer[at]

    def _make_room(self, count: int) -> None:
        if self.total_len + count > len(self._buffer):
            more = np.empty(max(count, len(self._buffer)), dtype=np.int32)
            self._buffer = np.concatenate([self._buffer, more])

    def reset(self, state: SequenceState) -> None:
        """Forget what was held (it must have been given back) and go on in `state`.

        The epoch moves on, so results of steps planned before no longer apply.
        """
        self.epoch += 1
        self.state = state
        self.cached_len = self.alloc_len = self.prefill_len = self.num_drafts = 0
        self.row = -1
        self.handle = None
        self.match_version = -1
        self.common_lens.clear()
