"""Random programs, a tiny merging tokenizer and a model that is a pure function of the call."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import pytest

from lmc.ir.builder import Builder, new_function
from lmc.ir.calls import GenCall, GenResult, ScoreCall, ScoreResult
from lmc.ir.core import Block, Function, Module, Op, Value
from lmc.ir.location import Location
from lmc.ir.target import Piece
from lmc.ir.types import BOOL, EFFECT, INT, PY, STATE, TEXT, Attr, Type, list_of

EMPTY, END, MARK, BLANK = range(4)
MERGES = ("ab", "abc", "ca", "tip", "p a", "ip", " a", "b\n", "xy", "yz", "\nx")
FIRST = 4
WORDS = ("ab", "c", "abc", "tip ", " a", "b\n", "xy", "z", "\n", "abcabc", "")


class MergingTokenizer:
    """Longest match over a few merges, so that text cut elsewhere has other tokens."""

    fingerprint = "merging"
    vocab_size = FIRST + len(MERGES) + 0x110000
    start_ids = ()
    empty_context_id = EMPTY
    eos_ids = frozenset({END})

    def _cut(self, text: str) -> list[tuple[int, int]]:
        cuts, at = [], 0
        while at < len(text):
            fits = [merge for merge in MERGES if text.startswith(merge, at)]
            piece = max(fits, key=len, default=text[at])
            code = MERGES.index(piece) if fits else len(MERGES) + ord(piece)
            cuts.append((at, FIRST + code))
            at += len(piece)
        return cuts

    def encode(self, text: str, *, first: bool = False) -> list[int]:
        return [BLANK] * (first and bool(text)) + [token_id for _, token_id in self._cut(text)]

    def stable_len(self, text: str, *, first: bool = False) -> int:
        stable = [start for start, _ in self._cut(text) if start + 3 <= len(text)]
        return len(stable) + (first and bool(text))

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(self._text(token_id) for token_id in token_ids)

    def _text(self, token_id: int) -> str:
        code = token_id - FIRST
        if code < 0:
            return ""
        return MERGES[code] if code < len(MERGES) else chr(code - len(MERGES))

    def token_bytes(self) -> Sequence[bytes | None]:
        raise NotImplementedError("nobody lists a million characters")

    def control_id(self, token: str) -> int | None:
        return {"<|m|>": MARK}.get(token)

    def control_text(self, token_id: int) -> str | None:
        return {MARK: "<|m|>"}.get(token_id)


class MarkTemplate:
    """A marker and the role open a turn; the first turn of a user greets."""

    def begin(self, role: str, *, is_first: bool) -> tuple[Piece, ...]:
        greeting: tuple[Piece, ...] = (MARK, "hi\n") if is_first and role != "system" else ()
        return (*greeting, MARK, f"{role}:")

    def end(self, role: str) -> tuple[Piece, ...]:
        return ("\n",)


@dataclass
class MergingTarget:
    """The target of the tests."""

    tokenizer: MergingTokenizer = field(default_factory=MergingTokenizer)
    template: MarkTemplate = field(default_factory=MarkTemplate)
    name: str = "merging"
    fingerprint: str = "merging"


class HashModel:
    """Answers by a hash of what a call is: equal calls get equal answers, others rarely."""

    tokenizer = MergingTokenizer()

    def _draw(self, *parts: object) -> Random:
        digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
        return Random(int.from_bytes(digest, "big"))

    def generate(self, call: GenCall) -> GenResult:
        draw = self._draw(call.context, call.params, call.constraint, call.key)
        text = "".join(draw.choice(WORDS) for _ in range(draw.randint(0, 3)))
        if call.constraint is not None:
            text = str(draw.randint(0, 3))
        tail = draw.choice(("", "", "b")) if call.constraint is None else ""
        return GenResult(token_ids=tuple(self.tokenizer.encode(text)), text=text + tail, tail=tail)

    def score(self, call: ScoreCall) -> ScoreResult:
        draws = [self._draw(call.context, option) for option in call.options]
        return ScoreResult(
            logprobs=tuple(
                tuple(-draw.random() for _ in option)
                for draw, option in zip(draws, call.options, strict=True)
            )
        )


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


class ProgramMaker:
    """Makes random programs that verify; most of their statements do something."""

    def __init__(self, draw: Random) -> None:
        self._draw = draw
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

    def _pick(self, values: Sequence[Value]) -> Value:
        return values[self._draw.randrange(len(values))]

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


@pytest.fixture
def make_program() -> Callable[[Random], Module]:
    """Return a function that makes a random module with the entry `main(a, b)`."""
    return lambda draw: ProgramMaker(draw).module()


@pytest.fixture
def merging_target() -> MergingTarget:
    """A target whose tokens depend on what text meets what."""
    return MergingTarget()


@pytest.fixture
def hash_model() -> HashModel:
    """A model that answers by a hash of the call."""
    return HashModel()
