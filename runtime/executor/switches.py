"""Switches: what the executor can leave out, to measure what it is worth."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """What an executor does besides carrying out a plan; results never depend on it.

    Attributes:
        parallel: independent model calls of a run are out at the same time; else one is asked
            once the one before is answered, in program order.
        groups: the common prefix of a fork's children is computed before they start.
    """

    parallel: bool = True
    groups: bool = True


ALL = Switches()
"""Nothing is left out."""
