"""The language under the reference frontend's older module name `api`."""

from typing import Any

from lmc.lang import api


def __getattr__(name: str) -> Any:
    return getattr(api, name)
