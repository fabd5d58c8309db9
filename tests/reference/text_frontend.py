"""A second meaning of the language, on plain strings, to compare lmc's modes with.

A state is its text, its variables and its turns; a call is told by the bytes of its prompt.
Answers are replayed by prompt, so a call with other bytes finds none. Nothing of lmc's
runtime, IR or capture is used, only the expressions that the language's words make.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from lmc.ir import expressions as ex
from lmc.ir.reasoning import REASONING

OPEN, CLOSE = "<|im_start|>", "<|im_end|>\n"
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


@dataclass(frozen=True, slots=True)
class Asked:
    """A call, by what it says to a model: prompt, stops, limit; or the prompt with each option."""

    prompt: str = ""
    stop: tuple[str, ...] = ()
    max_tokens: int = 0
    temperature: float = 0.0
    options: tuple[str, ...] = ()


class Replay:
    """Answers calls with what was answered before; keeps what was asked, in order."""

    def __init__(self, answers: Sequence[tuple[Asked, Any]], defaults: dict[str, Any]) -> None:
        self.defaults = {"max_tokens": 128, "temperature": 1.0, "stop": ()} | defaults
        self.asked: list[Asked] = []
        self._answers: dict[Asked, list[Any]] = defaultdict(list)
        for asked, answer in answers:
            self._answers[asked].append(answer)

    def answer(self, asked: Asked) -> Any:
        """Return the next answer to these words; a call that was never made is an error."""
        self.asked.append(asked)
        assert self._answers[asked], f"lmc did not ask this: {asked!r}"
        return self._answers[asked].pop(0)


class TextState:
    """A prompt in progress as text."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self.written = ""
        self.variables: dict[str, Any] = {}
        self.infos: dict[str, Any] = {}
        self.turns: list[dict[str, str]] = []
        self.turn_start = 0
        self.fork_start = 0

    def __iadd__(self, value: Any) -> "TextState":
        for part in ex.sequence(value).parts:
            self._append(part)
        return self

    def _append(self, part: Any) -> None:
        match part:
            case str():
                self.written += part
            case ex.Gen(name, params, reasoning):
                self._generate(name, params, reasoning)
            case ex.Select(name, choices):
                chosen = choices[0]
                if len(choices) > 1:
                    asked = Asked(options=tuple(self.written + choice for choice in choices))
                    chosen = choices[self.replay.answer(asked)]
                self._keep(name, chosen)
                self.written += chosen
            case ex.RoleBegin(role):
                if not self.turns and role != "system":
                    self += ex.sequence(ex.RoleBegin("system"), SYSTEM, ex.RoleEnd("system"))
                self.written += f"{OPEN}{role}\n"
                self.turn_start = len(self.written)
            case ex.RoleEnd(role):
                content = self.written[self.turn_start :].lstrip()
                self.turns.append({"role": role, "content": content})
                self.written += CLOSE
            case _:
                raise AssertionError(f"not of the reference frontend: {part!r}")

    def _generate(self, name: str | None, params: dict[str, Any], reasoning: str) -> None:
        given = self.replay.defaults | params
        stop = (given["stop"],) if isinstance(given["stop"], str) else tuple(given["stop"])
        asked = Asked(self.written, stop, given["max_tokens"], float(given["temperature"]))
        answers = [self.replay.answer(asked) for _ in range(given.get("n", 1))]
        texts = [text for text, _ in answers]
        if reasoning:
            marks = REASONING[reasoning]
            said = texts[0].removeprefix(marks.opening)
            thought, after = "", [said]
            if marks.is_assumed or said != texts[0]:
                thought, *after = said.split(marks.closing, maxsplit=1)
            texts[0] = after[0] if after else ""
            self._keep(f"{name}_reasoning_content", thought)
        self._keep(name, texts if len(texts) > 1 else texts[0])
        if name is not None:
            self.infos[name] = answers[0][1]
        self.written += texts[0]

    def _keep(self, name: str | None, value: Any) -> None:
        if name is not None:
            self.variables[name] = value

    # Reading and writing variables.

    def __getitem__(self, name: str) -> Any:
        return self.variables[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.variables[name] = value

    def __contains__(self, name: str) -> bool:
        return name in self.variables

    def __str__(self) -> str:
        return f"ProgramState({self.written})"

    get_var, set_var = __getitem__, __setitem__

    def text(self) -> str:
        return self.written

    def messages(self) -> list[dict[str, str]]:
        return self.turns

    def sync(self) -> None:
        """Everything is there at once."""

    def error(self) -> None:
        """Errors are raised."""

    def get_meta_info(self, name: str) -> Any:
        return self.infos[name]

    # Turns, scopes, forks.

    def _turn(self, role: str, expr: Any) -> Any:
        if expr is None:
            return self._block(ex.RoleBegin(role), ex.RoleEnd(role))
        self += ex.sequence(ex.RoleBegin(role), expr, ex.RoleEnd(role))
        return None

    @contextmanager
    def _block(self, begin: ex.RoleBegin, end: ex.RoleEnd) -> Iterator[None]:
        self += begin
        yield
        self += end

    def system(self, expr: Any = None) -> Any:
        return self._turn("system", expr)

    def user(self, expr: Any = None) -> Any:
        return self._turn("user", expr)

    def assistant(self, expr: Any = None) -> Any:
        return self._turn("assistant", expr)

    @contextmanager
    def var_scope(self, name: str) -> Iterator[None]:
        start = len(self.written)
        yield
        self.variables[name] = self.written[start:]

    def fork(self, size: int = 1, position_ids_offset: Any = None) -> "TextForks":
        return TextForks(self, [self._child() for _ in range(size)])

    def _child(self) -> "TextState":
        child = TextState(self.replay)
        child.written, child.turn_start = self.written, self.turn_start
        child.fork_start = len(self.written)
        child.variables, child.turns = dict(self.variables), list(self.turns)
        return child

    @contextmanager
    def copy(self) -> Iterator["TextState"]:
        forks = self.fork(1)
        yield forks[0]
        forks.join()


class TextForks:
    """The children of a fork."""

    def __init__(self, parent: TextState, children: list[TextState]) -> None:
        self.parent, self.children = parent, children

    def __getitem__(self, index: int) -> TextState:
        return self.children[index]

    def __setitem__(self, index: int, child: TextState) -> None:
        assert self.children[index] is child

    def __len__(self) -> int:
        return len(self.children)

    def __iadd__(self, value: Any) -> "TextForks":
        for index, child in enumerate(self.children):
            what = value(index) if isinstance(value, Callable) else value  # type: ignore[arg-type]
            child += what[index] if isinstance(what, (list, tuple)) else what
        return self

    def join(self, mode: str = "gather_variable") -> None:
        if mode == "concate_and_append":
            self.parent.written += "".join(c.written[c.fork_start :] for c in self.children)
            return
        known = set(self.parent.variables)
        for child in self.children:
            for name in child.variables.keys() - known:
                self.parent.variables.setdefault(name, []).append(child.variables[name])
