"""Helpers that take states and call themselves; the depth is known at run time only."""

import lmc


def explore(s, depth, width):
    """A tree of thought by recursion."""
    if depth == 0:
        s += "leaf" + lmc.gen("leaf", max_tokens=1)
        return [s["leaf"]]
    found = []
    for fork in s.fork(width):
        fork += f"d{depth}" + lmc.gen("thought", max_tokens=1, temperature=0.7)
        found += explore(fork, depth - 1, width)
    return found


@lmc.function
def tree_of_thought(s, depth: int, width: int):
    """Bound by an argument."""
    s += "Think."
    return explore(s, min(abs(depth), 2), min(abs(width), 2))


def ask_until(s, n):
    """Bound by what is generated."""
    s += f"{n}? " + lmc.select("ok", choices=["yes", "no"])
    if s["ok"] == "yes" or n >= 3:
        return n
    s += "\n"
    return ask_until(s, n + 1)


@lmc.function
def until_ok(s):
    """The depth is the model's."""
    n = ask_until(s, 0)
    s += " done"
    return n


def even_turn(s, n):
    """Two helpers that call one another."""
    if n <= 0:
        return "even"
    s += "e"
    return odd_turn(s, n - 1)


def odd_turn(s, n):
    """The other one."""
    if n <= 0:
        return "odd"
    s += "o" + lmc.gen("w", max_tokens=1)
    return even_turn(s, n - 1)


@lmc.function
def mutual(s, n: int):
    """Mutual recursion."""
    return even_turn(s, min(abs(n), 4))


def decompose(s, question, depth):
    """Split a question, answer the parts, combine; returns a text."""
    child = s.copy()
    child += f"Q: {question}\n" + lmc.select("split", choices=["yes", "no"])
    if child["split"] == "no" or depth == 0:
        child += "A: " + lmc.gen("answer", max_tokens=2)
        return child["answer"]
    parts = [decompose(s, question + str(i), depth - 1) for i in range(2)]
    child += " ".join(parts) + lmc.gen("merged", max_tokens=2)
    return child["merged"]


@lmc.function
def divide(s, question: str):
    """Divide and conquer."""
    s += decompose(s, question, 2)
    return s.text()


def deepen(s, n):
    """Return a state."""
    s += f"{n}."
    if n <= 0:
        return s
    return deepen(s.copy(), n - 1)


@lmc.function
def returned_state(s, n: int):
    """The innermost state comes back."""
    end = deepen(s, min(abs(n), 3))
    end += lmc.gen("x", max_tokens=1)
    s += "after"
    return end.text()


@lmc.function
def inner_recursion(s, n: int):
    """A nested function that calls itself and changes the outer state."""

    def step(k):
        if k == 0:
            return 0
        s.user(str(k)) if k % 2 else s.assistant(lmc.gen("a", max_tokens=1))
        return 1 + step(k - 1)

    return step(min(abs(n), 3))


@lmc.function
def outline(s, topic: str, depth: int):
    """A document outline: a list built through recursion."""
    lines = []
    section(s, topic, min(abs(depth), 2), lines, "")
    return lines


def section(s, title, depth, lines, indent):
    """Append to a list that all levels share."""
    lines.append(indent + title)
    if depth == 0:
        return
    for i in range(2):
        s += f"{indent}{title}.{i}: " + lmc.gen("title", max_tokens=1, stop="\n")
        section(s, s["title"], depth - 1, lines, indent + "  ")


@lmc.function
def recursive_program(s, n: int):
    """A program that calls itself."""
    s += f"{n} " + lmc.gen("x", max_tokens=1)
    if n <= 0 or n > 3:
        return s["x"]
    inner = recursive_program(n - 1)
    return s["x"] + inner.value


def search(s, node, goal, seen=()):
    """Depth first search with a tuple that grows."""
    if node == goal or len(seen) > 2:
        return [*seen, node]
    s += node + lmc.gen("next", max_tokens=1)
    for option in (node + "a", node + "b"):
        if option in seen:
            continue
        path = search(s, option, goal, (*seen, node))
        if path:
            return path
    return None


@lmc.function
def depth_first(s, goal: str):
    """Search with recursion in a loop."""
    return search(s, "", goal)


def grow(s, n, notes):
    """Return a state and a value."""
    s += f"{n}" + lmc.gen("g", max_tokens=1)
    if n <= 0:
        return s, len(notes)
    notes.append(n)
    child = s.copy()
    last, count = grow(child, n - 1, notes)
    return last, count + 1


@lmc.function
def state_and_value(s, n: int):
    """A state beside a number, a list that all levels change."""
    notes = []
    last, count = grow(s, min(abs(n), 3), notes)
    last += "end"
    return last.text(), count, notes


def vote(s, options, round_=0, **settings):
    """Options and settings handed on, nothing returned."""
    s += f"{round_}:" + lmc.gen("vote", **settings)
    if s["vote"] in options or round_ >= 2:
        s["final"] = s["vote"]
        return
    vote(s, [*options, "x"], round_ + 1, **settings)


@lmc.function
def votes(s, options: list[str]):
    """Defaults and keywords."""
    vote(s, options, max_tokens=1)
    return s["final"]
