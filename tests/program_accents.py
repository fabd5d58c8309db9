"""Rare forms for `program_generator`: each program is made to have three or four of them.

A form of the language that the other statements make too seldom gets a method here and an
entry in `ACCENTS`; with these few per program each is in about one of twelve.
"""

from program_expressions import State
from program_statements import Statements

READ, TEXTS_JOINED = 's["w0"]', '"concate_and_append"'


class Accents(Statements):
    """Writes statements of one rare form each."""

    def accent(self, name: str) -> None:
        """Write the statements of a form by its method's name."""
        getattr(self, name)()

    def _gen(self, word: str = "w0") -> str:
        return f'lmc.gen("{word}", max_tokens={self.number(1, 6)}, stop={self.one("NAMES", "[]")})'

    # Roles.

    def turn_as_value(self) -> None:
        """Append turns that are values."""
        if not self.states[0].in_turn:
            role = self.one("user", "system")
            self.put(f"s += lmc.{role}({self.text(1)}) + lmc.assistant({self._gen()})")

    def turn_as_method(self) -> None:
        """Append a turn by a method."""
        role = self.one("user", "assistant", "system")
        self.put(f"s.{role}({self.text(1)} + {self._gen()} + {self.text(2)})")

    def turn_as_block(self) -> None:
        """Append a turn in a block, with a scope in it."""
        self.put(f"with s.{self.one('user', 'assistant')}():")
        self.put('    with s.var_scope("w1"):')
        self.put(f"        s += {self.text(1)} + {self._gen()}")
        self.put(f"    if {self.flag(1)}:")
        self.put(f"        s += {self.text(1)}")
        self.states[0].variables["w1"] = "text"

    def turns_read(self) -> None:
        """Read the turns of a prompt."""
        name = self.new("t")
        self.put(f"s.user({self.text(1)})")
        self.put(f"{name} = str([turn['role'] for turn in s.messages()][-2:])")
        self.names["text"].append(name)

    # Pictures, marks, lists that generations add to, reads by expressions.

    def picture(self) -> None:
        """Append an image, or a film, on some paths."""
        word = self.one("lmc.image(picture({}))", "lmc.video(picture({}), 3)")
        self.put(f"if {self.flag(1)}:")
        self.put(f"    s += {self.text(2)} + {word.format(self.text(1))}")
        self.put(f"s += {self.text(2)} + {self._gen()}")

    def greedy_siblings(self) -> None:
        """Ask two children the same without chance."""
        name, state = self.new("g"), self.states[0].name
        self.put(f"{name} = {state}.fork(2)")
        self.put(f'{name} += "Same: " + lmc.gen("w0", max_tokens=3, temperature=0)')
        self.put(f'{state} += {name}[1]["w0"] + {name}[0]["w0"]')

    def copies_per_trip(self) -> None:
        """Copy a state in each trip of a loop that leaves it as it is."""
        name, state = self.new("g"), self.states[0].name
        self.put(f"{name} = []")
        self.put(f"for word in {state}.text().split()[:3]:")
        self.put(f"    q = {state}.copy()")
        self.put('    q += "Then: " + word + lmc.gen("w0", max_tokens=3)')
        self.put(f'    {name}.append(q["w0"])')
        self.put(f'{state} += " ".join({name})')

    def free_order(self) -> None:
        """Mark pieces whose order is free."""
        self.put(f"with {self.one('lmc.unordered(s)', 's.unordered()')}:")
        self.put(f"    s += {self.text(1)}")
        self.put(f"    s += {self.text(2)} + {self._gen()}")

    def added_to_list(self) -> None:
        """Have generations add to a list of the program, in a fork too."""
        forks, name = self.new("f"), self.new("t")
        if self.chance(0.6):
            self.put(f's.set("xs", list({self.texts(1)}))')
        self.put('s += ": " + lmc.gen("xs", append=True, max_tokens=3)')
        self.put(f"{forks} = s.fork({self.number(1, 2)})")
        self.put(f'{forks} += "-" + lmc.gen("xs", append=True, max_tokens=2)')
        self.put(f'{name} = str([s["xs"], {forks}[0]["xs"]])')
        self.names["text"].append(name)

    def read_by_call(self) -> None:
        """Read unnamed and named generations by themselves, of either of two, after a fork."""
        key, forks, name = self.new("q"), self.new("f"), self.new("t")
        one = self.one('lmc.gen("w0", max_tokens=3)', "lmc.gen(max_tokens=2)", "lmc.gen(type=int)")
        other = self.one('lmc.select(choices=["a", "b"])', "lmc.gen(type=bool)")
        self.put(f"{key} = {one}")
        if self.chance(0.5):
            self.put(f"if {self.flag(2)}:")
            self.put(f"    {key} = {other}")
        self.put(f"s += {self.text(2)} + {key}")
        self.put(f"{forks} = s.fork(2)")
        self.put(f"{forks}[0] += {self.text(2)} + {key}")
        self.put(f"{name} = str([s[{key}], {forks}[0][{key}], {forks}[1][{key}], {key} in s])")
        self.names["text"].append(name)

    # Loops.

    def nested_loops(self) -> None:
        """Leave one of two loops."""
        i, j = self.new("i"), self.new("j")
        word = self.one("break", "continue")
        self.put(f"for {i} in range({self.number(1, 3)}):")
        self.put(f"    for {j} in {self.ints(1)}[:3]:")
        self.put(f"        if {j} == {i} or {self.flag(2)}:")
        self.put(f"            {word}")
        self.put(f"        s += str({j}) + {self._gen()}")
        if self.chance(0.6):
            self.put("    else:")
            self.put(f"        {self.one('continue', 'break', 's += str(' + i + ')')}")
            self.put(f"    s += {self.text(2)}")

    def loop_with_else(self) -> None:
        """Write a while loop with an else that some paths reach."""
        k = self.new("k")
        self.put(f"{k} = {self.number(0, 2)}")
        self.put(f"while {k} < {self.number(1, 3)}:")
        self.put(f"    {k} += 1")
        self.put(f"    s += {self._gen()}")
        self.put(f"    if {self.one(READ, self.text(2))} == {self.constant()}:")
        self.put(f"        {self.one('break', 'continue', self.ending())}")
        self.put("else:")
        self.put(f"    s += {self.text(2)} + {self._gen('v1')}")

    def loop_until_asked(self) -> None:
        """Go on while the model says so, for some rounds."""
        k = self.new("k")
        self.put(f"for {k} in range(3):")
        self.put(f'    s += {k} * "." + lmc.select("kind", ["go", "stop"])')
        self.put('    if s["kind"] == "go":')
        self.put("        continue")
        self.put(f"    s += {self.text(2)}")
        self.put("    break")
        self.states[0].variables["kind"] = "text"

    def chain(self) -> None:
        """Compare in a chain, with a name that is set on the way."""
        name = self.new("i")
        self.put(f"{name} = {self.int(1)}")
        self.put(f"if 0 < ({name} := {name} + {self.int(2)}) <= {self.number(2, 9)}:")
        self.put(f"    s += str({name})")
        self.names["int"].append(name)

    def short_circuit(self) -> None:
        """Have a condition decide whether a host function is called."""
        name = self.new("t")
        self.put(f"{name} = {self.one(f'{self.flag(1)} and', f'{self.text(1)} or')} "
                 f"note({self.text(2)})")  # fmt: skip
        self.put(f"s += str({name})")

    # Values.

    def deletion(self) -> None:
        """Take items away."""
        name = self.new("u")
        self.put(f"{name} = [*{self.texts(1)}, {self.text(2)}]")
        self.put(f"del {name}[{self.one('0', '-1')}]")
        self.names["texts"].append(name)

    def sets(self) -> None:
        """Compute with sets."""
        name = self.new("u")
        self.put(f"{name} = {{len(t) % 3 for t in {self.texts(1)}}} {self.one('|', '&', '-', '^')} "
                 f"{{1, {self.int(2)}}}")  # fmt: skip
        self.put(f"{name}.add({self.int(2)})")
        self.put(f"s += str(sorted({name}))")

    def tables(self) -> None:
        """Count in a dict."""
        name = self.new("u")
        self.put(f"{name} = {{k: {self.int(2)} for k in {self.texts(1)}}}")
        self.put(f"for k in {self.texts(1)}:")
        self.put(f"    {name}[k] = {name}.get(k, 0) + 1")
        self.put(f"s += str({name})")

    def pure_call(self) -> None:
        """Call a host function that may be merged and dropped."""
        name = self.new("h")
        self.put(f"{name} = shout({self.text(1)})")
        self.put(f"s += {name} + {self.one('shout(' + name + ')', self._gen())}")
        self.names["text"].append(name)

    def recursion(self) -> None:
        """Call a function that calls itself."""
        name = self.new("i")
        self.put(f"{name} = digits({self.text(1)} + '12') + plain({self.int(1)} % 7)")
        self.names["int"].append(name)

    def computed_names(self) -> None:
        """Generate into a variable with a computed name, and read it by one."""
        name = self.new("i")
        self.put(f"{name} = {self.int(1)} % 2")
        self.put(f's += lmc.gen(f"v{{{name}}}", max_tokens={self.number(2, 5)})')
        self.put(f's["u" + str({name})] = s["v" + str({name})] + {self.text(2)}')
        self.put(f's += s[f"u{{{name}}}"] + str("u0" in s)')

    def several(self) -> None:
        """Sample several answers and vote."""
        name = self.new("t")
        more = self.one("", ", temperature=0", ", seed=4", ", return_logprob=True")
        given = f'"l0", max_tokens=3, n={self.number(2, 3)}{more}'
        self.put(f"s += {self.text(2)} + lmc.gen({given})")
        self.put(f'{name} = max(s["l0"], key=len) + str(len(s.get_meta_info("l0")))')
        self.states[0].variables["l0"] = "texts"
        self.names["text"].append(name)

    def choices(self) -> None:
        """Choose by a generation with choices, and read how likely they were."""
        made = self.one('["yes", "no"]', f"[{self.text(2)} + 'x', 'none']", "NAMES")
        self.put(f's += lmc.gen("kind", choices={made})')
        self.put('s += str(len(s.get_meta_info("kind")["logprobs"])) + s["kind"]')
        self.states[0].variables["kind"] = "text"

    def choice_in_match(self) -> None:
        """Match what the model chose."""
        self.put(f's += {self.text(2)} + lmc.select("kind", ["go", "stop", "a"])')
        self.put('match s["kind"]:')
        self.put('    case "go" | "a":')
        self.put(f"        s += {self.text(2)} + {self._gen()}")
        self.put(f"    case word if {self.flag(2)}:")
        self.put("        s += word")

    def answer_of_ways(self) -> None:
        """Go on with one constant text or another, as the model answered under a regex."""
        kind = self.one("type=bool", 'regex="(yes|no)"', "type=Literal['yes', 'no']")
        wanted = "True" if "bool" in kind else '"yes"'
        self.put(f's += {self.text(2)} + lmc.gen("w2", {kind})')
        self.put(f's += " what was said counts: " if s["w2"] == {wanted} else " or, it is said, "')
        self.put(f"s += {self._gen()}")

    def choice_of_ways(self) -> None:
        """Go on with one constant text or another, as the model chose."""
        word = self.one("and", "but")
        self.put(f's += {self.text(2)} + lmc.select("kind", ["go", "stop"])')
        self.put('if s["kind"] == "go":')
        self.put(f'    s += " we went further on, {word} " + {self._gen()}')
        self.put("else:")
        self.put(f'    s += " this is where it ends, {word} " + {self._gen("v0")}')
        self.states[0].variables["kind"] = "text"

    # States.

    def one_text_each(self) -> None:
        """Append another text to each child."""
        group = self.new("g")
        width = self.number(2, 3)
        texts = ", ".join(self.text(2) for _ in range(width))
        self.put(f"{group} = s.fork({width})")
        self.put(f"{group} += [{texts}]")
        self.put(f"{group} += {self._gen()}")
        self.put(f"s += str([q['w0'] for q in {group}])")
        self._join(group)

    def by_lambda(self) -> None:
        """Append what a lambda gives to each child, in forks of forks."""
        group, inner = self.new("g"), self.new("g")
        self.put(f"{group} = s.fork({self.one('2', self.int(2) + ' % 3')})")
        self.put(f"{group} += lambda i: {self.text(2)} + str(i) + {self._gen()}")
        self.put(f"for q in {group}:")
        self.put(f"    {inner} = q.fork(2)")
        self.put(f'    {inner} += lambda j: str(j) + q["w0"] + {self._gen("v0")}')
        self.put(f"    {inner}.join({self.one('', TEXTS_JOINED)})")
        self._join(group)

    def _join(self, group: str) -> None:
        mode = self.one("", TEXTS_JOINED, '"gather_variable"')
        self.put(f"{group}.join({mode})")
        self.put(f's += {self._gen("v0")} + str("w0" in s)')
        self.states[0].variables.pop("w0", None)

    def listed_states(self) -> None:
        """Keep states in a list."""
        name = self.new("q")
        self.put(f"{name} = [s.copy() for t in {self.texts(1)}[:3]]")
        self.put(f"for i, q in enumerate({name}):")
        self.put(f"    q += {self.text(2)} + str(i) + {self._gen()}")
        self.put(f"for q in {name}[{self.one('', '1', '-1')}:]:")
        self.put('    s += q["w0"]')

    def states_by_name(self) -> None:
        """Keep states in a dict."""
        name = self.new("q")
        self.put(f"{name} = {{}}")
        self.put(f"for word in {self.texts(1)}[:3]:")
        self.put(f"    {name}[word] = s.copy()")
        self.put(f"    {name}[word] += word + {self._gen()}")
        self.put(f"for word, q in {name}.items():")
        self.put('    s += word + q["w0"]')

    def picked_state(self) -> None:
        """Go on with one of two states."""
        a, b, q = self.new("q"), self.new("q"), self.new("q")
        self.put(f"{a}, {b} = s.copy(), s.copy()")
        self.put(f"{a} += {self.text(2)}")
        if self.chance(0.5):
            self.put(f"{a}, {b} = {b}, {a}")
        self.put(f"{q} = {a} if {self.flag(1)} else {b}")
        self.put(f"{q} += {self.text(2)} + {self._gen()}")
        self.put(f"s += {a}.text()[-4:] + {b}.text()[-4:]")

    def found_state(self) -> None:
        """Keep the first state that fits, None until it is found."""
        group, best = self.new("g"), self.new("b")
        self.put(f"{group} = s.fork({self.number(1, 3)})")
        self.put(f"{best} = None")
        self.put(f"for q in {group}:")
        self.put(f"    q += {self.text(2)} + {self._gen()}")
        self.put(f"    if {best} is None and len(q['w0']) > {self.number(0, 6)}:")
        self.put(f"        {best} = q")
        self.put(f"s += 'none' if {best} is None else {best}['w0']")

    def returned_state(self) -> None:
        """Call a helper that gives back a state."""
        name = self.new("q")
        self.put(f"{name} = extended({self.states[0].name}, {self.text(1)})")
        self.states.append(State(name, {**self.states[0].variables, "w0": "text"}))
        self.put(f"s += {name}['w0']")

    def rewound(self) -> None:
        """Go on from an earlier copy."""
        before = self.new("q")
        self.put(f"{before} = s.copy()")
        self.put(f"s += {self.text(1)} + {self._gen()}")
        self.put(f"if {self.one(f'len({READ}) > 5', self.flag(1))}:")
        self.put(f"    {before} += s['w0'].strip() + {self._gen('v0')}")
        self.put(f"    s += {before}['v0']")

    def closure(self) -> None:
        """Call a function written in the body."""
        name, local = self.new("f"), self.new("t")
        self.put(f"{local} = {self.text(1)}")
        self.put(f"def {name}(q, mark={self.constant()}):")
        self.put(f"    q += mark + {local} + {self._gen()}")
        self.put('    return q["w0"]')
        self.put(f"s += {name}(s) + {name}(s.copy(), {self.text(2)})")

    # What may fail.

    def wrong_item(self) -> None:
        """Take an item that may not be there."""
        found = self.one(
            f"NAMES[{self.int(1)}]", f"str(TABLE[{self.text(1)}])", f"str({self.ints(1)}[1])",
            f"max({self.texts(1)})",
        )  # fmt: skip
        self._somewhere(f"s += {found}")

    def wrong_value(self) -> None:
        """Convert or divide what may not be fit for it, or append what is no text."""
        found = self.one(
            f"str(int({self.text(1)}))", f"str(7 // ({self.int(1)}))",
            f"json.loads({self.text(1)})", f"({self.int(1)} or {self.text(1)})",
            f"str(float({self.text(1)} or 1))",
        )  # fmt: skip
        self._somewhere(f"s += {found}")

    def missing_variable(self) -> None:
        """Read a variable that may not be there."""
        found = self.one('s["v1"]', 's["l0"][1]', 'str(s.get_meta_info("w0"))', 's[f"u{1}"]')
        self._somewhere(f"s += str({found})")

    def _somewhere(self, line: str) -> None:
        """Write a line at the top, in a branch, or in a child, with things to do after it."""
        match self.number(0, 2):
            case 0:
                self.put(line)
            case 1:
                self.put(f"if {self.flag(1)}:")
                self.put(f"    note({self.text(2)})")
                self.put(f"    {line}")
            case _:
                self.put("for q in s.fork(2):")
                self.put(f"    q += {self.text(2)} + {self._gen()}")
                self.put(f"    {line.replace('s +=', 'q +=')}")
        self.put(f"note({self.text(2)})")


ACCENTS = tuple(
    name
    for name, made in vars(Accents).items()
    if callable(made) and not name.startswith("_") and name != "accent"
)
PER_PROGRAM = (3, 4)
