"""TextStream: pieces join to the text, nothing half is shown, cuts are where the rules say."""

import json
import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmc.runtime.text_stream import TextStream

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


class Pieces:
    """A tokenizer whose ids are the pieces it was given, in order."""

    def __init__(self, *pieces):
        self.table = list(pieces)

    def token_bytes(self):
        return self.table

    def decode(self, token_ids):
        return b"".join(self.table[i] or b"" for i in token_ids).decode("utf-8", "replace")


def stream_all(pieces, stops=(), **options):
    """Feed all pieces; return the stream and what came out piece by piece."""
    tokenizer = Pieces(*pieces)
    stream = TextStream(tokenizer, stops, **options)
    shown = []
    for token_id in range(len(pieces)):
        shown.append(stream.feed(token_id))
        if stream.is_ended:
            break
    shown.append(stream.finish())
    assert "".join(shown) == stream.text
    assert stream.text == tokenizer.decode(stream.token_ids) + stream.tail
    assert not stream.text or "\x00" not in stream.text
    return stream, shown


def split(data, rng):
    """Cut bytes at random places."""
    cuts = sorted(rng.sample(range(1, len(data)), min(len(data) - 1, rng.randint(0, 12))))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def test_a_stop_that_spans_tokens_is_never_shown():
    pieces = [b"al", b"pha be", b"ta ga", b"mma", b" delta"]
    stream, shown = stream_all(pieces, ["beta gamma"])
    assert stream.text == "alpha "
    assert shown == ["al", "pha ", "", "", ""]
    assert (stream.token_ids, stream.tail, stream.matched_stop) == ((0,), "pha ", "beta gamma")


@pytest.mark.parametrize("order", [["]", ",", '"'], ['"', ",", "]"], [",", '"', "]"]])
def test_the_earliest_stop_wins_in_whatever_order(order):
    stream, _ = stream_all([b'Ann" , Bob]'], order)
    assert (stream.text, stream.matched_stop) == ("Ann", '"')


def test_a_stop_inside_a_token_leaves_a_tail():
    stream, _ = stream_all([b"te", b'st",', b" next"], ['"'])
    assert (stream.text, stream.token_ids, stream.tail) == ("test", (0,), "st")


def test_a_stop_in_the_first_bytes_leaves_nothing():
    stream, _ = stream_all([b"\n\nQ: ", b"x"], ["\n\n"])
    assert (stream.text, stream.token_ids, stream.tail) == ("", (), "")


def test_a_stop_that_did_not_come_is_shown_at_the_end():
    stream, shown = stream_all([b"a", b"ST", b"O"], ["STOP"])
    assert shown == ["a", "", "", "STO"]
    assert (stream.token_ids, stream.tail, stream.matched_stop) == ((0, 1, 2), "", None)


def test_a_false_beginning_of_a_stop_is_shown_as_soon_as_it_fails():
    _, shown = stream_all([b"ab", b"ab", b"ac", b"z"], ["ababc"])
    assert shown == ["", "", "abab" + "ac", "z", ""]


def test_overlapping_beginnings_are_found():
    stream, _ = stream_all([b"aaa", b"ab"], ["aab"])
    assert (stream.text, stream.matched_stop) == ("aa", "aab")


@pytest.mark.parametrize("pieces", [[b"abcX"], [b"a", b"bc", b"X"], [b"abc", b"X"]])
def test_the_first_complete_stop_wins_wherever_token_borders_lie(pieces):
    stream, _ = stream_all(pieces, ["abcX", "bc"])
    assert (stream.text, stream.matched_stop) == ("a", "bc")


@pytest.mark.parametrize("pieces", [[b"1\n\nQ:"], [b"1\n", b"\nQ", b":"]])
def test_of_stops_complete_together_the_longest_counts(pieces):
    stream, _ = stream_all(pieces, ["Q:", "\n\nQ:"])
    assert (stream.text, stream.matched_stop) == ("1", "\n\nQ:")


def test_a_stop_that_begins_another_wins():
    stream, _ = stream_all([b"x--->"], ["--->", "--"])
    assert (stream.text, stream.matched_stop) == ("x", "--")


def test_empty_stops_are_ignored():
    stream, _ = stream_all([b"ab"], ["", "b"])
    assert stream.text == "a"


def test_no_stop_begins_in_the_text_of_the_first_tokens():
    stream, _ = stream_all([b"\n"] * 12, ["\n"], min_tokens=6)
    assert (stream.text, len(stream.token_ids), stream.matched_stop) == ("\n" * 6, 6, "\n")
    stream, _ = stream_all([b"EN", b"D", b"END"], ["END"], min_tokens=1)
    assert (stream.text, stream.token_ids) == ("END", (0, 1))


def test_half_characters_are_held_and_broken_ones_flow():
    _, shown = stream_all([b"\xf0\x9f", b"\x98", b"\x80!", b"\xff", b"\xc3", b"a"])
    assert shown == ["", "", "\U0001f600!", "\ufffd", "", "\ufffda", ""]


def test_an_unfinished_character_at_the_end_is_dropped_with_its_ids():
    stream, _ = stream_all([b"a", b"\xf0\x9f", b"\x98"])
    assert (stream.text, stream.token_ids, stream.tail) == ("a", (0,), "")
    stream, _ = stream_all([b"a", b"bc\xc3"])
    assert (stream.text, stream.token_ids, stream.tail) == ("abc", (0,), "bc")


def test_kept_ids_end_between_characters():
    stream, _ = stream_all([b"a", b"\xc3", b"\xa9xZ"], ["Z"])
    assert (stream.text, stream.token_ids, stream.tail) == ("aéx", (0,), "éx")


def test_control_tokens_have_no_text():
    stream, _ = stream_all([b"a", None, b"b"])
    assert (stream.text, stream.token_ids) == ("ab", (0, 1, 2))


def test_feeding_an_ended_stream_raises():
    stream = TextStream(Pieces(b"a"))
    stream.finish()
    assert stream.finish() == ""
    with pytest.raises(ValueError, match="after the end"):
        stream.feed(0)


def seconds_for(count, piece, stops):
    stream = TextStream(Pieces(piece), stops)
    begun = time.thread_time()
    for _ in range(count):
        stream.feed(0)
    stream.finish()
    return time.thread_time() - begun


@pytest.mark.parametrize("piece", [b"\xff", b"ab"])
def test_cost_per_token_is_flat(piece):
    stops = ["\ufffd" * 50 + "x", "ab" * 50 + "x"]
    short = min(seconds_for(400, piece, stops) for _ in range(5))
    long = min(seconds_for(4000, piece, stops) for _ in range(5))
    assert long < 30 * short
    stream = TextStream(Pieces(piece), ())
    assert all(stream.feed(0) for _ in range(400)), "output keeps flowing"


def first_complete(text, stops):
    """Find the cut by the rule itself: the stop that is complete first, then the longest."""
    for end in range(1, len(text) + 1):
        here = [stop for stop in stops if stop and text[:end].endswith(stop)]
        if here:
            longest = max(here, key=len)
            return text[: end - len(longest)], longest
    return text, None


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    text=st.text("abé€\n", max_size=30),
    stops=st.lists(st.text("abé€\n", min_size=1, max_size=4), max_size=4),
    seed=st.integers(0, 1000),
)
def test_any_text_cut_anywhere_gives_what_the_rule_says(text, stops, seed):
    pieces = split(text.encode(), random.Random(seed)) if text else []
    stream, shown = stream_all(pieces, stops)
    assert (stream.text, stream.matched_stop) == first_complete(text, stops)
    so_far = ""
    for piece in shown:
        so_far += piece
        assert stream.text.startswith(so_far)


def test_every_two_way_split_of_a_text_with_a_stop():
    data = "naïve 😀 </end> tail".encode()
    for at in range(1, len(data)):
        stream, _ = stream_all([data[:at], data[at:]], ["</end>"])
        assert stream.text == "naïve 😀 "


def strings_of_the_world():
    """Return strings in many scripts from the shared data."""
    if not DATA.is_dir():
        pytest.skip(f"needs the test data in {DATA}")
    texts = [text for text in json.loads((DATA / "strings" / "blns.json").read_text()) if text]
    for path in sorted((DATA / "xquad").glob("*.json")):
        root = json.loads(path.read_text())
        for articles in [root["data"]] if "data" in root else root.values():
            texts += [p["context"][:120] for article in articles for p in article["paragraphs"]]
    return texts


def test_multilingual_strings_at_all_splits():
    texts = strings_of_the_world()
    assert len(texts) > 600
    for text in texts:
        data = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode()
        for at in range(1, min(len(data), 60)):
            stream = TextStream(Pieces(data[:at], data[at:]), ())
            first = stream.feed(0)
            assert data.startswith(first.encode()), "no half character was shown"
            assert first + stream.feed(1) + stream.finish() == data.decode()
            assert stream.token_ids == (0, 1)


def test_multilingual_strings_in_many_pieces_with_a_stop():
    rng = random.Random(7)
    for text in strings_of_the_world():
        data = text.encode("utf-8", "replace")
        clean = data.decode()
        stop = clean[len(clean) // 2 : len(clean) // 2 + 3]
        stream, _ = stream_all(split(data, rng), [stop])
        assert stream.text == clean[: clean.index(stop)]


def test_a_real_tokenizer_streams_what_it_decodes():
    from lmc.codegen.target import oracle_target

    tokenizer, rng = oracle_target().tokenizer, random.Random(3)
    for text in strings_of_the_world()[::4]:
        ids = tokenizer.encode(text.encode("utf-8", "replace").decode())
        ids = ids[: rng.randint(1, len(ids))] if ids else ids
        stream = TextStream(tokenizer, ("\n\n", "。", "the "))
        shown = ""
        for token_id in ids:
            shown += stream.feed(token_id)
            if stream.is_ended:
                break
        shown += stream.finish()
        assert shown == stream.text == tokenizer.decode(stream.token_ids) + stream.tail
        assert list(stream.token_ids) == ids[: stream.kept_len]
        assert tokenizer.decode(ids).startswith(shown)
        assert "\ufffd" not in shown
