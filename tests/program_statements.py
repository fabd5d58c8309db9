"""Statements on states for `program_generator`: what is appended, forked, copied and read."""

from collections.abc import Callable
from random import Random

from program_expressions import Expressions, State


class Statements(Expressions):
    """Writes lines, and the statements that change states."""

    def __init__(self, draw: Random, state: str, budget: int, callees: list[str]) -> None:
        super().__init__(draw)
        self.lines: list[str] = []
        self.depth = 0
        self.loops = 0
        self.tries = 0
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

    def inner(self, write: Callable[[], None]) -> None:
        """Write something one level further in."""
        self.depth += 1
        write()
        self.depth -= 1

    def statement(self) -> None:
        """Write one statement."""
        raise NotImplementedError

    # Text and calls of the model.

    def append(self) -> None:
        """Append text, sometimes with a control token."""
        name = self.state.name
        if self.chance(0.16):
            self.put(f'{name} += lmc.control("<|im_end|>") + {self.text(1)}')
            return
        if self.chance(0.1):
            frames = f", {self.number(1, 9)}" if self.chance(0.3) else ""
            word = "video" if frames else "image"
            self.put(f"{name} += {self.text(1)} + lmc.{word}(picture({self.text(1)}){frames})")
            return
        self.put(f"{name} += {self.text()}")

    def generate(self) -> None:
        """Append a generation."""
        state = self.state
        before = f"{self.text(2)} + " if self.chance(0.6) else ""
        call, variables = self.gen_call()
        after = f" + {self.text(2)}" if self.chance(0.4) else ""
        if self.chance(0.3):
            self._generate_by_key(state, before, call, after, variables)
            return
        self.put(f"{state.name} += {before}{call}{after}")
        state.variables.update(variables)

    def _generate_by_key(
        self, state: State, before: str, call: str, after: str, variables: dict[str, str]
    ) -> None:
        """Append a generation under a name of its own, and read its value by it."""
        key = self.new("q")
        if self.chance(0.3):
            call = f"{call} if {self.make('flag', 1)} else {call}"
        self.put(f"{key} = {call}")
        self.put(f"{state.name} += {before}{key}{after}")
        state.variables.update(variables)
        kind = next(iter(variables.values()), "text")
        if kind in ("text", "int", "flag"):
            name = self.new(kind[0])
            self.put(f"{name} = {state.name}[{key}]")
            self.names[kind].append(name)

    def choose(self) -> None:
        """Append a choice."""
        state = self.state
        choices = self.one(
            '["yes", "no"]', '["go", "stop", "go on"]', f"[*{self.texts(2)}, 'none']", "NAMES",
            '["only"]',
        )  # fmt: skip
        methods = ("token_length_normalized", "greedy_token_selection",
                   "unconditional_likelihood_normalized", "total_likelihood")  # fmt: skip
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

    # States.

    def fork(self) -> None:
        """Fork a state, go on with the children, maybe join them."""
        parent = self.state
        width = self.draw.choice((0, 1, 2, 2, 3, 3))
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
            is_gathered = "append" not in mode
            if is_gathered and least and kind == "text" and not parent.in_turn:
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

    def twins(self) -> None:
        """Ask copies the same without chance, or almost the same."""
        source, name = self.state, self.new("g")
        call = self.one(
            'lmc.gen("w0", max_tokens=4, temperature=0)', "lmc.gen(max_tokens=3, temperature=0)",
            'lmc.gen("w0", max_tokens=4, top_k=1)', 'lmc.select("kind", choices=["yes", "no"])',
            'lmc.gen("n2", type=int, max_tokens=3, temperature=0)', 'lmc.gen("w0", max_tokens=2)',
        )  # fmt: skip
        if self.chance(0.4):
            self.put(f"{name} = []")
            self.put(f"for word in {self.texts(1)}[:3]:")
            self.put(f"    q = {source.name}.copy()")
            self.put(f'    q += "Then: " + word + {call}')
            self.put(f"    {name}.append(q.text()[-4:])")
            self.put(f"{self.states[0].name} += ' '.join({name})")
            return
        self.put(f"{name} = {source.name}.fork(2)")
        match self.number(0, 2):
            case 0:
                self.put(f"{name} += {self.text(1)}")
                self.put(f"{name} += {call}")
            case 1:
                self.put(f"{name}[0] += {call}")
                self.put(f"{name}[1] += {call} + {call}")
            case _:
                self.put(f"for q in {name}:")
                self.put(f'    q += "Then: " + {call}')
        self.put(f"{self.states[0].name} += {name}[1].text()[-6:] + {name}[0].text()[-4:]")

    def best(self, source: State, name: str) -> None:
        """Choose a state among copies by a value."""
        self.put(f"{name} = {source.name}.fork(2)")
        self.put(f'{name} += {self.text(2)} + lmc.gen("w0", max_tokens=4)')
        self.put(f"best = {name}[0]")
        self.put(f"for q in {name}:")
        self.put('    if len(q["w0"]) > len(best["w0"]):')
        self.put("        best = q")
        self.put(f'{self.states[0].name} += best["w0"]')
