"""Remarks say at which line what was done, or why not."""

import pytest

from lmc.ir.parser import parse_module
from lmc.passes.pipeline import PassManager

FORK = """
    %p: state, %l: list<state> = lm.fork %s {count = 2} loc(#1)
    %i: int = val.const {value = 0}
    %k: state = val.index %l, %i
    %k_1: state = lm.extend %k, %a
    %j: int = val.const {value = 1}
    %o: state = val.index %l, %j
    %o_1: state = lm.extend %o, %a
"""
LOOP = """
    %r: py = cf.for %l, %x {} { (%i: py, %b: py)
      %t: bool = val.const {value = true}
      cf.yield %t, %i
    } loc(#1)
    func.return %e, %s, %r
"""
GEN = '{name = "v", params = {}, dynamic = []}'


def remarks(pipeline: str, body: str) -> list[str]:
    """Return the remarks of a pipeline on the body of a program."""
    text = (
        'module "m" {} {\n  func @p program (%e: effect, %x: py) {params = [{name = "x"}]} {\n'
        f'    %s: state = lm.prompt loc(#0)\n    %a: text = val.const {{value = "Be brief."}}\n'
        f'{body}\n  }}\n}}\n#0 = "p.py":1:1-1:2 "s"\n#1 = "p.py":7:5-7:9 "here"\n'
    )
    result = PassManager.parse(pipeline).run(parse_module(text))
    return [str(remark) for record in result.log for remark in record.remarks]


@pytest.mark.parametrize(
    ("pipeline", "body", "wanted"),
    [
        (
            "unroll",
            "%l: list<int> = val.const {value = [1, 2, 3]}" + LOOP,
            "p.py:7:5: unroll: unrolled 3 trips",
        ),
        (
            "unroll{max_trips=2}",
            "%l: list<int> = val.const {value = [1, 2, 3]}" + LOOP,
            "p.py:7:5: unroll: not done: 3 trips are over max_trips=2",
        ),
        (
            "unroll{max_ops=10}",
            "%l: list<int> = val.const {value = [1, 2, 3]}" + LOOP,
            "p.py:7:5: unroll: not done: 3 trips make 18 ops beside the 0 made before; max_ops=10",
        ),
        (
            "unroll",
            "%l: py = val.tuple %x\n%l_1: py = val.unpack %l" + LOOP.replace("%l,", "%x,"),
            "p.py:7:5: unroll: not done: the items are not known when compiling",
        ),
        (
            "fold",
            "%z: int = val.const {value = 0}\n%q: py = val.binary %z, %z {op = \"%\"} loc(#1)\n"
            "func.return %e, %s, %q",
            "p.py:7:5: fold: not done: val.binary of constants raises; it stays",
        ),
        (
            "dce",
            "%q: py = val.call %x {callee = \"int\"} loc(#1)\nfunc.return %e, %s, %x",
            "p.py:7:5: dce: not done: val.call is not read, but may raise",
        ),
        (
            "dce",
            f"%s_1: state, %v: text, %m: meta = lm.gen %s {GEN} loc(#1)\nfunc.return %e, %s, %x",
            "p.py:7:5: dce: lm.gen has no reader",
        ),
        (
            "hoist-prefix",
            FORK + "%q: list<state> = val.list %k_1, %o_1\n"
            '%j_1: state = lm.join %p, %q {mode = "concate_and_append"}\nfunc.return %e, %j_1, %x',
            "p.py:7:5: hoist-prefix: not done: a join appends the text that the children add",
        ),
        (
            "hoist-prefix",
            FORK + "%q: list<state> = val.list %k_1, %o_1\n"
            '%j_1: state = lm.join %p, %q {mode = "gather_variable"}\nfunc.return %e, %j_1, %x',
            "p.py:7:5: hoist-prefix: 9 characters moved before the fork",
        ),
        (
            "hoist-prefix",
            "%s_1: state = lm.extend %s, %a\nfunc.return %e, %s_1, %x",
            "p.py:1:1: hoist-prefix: the constant prefix is a prologue of 9 characters and "
            "0 markers",
        ),
        (
            "batch-forks",
            FORK + f"%k_2: state, %v: text, %m: meta = lm.gen %k_1 {GEN}\nfunc.return %e, %k_2, %x",
            "p.py:7:5: batch-forks: not done: the fork is of an empty prompt",
        ),
    ],
)  # fmt: skip
def test_a_remark_names_the_line(pipeline: str, body: str, wanted: str) -> None:
    assert wanted in remarks(pipeline, body)


def test_a_remark_is_said_once() -> None:
    body = "%l: list<int> = val.const {value = [1, 2, 3]}" + LOOP
    made = remarks("unroll{max_trips=2}", body)
    assert len(made) == len(set(made)) == 1
