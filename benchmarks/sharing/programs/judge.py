"""Branch, solve, merge: an article is judged in six respects, then graded."""

import lmc

SYSTEM = (
    "Please serve as an impartial judge and rigorously evaluate the quality of the following "
    "article. Focus on one aspect at a time, quote what you judge, and stay with what is "
    "written: neither the length of the article nor your own opinion of its subject counts.\n\n"
)
DIMENSIONS = {
    "Clarity": "Are the sentences and the thoughts easy to follow?",
    "Originality": "Does the article say something that is not said everywhere?",
    "Evidence": "Are its claims supported by facts that could be checked?",
    "Structure": "Does each part follow from the one before?",
    "Style": "Do words and tone fit the subject and the readers?",
    "Usefulness": "What can readers do with it that they could not do before?",
}


@lmc.function
def judge(s, article: str):
    """Judge an article; return the six judgements and the grade."""
    s += SYSTEM + "Article:\n" + article + "\n\nIs this text an article? "
    s += lmc.select("related", choices=["yes", "no"])
    if s["related"] == "no":
        return None
    s += "\n"
    forks = s.fork(6)
    for fork, (name, question) in zip(forks, DIMENSIONS.items(), strict=True):
        fork += f"\nJudge its {name.lower()}. {question}\n{name}:"
        fork += lmc.gen("judgement", max_tokens=48, temperature=0, stop="END")
    judgements = [fork["judgement"].strip() for fork in forks]
    for name, judgement in zip(DIMENSIONS, judgements, strict=True):
        s += f"{name}: {judgement}\n"
    s += "Grade, from A to D: "
    s += lmc.gen("grade", max_tokens=3, temperature=0, regex="[A-D][+-]?")
    return [*judgements, s["grade"]]
