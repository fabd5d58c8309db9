"""Random programs that choose and branch, as IR, for tests of work ahead of choices."""

from random import Random

from lmc.ir.builder import Builder, new_function
from lmc.ir.core import Block, Module, Value
from lmc.ir.printer import print_module
from lmc.ir.types import BOOL, EFFECT, PY, STATE, TEXT
from lmc.passes.pipeline import PassManager

WORDS = ("Well then, let us see. ", "so ", "Add the numbers: ", "", "\n", "and in other words ")


class ProgramOfChoices:
    """One random program `main(q)`: chains of choices, each with branches on what came."""

    def __init__(self, seed: int) -> None:
        self._draw = Random(seed)
        self._captured = Module("choices", entries=["main"])
        function = new_function("main", ["q"])
        self._captured.functions["main"] = function
        effect, question = function.body.arguments
        b = Builder(function.body)
        text = b.value("val.format", [question, ""], kind=TEXT, conversion="s")
        state = b.extend(b.extend(b.prompt(), "Question: "), text)
        values: list[Value] = []
        for number in range(self._draw.randint(1, 4)):
            state, effect, value = self._choice(b, state, effect, text, number)
            values.append(value)
        b.return_(effect, state, b.value("val.tuple", values))
        self.text = print_module(self._captured)

    def module(self) -> Module:
        """Return the optimised module; all choices are foreseen that can be."""
        passes = "fold,dce,speculate{min_chars=1,likely=0.5,rare=0.0},dce"
        return PassManager.parse(passes).run(self._captured).module

    def _choice(
        self, b: Builder, state: Value, effect: Value, text: Value, number: int
    ) -> tuple[Value, Value, Value]:
        draw, name = self._draw, f"k{number}"
        kind = draw.randrange(3)
        if kind == 0:
            options = draw.sample(["sum", "word", "both", "none"], draw.randint(2, 4))
            state, chosen, _ = b.select(state, options, name).results
            tests = [("==", option) for option in options[:-1]]
        elif kind == 1:
            made = b.gen(state, name, kind=BOOL, type="bool", max_tokens=8)
            state, chosen, _ = made.results
            tests = [("is", True)]
        else:
            state, chosen, _ = b.gen(state, name, regex="(a|b|c c)", max_tokens=8).results
            tests = [("==", "a"), ("in", "b c")]
        if draw.random() < 0.6:
            state = b.extend(state, draw.choice(WORDS))
        if draw.random() < 0.2:
            called = b.op("host.call", [effect, chosen], [EFFECT, PY],
                          attributes={"callee": "m:note"})  # fmt: skip
            effect = called.results[0]
        return self._arms(b, state, effect, text, chosen, tests)

    def _arms(
        self, b: Builder, state: Value, effect: Value, text: Value, chosen: Value,
        tests: list[tuple[str, object]],
    ) -> tuple[Value, Value, Value]:  # fmt: skip
        if not tests:
            return self._arm(b, state, effect, text)
        op, constant = tests[0]
        condition = b.truth(b.compare(op, chosen, constant))
        blocks = [Block(), Block()]
        first = Builder(blocks[0])
        first.yield_(*self._arm(first, state, effect, text))
        second = Builder(blocks[1])
        second.yield_(*self._arms(second, state, effect, text, chosen, tests[1:]))
        made = b.if_(condition, *blocks, [(STATE, "s"), EFFECT, PY])
        if self._draw.random() < 0.6:
            made.attributes["taken"] = [self._draw.randint(0, 9), self._draw.randint(0, 9)]
        return made.results[0], made.results[1], made.results[2]

    def _arm(
        self, b: Builder, state: Value, effect: Value, text: Value
    ) -> tuple[Value, Value, Value]:
        draw = self._draw
        state = b.extend(state, draw.choice(WORDS))
        if draw.random() < 0.3:
            state = b.extend(state, text)
        if draw.random() < 0.3:
            called = b.op("host.call", [effect, text], [EFFECT, PY],
                          attributes={"callee": "m:note"})  # fmt: skip
            effect = called.results[0]
        value: Value = text
        match draw.randrange(5):
            case 0:
                return state, effect, value
            case 1:
                state, children = b.fork(state, 2)
                made = [b.gen(b.child(children, i), "w", max_tokens=4) for i in range(2)]
                value = made[0].results[1]
            case 2:
                state, value, _ = b.gen(state, "w", max_tokens=6, temperature=0).results
            case _:
                state, value, _ = b.gen(state, "w", max_tokens=6).results
        called = b.op("host.call", [effect, value], [EFFECT, PY], attributes={"callee": "m:note"})
        return state, called.results[0], value
