"""What a captured `raise` or `assert` calls when the program runs."""

import builtins
from typing import NoReturn

from lmc.errors import RunError
from lmc.ir.caught import told_error


def raise_error(kind: str, *message: object) -> NoReturn:
    """Fail as the named exception of Python's would, told in a program's terms.

    Raises:
        RunError: always.
    """
    raise_again(getattr(builtins, kind)(*message))


def raise_again(error: object) -> NoReturn:
    """Fail with an exception: one that was caught fails at its own place.

    Raises:
        RunError: always, or another error of lmc's own that was caught.
    """
    if isinstance(error, type) and issubclass(error, BaseException):
        error = error()
    if not isinstance(error, BaseException):
        error = TypeError("exceptions must derive from BaseException")
    told = told_error(error)
    if told is not None:
        raise told
    if not isinstance(error, Exception):
        raise error
    made = RunError(f"{type(error).__name__}: {error}")
    made.raised = error
    raise made


def class_name(value: object) -> str:
    """Return the name of a value's class."""
    return type(value).__name__
