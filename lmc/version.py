"""The version of lmc."""

__version__ = "0.1.0"
