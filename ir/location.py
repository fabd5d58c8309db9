"""Where in the user's source an op comes from."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A span of source: lines count from 1, columns from 1, the end is exclusive.

    `file` is relative to the program's folder. `text` is the first line of the span, kept
    so that an artifact can show it when the source is gone.
    """

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def render(self) -> str:
        """Return `file:line:column`, the source line, and carets under the span."""
        if not self.text:
            return f"  at {self}"
        last = self.end_column if self.end_line == self.line else len(self.text) + 1
        width = max(1, last - self.column)
        # Tabs keep their width, so that the carets stand below the right characters.
        pad = "".join("\t" if c == "\t" else " " for c in self.text[: self.column - 1])
        return f"  at {self}\n    {self.text}\n    {pad}{'^' * width}"
