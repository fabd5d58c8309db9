"""Exactness: whether results are known to depend on nothing but the calls themselves."""

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Exactness:
    """What a back end knows of its own exactness.

    Attributes:
        state: "checked": proved at the start, on this machine and the model's shapes;
            "by construction": nothing is computed in batches; "differs": the proof failed;
            "unclaimed": the kernels do not promise it; "unknown": nothing is known.
        detail: what differs, or why it is not promised; "" otherwise.
    """

    state: Literal["checked", "by construction", "differs", "unclaimed", "unknown"] = "unknown"
    detail: str = ""

    @property
    def is_exact(self) -> bool:
        """Whether the same call has the same bits whatever was cached or ran beside it."""
        return self.state in ("checked", "by construction")

    def __str__(self) -> str:
        """Return it in words, for the summary of a run."""
        if self.is_exact:
            return self.state
        if self.state == "unknown":
            return f"not known{self.detail and f': {self.detail}'}"
        meaning = "a call's result may vary in its last bits with what runs beside it"
        return f"NOT exact here: {self.detail}; {meaning}"


def exactness_of(backend: Any) -> Exactness:
    """Return what a back end says of itself; those of others may say nothing."""
    found = getattr(backend, "exactness", None)
    return found if isinstance(found, Exactness) else Exactness()
