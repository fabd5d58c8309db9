"""The language under the reference frontend's module name `lang.api`."""

from typing import Any

import lmc


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(lmc, name)
