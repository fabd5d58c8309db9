"""Agents that call tools which may fail."""

import lmc


def look_up(query: str) -> str:
    if "x" in query:
        raise KeyError(query)
    return "found " + query


@lmc.function
def agent(s, question: str, limit: int = 3):
    s += lmc.system("You are brief.")
    s += lmc.user(question)
    for turn in range(limit):
        with s.assistant():
            s += f"Thought {turn}: " + lmc.gen(f"thought_{turn}", max_tokens=12, stop=["\n", "."])
            act = lmc.select("act", ["search", "finish"])
            s += "\n" + act
        if s[act] == "finish":
            break
        s += lmc.user("Query?")
        s += lmc.assistant(lmc.gen("query", max_tokens=6))
        try:
            found = look_up(s["query"])
        except (KeyError, ValueError) as error:
            found = f"error: {error!r}"
        finally:
            s += lmc.user("noted")
        s += lmc.user(found)
    else:
        s += lmc.user("Out of turns.")
        return None
    s += lmc.assistant(lmc.gen("final", max_tokens=10))
    return {"answer": s["final"], "turns": turn}


@lmc.function
def chosen_by_path(s, text: str, width: int = 2):
    """A generation with computed parameters, one of two, in a loop within a handler."""
    try:
        s += str(s["missing"])
    except Exception:
        for _ in s.fork(width % 4):
            if text:
                asked = lmc.gen("asked", max_tokens=1 + text.count("a") % 5)
            else:
                asked = lmc.gen("asked", max_tokens=2 + len(text) % 5)
            s += "Then: " + asked
    finally:
        s += "."
    return s["asked"] if "asked" in s else None


@lmc.function
def chosen_in_line(s, text: str, width: int = 1):
    try:
        s += str(s["missing"])
    except Exception:
        forks = s.fork(width % 4)
        for _ in forks:
            asked = (
                lmc.gen("asked", max_tokens=1 + text.count("a") % 5)
                if isinstance("x", str)
                else lmc.gen("asked", max_tokens=1 + text.count("a") % 5)
            )
            s += "Then: " + asked
            s.set("told", s[asked])
    finally:
        pass
    for _ in range(1):
        continue
    return s.text()
