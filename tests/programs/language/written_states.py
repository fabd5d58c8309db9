"""States in lists and dicts, passed to helpers and returned from them."""

import lmc


def with_prefix(s, prefix):
    """Return a copy with more text."""
    child = s.copy()
    child += prefix
    return child


def best_of(s, n, score):
    """Fork, generate, return the best child."""
    forks = s.fork(n)
    forks += lmc.gen("draft", max_tokens=2, temperature=0.9)
    best = forks[0]
    for fork in forks:
        if score(fork["draft"]) > score(best["draft"]):
            best = fork
    return best


def ask(s, question, name="answer", **options):
    """Append a question and generate."""
    s += question + "\n"
    s += lmc.gen(name, **options)
    return s[name]


def pair(s):
    """Return two states."""
    return s.copy(), s.copy()


def both(s, left, right):
    """Return a state and a value."""
    s += left + right
    return s, len(left)


@lmc.function
def returned(s, t: str):
    """A state that a helper made goes on."""
    child = with_prefix(s, t)
    child += lmc.gen("x", max_tokens=2)
    other = with_prefix(child, "more")
    s += child["x"]
    return other.text()


@lmc.function
def returned_best(s, n: int):
    """A helper chooses the state."""
    best = best_of(s, min(abs(n), 2) + 1, len)
    best += " go on" + lmc.gen("rest", max_tokens=2)
    return best.text()


@lmc.function
def keywords_passed(s, q: str):
    """Keyword options passed on to gen."""
    a = ask(s, q, max_tokens=3, stop="\n")
    b = ask(s, "again", "second", temperature=0.0, max_tokens=2)
    return a, b


@lmc.function
def pairs(s, t: str):
    """Two states returned and unpacked."""
    a, b = pair(s)
    a += "A" + lmc.gen("x", max_tokens=2)
    b += "B" + t
    same, n = both(s, t, "!")
    same += "after"
    return a["x"], b.text(), n


@lmc.function
def pool(s, n: int):
    """A beam: states in a list that is made anew each round."""
    beam = [s]
    for depth in range(min(abs(n), 2)):
        candidates = []
        for state in beam:
            for fork in state.fork(2):
                fork += f" {depth}" + lmc.gen("step", max_tokens=1, temperature=1.0)
                candidates.append(fork)
        candidates.sort(key=lambda c: len(c.text()))
        beam = candidates[:2]
    return [b.text() for b in beam]


@lmc.function
def scored_beam(s, n: int):
    """States kept beside their scores."""
    scored = []
    for i, f in enumerate(s.fork(min(abs(n), 3))):
        f += f"{i}" + lmc.gen("v", type=int)
        scored.append((f["v"], f))
    scored.sort(key=lambda p: p[0], reverse=True)
    return [f.text() for v, f in scored]


@lmc.function
def chosen_state(s, flag: bool):
    """A state by a conditional expression."""
    a, b = s.copy(), s.copy()
    a += "left"
    b += "right"
    chosen = a if flag else b
    chosen += lmc.gen("x", max_tokens=2)
    return a.text(), b.text()


@lmc.function
def kind_changes(s, n: int):
    """A loop-carried name that is a state first and a fork later."""
    x = s
    for i in range(min(abs(n), 3)):
        x = x.fork(1)[0]
        x += f"{i}"
    x += lmc.gen("y", max_tokens=2)
    return x.text()


@lmc.function
def copy_of_helper(s, n: int):
    """The same through a helper."""
    x = s
    for i in range(min(abs(n), 3)):
        x = with_prefix(x, str(i))
    return x.text()


@lmc.function
def maybe_state(s, words: list[str]):
    """A state that is None until one is found."""
    found = None
    for word in words:
        child = s.copy()
        child += word + lmc.gen("w", max_tokens=1)
        if len(child["w"]) > 2:
            found = child
            break
    if found is None:
        return "none"
    found += "!"
    return found.text()


@lmc.function
def debate(s, topic: str, rounds: int):
    """Two agents that talk to each other."""
    pro, con = s.fork(2)
    pro += "For: " + topic
    con += "Against: " + topic
    last = ""
    for i in range(min(abs(rounds), 2)):
        speaker = pro if i % 2 == 0 else con
        speaker += "\nOther: " + last + "\nYou: " + lmc.gen("say", max_tokens=3, stop="\n")
        last = speaker["say"]
    s += pro.text() + con.text()
    return last


@lmc.function
def agents_by_name(s, names: list[str]):
    """States in a dict by name, taken in turn."""
    agents = {}
    for name in names:
        agents[name] = s.copy()
        agents[name] += f"You are {name}.\n"
    for name in names:
        agents[name] += "Speak: " + lmc.gen("line", max_tokens=2)
    return {name: agent["line"] for name, agent in agents.items()}


@lmc.function
def fork_slices(s, n: int):
    """Slices and items of forks."""
    forks = s.fork(min(abs(n), 2) + 2)
    for f in forks[1:]:
        f += "late"
    forks[0] += "first" + lmc.gen("x", max_tokens=1)
    forks[-1] += "last"
    return [f.text() for f in forks[:2]], len(forks)


@lmc.function
def nested_forks(s, n: int):
    """Forks of forks, joined from the inside."""
    outer = s.fork(2)
    for i, o in enumerate(outer):
        o += f"o{i}"
        inner = o.fork(min(abs(n), 2))
        inner += "in" + lmc.gen("x", max_tokens=1)
        inner.join()
    outer.join()
    return s["x"] if n else None


@lmc.function
def popped_states(s, n: int):
    """A stack of states."""
    stack = [s.copy()]
    out = []
    while stack and len(out) < 4:
        state = stack.pop()
        state += "." + lmc.gen("b", max_tokens=1)
        out.append(state.text())
        if len(out) < n:
            stack.append(state.copy())
            stack.append(state.copy())
    return out


@lmc.function
def queue_of_states(s, n: int):
    """Breadth first, from the front of a list."""
    queue = [s.copy()]
    seen = 0
    while queue and seen < 3:
        state = queue.pop(0)
        seen += 1
        state += lmc.gen("q", max_tokens=1)
        queue += [state.copy() for _ in range(2)]
        queue = queue[:3]
    return [q.text() for q in queue]


@lmc.function
def tree_in_dicts(s, n: int):
    """Nodes as dicts that hold a state and plain data."""
    root = {"state": s.copy(), "score": 0, "depth": 0}
    best = root
    for i in range(min(abs(n), 3)):
        child = {"state": best["state"].copy(), "score": i % 2, "depth": best["depth"] + 1}
        child["state"] += f"{i}" + lmc.gen("x", max_tokens=1)
        if child["score"] >= best["score"]:
            best = child
    return best["state"].text(), best["depth"]


@lmc.function
def tuples_of_states(s, topics: list[str]):
    """Tuples of a name and a state in a list."""
    parts = []
    for topic in topics:
        child = s.copy()
        child += topic
        parts.append((topic, child))
    for topic, child in parts:
        child += lmc.gen("view", max_tokens=2)
    return [(topic, child["view"]) for topic, child in parts]


@lmc.function
def zipped_forks(s, docs: list[str]):
    """Forks beside their data."""
    forks = s.fork(len(docs))
    for doc, f in zip(docs, forks):
        f += doc + lmc.gen("x", max_tokens=1)
    for i in range(len(forks)):
        forks[i] += f"{i}"
    return [f["x"] + d for f, d in zip(forks, docs)]


@lmc.function
def aliased(s, flag: bool):
    """Two names for one state."""
    t = s
    t += "one"
    u = [s, s.copy()]
    u[0] += "two"
    if flag:
        t = u[1]
    t += "three" + lmc.gen("x", max_tokens=1)
    return s.text(), u[1].text()


@lmc.function
def with_copies(s, t: str):
    """Copies and scopes in with statements, several in one."""
    with s.copy() as c:
        c += t + lmc.gen("inner", max_tokens=2)
    with s.user():
        s += "hi"
    with s.assistant(), s.var_scope("turn"):
        s += "reply" + lmc.gen("reply", max_tokens=2)
    return s["inner"], s["turn"]


@lmc.function
def set_and_get(s, xs: list[str]):
    """Variables by computed names."""
    for i, x in enumerate(xs):
        s[f"v{i}"] = x
        s += lmc.gen(f"g{i}", max_tokens=1)
    total = "".join(s[f"v{i}"] for i in range(len(xs)))
    return total, "g0" in s, s.get_var("g0") if xs else None


@lmc.function
def map_over_forks(s, n: int):
    """map with a lambda over states."""
    forks = s.fork(min(abs(n), 2))
    forks += lmc.gen("x", max_tokens=1)
    return list(map(lambda f: f["x"], forks)), [len(f["x"]) for f in list(forks)]


@lmc.function
def maybe_fork(s, flag: bool):
    """A fork on one path only."""
    if flag:
        forks = s.fork(2)
        forks += lmc.gen("x", max_tokens=1)
        texts = [f["x"] for f in forks]
    else:
        texts = []
    s += "".join(texts)
    return texts


@lmc.function
def state_in_both(s, flag: bool):
    """A fork of one of two sizes, by the path."""
    if flag:
        forks = s.fork(1)
    else:
        forks = s.fork(2)
    forks += "a" + lmc.gen("x", max_tokens=1)
    forks.join()
    return s["x"]


@lmc.function
def first_state(s, n: int):
    """next over states, with a default."""
    forks = s.fork(min(abs(n), 3))
    forks += lmc.gen("x", max_tokens=1)
    found = next((f for f in forks if len(f["x"]) > 2), None)
    if found is not None:
        found += "!"
        return found.text()
    return None


@lmc.function
def assigned_in_loop(s, words: list[str]):
    """A state that only the loop assigns, read after it."""
    for word in words:
        last = s.copy()
        last += word
    if words:
        return last.text()
    return None


@lmc.function
def extended(s, n: int):
    """Lists of states joined and extended."""
    a = [s.copy() for _ in range(min(abs(n), 2))]
    b = a + [s.copy()]
    b.extend(s.fork(1))
    b += [s.copy()]
    b.insert(0, s.copy())
    for i, x in enumerate(b):
        x += str(i)
    del b[0]
    return [x.text() for x in b]


@lmc.function
def beam_with_scores(s, width: int, depth: int):
    """A beam of (score, state) pairs, cut each round."""
    beam = [(0, s)]
    for level in range(min(abs(depth), 2)):
        found = []
        for score, state in beam:
            for i, child in enumerate(state.fork(2)):
                child += f"{level}.{i}" + lmc.gen("step", max_tokens=1, temperature=1.0)
                found.append((score + len(child["step"]), child))
        found = sorted(found, key=lambda pair: pair[0], reverse=True)
        beam = found[: min(abs(width), 2) + 1]
    best_score, best = beam[0]
    best += "." + lmc.gen("end", max_tokens=1)
    return best_score, best.text(), len(beam)


@lmc.function
def search_tree(s, n: int):
    """Nodes in a list, changed in place."""
    nodes = [{"state": s.copy(), "visits": 0, "name": "root"}]
    for i in range(min(abs(n), 3)):
        node = min(nodes, key=lambda item: item["visits"])
        node["visits"] += 1
        child = node["state"].copy()
        child += f"{i}" + lmc.gen("move", max_tokens=1)
        nodes.append({"state": child, "visits": 0, "name": child["move"]})
    for node in nodes:
        node["state"] += "!"
    return [(node["name"], node["visits"], node["state"].text()) for node in nodes]


@lmc.function
def work_list(s, n: int):
    """A stack of (depth, state) pairs."""
    stack = [(0, s.copy())]
    out = []
    while stack and len(out) < 5:
        depth, state = stack.pop()
        state += f"{depth}" + lmc.gen("w", max_tokens=1)
        out.append(state.text())
        if depth < min(abs(n), 2):
            for child in state.fork(2):
                stack.append((depth + 1, child))
    return out


@lmc.function
def players(s, names: list[str]):
    """A record per player, passed to a helper."""
    table = [{"name": name + ".", "state": s.copy(), "score": 0} for name in names]
    for turn in range(2):
        for player in table:
            take_turn(player, turn)
    return {player["name"]: player["score"] for player in table}


def take_turn(player, turn):
    """Change a record."""
    player["state"] += f"{player['name']} {turn}: " + lmc.gen("say", max_tokens=1)
    player["score"] += len(player["state"]["say"])


@lmc.function
def returned_pair(s, n: int):
    """A helper that returns a state and a score, the best kept."""
    best, best_score = s, -1
    for i in range(min(abs(n), 3)):
        child, score = scored(s, i)
        if score > best_score:
            best, best_score = child, score
    best += "chosen"
    return best.text(), best_score


def scored(s, i):
    """A copy and its score."""
    child = s.copy()
    child += f"{i}" + lmc.gen("c", max_tokens=1)
    return child, len(child["c"])
