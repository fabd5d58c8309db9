"""What the benchmarks of one engine are asked for on the command line."""

import argparse
from pathlib import Path

from workloads.texts import DATA


def measuring_options(about: str, repeat: int) -> argparse.Namespace:
    """Return the options that were given: `threads`, `repeat`, `data`, `write`.

    Args:
        about: the script's docstring, whose first line describes it.
        repeat: how often each thing is measured by default.
    """
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=repeat)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of GSM8K's texts")
    parser.add_argument("--write", action="store_true", help="put it into docs/benchmarks.md")
    return parser.parse_args()
