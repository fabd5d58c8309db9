"""Policy: what an engine keeps, serves first and forgets first, and where drafts come from.

Results never depend on these; only the time and the number of computed tokens do. The plain
choices are there to be measured against.
"""

from dataclasses import dataclass, fields
from typing import Literal, get_args

from lmc.errors import UsageError

CacheKind = Literal["radix", "none"]
OrderKind = Literal["plan", "arrival", "random"]
EvictionKind = Literal["plan", "recency"]
DraftKind = Literal["off", "ngram", "model"]

_CHOICES = {
    "cache": CacheKind,
    "order": OrderKind,
    "eviction": EvictionKind,
    "drafts": DraftKind,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Attributes:
        cache: "radix" shares prefixes between calls; "none" computes every context anew.
        order: "plan" serves so that common prefixes are computed once and programs that have
            begun come to their end; "arrival" first come first served; "random" in an order
            that depends on the calls' numbers alone.
        eviction: "plan" forgets first what no call will need, as far as that is known;
            "recency" what was unused for longest.
        drafts: "ngram" computes ahead what the text's own repetitions foretell, "model" what
            a draft model does, "off" nothing.

    Raises:
        UsageError: there is no such choice.
    """

    cache: CacheKind = "radix"
    order: OrderKind = "plan"
    eviction: EvictionKind = "plan"
    drafts: DraftKind = "off"

    def __post_init__(self) -> None:
        for option in fields(self):
            given, known = getattr(self, option.name), get_args(_CHOICES[option.name])
            if given not in known:
                raise UsageError(
                    f"{option.name}={given!r} is no choice", hint=f"choices: {', '.join(known)}"
                )
