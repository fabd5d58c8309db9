"""Answer arithmetic questions after three worked examples, for many questions at once.

lmc run examples/few_shot.py --args examples/questions.jsonl
"""

import lmc

EXAMPLES = [
    ("A box holds 6 eggs. How many eggs are in 4 boxes?",
     "Each box holds 6 eggs, so 4 boxes hold 4 * 6 = 24 eggs.", 24),
    ("Mia had 15 stickers and gave 7 of them to Tom. How many has she left?",
     "Mia gave away 7 of 15 stickers, so she has 15 - 7 = 8 left.", 8),
    ("A bus ride costs 3 dollars. How much do 5 rides cost?",
     "Each ride costs 3 dollars, so 5 rides cost 5 * 3 = 15 dollars.", 15),
]  # fmt: skip


@lmc.function
def few_shot(s: lmc.State, question: str) -> int:
    """Return the number that answers a question; the reasoning stays in its variable."""
    for asked, reasoning, answer in EXAMPLES:
        s += "Question: " + asked + "\nReasoning: " + reasoning + f"\nAnswer: {answer}\n\n"
    s += "Question: " + question + "\nReasoning:"
    s += lmc.gen("reasoning", max_tokens=64, stop=["\n", "Question:"], temperature=0)
    s += "\nAnswer: "
    answer = lmc.gen("answer", type=int, max_tokens=12, temperature=0)
    s += answer
    return s[answer]
