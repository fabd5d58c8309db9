"""The plan of a batch: which calls are known ahead, and what they share."""

from itertools import pairwise

import lmc
from lmc.codegen.target import oracle_target
from lmc.compiler import compile_program

RUBRIC = "You judge essays. Be strict, be fair, and answer with one word only.\n"
CALLED = []


@lmc.function
def grade(s, essay, question):
    s += RUBRIC + essay + question
    s += lmc.gen("grade", max_tokens=4)


@lmc.function
def dimensions(s, essay):
    s += RUBRIC + essay
    forks = s.fork(3)
    for i, fork in enumerate(forks):
        fork += f"Dimension {i}:"
        fork += lmc.gen("found", max_tokens=4)
    s += "".join(fork["found"] for fork in forks)
    s += lmc.gen("grade", max_tokens=2)


def ask_the_world(text):
    CALLED.append(text)
    return text


@lmc.function
def with_host(s, text):
    s += lmc.gen("first", max_tokens=2)
    s += ask_the_world(text)
    s += lmc.gen("second", max_tokens=2)


@lmc.function
def endless(s, text):
    while len(text) > 0:
        text = text + "a"
        if len(text) > 1000:
            text = "a"
    s += text
    s += lmc.gen("never")


def distinct_prefixes(contexts):
    return len({context[: n + 1] for context in contexts for n in range(len(context))})


def test_the_trie_of_a_batch_is_counted_and_walked_depth_first():
    batch = [
        {"essay": f"Essay {i % 3} is about the sea. ", "question": f"Question {i}?"}
        for i in range(12)
    ]
    plan = compile_program(grade, target=oracle_target()).plan_batch(batch)
    contexts = [call.context for call in plan.calls]
    assert plan.trie_tokens == distinct_prefixes(contexts)
    assert plan.context_tokens == sum(map(len, contexts))
    assert plan.shared_tokens == plan.context_tokens - plan.trie_tokens > 0
    assert plan.peak_tokens == max(map(len, contexts))
    assert sorted(plan.order) == list(range(12))
    essays = [instance % 3 for instance in plan.order]
    assert sum(a != b for a, b in pairwise(essays)) == 2


def test_contexts_are_those_that_the_runs_then_ask_for():
    batch = [{"essay": f"Essay {i}. ", "question": "Why?"} for i in range(5)]
    compiled = compile_program(grade, target=oracle_target())
    plan = compiled.plan_batch(batch)
    results = compiled.run_batch(batch, backend=lmc.Oracle(), seed=1)
    asked = {(r.instance, call.call.context) for r in results for call in r.calls}
    assert {(call.instance, call.context) for call in plan.calls} == asked


def test_only_calls_before_the_first_generation_are_planned():
    plan = compile_program(dimensions, target=oracle_target()).plan_batch([("One.",), ("Two.",)])
    assert [call.site.partition("@")[0] for call in plan.calls] == ["found"] * 6
    assert plan.num_instances == 2


def test_no_host_function_is_called_and_what_needs_one_is_not_planned():
    plan = compile_program(with_host, target=oracle_target()).plan_batch([("a",), ("b",)])
    assert [call.site.partition("@")[0] for call in plan.calls] == ["first", "first"]
    assert CALLED == []


def test_a_loop_without_end_ends_the_look_ahead(monkeypatch):
    monkeypatch.setattr("lmc.runtime.executor.batch_plan.MAX_FIRES", 5000)
    plan = compile_program(endless, target=oracle_target()).plan_batch([("a",)])
    assert plan.calls == ()
    assert (plan.trie_tokens, plan.peak_tokens, plan.order) == (0, 0, ())


def test_the_report_says_it_in_words():
    plan = compile_program(grade, target=oracle_target()).plan_batch([("Sea.", "Why?")] * 3)
    assert str(plan).startswith("batch: 3 calls of 3 runs before any generation: ")
    assert plan.as_data()["order"] == [0, 1, 2]
