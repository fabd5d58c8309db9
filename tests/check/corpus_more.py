"""More small programs for planted faults: what the programs of `corpus.py` have none of."""

import lmc

LOG = []


@lmc.tool(effects="write")
def note(value) -> str:
    """Remember a value."""
    LOG.append(value)
    return f"noted {value}"


@lmc.tool(effects="none")
def measure(value) -> int:
    """Free of effects."""
    return len(value)


@lmc.function
def limits(s, least: int):
    """Parameters that few programs set, each next to a call that does not set it."""
    s += "A" + lmc.gen("a", max_tokens=9, stop_regex="[0-9e]+")
    s += lmc.gen("b", max_tokens=5, frequency_penalty=0.5, presence_penalty=-1)
    s += lmc.gen("c", max_tokens=5, repetition_penalty=1.3)
    s += lmc.gen("d", max_tokens=5, logit_bias={5: 2.0, 300: -4})
    s += lmc.gen("e", max_tokens=4, seed=11) + lmc.gen("f", max_tokens=4)
    s += lmc.gen("g", max_tokens=4, seed=0, temperature=0.35, top_p=0.123456)
    s += lmc.gen("h", max_tokens=6, min_tokens=least, stop=[], stop_token_ids=[])
    s += lmc.gen("i", max_tokens=4, top_k=-1, top_logprobs_num=1)
    s += lmc.gen("j", max_tokens=4, n=2, return_logprob=True, logprob_start_len=0)
    s += lmc.gen("k", max_tokens=4 + least, top_p=0.5 + least / 10, top_k=2 + least)
    return [s["a"], s.get_meta_info("e"), s.get_meta_info("j"), s.get_meta_info("a")]


@lmc.function
def options(s, words: list[str]):
    """Choices with blanks at their ends, of one option, equal ones; sampling behind them."""
    s += "Say" + lmc.select("a", [" yes ", " no", "no"]) + "."
    s += lmc.select("b", ["only"]) + lmc.gen("c", max_tokens=3)
    s += lmc.select("d", ["x", "x", *words], choices_method="total_likelihood")
    s += lmc.gen("e", max_tokens=3, temperature=0.9) + lmc.gen("f", choices=[" p", "q "])
    s += lmc.select("g", ["e\u0301", "\u00e9", "n"]) + "e\u0301" + lmc.gen("h", max_tokens=2)
    return [s["a"], s["d"], s.get_meta_info("b"), s.get_meta_info("f")]


@lmc.function
def open_turns(s, text: str):
    """Turns that are read while one is open, and after."""
    s += lmc.system("S" + text) + lmc.user("U ")
    s.assistant_begin()
    s += " A" + lmc.gen("a", max_tokens=3)
    while_open = s.messages()
    s += lmc.control("<|im_end|>") + "x"
    s.assistant_end()
    s += lmc.user("again" + lmc.gen("b", max_tokens=2))
    return [while_open, s.messages(), s.text()]


@lmc.function
def versions(s, flag: bool):
    """Variables that are set again: before forks, in children, in scopes, after joins."""
    s["x"], s["y"] = "first", 1
    s += s["x"] + lmc.gen("x", max_tokens=2) + s["x"]
    forks = s.fork(3)
    for i, q in enumerate(forks):
        q["y"] = i
        q += str(q["y"]) + lmc.gen("x", max_tokens=2)
        if i != 1:
            q["z"] = q["x"] + "!"
        if i == 2:
            q["x"] = "over"
    forks.join()
    s += str(s["x"]) + str(s["y"])
    with s.var_scope("x"):
        s += "in " + lmc.gen("w", max_tokens=2)
        if flag:
            s["w"] = "set"
    s += s["x"][:3]
    s["x"] = "known"
    s["x" if flag else "y"] = "computed"
    s += s["x"]
    name = "w" if flag else "x"
    s[name + "1"] = s[name] + s["x"]
    s += s[name + "1"] + str(name in s) + str("u" in s)
    return [s["z"], [q["x"] for q in forks], s["w"], s["x"]]


@lmc.function
def one(s, word: str, depth: int):
    """A nested program that samples, and calls itself."""
    s += word + lmc.gen("v", max_tokens=3)
    if depth:
        s += str(one(s["v"][:2], depth - 1, top_k=5)["v"])
    s += lmc.gen("w", max_tokens=2)
    return s["v"]


@lmc.function
def nested_in_forks(s, words: list[str]):
    """Nested programs called between what children do, each with its own parameters."""
    s += "N"
    forks = s.fork(2)
    for q in forks:
        q += "q" + lmc.gen("a", max_tokens=2)
        found = one(q["a"][:3], 1, temperature=0.5)
        q += found.value + found["w"] + lmc.gen("b", max_tokens=2)
    each = [one(word, 0, max_tokens=4).text() for word in words]
    last = one("z", 0)
    inner = forks[0].fork(2)
    inner += lambda i: str(i) + lmc.gen("c", max_tokens=2)
    deep = inner[1].fork(2)
    deep += "d" + lmc.gen("d", max_tokens=2)
    inner.join("concate_and_append")
    s += lmc.gen("e", max_tokens=2)
    return [each, last.text(), deep[1]["d"], forks[0]["b"], forks[1].text(), inner[0]["c"]]


@lmc.function
def second_names(s, words: list[str], n: int):
    """Lists and dicts under two names, copied and changed."""
    a = ["p", "q"]
    b = list(a)
    a.append("r")
    c = a[:]
    a.insert(0, "o")
    a[1] = "P"
    popped = a.pop()
    table = {"k": 1, "j": 2, "i": 3}
    other = dict(table)
    table["k"] = table["k"] + n
    table.update(z=9)
    removed = other.pop("j")
    rows = [[1], [2, 3]]
    kept = [row for row in rows if len(row) > 1]
    s += str(a) + str(b) + str(c) + popped
    total, grown = 0, list(words)
    for word in words:
        grown.append(word + "+")
        total += len(word)
        s += f"{word:>6}|{total:03d}|{word!r:.4}"
    grown.extend(c)
    return [a, b, c, table, other, removed, kept, grown, words, total, grown[1:3], not words]


@lmc.function
def unneeded_failures(s, word: str):
    """Calls that fail, or may, and that nobody needs; then one that is needed."""
    aside = s.copy()
    aside += "Age: " + lmc.gen("age", type=int, max_tokens=1)
    other = s.copy()
    other += lmc.gen("b", type=float, max_tokens=1)
    measure([word])
    s += word + lmc.gen("c", max_tokens=3)
    s += "Level: " + lmc.gen("level", type=float, max_tokens=2)
    return s["level"]


@lmc.function
def late_failures(s, items: list[str], word: str):
    """An error that is met late, with effects behind it, and a second error."""
    s += "L" + word
    size = measure(word)
    note("before")
    s += items[size % 5]
    note("after")
    s += lmc.gen("a", max_tokens=2)
    s += str(10 // (len(items) - 2)) + items[0]
    note("last")
    return s["a"]


@lmc.function
def failures_in_parts(s, words: list[str], number: int):
    """Errors in children, in nested programs, in loops and at two places at once."""
    s += "Parts: "
    for i, q in enumerate(s.fork(2)):
        q += "c" + lmc.gen("a", max_tokens=2)
        if i == number:
            q += words[3]
        note(q["a"])
    if number > 1:
        s += one(words[number], 0).value
    for word in words:
        s += str(int(word)) if number < 0 else word
    if number == 1:
        return s["missing"]
    return s["b"] if "b" in s else s.get_meta_info("c")


@lmc.function
def unread_loops(s, words: list[str], flag: bool):
    """Loops and branches whose values nobody reads, with host calls in them."""
    for word in words:
        note(word)
    k = 0
    while k < len(words):
        k += 1
        note(k)
        if k == 2:
            break
    if flag:
        note("yes")
    else:
        words[0:1]
    if (flag and words and note("and") == "x") or note("or"):
        s += "never mind"
    for i in (1, 2, 3):
        if i == len(words):
            continue
        s += str(i) + lmc.gen("x", max_tokens=1)
        if flag:
            break
    else:
        s += "else"
    for i in range(2):
        for j in range(3):
            if j > i:
                break
            note((i, j))
            s += f"{i}{j}"
    return k


@lmc.function
def guarded(s, items: list[str], n: int):
    """Conditions that guard what would fail, arms that begin alike, numbers that are counted."""
    s += "Guard "
    count = 0
    if n < len(items) and n >= 0:
        s += "it: " + items[n] + lmc.gen("a", max_tokens=2)
        count += 1
    else:
        s += "it: none" + lmc.gen("a", max_tokens=2)
    if n:
        s += str(10 // n)
        count = count + 2
    if count > 1:
        s += " big" + lmc.gen("b", max_tokens=2)
    label = f"n{n}"
    if n > 1:
        s += "."
    else:
        label = label + "!"
    s += label
    match items:
        case [first] if first > "m":
            s += "late " + first
        case ["a" | "b", other]:
            s += "two " + other
        case []:
            s += "  "
        case _:
            s += "rest"
    rounds = 0
    while True:
        rounds += 1
        s += str(rounds)
        if rounds > n % 3 or s.text().endswith("3"):
            break
    text = "is" if items is not None and "a" in items else "not"
    return [count, rounds, text, n > 0 or "zero", not n, items and items[-1]]


@lmc.function
def same_asides(s, word: str):
    """Two forks of one prompt, a prompt used twice, names that are computed."""
    s += word + " "
    first, second = s.fork(2), s.fork(2)
    first += "a" + lmc.gen("x", max_tokens=2)
    second += "a" + lmc.gen("x", max_tokens=2)
    base = s.copy()
    base += "one "
    left, right = base.copy(), base.copy()
    left += "two" + lmc.gen("x", max_tokens=2)
    right += "two" + lmc.gen("x", max_tokens=2)
    base += "three"
    aside = s.copy()
    aside += lmc.gen("k1", max_tokens=2) + lmc.gen("k2", max_tokens=2)
    key = "k" + str(1 + len(word) % 2)
    s += aside[key] + lmc.select("pick", ["k1", "k2"])
    s += aside[s["pick"]] + base.text()
    return [[q["x"] for q in first], [q["x"] for q in second], left["x"], right["x"], aside.text()]


@lmc.function
def hidden_effects(s, words: list[str]):
    """Host calls and names that rest on calls which nothing else needs."""
    s += "Hidden"
    for word in words:
        aside = s.copy()
        aside += word + lmc.select("so", choices=["yes", "no"])
        if aside["so"] == "yes":
            deep = s.copy()
            deep += "Deep " + lmc.select("how", choices=["a", "b"])
            if deep["how"] == "a":
                note("deep")
            else:
                note("else")
    named = s.copy()
    named += lmc.select("pick", ["x", "y"])
    s["v" + named["pick"]] = 1
    return s["missing"] if words and words[0] == "?" else "vx" in s


ARGUMENTS = {
    "hidden_effects": [{"words": ["a", "b"]}, {"words": ["?"]}],
    "limits": [{"least": 0}, {"least": 3}],
    "options": [{"words": ["y z"]}, {"words": []}],
    "open_turns": [{"text": "!"}],
    "versions": [{"flag": True}, {"flag": False}],
    "nested_in_forks": [{"words": ["a", "b"]}, {"words": []}],
    "second_names": [{"words": ["x", "yy"], "n": 1}, {"words": [], "n": 0}],
    "unneeded_failures": [{"word": "w"}],
    "late_failures": [{"items": ["x"], "word": "w"}, {"items": list("abcde"), "word": ""},
                      {"items": ["a", "b"], "word": "a"}],
    "failures_in_parts": [{"words": ["1", "2"], "number": 0}, {"words": ["1", "b"], "number": 1},
                          {"words": ["1", "x"], "number": -1}, {"words": ["a"], "number": 2},
                          {"words": list("abcd"), "number": 1}, {"words": [], "number": 5}],
    "unread_loops": [{"words": ["a", "b"], "flag": True}, {"words": [], "flag": False},
                     {"words": ["c"], "flag": False}],
    "guarded": [{"items": ["a", "b"], "n": 1}, {"items": [], "n": 0}, {"items": ["z"], "n": 5},
                {"items": ["a"], "n": -1}],
    "same_asides": [{"word": "w"}, {"word": ""}],
}  # fmt: skip
