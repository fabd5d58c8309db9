"""Program: what `@lmc.function` makes of a user's function."""

import functools
import inspect
import warnings
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Never, ParamSpec, TypeVar, overload

from lmc.errors import CaptureError, CompileError, GraphBreakWarning, UsageError
from lmc.frontend.load import refuse_while_loading
from lmc.running import Runnable

if TYPE_CHECKING:
    import typing_extensions

    from lmc.compiled import CompiledProgram
    from lmc.frontend.typed import State
    from lmc.ir.core import Module
    from lmc.ir.profile import Profile
    from lmc.ir.target import Backend
    from lmc.runtime.executor.handle import RunHandle
    from lmc.runtime.executor.runner import Runner
    from lmc.runtime.result import RunResult
    from lmc.typed_runs import Call

    P = typing_extensions.ParamSpec("P", default=...)
    R = typing_extensions.TypeVar("R", default=Any)
else:
    P = ParamSpec("P")
    R = TypeVar("R")


class Program(Runnable[R], Generic[P, R]):
    """A language-model program: run it, run it many times, compile it, look at its IR.

    Keeps the function's name, docstring and signature (without the state): `P` are its
    arguments for type checkers, `R` is what it returns.
    """

    run_options = (*Runnable.run_options, "mode", "passes")

    def __init__(self, function: "Callable[Concatenate[State, P], R]") -> None:
        functools.update_wrapper(self, function)  # pyright: ignore[reportArgumentType]
        parameters = list(inspect.signature(function).parameters.values())
        if not parameters or parameters[0].kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
            raise UsageError(
                f"program '{function.__name__}' has no parameter for its state",
                hint=f"write: def {function.__name__}(s, ...)",
            )
        self.name = function.__name__
        self.__lmc_function__ = function
        self.__lmc_fixed__ = {}
        self.__signature__ = inspect.Signature(parameters[1:])
        self._compiled: dict[tuple[str, str | None], CompiledProgram] = {}

    def __repr__(self) -> str:
        return f"<lmc program {self.__name__}{self.__signature__}>"

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
        self, model: "Backend | str | Path | None" = None, *, passes: str | None = None,
        profile: "Profile | None" = None,
    ) -> "CompiledProgram":  # fmt: skip
        """Compile for a model (None: the default one); `passes` is a pipeline text.

        `profile` is what recorded runs took; it changes what is prepared for, never a result.

        Raises:
            CompileError: capture, a pass or lowering failed; tells where.
            ModelError: there is no such model.
        """
        from lmc.compiler import compile_program

        return compile_program(self, model=model, passes=passes, profile=profile)

    if TYPE_CHECKING:
        # The program's own arguments are checked; see lmc.typed_runs.

        @property
        def run(self) -> "Call[P, RunResult[R], RunHandle[R]]":  # type: ignore[override]
            """Run the program and return its result."""
            ...

        @property
        def stream(self) -> "Call[P, RunHandle[R], RunHandle[R]]":  # type: ignore[override]
            """Start the program and return a handle at once."""
            ...

        @property
        def arun(self) -> "Call[P, Coroutine[Any, Any, RunResult[R]], Never]":  # type: ignore[override]
            """Run the program without blocking the event loop."""
            ...

        def bind(self, /, **arguments: Any) -> "Program[..., R]":  # type: ignore[override]
            """Return the same program with some arguments fixed."""
            ...

        @property
        def __call__(self) -> "Call[P, RunResult[R], RunHandle[R]]":
            """Run: inside another program as a nested one."""
            ...

    else:

        def run(self, /, *args: Any, **keywords: Any) -> Any:
            """Run the program and return its result; see `Runnable.run`.

            Further options: `mode` ("compiled", or "eager": the Python body as it is) and
            `passes` (pipeline text). A program that capture cannot read runs in eager mode,
            with a GraphBreakWarning. Inside a program that runs in eager mode this is a
            nested call.

            Raises:
                RunError: the program failed; tells the line and the prompt's tail.
            """
            return self(*args, **keywords)

        def __call__(self, /, *args: Any, **keywords: Any) -> Any:
            """Run: inside another program as a nested one, elsewhere as `run` does."""
            from lmc.runtime.eager import call_nested, is_running

            if not is_running():
                return self._run(args, keywords)
            request = self._request(args, keywords, "stream")
            return call_nested(
                self.__lmc_function__, request.bound, request.defaults, options=request.options
            )

    def cache(self, backend: "Backend | str | Path | None" = None) -> None:
        """Compile for a backend ahead of the first run; the constant prefixes come with it.

        The reference frontend's call of this name sends the constant prefix to its server.
        """
        from lmc.backends import resolve_backend

        self._compile_for(resolve_backend(backend), None)

    def _runner(self, options: dict[str, Any]) -> "Runner":
        from lmc.backends import resolve_backend
        from lmc.runtime.eager import EagerRunner

        refuse_while_loading(self.name)
        mode, passes = options.pop("mode", "compiled"), options.pop("passes", None)
        if mode not in ("compiled", "eager"):
            raise UsageError(f"mode={mode!r} is unknown", hint="use 'compiled' or 'eager'")
        backend = resolve_backend(options.pop("backend", None))
        compiled = None if mode == "eager" else self._compiled_or_warn(backend, passes)
        if isinstance(getattr(backend, "script", None), Mapping):
            self._check_script(backend)
        if compiled is None:
            return EagerRunner(backend, self.__lmc_function__)
        return compiled.runner_on(backend)

    def _check_script(self, backend: "Backend") -> None:
        """Warn of an oracle's script with a misspelt name, as far as the source can be read."""
        from lmc.script_names import is_new, warn_of_script

        if not is_new(backend, self):
            return
        try:
            module = self.trace()
        except CompileError:
            return  # told, or met, when the program runs
        warn_of_script(backend, module, self.name, user_level())

    def _compiled_or_warn(self, backend: "Backend", passes: str | None) -> "CompiledProgram | None":
        """Compile; None, with a warning, where the source holds what cannot be captured."""
        try:
            return self._compile_for(backend, passes)
        except CaptureError as error:
            message = f"{error}\n'{self.name}' runs uncompiled, in eager mode"
            warnings.warn(message, GraphBreakWarning, stacklevel=user_level())
            return None

    def _compile_for(self, backend: "Backend", passes: str | None) -> "CompiledProgram":
        """Compile for a backend's target; keep the result while captured globals stay."""
        from lmc.compiler import compile_program

        key = (backend.target.fingerprint, passes)
        known = self._compiled.get(key)
        if known is None or not known.is_current():
            self._compiled[key] = known = compile_program(
                self, target=backend.target, passes=passes,
                takes_media=getattr(backend, "takes_media", False),
            )  # fmt: skip
        return known


def user_level() -> int:
    """Return how many frames above the caller the user's code is, for warnings."""
    level, frame = 0, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("lmc."):
        level, frame = level + 1, frame.f_back
    return max(1, level)


@overload
def function(body: "Callable[Concatenate[State, P], R]") -> Program[P, R]: ...


@overload
def function(
    body: None = None, num_api_spec_tokens: int | None = None
) -> "Callable[[Callable[Concatenate[State, P], R]], Program[P, R]]": ...


def function(body: Callable[..., Any] | None = None, num_api_spec_tokens: int | None = None) -> Any:
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
