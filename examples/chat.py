"""Hold a conversation of several turns, by the model's own chat template.

lmc run examples/chat.py --arg messages='["Hello!", "What is the capital of France?"]'
"""

import lmc


@lmc.function
def chat(
    s: lmc.State,
    messages: list[str],
    style: str = "You are a friendly and brief assistant.",
) -> list[str]:
    """Answer each message in turn; return the answers."""
    s += lmc.system(style)
    answer = lmc.gen("answer", max_tokens=40, temperature=0)
    answers: list[str] = []
    for message in messages:
        s += lmc.user(message)
        s += lmc.assistant(answer)
        answers.append(s[answer])
    return answers
