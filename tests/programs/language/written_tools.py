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
