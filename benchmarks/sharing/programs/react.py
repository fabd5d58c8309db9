"""ReAct on recorded episodes: the observations are those of the record."""

import lmc


@lmc.function
def episode(s, instruction: str, question: str, observations: list[str]):
    """Think and act turn by turn; the last action ends the episode. Returns the actions."""
    s += instruction + question + "\n"
    actions = []
    for i in range(len(observations)):
        s += f"Thought {i + 1}:" + lmc.gen("thought", max_tokens=96, temperature=0, stop="\nAction")
        s += f"\nAction {i + 1}:" + lmc.gen("action", max_tokens=32, temperature=0, stop="\n")
        actions.append(s["action"])
        s += f"\nObservation {i + 1}: {observations[i]}\n"
    return actions


@lmc.function
def replayed(s, instruction: str, question: str, steps: list[dict]):
    """Ask for each thought on a branch of its own, go on with the recorded turn.

    Returns the branches' thoughts: they are read.
    """
    s += instruction + question + "\n"
    thoughts = []
    for i in range(len(steps)):
        s += f"Thought {i + 1}:"
        child = s.fork(1)[0]
        child += lmc.gen("thought", max_tokens=32, temperature=0, stop="\n")
        thoughts.append(child["thought"])
        s += f" {steps[i]['thought']}\nAction {i + 1}: {steps[i]['action']}\n"
        s += f"Observation {i + 1}: {steps[i]['observation']}\n"
    return thoughts
