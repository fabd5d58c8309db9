"""Whether a run works ahead of choices."""

from typing import Literal

from lmc.errors import UsageError

Mode = Literal["on", "off", "wrong"]
"""`wrong` does it and drops what turns out right: all is in vain, for tests."""

MODES = ("on", "off", "wrong")


def check_mode(mode: object) -> None:
    """Raise UsageError for what is no mode of speculation."""
    if mode not in MODES:
        raise UsageError(f"speculate={mode!r} is unknown", hint=f"use one of {', '.join(MODES)}")
