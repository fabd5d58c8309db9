"""Errors as a program sees them that catches them.

A run tells its failures as `LmcError`s with a place and a remedy. A program that catches one gets
what Python would have raised: the exception of an expression or host function itself; for
lmc's own errors one of the same class, whose text is the message alone.
"""

from typing import Any

from lmc.errors import LmcError, RunError

_ERROR = "__lmc_error__"


def placed(error: LmcError, *, hint: str | None, location: Any) -> RunError:
    """Return an error with a place and a hint; what it tells of stays."""
    kind = type(error) if isinstance(error, RunError) else RunError
    made = kind(error.message, hint=hint, location=location)
    made.raised = error.raised
    return made


def as_raised(error: LmcError) -> Exception:
    """Return what a program that catches an error gets."""
    if error.raised is not None:
        made = error.raised
    else:
        kind = type(error) if isinstance(error, RunError) else RunError
        made = kind(error.message)
    setattr(made, _ERROR, error)
    return made


def told_error(raised: BaseException) -> LmcError | None:
    """Return the error, with its place, that a caught exception stood for."""
    found = getattr(raised, _ERROR, None)
    return found if isinstance(found, LmcError) else None
