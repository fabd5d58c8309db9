"""Judge an essay: decide whether it is one, judge three dimensions side by side, merge, grade."""

import lmc

DIMENSIONS = ("clarity", "originality", "use of evidence")


@lmc.function
def judge(s: lmc.State, essay: str) -> dict[str, str | None]:
    """Return the grade of an essay with the judgments that led to it."""
    s += lmc.system(
        "You judge texts that students hand in. You are fair and brief, you name what is good "
        "and what is weak, and you never write more than you are asked for."
    )
    s += lmc.user("Here is the text.\n\n" + essay + "\n\nIs it an essay, or is it something else?")
    kind = lmc.select("kind", choices=["an essay", "something else"])
    s += lmc.assistant("It is " + kind + ".")
    if s[kind] == "something else":
        return {"kind": s[kind], "grade": None}

    judgment = lmc.gen("judgment", max_tokens=40, stop="\n", temperature=0)
    forks = s.fork(len(DIMENSIONS))
    for fork, dimension in zip(forks, DIMENSIONS):
        fork += lmc.user("In one sentence, what do you think of its " + dimension + "?")
        fork += lmc.assistant(judgment)

    merged = ""
    for fork, dimension in zip(forks, DIMENSIONS):
        merged += "- " + dimension + ": " + fork[judgment].strip() + "\n"
    s += lmc.user("Three judges wrote:\n" + merged + "Sum up what they think in one sentence.")
    summary = lmc.gen("summary", max_tokens=48, stop="\n", temperature=0)
    s += lmc.assistant(summary)
    s += lmc.user("Which grade do you give, from A (best) to D?")
    grade = lmc.gen("grade", regex=r"Grade: [ABCD][+-]?", max_tokens=12, temperature=0)
    s += lmc.assistant(grade)
    return {"kind": s[kind], "summary": s[summary].strip(), "grade": s[grade]}
