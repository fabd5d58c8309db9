"""Random statements of a program in IR: prompts, generations, variables, values, the host."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from merging_target import WORDS

from lmc.ir.builder import Builder
from lmc.ir.core import Block, Op, Value
from lmc.ir.types import BOOL, EFFECT, INT, PY, STATE, TEXT, Type, list_of


@dataclass
class Scope:
    """What a block being generated can use."""

    states: list[Value]
    texts: list[Value]
    values: list[Value]
    bools: list[Value]
    effect: Value

    def inner(self) -> "Scope":
        return Scope(
            list(self.states), list(self.texts), list(self.values), list(self.bools),
            self.effect,
        )  # fmt: skip


class StatementMaker:
    """Makes statements without blocks of their own."""

    def __init__(self, draw: Random) -> None:
        self._draw = draw

    def _pick(self, values: Sequence[Value]) -> Value:
        return values[self._draw.randrange(len(values))]

    def _text(self, b: Builder, scope: Scope) -> Value:
        match self._draw.randrange(7):
            case 0 if scope.texts:
                return self._pick(scope.texts)
            case 5 if scope.texts:
                left = b.value("val.binary", [self._word(), self._pick(scope.texts)], op="+")
                return b.value("val.binary", [left, self._word()], kind=TEXT, op="+")
            case 6 if scope.values and self._draw.random() < 0.5:
                value = scope.values[0]  # a text in the main program
                return b.value("val.binary", ["tip " + self._word(), value], kind=TEXT, op="+")
            case 1 if scope.texts:
                return b.value("val.concat", [self._word(), self._pick(scope.texts), self._word()])
            case 2 if scope.values:
                held = b.value("val.format", [self._pick(scope.values), ""], conversion="s")
                return b.value("val.concat", [self._word(), held])
            case _:
                return b.const(self._word(), "c")

    def _word(self) -> str:
        return "".join(self._draw.choice(WORDS) for _ in range(self._draw.randint(1, 4)))

    def _extend(self, b: Builder, scope: Scope, depth: int) -> None:
        if self._draw.random() < 0.2:
            value = self._pick(scope.values)  # may be no text: then the run fails
            if self._draw.random() < 0.8:
                value = b.value("val.format", [value, ""], conversion="")
            self._advance(scope, lambda state: b.extend(state, value))
            return
        self._advance(scope, lambda state: b.extend(state, self._text(b, scope)))

    def _advance(self, scope: Scope, step: Callable[[Value], Value]) -> None:
        """Take a state on; it stays in use now and then."""
        index = self._draw.randrange(len(scope.states))
        old = scope.states[index]
        new = step(old)
        if self._draw.random() < 0.9:
            scope.states[index] = new
        else:
            scope.states.append(new)

    def _marker(self, b: Builder, scope: Scope, depth: int) -> None:
        index = self._draw.randrange(len(scope.states))
        old = scope.states[index]
        if self._draw.random() < 0.3:
            new = b.control(old, "<|m|>")
        else:
            # Closed at once: a turn that begins within another is an error.
            role = self._draw.choice(("user", "assistant", "system"))
            new = b.end(b.extend(b.begin(old, role), self._text(b, scope)), role)
        scope.states[index] = new

    def _gen(self, b: Builder, scope: Scope, depth: int) -> None:
        params: dict[str, object] = {}
        kind: Type = TEXT
        if self._draw.random() < 0.4:
            params["temperature"] = self._draw.choice((0.0, 0.5))
        if self._draw.random() < 0.2:
            params, kind = {**params, "type": "int"}, INT
        elif self._draw.random() < 0.1:
            params, kind = {**params, "n": 2}, PY
        dynamic = {}
        if self._draw.random() < 0.2:
            dynamic["max_tokens"] = b.const(self._draw.randint(1, 9))
        name = self._draw.choice(("u", "v", "w", None))
        made: list[Op] = []

        def step(state: Value) -> Value:
            made.append(b.gen(state, name, kind=kind, dynamic=dynamic, **params))  # type: ignore[arg-type]
            return made[0].results[0]

        self._advance(scope, step)
        (scope.texts if kind == TEXT else scope.values).append(made[0].results[1])

    def _select(self, b: Builder, scope: Scope, depth: int) -> None:
        made: list[Op] = []
        choices = [self._word() + "!" for _ in range(self._draw.randint(1, 3))]

        def step(state: Value) -> Value:
            made.append(b.select(state, choices, self._draw.choice(("u", "v", None))))
            return made[0].results[0]

        self._advance(scope, step)
        scope.texts.append(made[0].results[1])

    def _variable(self, b: Builder, scope: Scope, depth: int) -> None:
        name = self._draw.choice("uvw")
        state = self._pick(scope.states)
        match self._draw.randrange(5):
            case 0:
                value = self._pick(scope.texts + scope.values)
                if self._draw.random() < 0.4:
                    word = b.op("host.pure", [], [PY], attributes={"callee": "m:name"}).result
                    self._advance(scope, lambda s: b.op("lm.set", [s, value, word], [STATE]).result)
                    return
                named = {"name": name}
                self._advance(
                    scope, lambda s: b.op("lm.set", [s, value], [STATE], attributes=named).result
                )
            case 1:
                has = b.op("lm.has", [state], [BOOL], attributes={"name": name}).result
                scope.bools.append(has)
            case 2 if self._draw.random() < 0.5:
                got = b.op("lm.get", [state], [PY], attributes={"name": name}).result
                scope.values.append(got)
            case 3:
                scope.texts.append(b.op("lm.text", [state], [TEXT]).result)
            case _:
                has = b.op("lm.has", [state, b.const(name)], [BOOL]).result
                got = Block()
                inner = Builder(got, location=b.location)
                inner.yield_(inner.op("lm.get", [state], [PY], attributes={"name": name}).result)
                missing = Block()
                inner = Builder(missing, location=b.location)
                inner.yield_(inner.const("none"))
                scope.values.append(b.if_(has, got, missing, [PY]).result)

    def _pure(self, b: Builder, scope: Scope, depth: int) -> None:
        draw = self._draw
        match draw.randrange(11):
            case 0:
                left, right = b.const(draw.randint(0, 4)), b.const(draw.randint(0, 4))
                sign = draw.choice(("+", "-", "*", "//"))
                scope.values.append(b.binary(sign, left, right))
            case 1 if scope.texts:
                text = self._pick(scope.texts)
                made = b.op("val.method", [text], [TEXT], attributes={"name": "upper"})
                scope.texts.append(made.result)
            case 2:
                parts = [self._text(b, scope) for _ in range(draw.randint(1, 3))]
                items = b.value("val.list", parts, kind=list_of(TEXT))
                index = draw.randint(-1, len(parts) - (draw.random() < 0.9))
                scope.texts.append(b.value("val.index", [items, index], kind=TEXT))
            case 3:
                parts = [self._text(b, scope) for _ in range(2)]
                items = b.value("val.list", parts, kind=list_of(TEXT))
                key = b.const(draw.randint(0, 1))
                new = b.op(
                    "val.mutate", [items, key, self._text(b, scope)], [list_of(TEXT), PY],
                    attributes={"name": "__setitem__"},
                ).results[0]  # fmt: skip
                scope.texts.append(b.value("val.index", [new, draw.randint(0, 1)], kind=TEXT))
                scope.values.append(new)
            case 4:
                pair = b.value("val.tuple", [self._pick(scope.values), self._text(b, scope)])
                one, two = b.op("val.unpack", [pair], [PY, PY]).results
                scope.values += [one, two]
            case 5:
                left = self._text(b, scope)
                scope.bools.append(b.truth(b.compare("==", left, self._text(b, scope))))
            case 6 if scope.bools:
                made = b.value("val.not", [self._pick(scope.bools)])
                scope.bools.append(made)
            case 7:
                made = b.value("val.dict", ["k", self._text(b, scope), "l", self._text(b, scope)])
                scope.values.append(b.value("val.index", [made, draw.choice("kl")]))
            case 8:
                scope.bools.append(b.const(draw.random() < 0.5))
            case 9:
                scope.values.append(b.value("val.call", [self._text(b, scope)], callee="len"))
            case _:
                scope.texts.append(self._text(b, scope))

    def _host(self, b: Builder, scope: Scope, depth: int) -> None:
        given = self._pick(scope.values + scope.texts)
        if self._draw.random() < 0.3:
            self._grow(b, scope)
            return
        if self._draw.random() < 0.5:
            made = b.op("host.pure", [given], [PY], attributes={"callee": "m:pure"})
            scope.values.append(made.result)
            return
        called = b.op(
            "host.call", [scope.effect, given], [EFFECT, PY], attributes={"callee": "m:note"}
        )
        scope.effect, value = called.results
        scope.values.append(value)

    def _grow(self, b: Builder, scope: Scope) -> None:
        """Let host code change a list in place, and read the list after it."""
        items = b.value("val.list", [self._pick(scope.values)], kind=list_of(PY))
        if self._draw.random() < 0.5:
            items = b.const([1, 2])
        called = b.op(
            "host.call", [scope.effect, items], [EFFECT, PY], attributes={"callee": "m:grow"}
        )
        scope.effect = called.results[0]
        scope.values.append(b.value("val.call", [items], callee="len"))
        scope.values.append(b.value("val.index", [items, -1]))

    def _condition(self, b: Builder, scope: Scope) -> Value:
        if scope.bools and self._draw.random() < 0.8:
            return self._pick(scope.bools)
        return b.truth(b.compare("==", self._pick(scope.values), 3))
