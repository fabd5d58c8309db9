"""Broken IR texts: mutations of good ones, and all that must cope with what is left."""

import random
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lmc.codegen.lower import lower
from lmc.errors import ConstraintError, LmcError, LowerError, ParseError, VerifyError
from lmc.ir.core import Module
from lmc.ir.graph import to_dot, to_mermaid
from lmc.ir.graph_html import Stage, source_lines, to_html
from lmc.ir.location import Location
from lmc.ir.ops import SPECS
from lmc.ir.parser import parse_module, read_module
from lmc.ir.printer import print_module
from lmc.passes.cost.analysis import estimate_cost
from lmc.passes.pipeline import PassManager

FOLDER = Path(__file__).parent
TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[%@#]?[A-Za-z0-9_.]+|->|[{}()\[\]<>=,:]|\s+|.', re.DOTALL)
NUMBERS = ("0", "-1", "1", "2", "99", "0x" + "f" * 900, "9" * 60, "-0x1", "1e999", "0.5", "nan")
TYPES = ("state", "text", "bool", "int", "float", "none", "dict", "meta", "py", "effect")
SPLINTERS = (
    '"', "\\", "{", "}", "(", ")", "[", "]", ",", "=", "\n", "\x00", "\ud800", "\U0010ffff", "//",
    "loc(#0)", "loc(#9)", "list<", "none", "true", "-inf", "\u2028", "'", '"\\ud800"', '"\\q"',
    "lm.prompt", "cf.yield", "func.return %e", "%s", "entry @p", "{a = 1}", "{} {", '"x" = ',
)  # fmt: skip


def good_texts() -> list[str]:
    """Return the inputs of all golden cases, small modules that verify or nearly do."""
    files = sorted([*FOLDER.glob("passes/*.lmir"), *FOLDER.glob("ir/roundtrip/*.lmir")])
    cases = [
        case for file in files for case in file.read_text(encoding="utf-8").split("\n// -----\n")
    ]
    return [
        "".join(
            f"{line}\n" for line in case.partition("// EXPECT")[0].splitlines() if line[:2] != "//"
        )
        for case in cases
    ]


def mutated(texts: Sequence[str], draw: random.Random) -> str:
    """Return one of the texts with one to three things wrong."""
    text = draw.choice(texts)
    for _ in range(draw.choice((1, 1, 2, 3))):
        if draw.random() < 0.25:
            text = _by_characters(text, draw, texts)
        else:
            text = _by_tokens(text, draw, texts)
    return text


def _by_characters(text: str, draw: random.Random, texts: Sequence[str]) -> str:
    at = draw.randrange(len(text) + 1)
    end = min(len(text), at + draw.choice((0, 1, 1, 2, 30)))
    match draw.randrange(5):
        case 0:
            return text[:at] + draw.choice(SPLINTERS) + text[end:]
        case 1:
            return text[:at] + text[end:]
        case 2:
            return text[:end] + text[at:]
        case 3:
            other = draw.choice(texts)
            start = draw.randrange(len(other) + 1)
            return text[:at] + other[start : start + draw.choice((5, 40, 300))] + text[end:]
        case _:
            opening, closing = draw.choice(("[]", "()", "{}"))
            depth = draw.choice((3, 100, 151, 5000))
            return text[:at] + opening * depth + closing * draw.choice((depth, 0)) + text[end:]


def _by_tokens(text: str, draw: random.Random, texts: Sequence[str]) -> str:
    tokens = TOKEN.findall(text)
    if not tokens:
        return draw.choice(texts)
    at = draw.randrange(len(tokens))
    match draw.randrange(11):
        case 0:
            del tokens[at]
        case 1:
            tokens.insert(at, tokens[at])
        case 2:
            other = draw.randrange(len(tokens))
            tokens[at], tokens[other] = tokens[other], tokens[at]
        case 3 | 4:
            values = [t for t in tokens if t[0] == "%"]
            uses = [i for i, t in enumerate(tokens) if t[0] == "%"]
            if uses:
                tokens[draw.choice(uses)] = draw.choice(values)
        case 5:
            _replace(tokens, r"-?[0-9]+$", NUMBERS, draw)
        case 6:
            _replace(tokens, rf"({'|'.join(TYPES)})$", (*TYPES, "list<text>", "list<state>"), draw)
        case 7:
            _replace(tokens, r"[a-z]+\.[a-z]+$", tuple(SPECS), draw)
        case 8:
            words = [t for t in tokens if t[0] == '"'] + ['""', "3", "none", "[]", "[3]", "{}"]
            _replace(tokens, r'(".*"|none|true|[0-9]+)$', words, draw)
        case 9:
            lines = text.split("\n")
            line = draw.randrange(len(lines))
            other = draw.choice(texts).split("\n")
            change = draw.randrange(4)
            if change == 0:
                del lines[line]
            elif change == 1:
                lines.insert(line, lines[draw.randrange(len(lines))])
            elif change == 2:
                lines.insert(line, draw.choice(other))
            else:
                swapped = draw.randrange(len(lines))
                lines[line], lines[swapped] = lines[swapped], lines[line]
            return "\n".join(lines)
        case _:
            tokens.insert(at, draw.choice(SPLINTERS))
    return "".join(tokens)


def _replace(tokens: list[str], pattern: str, by: Sequence[str], draw: random.Random) -> None:
    places = [i for i, token in enumerate(tokens) if re.match(pattern, token)]
    if places:
        tokens[draw.choice(places)] = draw.choice(by)


def accepted(text: str) -> Module | None:
    """Return the module of a text, None where it is refused; fail if no place is told."""
    try:
        return read_module(text, "x.lmir")
    except (ParseError, VerifyError) as error:
        place = error.location
        if not isinstance(place, Location) or place.file != "x.lmir" or place.column < 1:
            raise AssertionError("no place is told") from error
        return None


def put_through(module: Module, target: Any) -> None:
    """Take a module that verifies through all that a compiler does with one.

    Raises:
        PassError: a pass failed, which is always a fault.
    """
    text = print_module(module)
    assert print_module(parse_module(text)) == text
    made = [module]
    try:
        result = PassManager.parse().run(module, print_after=lambda _, left: made.append(left))
        stages = [Stage(name="captured", level="E", module=module)]
        for stage in {id(each): each for each in (module, result.module)}.values():
            lower_or_refuse(stage, target)
            for entry, function in stage.functions.items():
                if function.kind == "program":
                    estimate_cost(stage, entry, target, {}, max_ops=5_000)
            to_dot(stage)
            to_mermaid(stage)
        to_html("x", stages, source_lines(module), "")
    except LmcError as error:
        raise AssertionError(f"{type(error).__name__}: {error}") from error


def lower_or_refuse(module: Module, target: Any) -> None:
    """Lower a module; what the target lacks and a schema that is wrong may be refused."""
    with suppress(LowerError, ConstraintError):
        lower(module, target)
