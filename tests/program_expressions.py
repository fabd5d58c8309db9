"""Random expressions of the language for `program_generator`: typed, and mostly without errors.

Kinds are text, int, flag, texts, ints (lists), table (dict of text to int). What could fail is
written with a guard, so that most programs run to their end.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

CONSTANTS = (
    "a", "b ", "\\n", "Note: ", "the", " yes", "naïve 🙂", "x=1;", "Ada", "- ", "\\n\\n", "don't",
    "", "{}", "12", "<|im_end|>", "日本",
)  # fmt: skip
KINDS = ("text", "int", "flag", "texts", "ints", "table")


@dataclass(slots=True)
class State:
    """A state that has a name: its variables by kind, as far as they are surely set."""

    name: str
    variables: dict[str, str] = field(default_factory=dict)
    in_turn: bool = False

    def of(self, kind: str) -> list[str]:
        """Return expressions that read the variables of a kind."""
        return [f'{self.name}["{name}"]' for name, held in self.variables.items() if held == kind]

    def copy(self, name: str) -> "State":
        """Return a state under another name that has the same variables."""
        return State(name, dict(self.variables), self.in_turn)


class Expressions:
    """Makes expressions from the names that there are."""

    def __init__(self, draw: Random) -> None:
        self.draw = draw
        self.names: dict[str, list[str]] = {kind: [] for kind in KINDS}
        self.states: list[State] = []
        self.results: list[str] = []
        self.can_call = True

    # Choices.

    def chance(self, share: float) -> bool:
        """Return True that often."""
        return self.draw.random() < share

    def one(self, *choices: str) -> str:
        """Return one of several texts."""
        return self.draw.choice(choices)

    def number(self, low: int, high: int) -> int:
        """Return a number."""
        return self.draw.randint(low, high)

    def name_of(self, kind: str) -> str | None:
        """Return a name or variable of a kind, None where there is none."""
        held = list(self.names.get(kind, ()))
        for state in self.states[-3:]:
            held += state.of(kind)
        return self.draw.choice(held) if held else None

    def make(self, kind: str, deep: int = 0) -> str:
        """Return an expression of a kind."""
        makers: dict[str, Callable[[int], str]] = {
            "text": self.text, "int": self.int, "flag": self.flag, "texts": self.texts,
            "ints": self.ints, "table": self.table,
        }  # fmt: skip
        return makers[kind](deep)

    def constant(self) -> str:
        """Return a text in quotes."""
        return f'"{self.draw.choice(CONSTANTS)}"'

    # Kinds.

    def text(self, deep: int = 0) -> str:
        """Return an expression for a text."""
        name = self.name_of("text")
        if deep > 2 or self.chance(0.35):
            return name if name and self.chance(0.6) else self.constant()
        below = deep + 1
        makers = [
            lambda: self.fstring(below), lambda: self.fstring(below),
            lambda: f"({self.text(below)} + {self.text(below)})",
            lambda: f"str({self.int(below)})", lambda: f"', '.join({self.texts(below)})",
            lambda: self.text_method(below),
            lambda: f"{self.text(below)}[{self.number(0, 2)}:{self.one('', '6', '-1', '9')}]",
            lambda: f"({self.text(below)} if {self.flag(below)} else {self.text(below)})",
            lambda: f"({self.text(below)} or {self.constant()})",
            lambda: f"({self.constant()} * {self.number(0, 2)})", lambda: self.picked(below),
            lambda: f"'|'.join(t.strip() for t in {self.texts(below)} if t)",
            lambda: f"repr({self.make(self.one('int', 'texts', 'flag'), below)})",
            lambda: f"min({self.texts(below)} or ['none'], key=len)",
            lambda: f"json.dumps({self.make(self.one('ints', 'table'), below)})",
            lambda: f"re.sub('[0-9 ]+', '_', {self.text(below)})",
            lambda: f"next((t for t in {self.texts(below)} if len(t) > 1), 'nothing')",
            lambda: f"('%s/%d' % ({self.text(below)}, {self.int(below)}))",
        ]  # fmt: skip
        if self.states:
            makers += [self.read_state, self.read_state]
        if mood := self.name_of("mood"):
            makers.append(lambda: f"{mood}.value")
        if self.results:
            makers.append(lambda: self.one(*self.results))
        return self.draw.choice(makers)()

    def fstring(self, deep: int = 0) -> str:
        """Return an f-string."""
        fields = [
            lambda: "{" + self.simple("text") + "}", lambda: "{" + self.simple("int") + "}",
            lambda: "{" + self.simple("text") + self.one("!r", "!s", ":>8", "!r:.20") + "}",
            lambda: "{" + self.simple("int") + self.one(":03d", ":+", ":>4", "!r") + "}",
            lambda: "{" + self.simple("flag") + "}", lambda: self.one("a ", "- ", ": ", "\\n", "é"),
        ]  # fmt: skip
        parts = [self.draw.choice(fields)() for _ in range(self.number(1, 4))]
        return 'f"' + "".join(parts) + '"'

    def simple(self, kind: str) -> str:
        """Return an expression without quotes in it, as an f-string's field must be."""
        plain = [name for name in self.names[kind] if '"' not in name]
        if plain and self.chance(0.8):
            return self.draw.choice(plain)
        return {"text": "NAMES[0]", "int": str(self.number(0, 9)), "flag": "True"}[kind]

    def text_method(self, deep: int) -> str:
        """Return a method call on a text."""
        base = self.text(deep)
        return f"({base})" + self.one(
            ".strip()", ".upper()", ".lower()", ".title()", ".replace('a', 'oo')", ".lstrip('- ')",
            ".removeprefix('the')", ".center(9, '*')", ".zfill(4)", ".capitalize()",
            ".partition(' ')[2]", ".swapcase()",
        )  # fmt: skip

    def picked(self, deep: int) -> str:
        """Return an item of a list, or of a module's constant."""
        return self.one(
            f"NAMES[{self.int(deep)} % len(NAMES)]",
            f"(({self.texts(deep)}) + ['end'])[0]", f"([*{self.texts(deep)}, 'last'])[-1]",
            f"{{'a': 'first', 'b': {self.text(deep)}}}.get({self.text(deep)}, 'other')",
        )  # fmt: skip

    def read_state(self) -> str:
        """Return an expression that reads a state's text, turns, or a variable that may lack."""
        state = self.draw.choice(self.states)
        word = self.one("v0", "v1", "w0", "w1", "kind")
        return self.one(
            f"{state.name}.text()[-12:]", f"{state.name}.text()[:5]",
            f"str({state.name}.messages()[-1:])",
            f'str({state.name}["{word}"] if "{word}" in {state.name} else None)',
        )  # fmt: skip

    def int(self, deep: int = 0) -> str:
        """Return an expression for a small whole number."""
        name = self.name_of("int")
        if deep > 2 or self.chance(0.35):
            return name if name and self.chance(0.6) else str(self.number(0, 5))
        below = deep + 1
        makers = [
            lambda: f"len({self.make(self.one('text', 'texts', 'ints', 'table'), below)})",
            lambda: f"({self.int(below)} {self.one('+', '-', '*')} {self.int(below)})",
            lambda: f"({self.int(below)} {self.one('//', '%')} {self.number(1, 4)})",
            lambda: f"({self.int(below)} if {self.flag(below)} else {self.int(below)})",
            lambda: f"sum({self.ints(below)})", lambda: f"max({self.ints(below)} or [0])",
            lambda: f"abs({self.int(below)})", lambda: f"({self.one('-', '~')}{self.int(3)})",
            lambda: f"{self.text(below)}.count('a')", lambda: f"{self.text(below)}.find('e')",
            lambda: f"sum(len(t) for t in {self.texts(below)})",
            lambda: f"{self.table(below)}.get({self.constant()}, {self.int(below)})",
            lambda: f"int({self.text(below)}.isalpha())",
            lambda: f"round({self.int(below)} / {self.number(1, 4)})",
            lambda: f"math.floor({self.int(below)} * 0.5)",
            lambda: f"({self.int(below)} {self.one('&', '|', '^')} {self.number(0, 7)})",
            lambda: f"plain({self.int(below)} % 7)", lambda: f"digits({self.text(below)})",
            lambda: f"pair({self.int(below)})[1]", lambda: f"divmod({self.int(below)}, 3)[0]",
        ]  # fmt: skip
        if point := self.name_of("point"):
            makers.append(lambda: f"{point}.x % 9")
        return self.draw.choice(makers)()

    def flag(self, deep: int = 0) -> str:
        """Return a condition."""
        name = self.name_of("flag")
        if name and self.chance(0.3):
            return name
        below = deep + 1
        if deep > 2:
            return self.one("True", "False", f"{self.int(3)} > 2")
        makers = [
            lambda: f"{self.int(below)} {self.one('<', '==', '>=', '!=')} {self.int(below)}",
            lambda: f"{self.text(below)} {self.one('==', '!=', '<')} {self.text(below)}",
            lambda: f"{self.constant()} {self.one('in', 'not in')} {self.text(below)}",
            lambda: f"{self.text(below)}.startswith({self.constant()})",
            lambda: f"len({self.text(below)}) % 2 == {self.number(0, 1)}",
            lambda: f"{self.text(below)} in {self.texts(below)}",
            lambda: f"not ({self.flag(below)})",
            lambda: f"({self.flag(below)} {self.one('and', 'or')} {self.flag(below)})",
            lambda: f"0 < {self.int(below)} < {self.number(2, 9)}",
            lambda: f"any(len(t) > 2 for t in {self.texts(below)})",
            lambda: f"all(t for t in {self.texts(below)})", lambda: f"bool({self.texts(below)})",
            lambda: f"isinstance({self.text(below)}, str)",
            lambda: f"re.search('[a-c]+', {self.text(below)}) is not None",
        ]  # fmt: skip
        if self.states:
            makers += [lambda: f'"{self.one("v0", "w1", "kind")}" in {self.states[-1].name}'] * 2
        made = self.draw.choice(makers)()
        return made if deep == 0 else f"({made})"

    def texts(self, deep: int = 0) -> str:
        """Return an expression for a list of texts."""
        name = self.name_of("texts")
        if deep > 2 or self.chance(0.4):
            return name if name else self.one("NAMES", "[]", "['p', 'q r']")
        below = deep + 1
        shown = ", ".join(self.text(below) for _ in range(self.number(0, 3)))
        return self.draw.choice([
            lambda: f"[{shown}]", lambda: f"({self.text(below)}).split()",
            lambda: f"({self.texts(below)} + {self.texts(below)})",
            lambda: f"{self.texts(below)}[:{self.number(1, 3)}]",
            lambda: f"[t.strip() for t in {self.texts(below)} if t]",
            lambda: f"sorted({self.texts(below)})", lambda: f"list(reversed({self.texts(below)}))",
            lambda: f"[str(i) + t for i, t in enumerate({self.texts(below)})]",
            lambda: f"sorted(set({self.texts(below)}))",
            lambda: f"[a + b for a, b in zip({self.texts(below)}, NAMES)]",
            lambda: f"list({self.table(below)})", lambda: f"words({self.text(below)})",
            lambda: f"re.findall('[a-z]+', {self.text(below)})",
            lambda: f"sorted({{t for t in {self.texts(below)}}} | {{'q'}})",
            lambda: f"list(map(str, {self.ints(below)}))",
            lambda: f"[*{self.texts(below)}, {self.text(below)}]",
        ])()  # fmt: skip

    def ints(self, deep: int = 0) -> str:
        """Return an expression for a list of numbers."""
        name = self.name_of("ints")
        if deep > 2 or self.chance(0.4):
            return name if name else self.one("[]", "[1, 2, 3]", "[0]")
        below = deep + 1
        shown = ", ".join(self.int(below) for _ in range(self.number(0, 3)))
        return self.draw.choice([
            lambda: f"[{shown}]", lambda: f"list(range({self.number(0, 3)}))",
            lambda: f"[len(t) for t in {self.texts(below)}]",
            lambda: f"[i * {self.int(below)} for i in {self.ints(below)} if i > 0]",
            lambda: f"sorted({self.ints(below)}, reverse=True)",
            lambda: f"list({self.table(below)}.values())",
            lambda: f"[x for row in [{self.ints(below)}, [7]] for x in row]",
            lambda: f"json.loads('[1, {self.number(0, 9)}]')",
        ])()  # fmt: skip

    def table(self, deep: int = 0) -> str:
        """Return an expression for a dict of text to number."""
        name = self.name_of("table")
        if deep > 2 or self.chance(0.4):
            return name if name else self.one("TABLE", "{}", "{'k': 3}")
        below = deep + 1
        return self.draw.choice([
            lambda: f"{{{self.constant()}: {self.int(below)}, 'k': {self.int(below)}}}",
            lambda: f"{{t: len(t) for t in {self.texts(below)}}}",
            lambda: f"{{**{self.table(below)}, 'new': {self.int(below)}}}",
            lambda: f"dict(zip({self.texts(below)}, {self.ints(below)}))",
            lambda: f"{{k: v + 1 for k, v in {self.table(below)}.items()}}",
        ])()  # fmt: skip

    # Calls of the model.

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
        stop = self.one(
            '"\\n"', '["e", " the"]', '["."]', f"[{self.text(2)} or '!']", "NAMES", "[]"
        )
        every = [
            f"stop={stop}", f"stop={stop}", f"temperature={self.one('0', '0.0', '0.7', '1.5')}",
            f"temperature=0.1 * ({self.int(3)} % 9)", f"top_p={self.one('0.5', '0.9')}",
            f"top_k={self.one('1', '5', '-1')}", f"min_p={self.one('0', '0.05')}", "min_tokens=1",
            "ignore_eos=True", "return_logprob=True", "stop_token_ids=[5, 6, 30]",
            'regex="[a-c]{1,4}"', "frequency_penalty=0.5", "presence_penalty=-1", "seed=11",
            "repetition_penalty=1.2", "logit_bias={5: 2.0}", 'stop_regex="[0-9]+"',
            "top_logprobs_num=2",
        ]  # fmt: skip
        found: dict[str, str] = {}
        for param in self.draw.sample(every, self.draw.choice((0, 1, 1, 2, 3))):
            found.setdefault(param.partition("=")[0], param)
        return list(found.values())

    def typed_call(self, word: str | None) -> tuple[str, dict[str, str]]:
        """Return a call of gen for a value of a type."""
        name, kind, call = self.draw.choice((
            ("n0", "int", 'lmc.gen("{}", type=int, max_tokens=40)'),
            ("n1", "int", 'lmc.gen_int("{}", 50)'),
            ("b0", "flag", 'lmc.gen("{}", type=bool, max_tokens=12)'),
            ("x0", "float", 'lmc.gen("{}", type=float, max_tokens=60)'),
            ("v1", "text", 'lmc.gen("{}", type=Literal["yes", "no", "why not"], max_tokens=20)'),
            ("m0", "mood", 'lmc.gen("{}", type=Mood, max_tokens=20)'),
            ("o0", "point", 'lmc.gen("{}", type=Point, max_tokens=300)'),
            ("i0", "ints", 'lmc.gen("{}", type=list[int], max_tokens=300)'),
        ))  # fmt: skip
        return call.format(word or name), {word or name: kind}
