"""The examples on the real model: the same ids in every mode, cold or warm, alone or in a batch."""

import json

import pytest
from examples_support import ESSAY, MODES, ROOT, observables, program, record_class, token_ids

import lmc
from lmc.backends import open_backend
from lmc.runtime.executor import release_prologues

pytestmark = pytest.mark.model

QUESTIONS = [
    json.loads(line)["question"]
    for line in (ROOT / "examples" / "questions.jsonl").read_text().splitlines()
]
ARGUMENTS = {
    "judge": [{"essay": ESSAY}, {"essay": ESSAY[:300]}],
    "few_shot": [{"question": question} for question in QUESTIONS[:2]],
    "react": [{"question": "How high is the Eiffel Tower?"}, {"question": "Where is Paris?"}],
    "extract": [{"text": "Ada Lovelace was born in London in 1815."}, {"text": "Nothing."}],
    "chat": [{"messages": ["Hello!", "What is the capital of France?"]}, {"messages": ["Hi"]}],
}


@pytest.fixture(scope="module")
def engine():
    return open_backend()


def run_all_ways(name, arguments, engine):
    """Yield (how, result) for every mode, with an empty and a full prefix cache."""
    for mode, options in MODES.items():
        for cache in ("cold", "warm"):
            if cache == "cold":
                engine.flush_cache()
            run = program(name).run(**arguments, backend=engine, seed=0, **options)
            yield f"{mode}, {cache}", run


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("judge", "react") else pytest.param(name, marks=pytest.mark.long)
        for name in ARGUMENTS
    ],
)
def test_ids_do_not_depend_on_mode_cache_or_batch(name, engine):
    batch = [ARGUMENTS[name][i % 2] for i in range(8)]
    engine.flush_cache()
    runs = list(program(name).run_batch(batch, backend=engine, seed=0))
    for number in (0, 1):
        for how, run in run_all_ways(name, ARGUMENTS[name][number], engine):
            for other in runs[number::2]:
                assert token_ids(run) == token_ids(other), how
                assert observables(run) == observables(other), how


def test_a_record_is_extracted_from_real_text(engine):
    run = program("extract").run(backend=engine)
    record = record_class().model_validate(run.value)
    assert (record.city, record.country, record.founded) == ("Warsaw", "Poland", 1817)
    assert run.usage.forced_tokens > 0.3 * run.usage.output_tokens


def test_sampled_ids_do_not_depend_on_mode_cache_or_batch(engine):
    arguments = {"messages": ["Tell me a story.", "Go on."]}

    @lmc.function
    def sampled(s, messages):
        for message in messages:
            s += lmc.user(message)
            forks = s.fork(3)
            forks += lmc.assistant(lmc.gen("answer", max_tokens=12))
            s += lmc.assistant(" / ".join([fork["answer"] for fork in forks]))

    def run(**options):
        return sampled.run(**arguments, backend=engine, seed=5, temperature=0.8, **options)

    engine.flush_cache()
    first = run()
    assert len(set(token_ids(first)[:3])) == 3, "branches have keys of their own"
    for options in MODES.values():
        assert token_ids(run(**options)) == token_ids(first)


def test_the_judges_branches_share_their_prompt(engine):
    release_prologues(engine)
    engine.flush_cache()
    first = program("judge").run(essay=ESSAY, backend=engine, seed=0)
    contexts = {record.call.context for record in first.calls if record.name == "judgment"}
    assert len(contexts) == 3
    distinct = trie_size([record.call for record in first.calls])
    usage = first.usage
    computed = usage.computed_tokens + usage.prologue_tokens + usage.shared_tokens
    assert computed <= distinct + usage.calls + usage.held_back_tokens

    second = program("judge").run(essay="Another text.\n", backend=engine, seed=0)
    prologue = first.usage.prologue_tokens
    assert prologue > 30
    assert second.usage.prologue_tokens == 0
    own = trie_size([record.call for record in second.calls]) - prologue
    assert second.usage.computed_tokens + second.usage.shared_tokens <= (
        own + second.usage.calls + second.usage.held_back_tokens
    )


def trie_size(calls):
    """Return the number of distinct prefixes of the contexts and options of calls."""
    paths = set()
    for call in calls:
        options = getattr(call, "options", ((),))
        for option in options:
            ids = call.context + option
            paths.update(hash(ids[: end + 1]) for end in range(len(ids)))
    return len(paths)
