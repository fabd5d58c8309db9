"""What programs of the reference frontend name besides the language itself.

`import lmc as sgl` runs such a program; only the lines that start a server change. Their
names stand here and say what to write instead; the settings and cache calls work.
"""

import dataclasses
from typing import TYPE_CHECKING, Any, NoReturn

from lmc import backends
from lmc.errors import UsageError
from lmc.ir.expressions import STRING_REGEX
from lmc.ir.target import Backend

if TYPE_CHECKING:
    from pathlib import Path

REGEX_INT = r"[-+]?[0-9]+[ \n]*"
REGEX_FLOAT = r"[-+]?[0-9]*\.?[0-9]+[ \n]*"
REGEX_BOOL = r"(True|False)"
REGEX_STR = STRING_REGEX

_OPEN_MODEL = 'name the model instead: lmc.set_default_backend("path, hub id or GGUF file")'


def _no_server(what: str) -> NoReturn:
    raise UsageError(f"{what} starts or reaches a server, and lmc needs none", hint=_OPEN_MODEL)


def _no_remote(what: str) -> NoReturn:
    raise UsageError(
        f"{what} runs programs on a remote API, which lmc does not reach", hint=_OPEN_MODEL
    )


def Runtime(*args: Any, **options: Any) -> NoReturn:
    """Raise UsageError: models run in this process, nothing is launched."""
    _no_server("Runtime")


def Engine(*args: Any, **options: Any) -> NoReturn:
    """Raise UsageError: `lmc.open_backend(model)` opens lmc's engine."""
    raise UsageError(
        "an engine is opened for a model, not built from server arguments",
        hint='write lmc.open_backend("path, hub id or GGUF file")',
    )


def RuntimeEndpoint(*args: Any, **options: Any) -> NoReturn:
    """Raise UsageError: there is no server to connect to."""
    _no_server("RuntimeEndpoint")


def ServerArgs(*args: Any, **options: Any) -> NoReturn:
    """Raise UsageError: options of the engine are keywords of `lmc.open_backend`."""
    _no_server("ServerArgs")


def OpenAI(*args: Any, **options: Any) -> NoReturn:
    """Raise UsageError: remote APIs are not reached."""
    _no_remote("OpenAI")


def Anthropic(*args: Any, **options: Any) -> NoReturn:
    """Raise UsageError: remote APIs are not reached."""
    _no_remote("Anthropic")


def Crusoe(*args: Any, **options: Any) -> NoReturn:
    """Raise UsageError: remote APIs are not reached."""
    _no_remote("Crusoe")


def LiteLLM(*args: Any, **options: Any) -> NoReturn:
    """Raise UsageError: remote APIs are not reached."""
    _no_remote("LiteLLM")


def VertexAI(*args: Any, **options: Any) -> NoReturn:
    """Raise UsageError: remote APIs are not reached."""
    _no_remote("VertexAI")


def flush_cache(backend: "Backend | str | Path | None" = None, **options: Any) -> bool:
    """Forget the cached prefixes of a backend (None: the default one) that nothing uses.

    Returns whether the backend has a cache; the oracle has none. Options of the reference
    frontend's call are accepted and change nothing.
    """
    opened = backends.resolve_backend(backend)
    flush = getattr(opened, "flush_cache", None)
    if flush is None:
        return False
    flush()
    return True


def get_server_info(backend: "Backend | str | Path | None" = None) -> dict[str, Any]:
    """Return what is told about a backend (None: the default one): model and totals."""
    opened = backends.resolve_backend(backend)
    told: dict[str, Any] = {
        "model_path": opened.target.name,
        "fingerprint": opened.target.fingerprint,
    }
    stats = getattr(opened, "stats", None)
    if stats is not None:
        told |= dataclasses.asdict(stats())
    return told


class GlobalConfig:
    """Settings of the reference frontend, to be read and set under the same names.

    `default_backend` is what `lmc.set_default_backend` sets. The others change nothing here:
    prefixes are found by compilation and by the radix tree, texts keep their special tokens,
    and joined branches are always encoded in place.
    """

    def __init__(self) -> None:
        self.verbosity = 0
        self.skip_special_tokens_in_output = True
        self.spaces_between_special_tokens_in_out = True
        self.enable_precache_with_tracing = True
        self.enable_parallel_encoding = False

    @property
    def default_backend(self) -> Backend:
        """The backend that programs run on when none is named; opened when it is read."""
        return backends.default_backend()

    @default_backend.setter
    def default_backend(self, backend: "Backend | str | Path | None") -> None:
        backends.set_default_backend(None if backend is None else backends.resolve_backend(backend))


global_config = GlobalConfig()
