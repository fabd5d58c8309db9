"""Instance: what sets one run of a program apart from others: seed, limits, listeners."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lmc.errors import UsageError
from lmc.ir.profile import Profile
from lmc.runtime.executor.modes import Mode, check_mode
from lmc.runtime.prompt_state import Lineage

OnEvent = Callable[[str, str | None, str, Lineage], None]
OnVariable = Callable[[str, Any, Any, Lineage], None]


MAX_TENANT = 200


def check_tenant(tenant: object) -> None:
    """Raise UsageError for what is no tenant: a text of at most MAX_TENANT characters."""
    if not isinstance(tenant, str) or len(tenant) > MAX_TENANT:
        raise UsageError(
            f"tenant must be a text of at most {MAX_TENANT} characters, not {tenant!r:.80}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One run of a program, but for its arguments.

    Attributes:
        seed: with `number`, what random keys derive from.
        number: place in a batch.
        defaults: decode parameters for generations that do not set their own.
        on_event: called as (kind, name, text, lineage) on the executor's thread for appended
            text ("text"), generated pieces ("gen") and choices ("select").
        on_variable: called as (name, value, meta, lineage) when a call has set a variable.
        timeout: seconds that the run may take; None for any.
        profile: what the run's calls and branches are counted in.
        speculate: whether work is done ahead of choices; "wrong": for nothing, in tests.
        tenant: for whom it runs; a backend serves several in turn.
    """

    seed: int
    number: int = 0
    defaults: Mapping[str, Any] = field(default_factory=dict)
    on_event: OnEvent | None = None
    on_variable: OnVariable | None = None
    timeout: float | None = None
    profile: Profile | None = None
    speculate: Mode = "on"
    tenant: str = ""

    def __post_init__(self) -> None:
        check_mode(self.speculate)
        check_tenant(self.tenant)
        given = self.timeout
        if given is None:
            return
        if isinstance(given, bool) or not isinstance(given, (int, float)) or not given > 0:
            raise UsageError(f"timeout must be a number of seconds above 0, not {given!r:.80}")
