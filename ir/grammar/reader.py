"""Grammar text to rules: lark's notation and the common EBNF (`rule ::= "a" | b+`).

The texts of a grammar are those that its rules derive, character by character: a terminal is
whatever its pattern matches as a whole, though a longer match might be there, and look-around
in it sees the terminal alone. Names of trees, priorities and `?`, `!`, `_` change no text.
"""

import re

from lmc.ir.grammar.common import COMMON
from lmc.ir.grammar.model import (
    Alt,
    Grammar,
    Node,
    Pattern,
    Position,
    Ref,
    Repeat,
    Rule,
    Seq,
    Word,
    references,
    refuse,
)
from lmc.ir.grammar.scan import Token, class_pattern, is_lark, tokens

MAX_NESTING = 60
MAX_RULES = 10_000
MAX_COUNT = 100_000
_REGEX_FLAGS = "imsx"
_CLOSING = {"(": ")", "[": "]"}


def read_grammar(source: str) -> Grammar:
    """Return the grammar of a text, with warnings for rules that nothing needs.

    Raises:
        ConstraintError: it is wrong, or says something that is not supported; `.position` is
            the place, where there is one.
    """
    lark = is_lark(source)
    reader = _Reader(list(tokens(source, lark=lark)), lark)
    grammar = reader.grammar()
    _check_references(grammar)
    return grammar


def _check_references(grammar: Grammar) -> None:
    """Refuse names without a rule, and note rules that the start does not lead to."""
    needed, pending = {grammar.start}, [grammar.start]
    bodies = [rule.body for rule in grammar.rules.values()]
    for ref in [ref for body in (*bodies, *grammar.ignored) for ref in references(body)]:
        if ref.name not in grammar.rules:
            raise refuse(ref.position, f"rule {ref.name!r} is not defined", "define it")
    pending += [ref.name for node in grammar.ignored for ref in references(node)]
    needed.update(pending)
    while pending:
        for ref in references(grammar.rules[pending.pop()].body):
            if ref.name not in needed:
                needed.add(ref.name)
                pending.append(ref.name)
    for name in [name for name in grammar.rules if name not in needed]:
        rule = grammar.rules.pop(name)
        if rule.position != (0, 0):
            line, column = rule.position
            grammar.warnings.append(f"{line}:{column}: nothing leads to rule {name!r}")


class _Reader:
    """Reads statements from a list of words."""

    def __init__(self, words: list[Token], lark: bool) -> None:
        self.words = words
        self.lark = lark
        self.at = 0
        self.depth = 0
        self.rules: dict[str, Rule] = {}
        self.ignored: list[Node] = []
        self.define = ":" if lark else "::="

    # Words.

    @property
    def word(self) -> Token:
        return self.words[self.at]

    def take(self, kind: str) -> Token | None:
        """Take the next word if it is of a kind."""
        if self.word.kind != kind:
            return None
        self.at += 1
        return self.words[self.at - 1]

    def need(self, kind: str) -> Token:
        found = self.take(kind)
        if found is None:
            shown = self.word.text or "the end"
            raise refuse(self.word.position, f"{kind!r} is wanted, not {shown!r:.40}", "mend it")
        return found

    # Statements.

    def grammar(self) -> Grammar:
        while self.word.kind != "end":
            if self.word.kind == "directive":
                self._directive()
            else:
                self._rule()
            self.take(";")
        own = [name for name, rule in self.rules.items() if rule.position != (0, 0)]
        if not own:
            raise refuse(None, "there are no rules", 'write one: start: "yes" | "no"')
        start = next((name for name in ("start", "root") if name in self.rules), own[0])
        return Grammar(self.rules, start, tuple(self.ignored))

    def _rule(self) -> None:
        while self.lark and (self.take("?") or self.take("!")):
            pass
        name = self.need("name")
        if self.word.kind == "{" and self.lark:
            raise refuse(self.word.position, "templates are not supported", "write the rule out")
        if self.word.kind == "=":
            raise refuse(
                self.word.position,
                "'=' does not define a rule",
                "write 'name: ...' or 'name ::= ...'",
            )
        if self.lark and self.take("."):
            self.take("-")
            self.need("number")
        self.need(self.define)
        bare = name.text.lstrip("_")
        is_terminal = self.lark and bare[:1].isupper()
        self._add(Rule(name.text, self._options(), name.position, is_terminal))

    def _add(self, rule: Rule) -> None:
        if rule.name in self.rules:
            raise refuse(rule.position, f"rule {rule.name!r} is defined twice", "use another name")
        self.rules[rule.name] = rule
        if len(self.rules) > MAX_RULES:
            raise refuse(rule.position, f"more than {MAX_RULES} rules", "use fewer")

    def _directive(self) -> None:
        word = self.need("directive")
        if word.text == "%ignore" and self.lark:
            self.ignored.append(self._options())
        elif word.text == "%import" and self.lark:
            self._import()
        else:
            known = "%ignore and %import of common terminals" if self.lark else "none"
            raise refuse(word.position, f"{word.text!r} is not supported", f"supported: {known}")

    def _import(self) -> None:
        source = self.need("name")
        names: list[Token] = []
        if self.take("."):
            names.append(self.need("name"))
        elif self.take("("):
            names.append(self.need("name"))
            while self.take(","):
                names.append(self.need("name"))
            self.need(")")
        if source.text != "common" or not names:
            raise refuse(
                source.position, f"{source.text!r} cannot be imported", "write its rules here"
            )
        alias = self.need("name").text if self.take("->") else None
        for name in names:
            if name.text not in COMMON:
                raise refuse(name.position, f"common has no {name.text!r}", "write it as a regex")
            body = Pattern(COMMON[name.text], name.position)
            self._add(Rule(alias or name.text, body, (0, 0), is_terminal=True))

    # What stands in a rule.

    def _options(self) -> Node:
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise refuse(
                self.word.position, "nesting too deep", f"at most {MAX_NESTING} levels are read"
            )
        options = [self._sequence()]
        while self.take("|"):
            options.append(self._sequence())
        self.depth -= 1
        return options[0] if len(options) == 1 else Alt(tuple(options))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._begins_item():
            parts.append(self._repeated(self._item()))
        if self.lark and self.take("->"):
            self.need("name")
        return parts[0] if len(parts) == 1 else Seq(tuple(parts))

    def _begins_item(self) -> bool:
        """Return whether something to append follows, and not the next statement."""
        kind = self.word.kind
        if kind in ("string", "regex", "class", "("):
            return True
        if kind == "[":
            return self.lark
        if kind == ".":
            return not self.lark
        if self.lark and kind in ("?", "!"):
            return False
        return kind == "name" and not self._begins_rule()

    def _begins_rule(self) -> bool:
        kinds = [word.kind for word in self.words[self.at + 1 : self.at + 5]]
        if kinds[:1] == [self.define] or kinds[:1] == ["="]:
            return True
        if not self.lark:
            return False
        number = kinds[1:3] if kinds[1:2] != ["-"] else kinds[2:4]
        return kinds[:1] == ["."] and number == ["number", ":"]

    def _item(self) -> Node:
        word = self.word
        self.at += 1
        match word.kind:
            case "name" if self.lark and self.word.kind == "{":
                raise refuse(word.position, "templates are not supported", "write the rule out")
            case "name":
                return Ref(word.text, word.position)
            case "string" if self.take(".."):
                return self._span(word)
            case "string" if word.flags:
                return Pattern(f"(?i:{re.escape(word.text)})", word.position)
            case "string":
                return Word(word.text)
            case "regex":
                return self._regex(word)
            case "class":
                return Pattern(class_pattern(word.text, word.position), word.position)
            case ".":
                return Pattern("(?s:.)", word.position)
        inside = self._options()
        if self.take(_CLOSING[word.kind]) is None:
            raise refuse(word.position, f"{word.kind!r} is not closed", "close it")
        return Repeat(inside, 0, 1) if word.kind == "[" else inside

    def _span(self, low: Token) -> Node:
        high = self.need("string")
        if len(low.text) != 1 or len(high.text) != 1 or low.text > high.text:
            raise refuse(low.position, "a range is between two characters", 'write "a".."z"')
        first, last = ord(low.text), ord(high.text)
        return Pattern(f"[\\U{first:08x}-\\U{last:08x}]", low.position)

    @staticmethod
    def _regex(word: Token) -> Node:
        source = word.text.replace("\\/", "/")
        wrong = [flag for flag in word.flags if flag not in _REGEX_FLAGS + "u"]
        if wrong:
            raise refuse(
                word.position, f"flag {wrong[0]!r} of the regex is not supported",
                f"supported: {', '.join(_REGEX_FLAGS)}",
            )  # fmt: skip
        flags = "".join(sorted({flag for flag in word.flags if flag in _REGEX_FLAGS}))
        return Pattern(f"(?{flags}:{source}\n)" if "x" in flags else
                       f"(?{flags}:{source})" if flags else source, word.position)  # fmt: skip

    def _repeated(self, item: Node) -> Node:
        while True:
            position = self.word.position
            # In lark's notation a `?` or `!` may also be the mark of the next rule.
            if self.lark and self.word.kind in ("?", "!") and self._marks_rule():
                return item
            if self.take("?"):
                item = Repeat(item, 0, 1)
            elif self.take("*"):
                item = Repeat(item, 0, None)
            elif self.take("+"):
                item = Repeat(item, 1, None)
            elif self.lark and self.take("~"):
                item = self._counted(item, position, "..", None)
            elif not self.lark and self.take("{"):
                item = self._counted(item, position, ",", "}")
            else:
                return item

    def _marks_rule(self) -> bool:
        """Return whether a `?` or `!` begins a line, and so belongs to the rule there."""
        return self.word.position[0] > self.words[self.at - 1].position[0]

    def _counted(self, item: Node, position: Position, mark: str, close: str | None) -> Node:
        number = self.take("number")
        low = int(number.text) if number else 0
        high: int | None = low
        if self.take(mark):
            number_high = self.take("number")
            high = int(number_high.text) if number_high else None
        elif number is None:
            raise refuse(position, "a count is wanted", "write a number")
        if close is not None:
            self.need(close)
        elif high is None:
            raise refuse(position, "a count is wanted after '..'", "write a number")
        if high is not None and low > high:
            raise refuse(position, f"{low} to {high} times is never", "swap the counts")
        if max(low, high or 0) > MAX_COUNT:
            raise refuse(position, f"a count is above {MAX_COUNT}", "use a smaller one")
        return Repeat(item, low, high)
