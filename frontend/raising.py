"""What a captured `raise` or `assert` calls when the program runs."""

from typing import NoReturn

from lmc.errors import RunError


def raise_error(kind: str, message: object) -> NoReturn:
    """Fail as the named exception of Python's would, told in a program's terms.

    Raises:
        RunError: always.
    """
    raise RunError(f"{kind}: {message}" if message != "" else f"{kind}: ")
