"""Importing lmc and printing IR stay light: no heavy third party, little time."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from command_support import EXAMPLES, process, python

HEAVY = {"torch", "transformers", "networkx", "lark", "numpy", "tokenizers", "jinja2", "gguf",
         "safetensors", "triton", "hypothesis", "asyncio", "ssl"}  # fmt: skip
SECONDS = 0.3

IMPORT = "import lmc; text = ''"
PRINT = """
import lmc
import lmc.ir
from lmc.ir import Builder, Module, new_function, print_module
function = new_function("p")
build = Builder(function.body)
build.return_(function.body.arguments[0], build.extend(build.prompt(), "hi"), build.const(None))
text = print_module(Module("m", {"p": function}, ["p"]))
"""
VERIFY = f"{PRINT}lmc.ir.verify(Module('m', {{'p': function}}))"
TRACE = """
import lmc
from lmc.frontend.load import load_programs
from lmc.ir import print_module
text = print_module(load_programs("judge.py")["judge"].trace())
"""
OPTIMISE = """
import contextlib, io
from lmc.cli import run_command
with contextlib.redirect_stdout(io.StringIO()) as out:
    assert run_command(["ir", "judge.py"]) == 0
text = out.getvalue()
"""

MEASURE = """
import json, sys, time
started, used = time.perf_counter(), time.process_time()
{code}
seconds, used = time.perf_counter() - started, time.process_time() - used
tops = sorted({{name.partition(".")[0] for name in sys.modules}})
print(json.dumps(dict(seconds=seconds, used=used, text=text, modules=tops)))
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """What running code took: the least wall and processor seconds of several runs."""

    seconds: float
    used: float
    text: str
    modules: set[str]


def cost(code: str, times: int = 5) -> Cost:
    """Run code in fresh interpreters; the start of Python itself does not count."""
    runs: list[dict[str, Any]] = []
    for _ in range(times):
        done = python(MEASURE.format(code=code), cwd=EXAMPLES)
        assert done.code == 0, done.err
        runs.append(json.loads(done.out))
    return Cost(
        min(run["seconds"] for run in runs),
        min(run["used"] for run in runs),
        runs[0]["text"],
        set(runs[0]["modules"]),
    )


@pytest.mark.parametrize("code", [IMPORT, PRINT, VERIFY], ids=["import", "print", "verify"])
def test_importing_and_printing_ir_is_light(code: str) -> None:
    measured = cost(code)
    assert measured.modules.isdisjoint(HEAVY | {"click"}), measured.modules & HEAVY
    assert code == IMPORT or "lm.extend" in measured.text
    assert measured.used < SECONDS
    # The best of five: other processes may hold the machine for a moment.
    assert measured.seconds < SECONDS


# The judge has a constraint, and jump-forward computes its automaton.
@pytest.mark.parametrize(
    ("code", "needed", "most"),
    [(TRACE, set(), 2 * SECONDS), (OPTIMISE, {"numpy"}, 3 * SECONDS)],
    ids=["trace", "lmc ir"],
)
def test_capturing_and_optimising_load_nothing_heavy(
    code: str, needed: set[str], most: float
) -> None:
    measured = cost(code, 3)
    assert measured.modules & HEAVY == needed
    assert "lm.select" in measured.text
    assert measured.used < most


def test_import_lmc_loads_none_of_its_parts() -> None:
    done = python("import sys, lmc; print([m for m in sys.modules if m.startswith('lmc.')])")
    assert done.out == "['lmc.version']\n"


def test_every_public_name_is_there_and_loaded_on_first_use() -> None:
    code = """
import lmc
missing = [name for name in lmc.__all__ if getattr(lmc, name, None) is None]
assert not missing, missing
try:
    lmc.no_such_name
except AttributeError as error:
    print(error)
"""
    done = python(code)
    assert (done.code, done.out) == (0, "module 'lmc' has no attribute 'no_such_name'\n"), done.err


def test_help_needs_no_part_of_the_compiler() -> None:
    code = """
import sys
from lmc.cli import run_command
run_command(["run", "--help"])
print(sorted(m for m in sys.modules if m.startswith("lmc.")))
"""
    done = python(code)
    assert done.out.splitlines()[-1] == "['lmc.cli', 'lmc.errors', 'lmc.version']"
    assert process("--version").code == 0
