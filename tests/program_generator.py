"""Random programs of the language as source text, for checking what runs them.

`program_text(seed)` is the text of a file whose program `prog` uses a bit of everything: text,
f-strings, generations with all kinds of parameters, choices, typed values, roles, forks of
constant and dynamic width, joins, loops with exits, early returns, helpers that take states,
nested programs, lists and dicts of values and states, comprehensions, host functions with
effects. Every loop ends, and most runs come to their end.
"""

from collections.abc import Callable
from random import Random

from program_expressions import KINDS, Expressions, State

HEAD = '''"""A random program."""

import json
import math
import re

import lmc

NAMES = ["Ada", "Bo", "the cat"]
TABLE = {"a": 1, "b": 2}
LOG = []


@lmc.tool(effects="write")
def note(value) -> str:
    """Remember a value."""
    LOG.append(value)
    return f"noted {len(LOG)}"


def ask(question: str, times: int = 1) -> int:
    """Not readable for the compiler, so a host function with effects."""
    try:
        LOG.append(question)
    finally:
        print(end="")
    return times + 1


@lmc.tool
def facts(word) -> dict[str, int]:
    """Look something up."""
    LOG.append(word)
    return {"a": 1}


@lmc.tool(effects="none")
def shout(text) -> str:
    """Pure."""
    return text.upper()


def plain(k):
    """Plain values, a loop with exits."""
    total = 0
    for j in range(k):
        if j == 2:
            continue
        total += j
        if total > 4:
            return -total
    return total


def digits(text):
    """Recursive."""
    return 0 if not text else int(text[0].isdigit()) + digits(text[1:])


def words(text):
    """Several returns and a local list."""
    found = []
    for word in text.split():
        if word == "stop":
            return found
        found.append(word.lower())
    return found or ["none"]


def pair(k):
    """A tuple."""
    return k, k + 1
'''

PARAMETERS = (
    ("text: str", "text"), ("n: int", "int"), ("flag: bool", "flag"), ("items: list[str]", "texts"),
    ("numbers: list[int]", "ints"), ("level: int = 2", "int"), ('mark: str = "-"', "text"),
)  # fmt: skip
MAX_DEPTH = 3


class Writer(Expressions):
    """Writes the body of one function."""

    def __init__(self, draw: Random, state: str, budget: int, callees: list[str]) -> None:
        super().__init__(draw)
        self.lines: list[str] = []
        self.depth = 0
        self.loops = 0
        self.budget = budget
        self.callees = callees
        self.owned: dict[str, list[str]] = {"texts": [], "ints": [], "table": []}
        self.states = [State(state)]
        self.is_program = state == "s"
        self._count = 0

    @property
    def state(self) -> State:
        """A state, the program's own most often."""
        return self.states[0] if self.chance(0.6) else self.draw.choice(self.states)

    def new(self, kind: str) -> str:
        """Make a name that was not there."""
        self._count += 1
        return f"{kind}{self._count}"

    def put(self, text: str) -> None:
        """Write a line."""
        self.lines.append("    " * (self.depth + 1) + text)

    def block(self, count: int, *, in_loop: bool = False) -> None:
        """Write an indented block; names that it makes are gone after it."""
        names = {kind: list(held) for kind, held in self.names.items()}
        owned = {kind: list(held) for kind, held in self.owned.items()}
        states, results = [state.copy(state.name) for state in self.states], list(self.results)
        self.depth += 1
        self.loops += in_loop
        before = len(self.lines)
        for _ in range(count):
            self.statement()
        if len(self.lines) == before:
            self.put("pass")
        self.loops -= in_loop
        self.depth -= 1
        self.names, self.owned, self.states, self.results = names, owned, states, results

    def statement(self) -> None:
        """Write one statement, or nothing where the budget is spent."""
        if self.budget <= 0:
            return
        self.budget -= 1
        plain: list[Callable[[], None]] = [
            self.append, self.append, self.append, self.generate, self.generate, self.choose,
            self.assign, self.assign, self.change, self.role, self.variable, self.host, self.host,
            self.unpack, self.fork, self.fork, self.copies, self.meta, self.search,
        ]  # fmt: skip
        nested = [self.branch, self.branch, self.loop, self.loop, self.while_loop, self.match,
                  self.scope, self.maybe, self.exit, self.call, self.call]  # fmt: skip
        is_deep = self.depth >= MAX_DEPTH or not self.chance(0.3)
        self.draw.choice(plain if is_deep else nested)()

    # Text and calls of the model.

    def append(self) -> None:
        """Append text, sometimes with a control token."""
        name = self.state.name
        if self.chance(0.08):
            self.put(f'{name} += lmc.control("<|im_end|>") + {self.text(1)}')
            return
        self.put(f"{name} += {self.text()}")

    def generate(self) -> None:
        """Append a generation."""
        state = self.state
        before = f"{self.text(2)} + " if self.chance(0.6) else ""
        call, variables = self.gen_call()
        after = f" + {self.text(2)}" if self.chance(0.4) else ""
        self.put(f"{state.name} += {before}{call}{after}")
        state.variables.update(variables)

    def gen_call(self, word: str | None = None) -> tuple[str, dict[str, str]]:
        """Return a call of gen and the variables that it sets, by kind."""
        if self.chance(0.2):
            return self.typed_call(word)
        name = word or self.one("v0", "v1", "w0", "w1")
        params = [f'"{name}"' if self.chance(0.9) else f'name="{name}"']
        limit = self.one("2", "4", "6", "9", "1", f"1 + {self.int(2)} % 5")
        params.append(f"max_tokens={limit}")
        params += self.decode_params()
        if self.chance(0.08):
            kept = [param for param in params[1:] if not param.startswith("stop")]
            given = ", ".join(['"l0"', *kept, f"n={self.number(2, 3)}"])
            return f"lmc.gen({given})", {"l0": "texts"}
        if self.chance(0.1):
            return f"lmc.gen({', '.join(params[1:])})", {}
        if self.chance(0.1):
            params[0] = f'f"v{{{self.simple("int")} % 2}}"'
            return f"lmc.gen({', '.join(params)})", {}
        return f"lmc.gen({', '.join(params)})", {name: "text"}

    def decode_params(self) -> list[str]:
        """Return some decode parameters."""
        stop = self.one('"\\n"', '["e", " the"]', '["."]', f"[{self.text(2)} or '!']", "NAMES", "[]")
        every = [
            f"stop={stop}", f"stop={stop}", f"temperature={self.one('0', '0.0', '0.7', '1.5')}",
            f"temperature=0.1 * ({self.int(3)} % 9)", f"top_p={self.one('0.5', '0.9')}",
            f"top_k={self.one('1', '5', '-1')}", f"min_p={self.one('0', '0.05')}", "min_tokens=1",
            "ignore_eos=True", "return_logprob=True", "stop_token_ids=[5, 6, 30]",
            'regex="[a-c]{1,4}"',
        ]  # fmt: skip
        found: dict[str, str] = {}
        for param in self.draw.sample(every, self.draw.choice((0, 1, 1, 2, 3))):
            found.setdefault(param.partition("=")[0], param)
        return list(found.values())

    def typed_call(self, word: str | None) -> tuple[str, dict[str, str]]:
        """Return a call of gen for a value of a type."""
        match self.number(0, 3):
            case 0:
                return f'lmc.gen("{word or "n0"}", type=int, max_tokens=40)', {word or "n0": "int"}
            case 1:
                return f'lmc.gen_int("{word or "n1"}", 50)', {word or "n1": "int"}
            case 2:
                return f'lmc.gen("{word or "b0"}", type=bool, max_tokens=12)', {word or "b0": "flag"}
            case _:
                return f'lmc.gen("{word or "x0"}", type=float, max_tokens=60)', {word or "x0": "float"}

    def choose(self) -> None:
        """Append a choice."""
        state = self.state
        choices = self.one('["yes", "no"]', '["go", "stop", "go on"]', f"[*{self.texts(2)}, 'none']",
                           "NAMES", '["only"]')  # fmt: skip
        methods = ("token_length_normalized", "greedy_token_selection",
                   "unconditional_likelihood_normalized")  # fmt: skip
        more = f', choices_method="{self.one(*methods)}"' if self.chance(0.4) else ""
        word = "select" if self.chance(0.8) else "gen"
        self.put(f'{state.name} += {self.text(2)} + lmc.{word}("kind", choices={choices}{more})')
        state.variables["kind"] = "text"

    def role(self) -> None:
        """Append turns, in one of the ways of writing them."""
        state, role = self.state, self.one("user", "assistant", "system")
        if state.in_turn:
            self.append()
            return
        call, variables = self.gen_call()
        name = state.name
        match self.number(0, 4):
            case 0:
                self.put(f"{name} += lmc.{role}({self.text(1)}) + lmc.assistant({call})")
            case 1:
                self.put(f"{name}.{role}({self.text(1)} + {call})")
            case 2:
                self.put(f"{name} += lmc.{role}_begin() + {call} + lmc.{role}_end()")
            case 3:
                self.put(f"{name}.{role}_begin()")
                self.put(f"{name} += {self.text(1)} + {call}")
                self.put(f"{name}.{role}_end()")
            case _:
                self.put(f"with {name}.{role}():")
                state.in_turn = True
                self.block(self.number(1, 2))
                return
        state.variables.update(variables)

    def scope(self) -> None:
        """Keep what is appended in a variable."""
        state = self.state
        self.put(f'with {state.name}.var_scope("w1"):')
        self.block(self.number(1, 2))
        for held in self.states:
            if held.name == state.name:
                held.variables["w1"] = "text"

    def variable(self) -> None:
        """Set a variable."""
        state = self.state
        word, kind = self.draw.choice((("w0", "text"), ("n1", "int"), ("l0", "texts")))
        made = self.make(kind, 1)
        made = f"list({made})" if kind == "texts" else made
        self.put(self.one(f'{state.name}["{word}"] = {made}',
                          f'{state.name}.set_var("{word}", {made})'))  # fmt: skip
        state.variables[word] = kind

    def meta(self) -> None:
        """Read the meta dict of a call."""
        state = self.states[0]
        call, _ = self.gen_call("w0")
        if "n=" in call or '"w0"' not in call or "lmc.gen(" not in call:
            call = 'lmc.gen("w0", max_tokens=3, return_logprob=True)'
        self.put(f"{state.name} += {call}")
        state.variables["w0"] = "text" if "type=" not in call else "any"
        name = self.new("m")
        key = self.one("completion_tokens", "prompt_tokens")
        self.put(f'{name} = {state.name}.get_meta_info("w0")["{key}"]')
        self.names["int"].append(name)

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
            self.put(f"{name} += {made}")
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
        self.put(f"{name} = {self.one(f'{match}.group(1)', f'{match}.string')} if {match} else 'no'")
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
        match self.number(0, 6):
            case 0:
                self.put(f"note({self.make(self.draw.choice(KINDS), 1)})")
                return
            case 1:
                self.put(f"{name} = ask({self.text(1)}, times={self.int(2)})")
                self.names["int"].append(name)
                return
            case 2:
                key = self.one("a", "b")
                self.put(f"{name} = facts({self.text(1)}).get('{key}', 0)")
                self.names["int"].append(name)
                return
            case 3:
                self.put(f"{name} = [note(t) for t in {self.texts(2)}[:2]]")
                self.names["texts"].append(name)
                return
            case 4:
                self.put(f"{name} = shout({self.text(1)})")
            case _:
                self.put(f"{name} = note({self.text(1)})")
        self.names["text"].append(name)

    # States.

    def fork(self) -> None:
        """Fork a state, go on with the children, maybe join them."""
        parent = self.state
        width = self.number(0, 3)
        is_constant = self.chance(0.6)
        count = str(width) if is_constant else f"{self.int(2)} % {self.number(2, 4)}"
        group = self.new("g")
        self.put(f"{group} = {parent.name}.fork({count})")
        word = f"c{self._count}"
        least = width if is_constant else 0
        kind = self.fill(group, parent, word, least)
        if self.chance(0.5):
            self.read_group(group, word, kind, least)
        if self.chance(0.6):
            mode = self.one("", '"concate_and_append"', 'mode="gather_variable"')
            self.put(f"{group}.join({mode})")
            if least and kind == "text" and not parent.in_turn:
                parent.variables[word] = "texts"
            self.put(f'{self.state.name} += str("{word}" in {parent.name})')

    def fill(self, group: str, parent: State, word: str, least: int) -> str:
        """Append to the children of a fork; return the kind of the variable that they set."""
        call, variables = self.gen_call(word)
        kind = variables.get(word, "")
        child = parent.copy(self.new("q"))
        match self.number(0, 6):
            case 0:
                self.put(f"{group} += {self.text(1)}")
                self.put(f"{group} += {call}")
            case 1:
                self.put(f"{group} += lambda i: {self.text(1)} + str(i) + {call}")
            case 2 if least > 1:
                self.put(f"{group} += [{', '.join(self.text(2) for _ in range(least))}]")
                self.put(f"{group} += {call}")
            case 3:
                self.put(f"for i, {child.name} in enumerate({group}):")
                self.put(f"    {child.name} += {self.text(2)} + str(i) + {call}")
            case 4:
                self.put(f"for {child.name}, word in zip({group}, {self.texts(2)}):")
                self.put(f"    {child.name} += word + {call}")
                kind = ""
            case 5 if least:
                self.put(f"{group} += {self.text(1)}")
                self.put(f"{group}[{self.one('0', '-1')}] += {self.text(1)} + {call}")
                kind = ""
            case _:
                self.put(f"for {child.name} in {group}:")
                self.put(f"    {child.name} += {self.text(1)} + {call}")
                self.states.append(child)
                self.block(self.number(1, 2), in_loop=True)
                self.states.pop()
        return kind

    def read_group(self, group: str, word: str, kind: str, least: int) -> None:
        """Read from the children of a fork."""
        name = self.new("r")
        if kind == "text" and self.chance(0.7):
            self.put(f'{name} = [q["{word}"] for q in {group}]')
        elif least and self.chance(0.4):
            text = self.new("t")
            self.put(f"{text} = {group}[{self.one('0', '-1')}].text()[-9:]")
            self.names["text"].append(text)
            return
        else:
            self.put(f"{name} = [q.text()[-7:] for q in {group}]")
        self.names["texts"].append(name)

    def copies(self) -> None:
        """Keep copies of states in names, lists and dicts."""
        source, name = self.state, self.new("q")
        match self.number(0, 5):
            case 0 | 1:
                self.put(f"{name} = {source.name}.copy()")
                self.states.append(source.copy(name))
            case 2:
                self.put(f"{name} = [{source.name}.copy() for _ in range({self.number(1, 3)})]")
                self.put(f"for q in {name}:")
                self.put(f"    q += {self.text(2)} + {self.gen_call()[0]}")
                self.put(f"{self.states[0].name} += {name}[-1].text()[-5:]")
            case 3:
                self.put(f"{name} = {{}}")
                self.put(f"for word in {self.texts(2)}[:2]:")
                self.put(f"    {name}[word] = {source.name}.copy()")
                self.put(f"    {name}[word] += word + {self.gen_call()[0]}")
                self.put(f"for word, q in {name}.items():")
                self.put(f"    q += {self.text(2)}")
                self.put(f"    {self.states[0].name} += word + q.text()[-3:]")
            case 4:
                self.best(source, name)
            case _:
                self.put(f"{name} = {source.name}")
                self.put(f"for i in range({self.number(0, 2)}):")
                self.put(f"    {name} = {name}.copy()")
                self.put(f"    {name} += str(i) + {self.gen_call()[0]}")
                self.put(f"{self.states[0].name} += {name}.text()[-4:]")

    def best(self, source: State, name: str) -> None:
        """Choose a state among copies by a value."""
        self.put(f"{name} = {source.name}.fork(2)")
        self.put(f'{name} += {self.text(2)} + lmc.gen("w0", max_tokens=4)')
        self.put(f"best = {name}[0]")
        self.put(f"for q in {name}:")
        self.put('    if len(q["w0"]) > len(best["w0"]):')
        self.put("        best = q")
        self.put(f'{self.states[0].name} += best["w0"]')

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
        if self.chance(0.2):
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
        if self.chance(0.2):
            self.put("else:")
            self.block(1)

    def match(self) -> None:
        """Write a match."""
        name = self.new("t")
        self.put(f"match {self.one(self.text(1), self.int(1))}:")
        self.depth += 1
        patterns = ['"a" | "the"', "0 | 1", f"int({name}) if {name} > 2", f"str() as {name} if {name}",
                    '"go" | "yes"', "None", "_"]  # fmt: skip
        start = self.number(0, 4)
        for pattern in [*patterns[start : start + self.number(1, 2)], *patterns[-1:]]:
            self.put(f"case {pattern}:")
            self.block(self.number(1, 2))
        self.depth -= 1

    def exit(self) -> None:
        """Leave a loop or the function."""
        if self.loops and self.chance(0.75):
            self.put(f"if {self.flag()}:")
            self.put(f"    {self.one('break', 'continue')}")
        elif self.depth or self.chance(0.5):
            self.put(f"if {self.flag()}:")
            self.put(f"    {self.ending()}")
        if self.chance(0.06):
            self.put(f'assert {self.flag()}, "asserted"')
        elif self.chance(0.04):
            self.put(f"if {self.flag()}:")
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
    count = 3 if name != "prog" else 9
    for _ in range(count):
        writer.statement()
    if writer.chance(0.85):
        writer.put(writer.ending())
    head = "" if state == "st" else "@lmc.function\n"
    body = "\n".join(writer.lines) or "    pass"
    return f'{head}def {name}({state}{given}):\n    """Random."""\n{body}\n'


def program_text(seed: int) -> str:
    """Return the text of a program file."""
    draw = Random(seed)
    parts = [HEAD]
    callees: list[str] = []
    if draw.random() < 0.5:
        parts.append(_function(draw, "helper", "st", draw.randint(2, 4), []))
        callees.append("helper")
    if draw.random() < 0.6:
        parts.append(_function(draw, "inner", "s", draw.randint(2, 5), list(callees)))
        callees.append("inner")
    parts.append(_function(draw, "prog", "s", draw.randint(5, 17), callees))
    return "\n\n".join(parts)
