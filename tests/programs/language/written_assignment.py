"""Unpacking, slices, items, deletion, augmented assignment."""

import lmc


@lmc.function
def starred(s, xs: list[int]):
    """Starred targets at each place."""
    xs = [1, 2] + xs
    a, *rest = xs
    *head, z = xs
    first, *middle, last = xs
    (p, q), [r, *t] = (xs[0], xs[-1]), xs
    s += f"{a}{z}{first}{last}{p}{q}{r}"
    return rest, head, middle, t


@lmc.function
def nested_targets(s, rows: list[tuple[str, tuple[int, int]]]):
    """Nested targets in a loop."""
    out = []
    for name, (low, high) in rows:
        out.append(f"{name}:{high - low}")
    for i, (name, _) in enumerate(rows):
        s += f"{i}{name}"
    return out


@lmc.function
def slices(s, text: str, xs: list[int]):
    """Slices with every bound."""
    parts = text[:2], text[1:], text[::-1], text[-3:-1], xs[::2], xs[:-1]
    s += parts[0] + parts[2]
    return parts


@lmc.function
def slice_assignment(s, xs: list[int]):
    """Slices replaced and removed."""
    ys = list(xs)
    ys[1:2] = [7, 8]
    ys[:0] = [0]
    zs = ys[:]
    zs[len(zs) :] = xs
    del ys[1:2]
    s += str(ys)
    return ys, zs


@lmc.function
def deletion(s, xs: list[int], table: dict[str, int]):
    """Items and names deleted."""
    ys = list(xs) + [1, 2]
    del ys[0]
    del ys[-1]
    d = dict(table)
    d["k"] = 1
    del d["k"]
    temporary = 3
    del temporary
    s += str(len(ys))
    return ys, d


@lmc.function
def augmented_items(s, words: list[str]):
    """Augmented assignment of items, nested ones too."""
    scores = {"a": 1, "b": [1, 2]}
    scores["a"] += 5
    scores["a"] *= 2
    scores["b"][0] -= 1
    scores["b"] += [3]
    grid = [[0] * 3 for _ in range(2)]
    for i, word in enumerate(words):
        grid[i % 2][i % 3] += len(word)
    names = ["x", "y"]
    names[0] += "z"
    s += names[0]
    return scores, grid, names


@lmc.function
def operators(s, a: int, b: int):
    """All augmented operators on names."""
    a += 3
    a -= b
    a *= 2
    b **= 2
    b //= 3
    b %= 5
    a |= 4
    a &= 7
    a ^= 1
    a <<= 2
    a >>= 1
    c = a / 4
    c /= 2
    t = "x"
    t *= 2
    t += str(b)
    s += t
    return a, b, c, t


@lmc.function
def chained_targets(s, x: str):
    """One value under several names."""
    a = b = x + "!"
    c, d = e = (a, b)
    s += a + d
    return a, b, c, e


@lmc.function
def list_methods(s, xs: list[int]):
    """Lists changed by their methods."""
    ys = []
    for x in xs:
        ys.append(x)
        ys.insert(0, -x)
    ys.extend([3, 1])
    ys.sort()
    popped = ys.pop()
    ys.remove(1) if 1 in ys else None
    ys.reverse()
    copied = ys.copy()
    ys.clear()
    s += str(copied)
    return ys, copied, popped, copied.index(copied[0]), copied.count(3)


@lmc.function
def dict_methods(s, table: dict[str, int]):
    """Dicts changed by their methods."""
    d = {"a": 1, **table}
    d.update({"b": 2})
    d.update(c=3)
    gone = d.pop("a")
    missing = d.pop("zz", None)
    d.setdefault("b", 9)
    merged = d | {"e": 5}
    merged |= {"f": 6}
    s += ",".join(f"{k}={v}" for k, v in merged.items())
    return gone, missing, merged, "b" in d, d.get("q", "none")


@lmc.function
def set_operations(s, xs: list[int], ys: list[int]):
    """Sets, their operators and methods."""
    a, b = set(xs), set(ys)
    a.add(1)
    b.discard(2)
    a |= {5}
    s += str(len(a & b))
    return sorted(a | b), sorted(a - b), sorted(a ^ b), a <= b, 1 in a, a.isdisjoint(b)


@lmc.function
def walrus(s, text: str):
    """Assignment expressions in conditions and loops."""
    if (n := len(text)) > 3:
        s += str(n)
    while (word := text[:2]) and n > 0:
        text = text[2:]
        n -= 1
        s += word + "."
    return n, word


@lmc.function
def tuple_swap_in_list(s, xs: list[int]):
    """A bubble sort by swapping items."""
    ys = list(xs)
    for i in range(len(ys)):
        for j in range(len(ys) - 1 - i):
            if ys[j] > ys[j + 1]:
                ys[j], ys[j + 1] = ys[j + 1], ys[j]
    s += str(ys)
    return ys


@lmc.function
def rebinding_arguments(s, xs: list[int], d: dict[str, int], t: str = "x"):
    """Arguments under the same names, changed copies."""
    xs = sorted(xs)
    xs.append(1)
    d = {**d, "n": len(xs)}
    d["m"] = 2
    t += "!"
    s += t
    return xs, d


@lmc.function
def nested_containers(s, names: list[str]):
    """Lists in dicts in lists."""
    people = [{"name": name, "notes": []} for name in names]
    for person in people:
        s += person["name"] + ": " + lmc.gen("note", max_tokens=2)
        person["notes"].append(s["note"])
        person["count"] = len(person["notes"])
    if people:
        people[0]["name"] += "!"
    return people


@lmc.function
def history(s, turns: list[str]):
    """A list of messages that grows."""
    messages = [{"role": "system", "content": "Be brief."}]
    for turn in turns:
        messages.append({"role": "user", "content": turn})
        for message in messages[-2:]:
            s += f"{message['role']}: {message['content']}\n"
        s += lmc.gen("reply", max_tokens=3, stop="\n")
        messages.append({"role": "assistant", "content": s["reply"]})
    return messages


@lmc.function
def annotated(s, n: int):
    """Annotated names, with and without values."""
    total: int = 0
    label: str
    items: list[int] = []
    for i in range(min(n, 3)):
        total += i
        items.append(i)
    label = "total"
    s += f"{label}: {total}"
    return items


@lmc.function
def frozen_tuples(s, xs: list[int]):
    """Tuples of unknown length, made, added and unpacked."""
    t = tuple(xs)
    u = t + (1, 2)
    v = (0, *t, 9)
    first, *_ = v
    s += str(u)
    return u, v, first, len(t), t[:1], 1 in u


@lmc.function
def star_lists(s, xs: list[int], ys: list[int]):
    """Stars in displays."""
    both = [*xs, 0, *ys]
    unique = {*xs, *ys}
    s += str(len(unique))
    return both, sorted(unique), [*"ab"], (*xs, *ys)


@lmc.function
def starred_ends(s, xs: list[str]):
    s += "Words: " + lmc.gen("words", max_tokens=4)
    try:
        first, *middle, last = xs
        head, *rest = s["words"].split()
    except ValueError as error:
        s += f" ({error})"
        return str(error)
    return first, middle, last, head, rest
