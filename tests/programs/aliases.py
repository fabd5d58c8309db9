"""Names for one object: states, lists, dicts, elements of lists of states."""

import lmc


@lmc.function
def two_names(s, flag):
    """Two names for one state and for one list."""
    t = s
    t += "a"
    s += "b" + lmc.gen("x", max_tokens=1)
    xs = []
    ys = xs
    ys.append(1)
    xs += [2]
    xs = xs + [3]  # noqa: RUF005
    ys.append(4)
    if flag:
        zs = xs
        zs.append(5)
    return [t.text(), xs, ys]


@lmc.function
def copies(s):
    """Copies and forks do not change the original."""
    s += "start"
    c = s.copy()
    c += " copy" + lmc.gen("x", max_tokens=1)
    s += " more" + lmc.gen("y", max_tokens=1)
    a, b = s.fork(2)
    a += "A"
    b += "B" + lmc.gen("z", max_tokens=1)
    a, b = b, a
    a += "!"
    return [c.text(), s.text(), a.text(), b.text(), "x" in s]


@lmc.function
def elements(s, n):
    """Slots of a list of states, through names, indices and loops."""
    forks = s.fork(n)
    forks += ["x", "y", "z"][:n]
    first = forks[0]
    forks[0] += "0"
    first += "1" + lmc.gen("v", max_tokens=1)
    for i in range(len(forks)):
        forks[i] += f"[{i}]"
    for fork in reversed(list(forks)):
        fork += "r"
    best = first
    for fork in forks:
        if len(fork.text()) >= len(best.text()):
            best = fork
    best += "*"
    return [fork.text() for fork in forks]


@lmc.function
def collections(s):
    """States in lists and dicts that the program makes."""
    states = []
    for i in range(3):
        child = s.copy()
        child += f"{i}" + lmc.gen("v", max_tokens=1)
        states.append(child)
    named = {}
    for i, name in enumerate(["a", "b"]):
        named[name] = s.copy()
        named[name] += f"{name}{i}"
    for name, state in named.items():
        state += "=" + name
    last = states.pop()
    last += "!"
    texts = [state.text() for state in states]
    return [texts, last.text(), {k: v.text() for k, v in named.items()}, len(states)]


@lmc.function
def nested(s, n):
    """Lists of groups of states."""
    groups = [s.copy().fork(2) for _ in range(n)]
    for i, group in enumerate(groups):
        for j, state in enumerate(group):
            state += f"{i}{j}"
        group += "g" + lmc.gen("v", max_tokens=1)
    groups[0][1] += "end"
    return [[state.text() for state in group] for group in groups]


@lmc.function
def containers(s, data):
    """Lists and dicts changed in place."""
    counts = {}
    for word in data:
        counts[word] = counts.get(word, 0) + 1
    groups = {"even": [], "odd": []}
    for i, word in enumerate(data):
        groups["even" if i % 2 == 0 else "odd"].append(word)
    rows = [[0] * 2 for _ in range(2)]
    rows[1][0] = 5
    rows[0][1] += 2
    queue = list(data)
    taken = []
    while queue:
        item = queue.pop(0)
        taken.insert(0, item)
        if item == "b":
            queue.clear()
    copy = dict(counts)
    copy["new"] = 1
    del counts[data[0]]
    counts.update({"k": 2})
    ordered = sorted(data, key=lambda w: (len(w), w), reverse=True)
    unique = set(data)
    unique.add("q")
    s += str(counts)
    return [counts, groups, rows, taken, copy, ordered, sorted(unique), min(data, key=len)]


@lmc.function
def loop_carried(s, k):
    """States that a loop rebinds."""
    current = s
    seen = []
    for i in range(k):
        current = current.copy()
        current += f"{i}" + lmc.gen("v", max_tokens=1)
        seen.append(current.text())
    return [seen, current.text()]


def grow(s, xs, text):
    """Change a state and a list that belong to the caller."""
    s += text
    xs.append(text)
    return s, xs


@lmc.function
def passed(s):
    """Objects passed to helpers and back."""
    xs = []
    t, ys = grow(s, xs, "a")
    t += "b"
    ys.append("c")
    grow(t, ys, text="d")
    children = s.fork(2)
    for child in children:
        grow(child, xs, "e")
    return [s.text(), xs, [c.text() for c in children]]


@lmc.function
def best_of(s, n):
    """A name that is None until a state is found."""
    forks = s.fork(n)
    forks += lmc.gen("v", max_tokens=3)
    best = None
    for fork in forks:
        if best is None or len(fork["v"]) > len(best["v"]):
            best = fork
    if not best:
        return None
    best += " is best"
    return [best.text(), [fork.text() for fork in forks]]


@lmc.function
def ambiguous(s, flag):
    """Two names that may or may not be one state."""
    a, b = s.copy(), s.copy()
    c = a if flag else b
    c += "c" + lmc.gen("v", max_tokens=1)
    a += "a"
    twice = [c, c, b]
    twice[0] += "0"
    twice[1] += "1"
    for state in twice:
        state += "."
    return [a.text(), b.text(), c.text()]


@lmc.function
def joined_backwards(s, width):
    """Groups kept in a list, joined from the last to the first."""
    groups = []
    plans = s.fork(width)
    plans += "plan" + lmc.gen("plan", max_tokens=2)
    groups.append(plans)
    solved = []
    for plan in plans:
        forks = plan.fork(width)
        forks += "solve" + lmc.gen("solution", max_tokens=2)
        groups.append(forks)
        solved.extend(forks)
    for solution in solved:
        forks = solution.fork(1)
        forks += "rate" + lmc.gen("score", max_tokens=1)
        groups.append(forks)
    for group in reversed(groups):
        group.join()
    s += lmc.gen("end", max_tokens=1)
    return [s["plan"], s["solution"], s["score"]]


@lmc.function
def frontier(s, depth):
    """A beam: the kept states of each round are forked in the next."""
    s += "start"
    kept = [s.copy()]
    for step in range(depth):
        grown = []
        for state in kept:
            for child in state.fork(2):
                child += f" {step}" + lmc.gen("v", max_tokens=1)
                grown.append(child)
        ranked = sorted(grown, key=lambda state: len(state.text()), reverse=True)
        kept = ranked[:2]
        kept[0] += "*"
    named = {"best": kept[0]}
    named["best"] += "!"
    if depth > 1:
        late = kept[-1]
        late += "?"
    return [state.text() for state in kept]


ARGUMENTS = {
    "two_names": [{"flag": True}, {"flag": False}],
    "copies": [{}],
    "elements": [{"n": 3}, {"n": 1}],
    "collections": [{}],
    "nested": [{"n": 2}],
    "containers": [{"data": ["a", "cc", "b", "a"]}],
    "loop_carried": [{"k": 3}, {"k": 0}],
    "passed": [{}],
    "best_of": [{"n": 3}, {"n": 0}],
    "ambiguous": [{"flag": True}, {"flag": False}],
    "joined_backwards": [{"width": 2}],
    "frontier": [{"depth": 2}, {"depth": 0}],
}

SCRIPTS = [{}]
