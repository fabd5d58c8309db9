"""No continuation changes the stable part of an encoding, and little is held back."""

import random
import unicodedata
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmc.codegen import tokenizer_stable
from lmc.codegen.target import oracle_target
from lmc.codegen.tokenizer import FastTokenizer

NAMES = (
    "smollm", "gpt2", "llama3", "qwen2", "added", "prefixed", "sentencepiece", "metaspace"
)  # fmt: skip


AWKWARD = [
    ("It's", "\u0301"),  # composes with the s under NFC
    ("q\u0301", "\u05b0"),  # is put before the accent under NFC
    ("a\n ", "\n"),
    ("a\n\n ", "\n\n\n"),
    ("12", "34"),
    ("(12", "345"),
    ("<think>-", "-"),
    ("<think>'", "s"),
    ("x<think>", "\n\n"),
    ("so th", "e end"),
    ("It'", "\u017f"),
    ("\u2003\u2003\u2003", "x"),
]


def check(tokenizer: FastTokenizer, before: str, after: str, *, first: bool) -> None:
    """Assert that `after` leaves the stable part of `before` alone."""
    stable = tokenizer.stable_len(before, first=first)
    ids = tokenizer.encode(before, first=first)
    assert 0 <= stable <= len(ids)
    longer = tokenizer.encode(before + after, first=first)
    assert longer[:stable] == ids[:stable], (before, after)


@pytest.mark.parametrize("name", NAMES)
def test_continuations_of_awkward_pieces(name: str, samples: ModuleType):
    pieces = st.lists(st.sampled_from(samples.ATOMS), max_size=6).map("".join)
    texts = pieces | st.text(max_size=12)

    @given(before=texts, after=texts, first=st.booleans())
    @settings(max_examples=200, deadline=None, derandomize=True)
    def holds(before: str, after: str, first: bool) -> None:
        check(samples.tokenizers()[name], before, after, first=first)

    holds()


@pytest.mark.parametrize("name", NAMES)
def test_splits_of_real_text(name: str, samples: ModuleType):
    rng = random.Random(name)
    tokenizer = samples.tokenizers()[name]
    texts = samples.sample_texts()
    held: list[int] = []
    for _ in range(600):
        text, other = rng.choice(texts), rng.choice(texts)
        cut = rng.randrange(len(text) + 1)
        before = text[max(0, cut - rng.choice((20, 200, 2000))) : cut]
        after = text[cut : cut + 40] if rng.random() < 0.6 else other[:40]
        check(tokenizer, before, after, first=False)
        held.append(len(tokenizer.encode(before)) - tokenizer.stable_len(before))
    assert sum(held) / len(held) < 3.0
    assert sorted(held)[int(len(held) * 0.95)] <= 5


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("", 0),
        ("Answer: 12", 0),  # a digit is a word of its own
        ("It's", 0),  # a complete contraction
        ("It'", 1),
        ("It'r", 2),  # could become 're
        ("hello world", 1),
        ("hello world\n", 1),
        ("a  ", 1),  # white space gives a character back to the next word
        ("Score:", 1),  # ":" begins other tokens
        ("x\n\ny", 1),
    ],
)
def test_what_is_held_back(text: str, held: int):
    tokenizer = oracle_target().tokenizer
    assert len(tokenizer.encode(text)) - tokenizer.stable_len(text) == held


@pytest.mark.parametrize("name", ["smollm", "llama3", "sentencepiece"])
def test_long_words_from_a_restart(name: str, samples: ModuleType, monkeypatch: pytest.MonkeyPatch):
    tokenizer = samples.tokenizers()[name]
    rng = random.Random(5)
    words = ["".join(rng.choices(alphabet, k=400)) for alphabet in ("ab", "世界你好天", "theing")]
    words += ["x" * 700, "你好" * 300]
    from_restart = [tokenizer.stable_len(word) for word in words]
    monkeypatch.setattr(tokenizer_stable, "LONG_WORD", 10**9)
    assert [tokenizer.stable_len(word) for word in words] == from_restart


def test_long_texts_keep_their_stable_part(samples: ModuleType):
    tokenizer = oracle_target().tokenizer
    for piece in ("the cat sat on ", "世界", "'"):
        text = piece * (200_000 // len(piece))
        held = len(tokenizer.encode(text)) - tokenizer.stable_len(text)
        assert held <= 8


def test_an_unknown_structure_promises_nothing(samples: ModuleType):
    tokenizer = samples.variant(pre_tokenizer=samples.split_pattern(r"\w+|\W+"))
    assert tokenizer.spec.splitter == "unknown"
    assert tokenizer.encode("hello world") != []
    assert tokenizer.stable_len("hello world") == 0


def test_odd_added_tokens_promise_nothing(samples: ModuleType):
    size = oracle_target().tokenizer.vocab_size
    token = samples.text_token(size, "<x>") | {"rstrip": True}
    assert samples.variant(added_tokens=[token]).stable_len("hello world") == 0


def test_added_tokens_that_a_continuation_completes(samples: ModuleType):
    tokenizer = samples.tokenizers()["added"]
    before = "so <thi"
    stable = tokenizer.stable_len(before)
    assert tokenizer.decode(tokenizer.encode(before)[:stable]) == "so"
    check(tokenizer, before, "nk>", first=False)


def test_characters_taken_for_cluster_starts_never_compose_backwards():
    composing = set()
    for code in range(0x110000):
        whole = chr(code)
        parts = unicodedata.decomposition(whole).split()
        is_pair = len(parts) == 2 and not parts[0].startswith("<")
        if is_pair and unicodedata.normalize("NFC", whole) == whole:
            composing.add(chr(int(parts[1], 16)))
    composing |= {chr(code) for code in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))}
    assert len(composing) > 100
    assert not [hex(ord(c)) for c in composing if tokenizer_stable._starts_cluster(c)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("before", "after"), AWKWARD)
def test_known_awkward_borders(name: str, before: str, after: str, samples: ModuleType):
    check(samples.tokenizers()[name], before, after, first=False)


@pytest.mark.parametrize("name", ["smollm", "gpt2", "llama3", "qwen2", "metaspace"])
def test_words_before_the_unsettled_end_stay(name: str, samples: ModuleType):
    """Cuts are checked by themselves: a small vocabulary hides many that are wrong."""
    tokenizer = samples.tokenizers()[name]
    border = tokenizer._border
    pieces = st.lists(st.sampled_from(samples.ATOMS), max_size=5).map("".join)

    def words(text: str) -> list[str]:
        return [text[start:end] for start, end in border._words(text)]

    def check_words(before: str, after: str) -> None:
        if tokenizer.spec.is_nfc:
            before, after = (unicodedata.normalize("NFC", text) for text in (before, after))
            before = before[: tokenizer_stable._nfc_border(before)]
        start, _ = border.last_word(before)
        settled = words(before)
        while settled and sum(map(len, settled)) > start:
            settled.pop()
        assert sum(map(len, settled)) == start
        assert words(before + after)[: len(settled)] == settled

    for before, after in AWKWARD:
        check_words(before, after)

    @given(before=pieces, after=pieces)
    @settings(max_examples=600, deadline=None, derandomize=True)
    def holds(before: str, after: str) -> None:
        check_words(before, after)

    holds()


def test_a_restart_where_the_end_decides_everything(
    samples: ModuleType, monkeypatch: pytest.MonkeyPatch
):
    """Merges pair up letters from the right, so that one more letter moves every border."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    pairs = [letters[i : i + 2] for i in range(len(letters) - 2, -1, -1)]
    vocab = {token: i for i, token in enumerate([*samples.byte_alphabet(), *pairs, "<end>"])}
    model = {"type": "BPE", "vocab": vocab, "merges": [list(pair) for pair in pairs]}
    end = samples.text_token(vocab["<end>"], "<end>") | {"special": True}
    tokenizer = samples.variant(model=model, added_tokens=[end], replace=True)
    monkeypatch.setattr(tokenizer_stable, "LONG_WORD", 4)
    for cut in range(5, len(letters) + 1):
        word = letters[:cut]
        assert len(tokenizer.encode(word)) == (cut + 1) // 2
        for after in ("", letters[cut : cut + 1], letters[cut:], "a"):
            check(tokenizer, word, after, first=False)
