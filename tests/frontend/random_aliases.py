"""Random programs about lists that share members: names, copies, slices, changes at any depth."""

import random


class AliasWriter:
    """Writes one function of plain lists; most of it is about who sees a change."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = ["a", "b"]
        self.lines = ["    a = [[1], [2, 3]]"]
        self.lines.append("    b = [a[0], [4]]" if self.chance(0.5) else "    b = [[5]]")

    def chance(self, share: float) -> bool:
        """Return True that often."""
        return self.random.random() < share

    def any(self) -> str:
        """Return a name."""
        return self.random.choice(self.names)

    def new(self) -> str:
        """Make a name; it is not known before its statement is written."""
        return f"v{len(self.lines)}"

    def value(self) -> str:
        """Return an expression for a list."""
        a, b, c, d = (self.any() for _ in range(4))
        number = self.random.randint(0, 2)
        return self.random.choice((
            a, a, f"{a}[{number - 1}]", f"{a}[{number - 1}]", f"list({a})", f"({a} + {b})",
            f"[{a}, {b}]", f"{a}[:{number}]", f"[{number}]", f"({a} or {b})", f"{a}.copy()",
            f"({a} if len({c}) > {number} else {d})", f"[x for x in {a}]", f"{{'k': {a}}}['k']",
            f"max([{a}, {b}], key=len)",
        ))  # fmt: skip

    def statement(self, level: int = 1) -> None:
        """Write a statement."""
        pad = "    " * level
        name, number = self.any(), self.random.randint(10, 99)
        if self.chance(0.3):
            target = self.new() if self.chance(0.6) else self.any()
            self.lines.append(f"{pad}{target} = {self.value()}")
            if level == 1 and target not in self.names:
                self.names.append(target)
        elif level < 3 and self.chance(0.12):
            self.lines.append(f"{pad}for e in list({name})[:2]:")
            inner = ("e.append(7)", "a = e", "b.append(e)", "e = [e]", "a.append(1)")
            self.lines.append(f"{pad}    {self.random.choice(inner)}")
        elif level < 3 and self.chance(0.12):
            self.lines.append(f"{pad}if len({name}) > {number % 3}:")
            self.statement(level + 1)
        else:
            self.lines.append(pad + self.random.choice((
                f"{name}.append({number})", f"{name}.append({self.value()})",
                f"{name}[{number % 3 - 1}].append({number})", f"{name}[0] = {self.value()}",
                f"{name}.extend({self.any()})", f"{name} += {self.value()}",
                f"{name}[0][0] = {number}", f"grow({name})", f"{name}.pop()",
            )))  # fmt: skip


def alias_text(seed: int) -> str:
    """Return the text of a file with a function `prog(s)` that needs no model."""
    writer = AliasWriter(seed)
    for _ in range(writer.random.randint(3, 7)):
        writer.statement()
    shown = ", ".join(writer.random.sample(writer.names, min(2, len(writer.names))))
    head = "def grow(x):\n    x.append(99)\n    return x\n\n\ndef prog(s):\n"
    return head + "\n".join(writer.lines) + f"\n    return [{shown}]\n"
