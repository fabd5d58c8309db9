"""Programs that random programs found to run differently once, cut down by hand."""

import lmc


@lmc.function
def lambda_over_numbered_forks(s, flag: bool):
    """The index that a lambda gets, where states are kept by number."""
    if flag:
        q = s
        for _ in range(2):
            q = q.copy()
    forks = s.fork(3)
    forks += lambda i: str(i)
    return [fork.text() for fork in forks]


@lmc.function
def slot_of_an_empty_dict(s, items: list[str]):
    """A name that was a slot of a dict which may be empty, used again."""
    held = {}
    for word in items:
        held[word] = s.copy()
    for _, q in held.items():  # noqa: B007
        pass
    forks = s.fork(2)
    for q in forks:
        q += "x"
    return forks[1].text()


@lmc.function
def unread_text_is_streamed(s, value: str):
    """A child's append that nobody reads, but that may fail, is no text of the root."""
    other = s.copy()
    other += str([value]) and value
    s += "a"


@lmc.function
def read_on_the_way(s):
    """A constant whose text is read before more follows is streamed once."""
    s += "one "
    before = s.text()
    s += "two "
    return before


@lmc.function
def hoisted_text_is_streamed(s):
    """Text that all children begin with is not the parent's."""
    s += "Read."
    forks = s.fork(2)
    for i, fork in enumerate(forks):
        fork += "\nNow write " + ["a", "b"][i] + lmc.gen("x", max_tokens=2)
    s += " Done."
    return [fork["x"] for fork in forks]


@lmc.function
def failing_append_that_nobody_reads(s, word: str):
    """A check of the text stays; what stood before it in the prompt may go."""
    s += "x"
    for q in s.fork(2):
        q += "y" + lmc.gen("a", max_tokens=3)
        q += word or 3


@lmc.function
def prompts_forked_twice_are_streamed(s, word: str):
    """Text that was moved ahead of two forks, one within the other, is each child's own."""
    s += word + " "
    base = s.copy()
    base += "one "
    left, right = base.copy(), base.copy()
    left += "two" + lmc.gen("x", max_tokens=2)
    right += "two" + lmc.gen("x", max_tokens=2)
    base += "three"
    return [left["x"], right["x"], base.text()]


@lmc.function
def failed_call_met_by_what_goes(s, word: str):
    """What takes a failed call's result may be dropped where it cannot fail by itself."""
    s += "Age: " + lmc.gen("age", type=int, max_tokens=1)
    for q in s.fork(2):
        q += s.text()[-12:] + lmc.gen("x", max_tokens=2)
        q += str(int(word))


@lmc.function
def text_as_choices(s, words: str):
    """A text where a list of choices belongs: its letters are none."""
    s += "q" + lmc.select("a", words)


def two(a, b):
    """Join two texts."""
    return a + b


@lmc.function
def starred_for_two(s, xs: list[str]):
    """A list of any length for two parameters: a TypeError, which a handler takes."""
    try:
        return two(*xs)
    except TypeError as error:
        s += str(error)
        return "type"


@lmc.function
def separated_reasoning(s, q: str):
    """A generation that streams leave out, since only the answer in it is kept."""
    thought = lmc.assistant("T " + lmc.gen("a", max_tokens=4, temperature=0))
    s += lmc.separate_reasoning(thought, "deepseek-r1")
    s += lmc.user(q)


@lmc.function
def merged_empty_answer(s, q: str):
    """Two equal greedy calls behind some text, whose answer may be empty."""
    forks = s.fork(2)
    forks += "Ask " + q + lmc.gen("a", max_tokens=4, temperature=0)
    forks += "." + lmc.gen("b", max_tokens=2)
    return [fork["b"] for fork in forks]
