"""Large and deep modules: about as many ops as asked for, in shapes that could take long."""

from collections.abc import Callable

from lmc.ir.builder import Builder, new_function
from lmc.ir.core import Block, Module, Value
from lmc.ir.location import Location
from lmc.ir.types import EFFECT, PY, STATE, TEXT, list_of

DEEPEST = 98
"""Levels of blocks in a function's own that the verifier takes, less one for `finish`."""

FORKS, ARMS = 500, 300


class Program:
    """A program being made: a builder, its effect and its argument."""

    def __init__(self, name: str = "main") -> None:
        self.function = new_function(name, ["x"])
        self.effect, self.x = self.function.body.arguments
        self.b = Builder(self.function.body, location=Location("p.py", 1, 1, 1, 9, "line 1"))
        self.state = self.b.prompt()

    def at(self, line: int) -> None:
        """Go on at a line of the source."""
        self.b.location = Location("p.py", line, 1, line, 9, f"line {line}")

    def finish(self, value: Value | None = None) -> Module:
        """Return the module of this program alone."""
        self.end(value)
        return Module("large", {self.function.name: self.function}, [self.function.name])

    def end(self, value: Value | None = None) -> None:
        """Return a value, the text of the prompt if none is given."""
        if value is None:
            value = self.b.op("lm.text", [self.state], [TEXT]).result
        self.b.return_(self.effect, self.state, value)


def appends(size: int) -> Module:
    """Constant and given texts in turn, a call now and then."""
    p = Program()
    for line in range(size // 3):
        p.at(line + 1)
        p.state = p.b.extend(p.state, f"text {line} ")
        p.state = p.b.extend(p.state, p.x) if line % 3 else p.b.gen(p.state, f"v{line}").results[0]
    return p.finish()


def calls(size: int) -> Module:
    """Greedy calls, one after another, all equal, with their variables read."""
    p = Program()
    for line in range(size // 4):
        p.at(line + 1)
        p.state = p.b.gen(p.state, "v", temperature=0, max_tokens=3).results[0]
        value = p.b.op("lm.get", [p.state], [PY], attributes={"name": "v"}).result
        p.state = p.b.extend(p.state, p.b.value("val.format", [value, ""], conversion="s"))
    return p.finish()


def choices(size: int) -> Module:
    """Choices of eight options, each followed by branches on it."""
    p = Program()
    options = [f"option {i}" for i in range(8)]
    for line in range(size // 12):
        p.at(line + 1)
        p.state, chosen, _ = p.b.select(p.state, options, f"v{line}").results
        arms = []
        for text in ("It was the first of all options. ", "It was another one of the options. "):
            arm = Block()
            b = Builder(arm, location=p.b.location)
            b.yield_(b.extend(p.state, text))
            arms.append(arm)
        is_first = p.b.truth(p.b.compare("==", chosen, options[0]))
        p.state = p.b.if_(is_first, *arms, [STATE]).result
    return p.finish()


def branches(size: int) -> Module:
    """Branches, one after another."""
    p = Program()
    condition = p.b.truth(p.x)
    for line in range(size // 8):
        p.at(line + 1)
        arms = []
        for word in ("same one", "same other"):
            arm = Block()
            b = Builder(arm, location=p.b.location)
            b.yield_(b.gen(b.extend(p.state, word), "v").results[0])
            arms.append(arm)
        p.state = p.b.if_(condition, *arms, [STATE]).result
    return p.finish()


def arms(size: int) -> Module:
    """As many as 90 comparisons of a value nested in the arms of one another."""
    p = Program()
    depth = min(DEEPEST - 8, size // 6)
    _arms(p.b, p, p.state, depth)
    p.state = p.b.block.ops[-1].result
    return p.finish()


def _arms(b: Builder, p: Program, state: Value, left: int) -> None:
    first, other = Block(), Block()
    inner = Builder(first, location=b.location)
    inner.yield_(inner.extend(state, f"arm {left}"))
    inner = Builder(other, location=b.location)
    if left:
        _arms(inner, p, state, left - 1)
        inner.yield_(other.ops[-1].result)
    else:
        inner.yield_(state)
    b.if_(b.truth(b.compare("==", p.x, left)), first, other, [STATE])


def forks(size: int) -> Module:
    """Children of one fork that append the same and ask."""
    p = Program()
    count = min(FORKS, size // 6)
    p.state, children = p.b.fork(p.state, count)
    held = []
    for index in range(count):
        p.at(index + 1)
        child = p.b.extend(p.b.child(children, index), f"the same start, number {index}")
        held.append(p.b.gen(child, "v", max_tokens=2).results[0])
    p.state = p.b.join(p.state, p.b.value("val.list", held, kind=list_of(STATE)))
    return p.finish()


def forks_of_forks(size: int) -> Module:
    """Each fork's child is forked again."""
    p = Program()
    for line in range(size // 8):
        p.at(line + 1)
        p.state = p.b.extend(p.state, "shared text ")
        _, children = p.b.fork(p.state, 2)
        other = p.b.gen(p.b.extend(p.b.child(children, 1), "tip"), "w").results[0]
        p.state = p.b.join(p.b.child(children, 0), p.b.value("val.list", [other]))
    return p.finish()


def doubling(size: int) -> Module:
    """Texts, lists and prompts that are each used twice by the next."""
    p = Program()
    text, held = p.b.value("val.format", [p.x, ""], conversion="s"), p.b.value("val.list", [p.x])
    for line in range(size // 5):
        p.at(line + 1)
        text = p.b.value(
            "val.slice", [p.b.value("val.concat", [text, text]), None, 9, None], kind=TEXT
        )
        held = p.b.value("val.list", [held, held])
        first = p.b.extend(p.state, text)
        p.state = p.b.join(first, p.b.value("val.list", [first, p.state], kind=list_of(STATE)))
    return p.finish(p.b.value("val.call", [held], callee="len"))


def doubling_texts(size: int) -> Module:
    """A constant text and one with an argument, each put together of the one before twice."""
    p = Program()
    text, other = p.b.const("ab"), p.b.value("val.format", [p.x, ""], conversion="s")
    for line in range(size // 2):
        p.at(line + 1)
        text = p.b.value("val.concat", [text, text])
        other = p.b.value("val.concat", [other, other])
    return p.finish(p.b.value("val.tuple", [text, other]))


def sums(size: int) -> Module:
    """Texts and values of unknown kind, each the sum of the one before and another."""
    p = Program()
    text, value = p.b.const("a"), p.x
    for line in range(size // 4):
        p.at(line + 1)
        text = p.b.value("val.concat", [text, p.b.value("val.format", [p.x, ""], conversion="s")])
        value = p.b.binary("+", value, p.x)
    p.state = p.b.extend(p.b.extend(p.state, text), value)
    return p.finish()


def nested_lists(size: int) -> Module:
    """Constant lists that each hold the one before twice."""
    p = Program()
    held = p.b.const([1], kind=PY)
    for line in range(size // 2):
        p.at(line + 1)
        held = p.b.value("val.list", [held, held])
    return p.finish(p.b.value("val.call", [held], callee="len"))


def nested_loops(size: int) -> Module:
    """Loops of two trips in one another, as deep as the verifier takes."""
    p = Program()
    items = p.b.const(["a", "b"], kind=list_of(TEXT))
    p.state = _loop(p.b, items, p.state, min(DEEPEST, size // 3))
    return p.finish()


def _loop(b: Builder, items: Value, state: Value, left: int) -> Value:
    body = Block([Value(TEXT, "item"), Value(STATE, "s")])
    item, inner = body.arguments
    nested = Builder(body, location=b.location)
    inner = nested.extend(inner, item) if left == 1 else _loop(nested, items, inner, left - 1)
    nested.yield_(nested.const(True), inner)
    return b.for_(items, [state], body).result


def nested_tries(size: int) -> Module:
    """Tries and branches in one another."""
    p = Program()
    p.effect, p.state = _try(p.b, p.x, p.effect, p.state, min(DEEPEST, size // 3))
    return p.finish()


def _try(b: Builder, x: Value, effect: Value, state: Value, left: int) -> list[Value]:
    block = Block()
    nested = Builder(block, location=b.location)
    if left == 1:
        inner = [effect, nested.gen(nested.extend(state, x), "v").results[0]]
    else:
        inner = _try(nested, x, effect, state, left - 1)
    nested.op("cf.save", [inner[1]], attributes={"slots": [0]})
    nested.yield_(*inner)
    made = b.op("cf.try", [effect, state], [PY, EFFECT, STATE, STATE], blocks=[block])
    return [made.results[1], made.results[2]]


def long_loop(size: int) -> Module:
    """A loop over a constant list, with a call in each trip."""
    p = Program()
    items = p.b.const([f"item {i}" for i in range(size)], kind=list_of(TEXT))
    body = Block([Value(TEXT, "item"), Value(STATE, "s")])
    b = Builder(body, location=p.b.location)
    inner = b.gen(b.extend(body.arguments[1], body.arguments[0]), "v", max_tokens=1).results[0]
    b.yield_(b.const(True), inner)
    p.state = p.b.for_(items, [p.state], body).result
    return p.finish()


def chain(size: int) -> Module:
    """Programs, each of which calls the next."""
    return _calling(max(2, size // 6), 1)


def doubling_calls(size: int) -> Module:
    """Programs, each of which calls the next one twice."""
    return _calling(max(2, min(30, size // 10)), 2)


def _calling(count: int, times: int) -> Module:
    module = Module("large", entries=["main"])
    for index in range(count):
        p = Program("main" if index == 0 else f"f{index}")
        p.at(index + 1)
        p.state = p.b.extend(p.state, f"program {index} ")
        for _ in range(times if index + 1 < count else 0):
            p.effect, p.state, _, value = p.b.op(
                "func.call", [p.effect, p.state, p.x], [EFFECT, STATE, STATE, PY],
                attributes={"callee": f"f{index + 1}"},
            ).results  # fmt: skip
            p.state = p.b.extend(p.state, p.b.value("val.format", [value, ""], conversion="s"))
        p.state = p.b.gen(p.state, "v", max_tokens=1).results[0]
        p.end()
        module.functions[p.function.name] = p.function
    return module


def pieces(size: int) -> Module:
    """Pieces whose order is free, constants among arguments."""
    p = Program()
    for line in range(size // 4):
        p.at(line + 1)
        side = "next" if line else "begin"
        p.state = p.b.op("lm.unordered", [p.state], [STATE], attributes={"side": side}).result
        p.state = p.b.extend(p.state, f"constant {line}" if line % 3 else p.x)
    p.state = p.b.op("lm.unordered", [p.state], [STATE], attributes={"side": "end"}).result
    return p.finish()


def host_calls(size: int) -> Module:
    """Effects in a long chain, with lists that host code may change."""
    p = Program()
    held = p.b.value("val.list", [p.x])
    for line in range(size // 4):
        p.at(line + 1)
        operands = [p.effect, held]
        made = p.b.op("host.call", operands, [EFFECT, PY], attributes={"callee": "m:f"})
        p.effect = made.results[0]
        held, _ = p.b.op(
            "val.mutate", [held, made.results[1]], [PY, PY], attributes={"name": "append"}
        ).results
        p.state = p.b.op("lm.set", [p.state, held], [STATE], attributes={"name": "v"}).result
    return p.finish()


SHAPES: dict[str, Callable[[int], Module]] = {
    made.__name__: made
    for made in (
        appends, calls, choices, branches, arms, forks, forks_of_forks, doubling,
        doubling_texts, sums, nested_lists, nested_loops, nested_tries, long_loop, chain,
        doubling_calls, pieces, host_calls,
    )
}  # fmt: skip
