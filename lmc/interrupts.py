"""Interrupts that are held back while they would do harm."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def interrupts_held_back() -> Generator[None]:
    """Raise the KeyboardInterrupt of a block at its end.

    For imports of extension modules: one that was left half loaded cannot be loaded again, and
    the interrupt is lost in whatever follows. Does nothing outside the main thread, or where
    Ctrl-C has another meaning than Python's own.

    Raises:
        KeyboardInterrupt: it came meanwhile.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if came:
        raise KeyboardInterrupt
