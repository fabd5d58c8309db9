"""What the parameters of a function are bound to by a call."""

import ast
from collections.abc import Callable

from lmc.frontend.capture.emitter import kind_of
from lmc.frontend.capture.members import Spread, no_spread
from lmc.frontend.capture.nested import NestedPrograms
from lmc.frontend.capture.store import cells_of
from lmc.frontend.capture.values import Abstract, Known, has_states
from lmc.ir.types import PY

Defaults = tuple[tuple[Abstract, ...], tuple[Abstract | None, ...]]
"""What parameters are bound to that a call leaves out: positional ones, and by name."""


class Parameters(NestedPrograms):
    """Binds arguments to parameters."""

    def bound(
        self,
        args: ast.arguments,
        arguments: list[Abstract],
        keywords: dict[str, Abstract],
        defaults: Defaults,
        node: ast.AST,
    ) -> dict[str, Abstract]:
        """Return what each parameter is bound to."""
        positional = [*args.posonlyargs, *args.args]
        rest = len(positional) if args.vararg is not None else None
        given = dict(keywords)
        spread = given.pop("**", None)
        wanted = [p for p in positional if p.arg not in given]
        arguments = self._written_out(arguments, len(wanted), len(defaults[0]), rest, node)
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
        self, arguments: list[Abstract], wanted: int, optional: int, rest: int | None, node: ast.AST
    ) -> list[Abstract]:
        """Return positional arguments without a list of unknown length among the first."""
        first = next((i for i, a in enumerate(arguments) if isinstance(a, Spread)), None)
        if first is None or (rest is not None and first >= rest):
            return arguments
        spread = arguments[first]
        assert isinstance(spread, Spread)
        missing = wanted - len(arguments) + 1
        if rest is not None or optional or not no_spread(arguments[first + 1 :]) or missing < 0:
            self.fail(node, "a starred argument of unknown length",
                      "pass the list itself, or write the arguments out")  # fmt: skip
        kinds = [PY] * missing
        items: list[Abstract]
        if has_states(kind_of(spread.value)):
            self.emit("val.unpack", [self.members(spread.value, node)], kinds, node)
            items = [self.item(spread.value, Known(i), node) for i in range(missing)]
        else:
            made = self.emit("val.unpack", [self.read(spread.value, node)], kinds, node)
            items = [self.borrowed(item, cells_of(spread.value)) for item in made]
        return [*arguments[:first], *items, *arguments[first + 1 :]]


def parameters_of(args: ast.arguments) -> list[ast.arg]:
    """Return all parameters of a function, in the order of its operands."""
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    return [*every, *(extra for extra in (args.vararg, args.kwarg) if extra is not None)]
