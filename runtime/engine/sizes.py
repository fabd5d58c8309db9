"""Sizes that an engine is asked for: what is no such number is refused at once."""

from numbers import Integral, Real

from lmc.errors import UsageError


def expect_counts(least: int = 1, **counts: object) -> None:
    """Refuse options that are no whole number of at least `least`; None stands for the default.

    Raises:
        UsageError: one of them is not.
    """
    for name, value in counts.items():
        if value is None:
            continue
        if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
            raise UsageError(
                f"{name}={value!r} is no count", hint=f"a whole number of at least {least}"
            )


def expect_seconds(**times: object) -> None:
    """Refuse options that are no time above zero.

    Raises:
        UsageError: one of them is not.
    """
    for name, value in times.items():
        if not isinstance(value, Real) or isinstance(value, bool) or not float(value) > 0:
            raise UsageError(f"{name}={value!r} is no time", hint="seconds, above 0")


def expect_pages(num_slots: int, page_size: int) -> None:
    """Refuse a pool that holds not even one page.

    Raises:
        UsageError: it does not.
    """
    if num_slots < page_size:
        raise UsageError(
            f"num_slots={num_slots} holds no page of page_size={page_size} tokens",
            hint="raise num_slots, or lower page_size",
        )
