"""What a run gives: value, final state, the calls that it needed, and what they took."""

from collections.abc import AsyncIterator, Iterable, Iterator, KeysView
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from lmc.errors import UsageError
from lmc.ir import expressions as ex
from lmc.ir.calls import CallUsage, GenCall, GenResult, ScoreCall, ScoreResult, TokenCounts
from lmc.runtime.exactness import Exactness
from lmc.runtime.prompt_state import Lineage, PromptState

if TYPE_CHECKING:
    import typing_extensions

    R = typing_extensions.TypeVar("R", default=Any)
else:
    R = TypeVar("R")
T = TypeVar("T")

Key = str | ex.Gen[Any] | ex.Select
"""What a variable is read by: its name, or the generation that sets it."""


def named(key: Key) -> str:
    """Return the name of a variable; raises UsageError for a generation without one."""
    name = ex.name_of_key(key)
    if name is None:
        raise UsageError(ex.UNNAMED_KEY, hint=ex.UNNAMED_HINT)
    return name


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One model call with its answer.

    Attributes:
        name: the program's name for the call; "" for an unnamed one.
        lineage: lineage of the state that it was made on.
        ordinal: its number in that lineage.
        sample: which of n samples; for a select, 1 marks the score without context.
        call: what was asked.
        result: what came back.
    """

    name: str
    lineage: Lineage
    ordinal: int
    sample: int
    call: GenCall | ScoreCall
    result: GenResult | ScoreResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUsage(TokenCounts):
    """Token counts of all model calls of a run, and times in seconds.

    `calls` counts calls that were answered, also those that nothing needed in the end.
    `prologue_tokens` were computed for constant prefixes by this run (shared ones count
    where they were computed first), `shared_tokens` for common prefixes of groups;
    `held_back_tokens` is the longest tail of a constant prefix that could not be computed
    ahead. `chain_steps` are the decode steps of the longest chain of calls each of which was
    asked when the one before had been answered: what waited for one another.
    `speculated_tokens` were computed ahead of choices: `adopted_tokens` for what came, and
    `wasted_tokens`. `ahead_tokens` are those of them that no call counts as its own: prefixes,
    and what was in vain. `longest_queue_seconds` is the most that a call waited for its first
    step, `longest_gap_seconds` the most between two output tokens of a call. `decode_seconds`
    are the times from the calls' first tokens to their last, added up, with `num_gaps` between.
    """

    calls: int = 0
    prologue_tokens: int = 0
    shared_tokens: int = 0
    held_back_tokens: int = 0
    chain_steps: int = 0
    speculated_tokens: int = 0
    adopted_tokens: int = 0
    wasted_tokens: int = 0
    ahead_tokens: int = 0
    first_token_seconds: float | None = None
    seconds: float = 0.0
    longest_queue_seconds: float = 0.0
    longest_gap_seconds: float = 0.0
    decode_seconds: float = 0.0
    num_gaps: int = 0

    @property
    def mean_gap_seconds(self) -> float:
        """Mean time between two output tokens of a call."""
        return self.decode_seconds / max(1, self.num_gaps)


def sum_usage(
    usages: Iterable[CallUsage],
    *,
    prologue_tokens: int = 0,
    shared_tokens: int = 0,
    held_back_tokens: int = 0,
    chain_steps: int = 0,
    first_token_seconds: float | None = None,
    seconds: float = 0.0,
) -> RunUsage:
    """Add up the usage of calls."""
    listed = list(usages)
    return RunUsage(
        calls=len(listed),
        **{each.name: sum(getattr(u, each.name) for u in listed) for each in fields(TokenCounts)},
        prologue_tokens=prologue_tokens,
        shared_tokens=shared_tokens,
        held_back_tokens=held_back_tokens,
        chain_steps=chain_steps,
        first_token_seconds=first_token_seconds,
        seconds=seconds,
        longest_queue_seconds=max((u.queue_seconds for u in listed), default=0.0),
        decode_seconds=sum(u.decode_seconds for u in listed),
        num_gaps=sum(max(0, u.output_tokens - 1) for u in listed),
        longest_gap_seconds=max((u.longest_gap_seconds for u in listed), default=0.0),
    )


class RunState:
    """A finished prompt state, to be read."""

    def __init__(self, state: PromptState, variables: dict[str, Any] | None = None) -> None:
        self._state = state
        held = state.variables if variables is None else variables
        self._variables = {k: v for k, v in held.items() if not k.startswith(ex.HIDDEN)}

    def __repr__(self) -> str:
        return f"<state {self._state.text_len} characters, variables {list(self.variables)}>"

    @property
    def variables(self) -> dict[str, Any]:
        """The named variables with their values."""
        return dict(self._variables)

    @property
    def lineage(self) -> Lineage:
        """The path of forks and nested calls that made the state."""
        return self._state.lineage

    @overload
    def __getitem__(self, key: ex.Gen[T]) -> T: ...

    @overload
    def __getitem__(self, key: ex.Select) -> str: ...

    @overload
    def __getitem__(self, key: str) -> Any: ...

    def __getitem__(self, key: Key) -> Any:
        """Return a variable; raises RunError, listing the names, where it is not set."""
        name = named(key)
        if name not in self._variables:
            self._state.get(name)
        return self._variables[name]

    def __setitem__(self, key: Key, value: Any) -> None:
        """Set a variable for those who read this result later; the prompt is unchanged."""
        self._variables = {**self._variables, named(key): value}

    def __contains__(self, key: object) -> bool:
        return ex.name_of_key(key) in self._variables

    def text(self) -> str:
        """Return the whole text, control tokens spelled out."""
        return self._state.text()

    def messages(self) -> list[dict[str, Any]]:
        """Return the turns as {'role', 'content'} dicts."""
        return self._state.messages()

    def get_meta_info(self, name: Key) -> Any:
        """Return the meta dict of the call that set a variable."""
        return self._state.meta(named(name))


class Readings(Generic[R]):
    """What can be read of a run: its final state's text and variables, its return value."""

    __slots__ = ()

    state: RunState
    value: R

    @property
    def ret_value(self) -> R:
        """The return value, by the reference frontend's name."""
        return self.value

    @property
    def variables(self) -> dict[str, Any]:
        """The named variables of the final state."""
        return self.state.variables

    @overload
    def __getitem__(self, key: ex.Gen[T]) -> T: ...

    @overload
    def __getitem__(self, key: ex.Select) -> str: ...

    @overload
    def __getitem__(self, key: str) -> Any: ...

    def __getitem__(self, key: Key) -> Any:
        """Return a variable of the final state, by its name or its generation."""
        return self.state[key]

    def __setitem__(self, key: Key, value: Any) -> None:
        """Set a variable of the final state; the prompt is unchanged."""
        self.state[key] = value

    def __contains__(self, key: object) -> bool:
        return key in self.state

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the variables."""
        return iter(self.state.variables)

    def keys(self) -> KeysView[str]:
        """Return the names of the variables, so that dict(...) works."""
        return self.state.variables.keys()

    def get_var(self, name: Key) -> Any:
        """Return a variable of the final state."""
        return self.state[name]

    def set_var(self, name: Key, value: Any) -> None:
        """Set a variable of the final state; the prompt is unchanged."""
        self.state[name] = value

    def get_meta_info(self, name: Key) -> Any:
        """Return the meta dict of the call that set a variable of the final state."""
        return self.state.get_meta_info(name)

    def text(self) -> str:
        """Return the text of the final state."""
        return self.state.text()

    def messages(self) -> list[dict[str, Any]]:
        """Return the turns of the final state as {'role', 'content'} dicts."""
        return self.state.messages()


@dataclass(frozen=True, slots=True)
class RunResult(Readings[R]):
    """The result of a run.

    Attributes:
        value: what the program returned; states in it are RunStates.
        state: the final root state.
        calls: the model calls that the result needed, in program order.
        usage: what all calls took.
        seed: the seed that the random keys were derived from.
        instance: the index of this run in its batch.
        exactness: whether the back end is known to be exact on this machine.
    """

    value: R
    state: RunState
    calls: list[CallRecord] = field(default_factory=list[CallRecord], repr=False)
    usage: RunUsage = field(default_factory=RunUsage, repr=False)
    seed: int = 0
    instance: int = 0
    exactness: Exactness = field(default_factory=Exactness, repr=False)

    def __str__(self) -> str:
        """Return 'ProgramState(...)' with the text, as the reference frontend does."""
        return f"ProgramState({self.text()})"

    def sync(self) -> None:
        """Do nothing: the run has ended."""

    def error(self) -> None:
        """Return None: a run that fails raises its error."""

    def text_iter(self, var_name: Key | None = None) -> Iterator[str]:
        """Yield the text, or a variable's, in one piece."""
        text = self.text() if var_name is None else str(self[var_name])
        if text:
            yield text

    async def text_async_iter(
        self, var_name: Key | None = None, return_meta_data: bool = False
    ) -> AsyncIterator[Any]:
        """Yield the text, or a variable's with its meta dict if asked for, in one piece."""
        for piece in self.text_iter(var_name):
            is_pair = return_meta_data and var_name is not None
            yield (piece, self.get_meta_info(var_name)) if is_pair else piece  # type: ignore[arg-type]
