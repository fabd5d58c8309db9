"""The examples on the oracle: every mode makes the same calls, with every branch taken."""

import pytest
from examples_support import ESSAY, MODES, Case, calls, observables, program, record_class

from lmc.runtime.oracle import Oracle

CASES = [
    Case("judge", {"essay": ESSAY}, {"kind": "an essay"}),
    Case("judge", {"essay": ESSAY}, {"kind": "something else"}),
    Case("judge", {"essay": ""}, {"kind": "an essay", "judgment": " fine \n and more"}),
    Case("few_shot", {"question": "How many?"}),
    Case("few_shot", {"question": ""}, {"reasoning": "None.\n", "answer": "-7"}),
    Case("react", {"question": "How high?"}, {"action": "Finish"}),
    Case("react", {"question": "How high?"}, {"action": "Search", "query": " the Everest"}),
    Case("react", {"question": "How high?", "max_turns": 0}),
    Case("react", {"question": "How high?", "max_turns": 5}, {"action": "Search"}),
    Case("extract", {"text": "Ada Lovelace was born in London in 1815."}),
    Case("chat", {"messages": []}),
    Case("chat", {"messages": ["Hello!"]}, {"answer": "Hi <|im_end|> there"}),
    Case("chat", {"messages": ["a", "", "日本 🎉"], "style": "Be brief."}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_mode_makes_the_same_calls(case):
    runs = {
        mode: program(case.name).run(
            **case.arguments, backend=Oracle(case.script), seed=11, **options
        )
        for mode, options in MODES.items()
    }
    for mode, run in runs.items():
        assert observables(run) == observables(runs["eager"]), mode
        assert calls(run) == calls(runs["eager"]), mode
    for name, answer in case.script.items():
        if name in runs["eager"].state.variables and name in ("kind", "action"):
            assert runs["eager"][name] == answer


@pytest.mark.parametrize("finish_at", [1, 2, 3])
def test_react_finishes_at_any_turn(finish_at):
    def script(name: str, prompt: str, call: object) -> str | None:
        if name == "action":
            turn = prompt.rpartition("\n\n")[2]
            return "Finish" if f"\nAction {finish_at}:" in turn else "Search"
        return {"answer": " 330 metres\nQuestion:"}.get(name)

    runs = {
        mode: program("react").run(
            question="How high is it?", backend=Oracle(script), seed=3, **options
        )
        for mode, options in MODES.items()
    }
    for run in runs.values():
        assert run.value == "330 metres"
        assert calls(run) == calls(runs["eager"])
        assert f"Thought {finish_at}:" in run.text()
        assert f"Thought {finish_at + 1}:" not in run.text().rpartition("\n\n")[2]


@pytest.mark.parametrize("seed", range(8))
def test_extracted_records_are_what_the_model_class_takes(seed):
    run = program("extract").run(backend=Oracle(), seed=seed)
    record = record_class().model_validate(run.value)
    assert record.model_dump(mode="json", exclude_unset=True) == run.value


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_reference_interpreter_agrees(case):
    from lmc.ir.interpreter import interpret

    oracle = Oracle(case.script)
    captured = program(case.name).trace()
    meaning = interpret(
        captured, case.name, case.arguments, model=oracle, target=oracle.target, seed=11
    )
    run = program(case.name).run(**case.arguments, backend=Oracle(case.script), seed=11)
    assert meaning.value == run.value
    assert meaning.variables == run.state.variables
    assert meaning.text == run.state.text()
    demanded = [call for call, _ in meaning.demanded_calls]
    assert sorted(map(repr, demanded)) == sorted(repr(r.call) for r in run.calls)


def test_examples_are_captured_without_a_break_and_round_trip():
    from lmc.compiler import optimise
    from lmc.ir.parser import parse_module
    from lmc.ir.printer import print_module

    for name in ("judge", "few_shot", "react", "extract", "chat"):
        captured = program(name).trace()
        for module in (captured, optimise(captured)[0]):
            text = print_module(module)
            assert print_module(parse_module(text)) == text
