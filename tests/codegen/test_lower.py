"""Lowering: registers, captures, constants, prologues, and what a target lacks."""

from dataclasses import dataclass
from typing import Any

import pytest
from manual_backend import module_of

import lmc
from lmc.codegen.lower import lower, stable_tokens
from lmc.codegen.target import oracle_target
from lmc.compiler import capture_programs, optimise
from lmc.errors import LowerError
from lmc.ir.core import Block, Function, Module, Op, Value
from lmc.ir.types import EFFECT, PY
from lmc.runtime.executor.prefill_ops import prologue_state
from lmc.runtime.prompt_state import root_state

NESTED = """
    %a: py = val.const {value = 1}
    %unused: py = val.const {value = 2}
    %s: state = lm.prompt
    %c: bool = val.truth %a
    %x: py = cf.if %c {} {
      %y: py = cf.if %c {} {
        %t: text = lm.text %s
        cf.yield %t
      } {
        cf.yield %a
      }
      cf.yield %y
    } {
      cf.yield %a
    }
    func.return %effect, %s, %x
"""


def test_nested_blocks_capture_what_they_use():
    body = lower(module_of(NESTED)).functions["main"].body
    assert [step.op for step in body.steps] == ["lm.prompt", "val.truth", "cf.if"]
    branch = body.steps[2]
    then, other = branch.blocks
    state, condition = body.steps[0].outputs[0], body.steps[1].outputs[0]
    one = next(register for register, value in body.constants if value == 1)
    assert set(then.captures) == {condition, state, one}
    assert other.captures == (one,)
    assert other.results == (0,), "the first capture stands in the first register"
    inner = then.steps[0].blocks[0]
    assert len(inner.captures) == 1
    assert inner.steps[0].state_inputs == (0,)


def test_states_are_marked():
    body = lower(module_of(NESTED)).functions["main"].body
    assert body.steps[0].state_outputs == (0,)
    assert body.steps[2].state_outputs == ()
    loop = module_of("""
    %s: state = lm.prompt
    %items: list<py> = val.list
    %r: state = cf.for %items, %s {} {
      (%i: py, %t: state)
      %go: bool = val.const {value = true}
      cf.yield %go, %t
    }
    func.return %effect, %r, %items
    """)
    step = lower(loop).functions["main"].body.steps[2]
    assert step.blocks[0].state_arguments == (1,)


def test_locations_are_shared():
    text = """
module "m" {} {
  entry @main
  func @main program (%effect: effect) {params = []} {
    %s: state = lm.prompt loc(#0)
    %t: text = lm.text %s loc(#0)
    %u: text = lm.text %s
    func.return %effect, %s, %t
  }
}
#0 = "a.py":1:1-1:5 "s"
"""
    plan = lower(module_of(text))
    assert len(plan.locations) == 1
    assert [step.location for step in plan.functions["main"].body.steps] == [0, 0, -1]


PIECES: list[list[list[str]]] = [
    [],
    [["text", "Hello"]],
    [["text", "Hello "], ["text", "world 12"]],
    [["text", ""]],
    [["begin", "system"], ["text", "Be brief."], ["end", "system"], ["begin", "user"]],
    [["begin", "user"], ["text", "naïve 日本 "]],
    [["control", "<|im_start|>"]],
    [["text", "a"], ["control", "<|im_end|>"], ["text", "b\n"]],
    [["begin", "user"], ["end", "user"], ["begin", "assistant"]],
]


@pytest.mark.parametrize("pieces", PIECES)
def test_prologue_tokens_are_those_of_the_runtime(pieces):
    target = oracle_target()
    state = prologue_state(pieces, root_state(target))
    ids, held_back = stable_tokens(pieces, target)
    assert ids == state.stable_context()
    if state.text_len:
        assert state.context_ids()[: len(ids)] == ids
        assert len(ids) + held_back == len(state.context_ids())


def test_prologues_get_their_tokens():
    module = module_of("""
    %s: state = lm.prologue {pieces = [["text", "Hello there, "]]}
    %v: text = lm.text %s
    func.return %effect, %s, %v
    """)
    target = oracle_target()
    step = lower(module, target).functions["main"].body.steps[0]
    ids, held_back = stable_tokens([["text", "Hello there, "]], target)
    assert (step.attributes["token_ids"], step.attributes["held_back"]) == (ids, held_back)
    assert "token_ids" not in lower(module).functions["main"].body.steps[0].attributes


LINE = "A record: "
HEAD = '{"name": "'


@lmc.function
def same_heads(s):
    s += LINE
    for each in s.fork(2):
        each += lmc.gen("a", regex=r'\{"name": "[a-z]+"\}')
    s += lmc.gen("b", regex=r'\{"name": "[0-9]+"\}')


@lmc.function
def other_heads(s):
    s += LINE + lmc.gen("a", regex="yes, [a-z]+")


@lmc.function
def masked(s):
    s += LINE + lmc.gen("a", regex=r'\{"name": "[a-z]+"\}', constraint_mode="mask")


@lmc.function
def one_head(s):
    s += LINE + lmc.gen("a", regex=r'\{"name": "[a-z]+"\}')


def prologue_of(program):
    """Return the ids of a program's prologue, and how many are held back."""
    module = optimise(capture_programs([program], folder=None).module, None)[0]
    (step,) = [s for s in lower(module, oracle_target()).steps() if s.op == "lm.prologue"]
    return step.attributes["token_ids"], step.attributes["held_back"]


def test_what_a_generation_must_begin_with_joins_the_prologue():
    encode, target = oracle_target().tokenizer.encode, oracle_target()
    start = target.tokenizer.start_ids
    whole = (*start, *encode(LINE, first=True))
    assert prologue_of(one_head) == ((*whole, *encode(HEAD)), 0)
    ids, held_back = prologue_of(other_heads)
    assert ids[: len(whole)] == whole
    assert target.tokenizer.decode(ids[len(whole) :]) == "yes,"
    assert held_back == 0
    stable = stable_tokens([["text", LINE]], target)
    assert stable[1] > 0
    assert prologue_of(masked) == stable
    assert prologue_of(same_heads) == stable, "a fork is no generation"


@dataclass
class Bare:
    """A target without a chat template."""

    tokenizer: Any
    name: str = "bare"
    fingerprint: str = "bare"
    template: Any = None


@pytest.mark.parametrize(
    ("op", "message"),
    [
        ('lm.begin %s {role = "user"}', "no chat template"),
        ('lm.end %s {role = "user"}', "no chat template"),
        ('lm.prologue {pieces = [["begin", "user"]]}', "no chat template"),
        ('lm.control %s {token = "<|nope|>"}', "no control token '<|nope|>'"),
        ('lm.prologue {pieces = [["control", "<|nope|>"]]}', "no control token '<|nope|>'"),
    ],
)
def test_what_a_target_lacks_is_told(op, message):
    module = module_of(f"""
    %s: state = lm.prompt
    %t: state = {op}
    %v: text = lm.text %t
    func.return %effect, %t, %v
    """)
    with pytest.raises(LowerError, match="bare") as caught:
        lower(module, Bare(oracle_target().tokenizer))
    assert message in caught.value.message
    assert lower(module).target_fingerprint == "", "without a target nothing is known"


def test_unknown_ops_and_values_are_told():
    effect, stray = Value(EFFECT, "effect"), Value(PY, "stray")
    for op, message in (
        (Op("lm.nothing"), "no step for op 'lm.nothing'"),
        (Op("val.truth", [stray], [Value(PY)]), "uses %stray before it is defined"),
    ):
        body = Block([effect], [op, Op("func.return", [effect, effect])])
        module = Module("m", {"f": Function("f", "helper", [], body)})
        with pytest.raises(LowerError, match=message):
            lower(module)
