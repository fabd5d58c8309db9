"""A naive Earley recogniser over bytes, and random grammars with the same rules for it.

Nothing is shared with the code under test: rules are lists of alternatives, and a symbol is a
rule's name or a set of bytes.
"""

import random

Symbol = str | frozenset[int]
Rules = dict[str, list[tuple[Symbol, ...]]]
Item = tuple[str, tuple[Symbol, ...], int, int]


class Earley:
    """Charts of one grammar. A chart is a tuple of item sets; a text is viable if none is empty."""

    def __init__(self, rules: Rules, start: str) -> None:
        self.rules = _productive(rules)
        self.start = start
        first = {(start, body, 0, 0) for body in self.rules.get(start, [])}
        self.first = (self._complete((), first),)

    def _complete(self, before, items):
        items, pending, here = set(items), list(items), len(before)
        empty: set[str] = set()  # rules that have begun and ended here
        while pending:
            name, body, dot, origin = pending.pop()
            if dot < len(body):
                after = body[dot]
                new = (
                    [(after, b, 0, here) for b in self.rules[after]] if after in self.rules else []
                )
                if after in empty:
                    new.append((name, body, dot + 1, origin))
            else:
                if origin == here:
                    empty.add(name)
                waiting = items if origin == here else before[origin]
                new = [(n, b, d + 1, o) for n, b, d, o in waiting if d < len(b) and b[d] == name]
            for item in new:
                if item not in items:
                    items.add(item)
                    pending.append(item)
        return frozenset(items)

    def feed(self, chart, data: bytes):
        """Return the chart after some bytes, None if no text goes on so."""
        for byte in data:
            moved = {
                (name, body, dot + 1, origin)
                for name, body, dot, origin in chart[-1]
                if dot < len(body) and not isinstance(body[dot], str) and byte in body[dot]
            }
            if not moved:
                return None
            chart = (*chart, self._complete(chart, moved))
        return chart

    def may_end(self, chart) -> bool:
        return any(
            name == self.start and dot == len(body) and origin == 0
            for name, body, dot, origin in chart[-1]
        )

    def matches(self, data: bytes) -> bool:
        chart = self.feed(self.first, data)
        return chart is not None and self.may_end(chart)


def _productive(rules: Rules) -> Rules:
    """Return the rules without alternatives that never end."""
    good: set[str] = set()
    while True:
        found = {
            name
            for name, bodies in rules.items()
            if any(all(not isinstance(s, str) or s in good for s in body) for body in bodies)
        }
        if found == good:
            break
        good = found
    return {
        name: [
            body
            for body in bodies
            if all((s in good) if isinstance(s, str) else bool(s) for s in body)
        ]
        for name, bodies in rules.items()
        if name in good
    }


class RandomGrammar:
    """A random grammar, as text in one of both notations and as rules for `Earley`."""

    def __init__(self, rng: random.Random, *, lark: bool) -> None:
        self.rng = rng
        self.lark = lark
        self.rules: Rules = {}
        self.names = ["start", *(f"r{i}" for i in range(rng.randint(0, 2)))]
        self.count = 0
        lines = []
        for name in self.names:
            text, body = self.options(1)
            self.rules[name] = [(body,)]
            lines.append(f"{name}{':' if lark else ' ::='} {text}")
        self.text = "\n".join(lines) + "\n"

    def fresh(self, bodies) -> str:
        self.count += 1
        name = f"#{self.count}"
        self.rules[name] = bodies
        return name

    def options(self, depth: int) -> tuple[str, str]:
        parts = [self.sequence(depth) for _ in range(self.rng.choice([1, 2, 2]))]
        return " | ".join(text for text, _ in parts), self.fresh([body for _, body in parts])

    def sequence(self, depth: int):
        parts = [self.item(depth) for _ in range(self.rng.choice([1, 1, 2, 2, 3]))]
        return " ".join(text for text, _ in parts), tuple(symbol for _, symbol in parts)

    def item(self, depth: int) -> tuple[str, Symbol]:
        kind = self.rng.random()
        if depth > 0 and kind < 0.2:
            text, symbol = self.options(depth - 1)
            return self.repeated(f"({text})", symbol)
        if kind < 0.45:
            name = self.rng.choice(self.names)
            return self.repeated(name, name)
        if kind < 0.75:
            chars = sorted(self.rng.sample("abc(", self.rng.randint(1, 3)))
            body = "".join(chars)
            text = f"/[{body}]/" if self.lark else f"[{body}]"
            return self.repeated(text, frozenset(map(ord, chars)))
        word = self.rng.choice(["", "a", "b", "ab", "(", "ba", "é", "c"])
        symbol = self.fresh([tuple(frozenset([byte]) for byte in word.encode())])
        return self.repeated(f'"{word}"', symbol)

    def repeated(self, text: str, symbol: Symbol) -> tuple[str, Symbol]:
        mark = self.rng.choice(["", "", "", "", "", "", "", "?", "*", "+", "count"])
        loop = self.fresh([]) if mark in "*+" and mark else ""
        if mark == "?":
            return f"{text}?", self.fresh([(), (symbol,)])
        if mark == "*":
            self.rules[loop] = [(), (symbol, loop)]
            return f"{text}*", loop
        if mark == "+":
            self.rules[loop] = [(), (symbol, loop)]
            return f"{text}+", self.fresh([(symbol, loop)])
        if mark == "count":
            counted = f"{text}~1..2" if self.lark else f"{text}{{1,2}}"
            return counted, self.fresh([(symbol,), (symbol, symbol)])
        return text, symbol
