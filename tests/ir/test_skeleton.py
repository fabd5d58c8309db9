"""Skeletons agree with their automata, on patterns of the field and on random ones."""

import json
import random
from pathlib import Path

import pytest

from lmc.errors import ConstraintError, VerifyError
from lmc.ir.automata import DEAD, ByteDfa, compile_regex
from lmc.ir.automata.skeleton import MAX_PARTS, skeleton_of
from lmc.ir.parser import parse_module
from lmc.ir.skeleton import shown_skeleton, skeleton_faults
from lmc.ir.verifier import verify

PATTERNS = Path(__file__).resolve().parents[3] / "shared/data/regex/json_schema_patterns.jsonl"
PIECES = ("a", "b", "[ab]", "ab", "(a|bc)", "é", "(é|è)", "x{2}", "🙂", ".", "(yes|no)", "[^a]")


def sample(dfa: ByteDfa, draw: random.Random, limit: int = 60) -> bytes | None:
    """Return a random text of an automaton; None if the walk did not come to an end."""
    state, text = 0, b""
    while len(text) < limit:
        ways = dfa.allowed_bytes(state)
        if dfa.is_accepting(state) and (not ways or draw.random() < 0.3):
            return text
        text += bytes([draw.choice(ways)])
        state = dfa.step(state, text[-1:])
        assert state != DEAD
    return None


def fits(text: bytes, skeleton: list) -> bool:
    """Whether a text is its skeleton: parts with so many bytes that it all adds up."""
    ends = {0}
    for part in skeleton:
        match part:
            case ["text", word]:
                words = [word.encode()]
            case ["gate", texts]:
                words = [each.encode() for each in texts]
            case _:
                _, least, most = part
                last = len(text) if most is None else most
                ends = {e + n for e in ends for n in range(least, last + 1) if e + n <= len(text)}
                continue
        ends = {e + len(word) for e in ends for word in words if text.startswith(word, e)}
    return len(text) in ends


def check(dfa: ByteDfa, draw: random.Random, what: str) -> list | None:
    """Compare a skeleton with the automaton that it was made of."""
    skeleton = skeleton_of(dfa)
    if skeleton is None:
        return None
    assert list(skeleton_faults(skeleton)) == [], what
    for _ in range(12):
        text = sample(dfa, draw)
        assert text is None or fits(text, skeleton), (what, text, skeleton)
    lengths = [length_of(part) for part in skeleton]
    assert dfa.shortest_len() >= sum(least for least, _ in lengths), what
    longest = dfa.longest_len()
    if None not in [most for _, most in lengths]:
        assert longest is not None, what
        assert longest <= sum(most for _, most in lengths), what
    # What is forced first is what the automaton forces, and all of it.
    forced = dfa.forced_bytes(0).decode("utf-8", "ignore")
    first = skeleton[0][1] if skeleton and skeleton[0][0] == "text" else ""
    assert first == forced, what
    return skeleton


def length_of(part: list) -> tuple[int, int | None]:
    """Return the fewest and the most bytes of a part."""
    if part[0] == "hole":
        return part[1], part[2]
    sizes = [len(text.encode()) for text in ([part[1]] if part[0] == "text" else part[1])]
    return min(sizes), max(sizes)


def check_patterns(patterns: list[str]) -> None:
    draw = random.Random(7)
    made = noted = 0
    for pattern in patterns:
        try:
            dfa = compile_regex(pattern, max_states=2000)
        except ConstraintError:
            continue
        made += 1
        noted += check(dfa, draw, pattern) is not None
    assert noted >= 0.99 * made
    assert made >= 0.9 * len(patterns)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(("start", "step"), [(0, 9), pytest.param(1, 1, marks=pytest.mark.long)])
def test_patterns_of_the_field(start: int, step: int) -> None:
    lines = PATTERNS.read_text(encoding="utf-8").splitlines()[start::step]
    check_patterns([json.loads(line)["pattern"] for line in lines])


def test_random_patterns() -> None:
    draw = random.Random(1)
    patterns = []
    for _ in range(300):
        parts = [draw.choice(PIECES) for _ in range(draw.randint(1, 6))]
        marks = ["", "", "", "*", "?", "+", "{1,3}"]
        inner = "".join(f"({part}){draw.choice(marks)}" for part in parts)
        patterns.append(f"({inner}){draw.choice(marks)}{draw.choice(PIECES)}")
    check_patterns(patterns)


@pytest.mark.parametrize(
    ("pattern", "skeleton"),
    [
        ("x(yes|no)z", [["text", "x"], ["gate", ["no", "yes"]], ["text", "z"]]),
        ('"[^"]*"', [["text", '"'], ["hole", 0, None], ["text", '"']]),
        (r"(\d{1,3}\.){2}[01]", [["hole", 1, 12], ["text", "."], ["hole", 1, 12], ["text", "."],
                                    ["gate", ["0", "1"]]]),
        ("(ab)*", [["hole", 0, None]]),
        ("", []),
    ],
)  # fmt: skip
def test_skeletons(pattern: str, skeleton: list) -> None:
    assert skeleton_of(compile_regex(pattern)) == skeleton


def test_a_long_skeleton_ends_in_one_hole() -> None:
    skeleton = skeleton_of(compile_regex("[a-z]{2}-" * 200))
    assert skeleton is not None
    assert len(skeleton) == MAX_PARTS - 1, "the last hole of all swallows the one before"
    assert skeleton[-1][0] == "hole"
    assert sum(length_of(part)[0] for part in skeleton) == 600


def test_what_is_shown() -> None:
    skeleton = [["text", "a"], ["gate", ["b", "c"]], ["hole", 2, 2], ["hole", 0, None]]
    assert shown_skeleton(skeleton) == "'a' (b|c) <2> <0->"
    assert len(shown_skeleton([["text", "x" * 99]])) == 60


@pytest.mark.parametrize(
    "skeleton",
    [
        "3", "{}", '[["text", ""]]', '[["text", "a"], ["text", "b"]]', '[["gate", ["a"]]]',
        '[["gate", ["a", "a"]]]', '[["hole", 1]]', '[["hole", 2, 1]]', '[["hole", -1, none]]',
        '[["hole", 0, 0]]', '[["hole", true, none]]', '[["word", "a"]]', "[3]",
        '[["hole", 1, 2], ["hole", 1, 2]]',
    ],
)  # fmt: skip
def test_the_verifier_refuses_other_forms(skeleton: str) -> None:
    text = (
        'module "m" {} {\n  func @p program (%e: effect) {} {\n    %s: state = lm.prompt\n'
        "    %s1: state, %x: text, %m: meta = lm.gen %s {params = {}, dynamic = [], "
        f"skeleton = {skeleton}}}\n    func.return %e, %s1, %x\n  }}\n}}\n"
    )
    with pytest.raises(VerifyError, match="skeleton"):
        verify(parse_module(text))
