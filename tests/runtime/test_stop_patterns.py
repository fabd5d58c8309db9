"""Stop patterns: the earliest match, wherever tokens end, against `re` after every character."""

import random
import re

import pytest

from lmc.errors import ConstraintError
from lmc.runtime.stop_patterns import PatternWatch, compile_stop_pattern
from lmc.runtime.text_stream import TextStream

PATTERNS = (
    r"[0-9]+", r"a.*b", r"\n\n+", r"ab|b+c", r"(?i)END", r"\bcat\b", r"(?m)^x", r"(?<=a)b",
    r"(?<!a)b", r"(?<=ab)c", r"^a+b", r"(a|ab)(c|bcd)", r"[^a]c$", r"é+b", r"(?s)c.{2,4}c",
)  # fmt: skip


def by_search(pattern, text):
    """Return (start, end) of the first match that ends, asking after every character."""
    for end in range(len(text) + 1):
        found = next(
            (m for m in [re.search(pattern, text[:end])] if m and m.end() > m.start()), None
        )
        if found:
            return found.start(), end
    return None


def by_watch(pattern, text):
    """Return the same by the watch, checking that nothing before its mark can matter."""
    watch = PatternWatch(compile_stop_pattern(pattern))
    marks = []
    for position, char in enumerate(text):
        begin = watch.step(char, position)
        if begin is not None:
            assert all(begin >= mark for mark in marks), "text was let go that a match begins in"
            return begin, position + 1
        earliest = watch.earliest
        marks.append(position + 1 if earliest is None else earliest)
    return None


@pytest.mark.parametrize("pattern", PATTERNS)
def test_watch_finds_what_search_finds(pattern):
    rng = random.Random(pattern)
    alphabet = "aabbcd12\n xéENDcat"
    for _ in range(300):
        text = "".join(rng.choice(alphabet) for _ in range(rng.randint(1, 24)))
        assert by_watch(pattern, text) == by_search(pattern, text), repr(text)


@pytest.mark.parametrize("pattern", [r"(.)\1", r"a(?=b)", r"(?<=.{17})a", "((("])
def test_patterns_that_cannot_be_followed_are_refused(pattern):
    with pytest.raises(ConstraintError):
        compile_stop_pattern(pattern)


def feed(fakes, pieces, *, stops=(), patterns=(), min_tokens=0):
    """Feed tokens by their text; return the pieces shown, and the stream."""
    tokenizer = fakes.FakeTokenizer()
    ids = {data: i for i, data in enumerate(tokenizer.table) if data is not None}
    stream = TextStream(tokenizer, stops, min_tokens=min_tokens, patterns=patterns)
    shown = []
    for piece in pieces:
        shown.append(stream.feed(ids[piece.encode()]))
        if stream.is_ended:
            break
    shown.append(stream.finish())
    return shown, stream


def test_a_match_inside_a_token_cuts_and_drops_the_rest(fakes):
    """The text of the cut token before the match is the tail; its id is not kept."""
    shown, stream = feed(fakes, ["th", " the", " the"], patterns=["h+e"])
    assert stream.text == "th t"
    assert (stream.token_ids, stream.tail) == (stream.token_ids[:1], " t")
    assert "".join(shown) == stream.text
    assert stream.matched_stop == "h+e"


def test_text_before_a_possible_match_is_held_back(fakes):
    shown, stream = feed(fakes, list("ab12.c"), patterns=[r"[0-9]+\."])
    assert shown[:5] == ["a", "b", "", "", ""]
    assert (stream.text, stream.matched_stop) == ("ab", r"[0-9]+\.")
    shown, stream = feed(fakes, list("ab12c"), patterns=[r"[0-9]+\."])
    assert shown == ["a", "b", "", "", "12c", ""]
    assert stream.matched_stop is None


def test_strings_and_patterns_together(fakes):
    """The first to be complete, of those the longest, a string before a pattern."""
    _, stream = feed(fakes, list("xabcd"), stops=["bc"], patterns=["a.c"])
    assert (stream.text, stream.matched_stop) == ("x", "a.c")
    _, stream = feed(fakes, list("xabcd"), stops=["abc"], patterns=["a.c"])
    assert (stream.text, stream.matched_stop) == ("x", "abc")
    _, stream = feed(fakes, list("xabcd"), stops=["cd"], patterns=["[bz]c", "z"])
    assert (stream.text, stream.matched_stop) == ("xa", "[bz]c")


def test_no_match_begins_in_the_first_tokens(fakes):
    _, stream = feed(fakes, list("aaab aab"), patterns=["a+b", r"\bz"], min_tokens=4)
    assert stream.text == "aaab "
    _, stream = feed(fakes, list("aab"), patterns=[r"\bb"], min_tokens=2)
    assert stream.text == "aab", "what stands before still counts as context"
