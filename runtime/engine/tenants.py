"""Tenants: whose turn it is, and who holds more than its share. Pure: no tensors or clock.

Tokens that are computed, in prefills as in decodes, are shared by deficit round robin
(Shreedhar and Varghese 1995): in every round each tenant gets a quantum of credit, pays for
what is computed for it, and waits for the next round once it has nothing left. A round begins
when none of those that want something has credit. So a tenant gets its part of every few
steps, however much others ask, and inside its quantum its calls keep their best order.

Rows and memory are held for long, so they are not a matter of turns: a tenant that stays
within its share of them, an equal one for all that have calls, may take what others hold
beyond theirs. A call that needs more than the share of its tenant waits until it fits; if that
takes very long, no other tenant may start anything before it.

Nothing of this matters as long as there is one tenant.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lmc.runtime.engine.sequence import Sequence

Age = Callable[[Sequence], Any]
"""Sort key of sequences, the youngest last."""

ROUNDS_PER_STEP = 2
"""Quanta that a step's token budget holds: a newcomer waits for half a step at the most."""

MAX_DEBT = 4
"""Quanta that a tenant may owe: decodes are never put off, so they may cost more than is due."""

BLOCKED_STEPS = 64
"""Steps that the first call of a tenant below its share may find no room for."""


@dataclass(slots=True)
class Use:
    """What the running sequences of a tenant hold: rows, and tokens of memory."""

    rows: int = 0
    tokens: int = 0

    def add(self, seq: Sequence) -> None:
        """Count one more sequence."""
        self.rows += 1
        self.tokens += tokens_of(seq)


def tokens_of(seq: Sequence) -> int:
    """Return the tokens that a sequence holds or will hold soon, shared ones included."""
    return max(seq.goal_len, seq.alloc_len)


class Tenants:
    """Credit of all tenants that have calls, or that owe.

    Args:
        token_budget: tokens per step.
        rows: sequences that run at once.
        slots: tokens of memory.
    """

    def __init__(self, *, token_budget: int, rows: int, slots: int) -> None:
        self.quantum = max(1, token_budget // ROUNDS_PER_STEP)
        self._rows = rows
        self._slots = slots
        self._live: dict[str, set[Sequence]] = {}
        self._credit: dict[str, int] = {}
        self._place: dict[str, int] = {}
        self._num_places = 0
        self._blocked: dict[str, int] = {}

    @property
    def are_several(self) -> bool:
        """Whether more than one tenant has calls."""
        return len(self._live) > 1

    def __len__(self) -> int:
        """Return how many tenants are remembered."""
        return len(self._credit)

    # -- events ----------------------------------------------------------------------------

    def enter(self, seq: Sequence) -> None:
        """Take note of a new sequence; a tenant without debts begins with a quantum."""
        if seq.tenant not in self._live:
            self._to_the_end(seq.tenant)
        self._live.setdefault(seq.tenant, set()).add(seq)
        self._credit.setdefault(seq.tenant, self.quantum)

    def leave(self, seq: Sequence) -> None:
        """Take note that a sequence has ended; of a tenant that has no other, debts remain.

        One that never entered, since it was refused, is ignored.
        """
        tenant = seq.tenant
        own = self._live.get(tenant, set())
        if seq not in own:
            return
        own.remove(seq)
        if own:
            return
        del self._live[tenant]
        self._blocked.pop(tenant, None)
        del self._place[tenant]
        if self._credit[tenant] >= 0:
            del self._credit[tenant]

    def started(self, seq: Sequence) -> None:
        """Take note that a sequence starts."""
        self._to_the_end(seq.tenant)
        self._blocked.pop(seq.tenant, None)

    def blocked(self, tenant: str, uses: Mapping[str, Use], step: int) -> None:
        """Take note that there is no place for the first call of a tenant.

        What counts is how long it has been so without the tenant itself holding its share.
        """
        if not self.are_several:
            return
        use = uses.get(tenant, Use())
        if use.rows < self._share(self._rows) and use.tokens < self._share(self._slots):
            self._blocked.setdefault(tenant, step)
        else:
            self._blocked.pop(tenant, None)

    # -- turns -----------------------------------------------------------------------------

    def next_of(self, wanting: Iterable[str]) -> str | None:
        """Return whose turn it is: most credit, then the longest without a start."""
        return max(wanting, key=lambda name: (self._credit[name], -self._place[name]), default=None)

    def credit(self, tenant: str) -> int:
        """Return how many tokens may be computed for a tenant in this round."""
        return self._credit[tenant]

    def charge(self, tenant: str, tokens: int) -> None:
        """Take note of tokens that are computed for a tenant; what is owed has a limit."""
        left = self._credit[tenant] - tokens
        self._credit[tenant] = min(self.quantum, max(left, -MAX_DEBT * self.quantum))

    def new_round(self) -> None:
        """Give every tenant a quantum; none saves up more than one."""
        for tenant, credit in list(self._credit.items()):
            self._credit[tenant] = min(self.quantum, credit + self.quantum)
            if tenant not in self._live and self._credit[tenant] >= 0:
                del self._credit[tenant]

    def must_yield(self, tenant: str, step: int) -> bool:
        """Whether a tenant may start nothing, since another has been blocked for too long."""
        first = min(self._blocked, key=self._blocked.__getitem__, default=tenant)
        return first != tenant and step - self._blocked[first] > BLOCKED_STEPS

    # -- rows and memory -------------------------------------------------------------------

    def is_within_share(self, tenant: str, need: int, uses: Mapping[str, Use]) -> bool:
        """Whether a tenant stays within its share of memory with `need` more tokens."""
        use = uses.get(tenant, Use())
        return use.tokens + need <= self._share(self._slots)

    def row_victim(
        self, tenant: str, running: list[Sequence], uses: Mapping[str, Use], age: Age
    ) -> Sequence | None:
        """Return whose row a tenant may take; None where it has its share.

        Args:
            tenant: who wants a row.
            running: all that run.
            uses: what their tenants hold.
            age: sort key, the youngest last.
        """
        share = self._share(self._rows)
        if uses.get(tenant, Use()).rows >= share:
            return None
        return _youngest_of_most(running, {t: use.rows - share for t, use in uses.items()}, age)

    def memory_victim(
        self, running: list[Sequence], uses: Mapping[str, Use], age: Age
    ) -> Sequence | None:
        """Return the youngest of the tenant that is most beyond its share; see `row_victim`."""
        share = self._share(self._slots)
        excess = {tenant: use.tokens - share for tenant, use in uses.items()}
        return _youngest_of_most(running, excess, age)

    def _to_the_end(self, tenant: str) -> None:
        """Put a tenant behind all others of the same credit."""
        self._num_places += 1
        self._place[tenant] = self._num_places

    def _share(self, of: int) -> int:
        return max(1, of // max(1, len(self._live)))


def uses_of(running: Iterable[Sequence]) -> dict[str, Use]:
    """Return what the tenants of running sequences hold."""
    uses: dict[str, Use] = {}
    for seq in running:
        uses.setdefault(seq.tenant, Use()).add(seq)
    return uses


def _youngest_of_most(running: list[Sequence], excess: dict[str, int], age: Age) -> Sequence | None:
    """Return the youngest of the tenant with the most excess, but never its last one.

    Sequences that are completely computed are about to end, and stay.
    """
    most = max(excess, key=excess.__getitem__, default=None)
    if most is None or excess[most] <= 0:
        return None
    own = sorted((seq for seq in running if seq.tenant == most), key=age)
    return next((seq for seq in reversed(own[1:]) if seq.extend_len > 0), None)
