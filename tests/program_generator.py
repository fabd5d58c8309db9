"""Random programs of the language as source text, for checking what runs them.

`program_text(seed)` is the text of a file whose program `prog` uses a bit of everything: text,
f-strings, generations with all kinds of parameters, choices, typed values, roles, forks of
constant and dynamic width, joins, loops with exits, early returns, helpers that take states,
nested programs, lists and dicts of values and states, comprehensions, host functions with
effects. Every loop ends, and most runs come to their end.
"""

from collections.abc import Callable
from random import Random

from program_accents import ACCENTS, PER_PROGRAM, Accents
from program_expressions import KINDS
from program_head import HEAD

PARAMETERS = (
    ("text: str", "text"), ("n: int", "int"), ("flag: bool", "flag"), ("items: list[str]", "texts"),
    ("numbers: list[int]", "ints"), ("level: int = 2", "int"), ('mark: str = "-"', "text"),
)  # fmt: skip
MAX_DEPTH = 3


class Writer(Accents):
    """Writes the body of one function."""

    def statement(self) -> None:
        """Write one statement, or nothing where the budget is spent."""
        if self.budget <= 0:
            return
        self.budget -= 1
        plain: list[Callable[[], None]] = [
            self.append, self.append, self.append, self.generate, self.generate, self.choose,
            self.assign, self.assign, self.change, self.role, self.variable, self.host, self.host,
            self.unpack, self.fork, self.fork, self.copies, self.meta, self.search, self.guard,
            self.call, self.call, self.call, self.twins, self.twins,
        ]  # fmt: skip
        nested = [self.branch, self.branch, self.loop, self.loop, self.while_loop, self.match,
                  self.scope, self.maybe, self.exit, self.exit, self.call, self.call,
                  self.attempt, self.attempt]  # fmt: skip
        if self.tries:
            plain += [self.risk] * 4
        if self.loops:
            plain += [self.exit] * 3
        is_deep = self.depth >= MAX_DEPTH or not self.chance(0.3)
        self.draw.choice(plain if is_deep else nested)()

    # Values.

    def assign(self) -> None:
        """Assign a value to a new name, or to one that is there."""
        kind = self.draw.choice(KINDS)
        held = self.names[kind]
        is_old = bool(held) and self.chance(0.45)
        name = self.draw.choice(held) if is_old else self.new(kind[0])
        if is_old and kind in self.owned and name not in self.owned[kind]:
            return
        made = self.make(kind)
        if kind in self.owned:
            made = f"dict({made})" if kind == "table" else f"list({made})"
        if is_old and kind in ("int", "text") and self.chance(0.4) and not self._is_parameter(name):
            # What capture cannot tell from a list may not be added in place.
            self.put(f"{name} = {name} + {made}")
            return
        self.put(f"{name} = {made}")
        if not is_old:
            held.append(name)
            if kind in self.owned:
                self.owned[kind].append(name)

    def _is_parameter(self, name: str) -> bool:
        return not name[-1].isdigit()

    def change(self) -> None:
        """Change a list or dict in place."""
        kinds = [kind for kind, names in self.owned.items() if names]
        if not kinds:
            self.assign()
            return
        kind = self.draw.choice(kinds)
        name = self.draw.choice(self.owned[kind])
        if kind == "table":
            key = self.one(self.constant(), self.text(2))
            self.put(self.one(
                f"{name}[{key}] = {self.int(2)}", f"{name}[{key}] = {name}.get({key}, 0) + 1",
                f"{name}.update({self.table(2)})", f"{name}.pop({key}, None)",
                f"{name}.setdefault({key}, {self.int(2)})",
                f"if {key} in {name}: del {name}[{key}]",
            ))  # fmt: skip
            return
        item = self.text(2) if kind == "texts" else self.int(2)
        self.put(self.one(
            f"{name}.append({item})", f"{name}.insert(0, {item})", f"{name}.extend([{item}])",
            f"{name} += [{item}]", f"{name}.sort()", f"{name}.reverse()",
            f"if {name}: {name}[0] = {item}", f"if {name}: {name}[-1] = {item}",
            f"if len({name}) > 1: {name}.pop()", f"if len({name}) > 1: del {name}[0]",
        ))  # fmt: skip

    def unpack(self) -> None:
        """Unpack tuples and lists."""
        a, b, c = self.new("t"), self.new("i"), self.new("x")
        match self.number(0, 3):
            case 0:
                self.put(f"{a}, {b} = {self.text(1)}, {self.int(1)}")
            case 1:
                self.put(f"{b}, {c} = pair({self.int(1)})")
                self.names["int"] += [b, c]
                return
            case 2:
                self.put(f"{a}, *{c} = [{self.text(1)}, *{self.texts(1)}]")
                self.put(f"{b} = len({c})")
                self.names["texts"].append(c)
            case _:
                self.put(f"({a}, {b}), {c} = ({self.text(1)}, {self.int(1)}), {{1, 2}}")
                self.put(f"{b} = {b} + len({c})")
        self.names["text"].append(a)
        self.names["int"].append(b)

    def search(self) -> None:
        """Look for a pattern, and into what is found."""
        match, name = self.new("m"), self.new("t")
        self.put(f"{match} = re.search('([a-z]+)', {self.text(1)})")
        found = self.one(f"{match}.group(1)", f"{match}.string")
        self.put(f"{name} = {found} if {match} else 'no'")
        self.names["text"].append(name)

    def maybe(self) -> None:
        """Use a name that only some paths assign."""
        test, name = self.new("f"), self.new("t")
        self.put(f"{test} = {self.flag()}")
        self.put(f"if {test}:")
        self.put(f"    {name} = {self.text(1)}")
        for _ in range(self.number(0, 2)):
            self.statement()
        self.put(f"if {test}:")
        self.put(f"    {self.state.name} += {name}")
        self.names["flag"].append(test)

    # Host functions.

    def host(self) -> None:
        """Call host functions."""
        name = self.new("h")
        match self.number(0, 7):
            case 0:
                self.put(f"note({self.make(self.draw.choice(KINDS), 1)})")
                return
            case 1:
                self.put(f"{name} = ask({self.text(1)}, times={self.int(2)})")
                self.names["int"].append(name)
                return
            case 2 | 3:
                key = self.one("a", "b")
                self.put(f"{name} = facts({self.text(1)}).get('{key}', 0)")
                self.names["int"].append(name)
                return
            case 4:
                self.put(f"{name} = [note(t) for t in {self.texts(2)}[:2]]")
                self.names["texts"].append(name)
                return
            case 5:
                self.put(f"{name} = shout({self.text(1)})")
            case _:
                self.put(f"{name} = note({self.text(1)})")
        self.names["text"].append(name)

    # Control flow.

    def branch(self) -> None:
        """Write an if."""
        self.put(f"if {self.flag()}:")
        self.block(self.number(1, 3))
        if self.chance(0.3):
            self.put(f"elif {self.flag()}:")
            self.block(self.number(1, 2))
        if self.chance(0.5):
            self.put("else:")
            self.block(self.number(1, 3))

    def loop(self) -> None:
        """Write a for loop, maybe with an else."""
        item, other = self.new("i"), self.new("t")
        targets = {item: "int"}
        match self.number(0, 4):
            case 0:
                self.put(f"for {item} in range({self.int(2)} % {self.number(2, 4)}):")
            case 1:
                self.put(f"for {item}, {other} in enumerate({self.texts(1)}[:3]):")
                targets[other] = "text"
            case 2:
                self.put(f"for {item} in {self.one('(1, 2, 3)', '[0, 5]', '()')}:")
            case 3:
                self.put(f"for {other}, {item} in list({self.table(1)}.items())[:3]:")
                targets[other] = "text"
            case _:
                self.put(f"for {other} in {self.texts(1)}[:3]:")
                targets = {other: "text"}
        for name, kind in targets.items():
            self.names[kind].append(name)
        self.block(self.number(1, 4), in_loop=True)
        for name, kind in targets.items():
            self.names[kind].remove(name)
        if self.chance(0.3):
            self.put("else:")
            self.block(1)

    def while_loop(self) -> None:
        """Write a while loop that ends."""
        count = self.new("k")
        self.put(f"{count} = 0")
        limit = self.number(1, 3)
        self.names["int"].append(count)
        if self.chance(0.4):
            self.put("while True:")
            self.depth += 1
            self.put(f"{count} = {count} + 1")
            self.put(f"if {count} > {limit} or {self.flag(1)}:")
            self.put("    break")
            self.depth -= 1
        else:
            more = f" and {self.flag(1)}" if self.chance(0.5) else ""
            self.put(f"while {count} < {limit}{more}:")
            self.depth += 1
            self.put(f"{count} = {count} + 1")
            self.depth -= 1
        self.names["int"].remove(count)
        self.block(self.number(1, 3), in_loop=True)
        self.names["int"].append(count)
        if self.chance(0.35):
            self.put("else:")
            self.block(1)

    def match(self) -> None:
        """Write a match."""
        name = self.new("t")
        self.put(f"match {self.one(self.text(1), self.int(1))}:")
        self.depth += 1
        patterns = ['"a" | "the"', "0 | 1", f"int({name}) if {name} > 2",
                    f"str() as {name} if {name}", '"go" | "yes"', "None", "_"]  # fmt: skip
        start = self.number(0, 4)
        for pattern in [*patterns[start : start + self.number(1, 2)], *patterns[-1:]]:
            self.put(f"case {pattern}:")
            self.block(self.number(1, 2))
        self.depth -= 1

    def attempt(self) -> None:
        """Write a try with handlers, an else or a finally."""
        self.put("try:")
        self.tries += 1
        self.inner(self.risk)
        self.block(self.number(1, 3))
        self.tries -= 1
        kinds = ["ValueError", "(KeyError, ZeroDivisionError)", "LookupError", "Exception",
                 "json.JSONDecodeError", "lmc.errors.RunError"]  # fmt: skip
        taken = sorted(self.draw.sample(range(len(kinds)), self.number(0, 2)))
        for kind in (kinds[index] for index in taken):
            self.handler(kind)
        has_finally = self.chance(0.3)
        # In another try more may pass: most runs are to come to their end.
        lets_pass = self.chance(0.4 if self.tries else 0.08)
        if not (lets_pass and (taken or (has_finally and self.tries))):
            self.handler("Exception")
            taken.append(0)
        if taken and self.chance(0.3):
            self.put("else:")
            self.block(self.number(1, 2))
        if has_finally or not taken:
            self.put("finally:")
            self.block(1)

    def handler(self, kind: str) -> None:
        """Write a handler that may look at what it caught, or raise it again."""
        if self.chance(0.4):
            self.put(f"except {kind}:")
        else:
            name, state = self.new("e"), self.state.name
            self.put(f"except {kind} as {name}:")
            self.inner(lambda: self.put(self.one(
                f"{state} += str({name})", f"{state} += f'({name})'", f"note(str({name}))",
                f"{state} += type({name}).__name__", f"note(isinstance({name}, ValueError))",
            )))  # fmt: skip
        if self.tries and self.chance(0.3):
            self.inner(lambda: self.put("raise"))
            return
        self.block(self.number(1, 2))

    def risk(self) -> None:
        """Write a statement that fails now and then."""
        state, name = self.state.name, self.new("z")
        self.put(self.one(
            f"{name} = int({self.text(1)})", f"{name} = {self.int(1)} // ({self.int(1)} % 2)",
            f"{name} = {self.texts(1)}[{self.int(1)} % 4]", f"{name} = {self.table(1)}['b']",
            f"{state} += lmc.gen('n2', type=int, max_tokens=2)", f"{state} += str({state}['w0'])",
            f"{name} = json.loads({self.text(1)})", f"{name} = risky({self.text(1)})",
            f"if {self.flag(1)}: raise KeyError({self.text(1)})",
            f"{state} += str(int({self.text(1)})) + {self.gen_call()[0]}",
        ))  # fmt: skip

    def exit(self) -> None:
        """Leave a loop or the function."""
        if self.loops and self.chance(0.75):
            self.put(f"if {self.flag()}:")
            self.put(f"    {self.one('break', 'continue')}")
        elif self.depth or self.chance(0.5):
            self.put(f"if {self.flag()}:")
            self.put(f"    {self.ending()}")

    def guard(self) -> None:
        """Check something that holds most of the time."""
        if self.chance(0.5):
            self.put(f'assert {self.int(1)} < 40 or {self.flag(1)}, "asserted"')
        else:
            self.put(f"if {self.int(1)} > 40 and {self.flag(1)}:")
            self.put(f"    raise ValueError({self.text(2)})")

    def call(self) -> None:
        """Call a helper that takes a state, or another program."""
        callee = self.draw.choice(self.callees) if self.callees else ""
        if callee == "helper":
            state = self.state
            if not state.in_turn:
                name = self.new("h")
                self.put(f"{name} = str(helper({state.name}, {self.text(1)}, {self.int(2)}))")
                self.names["text"].append(name)
        elif callee and self.is_program:
            defaults = self.one("", ", temperature=0", ", max_tokens=5", ", top_p=0.5, min_p=0.1")
            if self.chance(0.3):
                name = self.new("r")
                self.put(f"{name} = [{callee}(t, 1{defaults}).text()[-5:] for t in "
                         f"{self.texts(2)}[:2]]")  # fmt: skip
                self.names["texts"].append(name)
                return
            name = self.new("p")
            self.put(f"{name} = {callee}({self.text(1)}, {self.int(2)}{defaults})")
            self.results += [f"str({name}.value)", f"{name}.text()[-6:]"]
            self.results.append(f'str({name}["v0"] if "v0" in {name} else 0)')

    def ending(self) -> str:
        """Return a return statement that shows much of what there is."""
        parts = [name for held in self.names.values() for name in held[-2:]]
        parts += [f"{state.name}.text()" for state in self.states[1:][-2:]]
        parts += self.results[-2:]
        self.draw.shuffle(parts)
        return self.one(
            f"return [{', '.join(parts[:6])}]", f"return [{', '.join(parts[:4])}]",
            f"return {parts[0] if parts else None}",
            "return {" + ", ".join(f"'{i}': {part}" for i, part in enumerate(parts[:5])) + "}",
        )  # fmt: skip


def _function(draw: Random, name: str, state: str, budget: int, callees: list[str]) -> str:
    """Return the text of a program or a helper that takes a state."""
    writer = Writer(draw, state, budget, callees)
    if name == "prog":
        taken = sorted(draw.sample(range(len(PARAMETERS)), draw.randint(1, 4)))
        parameters = [PARAMETERS[index] for index in taken]
    else:
        parameters = [("word", "text"), ("k", "int")]
    for text, kind in parameters:
        writer.names[kind].append(text.partition(":")[0])
    given = "".join(f", {text}" for text, _ in parameters)
    count = 3 if name != "prog" else 7
    for accent in _mixed(draw, count, name == "prog"):
        writer.accent(accent) if accent else writer.statement()
    if writer.chance(0.85):
        writer.put(writer.ending())
    head = "" if state == "st" else "@lmc.function\n"
    body = "\n".join(writer.lines) or "    pass"
    return f'{head}def {name}({state}{given}):\n    """Random."""\n{body}\n'


def _mixed(draw: Random, count: int, is_main: bool) -> list[str]:
    """Return "" per common statement and the names of some accents, in random order."""
    drawn = draw.sample(ACCENTS, draw.randint(*PER_PROGRAM)) if is_main else []
    mixed = [*[""] * count, *drawn]
    draw.shuffle(mixed)
    return mixed


def program_text(seed: int) -> str:
    """Return the text of a program file."""
    draw = Random(seed)
    parts = [HEAD]
    callees: list[str] = []
    if draw.random() < 0.6:
        parts.append(_function(draw, "helper", "st", draw.randint(2, 3), []))
        callees.append("helper")
    if draw.random() < 0.7:
        parts.append(_function(draw, "inner", "s", draw.randint(2, 4), list(callees)))
        callees.append("inner")
    parts.append(_function(draw, "prog", "s", draw.randint(4, 13), callees))
    return "\n\n".join(parts)
