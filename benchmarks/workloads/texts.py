"""Real text cut to exact numbers of tokens, from GSM8K."""

import json
from collections.abc import Iterator
from pathlib import Path

from lmc.ir.target import Tokenizer

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
FILES = ("gsm8k/test.jsonl", "gsm8k/train_first1000.jsonl")
ROWS_PER_REPEAT = 900
"""Rows of GSM8K between the texts of two repeats: more than the workloads of one repeat use."""


class MissingData(Exception):
    """The data set is not on this machine."""


def read_rows(data: Path) -> list[str]:
    """Return the worked questions of GSM8K.

    Raises:
        MissingData: a file is not there.
    """
    rows = []
    for name in FILES:
        path = data / name
        if not path.is_file():
            raise MissingData(f"{path} is missing: the workloads are cut from GSM8K")
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            rows.append(f"Question: {row['question']}\nAnswer: {row['answer']}\n\n")
    return rows


class Texts:
    """Gives texts of exact lengths, each from other rows than all before.

    Args:
        tokenizer: counts.
        rows: real texts.
        repeat: each repeat begins at other rows, so that no cache knows its texts. When the
            rows are used up the same ones come again, without their first words.
    """

    def __init__(self, tokenizer: Tokenizer, rows: list[str], repeat: int = 0) -> None:
        self._tokenizer = tokenizer
        self._rows = rows
        self._next = repeat * ROWS_PER_REPEAT

    def take(self, count: int, *, before: str = "", after: str = "") -> str:
        """Return a text of exactly `count` tokens, also between the texts around it.

        Raises:
            ValueError: no cut of the next rows has that many tokens.
        """
        source = self._source()
        around = self._encode(before), self._encode(after)
        for line in range(24):
            made = self._cut(source[3 * line :], count)
            joined = self._encode(before + made + after)
            if len(joined) == len(around[0]) + count + len(around[1]):
                self._next += 1 + len(made) // max(1, len(self._rows[0]) // 2)
                return made
        raise ValueError(f"no text of {count} tokens at row {self._next}")

    def _source(self) -> str:
        """Return the text from the next row on."""
        number, rows = self._next % len(self._rows), self._rows
        skipped = 5 * (self._next // len(rows))
        following = "".join(_around(rows, number, 60))
        return " ".join(following.split(" ")[skipped:])

    def _cut(self, source: str, count: int) -> str:
        """Return the beginning of a text that has `count` tokens, as far as can be."""
        ids = self._encode(source[: 16 * count])[:count]
        return self._tokenizer.decode(ids)

    def _encode(self, part: str) -> list[int]:
        return self._tokenizer.encode(part) if part else []


def _around(rows: list[str], first: int, count: int) -> Iterator[str]:
    """Yield rows in order, from the beginning again after the last."""
    for step in range(count):
        yield rows[(first + step) % len(rows)]
