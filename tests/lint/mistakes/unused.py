"""Mistakes: what is generated, appended or named for nothing."""

import lmc

DEBUG = False
SHORT = "short"


@lmc.tool(effects="write")
def note(text):
    """Keep a text somewhere."""
    return len(text)


# LMC101: generations that nothing needs.


@lmc.function
def unread_branch(s, question: str):
    s += "Question: " + question + "\nAnswer:"
    branch = s.copy()
    branch += lmc.gen("draft", max_tokens=8)  # LMC101 lmc.gen("draft"
    s += lmc.gen("answer", max_tokens=8)


@lmc.function
def unread_fork(s, topic: str):
    s += "Topic: " + topic + "\n"
    forks = s.fork(2)
    for fork in forks:
        fork += "Idea:" + lmc.gen("idea", max_tokens=8, stop="\n")  # LMC101 lmc.gen("idea"
    s += "Summary:" + lmc.gen("summary", max_tokens=8)


@lmc.function
def one_of_two(s):
    s += "Name a bird.\n"
    left, right = s.fork(2)
    left += "Small:" + lmc.gen("small", max_tokens=4)
    right += "Large:" + lmc.gen("large", max_tokens=4)  # LMC101 lmc.gen("large"
    s += "The small one is" + left["small"]


@lmc.function
def by_index(s):
    s += "Name a fish.\n"
    forks = s.fork(2)
    forks[0] += "Small:" + lmc.gen("small", max_tokens=4)
    forks[1] += "Large:" + lmc.gen("large", max_tokens=4)  # LMC101 lmc.gen("large"
    s += forks[0]["small"]


@lmc.function
def after_the_read(s):
    s += "Name a tree.\n"
    branch = s.copy()
    branch += "Tree:" + lmc.gen("tree", max_tokens=4)
    tree = branch["tree"]
    branch += "\nWhy:" + lmc.gen("why", max_tokens=4)  # LMC101 lmc.gen("why"
    s += "It is " + tree


@lmc.function
def unnamed_and_joined(s):
    s += "Name a stone.\n"
    forks = s.fork(3)
    forks += "Stone:" + lmc.gen(max_tokens=4)  # LMC101 lmc.gen(max
    forks.join()
    s += "Done."


@lmc.function
def unread_choice(s):
    s += "Is it warm?\n"
    other = s.copy()
    other += "It is " + lmc.select("warm", choices=["yes", "no"])  # LMC101 lmc.select("warm"
    s += lmc.gen("rest", max_tokens=4)


@lmc.function
def kept_but_unused(s):
    s += "Name a river.\n"
    branch = s.copy()
    branch += "River:" + lmc.gen("river", max_tokens=4)  # LMC101 lmc.gen("river"
    river = branch["river"]
    s += lmc.gen("rest", max_tokens=4)


@lmc.function
def in_one_arm(s, wants_more: bool):
    s += "Name a lake.\n"
    if wants_more:
        branch = s.copy()
        branch += lmc.gen("more", max_tokens=4)  # LMC101 lmc.gen("more"
    s += lmc.gen("lake", max_tokens=4)


def explore(s, hint):
    """Try something on a branch."""
    trial = s.copy()
    trial += hint
    trial += lmc.gen("trial", max_tokens=4)  # LMC101 lmc.gen("trial"
    s += hint


@lmc.function
def in_a_helper(s):
    s += "Name a hill.\n"
    explore(s, "Think of a steep one.\n")
    s += lmc.gen("hill", max_tokens=4)


@lmc.function
def aside(s, word: str):
    s += "Say " + word + ":" + lmc.gen("said", max_tokens=4)
    return s["said"]


@lmc.function
def result_dropped(s, word: str):
    s += "Go on.\n"
    aside(word)  # LMC101 aside(word)
    s += lmc.gen("rest", max_tokens=4)


@lmc.function
def result_kept_but_unused(s, words: list):
    s += "Go on.\n"
    for word in words:
        answer = aside(word=word)  # LMC101 aside(word=word)
        s += "One more.\n"
    s += lmc.gen("rest", max_tokens=4)


@lmc.function
def unread_in_dict(s):
    s += "Two views.\n"
    views = {"for": s.copy(), "against": s.copy()}
    views["for"] += "For:" + lmc.gen("pro", max_tokens=4)
    views["against"] += "Against:" + lmc.gen("contra", max_tokens=4)  # LMC101 lmc.gen("contra"
    s += views["for"]["pro"]


@lmc.function
def other_name_read(s):
    s += "Rate it.\n"
    judge = s.copy()
    judge += "Score:" + lmc.gen("score", max_tokens=2)
    judge += "\nReason:" + lmc.gen("reason", max_tokens=9)  # LMC101 lmc.gen("reason"
    return judge["score"]


# LMC102: text and code that nothing reaches, or nobody reads.


@lmc.function
def after_return(s):
    s += "Name a city." + lmc.gen("city", max_tokens=4)
    return s["city"]
    s += "And a country." + lmc.gen("country", max_tokens=4)  # LMC102 s += "And


@lmc.function
def after_raise(s, n: int):
    s += "Count."
    if n < 0:
        raise ValueError("negative")
        s += "Below nothing."  # LMC102 s += "Below
    s += lmc.gen("count", max_tokens=4)


@lmc.function
def after_break(s):
    s += "Try."
    for _ in range(3):
        s += lmc.gen("attempt", max_tokens=4)
        if s["attempt"] == "yes":
            break
            s += "Found."  # LMC102 s += "Found."


@lmc.function
def after_continue(s, words: list):
    s += "Words: "
    for word in words:
        if word == "skip":
            continue
            s += "skipped "  # LMC102 s += "skipped
        s += word


@lmc.function
def after_both_arms(s, kind: str):
    s += "Kind: " + kind + lmc.gen("kind", max_tokens=4)
    if kind == "a":
        return s["kind"]
    else:
        return kind
    s += "Neither."  # LMC102 s += "Neither."


@lmc.function
def never_true(s):
    s += "Hello."
    if False:
        s += "Never said."  # LMC102 s += "Never
    s += lmc.gen("rest", max_tokens=4)


@lmc.function
def never_equal(s):
    s += "Hello."
    if 1 > 2:
        s += "Never said."  # LMC102 s += "Never
    s += lmc.gen("rest", max_tokens=4)


@lmc.function
def always_true(s):
    s += "Hello."
    if True:
        s += "Said."
    else:
        s += "Never said."  # LMC102 s += "Never
    s += lmc.gen("rest", max_tokens=4)


@lmc.function
def module_flag(s):
    s += "Hello."
    if DEBUG:
        s += "Debugging."  # LMC102 s += "Debugging."
    s += lmc.gen("rest", max_tokens=4)


@lmc.function
def module_mode(s):
    s += "Hello."
    if SHORT == "long":
        s += "At length."  # LMC102 s += "At length."
    s += lmc.gen("rest", max_tokens=4)


@lmc.function
def local_flag(s):
    verbose = False
    s += "Hello."
    if verbose:
        s += "At length."  # LMC102 s += "At length."
    s += lmc.gen("rest", max_tokens=4)


@lmc.function
def never_looped(s):
    s += "Hello."
    while False:
        s += "Again."  # LMC102 s += "Again."
    s += lmc.gen("rest", max_tokens=4)


@lmc.function
def over_nothing(s):
    s += "Hello."
    for _ in range(0):
        s += "Again."  # LMC102 s += "Again."
    s += lmc.gen("rest", max_tokens=4)


def leave_early(s):
    """Return before the end."""
    s += "One."
    return
    s += "Two."  # LMC102 s += "Two."


@lmc.function
def helper_after_return(s):
    leave_early(s)
    s += lmc.gen("rest", max_tokens=4)


@lmc.function
def unread_copy(s):
    s += "Hello."
    other = s.copy()
    other += "Nobody reads this."  # LMC102 "Nobody
    s += lmc.gen("rest", max_tokens=4)


@lmc.function
def unread_child(s):
    s += "Hello."
    forks = s.fork(2)
    forks[0] += "Read:" + lmc.gen("read", max_tokens=4)
    forks[1] += "Nobody reads this."  # LMC102 "Nobody
    s += forks[0]["read"]


@lmc.function
def text_behind_the_last_read(s):
    s += "Hello."
    forks = s.fork(2)
    for fork in forks:
        fork += "Say:" + lmc.gen("said", max_tokens=4)
        fork += "Please be brief."  # LMC102 "Please
    forks.join()
    s += lmc.gen("rest", max_tokens=4)


@lmc.function
def parent_forgotten(s, topics: list):
    plan = s.copy()
    s += "Topics:\n"
    for topic in topics:
        plan += f"Think of {topic}.\n"  # LMC102 f"Think
    s += lmc.gen("rest", max_tokens=4)


# LMC103: names set again before they are read.


@lmc.function
def twice(s):
    s += "First:" + lmc.gen("answer", max_tokens=4, stop="\n")
    s += "\nSecond:" + lmc.gen("answer", max_tokens=4, stop="\n")  # LMC103 "answer"


@lmc.function
def three_times(s):
    s += "First:" + lmc.gen("answer", max_tokens=4, stop="\n")
    s += "\nSecond:" + lmc.gen("answer", max_tokens=4, stop="\n")  # LMC103 "answer"
    s += "\nThird:" + lmc.gen("answer", max_tokens=4, stop="\n")  # LMC103 "answer"


@lmc.function
def twice_around_a_block(s, one: str, two: str):
    s += "First:" + lmc.gen("answer", max_tokens=4, stop="\n") + "\n"
    with lmc.unordered(s):
        s += one
        s += two
    s += "\nSecond:" + lmc.gen("answer", max_tokens=4)  # LMC103 "answer"


@lmc.function
def twice_by_keyword(s):
    s += "First:" + lmc.gen(name="answer", max_tokens=4, stop="\n")
    s += "\nSecond:" + lmc.gen(max_tokens=4, name="answer")  # LMC103 "answer"
    return s["answer"]


@lmc.function
def choice_over_text(s):
    s += "It is" + lmc.gen("kind", max_tokens=4, stop="\n")
    s += "\nIn a word: " + lmc.select("kind", choices=["good", "bad"])  # LMC103 "kind"
    return s["kind"]


@lmc.function
def set_over_text(s):
    s += "Name:" + lmc.gen("name", max_tokens=4)
    s["name"] = "Ada"  # LMC103 s["name"]


@lmc.function
def twice_in_a_trip(s, items: list):
    for item in items:
        s += item + ":" + lmc.gen("note", max_tokens=4, stop="\n")
        s += "\nBetter:" + lmc.gen("note", max_tokens=4, stop="\n")  # LMC103 "note"
        note(s["note"])


@lmc.function
def twice_in_branches(s):
    s += "Plan.\n"
    forks = s.fork(2)
    for fork in forks:
        fork += "Step:" + lmc.gen("step", max_tokens=4, stop="\n")
        fork += "\nNext:" + lmc.gen("step", max_tokens=4, stop="\n")  # LMC103 "step"
    forks.join()


@lmc.function
def again_in_both_arms(s, is_long: bool):
    s += "Text:" + lmc.gen("text", max_tokens=4, stop="\n")
    if is_long:
        s += "\nLonger:" + lmc.gen("text", max_tokens=9)  # LMC103 "text"
    else:
        s += "\nShorter:" + lmc.gen("text", max_tokens=2)  # LMC103 "text"
    return s["text"]


def ask(s, what):
    """Ask for something under one name."""
    s += what
    s += lmc.gen("asked", max_tokens=4, stop="\n")


@lmc.function
def after_a_helper(s):
    ask(s, "Colour:")
    s += "\nShape:" + lmc.gen("asked", max_tokens=4)  # LMC103 "asked"
    return s["asked"]


# LMC104: joins that drop a variable.


@lmc.function
def gathered_twice(s):
    s += "Answer:" + lmc.gen("answer", max_tokens=4, stop="\n")
    forks = s.fork(2)
    forks += "\nAgain:" + lmc.gen("answer", max_tokens=4)  # LMC104 "answer"
    forks.join()
    return s["answer"]


@lmc.function
def gathered_in_a_loop(s, views: list):
    s += "View:" + lmc.gen("view", max_tokens=4, stop="\n")
    forks = s.fork(len(views))
    for fork, view in zip(forks, views):
        fork += view + lmc.gen(name="view", max_tokens=4)  # LMC104 "view"
    forks.join()
    s += "Sum:" + lmc.gen("sum", max_tokens=4)


@lmc.function
def joined_again(s):
    s += "Ideas.\n"
    first = s.fork(2)
    first += "One:" + lmc.gen("idea", max_tokens=4)
    first.join()
    second = s.fork(2)
    second += "Other:" + lmc.gen("idea", max_tokens=4)  # LMC104 "idea"
    second.join()
    return s["idea"]


# LMC105: forks for nothing. LMC106: arguments for nothing.


@lmc.function
def fork_alone(s):
    s += "Hello."
    s.fork(2)  # LMC105 s.fork(2)
    s += lmc.gen("rest", max_tokens=4)


@lmc.function
def named_fork_alone(s):
    s += "Hello."
    forks = s.fork(3)  # LMC105 s.fork(3)
    s += lmc.gen("rest", max_tokens=4)


@lmc.function
def unused_argument(s, title: str, style: str):  # LMC106 style
    s += "Write: " + title + "\n" + lmc.gen("text", max_tokens=4)


@lmc.function
def unused_default(s, title: str, *, limit: int = 3):  # LMC106 limit
    s += "Write: " + title + "\n" + lmc.gen("text", max_tokens=4)
