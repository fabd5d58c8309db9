"""Loops and branches, nested and left early, as programs of the field write them."""

import lmc


@lmc.function
def retry_until_valid(s, question: str, k: int):
    """Ask again until the answer fits; `while ... else` tells that none did."""
    s += question
    tries = 0
    answer = None
    while tries < k:
        tries += 1
        s += "\nAnswer: " + lmc.gen("answer", max_tokens=4, stop="\n")
        if s["answer"].strip() == "yes":
            answer = "yes"
            break
        if not s["answer"]:
            continue
        s += "\nNo, try again."
    else:
        answer = "none"
    return answer, tries


@lmc.function
def grid(s, rows: list[str], columns: list[str]):
    """Two loops, a break out of the inner one, a flag for the outer one."""
    found = []
    stop = False
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            if row == column:
                continue
            s += f"{i}.{j} {row}/{column}: "
            s += lmc.select("cell", choices=["keep", "drop", "stop"])
            if s["cell"] == "stop":
                stop = True
                break
            if s["cell"] == "keep":
                found.append((i, j))
        if stop:
            break
        s += "\n"
    else:
        s += "complete"
    return found


@lmc.function
def first_match(s, words: list[str], target: str):
    """Return out of two loops."""
    for word in words:
        for index, letter in enumerate(word):
            if letter == target[:1]:
                return word, index
            if index > 2:
                break
        s += word + " "
    return None


@lmc.function
def while_true(s, limit: int):
    """A loop left from the middle, with a counter and a generated condition."""
    turn = 0
    while True:
        s += f"Turn {turn}: " + lmc.gen("move", max_tokens=3, stop=["\n", "."])
        turn += 1
        if turn >= min(limit, 4):
            return "limit"
        move = s["move"].strip().lower()
        if "done" in move:
            break
        elif move.startswith("skip"):
            continue
        else:
            s += "\n"
    return turn


@lmc.function
def early_arms(s, kind: str):
    """An early return on every arm but one."""
    if kind == "a":
        s += "first" + lmc.gen("x", max_tokens=2)
        return s["x"]
    elif kind == "b":
        s += "second" + lmc.gen("y", max_tokens=2)
        if s["y"]:
            return s["y"]
    elif kind:
        return kind
    s += "rest" + lmc.gen("z", max_tokens=2)
    return s["z"]


@lmc.function
def chained_comparisons(s, low: int, high: int):
    """Comparison chains and short circuits with calls inside."""
    s += "A number: " + lmc.gen("n", type=int)
    n = s["n"]
    inside = low < n <= high != 0
    word = (inside and s.text()) or (low == n and "low") or "out"
    if (not inside and (n < 0 or n > 100)) or high is None:
        word += "!"
    return inside, word


@lmc.function
def counted(s, words: list[str]):
    """A histogram of generated labels."""
    counts = {}
    for word in words:
        s += word + ": " + lmc.select("label", choices=["pos", "neg"]) + "\n"
        label = s["label"]
        if label not in counts:
            counts[label] = 0
        counts[label] += 1
    best = max(counts, key=counts.get) if counts else "none"
    return counts, best


@lmc.function
def counted_by_get(s, words: list[str]):
    """The same with get and setdefault."""
    counts, groups = {}, {}
    for word in words:
        s += lmc.gen("label", max_tokens=1)
        counts[s["label"]] = counts.get(s["label"], 0) + 1
        groups.setdefault(s["label"], []).append(word)
    return counts, groups


@lmc.function
def for_else_return(s, items: list[int]):
    """Return inside for, else after it."""
    for item in items:
        if item > 3:
            s += "big"
            return item
    else:
        s += "small"
        result = sum(items)
    return result


@lmc.function
def loop_over_dict(s, table: dict[str, int]):
    """Keys, values and items of an argument."""
    for key in table:
        s += key + " "
    for value in table.values():
        s += str(value)
    for key, value in sorted(table.items()):
        if value % 2:
            s += f"{key}={value};"
    return [k for k in table.keys()], len(table)


@lmc.function
def ranges(s, n: int):
    """Ranges with bounds and steps; a loop variable that lives on."""
    total = 0
    for i in range(1, n + 1, 2):
        total += i
    for j in reversed(range(3)):
        total = total * 10 + j
    for k in range(5, 0, -2):
        s += str(k)
    return total, j, k


@lmc.function
def conditional_names(s, flag: bool):
    """A name that only one arm assigns, read where it surely is."""
    if flag:
        extra = "more"
        s += extra
    s += lmc.gen("x", max_tokens=2)
    if flag:
        s += extra
    return flag


@lmc.function
def deep_nesting(s, xs: list[int]):
    """Five levels, with exits of several kinds."""
    out = []
    for x in xs:
        if x > 0:
            while x < 10:
                x = x * 2 + 1
                if x % 3 == 0:
                    for y in range(x % 4):
                        if y == 2:
                            break
                        out.append(y)
                    else:
                        continue
                    break
        else:
            if x < -1:
                return out
            out.append(x)
    s += str(out)
    return out


@lmc.function
def react(s, question: str, k: int):
    """Thought, action, observation, with an early return."""
    s += f"Question: {question}\n"
    for i in range(1, min(k, 4) + 1):
        s += f"Thought {i}: " + lmc.gen("thought", max_tokens=6, stop=["\n"]) + "\n"
        s += f"Action {i}: " + lmc.select("action", choices=["search", "finish"]) + "\n"
        if s["action"] == "finish":
            s += "Answer: " + lmc.gen("answer", max_tokens=4)
            return {"answer": s["answer"], "steps": i}
        s += "Query: " + lmc.gen("query", max_tokens=4, stop="\n")
        s += f"\nObservation {i}: {search(s['query'])}\n"
    return {"answer": None, "steps": k}


@lmc.tool
def search(query: str) -> str:
    """A tool."""
    return query.upper()


@lmc.function
def ternaries(s, a: int, b: str):
    """Conditional expressions in every place."""
    size = "big" if a > 3 else "small" if a > 1 else "tiny"
    s += ("yes" if b else "no") + lmc.gen("x", max_tokens=2 if a > 2 else 3)
    parts = [b if a else size, *(["extra"] if a > 2 else [])]
    return {"size": size, "parts": parts, "x": s["x"] if "x" in s else None}


@lmc.function
def while_generated(s):
    """The loop's condition reads what the loop generates."""
    s += "Count: " + lmc.gen("n", type=int)
    n = min(abs(s["n"]), 3)
    while n > 0 and (s["n"] != 7 or n > 1):
        s += f" {n}" + lmc.gen("w", max_tokens=1)
        n -= 1
        if s["w"] == "stop":
            break
    return n


@lmc.function
def sentinel(s, words: list[str]):
    """A best-so-far that begins as None."""
    best, best_score = None, None
    for word in words:
        s += word + lmc.gen("score", type=int)
        score = s["score"]
        if best is None or score > best_score:
            best, best_score = word, score
    return best if best is not None else "none"


@lmc.function
def swapped(s, a: str, b: str):
    """Names swapped in a loop."""
    for _ in range(3):
        a, b = b, a + b[:1]
    s += a
    return a, b
