"""lmc: compile language-model programs and run them on lmc's own engine."""

__version__ = "0.1.0"
