"""What reorder says that an order saves is what the engine then does not compute."""

import re

import pytest

import lmc
from lmc.codegen.lower import lower
from lmc.frontend.capture import capture
from lmc.passes.pipeline import PassManager
from lmc.runtime.executor import Executor

MIDDLE = "ok {} ok."


# The fake tokenizer has a token per character of these texts.
@lmc.function
def ask(s, a: str):
    s += "q."
    with lmc.unordered(s):
        s += "me: " + a + "\n"
        s += lmc.gen("x", max_tokens=1, regex="[a-z]", temperature=1)
        s += "be good.\n"
        s += "ok " + a + " ok."
    s += "so:" + lmc.gen("y", max_tokens=1, regex="[a-z]", temperature=1)


def run_all(module, arguments, fakes) -> tuple[int, set[str]]:
    """Run instances one after another on one engine: prompt tokens computed, answers."""
    engine = fakes.make_engine()
    try:
        executor = Executor(engine, lower(module, engine.target), {})
        runs = [
            executor.run("ask", {"a": argument}, seed=5 * seed)
            for seed, argument in enumerate(arguments)
        ]
        return sum(run.usage.computed_tokens for run in runs), {run["x"] for run in runs}
    finally:
        engine.close()


@pytest.fixture(scope="module")
def orders():
    """The module in the source's order and in the chosen one, and what the pass says."""
    result = PassManager.parse("fold,reorder").run(capture([ask]).module)
    (remark,) = result.log[1].remarks
    return *result.exact[0][1:], result.module, remark.message


def test_runs_with_other_arguments_share_the_constants(orders, fakes) -> None:
    before, after, message = orders
    (characters,) = map(int, re.findall(r"(\d+) characters more are the same in all runs", message))
    assert characters == len("be good.\n")
    arguments = ["u", "v", "w", "x", "y"]
    computed, _ = run_all(before, arguments, fakes)
    better, _ = run_all(after, arguments, fakes)
    assert computed - better == characters * (len(arguments) - 1)


def test_runs_with_equal_arguments_share_all_that_is_known(orders, fakes) -> None:
    before, after, message = orders
    assert "9 constant characters and 1 piece of arguments more before what" in message
    arguments = ["u"] * 2
    computed, answers = run_all(before, arguments, fakes)
    better, others = run_all(after, arguments, fakes)
    assert len(answers) == len(others) == 2, "equal answers would be shared as well"
    known = 9 + len(MIDDLE.format("u"))
    assert computed - better == known * (len(arguments) - 1)
