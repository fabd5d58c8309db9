"""Bounds on tokens hold: no run computes more, and what is known is counted exactly."""

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

import lmc
from lmc.codegen.respelling import growth_of
from lmc.compiler import capture_programs, optimise
from lmc.errors import LmcError
from lmc.ir.calls import GenCall, GenResult, ScoreCall
from lmc.ir.core import Module
from lmc.ir.interpreter import Interpretation, interpret
from lmc.passes.cost.analysis import CostReport, estimate_cost
from lmc.passes.cost.lengths import lengths_of
from lmc.runtime.engine.scoring import plan_branches
from lmc.runtime.oracle import Oracle

ARGS = {"a": "abc", "b": 3}
HOST: dict[str, Callable[..., Any]] = {
    "m:note": lambda x: [x, x],
    "m:pure": lambda x: repr(x) + "ab",
    "m:name": lambda: "u",
    "m:grow": lambda items: items.append("grown"),
}


def measured(run: Interpretation) -> tuple[int, int]:
    """Return the context tokens that a cache of unlimited size leaves to compute, and the steps.

    A generation leaves the keys and values of its tokens behind, but for the last one's.
    """
    known: set[tuple[int, ...]] = set()
    prefill = steps = 0

    def compute(tokens: Sequence[int], least: int) -> int:
        prefixes = [tuple(tokens[: n + 1]) for n in range(len(tokens))]
        missing = sum(prefix not in known for prefix in prefixes)
        known.update(prefixes)
        return max(missing, least)

    for call, answer in run.calls:
        if isinstance(call, GenCall):
            assert isinstance(answer, GenResult)
            prefill += compute(call.context, 1)
            compute((*call.context, *answer.token_ids[:-1]), 0)
            steps += len(answer.token_ids)
        else:
            prefill += scored(call, compute)
    return prefill, steps


def scored(call: ScoreCall, compute: Callable[[Sequence[int], int], int]) -> int:
    """Return the tokens computed for a scoring, branch by branch, as the engine plans it."""
    return sum(
        compute((*call.context, *branch.tokens), len(branch.tokens) - branch.first_row + 1)
        for branch in plan_branches(call.options)
    )


def assert_within(report: CostReport, run: Interpretation) -> float | None:
    """Fail where a run took more than its bound; return their ratio if there is a bound."""
    prefill, steps = measured(run)
    assert prefill <= report.cold.prefill.high
    assert steps <= report.cold.decode.high
    assert len(run.calls) <= report.cold.calls.high
    is_useful = report.cold.prefill.is_bounded and report.cold.prefill.high > 0
    return prefill / report.cold.prefill.high if is_useful else None


def run_of(module: Module, entry: str, args: Any, oracle: Oracle, host: Any) -> Interpretation:
    return interpret(module, entry, args, model=oracle, target=oracle.target, seed=7, host=host)


def test_no_random_module_computes_more(make_program: Any) -> None:
    """Whatever hosts and models answer."""
    oracle, ratios = Oracle(), []
    for seed in range(60):
        module = make_program(Random(seed))
        report = estimate_cost(module, "main", oracle.target, ARGS, max_trips=64)
        try:
            run = run_of(module, "main", ARGS, oracle, HOST)
        except LmcError:
            continue
        ratios.append(assert_within(report, run))
    assert len(ratios) > 30
    assert sum(ratio is not None for ratio in ratios) > 15


CHAINS = [
    (" another", "ography"), (" earlier", "ensity"), (" previous", "though", "ected"),
    (" rather", "aught"), ("\n               ", "ought"), (" significantly",),
]  # fmt: skip
"""Tokens that become many more where their text is encoded anew; found by search."""


def test_no_chain_of_tokens_needs_more_than_it_may_where_it_stands_elsewhere() -> None:
    """Those that a search found, over and over, and tokens drawn at random."""
    tokenizer, draw = Oracle().target.tokenizer, Random(5)
    most = lengths_of(tokenizer).respelled
    texts = {piece.decode() for piece in tokenizer.token_bytes() if piece and piece.isascii()}
    for chain in CHAINS:
        assert texts.issuperset(chain[:2])
        for times in (1, 2, 20):
            assert len(tokenizer.encode("".join(chain) * times)) <= most(len(chain) * times)
    assert len(tokenizer.encode(" anotherography" * 20)) == 20 * 7  # of 40 tokens
    plain = [i for i, piece in enumerate(tokenizer.token_bytes()) if piece]
    for count in [1, 2, 3, 4, 6, 8, 12, 20, 40] * 30:
        text = tokenizer.decode(draw.choices(plain, k=count))
        # Broken characters come as U+FFFD, which a generation never puts into a prompt.
        whole = text.replace("\ufffd", "")
        assert len(tokenizer.encode(whole)) <= most(count)


def test_no_part_of_a_token_is_more_tokens_than_generated_text_may_grow_by() -> None:
    """What is left out by a rule of thumb is not what counts."""
    tokenizer = Oracle().target.tokenizer
    most, pieces = growth_of(tokenizer), [piece for piece in tokenizer.token_bytes() if piece]
    for text in Random(3).sample([p.decode() for p in pieces if p.isascii()], 400):
        for start in range(len(text)):
            for end in range(start + most, len(text) + 1):
                assert len(tokenizer.encode(text[start:end])) < most


@lmc.function
def worked(s, question: str, examples: list[str]):
    s += "Answer each question in a word.\n\n"
    for example in examples:
        s += "Question: " + example + "\nAnswer: it depends\n\n"
    s += "Question: " + question + "\nAnswer:" + lmc.gen("answer", max_tokens=5)


@lmc.function
def compared(s, thing: str, width: int = 3):
    s += "Look at the " + thing + ".\n"
    forks = s.fork(width)
    for i, fork in enumerate(forks):
        fork += f"View {i} of the {thing}:" + lmc.gen("view", max_tokens=4)
    return [fork["view"] for fork in forks]


@lmc.function
def chosen(s, thing: str):
    s += f"A {thing} is" + lmc.select("kind", choices=[" large", " small", " a little small"])
    s += ", as you know. It weighs" + lmc.select("weight", choices=[" a ton", " a gram"])


@lmc.function
def twice(s, thing: str):
    first, second = s.copy(), s.copy()
    first += f"A {thing} is" + lmc.gen("it", max_tokens=4, temperature=0)
    second += f"A {thing} is" + lmc.gen("it", max_tokens=4, temperature=0)
    return first["it"] + second["it"] + second.text()


EXACT: list[tuple[lmc.Program, dict[str, Any]]] = [
    (worked, {"question": "Is it wet?", "examples": []}),
    (worked, {"question": "Is it wet?", "examples": ["Is it dry?", "Is it dark?"]}),
    (compared, {"thing": "harbour", "width": 1}),
    (compared, {"thing": "harbour"}),
    (compared, {"thing": "", "width": 5}),
    (chosen, {"thing": "boat"}),
    (twice, {"thing": "boat"}),
]


@pytest.mark.parametrize("is_optimised", [False, True])
@pytest.mark.parametrize(("program", "args"), EXACT)
def test_text_that_is_known_is_counted_exactly(
    program: lmc.Program, args: dict[str, Any], is_optimised: bool
) -> None:
    """Contexts without generated text: bound and run are one number."""
    oracle = Oracle()
    module = capture_programs([program]).module
    module = optimise(module)[0] if is_optimised else module
    report = estimate_cost(module, program.name, oracle.target, args)
    run = run_of(module, program.name, args, oracle, {})
    if program is chosen:
        # The second context holds the option chosen; the longest is the bound.
        assert measured(run)[0] <= report.cold.prefill.high <= measured(run)[0] + 4
        return
    assert report.cold.prefill.low == report.cold.prefill.high == measured(run)[0]
    assert report.cold.calls.low == report.cold.calls.high == len(run.calls)


def report_of(program: lmc.Program, **args: Any) -> CostReport:
    module = optimise(capture_programs([program]).module)[0]
    return estimate_cost(module, program.name, Oracle().target, args)


def test_a_call_that_takes_another_s_answer_costs_nothing() -> None:
    """What cse found is one call."""
    report = report_of(twice, thing="boat")
    assert (report.cold.calls.high, report.cold.decode.high, report.steps) == (1, 4, 4)


def test_children_run_at_the_same_time() -> None:
    """Steps one after another are those of the longest path."""
    report = report_of(compared, thing="harbour", width=6)
    assert report.cold.decode.high == 24
    assert report.steps == 4


def test_constant_prefixes_are_not_computed_again() -> None:
    """The warm figure leaves out the prologue."""
    report = report_of(worked, question="Is it wet?", examples=["Is it dry?"])
    prologue = len(Oracle().target.tokenizer.encode("Answer each question in a word.\n\n"))
    saved = report.cold.prefill.high - report.warm.prefill.high
    assert prologue - 2 <= saved < prologue + 8


@lmc.function
def branching(s, x: str):
    s += "Begin " + x
    s += lmc.select("way", choices=[" left", " right"])
    if s["way"] == " left":
        s += " and then on" + lmc.gen("a", max_tokens=3)
    else:
        for _ in range(4):
            s += " and back" + lmc.gen("b", max_tokens=2)
    s += " to the end." + lmc.gen("c", max_tokens=1)


def test_a_branch_costs_at_most_its_dearer_arm() -> None:
    """Arms are not added up."""
    report = report_of(branching, x="here")
    assert (report.cold.calls.low, report.cold.calls.high) == (3, 6)
    assert report.cold.decode.high == 4 * 2 + 1
    assert report.steps == 4 * 2 + 1


@lmc.function
def endless(s, x: str):
    while True:
        s += x + lmc.gen("a", max_tokens=3)
        if s["a"] == "stop":
            break


@lmc.function
def counted(s, x: str, most: int = 4):
    i = 0
    while i < most and "stop" not in s.text()[-10:]:
        s += x + lmc.gen("a", max_tokens=3)
        i += 1


@lmc.function
def parsed(s, text: str, tries: int = 3):
    s += "Text: " + text + "\n"
    for i in range(tries):
        s += f"Record {i}: " + lmc.gen("r", max_tokens=20)
        try:
            return json.loads(s["r"])
        except json.JSONDecodeError:
            s += "\nThat is no JSON. Once more.\n"
    return None


@lmc.function
def told(s, x: str):
    s += x + lmc.gen("a", max_tokens=3)


def test_what_has_no_bound_is_told_with_its_place() -> None:
    """An endless loop, and text of unknown length."""
    report = report_of(endless, x="go")
    assert not report.cold.decode.is_bounded
    assert [(place.line, why) for place, why in report.unbounded.items() if place] == [
        (endless_line(), "the loop may go on for ever")
    ]
    report = report_of(told)
    assert not report.cold.prefill.is_bounded
    assert report.cold.decode.high == 3
    assert list(report.unbounded.values()) == ["the length of this text is not known"]


def test_what_fails_is_tried_again_at_a_bound() -> None:
    """A block that may end anywhere, in a loop that it may leave."""
    report = report_of(parsed, text="a little")
    assert (report.cold.calls.low, report.cold.calls.high) == (1, 3)
    assert report.steps == 60
    assert report.cold.prefill.is_bounded


def endless_line() -> int:
    return endless.__wrapped__.__code__.co_firstlineno + 2  # type: ignore[attr-defined]


def test_a_loop_that_counts_has_a_bound() -> None:
    """It may end sooner."""
    report = report_of(counted, x="go")
    assert (report.cold.calls.low, report.cold.calls.high) == (0, 4)
    assert report.steps == 12


@lmc.function
def joined(s, names: list[str]):
    said = [f"{name} is new" for name in names]
    s += "; ".join(said) + ". Then: " + lmc.gen("then", max_tokens=2)


@lmc.function
def joined_views(s, topic: str):
    forks = s.fork(2)
    for fork in forks:
        fork += topic + " is" + lmc.gen("view", max_tokens=3)
    s += "Views: " + "; ".join(fork["view"] for fork in forks) + "." + lmc.gen("sum", max_tokens=4)
    s += ", ".join([s["sum"], topic, "end"]) + lmc.gen("last", max_tokens=1)


@pytest.mark.parametrize("is_optimised", [True, False])
def test_texts_put_together_have_a_bound(is_optimised: bool) -> None:
    """Of known texts it is exact, of generated ones no run takes more."""
    module = capture_programs([joined]).module
    module = optimise(module)[0] if is_optimised else module
    oracle, args = Oracle(), {"names": ["Ann", "Bo"]}
    report = estimate_cost(module, "joined", oracle.target, args)
    prefill = report.cold.prefill
    assert prefill.low == prefill.high == measured(run_of(module, "joined", args, oracle, {}))[0]

    module = capture_programs([joined_views]).module
    module = optimise(module)[0] if is_optimised else module
    for number in range(20):
        args = {"topic": f"number {number}"}
        report = estimate_cost(module, "joined_views", oracle.target, args)
        run = run_of(module, "joined_views", args, oracle, {})
        assert assert_within(report, run) is not None


@lmc.function
def question_first(s, question: str):
    s += "Question: " + question + "\nAnswer it in a few words, then give a reason for it.\n"
    s += "Answer:" + lmc.gen("answer", max_tokens=5)


def test_an_argument_before_constant_text_is_named() -> None:
    """With how much of it runs cannot share."""
    (blocked,) = report_of(question_first).blocked
    assert blocked.name == "question"
    assert blocked.position == len(Oracle().target.tokenizer.encode("Question: "))
    assert 15 <= blocked.tokens <= 25
    assert not report_of(told).blocked
    assert not report_of(question_first, question="Why?").blocked
