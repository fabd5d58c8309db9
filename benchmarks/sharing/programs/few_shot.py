"""Few-shot questions: worked examples, then one question."""

import lmc


@lmc.function
def multiple_choice(s, subject: str, examples: str, question: str):
    """MMLU: five examples of the subject, then a question; one letter answers it."""
    s += f"The following are multiple choice questions about {subject}.\n\n"
    s += examples + question + "\nAnswer:"
    s += lmc.gen("answer", max_tokens=1, temperature=0)
    return s["answer"]


@lmc.function
def word_problem(s, examples: str, question: str):
    """GSM8K: the same worked examples before every question."""
    s += examples + "Question: " + question + "\nAnswer:"
    s += lmc.gen("answer", max_tokens=96, temperature=0, stop="Question:")
    return s["answer"]
