"""Random modules that verify: straight lines, branches, loops, forks, calls, what passes make."""

import random
from dataclasses import dataclass, field

from lmc.ir.builder import Builder, new_function
from lmc.ir.core import Block, Function, Module, Value
from lmc.ir.location import Location
from lmc.ir.types import BOOL, EFFECT, INT, META, PY, STATE, TEXT, Attr, Type, list_of

TEXTS = ["Hello", " world", "\n", "12", "naïve 🙂", "", " ", "A: "]
NAMES = ["a", "b", "c", "d"]


@dataclass
class Scope:
    """What a block can use, by type; `names` are variables that every state has."""

    effect: Value
    values: dict[Type, list[Value]] = field(default_factory=dict)

    def copy(self, effect: Value) -> "Scope":
        """Return what a nested block can use at its start."""
        return Scope(effect, {kind: list(held) for kind, held in self.values.items()})

    def add(self, value: Value) -> Value:
        """Make a value usable."""
        self.values.setdefault(value.type, []).append(value)
        return value


class Maker:
    """Makes one module from a seed."""

    def __init__(self, seed: int, *, num_ops: int, failing: float, token: str) -> None:
        self.draw = random.Random(seed)
        self.token = token
        self.failing = failing
        self.num_ops = num_ops
        self.module = Module("random", entries=["main"])
        self.callable: list[Function] = []

    def make(self) -> Module:
        """Return the module."""
        self._program("inner", 6)
        self._helper()
        self._program("main", self.num_ops)
        return self.module

    def _program(self, name: str, num_ops: int) -> None:
        function = new_function(name, ["x"])
        self.module.functions[name] = function
        effect, x = function.body.arguments
        b = Builder(function.body)
        scope = Scope(effect)
        root = b.extend(
            scope.add(b.prompt()), b.value("val.format", [x, ""], kind=TEXT, conversion="s")
        )
        for variable in NAMES:
            root = b.op("lm.set", [root, x], [STATE], attributes={"name": variable}).result
        scope.values[STATE] = [root]
        scope.add(x)
        for word in self.draw.sample(TEXTS, 3):
            scope.add(b.const(word))
        scope.add(b.const(2))
        self._ops(b, scope, num_ops, depth=0)
        held = [self._any(scope, kind) for kind in (TEXT, INT, BOOL, PY) if scope.values.get(kind)]
        b.return_(scope.effect, self._any(scope, STATE), b.value("val.list", held))
        self.callable.append(function)

    def _helper(self) -> None:
        function = new_function("help", ["t"], kind="helper")
        self.module.functions["help"] = function
        effect, text = function.body.arguments
        b = Builder(function.body)
        doubled = b.value("val.format", [text, ""], kind=TEXT, conversion="r")
        b.return_(effect, doubled)

    def _any(self, scope: Scope, kind: Type) -> Value:
        held = scope.values[kind]
        # Later values more often, so that chains grow long.
        return held[max(self.draw.randrange(len(held)), self.draw.randrange(len(held)))]

    def _ops(self, b: Builder, scope: Scope, count: int, depth: int) -> None:
        flat = [
            self._extend, self._extend, self._gen, self._gen, self._select, self._turn,
            self._control, self._fork, self._join, self._set, self._get, self._read, self._text,
            self._number, self._host, self._pure, self._tick, self._container, self._prologue,
            self._again, self._place, self._foresee, self._unordered,
        ]  # fmt: skip
        nested = [self._if, self._for, self._while, self._call, self._apply]
        for _ in range(count):
            if self.failing and self.draw.random() < self.failing:
                self._failing(b, scope)
            deep = depth < 2 and self.draw.random() < 0.25
            self.draw.choice(nested if deep else flat)(b, scope, depth)

    # -- flat ops --------------------------------------------------------------------------

    def _extend(self, b: Builder, scope: Scope, depth: int) -> None:
        state = b.extend(self._any(scope, STATE), self._any(scope, TEXT))
        if self.draw.random() < 0.1:
            b.block.ops[-1].attributes["hoisted"] = True
        scope.add(state)

    def _gen(self, b: Builder, scope: Scope, depth: int) -> None:
        params = {"max_tokens": self.draw.randint(0, 6)}
        if self.draw.random() < 0.3:
            params["temperature"] = 0
        if self.draw.random() < 0.3:
            params["stop"] = self.draw.choice(["\n", ["e", " "], []])
        kind = TEXT
        choice = self.draw.random()
        if choice < 0.15:
            params |= {"type": "bool", "max_tokens": 12}
            kind = BOOL
        elif choice < 0.3:
            params |= {"regex": "[a-c]{1,3}", "max_tokens": 6}
        elif choice < 0.45:
            params["n"] = 2
            kind = list_of(TEXT)
        name = self.draw.choice([*NAMES, None])
        made = b.gen(self._any(scope, STATE), name, kind=kind, **params)
        made.attributes |= self._notes(params)
        state, value, meta = made.results
        scope.add(state)
        scope.add(value)
        scope.add(
            b.value("val.index", [meta, "completion_tokens"], kind=PY)
        ) if kind == TEXT else None

    def _select(self, b: Builder, scope: Scope, depth: int) -> None:
        choices = self.draw.sample(["yes", "no", " maybe", "x"], self.draw.randint(1, 3))
        methods = ["token_length_normalized", "greedy_token_selection",
                   "unconditional_likelihood_normalized"]  # fmt: skip
        state = self._any(scope, STATE)
        if self.draw.random() < 0.3:
            state = self._foreseen(b, state, "lm.select", choices)
        made = b.select(
            state, choices, self.draw.choice(NAMES), choices_method=self.draw.choice(methods)
        )
        scope.add(made.results[0])
        scope.add(made.results[1])

    def _turn(self, b: Builder, scope: Scope, depth: int) -> None:
        role = self.draw.choice(["system", "user", "assistant"])
        state = b.extend(b.begin(self._any(scope, STATE), role), self._any(scope, TEXT))
        scope.add(b.end(state, role) if self.draw.random() < 0.8 else state)

    def _control(self, b: Builder, scope: Scope, depth: int) -> None:
        scope.add(b.control(self._any(scope, STATE), self.token))

    def _tick(self, b: Builder, scope: Scope, depth: int) -> None:
        state = self._any(scope, STATE)
        scope.add(b.op("lm.tick", [state], [STATE], attributes={"n": 2}).result)

    def _prologue(self, b: Builder, scope: Scope, depth: int) -> None:
        pieces = [["begin", "system"], ["text", "Constant."], ["end", "system"], ["text", "Go on "]]
        caller: list[Value] = []
        if self.draw.random() < 0.5:
            # As inline leaves a nested program: its root, and the caller with a call counted.
            caller = [self._any(scope, STATE)]
            scope.add(b.op("lm.tick", caller, [STATE], attributes={"n": 1}).result)
        if self.draw.random() < 0.3:
            state = b.op("lm.prompt", caller, [STATE]).result
        else:
            state = b.op("lm.prologue", caller, [STATE], attributes={"pieces": pieces}).result
        for name in NAMES:
            state = b.op("lm.set", [state, b.const(0)], [STATE], attributes={"name": name}).result
        scope.add(state)

    def _notes(self, params: dict[str, Attr]) -> dict[str, Attr]:
        """Return attributes of a generation that mean nothing."""
        made: dict[str, Attr] = {}
        if "regex" in params and self.draw.random() < 0.5:
            made["skeleton"] = [["hole", 1, 3]]
        if self.draw.random() < 0.2:
            made["expected"] = self.draw.randrange(9)
        if self.draw.random() < 0.2:
            draw = self.draw.choice
            made["liveness"] = {
                "context": draw(["last", "more", "unknown"]),
                "result": draw(["none", "more", "unknown"]),
            }
        return made

    def _again(self, b: Builder, scope: Scope, depth: int) -> None:
        """Ask a greedy call, and take its answer again on the same context."""
        state, name = self._any(scope, STATE), self.draw.choice([*NAMES, None])
        attributes: dict[str, Attr] = {} if name is None else {"name": name}
        if self.draw.random() < 0.5:
            made = b.gen(state, name, temperature=0, max_tokens=self.draw.randint(0, 4))
            attributes["kind"] = "gen"
        else:
            made = b.select(state, ["yes", "no"], name)
            attributes["kind"] = "select"
        other = b.op("lm.tick", [state], [STATE], attributes={"n": 1}).result
        taken = b.op("lm.again", [other, *made.results], [STATE, TEXT, META], attributes=attributes)
        for value in (*made.results[:2], *taken.results[:2]):
            scope.add(value)

    def _place(self, b: Builder, scope: Scope, depth: int) -> None:
        """Put a text that was appended ahead at the place of a state with more calls."""
        state = self._any(scope, STATE)
        ahead = b.extend(state, self.draw.choice(TEXTS))
        b.block.ops[-1].attributes["hoisted"] = True
        counted = b.op("lm.tick", [state], [STATE], attributes={"n": 1}).result
        scope.add(b.op("lm.place", [ahead, counted], [STATE]).result)

    def _foresee(self, b: Builder, scope: Scope, depth: int) -> None:
        """Say what may follow a typed generation."""
        state = self._foreseen(b, self._any(scope, STATE), "lm.gen", ["True", "False"])
        made = b.gen(state, self.draw.choice(NAMES), kind=BOOL, type="bool", max_tokens=12)
        scope.add(made.results[0])
        scope.add(made.results[1])

    def _foreseen(self, b: Builder, state: Value, call: str, texts: list[str]) -> Value:
        paths: list[Attr] = []
        for text in texts:
            path: dict[str, Attr] = {"choice": text, "pieces": [["text", self.draw.choice(TEXTS)]]}
            if self.draw.random() < 0.3:
                path |= {"share": 0.5, "ticks": 1}
            paths.append(path)
        return b.op(
            "lm.foresee", [state], [STATE], attributes={"call": call, "paths": paths}
        ).result

    def _unordered(self, b: Builder, scope: Scope, depth: int) -> None:
        """Append pieces whose order is free."""
        state = self._any(scope, STATE)
        for side in ("begin", *["next"] * self.draw.randint(0, 2)):
            state = b.op("lm.unordered", [state], [STATE], attributes={"side": side}).result
            state = b.extend(state, self._any(scope, TEXT))
        scope.add(b.op("lm.unordered", [state], [STATE], attributes={"side": "end"}).result)

    def _fork(self, b: Builder, scope: Scope, depth: int) -> None:
        count = self.draw.randint(1, 3)
        given = count if self.draw.random() < 0.5 else b.const(count)
        parent, children = b.fork(self._any(scope, STATE), given)
        scope.add(parent)
        scope.add(children)
        taken = [b.child(children, self.draw.randrange(count)) for _ in range(2)]
        if self.draw.random() < 0.5:
            taken = b.op("lm.group", [parent, *taken], [STATE, STATE]).results
        for child in taken:
            scope.add(child)

    def _join(self, b: Builder, scope: Scope, depth: int) -> None:
        held = [self._any(scope, STATE) for _ in range(self.draw.randint(0, 3))]
        children = b.op("val.list", held, [list_of(STATE)]).result
        if scope.values.get(list_of(STATE)) and self.draw.random() < 0.4:
            children = self._any(scope, list_of(STATE))
        mode = self.draw.choice(["gather_variable", "concate_and_append"])
        scope.add(b.join(self._any(scope, STATE), children, mode))

    def _set(self, b: Builder, scope: Scope, depth: int) -> None:
        state, kind = self._any(scope, STATE), self.draw.choice([TEXT, INT, PY])
        name = self.draw.choice(NAMES)
        made = b.op("lm.set", [state, self._any(scope, kind)], [STATE], attributes={"name": name})
        scope.add(made.result)

    def _get(self, b: Builder, scope: Scope, depth: int) -> None:
        state, name = self._any(scope, STATE), self.draw.choice(NAMES)
        if self.draw.random() < 0.7:
            scope.add(b.op("lm.get", [state], [PY], attributes={"name": name}).result)
        else:
            scope.add(b.op("lm.has", [state, b.const(name)], [BOOL]).result)

    def _read(self, b: Builder, scope: Scope, depth: int) -> None:
        state = self._any(scope, STATE)
        if self.draw.random() < 0.6:
            scope.add(b.op("lm.text", [state], [TEXT]).result)
        else:
            scope.add(b.op("lm.messages", [state], [PY]).result)

    def _text(self, b: Builder, scope: Scope, depth: int) -> None:
        shown = b.value(
            "val.format", [self._any(scope, self._kind()), ""], kind=TEXT, conversion="s"
        )
        short = b.value("val.slice", [shown, None, 30, None], kind=TEXT)
        scope.add(b.value("val.concat", [short, self._any(scope, TEXT)]))

    def _kind(self) -> Type:
        return self.draw.choice([TEXT, INT, PY])

    def _number(self, b: Builder, scope: Scope, depth: int) -> None:
        length = b.value("val.call", [self._any(scope, TEXT)], kind=INT, callee="len")
        scope.add(b.value("val.binary", [length, 3], kind=INT, op="%"))
        scope.add(b.truth(b.compare("<", length, self._any(scope, INT))))

    def _container(self, b: Builder, scope: Scope, depth: int) -> None:
        held = b.value("val.list", [self._any(scope, TEXT), self._any(scope, PY)])
        if self.draw.random() < 0.4:
            held = b.const(["p", "q"], kind=PY)
        changed, _ = b.op(
            "val.mutate", [held, self._any(scope, INT)], [PY, PY], attributes={"name": "append"}
        ).results
        scope.add(b.value("val.index", [changed, b.const(self.draw.randint(-2, 2))]))
        if self.draw.random() < 0.4:
            scope.add(changed)

    def _host(self, b: Builder, scope: Scope, depth: int) -> None:
        operands = [scope.effect, self._any(scope, self._kind())]
        made = b.op("host.call", operands, [EFFECT, PY], attributes={"callee": "test:note"})
        scope.effect = made.results[0]
        scope.add(made.results[1])

    def _pure(self, b: Builder, scope: Scope, depth: int) -> None:
        operands = [self._any(scope, TEXT), self._any(scope, PY)]
        made = b.op(
            "host.pure", operands, [PY], attributes={"callee": "test:both", "keywords": ["other"]}
        )
        scope.add(made.result)

    def _failing(self, b: Builder, scope: Scope) -> None:
        """Add an op that may fail; its results are mostly not read."""
        state, text = self._any(scope, STATE), self._any(scope, TEXT)
        match self.draw.randrange(9):
            case 0:
                made = b.value("val.call", [text], kind=INT, callee="int")
            case 1:
                letter = b.const(self.draw.choice("eaq"))
                made = b.op(
                    "val.method", [text, letter], [INT], attributes={"name": "index"}
                ).result
            case 2:
                made = b.value("val.index", [text, b.const(self.draw.choice([0, 3, 9]))])
            case 3:
                name = self.draw.choice([*NAMES, "missing"])
                made = b.op("lm.get", [state], [PY], attributes={"name": name}).result
            case 4:
                made = b.op("lm.meta", [state], [META], attributes={"name": "a"}).result
            case 5:
                made = b.select(state, self.draw.choice([[], ["x", "y"]]), "a").results[1]
            case 6:
                made = b.extend(state, self._any(scope, PY))
            case 7:
                operands = [text]
                made = b.op("host.pure", operands, [PY], attributes={"callee": "test:fail"}).result
            case _:
                operands = [scope.effect, text]
                results = b.op("host.call", operands, [EFFECT, PY],
                               attributes={"callee": "test:fail"}).results  # fmt: skip
                scope.effect, made = results
        if self.draw.random() < 0.2:
            scope.add(made)

    # -- ops with blocks, calls ------------------------------------------------------------

    def _carried(self, scope: Scope) -> list[Value]:
        kinds = [STATE, TEXT, PY]
        return [self._any(scope, kind) for kind in self.draw.sample(kinds, 2)]

    def _if(self, b: Builder, scope: Scope, depth: int) -> None:
        condition = b.truth(self._any(scope, self.draw.choice([TEXT, INT])))
        kinds = [value.type for value in self._carried(scope)]
        blocks = []
        for _ in range(2):
            block = Block()
            inner, own = Builder(block), scope.copy(scope.effect)
            self._ops(inner, own, self.draw.randint(0, 4), depth + 1)
            inner.yield_(own.effect, *(self._any(own, kind) for kind in kinds))
            blocks.append(block)
        made = b.if_(condition, blocks[0], blocks[1], [EFFECT, *kinds])
        if self.draw.random() < 0.2:
            made.attributes["taken"] = [self.draw.randrange(9), self.draw.randrange(9)]
        self._take(scope, made.results)

    def _for(self, b: Builder, scope: Scope, depth: int) -> None:
        carried = self._carried(scope)
        items = b.const(self.draw.choice([[], ["p", "q"], ["p", "q", "r"]]))
        item: Type = TEXT
        if scope.values.get(list_of(STATE)) and self.draw.random() < 0.4:
            items, item = self._any(scope, list_of(STATE)), STATE
        block = self._body(scope, carried, depth, [Value(item, "item")])
        made = b.op(
            "cf.for", [items, scope.effect, *carried], [EFFECT, *(v.type for v in carried)],
            blocks=[block],
        )  # fmt: skip
        self._take(scope, made.results)

    def _while(self, b: Builder, scope: Scope, depth: int) -> None:
        carried = self._carried(scope)
        block = self._body(scope, carried, depth, [Value(INT, "count")], is_while=True)
        inits = [b.const(0), scope.effect, *carried]
        made = b.op("cf.while", inits, [v.type for v in inits], blocks=[block])
        self._take(scope, made.results[1:])

    def _body(
        self, scope: Scope, carried: list[Value], depth: int, first: list[Value], *, is_while=False
    ) -> Block:
        effect = Value(EFFECT, "effect")
        arguments = [Value(value.type, "carried") for value in carried]
        block = Block([*first, effect, *arguments])
        b, own = Builder(block), scope.copy(effect)
        for value in (*first, *arguments):
            own.add(value)
        self._ops(b, own, self.draw.randint(1, 4), depth + 1)
        go_on = b.truth(self._any(own, self.draw.choice([TEXT, INT])))
        results = [own.effect, *(self._any(own, value.type) for value in carried)]
        if is_while:
            count = b.binary("+", first[0], 1)
            is_few = b.truth(b.compare("<", count, 3))
            go_on = b.truth(b.value("val.binary", [go_on, is_few], op="&"))
            counted = b.value("val.call", [count], kind=INT, callee="int")
            results.insert(0, counted)
        b.yield_(go_on, *results)
        return block

    def _call(self, b: Builder, scope: Scope, depth: int) -> None:
        if not self.callable:
            return
        operands = [scope.effect, self._any(scope, STATE), self._any(scope, TEXT)]
        made = b.op(
            "func.call", operands, [EFFECT, STATE, STATE, PY],
            attributes={"callee": "inner", "defaults": {"temperature": self.draw.choice([0, 1.5])}},
        )  # fmt: skip
        self._take(scope, made.results)

    def _apply(self, b: Builder, scope: Scope, depth: int) -> None:
        if "help" not in self.module.functions:
            return
        operands = [scope.effect, self._any(scope, self._kind())]
        made = b.op("func.apply", operands, [EFFECT, PY], attributes={"callee": "help"})
        self._take(scope, made.results)

    def _take(self, scope: Scope, results: list[Value]) -> None:
        scope.effect = results[0]
        for value in results[1:]:
            scope.add(value)


def random_module(
    seed: int, *, num_ops: int = 22, failing: float = 0.0, token: str = "<|im_end|>"
) -> Module:
    """Return the module of a seed.

    `failing` is the share of ops that may fail, in addition; `token` a control token.
    """
    return Maker(seed, num_ops=num_ops, failing=failing, token=token).make()


def placed(module: Module) -> Module:
    """Give every op a line of its own."""
    for line, op in enumerate(module.walk(), 1):
        op.location = Location("m.py", line, 1, line, 2, "")
    return module
