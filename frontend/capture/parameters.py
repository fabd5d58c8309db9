"""What the parameters of a function are bound to by a call."""

import ast
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from lmc.frontend.capture.emitter import kind_of
from lmc.frontend.capture.members import Spread, no_spread
from lmc.frontend.capture.nested import NestedPrograms
from lmc.frontend.capture.values import Abstract, Known, Plain, has_states
from lmc.ir.core import Value
from lmc.ir.types import INT, PY, TEXT

Defaults = tuple[tuple[Abstract, ...], tuple[Abstract | None, ...]]
"""What parameters are bound to that a call leaves out: positional ones, and by name."""


@dataclass(frozen=True, slots=True)
class Call:
    """What an error says of a call: the function's name, how many keyword-only arguments."""

    name: str
    num_keywords: int

    @property
    def given(self) -> str:
        """What stands behind the number of positional arguments."""
        if not self.num_keywords:
            return " were given"
        plural = "" if self.num_keywords == 1 else "s"
        return (
            f" positional arguments (and {self.num_keywords} keyword-only argument{plural}) "
            "were given"
        )


class Parameters(NestedPrograms):
    """Binds arguments to parameters."""

    def bound(
        self,
        args: ast.arguments,
        arguments: list[Abstract],
        keywords: dict[str, Abstract],
        defaults: Defaults,
        node: ast.AST,
        called: str,
    ) -> dict[str, Abstract]:
        """Return what each parameter of the function of the name `called` is bound to."""
        positional = [*args.posonlyargs, *args.args]
        rest = len(positional) if args.vararg is not None else None
        given = dict(keywords)
        spread = given.pop("**", None)
        wanted = [p.arg for p in positional if p.arg not in given]
        call = Call(called, sum(p.arg in keywords for p in args.kwonlyargs))
        arguments = self._written_out(arguments, wanted, defaults[0], rest, node, call)
        found: dict[str, Abstract] = {}
        for index, parameter in enumerate(positional):
            from_end = len(positional) - index
            if index < len(arguments):
                found[parameter.arg] = arguments[index]
            elif parameter.arg in given and parameter in args.args:
                found[parameter.arg] = given.pop(parameter.arg)
            elif spread is not None:
                self.fail(node, "**arguments of unknown keys for named parameters",
                          "write the arguments out")  # fmt: skip
            elif from_end <= len(defaults[0]):
                found[parameter.arg] = defaults[0][-from_end]
            else:
                self.fail(node, f"the argument '{parameter.arg}' is missing", "give it")
        if len(arguments) > len(positional) and args.vararg is None:
            self.fail(node, f"{len(arguments)} positional arguments where "
                      f"{len(positional)} fit", "leave some out")  # fmt: skip
        if args.vararg is not None:
            found[args.vararg.arg] = self.rest_of(arguments[len(positional) :], node)
        for parameter, default in zip(args.kwonlyargs, defaults[1], strict=True):
            value = given.pop(parameter.arg, default)
            if value is None or (spread is not None and value is default):
                self.fail(node, f"the argument '{parameter.arg}' is missing", "give it by name")
            found[parameter.arg] = value
        self._bind_keywords(args, given, spread, found, node)
        return {name: self.keep(value, node) for name, value in found.items()}

    keep: Callable[[Abstract, ast.AST], Abstract]

    def _bind_keywords(
        self,
        args: ast.arguments,
        given: dict[str, Abstract],
        spread: Abstract | None,
        found: dict[str, Abstract],
        node: ast.AST,
    ) -> None:
        """Bind a parameter such as **options to the keywords that are left."""
        if args.kwarg is not None:
            options = self.dict_with(given, node)
            if spread is not None:
                more = self.plain_call("dict", [spread], node)
                options = self.binary("|", options, more, node)
            found[args.kwarg.arg] = options
        elif spread is not None:
            self.fail(node, "**arguments of unknown keys", "write the arguments out")
        elif given:
            name = next(iter(given))
            what = "is given twice" if name in found else "is no parameter of the function"
            self.fail(node, f"'{name}' {what}", "check the call")

    def _written_out(
        self,
        arguments: list[Abstract],
        wanted: list[str],
        optional: tuple[Abstract, ...],
        rest: int | None,
        node: ast.AST,
        call: Call,
    ) -> list[Abstract]:
        """Return positional arguments without a list of unknown length among the first."""
        first = next((i for i, a in enumerate(arguments) if isinstance(a, Spread)), None)
        if first is None or (rest is not None and first >= rest):
            return arguments
        spread, after = arguments[first], arguments[first + 1 :]
        assert isinstance(spread, Spread)
        most = len(wanted) - len(arguments) + 1
        least = most if after else max(0, most - len(optional))
        if rest is not None or (optional and after) or not no_spread(after) or most < 0:
            self.fail(node, "a starred argument of unknown length",
                      "pass the list itself, or write the arguments out")  # fmt: skip
        names = wanted[first : first + most]
        if has_states(kind_of(spread.value)):
            source, members = spread.value, self.members(spread.value, node)
        else:
            source = self.plain_call("list", [spread.value], node)
            members = self.read(source, node)
        length = self.emit("val.call", [members], [INT], node, callee="len")[0]
        self._check_length(length, names[:least], most, len(arguments) - 1, node, call)
        items = [self.item(source, Known(i), node) for i in range(least)]
        for i in range(least, most):
            default = optional[i - most]
            has = self.compare(">", Plain(length), Known(i), node)
            take = partial(self.item, source, Known(i), node)
            items.append(self.choose(node, self.truth(has, node), take, partial(_same, default)))
        return [*arguments[:first], *items, *after]

    def _check_length(
        self, length: Value, required: list[str], most: int, others: int, node: ast.AST, call: Call
    ) -> None:
        """Fail as Python does where a starred list has too few or too many items."""
        few = [
            f"{call.name}() missing {len(required) - n} required positional "
            f"argument{'s' * (len(required) - n > 1)}: {_listed(required[n:])}"
            for n in range(len(required))
        ]
        takes = str(most + others)
        if len(required) < most:
            takes = f"from {len(required) + others} to {takes}"
        plural = "" if takes == "1" else "s"
        head = self.constant(f"{call.name}() takes {takes} positional argument{plural} but ", node)
        least = Known(len(required))

        def too_few() -> None:
            messages = self.constant(few, node)
            text = self.emit("val.index", [messages, length], [PY], node)[0]
            self.raise_new("TypeError", Plain(text), node)

        def too_many() -> None:
            given = self.read(self.binary("+", Plain(length), Known(others), node), node)
            tail = self.constant(call.given, node)
            shown = self.emit("val.call", [given], [TEXT], node, callee="str")[0]
            text = self.emit("val.concat", [head, shown, tail], [TEXT], node)[0]
            self.raise_new("TypeError", Plain(text), node)

        if few:
            is_few = self.truth(self.compare("<", Plain(length), least, node), node)
            self.branch(node, is_few, too_few, lambda: None)
        is_many = self.truth(self.compare(">", Plain(length), Known(most), node), node)
        self.branch(node, is_many, too_many, lambda: None)

    branch: Callable[..., None]
    raise_new: Callable[[str, Abstract | None, ast.AST], None]


def _same(value: Abstract) -> Abstract:
    return value


def _listed(names: list[str]) -> str:
    """List names as Python's message of a call does."""
    quoted = [f"'{name}'" for name in names]
    if len(quoted) < 3:
        return " and ".join(quoted)
    return f"{', '.join(quoted[:-1])}, and {quoted[-1]}"


def parameters_of(args: ast.arguments) -> list[ast.arg]:
    """Return all parameters of a function, in the order of its operands."""
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    return [*every, *(extra for extra in (args.vararg, args.kwarg) if extra is not None)]
