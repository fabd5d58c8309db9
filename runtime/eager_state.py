"""States of eager mode: objects with the language's operators, over the executor's states."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from lmc.errors import AppendError, RunError
from lmc.ir import expressions as ex
from lmc.ir.expressions import GEN_PARAMS, SELECT_PARAMS
from lmc.ir.location import Instruction
from lmc.ir.reasoning import REASONING_NAME, split_reasoning
from lmc.runtime.executor.frame import Scope
from lmc.runtime.executor.slots import StateHandle, known
from lmc.runtime.prompt_state import Lineage

if TYPE_CHECKING:
    from lmc.runtime.eager import EagerRun

ROLES = ("system", "user", "assistant")


class EagerState:
    """A prompt in progress as the body of a program sees it: `s`.

    `lineage` and `ordinal` place its next call, as in a compiled run.
    """

    __iter__ = None

    def __init__(
        self, run: "EagerRun", scope: Scope, handle: StateHandle, lineage: Lineage
    ) -> None:
        self.handle = handle
        self.lineage = lineage
        self.ordinal = 0
        self._run = run
        self._scope = scope
        self._copies: EagerForks | None = None
        self._unnamed: dict[int, list[Any]] = {}

    def __repr__(self) -> str:
        return f"<state {'/'.join(self.lineage) or 'root'}>"

    def __str__(self) -> str:
        """Return what the reference frontend shows: the text between words."""
        return f"ProgramState({self.text()})"

    def __format__(self, spec: str) -> str:
        raise self._error("a prompt state is not text", "use its text(): s.text()")

    # -- appending -------------------------------------------------------------------------

    def __iadd__(self, value: Any) -> "EagerState":
        """Append text or an expression of the language."""
        for part in self._parts(value):
            self._append(part)
        return self

    def _parts(self, value: Any) -> Sequence[Any]:
        try:
            return ex.sequence(value).parts
        except TypeError as error:
            wrong = value.handle if isinstance(value, EagerState) else value
            if not isinstance(wrong, str):
                self._step("lm.extend", wrong)  # which tells what is wrong, and the prompt's end
            raise self._error(str(error), kind=AppendError) from None

    def _append(self, part: Any) -> None:
        match part:
            case str():
                self._step("lm.extend", part)
            case ex.Gen() if part.reasoning:
                self._separated(part)
            case ex.Gen(name):
                before = self.handle
                made = self._call("lm.gen", part, GEN_PARAMS)
                self._remember(part, made)
                if part.append:
                    self._add_to_list(str(name), before, made[0])
            case ex.Select(_, choices):
                made = self._call("lm.select", part, SELECT_PARAMS, list(choices))
                self._remember(part, made)
            case ex.RoleBegin(role):
                self._step("lm.begin", role=role, made=part.made)
            case ex.RoleEnd(role):
                self._step("lm.end", role=role, made=part.made)
            case ex.Media(kind, source, num_frames):
                frames = () if kind == "image" else (num_frames,)
                self._step("lm.image", source, *frames, kind=kind, made=part.made)
            case ex.Control(token):
                self._step("lm.control", token=token, made=part.made)
            case _:
                what = f"cannot append {type(part).__name__} to a prompt"
                raise self._error(what, kind=AppendError)

    def _step(
        self,
        op: str,
        *inputs: Any,
        num_values: int = 0,
        made: Instruction | None = None,
        **attributes: Any,
    ) -> list[Any]:
        """Apply an op that gives this state its next content; return its other outputs.

        `made` is where the user's code made what is appended; else the op is at its own line.
        """
        slots = self._run.apply(
            op, (self.handle, *inputs), attributes, self._scope, num_values=num_values, made=made
        )
        self.handle = slots[0].value
        return slots[1:]

    def _call(
        self,
        op: str,
        part: ex.Gen[Any] | ex.Select,
        allowed: Sequence[str],
        *inputs: Any,
    ) -> list[Any]:
        known = {key: part.params[key] for key in allowed if key in part.params}
        attributes: dict[str, Any] = {"params": known, "dynamic": []}
        if part.name is not None:
            attributes["name"] = part.name
        if isinstance(part, ex.Gen) and part.reasoning:
            attributes["quiet"] = True
        try:
            made = self._step(op, *inputs, num_values=2, made=part.made, **attributes)
        except Exception:
            if self._run.is_in_try():
                self.tick()  # a call that fails counts, so that the next one has another key
            raise
        self.ordinal += 1
        return made

    def _add_to_list(self, name: str, before: StateHandle, value: Any) -> None:
        """Make the variable the list that it was before, and the value; waits for it."""
        after, self.handle = self.handle, before
        held = self[name] if name in self else []
        self.handle = after
        if not isinstance(held, list):
            raise self._error(f"the variable {name!r} is no list to add to: {held!r:.80}")
        self[name] = [*held, self._run.wait(value)]

    def _remember(self, part: ex.Gen[Any] | ex.Select, made: list[Any]) -> None:
        """Keep value and meta dict of an unnamed call, which its expression reads."""
        if part.name is None:
            self._unnamed[part.serial] = made

    def _separated(self, part: ex.Gen[Any]) -> None:
        """Generate aside and append only what follows the reasoning; waits for it."""
        before = self.handle
        made = self._call("lm.gen", part, GEN_PARAMS)
        reasoning, answer = split_reasoning(self._run.wait(made[0]), part.reasoning)
        self.handle = before
        self._step("lm.tick", n=1)
        self._step("lm.extend", answer)
        self._remember(part, [known(answer)])
        if part.name is not None:
            self[part.name] = answer
            self[part.name + REASONING_NAME] = reasoning

    def tick(self) -> None:
        """Count a call."""
        self._step("lm.tick", n=1)
        self.ordinal += 1

    # -- reading ---------------------------------------------------------------------------

    def _read(self, op: str, **attributes: Any) -> Any:
        made = self._run.apply(
            op, (self.handle,), attributes, self._scope, num_values=1, gives_state=False
        )
        return self._run.wait(made[0])

    def __getitem__(self, key: Any) -> Any:
        """Return a variable, by its name or its generation; waits for it."""
        if self._is_unnamed(key):
            return self._of_call(key, 0)
        return self._read("lm.get", name=self._name(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        """Set a variable; the prompt is unchanged."""
        if isinstance(value, (EagerState, EagerForks)):
            raise self._error("a variable cannot hold a prompt state", "keep it under a name")
        self._step("lm.set", value, name=self._name(key))

    def __contains__(self, key: Any) -> bool:
        if self._is_unnamed(key):
            return key.serial in self._unnamed
        return self._read("lm.has", name=self._name(key))

    def _is_unnamed(self, key: Any) -> bool:
        return isinstance(key, (ex.Gen, ex.Select)) and key.name is None

    def _of_call(self, key: ex.Gen[Any] | ex.Select, index: int) -> Any:
        """Return the value (0) or the meta dict (1) of an unnamed call made on this state."""
        made = self._unnamed.get(key.serial, ())
        if len(made) <= index:
            raise self._error(ex.NO_VALUE, ex.NO_VALUE_HINT)
        return self._run.wait(made[index])

    def _name(self, key: Any) -> str:
        name = ex.name_of_key(key)
        if name is None and key is not None:
            raise self._error(ex.UNNAMED_KEY, ex.UNNAMED_HINT)
        if not isinstance(name, str):
            raise self._error(f"a variable's name is a str, not {key!r:.80}")
        return name

    def text(self) -> str:
        """Return the whole text, control tokens spelled out; waits for it."""
        return self._read("lm.text")

    def messages(self) -> list[dict[str, Any]]:
        """Return the turns as {'role', 'content'} dicts; waits for them."""
        return self._read("lm.messages")

    def get_meta_info(self, name: Any) -> Any:
        """Return the meta dict of the call that set a variable."""
        if self._is_unnamed(name):
            return self._of_call(name, 1)
        return self._read("lm.meta", name=self._name(name))

    def get_var(self, name: Any) -> Any:
        """Return a variable."""
        return self[name]

    def set_var(self, name: Any, value: Any) -> None:
        """Set a variable."""
        self[name] = value

    def set(self, name: Any, value: Any) -> None:
        """Set a variable."""
        self[name] = value

    def sync(self) -> None:
        """Do nothing: reading a value waits for it."""

    def error(self) -> None:
        """Return None: errors are raised where they are noticed."""

    # -- roles -----------------------------------------------------------------------------

    def system(self, expr: Any = None) -> Any:
        """Append a system turn, or open one for a with statement."""
        return self._role("system", expr)

    def user(self, expr: Any = None) -> Any:
        """Append a user turn, or open one for a with statement."""
        return self._role("user", expr)

    def assistant(self, expr: Any = None) -> Any:
        """Append an assistant turn, or open one for a with statement."""
        return self._role("assistant", expr)

    def _role(self, role: str, expr: Any) -> AbstractContextManager[None] | None:
        if expr is None:
            return self._turn(role)
        parts = self._parts(expr)
        self += ex.Sequence((ex.RoleBegin(role), *parts, ex.RoleEnd(role)))
        return None

    @contextmanager
    def _turn(self, role: str) -> Iterator[None]:
        self._append(ex.RoleBegin(role))
        yield
        self._append(ex.RoleEnd(role))

    def __getattr__(self, name: str) -> Callable[[], None]:
        role, _, side = name.rpartition("_")
        if role in ROLES and side in ("begin", "end"):
            part = ex.RoleBegin(role) if side == "begin" else ex.RoleEnd(role)
            return lambda: self._append(part)
        raise AttributeError(f"a state has no attribute {name!r}")

    @contextmanager
    def unordered(self) -> Iterator[None]:
        """Mark what is appended inside as pieces whose order is free."""
        self._step("lm.unordered", side="begin")
        yield
        self._step("lm.unordered", side="end")

    @contextmanager
    def var_scope(self, name: str) -> Iterator[None]:
        """Set a variable to everything that is appended inside."""
        start = len(self.text())
        yield
        self[name] = self.text()[start:]

    # -- forks -----------------------------------------------------------------------------

    def fork(self, size: int = 1, position_ids_offset: Any = None) -> "EagerForks":
        """Return `size` children that go on from here on their own."""
        (children,) = self._step("lm.fork", size, num_values=1)
        handles = self._run.wait(children)
        paths = [(*self.lineage, f"fork{self.ordinal}.{index}") for index in range(len(handles))]
        self.ordinal += 1
        states = [
            EagerState(self._run, self._scope, handle, lineage)
            for handle, lineage in zip(handles, paths, strict=True)
        ]
        for state in states:
            state._unnamed = dict(self._unnamed)
        return EagerForks(self, states)

    def copy(self, position_ids_offset: Any = None) -> "EagerState":
        """Return a copy that goes on on its own: a fork of one.

        In a with statement its new variables are gathered at the end.
        """
        group = self.fork(1)
        group[0]._copies = group
        return group[0]

    def __enter__(self) -> "EagerState":
        """Open `with s.copy() as c`."""
        if self._copies is None:
            raise self._error("only a copy is used in a with statement", "with s.copy() as c:")
        return self

    def __exit__(self, *raised: object) -> None:
        """Gather the copy's new variables."""
        if self._copies is not None and raised[0] is None:
            self._copies.join()

    def join(self, children: "EagerForks", mode: str) -> None:
        """Join children into this state."""
        self._step("lm.join", [child.handle for child in children], mode=mode)

    def _error(
        self, message: str, hint: str | None = None, kind: type[RunError] = RunError
    ) -> Exception:
        return self._run.caught(kind(message, hint=hint, location=self._run.locate()))


class EagerForks:
    """The children of a fork."""

    def __init__(self, parent: EagerState, forks: list[EagerState]) -> None:
        self.forks = forks
        self._parent = parent

    def __len__(self) -> int:
        return len(self.forks)

    def __iter__(self) -> Iterator[EagerState]:
        return iter(self.forks)

    def __getitem__(self, index: Any) -> Any:
        """Return a child, or a list of some."""
        return self.forks[index]

    def __setitem__(self, index: int, value: EagerState) -> None:
        """Put back a child: what `forks[i] += ...` does."""
        if not isinstance(value, EagerState):
            self._refuse("only states stand among the children of a fork")
        self.forks[index] = value

    def __iadd__(self, value: Any) -> "EagerForks":
        """Append to every child: the same, the i-th of a list, or what value(i) gives."""
        if isinstance(value, (list, tuple)):
            for child, item in self._pairs(value):
                child += item
        else:
            for index, child in enumerate(self.forks):
                child += value(index) if callable(value) else value
        return self

    def _pairs(self, values: Sequence[Any]) -> list[tuple[EagerState, Any]]:
        """Pair children and values; another number of values is the error of a strict zip."""
        try:
            return list(zip(self.forks, values, strict=True))
        except ValueError as error:
            self._refuse(f"ValueError: {error}")

    def join(self, mode: str = "gather_variable") -> None:
        """Join the children into the state that was forked."""
        self._parent.join(self, mode)

    def _refuse(self, message: str) -> NoReturn:
        raise self._parent._error(message)
