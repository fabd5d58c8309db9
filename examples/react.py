"""Answer a question in turns of thought and action, with a look-up table as the tool.

lmc run examples/react.py --arg question="How high is the Eiffel Tower?"
"""

import lmc

FACTS = {
    "eiffel tower": "The Eiffel Tower in Paris is 330 metres high and was finished in 1889.",
    "paris": "Paris is the capital of France and has about 2.1 million inhabitants.",
    "amazon": "The Amazon in South America is about 6,400 kilometres long.",
    "everest": "Mount Everest is 8,849 metres high; it was first climbed in 1953.",
}


def look_up(query: str) -> str:
    """Return what the table knows about the subjects named in a query."""
    found = [fact for subject, fact in FACTS.items() if subject in query.lower()]
    return " ".join(found) if found else "Nothing found."


@lmc.function
def react(s: lmc.State, question: str, max_turns: int = 3) -> str | None:
    """Return the answer to a question; None where no turn came to one."""
    s += "Answer questions by turns of Thought and Action. Actions: Search, Finish.\n\n"
    s += "Question: How long is the Amazon?\n"
    s += "Thought 1: I must look up the Amazon.\nAction 1: Search\nQuery 1: Amazon\n"
    s += "Observation 1: " + FACTS["amazon"] + "\n"
    s += "Thought 2: I know the length now.\nAction 2: Finish\nAnswer: about 6,400 kilometres\n\n"
    s += "Question: " + question + "\n"
    action = lmc.select("action", choices=["Search", "Finish"])
    query = lmc.gen("query", max_tokens=16, stop="\n", temperature=0)
    answer = lmc.gen("answer", max_tokens=32, stop="\n", temperature=0)
    for turn in range(1, max_turns + 1):
        s += f"Thought {turn}:" + lmc.gen("thought", max_tokens=32, stop="\n", temperature=0)
        s += f"\nAction {turn}: " + action
        if s[action] == "Finish":
            s += "\nAnswer:" + answer
            return s[answer].strip()
        s += f"\nQuery {turn}:" + query
        s += f"\nObservation {turn}: " + look_up(s[query]) + "\n"
    return None
