"""The ways to run a program, compiled or not: once, streamed, awaited, or as a batch."""

import copy
import inspect
import secrets
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeVar, cast, overload

from lmc.argument_types import check_arguments
from lmc.errors import LmcError, UsageError
from lmc.ir.expressions import RUN_PARAMS
from lmc.ir.profile import check_profile

if TYPE_CHECKING:
    import typing_extensions

    from lmc.runtime.executor.handle import RunHandle
    from lmc.runtime.executor.runner import Runner
    from lmc.runtime.result import RunResult

    R = typing_extensions.TypeVar("R", default=Any)
else:
    R = TypeVar("R")

DEFAULTS = RUN_PARAMS
"""Decode parameters that a run may set for all generations that do not set their own."""

BatchItem = Mapping[str, Any] | Sequence[Any]
"""The arguments of one instance: by name, or by position."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the arguments of a run ask for.

    Attributes:
        bound: a value per parameter of the program.
        options: options of the run that were given.
        defaults: decode parameters for generations that do not set their own.
    """

    bound: dict[str, Any]
    options: dict[str, Any]
    defaults: dict[str, Any]


class Runnable(Generic[R]):
    """A program that can be run; subclasses say what runs it.

    Options that every run takes, by keyword, besides the program's own arguments and decode
    parameters: `backend` (a backend, a model's path or name, "oracle"; None: the default
    one), `seed` (None: drawn, and told in the result), `timeout` (seconds), `on_event`
    (called with kind, name, text and lineage as text comes), `profile` (a Profile that counts
    what calls and branches took), `speculate` ("on", or "off": nothing is computed ahead of
    choices), `tenant` (a text: for whom it runs; an engine serves several in turn).
    `use_thread` is taken for the reference frontend's programs and changes nothing. A
    program's own argument of the same name goes first.
    """

    name: str
    __name__: str
    __signature__: inspect.Signature
    __lmc_fixed__: dict[str, Any]
    run_options: ClassVar[tuple[str, ...]] = (
        "backend", "seed", "on_event", "timeout", "profile", "speculate", "tenant",
        "use_thread",
    )  # fmt: skip

    def _runner(self, options: dict[str, Any]) -> "Runner":
        """Return what runs the program; takes its own options out of `options`."""
        raise NotImplementedError

    # -- arguments -------------------------------------------------------------------------

    def bind(self, /, **arguments: Any) -> Self:
        """Return the same program with some arguments fixed.

        Raises:
            UsageError: the program has no such argument.
        """
        parameters = self.__signature__.parameters
        for name in arguments:
            if name not in parameters:
                raise UsageError(
                    f"program '{self.name}' has no argument '{name}'",
                    hint=f"its signature is {self.name}{self.__signature__}",
                )
        check_arguments(self.name, self.__signature__, arguments)
        made = copy.copy(self)
        made.__lmc_fixed__ = {**self.__lmc_fixed__, **arguments}
        left = [item for name, item in parameters.items() if name not in arguments]
        made.__signature__ = self.__signature__.replace(parameters=left)
        return made

    def _bind(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
        bound = bind_arguments(self.name, self.__signature__, tuple(args), dict(keywords))
        return {**self.__lmc_fixed__, **bound}

    def _request(self, args: Sequence[Any], keywords: Mapping[str, Any], *extra: str) -> Request:
        """Part keywords into the program's own, options (`extra` ones too) and parameters."""
        own, options, defaults = self._part(keywords, (*self.run_options, *extra))
        return Request(self._bind(args, own), options, defaults)

    def _part(
        self, keywords: Mapping[str, Any], allowed: Sequence[str]
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        own: dict[str, Any] = {}
        options: dict[str, Any] = {}
        defaults: dict[str, Any] = {}
        for key, value in keywords.items():
            if key in self.__signature__.parameters:
                own[key] = value
            elif key in allowed:
                options[key] = value
            elif key in DEFAULTS:
                if value is not None:
                    defaults[key] = value
            else:
                own[key] = value  # binding tells what is wrong
        return own, options, defaults

    # -- running ---------------------------------------------------------------------------

    @overload
    def run(self, /, *args: Any, stream: Literal[True], **keywords: Any) -> "RunHandle[R]": ...

    @overload
    def run(
        self, /, *args: Any, stream: Literal[False] = False, **keywords: Any
    ) -> "RunResult[R]": ...

    def run(self, /, *args: Any, **keywords: Any) -> Any:
        """Run the program and return its result.

        Args:
            args: the program's arguments, by position.
            keywords: the program's arguments by name, options (see the class) and decode
                parameters (see DEFAULTS). With `stream=True` the call returns at once, with
                a handle: `text_iter()` yields the text as it comes, reading waits.

        Raises:
            UsageError: the arguments do not fit the program.
            RunError: the program failed, or its time is over; tells the line and the
                prompt's tail.
        """
        return self._run(args, keywords)

    def _run(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        request = self._request(args, keywords, "stream")
        check_arguments(self.name, self.__signature__, request.bound)
        is_streamed = request.options.pop("stream", False)
        runner, options = self._prepared(request)
        if is_streamed:
            return runner.start(request.bound, **options)
        return runner.run(request.bound, **options)

    def stream(self, /, *args: Any, **keywords: Any) -> "RunHandle[R]":
        """Start the program and return a handle at once: `run` with `stream=True`."""
        return self._run(args, {**keywords, "stream": True})  # type: ignore[no-any-return]

    async def arun(self, /, *args: Any, **keywords: Any) -> "RunResult[R]":
        """Run the program without blocking the event loop, and return its result.

        A cancelled task cancels the run. Arguments and errors are those of `run`.
        """
        import asyncio

        request = self._request(args, keywords)
        check_arguments(self.name, self.__signature__, request.bound)
        # Opening a model or compiling takes long at first.
        runner, options = await asyncio.to_thread(self._prepared, request)
        return await runner.start(request.bound, is_streamed=False, **options)

    def run_bound(
        self, bound: Mapping[str, Any], *, instance: int = 0, **keywords: Any
    ) -> "RunResult[R]":
        """Run with a value per parameter, decode parameters in `defaults`; options as in `run`."""
        options: dict[str, Any] = {"defaults": {}, **keywords}
        name_profile(options.get("profile"), self.name)
        runner = self._runner(options)
        return runner.run(bound, instance=instance, **_seeded(options))

    def _prepared(self, request: Request) -> "tuple[Runner, dict[str, Any]]":
        """Return what runs a request, and the options for it."""
        options = {**request.options, "defaults": request.defaults}
        options.pop("use_thread", None)
        name_profile(options.get("profile"), self.name)
        runner = self._runner(options)
        return runner, _seeded(options)

    # -- batches ---------------------------------------------------------------------------

    @overload
    def run_batch(
        self,
        batch_kwargs: Iterable[BatchItem],
        *,
        generator_style: Literal[True],
        as_completed: Literal[False] = False,
        **keywords: Any,
    ) -> "Iterator[RunResult[R]]": ...

    @overload
    def run_batch(
        self,
        batch_kwargs: Iterable[BatchItem],
        *,
        as_completed: Literal[True],
        generator_style: bool = False,
        **keywords: Any,
    ) -> "Iterator[tuple[int, RunResult[R]]]": ...

    @overload
    def run_batch(
        self,
        batch_kwargs: Iterable[BatchItem],
        *,
        generator_style: Literal[False] = False,
        as_completed: Literal[False] = False,
        **keywords: Any,
    ) -> "list[RunResult[R]]": ...

    def run_batch(
        self,
        batch_kwargs: Iterable[BatchItem],
        *,
        num_threads: int | Literal["auto"] | None = None,
        progress_bar: bool = False,
        generator_style: bool = False,
        as_completed: bool = False,
        keep_errors: bool = False,
        **keywords: Any,
    ) -> Any:
        """Run once per set of arguments, many at a time.

        Args:
            batch_kwargs: dicts of arguments by name, or sequences of arguments by position.
            num_threads: how many instances run at a time; None or "auto": 64 compiled ones,
                32 in eager mode.
            progress_bar: show on stderr how many have ended.
            generator_style: return an iterator of the results in order, as they end.
            as_completed: return an iterator of (index, result) in the order in which they end.
            keep_errors: the error of a failed instance stands in its place; else the first
                one is raised, and what still runs is cancelled.
            keywords: options and decode parameters as in `run`, the same for all; `timeout`
                counts for each instance by itself.

        Returns:
            A list of results; an iterator with `generator_style` or `as_completed`. Leaving
            an iterator early cancels what still runs; it holds only the instances that run
            or have just ended.
        """
        is_list = not (generator_style or as_completed) and isinstance(batch_kwargs, Sequence)
        pairs = self._batch(
            batch_kwargs, num_threads, keep_errors, not as_completed, keywords, is_list=is_list
        )
        shown: Generator[tuple[int, Any], None, None]
        shown = self._counted(pairs, batch_kwargs) if progress_bar else pairs
        if as_completed:
            return shown
        results: Iterator[RunResult[R]] = (result for _, result in shown)
        if generator_style:
            return _closing(results, shown)
        return list(results)

    def run_batch_iter(
        self, batch: Iterable[BatchItem], **keywords: Any
    ) -> "Iterator[RunResult[R]]":
        """Yield the results of a batch in order, as they end; arguments as in `run_batch`."""
        run: Any = self.run_batch
        return cast("Iterator[RunResult[R]]", run(batch, generator_style=True, **keywords))

    def _batch(
        self,
        batch: Iterable[BatchItem],
        num_threads: Any,
        keep_errors: bool,
        in_order: bool,
        keywords: dict[str, Any],
        *,
        is_list: bool,
    ) -> "Generator[tuple[int, Any], None, None]":
        """Yield (index, result); `is_list` tells that all arguments are there, all results held."""
        own, options, defaults = self._part(keywords, self.run_options)
        if own:
            raise UsageError(f"'{self.name}' has no run option {next(iter(own))!r}")
        limit = None if num_threads in (None, "auto") else num_threads
        runner, options = self._prepared(Request({}, options, defaults))
        bound = (self._bind_item(number, item) for number, item in enumerate(batch))
        arguments = list(bound) if is_list else bound
        return runner.run_completed(
            arguments, limit=limit, keep_errors=keep_errors, in_order=in_order, **options
        )

    def _bind_item(self, number: int, item: Any) -> dict[str, Any] | LmcError:
        """Return an item's arguments, or what is wrong with them."""
        if not isinstance(item, (Mapping, list, tuple)):
            return UsageError(
                f"item {number} of the batch is {type(item).__name__}",
                hint="give a dict of arguments by name, or a tuple of them by position",
            )
        try:
            if isinstance(item, Mapping):
                bound = self._bind((), cast("Mapping[str, Any]", item))
            else:
                bound = self._bind(cast("Sequence[Any]", item), {})
            check_arguments(self.name, self.__signature__, bound)
        except LmcError as error:
            error.message = f"item {number} of the batch: {error.message}"
            return error
        return bound

    def _counted(
        self, pairs: "Generator[tuple[int, Any], None, None]", batch: Iterable[BatchItem]
    ) -> "Generator[tuple[int, Any], None, None]":
        """Yield the same, showing how many there were."""
        from lmc.progress import Progress

        total = len(batch) if isinstance(batch, Sized) else None
        with Progress() as progress, progress.running(f"running {self.name}", total) as task:
            try:
                for pair in pairs:
                    task.num_done += 1
                    yield pair
            finally:
                pairs.close()


def _closing(
    results: "Iterator[RunResult[R]]", pairs: "Generator[tuple[int, Any], None, None]"
) -> "Generator[RunResult[R], None, None]":
    """Yield results; leaving early closes what they come from."""
    try:
        yield from results
    finally:
        pairs.close()


def _seeded(options: dict[str, Any]) -> dict[str, Any]:
    """Return options with a seed: the one given, or one that is drawn."""
    seed = options.get("seed")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise UsageError(f"seed must be an int, not {seed!r}", hint="leave it out to draw one")
    return {**options, "seed": secrets.randbits(63) if seed is None else seed}


def name_profile(profile: Any, program: str) -> None:
    """Note whose runs a profile counts; raises UsageError for what is no profile."""
    if profile is None:
        return
    check_profile(profile)
    profile.program = profile.program or program


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
        key: copy.deepcopy(cast("Any", value))
        if key not in given and isinstance(value, (list, dict, set))
        else value
        for key, value in bound.arguments.items()
    }
