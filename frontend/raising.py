"""What a captured `raise` or `assert` calls when the program runs."""

import builtins
from typing import NoReturn


def raise_error(kind: str, message: object) -> NoReturn:
    """Raise one of Python's own exceptions by its name."""
    raise getattr(builtins, kind)(message)
