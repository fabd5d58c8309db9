"""Random programs: control flow, aliases, forks, helpers, nested programs, roles.

`program_text(seed)` is the text of a file with one program `prog(s, n)`; every name that it
reads may be unassigned, every loop ends.
"""

import random

HEAD = '''import lmc


def helper(st, xs, k):
    """Changes what it is given; returns from inside a loop."""
    if k > 9:
        return None
    for j in range(k):
        st += f"h{j}"
        xs.append(j)
        if j == 1:
            break
    return st


def plain(k):
    """Plain values only."""
    total = 0
    for j in range(k):
        if j == 2:
            continue
        total += j
        if total > 4:
            return -total
    return total


@lmc.function
def inner(s, k: int):
    """A nested program."""
    s += f"inner {k}" + lmc.gen("i", max_tokens=1)
    if k > 1:
        return s["i"]
    return k


@lmc.function
def prog(s, n: int):
'''


class Writer:
    """Writes one program; keeps the names that exist, by kind."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.names: dict[str, list[str]] = {
            "int": ["n"], "text": ["'t'"], "list": [], "nested": [], "state": ["s"], "group": [],
            "states": [], "called": [],
        }  # fmt: skip
        self.count = 0
        self.depth = 0
        self.loops = 0
        self.budget = 30

    def chance(self, share: float) -> bool:
        """Return True that often."""
        return self.random.random() < share

    def one(self, *choices: str) -> str:
        """Return one of several texts."""
        return self.random.choice(choices)

    def any(self, kind: str) -> str:
        """Return a name of a kind, `0` or such where there is none."""
        return self.random.choice(self.names[kind] or ["[]"])

    def new(self, kind: str) -> str:
        """Make a name."""
        self.count += 1
        return f"{kind[0]}{self.count}"

    def put(self, text: str) -> None:
        """Write a line."""
        self.lines.append("    " * (self.depth + 1) + text)

    def bind(self, kind: str, value: str) -> None:
        """Write an assignment, to a new name or an old one."""
        old = [name for name in self.names[kind] if name not in ("s", "'t'")]
        name = self.random.choice(old) if old and self.chance(0.4) else self.new(kind)
        self.put(f"{name} = {value}")
        self.names[kind].append(name)

    # Expressions.

    def int(self, deep: int = 0) -> str:
        """Return an expression for a number."""
        if deep > 2 or self.chance(0.3):
            return str(self.random.randint(0, 3))
        makers = [
            lambda: self.any("int"), lambda: self.any("int"), lambda: f"len({self.any('list')})",
            lambda: f"sum({self.any('list')})", lambda: f"plain({self.int(deep + 1)})",
            lambda: f"({self.int(deep + 1)} if {self.test(deep + 1)} else {self.int(deep + 1)})",
            lambda: f"({self.int(deep + 1)} {self.one('or', 'and')} {self.int(deep + 1)})",
            lambda: f"({self.int(deep + 1)} {self.one('+', '-', '*')} {self.int(deep + 1)})",
        ]  # fmt: skip
        return self.random.choice(makers)()

    def test(self, deep: int = 0) -> str:
        """Return a condition."""
        if deep > 2 or self.chance(0.4):
            return f"{self.int(2)} {self.one('<', '==', '>=', '!=')} {self.int(2)}"
        makers = [
            lambda: self.any("list"), lambda: f"not {self.test(deep + 1)}",
            lambda: f"({self.test(deep + 1)} {self.one('and', 'or')} {self.test(deep + 1)})",
            lambda: f"len({self.any('state')}.text()) % 2", lambda: f"'g' in {self.any('state')}",
            lambda: f"{self.int(2)} < {self.int(2)} <= {self.int(2)}",
            lambda: f"any(x > 1 for x in {self.any('list')})",
        ]  # fmt: skip
        return self.random.choice(makers)()

    def text(self) -> str:
        """Return an expression for a text."""
        makers = [
            lambda: repr(self.one("a", "b ", "cd")), lambda: "f'{" + self.int(2) + "}'",
            lambda: self.any("text"), lambda: f"str({self.any('list')})",
        ]  # fmt: skip
        return self.random.choice(makers)()

    def list(self) -> str:
        """Return an expression for a list of numbers."""
        shown = ", ".join(self.int(2) for _ in range(self.random.randint(0, 3)))
        makers = [
            lambda: f"[{shown}]", lambda: self.any("list"), lambda: f"list({self.any('list')})",
            lambda: f"({self.any('list')} + {self.any('list')})",
            lambda: f"({self.any('list')} if {self.test(1)} else {self.any('list')})",
            lambda: f"[x + 1 for x in {self.any('list')} if x < 3]",
            lambda: f"sorted({self.any('list')}, key=lambda x: -x)",
        ]  # fmt: skip
        return self.random.choice(makers)()

    def state(self) -> str:
        """Return an expression for a state."""
        makers = [
            lambda: self.any("state"), lambda: f"{self.any('state')}.copy()",
            lambda: f"({self.any('state')} if {self.test(1)} else {self.any('state')})",
        ]  # fmt: skip
        if self.names["group"]:
            makers.append(lambda: f"{self.any('group')}[{self.one('0', '1', '-1')}]")
        if self.names["states"]:
            makers.append(lambda: f"{self.any('states')}[0]")
        return self.random.choice(makers)()

    def seen(self) -> str:
        """Return an expression that reads much of what there is."""
        names = self.names
        parts = names["int"][-3:] + names["list"][-5:] + names["nested"][-3:]
        parts += [f"{name}.text()" for name in names["state"][-4:]]
        parts += [f"[q.text() for q in {name}]" for name in (names["group"] + names["states"])[-2:]]
        parts += [f"{name}.value" for name in names["called"][-1:]]
        return "[" + ", ".join(parts) + "]"

    # Statements.

    def block(self, count: int) -> None:
        """Write an indented block; its names may be lost outside."""
        saved = {kind: list(names) for kind, names in self.names.items()}
        self.depth += 1
        before = len(self.lines)
        for _ in range(count):
            self.statement()
        if len(self.lines) == before:
            self.put("pass")
        self.depth -= 1
        if self.chance(0.8):
            self.names = saved

    def statement(self) -> None:
        """Write a statement."""
        self.budget -= 1
        if self.budget < 0:
            return
        simple = [
            self.number, self.change_list, self.change_nested, self.append, self.append,
            self.name_state, self.fork, self.change_group, self.call, self.turn,
        ]  # fmt: skip
        nested = [self.branch, self.branch, self.loop, self.loop, self.exit]
        self.random.choice(simple if self.depth > 2 or self.chance(0.65) else nested)()

    def number(self) -> None:
        """Bind or change a number or a list."""
        if self.chance(0.3):
            self.put(f"{self.any('int')} += {self.int()}")
        elif self.chance(0.6):
            self.bind("int", self.int())
        else:
            self.bind("list", self.list())

    def change_list(self) -> None:
        """Change a list in place."""
        if not self.names["list"]:
            self.bind("list", self.list())
            return
        name = self.any("list")
        self.put(self.one(
            f"{name}.append({self.int()})", f"{name} += {self.list()}", f"{name}.sort()",
            f"if {name}: {name}[0] = {self.int(2)}", f"if {name}: {name}.pop()",
            f"{name}.extend({self.list()})", f"{name}.insert(0, {self.int()})",
        ))  # fmt: skip

    def change_nested(self) -> None:
        """Make or change a list of lists."""
        if not self.names["nested"]:
            self.bind("nested", f"[{self.list()}, {self.list()}]")
            return
        name, index = self.any("nested"), self.random.randint(0, 1)
        if self.chance(0.4):
            self.bind("list", f"{name}[{index}]")
            return
        self.put(self.one(
            f"{name}[{index}].append({self.int()})", f"{name}.append({self.list()})",
            f"{name}[0] = {self.list()}", f"{name}[{index}] += {self.list()}",
        ))  # fmt: skip

    def append(self) -> None:
        """Append to a state."""
        gen = " + lmc.gen('g', max_tokens=1)" if self.chance(0.3) else ""
        self.put(f"{self.any('state')} += {self.text()}{gen}")

    def name_state(self) -> None:
        """Bind a name to a state, or collect states."""
        if self.chance(0.6):
            self.bind("state", self.state())
        elif self.names["states"] and self.chance(0.6):
            self.put(f"{self.any('states')}.append({self.state()})")
        else:
            self.bind("states", f"[{self.state()}]")

    def fork(self) -> None:
        """Fork a state."""
        self.bind("group", f"{self.any('state')}.fork(2)")

    def change_group(self) -> None:
        """Change children of a fork, or states in a list."""
        kind = "group" if self.chance(0.6) else "states"
        if not self.names[kind]:
            return
        name = self.any(kind)
        if self.chance(0.3):
            child = self.new("state")
            self.put(f"for {child} in {name}:")
            self.names["state"].append(child)
            self.loops += 1
            self.block(self.random.randint(1, 2))
            self.loops -= 1
        elif kind == "group" and self.chance(0.4):
            self.put(f"{name} += {self.text()}" if self.chance(0.6) else f"{name}.join()")
        else:
            self.put(f"{name}[{self.one('0', '-1')}] += {self.text()}")

    def call(self) -> None:
        """Call a helper or a nested program."""
        if self.chance(0.5):
            self.put(f"helper({self.state()}, {self.list()}, {self.int()})")
        else:
            self.bind("called", f"inner({self.int()}, temperature=0)")

    def turn(self) -> None:
        """Open a turn around a block, exits included."""
        if self.chance(0.5):
            self.put(f"{self.any('state')} += lmc.user({self.text()})")
            return
        self.put(f"with {self.any('state')}.var_scope('v'):")
        self.block(self.random.randint(1, 2))

    def branch(self) -> None:
        """Write an if, or a match."""
        if self.chance(0.2):
            self.put(f"match {self.int()}:")
            self.depth += 1
            for pattern in ("0 | 1", "int(x) if x > 2", "_")[: self.random.randint(1, 3)]:
                self.put(f"case {pattern}:")
                self.block(self.random.randint(1, 2))
            self.depth -= 1
            return
        self.put(f"if {self.test()}:")
        self.block(self.random.randint(1, 3))
        if self.chance(0.5):
            self.put("else:")
            self.block(self.random.randint(1, 3))

    def loop(self) -> None:
        """Write a for or while."""
        self.loops += 1
        if self.chance(0.6):
            name = self.new("int")
            source = f"range({self.random.randint(0, 3)})"
            if self.chance(0.4):
                source = f"list({self.any('list')})[:3]"
            self.put(f"for {name} in {source}:")
            self.names["int"].append(name)
        else:
            name = self.new("w")
            self.put(f"{name} = 0")
            self.put(f"while {name} < {self.random.randint(1, 3)}:")
            self.depth += 1
            self.put(f"{name} += 1")
            self.depth -= 1
        self.block(self.random.randint(1, 4))
        self.loops -= 1
        if self.chance(0.2):
            self.put("else:")
            self.block(1)

    def exit(self) -> None:
        """Leave a loop or the program."""
        if self.loops and self.chance(0.7):
            self.put(f"if {self.test()}: {self.one('break', 'continue')}")
        elif self.depth:
            self.put(f"if {self.test()}: return {self.seen()}")


def program_text(seed: int) -> str:
    """Return the text of a program file."""
    writer = Writer(seed)
    for _ in range(10):
        writer.statement()
    writer.put(f"return {writer.seen()}")
    return HEAD + "\n".join(writer.lines) + "\n"
