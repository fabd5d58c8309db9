"""Constant prefixes are computed once: of programs with a common head, of calls, of trips."""

from itertools import takewhile
from typing import Any

import pytest

from lmc.codegen.lower import lower, stable_tokens
from lmc.ir.parser import parse_module
from lmc.passes.pipeline import PassManager
from lmc.runtime.engine.engine import Engine
from lmc.runtime.executor import Executor

HEAD = "the cat in the hat: answer in one word. "
TAILS = {"first": "a word of the cat, then: ", "second": "a number of the hat: "}
PROGRAMS = """
module "m" {} {
  entry @first
  entry @second
  entry @trips
  entry @copies
  func @first program (%e: effect, %x: py) {params = [{name = "x"}]} {
    %s: state = lm.prompt
    %c: text = val.const {value = "HEAD FIRST"}
    %s_1: state = lm.extend %s, %c
    %s_2: state = lm.extend %s_1, %x
    %s_3: state, %v: text, %m: meta = lm.gen %s_2 {name = "v", params = {max_tokens = 3}, dynamic = []}
    func.return %e, %s_3, %v
  }
  func @second program (%e: effect, %x: py) {params = [{name = "x"}]} {
    %s: state = lm.prompt
    %c: text = val.const {value = "HEAD SECOND"}
    %s_1: state = lm.extend %s, %c
    %s_2: state = lm.extend %s_1, %x
    %s_3: state, %v: text, %m: meta = lm.gen %s_2 {name = "v", params = {max_tokens = 3}, dynamic = []}
    func.return %e, %s_3, %v
  }
  func @trips program (%e: effect, %x: py) {params = [{name = "x"}]} {
    %s: state = lm.prompt
    %e_3: effect, %s_3: state, %t_1: py = cf.for %x, %e, %s, %x {} { (%i: py, %e_1: effect, %s_1: state, %t: py)
      %e_2: effect, %s_2: state, %r: state, %v: py = func.call %e_1, %s_1, %i {callee = "first"}
      %g: bool = val.const {value = true}
      cf.yield %g, %e_2, %s_2, %v
    }
    func.return %e_3, %s_3, %t_1
  }
  func @copies program (%e: effect, %x: py) {params = [{name = "x"}]} {
    %s: state = lm.prompt
    %c: text = val.const {value = "HEAD "}
    %s_0: state = lm.extend %s, %c
    %s_3: state, %t_1: py = cf.for %x, %s_0, %x {} { (%i: py, %s_1: state, %t: py)
      %s_2: state, %l: list<state> = lm.fork %s_1 {count = 1}
      %o: int = val.const {value = 0}
      %k: state = val.index %l, %o
      %d: text = val.const {value = "FIRST"}
      %k_1: state = lm.extend %k, %d
      %k_2: state = lm.extend %k_1, %i
      %k_3: state, %v: text, %m: meta = lm.gen %k_2 {name = "v", params = {max_tokens = 3}, dynamic = []}
      %g: bool = val.const {value = true}
      cf.yield %g, %s_2, %v
    }
    func.return %e, %s_3, %t_1
  }
}
"""  # noqa: E501


@pytest.fixture
def engine(fakes: Any) -> Any:
    """An engine whose tokenizer knows which tokens no continuation can change."""

    class Stable(fakes.FakeTokenizer):  # type: ignore[misc, name-defined]
        def stable_len(self, text: str, *, first: bool = False) -> int:
            """Count the tokens that begin four bytes before the end: none is longer."""
            starts, at = [], 0
            for token in self.encode(text):
                starts.append(at)
                at += len(self.table[token])
            return sum(start + 4 <= len(text) for start in starts)

    with Engine(fakes.FakeModel(), fakes.FakeTarget(Stable()), num_slots=4096) as made:
        yield made


def optimised() -> Any:
    """Return the module of the programs after the default pipeline."""
    text = PROGRAMS.replace("HEAD ", HEAD)
    for name, tail in TAILS.items():
        text = text.replace(name.upper(), tail)
    return PassManager.parse().run(parse_module(text)).module


def run(engine: Any, name: str, argument: Any) -> int:
    """Run a program; return the tokens of constant prefixes that it computed."""
    executor = Executor(engine, lower(optimised(), engine.target), {})
    return executor.run(name, {"x": argument}, seed=1).usage.prologue_tokens


def ids_of(engine: Any, name: str) -> tuple[int, ...]:
    """Return the ids of a program's constant prefix that no continuation can change."""
    return stable_tokens([["text", HEAD + TAILS[name]]], engine.target)[0]


def test_programs_with_a_common_head_compute_it_once(engine: Any) -> None:
    first, second = ids_of(engine, "first"), ids_of(engine, "second")
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second)))  # noqa: B905
    assert common > 20
    assert run(engine, "first", "an old cat") == len(first)
    assert run(engine, "second", "an old hat") == len(second) - common
    assert run(engine, "first", "a new cat") == 0


@pytest.mark.parametrize("name", ["trips", "copies"])
def test_trips_compute_their_common_head_once(engine: Any, name: str) -> None:
    """By a nested program in a loop, and by copies of a state that the loop leaves as it is."""
    items = ["an old cat", "a new cat", "a hat"]
    assert run(engine, name, items) == len(ids_of(engine, "first"))
    assert run(engine, name, items[::-1]) == 0
    assert run(engine, "first", "a cat") == 0, "the nested program's prefix is its own one"
