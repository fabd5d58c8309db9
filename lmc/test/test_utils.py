"""Options of benchmark scripts, under the reference frontend's module name `test.test_utils`."""

import argparse

from lmc import backends
from lmc.ir.target import Backend


def add_common_sglang_args_and_parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Add the options that all benchmark scripts have, and parse the command line.

    Host, port and device are taken and change nothing: models run in this process.
    """
    parser.add_argument("--parallel", type=int, default=64)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=30000)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--backend", default="srt", help="a model, or srt for the default one")
    parser.add_argument("--result-file", default="result.jsonl")
    parser.add_argument("--raw-result-file")
    return parser.parse_args()


def select_sglang_backend(args: argparse.Namespace) -> Backend:
    """Return the backend that `--backend` names: a model, or the default for 'srt'.

    Raises:
        ModelError: there is no such model.
    """
    is_default = args.backend.startswith("srt")
    return backends.resolve_backend(None if is_default else args.backend)
