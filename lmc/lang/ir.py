"""Patterns of plain values under the reference frontend's module name `lang.ir`."""

from lmc.compat import REGEX_BOOL, REGEX_FLOAT, REGEX_INT, REGEX_STR

__all__ = ["REGEX_BOOL", "REGEX_FLOAT", "REGEX_INT", "REGEX_STR"]
