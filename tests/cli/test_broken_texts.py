"""Broken IR texts and programs: every command tells one error with a place, never a traceback."""

import random
import re
from pathlib import Path

import pytest
from command_support import Outcome, command
from ir_mutation import TOKEN, accepted, good_texts, mutated
from program_generator import program_text

NUM_TEXTS, NUM_PROGRAMS, NUM_LONG = 200, 50, 200
IR_COMMANDS = (
    ("ir",), ("ir", "--after", "fold"), ("opt", "--passes", "fold"), ("viz", "--format", "html"),
    ("viz", "--format", "dot"), ("viz", "--format", "mermaid"), ("viz", "--format", "svg"),
)  # fmt: skip


def broken_texts(count: int) -> list[str]:
    """Return IR texts that do not parse or do not verify."""
    texts, draw, found = good_texts(), random.Random(5), list[str]()
    while len(found) < count:
        text = mutated(texts, draw).encode(errors="backslashreplace").decode()
        if accepted(text) is None:
            found.append(text)
    return found


def assert_told(told: Outcome, file: Path) -> None:
    """Fail unless a command told one error at a place in the file."""
    assert told.code in (2, 3)
    assert told.out == ""
    assert told.err.startswith("error: ")
    assert len(re.findall(r"^error: ", told.err, re.MULTILINE)) == 1
    assert "Traceback" not in told.err
    assert re.search(rf"^  at {re.escape(str(file))}:\d+:\d+$", told.err, re.MULTILINE), told.err


@pytest.mark.parametrize("options", IR_COMMANDS, ids=" ".join)
def test_broken_ir_text_is_refused_at_its_place(
    options: tuple[str, ...], capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    verb, *rest = options
    file = tmp_path / "broken.lmir"
    for text in broken_texts(NUM_TEXTS):
        file.write_text(text, encoding="utf-8", newline="")
        assert_told(command(capfd, verb, file, *rest), file)


def broken_program(seed: int) -> str:
    """Return a random program with a token or two dropped, put in or swapped."""
    head, border, body = program_text(seed).partition("@lmc.function")
    tokens, draw = TOKEN.findall(body), random.Random(seed)
    for _ in range(draw.randint(1, 2)):
        at, other = draw.randrange(len(tokens)), draw.randrange(len(tokens))
        match draw.randrange(3):
            case 0:
                del tokens[at]
            case 1:
                tokens.insert(at, tokens[other])
            case _:
                tokens[at], tokens[other] = tokens[other], tokens[at]
    return head + border + "".join(tokens)


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize(
    ("verb", "seeds"),
    [
        ("explain", range(NUM_PROGRAMS)),
        ("ir", range(NUM_PROGRAMS)),
        pytest.param("explain", range(NUM_PROGRAMS, NUM_LONG), marks=pytest.mark.long),
        pytest.param("ir", range(NUM_PROGRAMS, NUM_LONG), marks=pytest.mark.long),
    ],
)
def test_broken_programs_are_refused_at_their_place_or_taken(
    verb: str, seeds: range, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    refused = 0
    for seed in seeds:
        file = tmp_path / f"broken_{seed}.py"
        file.write_text(broken_program(seed), encoding="utf-8")
        options = ("--model", "oracle") if verb == "explain" else ()
        told = command(capfd, verb, f"{file}:prog", *options)
        assert "Traceback" not in told.err
        if told.code:
            refused += 1
            assert told.code in (2, 3), told.err
            assert told.out == ""
            assert told.err.startswith("error: ")
            assert re.search(
                rf"broken_{seed}\.py(:\d+:\d+$| has no program)", told.err, re.MULTILINE
            )
    assert refused > len(seeds) / 5


def test_ir_text_cannot_be_explained(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "program.lmir"
    file.write_text(good_texts()[0], encoding="utf-8")
    told = command(capfd, "explain", file)
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith(f"error: {file} is no Python file")
