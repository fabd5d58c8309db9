"""Mistakes in the text of prompts: blanks, control tokens, turns, nothing at all."""

import lmc

INTRO = "Answer briefly.\nAnswer: "

# LMC201: constants that end in a blank before free text.


@lmc.function
def plain_blank(s, question: str):
    s += "Q: " + question + "\nA: "  # LMC201 "\nA: "
    s += lmc.gen("answer", max_tokens=8, stop="\n")


@lmc.function
def in_one_line(s, question: str):
    s += question + "\nA: " + lmc.gen("answer", max_tokens=8)  # LMC201 "\nA: "


@lmc.function
def formatted(s, question: str):
    s += f"{question}\nA: "  # LMC201 f"{question}
    s += lmc.gen("answer", max_tokens=8)


@lmc.function
def module_constant(s):
    s += INTRO + lmc.gen("answer", max_tokens=8)  # LMC201 INTRO


@lmc.function
def in_a_turn(s, question: str):
    s += lmc.user(question)
    s += lmc.assistant("The answer is " + lmc.gen("answer", max_tokens=8))  # LMC201 "The answer


@lmc.function
def in_a_block(s):
    with s.user():
        s += "Name a month."
    with s.assistant():
        s += "Sure: "  # LMC201 "Sure: "
        s += lmc.gen("month", max_tokens=8)


@lmc.function
def on_branches(s):
    s += "Two months.\n"
    forks = s.fork(2)
    for number, fork in enumerate(forks):
        fork += f"Month {number}: "  # LMC201 f"Month
        fork += lmc.gen("month", max_tokens=8)
    forks.join()


@lmc.function
def in_a_loop(s, names: list):
    for name in names:
        s += name + ": "  # LMC201 ": "
        s += lmc.gen("about", max_tokens=8, stop="\n") + "\n"


@lmc.function
def in_one_arm(s, is_long: bool):
    if is_long:
        s += "At length: "  # LMC201 "At length: "
    else:
        s += "In short:"
    s += lmc.gen("answer", max_tokens=8)


@lmc.function
def tab(s):
    s += "word\ttranslation\nhouse\t" + lmc.gen("word", max_tokens=8)  # LMC201 "word


def ask(s, question):
    """Ask a question."""
    s += question + " Answer: "  # LMC201 " Answer: "
    s += lmc.gen("answer", max_tokens=8)


@lmc.function
def in_a_helper(s):
    ask(s, "What is rain?")


@lmc.function
def two_constants(s):
    s += "Name a bird. It is called "  # LMC201 "Name
    s += lmc.gen("bird", max_tokens=8)


# LMC202: control tokens as text.


@lmc.function
def by_hand(s, question: str):
    s += "<|im_start|>user\n" + question  # LMC202 "<|im_start|>user
    s += "<|im_end|>\n"  # LMC202 "<|im_end|>
    s += lmc.gen("answer", max_tokens=8)


@lmc.function
def in_an_f_string(s, question: str):
    s += f"{question}<|im_end|>"  # LMC202 f"{question}
    s += lmc.gen("answer", max_tokens=8)


@lmc.function
def as_an_end(s):
    s += "A story.\n" + lmc.gen("story", max_tokens=8) + "<|endoftext|>"  # LMC202 "<|endof


# LMC203: nothing to go by.


@lmc.function
def empty(s):
    s += lmc.gen("text", max_tokens=8)  # LMC203 lmc.gen("text"


@lmc.function
def empty_branches(s):
    forks = s.fork(2)
    forks += lmc.gen("text", max_tokens=8)  # LMC203 lmc.gen("text"
    forks.join()


@lmc.function
def empty_choice(s):
    s += lmc.select("kind", choices=["good", "bad"])  # LMC203 lmc.select("kind"


@lmc.function
def empty_after_a_set(s):
    s["topic"] = "rain"
    s += lmc.gen("text", max_tokens=8)  # LMC203 lmc.gen("text"


# LMC204: turns.


@lmc.function
def never_closed(s, question: str):
    s += lmc.user_begin()  # LMC204 lmc.user_begin()
    s += question
    s += lmc.gen("answer", max_tokens=8)


@lmc.function
def opened_twice(s, question: str):
    s += lmc.user_begin()
    s += question
    s += lmc.assistant_begin()  # LMC204 lmc.assistant_begin()
    s += lmc.gen("answer", max_tokens=8)
    s += lmc.assistant_end()


@lmc.function
def nested(s, question: str):
    with s.user():
        s += question
        s += lmc.assistant(lmc.gen("answer", max_tokens=8))  # LMC204 lmc.assistant(


@lmc.function
def closed_twice(s, question: str):
    s += lmc.user(question)
    s += lmc.user_end()  # LMC204 lmc.user_end()
    s += lmc.assistant(lmc.gen("answer", max_tokens=8))


@lmc.function
def wrong_end(s, question: str):
    s += lmc.system_begin()
    s += question
    s += lmc.user_end()  # LMC204 lmc.user_end()
    s += lmc.assistant(lmc.gen("answer", max_tokens=8))
