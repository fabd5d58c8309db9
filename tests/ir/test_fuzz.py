"""Generated modules survive their text form; broken texts are refused with a place or taken."""

import random
from pathlib import Path
from typing import Any

import pytest
from ir_mutation import accepted, good_texts, mutated, put_through
from program_generator import program_text
from random_modules import random_module

import lmc
from lmc.errors import CaptureError
from lmc.frontend.capture import capture
from lmc.frontend.load import load_module
from lmc.ir.core import Module
from lmc.ir.location import Location
from lmc.ir.parser import parse_module
from lmc.ir.printer import print_module

NUM_MODULES, NUM_TEXTS = 2_000, 10_000
SOME = 40
"""Every how many-th of them is part of the short run."""


def wild(draw: random.Random) -> str:
    """Return a text of characters of every plane, lone surrogates and NUL among them."""
    planes = (0x20, 0x80, 0x300, 0x2028, 0xD800, 0xDC00, 0xFFFF, 0x10000, 0xE0001, 0x10FFFF)
    return "".join(
        chr(
            min(0x10FFFF, draw.choice((0, 9, 10, 34, 92, draw.choice(planes) + draw.randrange(99))))
        )
        for _ in range(draw.randrange(9))
    )


def disguised(module: Module, draw: random.Random) -> Module:
    """Put wild texts into a module wherever one may stand."""
    for function in module.functions.values():
        for op in function.body.walk():
            if op.name == "val.const":
                op.attributes["value"] = draw.choice((wild(draw), [wild(draw)], {wild(draw): 1}))
            for value in op.results:
                value.hint = draw.choice((value.hint, wild(draw)))
            op.location = draw.choice((None, Location(wild(draw), 1, 2, 3, 4, wild(draw))))
    module.attributes[wild(draw)] = wild(draw)
    return module


def captured(seed: int, folder: Path) -> Module:
    """Return the module of a random source program."""
    path = folder / f"random_{seed}.py"
    path.write_text(program_text(seed), encoding="utf-8")
    return capture([load_module(path).prog]).module


def check_round_trip(seed: int, folder: Path) -> None:
    try:
        module = random_module(seed, num_ops=12) if seed % 5 else captured(seed, folder)
    except CaptureError:
        return  # a few programs cannot be captured
    if seed % 2:
        module = disguised(module, random.Random(seed))
    text = print_module(module)
    assert print_module(parse_module(text)) == text
    text.encode("utf-8")


@pytest.fixture(scope="module")
def target() -> Any:
    return lmc.Oracle().target


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return good_texts()


def test_generated_modules_survive_their_text(tmp_path: Path) -> None:
    for seed in range(NUM_MODULES // SOME):
        check_round_trip(seed, tmp_path)


@pytest.mark.long
def test_two_thousand_modules_survive_their_text(tmp_path: Path) -> None:
    for seed in range(NUM_MODULES):
        check_round_trip(seed, tmp_path)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_broken_texts_are_refused_or_taken(texts: list[str], target: Any) -> None:
    taken = sum(try_text(texts, seed, target) for seed in range(0, NUM_TEXTS, SOME))
    assert NUM_TEXTS // SOME * 0.05 < taken < NUM_TEXTS // SOME * 0.6


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("first", range(0, NUM_TEXTS, 1_000))
def test_ten_thousand_broken_texts(first: int, texts: list[str], target: Any) -> None:
    taken = sum(try_text(texts, seed, target) for seed in range(first, first + 1_000))
    assert 50 < taken < 600


def try_text(texts: list[str], seed: int, target: Any) -> bool:
    """Break a text and take it as far as it goes; return whether it is taken."""
    module = accepted(mutated(texts, random.Random(seed)))
    if module is not None:
        put_through(module, target)
    return module is not None
