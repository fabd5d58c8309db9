"""Tree of thought on the game of 24: three proposals, three expansions each, then a choice."""

import lmc

RULES = (
    "Use the four numbers and basic arithmetic operations to obtain 24. In each step, choose two "
    "of the numbers that remain and make a new one of them; write what is left.\n"
    "Numbers: 2 8 8 14\n8 / 2 = 4 (left: 4 8 14)\n4 + 8 = 12 (left: 12 14)\n"
    "Numbers: 4 4 6 8\n4 + 8 = 12 (left: 4 6 12)\n6 - 4 = 2 (left: 2 12)\n"
)


def step(s, name, width):
    """Fork the next line `width` times."""
    forks = s.fork(width)
    forks += lmc.gen(name, max_tokens=32, temperature=0.7, stop="\n")
    return forks


@lmc.function
def tree(s, numbers: str):
    """Search two steps, then choose among the nine leaves; returns leaves and choice."""
    s += RULES + "Numbers: " + numbers + "\n"
    lines = []
    for proposal in step(s, "proposal", 3):
        proposal += "\n"
        for expansion in step(proposal, "expansion", 3):
            lines.append(proposal["proposal"] + "; " + expansion["expansion"])
    for i, line in enumerate(lines):
        s += f"Way {i + 1}: {line}\n"
    s += "The best way is number "
    s += lmc.select("best", choices=[str(i + 1) for i in range(len(lines))])
    return [*lines, s["best"]]
