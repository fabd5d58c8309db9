"""What a program's body may do with its state, for those who annotate and for type checkers.

`s: lmc.State` names the parameter of every program. At run time it is an object of eager
mode, or nothing at all: a compiled program never runs its body.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar, overload

from lmc.ir import expressions as ex

T = TypeVar("T")

Appendable = str | ex.Expression
"""What can be appended to a state."""

Key = str | ex.Gen[Any] | ex.Select
"""What a variable is read by: its name, or the generation or choice that sets it."""


class State(Protocol):
    """A prompt in progress: what `s` is in the body of a program."""

    def __iadd__(self, value: Appendable, /) -> Self:
        """Append a text, or an expression of the language."""
        ...

    @overload
    def __getitem__(self, key: ex.Gen[T], /) -> T: ...

    @overload
    def __getitem__(self, key: ex.Select, /) -> str: ...

    @overload
    def __getitem__(self, key: str, /) -> Any: ...

    def __getitem__(self, key: Key, /) -> Any:
        """Read a variable by its name, or the value of a generation by its expression."""
        ...

    def __setitem__(self, key: Key, value: Any, /) -> None:
        """Set a variable; the prompt is unchanged."""
        ...

    def __contains__(self, key: object, /) -> bool:
        """Whether a variable is set."""
        ...

    @overload
    def get_var(self, name: ex.Gen[T]) -> T: ...

    @overload
    def get_var(self, name: ex.Select) -> str: ...

    @overload
    def get_var(self, name: str) -> Any: ...

    def get_var(self, name: Key) -> Any:
        """Read a variable."""
        ...

    def set_var(self, name: Key, value: Any) -> None:
        """Set a variable."""
        ...

    def set(self, name: Key, value: Any) -> None:
        """Set a variable."""
        ...

    def get_meta_info(self, name: Key) -> Any:
        """Return the meta dict of the call that set a variable."""
        ...

    def text(self) -> str:
        """Return the whole prompt so far."""
        ...

    def messages(self) -> list[dict[str, Any]]:
        """Return the turns so far as {'role', 'content'} dicts."""
        ...

    def sync(self) -> None:
        """Do nothing: reading a value waits for it."""
        ...

    def error(self) -> None:
        """Return None: errors are raised where they happen."""
        ...

    @overload
    def system(self, expr: Appendable) -> None: ...

    @overload
    def system(self) -> AbstractContextManager[None]: ...

    def system(self, expr: Any = None) -> Any:
        """Append a system turn, or open one in a with statement."""
        ...

    @overload
    def user(self, expr: Appendable) -> None: ...

    @overload
    def user(self) -> AbstractContextManager[None]: ...

    def user(self, expr: Any = None) -> Any:
        """Append a user turn, or open one in a with statement."""
        ...

    @overload
    def assistant(self, expr: Appendable) -> None: ...

    @overload
    def assistant(self) -> AbstractContextManager[None]: ...

    def assistant(self, expr: Any = None) -> Any:
        """Append an assistant turn, or open one in a with statement."""
        ...

    def system_begin(self) -> None:
        """Open a system turn."""
        ...

    def system_end(self) -> None:
        """Close a system turn."""
        ...

    def user_begin(self) -> None:
        """Open a user turn."""
        ...

    def user_end(self) -> None:
        """Close a user turn."""
        ...

    def assistant_begin(self) -> None:
        """Open an assistant turn."""
        ...

    def assistant_end(self) -> None:
        """Close an assistant turn."""
        ...

    def unordered(self) -> AbstractContextManager[None]:
        """Mark what is appended inside a with statement as pieces whose order is free."""
        ...

    def var_scope(self, name: str) -> AbstractContextManager[None]:
        """Make a variable of all that is appended inside a with statement."""
        ...

    def fork(self, size: int = 1, position_ids_offset: Any = None) -> "Forks":
        """Return children that go on from here on their own."""
        ...

    def copy(self, position_ids_offset: Any = None) -> "State":
        """Return a copy that goes on on its own; in a with statement it is joined at the end."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...


class Forks(Protocol):
    """The children of a fork."""

    @property
    def forks(self) -> Sequence[State]:
        """The children."""
        ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[State]: ...

    @overload
    def __getitem__(self, index: int, /) -> State: ...

    @overload
    def __getitem__(self, index: slice, /) -> list[State]: ...

    def __getitem__(self, index: Any, /) -> Any:
        """Return a child, or a list of some."""
        ...

    def __setitem__(self, index: int, value: State, /) -> None:
        """Put a child back, as `forks[i] += ...` does."""
        ...

    def __iadd__(
        self, value: Appendable | Sequence[Appendable] | Callable[[int], Appendable], /
    ) -> Self:
        """Append to every child: the same, the i-th of a list, or what value(i) gives."""
        ...

    def join(self, mode: str = "gather_variable") -> None:
        """Join the children into the state that was forked."""
        ...
