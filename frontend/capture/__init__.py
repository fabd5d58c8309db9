"""From source to IR: the function is read, never run."""

from lmc.frontend.capture.functions import Captured, capture

__all__ = ["Captured", "capture"]
