"""Program: what `@lmc.function` makes of a user's function."""

import functools
import inspect
import secrets
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmc.errors import CaptureError, GraphBreakWarning, UsageError
from lmc.frontend.load import refuse_while_loading
from lmc.ir.expressions import RUN_PARAMS

if TYPE_CHECKING:
    from lmc.compiled import CompiledProgram
    from lmc.ir.core import Module
    from lmc.ir.target import Backend
    from lmc.runtime.result import RunResult

DEFAULTS = RUN_PARAMS
"""Decode parameters that a run may set for all generations that do not set their own."""

RUN_OPTIONS = ("backend", "seed", "mode", "passes", "on_event")


class Program:
    """A language-model program: run it, run it many times, compile it, look at its IR.

    Keeps the function's name, docstring and signature (without the state).
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        parameters = list(inspect.signature(function).parameters.values())
        if not parameters or parameters[0].kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
            raise UsageError(
                f"program '{function.__name__}' has no parameter for its state",
                hint=f"write: def {function.__name__}(s, ...)",
            )
        self.__lmc_function__ = function
        self.__signature__ = inspect.Signature(parameters[1:])
        self._compiled: dict[tuple[str, str | None], CompiledProgram] = {}

    def __repr__(self) -> str:
        return f"<lmc program {self.__name__}{self.__signature__}>"

    @property
    def name(self) -> str:
        """The function's name."""
        return self.__lmc_function__.__name__

    @property
    def func(self) -> Callable[..., Any]:
        """The plain Python function, by the reference frontend's name."""
        return self.__lmc_function__

    def trace(self) -> "Module":
        """Return the program's IR as captured, before any pass.

        Raises:
            CaptureError: the source holds something that cannot be captured.
        """
        from lmc.compiler import capture_programs

        return capture_programs([self]).module

    def compile(
        self, model: "Backend | str | Path | None" = None, *, passes: str | None = None
    ) -> "CompiledProgram":
        """Compile for a model (None: the default one); `passes` is a pipeline text.

        Raises:
            CompileError: capture, a pass or lowering failed; tells where.
            ModelError: there is no such model.
        """
        from lmc.compiler import compile_program

        return compile_program(self, model=model, passes=passes)

    def run(self, *args: Any, **keywords: Any) -> "RunResult":
        """Run the program and return its result.

        Besides the program's own arguments:

        Args:
            args: the program's arguments, by position.
            keywords: the program's arguments by name, and of options: `backend` (a backend, a
                model's path or name, "oracle"; None: the default), `seed` (None: drawn, and
                told in the result), `mode` ("compiled", or "eager": the Python body as it is),
                `passes` (pipeline text), `on_event` (called with kind, name, text and lineage
                as text comes), and decode parameters (see DEFAULTS) for
                generations that do not set their own.

        A program that capture cannot read runs in eager mode, with a GraphBreakWarning.

        Raises:
            RunError: the program failed; tells the line and the prompt's tail.
        """
        from lmc.runtime.eager import call_nested, is_running

        bound, options, defaults = self._split(args, keywords)
        if is_running():
            return call_nested(self.__lmc_function__, bound, defaults, options=options)  # type: ignore[return-value]
        return self.run_bound(bound, defaults=defaults, **options)

    def run_batch(
        self, batch: Iterable[Mapping[str, Any]], **keywords: Any
    ) -> "Iterator[RunResult]":
        """Run once per set of arguments, many at a time; yield results in order.

        Leaving the loop early cancels what still runs. Options are those of `run`.
        """
        refuse_while_loading(self.name)
        _, options, defaults = self._split((), keywords, bind=False)
        arguments = (self._bind((), dict(item)) for item in batch)
        backend, seed = self._backend(options.get("backend")), _seed(options.get("seed"))
        compiled = None
        if not _is_eager(options.get("mode", "compiled")):
            compiled = self._compiled_or_warn(backend, options.get("passes"))
        if compiled is None:
            for number, bound in enumerate(arguments):
                yield self._run_eager(backend, bound, defaults, seed, number, None)
            return
        yield from compiled.run_batch(arguments, backend=backend, seed=seed, defaults=defaults)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Run as a nested program; allowed inside another program only."""
        from lmc.runtime.eager import call_nested

        bound, options, defaults = self._split(args, keywords)
        return call_nested(self.__lmc_function__, bound, defaults, options=options)

    def _split(
        self, args: tuple[Any, ...], keywords: dict[str, Any], *, bind: bool = True
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Part keywords into the program's own, run options and decode parameters."""
        own = self.__signature__.parameters
        options = {k: v for k, v in keywords.items() if k in RUN_OPTIONS and k not in own}
        defaults = {
            k: v for k, v in keywords.items() if k in DEFAULTS and k not in own and v is not None
        }
        rest = {k: v for k, v in keywords.items() if k not in options and k not in DEFAULTS}
        rest |= {k: v for k, v in keywords.items() if k in own}
        if not bind and rest:
            raise UsageError(f"'{self.name}' has no run option {next(iter(rest))!r}")
        return (self._bind(args, rest) if bind else {}), options, defaults

    def _bind(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
        return bind_arguments(self.name, self.__signature__, args, keywords)

    def _backend(self, backend: Any) -> "Backend":
        from lmc.backends import resolve_backend

        return resolve_backend(backend)

    def run_bound(
        self,
        bound: Mapping[str, Any],
        *,
        backend: Any = None,
        seed: int | None = None,
        instance: int = 0,
        mode: str = "compiled",
        passes: str | None = None,
        defaults: Mapping[str, Any] | None = None,
        on_event: Any = None,
    ) -> "RunResult":
        """Run with a value per parameter; options as in `run`, decode parameters in `defaults`."""
        refuse_while_loading(self.name)
        opened, drawn = self._backend(backend), _seed(seed)
        compiled = None if _is_eager(mode) else self._compiled_or_warn(opened, passes)
        if compiled is None:
            return self._run_eager(opened, bound, defaults or {}, drawn, instance, on_event)
        return compiled.run_bound(
            bound, backend=opened, seed=drawn, instance=instance,
            defaults=defaults, on_event=on_event,
        )  # fmt: skip

    def _run_eager(
        self,
        backend: "Backend",
        bound: Mapping[str, Any],
        defaults: Mapping[str, Any],
        seed: int,
        instance: int,
        on_event: Any,
    ) -> "RunResult":
        from lmc.runtime.eager import run_eager

        return run_eager(
            backend, self.__lmc_function__, bound,
            seed=seed, instance=instance, defaults=defaults, on_event=on_event,
        )  # fmt: skip

    def _compiled_or_warn(self, backend: "Backend", passes: str | None) -> "CompiledProgram | None":
        """Compile; None, with a warning, where the source holds what cannot be captured."""
        try:
            return self._compile_for(backend, passes)
        except CaptureError as error:
            message = f"{error}\n'{self.name}' runs uncompiled, in eager mode"
            warnings.warn(message, GraphBreakWarning, stacklevel=4)
            return None

    def _compile_for(self, backend: "Backend", passes: str | None) -> "CompiledProgram":
        """Compile for a backend's target; keep the result while captured globals stay."""
        from lmc.compiler import compile_program

        key = (backend.target.fingerprint, passes)
        known = self._compiled.get(key)
        if known is None or not known.is_current():
            self._compiled[key] = known = compile_program(
                self, target=backend.target, passes=passes
            )
        return known


def bind_arguments(
    name: str, signature: inspect.Signature, args: tuple[Any, ...], keywords: dict[str, Any]
) -> dict[str, Any]:
    """Bind arguments as Python would; defaults that can be changed are copied.

    Raises:
        UsageError: an argument is missing, unknown or given twice.
    """
    try:
        bound = signature.bind(*args, **keywords)
    except TypeError as error:
        raise UsageError(
            f"program '{name}': {error}", hint=f"its signature is {name}{signature}"
        ) from None
    given = set(bound.arguments)
    bound.apply_defaults()
    return {
        key: value if key in given or not isinstance(value, (list, dict, set)) else deepcopy(value)
        for key, value in bound.arguments.items()
    }


def _is_eager(mode: str) -> bool:
    """Whether a mode is the eager one; raises UsageError where there is no such mode."""
    if mode not in ("compiled", "eager"):
        raise UsageError(f"mode={mode!r} is unknown", hint="use 'compiled' or 'eager'")
    return mode == "eager"


def _seed(seed: int | None) -> int:
    """Return the seed given, or draw one."""
    return secrets.randbits(63) if seed is None else seed


def function(
    body: Callable[..., Any] | None = None, *, num_api_spec_tokens: int | None = None
) -> Any:
    """Make a program of a function whose first parameter is the state.

    Example:
        @lmc.function
        def greet(s, name):
            s += "Hello " + name + lmc.gen("rest", max_tokens=8)

    Args:
        body: the function; left out in `@lmc.function(...)`.
        num_api_spec_tokens: accepted for the reference frontend's programs; a hint for remote
            APIs, without effect on what is generated here.

    Raises:
        UsageError: the function has no parameter for the state.
    """
    return Program if body is None else Program(body)
