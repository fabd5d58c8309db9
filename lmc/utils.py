"""Reading and writing files, under the names that the reference frontend's programs import."""

import json
import shutil
import tempfile
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lmc.runtime.result import Readings, RunState


def read_jsonl(filename: str | Path) -> list[Any]:
    """Return the values of a file of JSON lines; empty lines and those that begin with # go."""
    with Path(filename).open(encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip() and not line.startswith("#")]


def dump_state_text(filename: str | Path, states: Iterable[Any], mode: str = "w") -> None:
    """Write the texts of results, or other values, into a file, each under its number."""
    with Path(filename).open(mode, encoding="utf-8") as file:
        for number, state in enumerate(states):
            text = state.text() if isinstance(state, (Readings, RunState)) else str(state)
            file.write(f"{'=' * 40} {number} {'=' * 40}\n{text}\n{'=' * 80}\n\n")


def download_and_cache_file(url: str, filename: str | Path | None = None) -> str:
    """Return the path of a file, fetched from `url` unless it is there.

    Args:
        url: where it comes from.
        filename: where it is kept; by default in the folder for temporary files.

    Raises:
        OSError: it cannot be fetched.
    """
    kept = Path(filename or Path(tempfile.gettempdir()) / url.rpartition("/")[2])
    if not kept.exists():
        partial = kept.with_name(kept.name + ".part")
        with urllib.request.urlopen(url) as answer, partial.open("wb") as file:
            shutil.copyfileobj(answer, file)
        partial.replace(kept)
    return str(kept)
