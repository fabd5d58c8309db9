"""Chat over several turns with the model's own template."""

import lmc


@lmc.function
def chat(s, questions: list[str]):
    """Ask one question after another; returns the answers."""
    s += lmc.system("You are a helpful assistant. Answer in full sentences and stay brief.")
    answers = []
    for question in questions:
        s += lmc.user(question)
        s += lmc.assistant(lmc.gen("answer", max_tokens=96, temperature=0))
        answers.append(s["answer"])
    return answers
