"""Host functions while a program is checked: stand-ins, or the real ones called once.

A checked program runs in many modes, so its host functions must answer every mode alike and
must not do their work many times over. By default they are not called at all: a stand-in
answers by a hash of its name and arguments, of the type that the function is annotated to
return, and in some examples it raises. With `call_host` the first run calls the real
functions, and the others are told what they answered.
"""

import copy
import sys
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from enum import Enum
from types import CellType, FunctionType, ModuleType
from typing import Any, cast, get_args, get_origin, get_type_hints

from lmc.checking.values import OWN, is_noted, shown_call
from lmc.ir.core import Module
from lmc.runtime.oracle_text import Draw

WORDS = ("fine", "", " yes", "no\n", "naïve 🙂", "3", "one two", "x" * 9)
DEPTH = 3

_NOTHING = frozenset({"builtins:print", "time:sleep"})
"""Functions without annotations that are known to return None."""

Host = dict[str, Callable[..., Any]]


class HostStandIns:
    """Stands in for a program's host functions and notes how they are called.

    `functions` are the stand-ins by 'module:qualname'; `calls` the effectful calls, as text,
    since the mode began.

    Args:
        host: the real functions, as capture found them.
        module: tells which of them are declared pure: their calls are not compared.
        words: texts that answers are taken from, beside those of this file.
        call_host: whether the first mode of each example calls the real functions.
    """

    def __init__(
        self,
        host: Mapping[str, Callable[..., Any]],
        module: Module,
        words: Sequence[str],
        *,
        call_host: bool = False,
    ) -> None:
        pure = {str(op.attributes["callee"]) for op in module.walk() if op.name == "host.pure"}
        tests = [op.attributes["classes"] for op in module.walk() if op.name == "host.matches"]
        self._classes = {str(name) for names in tests for name in cast("list[str]", names)}
        self.real: Host = dict(host)
        self.calls: list[str] = []
        self._words = (*WORDS, *words)
        self._noted = {name for name in host if is_noted(name)} - pure
        self._kinds = {name: _return_kind(function) for name, function in host.items()}
        self._call_host = call_host
        self._seed = 0
        self._may_raise = False
        self._answers: dict[tuple[str, int], tuple[bool, Any]] = {}
        self._is_recorded = False
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.functions: Host = {name: self._stand_in(name) for name in host}

    def begin_example(self, seed: int, *, may_raise: bool = False) -> None:
        """Start an example: answers are drawn, or asked for, anew; some stand-ins may raise."""
        self._seed = seed
        self._may_raise = may_raise
        self._answers = {}
        self._is_recorded = False

    def begin_mode(self) -> None:
        """Start a run of the example in one mode."""
        self._is_recorded = bool(self._answers)
        self.calls = []
        self._counts = Counter()

    def is_replaced(self, callee: str) -> bool:
        """Whether a function is stood in for.

        Builtins without effects are not, nor classes of exceptions and of data, and others that
        the program tests for: the body names them for more than to call them.
        """
        is_builtin = callee.startswith("builtins:")
        real = self.real[callee]
        if callee in self._classes or (isinstance(real, type) and _is_named(cast(type[Any], real))):
            return False
        return not callee.startswith(OWN) and (not is_builtin or callee in self._noted)

    def _stand_in(self, callee: str) -> Callable[..., Any]:
        if not self.is_replaced(callee):
            return self.real[callee]

        def stand_in(*args: Any, **keywords: Any) -> Any:
            return self._answer(callee, args, keywords)

        return stand_in

    def _answer(self, callee: str, args: Any, keywords: Any) -> Any:
        text, number = shown_call(callee, args, keywords), 0
        if callee in self._noted:
            with self._lock:
                number = self._counts[text]
                self._counts[text] += 1
                self.calls.append(text)
        if self._call_host:
            return self._real((text, number), self.real[callee], args, keywords)
        if callee in _NOTHING:
            return None
        # What is declared pure fails where its answer is needed, in a Python body at once.
        can_raise = self._may_raise and callee in self._noted
        if can_raise and Draw(self._seed, (text, number, "raises")).below(4) == 0:
            raise RuntimeError(f"a stand-in for {callee} fails")
        return self._value(self._kinds[callee], Draw(self._seed, (text, number)), DEPTH)

    def _real(
        self, key: tuple[str, int], function: Callable[..., Any], args: Any, keywords: Any
    ) -> Any:
        """Call the real function the first time, and repeat its answer later."""
        if key not in self._answers:
            if self._is_recorded:
                raise LookupError(f"the program's own meaning does not call {key[0]}")
            try:
                self._answers[key] = (True, function(*args, **keywords))
            except Exception as error:
                # Whatever the user's function raises is repeated as well.
                self._answers[key] = (False, error)
        is_value, answer = self._answers[key]
        if not is_value:
            raise answer
        return _copied(answer)

    def _value(self, kind: Any, draw: Draw, depth: int) -> Any:
        made = self._scalar(kind, draw)
        if made is not _UNKNOWN:
            return made
        origin, inner = get_origin(kind) or kind, get_args(kind)
        if origin in (list, set, tuple, Sequence) and depth:
            items = [self._value(inner[0] if inner else str, draw, depth - 1) for _ in range(2)]
            make: Any = origin
            return make(items) if origin in (list, set, tuple) else items
        if origin in (dict, Mapping) and depth:
            kind_of_value = inner[1] if len(inner) > 1 else str
            return {key: self._value(kind_of_value, draw, depth - 1) for key in ("a", "b")}
        options = [option for option in inner if option is not type(None)]
        if options and len(options) < len(inner) and draw.below(2):
            return None
        if options:
            return self._value(draw.choose(options), draw, depth - 1) if depth else None
        return draw.choose(self._words)

    def _scalar(self, kind: Any, draw: Draw) -> Any:
        if kind is None or kind is type(None):
            return None
        if kind is bool:
            return bool(draw.below(2))
        if kind is int:
            return draw.below(9) - 1
        if kind is float:
            return draw.below(40) / 4 - 1
        if kind is str:
            return draw.choose(self._words)
        return draw.choose(get_args(kind)) if _is_literal(kind) else _UNKNOWN


_UNKNOWN = object()


def _is_named(kind: type[Any]) -> bool:
    """Whether the name of a class stands in conditions and handlers too, not in calls alone."""
    return issubclass(kind, (BaseException, Enum)) or is_dataclass(kind)


def _is_literal(kind: Any) -> bool:
    return getattr(get_origin(kind), "_name", None) == "Literal"


def _return_kind(function: Callable[..., Any]) -> Any:
    """Return what a function is annotated to return; str where it does not say."""
    try:
        return get_type_hints(function).get("return", str)
    except Exception:
        # Annotations may name what is not there at run time; they are the user's own code.
        return str


def _copied(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:
        # Some objects refuse to be copied (locks, files); every mode then gets the same one.
        return value


@dataclass(frozen=True, slots=True)
class _Place:
    """A name, or the cell of a closure, by which a body finds a host function."""

    callee: str
    names: dict[str, Any]
    name: str
    cell: CellType | None = None

    def read(self) -> Any:
        """Return what is there."""
        return self.names.get(self.name, _UNKNOWN) if self.cell is None else self.cell.cell_contents

    def write(self, value: Any) -> None:
        """Put something there; `_UNKNOWN` takes the name away."""
        if self.cell is not None:
            self.cell.cell_contents = value
        elif value is _UNKNOWN:
            del self.names[self.name]
        else:
            self.names[self.name] = value


class Places:
    """Where the Python body of a program finds its host functions.

    Looked at are the body's closure, the names of its module, of modules in its folder, and of
    the modules where the functions live. `unreached` are functions that stand in none of them.
    """

    def __init__(self, stand_ins: HostStandIns, function: FunctionType) -> None:
        self._places: list[_Place] = []
        self.unreached: list[str] = []
        for callee, obj in stand_ins.real.items():
            if stand_ins.is_replaced(callee):
                found = list(_find(callee, obj, function))
                self._places += found
                self.unreached += [] if found else [callee]

    @contextmanager
    def filled(self, host: Host) -> Generator[None]:
        """Let the body call stand-ins."""
        before = [(place, place.read()) for place in self._places]
        for place in self._places:
            place.write(host[place.callee])
        try:
            yield
        finally:
            for place, value in before:
                place.write(value)


def _find(callee: str, obj: Any, function: FunctionType) -> Iterator[_Place]:
    """Yield the places where a body finds a function."""
    home, _, path = callee.partition(":")
    for cell in function.__closure__ or ():
        if cell.cell_contents is obj:
            yield _Place(callee, {}, "", cell)
    if home == "builtins":
        yield _Place(callee, function.__globals__, path)
        return
    for names in _namespaces(function, home):
        yield from (_Place(callee, names, name) for name, value in names.items() if value is obj)


def _namespaces(function: FunctionType, home: str) -> list[dict[str, Any]]:
    """Return the names of the function's module, its neighbours, and a module by name."""
    folder = str(function.__code__.co_filename).rpartition("/")[0]
    found: dict[int, dict[str, Any]] = {id(function.__globals__): function.__globals__}
    modules: dict[str, Any] = dict(sys.modules)
    for name, module in modules.items():
        file = getattr(module, "__file__", None) or ""
        if isinstance(module, ModuleType) and (name == home or file.rpartition("/")[0] == folder):
            found[id(vars(module))] = vars(module)
    return list(found.values())
