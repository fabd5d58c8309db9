"""Small programs that together use what the planted faults break; `ARGUMENTS` has values."""

import lmc

LOG = []
NAMES = ["Ada", "Bo", "Cleo"]


@lmc.tool(effects="write")
def note(value) -> str:
    """Remember a value."""
    LOG.append(value)
    return f"noted {value}"


@lmc.tool(effects="write")
def record(first, second, *, third=0, fourth=1) -> int:
    """Remember several values."""
    LOG.append((first, second, third, fourth))
    return len(LOG)


@lmc.function
def texts(s, name: str):
    """Runs of text around generations with stops, whose cuts lie within tokens."""
    s += "Hello " + name + ", my na"
    s += "me is" + lmc.gen("who", max_tokens=6, stop=["the", "no"]) + "ne. "
    s += lmc.gen("more", max_tokens=9, stop="a", temperature=0.5) + "nd"
    s += lmc.gen("last", max_tokens=4, temperature=0)
    s += lmc.gen("again", max_tokens=4)
    return s["who"] + "|" + s["more"]


@lmc.function
def parameters(s, limit: int, stops: list[str]):
    """Decode parameters of all kinds, some known at run time only."""
    s += "Go: " + lmc.gen("a", max_tokens=2 + limit % 4, temperature=0.1 * (1 + limit % 3))
    s += lmc.gen(
        "b", max_tokens=12, min_tokens=1, top_p=0.5, top_k=7, min_p=0.1, stop=[*stops, "e"]
    )
    s += lmc.gen("c", max_tokens=8, stop_token_ids=[5, 30, 46, 75], return_logprob=True)
    s += lmc.gen("d", n=3, max_tokens=4, temperature=0.8) + lmc.gen("e", top_k=1, max_tokens=3)
    s += lmc.gen("f", regex="[a-d]{2,5}", max_tokens=9) + lmc.gen(
        "g", ignore_eos=True, max_tokens=3
    )
    info = s.get_meta_info("c")
    return [s["d"], info["completion_tokens"], len(info["logprobs"]), info["finish_reason"]]


@lmc.function
def typed(s):
    """Typed values, used in conditions and sums."""
    s += "Age: " + lmc.gen("age", type=int, max_tokens=40)
    s += " Tall: " + lmc.gen("tall", type=float, max_tokens=60)
    s += " Sure: " + lmc.gen("sure", type=bool, max_tokens=12)
    if s["age"] < 18:
        s += " young"
    elif s["age"] <= 40 and s["sure"]:
        s += " middling"
    else:
        s += " old"
    return [
        s["age"] - 3,
        s["age"] // 2,
        s["tall"] * 2,
        not s["sure"],
        f"{s['age']:>6}{s['sure']!r}",
    ]


@lmc.function
def choices(s, kind: str):
    """Choices by every method, and branches on them."""
    s += "Kind of " + kind + ": "
    s += lmc.select("kind", choices=["news", "new poem", "newt"]) + ". "
    s += lmc.select("how", choices=["a", "ab", "abc"], choices_method="greedy_token_selection")
    s += lmc.select("why", NAMES, choices_method="unconditional_likelihood_normalized")
    if s["kind"] == "news":
        s += "Who: " + lmc.gen("who", max_tokens=3)
    elif s["kind"] == "newt":
        s += "What: " + lmc.gen("what", max_tokens=3)
        return "newt"
    s += lmc.gen("end", max_tokens=2)
    return {"kind": s["kind"], "who": s["who"] if "who" in s else None, "end": s["end"]}


@lmc.function
def roles(s, question: str, turns: int):
    """Turns in every form, control tokens."""
    if turns > 1:
        s += lmc.system("Be brief.")
    s += lmc.user(question) + lmc.assistant("Well, " + lmc.gen("one", max_tokens=4))
    with s.user():
        s += "And?"
    s.assistant_begin()
    s += lmc.gen("two", max_tokens=4)
    s.assistant_end()
    s += lmc.control("<|im_end|>") + "after"
    s += lmc.gen("three", max_tokens=2)
    return s.messages()


@lmc.function
def forks(s, width: int, words: list[str]):
    """Forks that share what they begin with, read out of order, joined."""
    s += "Judge the essay."
    three = s.fork(3)
    for i, child in enumerate(three):
        child += "\nIn one word, its " + NAMES[i] + ":" + lmc.gen("word", max_tokens=3)
        child += " since " + lmc.gen("why", max_tokens=3, temperature=0.4)
    s += " Then." + lmc.gen("then", max_tokens=2)
    some = s.fork(abs(width) % 4)
    some += lambda i: f"\nPart {i}: " + lmc.gen("part", max_tokens=3)
    some.join()
    pair = s.fork(2)
    pair += "\nTo the "
    pair += ["left ", "right "]
    pair += lmc.gen("side", max_tokens=2)
    pair.join("concate_and_append")
    s += lmc.gen("after", max_tokens=2)
    return [three[2]["word"], three[0]["word"], [c["why"] for c in three], pair[1]["side"]]


@lmc.function
def twins(s):
    """Children that ask the same, sampled: two samples, not one; a fork that nobody reads."""
    s += "Guess:"
    s.fork(2)
    a, b = s.fork(2)
    a += " a number" + lmc.gen("x", max_tokens=4)
    b += " a number" + lmc.gen("x", max_tokens=4)
    unread = s.copy()
    unread += "dead" + lmc.gen("dead", max_tokens=4)
    s["note"] = "kept"
    s += " so" + lmc.gen("so", max_tokens=3)
    c, d = s.fork(2)
    c += "Up" + lmc.gen("y", max_tokens=2)
    d += "Down" + lmc.gen("y", max_tokens=2)
    return [a["x"], b["x"], c["y"], d["y"]]


@lmc.function
def hidden(s, words: list[str]):
    """Decisions that rest on calls of children that nobody else reads."""
    s += "Think. "
    aside = s.copy()
    aside += "Is it so? " + lmc.select("so", choices=["yes", "no"])
    if aside["so"] == "yes":
        s += "It is."
    else:
        s += "It is not."
    for word in words:
        other = s.copy()
        other += word + lmc.gen("go", type=bool, max_tokens=12)
        if other["go"]:
            break
        s += word
    s += lmc.gen("end", max_tokens=2)
    return s["end"]


@lmc.function
def loops(s, items: list[str], k: int):
    """Loops with every exit."""
    total, seen = 0, []
    for number, item in enumerate(items):
        if not item:
            continue
        s += f"{number}. " + item + lmc.gen("line", max_tokens=2, stop="\n") + "\n"
        seen.append(s["line"])
        total += len(item)
        if s["line"] == "stop":
            break
        if total > 20:
            return ["long", total]
    else:
        s += "all"
    for x in (1, 2, 3):
        s += str(x) + lmc.gen("x", max_tokens=1)
        if s["x"] == "":
            break
    for x in (1, 2, 3):
        if x == k:
            break
        s += f"[{x}]"
    i = 0
    while i < k % 4:
        i += 1
        s += lmc.gen(f"w{i}", max_tokens=1)
        if s[f"w{i}"] == "a":
            continue
        total -= 1
    return [total, seen, i]


@lmc.function
def effects(s, word: str):
    """Host functions in order, some whose answers nobody reads."""
    note("first " + word)
    s += word + lmc.gen("a", max_tokens=3)
    record(s["a"], 1, third=2, fourth=3)
    note("second")
    note("second")
    if len(s["a"]) > 2:
        found = note(s["a"])
        s += found
    for x in range(2):
        record(x, word)
    s += lmc.gen("b", max_tokens=2)
    return s["b"]


@lmc.function
def inner(s, word: str, k: int):
    """A nested program with defaults to inherit."""
    s += word + str(k) + lmc.gen("in", max_tokens=3)
    if k > 1:
        return s["in"]
    s += lmc.gen("own", max_tokens=2, temperature=0.9, top_p=0.7)
    return k


@lmc.function
def outer(s, word: str):
    """Nested programs between calls."""
    s += "Start" + lmc.gen("before", max_tokens=2)
    one = inner(word, 2, temperature=0.25)
    two = inner("z", 1)
    s += str(one.value) + one["in"] + str(two.value)
    s += lmc.gen("after", max_tokens=2)
    three = [inner(w, 3, max_tokens=7, top_k=4).value for w in NAMES[:2]]
    s += lmc.gen("end", max_tokens=2)
    return [three, two.text()]


@lmc.function
def values(s, n: int, name: str, words: list[str]):
    """Constants to fold, containers, slices, formats."""
    a = 7 - 2
    b = f"{a:>4}" + "x" * 2 + f"{name!r}"
    pairs = [("p", 1), ("q", 2), ("r", 3)]
    first, second = pairs[1]
    kept = 1 if n > 2 else True
    table = {"a": 1, "b": n}
    table["c"] = len(words)
    found = []
    for word, number in pairs:
        found.append(f"{word}{number}{name}")
        if number > 1:
            found.append(word * (number - 1))
        if n == number:
            a, b = a + number, word + b
    with s.var_scope("said"):
        s += "n is " + b + first + lmc.gen("x", max_tokens=2)
    s += f" {second}" + ("" if n < 3 else " big") + s["said"][2:7]
    found.insert(0, name[:3])
    flag = n > 0 and name != "a"
    return [a, b, kept, table, found, -n // 2, n % 3, flag, words[::-1], s["said"]]


@lmc.function
def arms(s, flag: bool, text: str):
    """Branches whose arms begin alike."""
    s += "Read: " + text
    if flag:
        s += "\nThe answer is yes" + lmc.gen("a", max_tokens=2)
        s += lmc.gen("b", max_tokens=2)
    else:
        s += "\nThe answer may be no" + lmc.gen("a", max_tokens=3)
    s["a"] = s["a"] + "!"
    if text:
        s += "end"
    s += lmc.gen("c", max_tokens=1)
    return [s["a"], "b" in s]


@lmc.function
def fails(s, items: list[str], place: int):
    """Expressions that nobody reads, but that may raise; an error after an effect."""
    s += "Look: " + lmc.gen("a", max_tokens=2)
    items[place]
    note(s["a"])
    s += lmc.gen("b", max_tokens=2)
    s += items[0:1] or "one"
    share = 10 // place
    del share
    return s["b"]


ARGUMENTS = {
    "texts": [{"name": "Ada"}, {"name": ""}],
    "forks": [{"width": 2, "words": []}, {"width": 0, "words": ["a"]}],
    "values": [{"n": 3, "name": "Bo", "words": ["x", "y"]}, {"n": 2, "name": "a", "words": []},
               {"n": 0, "name": "", "words": ["x"]}],
    "effects": [{"word": "w"}],
    "outer": [{"word": "o"}],
    "roles": [{"question": "Why?", "turns": 1}, {"question": "", "turns": 2}],
    "loops": [{"items": ["a", "", "bcd"], "k": 2}, {"items": [], "k": 0},
              {"items": ["long enough", "to end early", "x"], "k": 2}],
    "choices": [{"kind": "text"}],
    "typed": [{}],
    "parameters": [{"limit": 1, "stops": ["x"]}, {"limit": 5, "stops": ["is", "a"]}],
    "twins": [{}],
    "hidden": [{"words": ["a", "b", "c"]}, {"words": []}],
    "fails": [{"items": ["x"], "place": 0}, {"items": ["x", "y"], "place": 1},
              {"items": [], "place": 1}],
    "arms": [{"flag": True, "text": "T"}, {"flag": False, "text": ""}],
}  # fmt: skip
