"""Random programs in IR that verify."""

from collections.abc import Callable
from random import Random

from random_ir_statements import Scope, StatementMaker

from lmc.ir.builder import Builder, new_function
from lmc.ir.core import Block, Function, Module, Value
from lmc.ir.location import Location
from lmc.ir.types import EFFECT, INT, PY, STATE, TEXT, Attr, Type, list_of


class ProgramMaker(StatementMaker):
    """Makes random programs that verify; most of their statements do something."""

    def __init__(self, draw: Random) -> None:
        super().__init__(draw)
        self._line = 0
        self._helpers: list[Function] = []
        self._steps: list[Function] = []
        self._callees: list[Function] = []
        self._budget = 60

    def module(self) -> Module:
        module = Module("random")
        if self._draw.random() < 0.4:
            self._helpers.append(self._helper())
        if self._draw.random() < 0.4:
            self._steps.append(self._step())
        for name in ("callee", "outer"):  # the second may call the first
            if self._draw.random() < 0.5:
                self._budget = 6
                self._callees.append(self._program(name, ["x"]))
        self._budget = 40
        main = self._program("main", ["a", "b"])
        for function in (main, *self._helpers, *self._steps, *self._callees):
            module.functions[function.name] = function
        module.entries = ["main"]
        return module

    def _helper(self) -> Function:
        function = new_function("helper", ["x"], kind="helper")
        b = Builder(function.body)
        effect, x = function.body.arguments
        if self._draw.random() < 0.3:
            called = b.op("host.call", [effect, x], [EFFECT, PY], attributes={"callee": "m:note"})
            effect, x = called.results
        value = b.value("val.format", [x, ""], kind=TEXT, conversion="r")
        b.return_(effect, value)
        return function

    def _step(self) -> Function:
        """Make a helper that takes a state and gives it back, with what it appended."""
        function = new_function("step", ["s", "x"], kind="helper")
        function.body.arguments[1].type = STATE
        b = Builder(function.body, location=Location("h.py", 2, 1, 2, 5, "step"))
        effect, state, x = function.body.arguments
        scope = Scope([state], [], [x], [], effect)
        self._budget = 5
        self._block(b, scope, 2, self._draw.randint(1, 4))
        b.return_(scope.effect, self._pick(scope.texts + scope.values), scope.states[0])
        return function

    def _program(self, name: str, params: list[str]) -> Function:
        function = new_function(name, params)
        b = Builder(function.body)
        effect, *values = function.body.arguments
        state = b.prompt()
        scope = Scope([state], [], list(values), [], effect)
        self._block(b, scope, 0, self._draw.randint(3, 9))
        given = self._pick(scope.texts + scope.values + scope.bools)
        if self._draw.random() < 0.3:
            given = b.value("val.tuple", [given, self._pick(scope.texts + scope.values)])
        b.return_(scope.effect, self._pick(scope.states[-2:]), given)
        return function

    def _block(self, b: Builder, scope: Scope, depth: int, count: int) -> None:
        makers: list[Callable[[Builder, Scope, int], None]] = [
            self._extend, self._extend, self._extend, self._marker, self._gen, self._gen,
            self._select, self._variable, self._variable, self._pure, self._pure, self._pure,
            self._host,
        ]  # fmt: skip
        if depth < 3:
            makers += [self._branch, self._branch, self._loop, self._loop, self._fork, self._fork]
            makers += [self._while, self._call, self._call, self._twins, self._copies]
        for _ in range(count):
            if self._budget <= 0:
                return
            self._budget -= 1
            self._line += 1
            b.location = Location("p.py", self._line, 1, self._line, 5, f"line {self._line}")
            makers[self._draw.randrange(len(makers))](b, scope, depth)

    def _branch(self, b: Builder, scope: Scope, depth: int) -> None:
        condition = self._condition(b, scope)
        ends: list[tuple[Block, Scope]] = []
        prefix = self._text(b, scope) if self._draw.random() < 0.5 else None
        for _ in range(2):
            block, inner = Block(), scope.inner()
            nested = Builder(block, location=b.location)
            if prefix is not None:
                text = self._draw.choice(("tip ", "tip abc", "tip "))
                inner.states[0] = nested.extend(inner.states[0], text)
            self._block(nested, inner, depth + 1, self._draw.randint(0, 4))
            ends.append((block, inner))
        for block, inner in ends:
            Builder(block, location=b.location).yield_(
                inner.states[0], inner.effect, (inner.texts if scope.texts else inner.values)[-1]
            )
        kind = TEXT if scope.texts else PY
        made = b.if_(condition, ends[0][0], ends[1][0], [(STATE, "s"), EFFECT, kind])
        scope.states[0], scope.effect, value = made.results
        (scope.texts if kind == TEXT else scope.values).append(value)

    def _items(self, b: Builder, scope: Scope) -> tuple[Value, Type]:
        draw = self._draw
        match draw.randrange(4):
            case 0:
                return b.const([draw.randint(0, 3) for _ in range(draw.randint(0, 3))]), PY
            case 1:
                parts = [self._text(b, scope) for _ in range(draw.randint(0, 3))]
                return b.value("val.list", parts, kind=list_of(TEXT)), TEXT
            case 2:
                return b.value("val.call", [draw.randint(0, 3)], callee="range"), PY
            case _:
                return self._pick(scope.values), PY

    def _loop(self, b: Builder, scope: Scope, depth: int) -> None:
        items, kind = self._items(b, scope)
        if kind == PY and items in scope.values:
            items = b.value("val.list", [items], kind=list_of(PY))
        self._for(b, scope, depth, items, kind)

    def _for(
        self, b: Builder, scope: Scope, depth: int, items: Value, kind: Type, hoist: bool = False
    ) -> None:
        flag = b.const(self._draw.randint(0, 2))
        init = [scope.states[0], scope.effect, flag]
        body = Block([Value(kind, "item"), Value(STATE, "s"), Value(EFFECT), Value(PY, "n")])
        inner = scope.inner()
        item, inner.states[0], inner.effect, number = body.arguments
        nested = Builder(body, location=b.location)
        inner.values.append(number)
        if kind == STATE:
            if hoist:
                item = nested.extend(item, "tip ")
            inner.states.append(item)
        else:
            (inner.texts if kind == TEXT else inner.values).append(item)
        self._block(nested, inner, depth + 1, self._draw.randint(1, 4))
        following = number if self._draw.random() < 0.5 else nested.binary("+", number, 1)
        go_on = nested.const(True) if self._draw.random() < 0.7 else self._condition(nested, inner)
        nested.yield_(go_on, inner.states[0], inner.effect, following)
        results = [(STATE, "s"), EFFECT, PY]
        made = b.op("cf.for", [items, *init], results, blocks=[body])
        scope.states[0], scope.effect, value = made.results
        scope.values.append(value)

    def _while(self, b: Builder, scope: Scope, depth: int) -> None:
        body = Block([Value(STATE, "s"), Value(EFFECT), Value(PY, "n")])
        inner = scope.inner()
        inner.states[0], inner.effect, number = body.arguments
        nested = Builder(body, location=b.location)
        self._block(nested, inner, depth + 1, self._draw.randint(1, 3))
        following = nested.binary("+", number, 1)
        go_on = nested.truth(nested.compare("<", following, self._draw.randint(0, 3)))
        nested.yield_(go_on, inner.states[0], inner.effect, following)
        init = [scope.states[0], scope.effect, b.const(0)]
        made = b.op("cf.while", init, [(STATE, "s"), EFFECT, PY], blocks=[body])
        scope.states[0], scope.effect, value = made.results
        scope.values.append(value)

    def _fork(self, b: Builder, scope: Scope, depth: int) -> None:
        count = self._draw.randint(0, 3)
        dynamic = self._draw.random() < 0.3
        parent, children = b.fork(scope.states[0], b.const(count) if dynamic else count)
        common = self._draw.random() < 0.6
        if self._draw.random() < 0.4:
            scope.states[0] = parent
            self._for(b, scope, depth, children, STATE, hoist=common)
            parent = scope.states[0]
            joined = children
        else:
            inner = scope.inner()
            ends = [self._child(b, inner, depth, children, index, common) for index in range(count)]
            scope.effect = inner.effect
            joined = b.value("val.list", ends, kind=list_of(STATE))
        mode = self._draw.choice(("gather_variable", "gather_variable", "concate_and_append"))
        if self._draw.random() < 0.7:
            parent = b.join(parent, joined, mode)
        scope.states[0] = parent

    def _twins(self, b: Builder, scope: Scope, depth: int) -> None:
        """Ask children of a fork the same, most of the time."""
        parent, children = b.fork(scope.states[0], 2)
        scope.states[0] = parent
        text, other = self._text(b, scope), self._word()
        greedy = {"temperature": self._draw.choice((0, 0, 0.0, 0.5))}
        kind, name = self._draw.randrange(4), self._draw.choice(("u", "v", None))
        twins = []
        for index in range(2):
            b.location = Location("t.py", self._line, 1 + index, self._line, 5, "twin")
            twin = b.extend(b.child(children, index, "twin"), text)
            if self._draw.random() < 0.3:
                twin = b.extend(twin, other)
            for _ in range(self._draw.randint(1, 2)):
                match kind:
                    case 0:
                        made = b.select(twin, ["yes", "no", "abc"], name)
                    case 1:
                        made = b.gen(twin, name, kind=PY, n=2, **greedy)  # type: ignore[arg-type]
                    case 2:
                        made = b.gen(twin, name, kind=INT, type="int", **greedy)  # type: ignore[arg-type]
                    case _:
                        made = b.gen(twin, name, **greedy)  # type: ignore[arg-type]
                twin = made.results[0]
            if self._draw.random() < 0.8:
                (scope.values if kind in (1, 2) else scope.texts).append(made.results[1])
            twins.append(twin)
        if self._draw.random() < 0.5:
            scope.states += twins
        else:
            mode = self._draw.choice(("gather_variable", "concate_and_append"))
            held = b.value("val.list", twins, kind=list_of(STATE))
            scope.states[0] = b.join(scope.states[0], held, mode)

    def _copies(self, b: Builder, scope: Scope, depth: int) -> None:
        """Fork a state in each trip of a loop that changes nothing of it but the count of calls."""
        parts = [self._text(b, scope), self._text(b, scope)]
        items = b.value("val.list", parts, kind=list_of(TEXT))
        if self._draw.random() < 0.5:
            items = b.value("val.call", ["ab"], kind=list_of(TEXT), callee="list")
        base = self._pick(scope.states)
        body = Block([Value(TEXT, "item"), Value(STATE, "base"), Value(EFFECT), Value(TEXT, "t")])
        item, state, effect, text = body.arguments
        nested, inner = Builder(body, location=b.location), scope.inner()
        inner.effect = effect
        for _ in range(self._draw.randint(1, 2)):
            state, children = nested.fork(state, self._draw.randint(1, 2))
            child = nested.extend(nested.child(children, 0), self._draw.choice(("tip ", "tip abc")))
            if self._draw.random() < 0.4:
                child = nested.control(child, "<|m|>")
            inner.states = [nested.extend(child, item)]
            self._block(nested, inner, 3, self._draw.randint(0, 2))
            made = nested.gen(inner.states[0], "v")
            text = nested.value("val.concat", [text, made.results[1]])
        if self._draw.random() < 0.2:
            state = nested.extend(state, "z")
        nested.yield_(nested.const(True), state, inner.effect, text)
        init = [items, base, scope.effect, b.const("")]
        results = [(STATE, "s"), EFFECT, TEXT]
        done = b.op("cf.for", init, results, blocks=[body]).results
        scope.effect = done[1]
        scope.states.append(done[0])
        scope.texts.append(done[2])

    def _child(
        self, b: Builder, scope: Scope, depth: int, children: Value, index: int, common: bool
    ) -> Value:
        child = b.child(children, index, "child")
        if self._draw.random() < 0.2:
            scope.texts.append(b.op("lm.text", [child], [TEXT]).result)
        if common:
            child = b.extend(child, self._draw.choice(("tip ", "tip abc", "tip abcab")))
            if self._draw.random() < 0.3:
                child = b.control(child, "<|m|>")
        inner = scope.inner()
        inner.states = [child]
        self._block(b, inner, depth + 1, self._draw.randint(0, 4))
        scope.effect = inner.effect
        return inner.states[0]

    def _call(self, b: Builder, scope: Scope, depth: int) -> None:
        given = self._pick(scope.values + scope.texts)
        if self._helpers and self._draw.random() < 0.5:
            made = b.op(
                "func.apply", [scope.effect, given], [EFFECT, PY], attributes={"callee": "helper"}
            )
            scope.effect, value = made.results
            scope.values.append(value)
        elif self._steps and self._draw.random() < 0.5:
            index = self._draw.randrange(len(scope.states))
            kind = self._steps[0].body.terminator.operands[1].type
            made = b.op(
                "func.apply", [scope.effect, scope.states[index], given],
                [EFFECT, kind, STATE], attributes={"callee": "step"},
            )  # fmt: skip
            scope.effect, value, scope.states[index] = made.results
            (scope.texts if kind == TEXT else scope.values).append(value)
        elif self._callees:
            index = self._draw.randrange(len(scope.states))
            attributes: dict[str, Attr] = {"callee": self._draw.choice(self._callees).name}
            if self._draw.random() < 0.5:
                defaults = ({"temperature": 0}, {"temperature": 0.3, "max_tokens": 3})
                attributes["defaults"] = dict(self._draw.choice(defaults))
            made = b.op(
                "func.call", [scope.effect, scope.states[index], given],
                [EFFECT, STATE, STATE, PY], attributes=attributes,
            )  # fmt: skip
            scope.effect, scope.states[index], other, value = made.results
            scope.values.append(value)
            if self._draw.random() < 0.3:
                scope.states.append(other)
