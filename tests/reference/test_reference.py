"""Programs of the reference frontend run after changing the import, and ask the same."""

import copy
from collections import Counter
from statistics import fmean
from typing import Any

import pytest
from reference import programs
from reference.text_frontend import Asked, Replay, TextState

import lmc
from lmc import backends
from lmc.errors import LmcError, UsageError
from lmc.frontend.capture import capture
from lmc.ir.calls import GenCall
from lmc.ir.interpreter import Interpretation, interpret
from lmc.runtime.oracle import Oracle
from lmc.runtime.result import RunResult

SEED = 11
REPLIES = {"reply": "<think>two and two </think>\nfour", "other": "no. </think> five"}
SCRIPTS: dict[str, dict[str, str]] = {
    "as it comes": {},
    "one way": {"tool": "abacus", "act_1": "Look", "act_2": "Look", "act_3": "End"},
    "other way": {"tool": "book", "act_1": "End", "answer": "runs."},
}
MODES: dict[str, dict[str, Any]] = {
    "eager": {"mode": "eager"},
    "unoptimised": {"passes": ""},
    "optimised": {},
}
DEFAULTS = {"temperature": 0.4, "max_tokens": 12}


def answered(name: str, text: str, call: Any, script: dict[str, str]) -> str | None:
    """Answer a call as scripted; options that a select does not have are left out."""
    answer = (REPLIES | script).get(name)
    if answer is not None and not isinstance(call, GenCall) and name == "answer":
        return None if "He" not in text else answer
    return answer


def observed(result: RunResult | Interpretation) -> tuple[str, str, str]:
    """What a run observably did."""
    if isinstance(result, RunResult):
        return repr(result.value), repr(dict(result.state.variables)), result.text()
    return repr(result.value), repr(dict(result.variables)), result.text


def told(oracle: Oracle, call: Any, result: Any) -> tuple[Asked, Any]:
    """Return a call as text, and its answer: text and meta, or the number of the best option."""
    if not isinstance(call, GenCall):
        means = [fmean(option) for option in result.logprobs]
        options = tuple(oracle.spell(call.context + option) for option in call.options)
        return Asked(options=options), means.index(max(means))
    tokenizer = oracle.target.tokenizer
    empty = call.context == (tokenizer.empty_context_id,)
    places = [
        [(logprob, token_id, tokenizer.decode([token_id])) for token_id, logprob in place]
        for place in result.top_logprobs or ()
    ]
    asked = Asked(
        "" if empty else oracle.spell(call.context),
        call.params.stop, call.params.max_tokens, call.params.temperature,
    )  # fmt: skip
    return asked, (result.text, {"output_top_logprobs": places})


def run_in_modes(
    program: Any, arguments: dict[str, Any], oracle: Oracle, capsys: Any
) -> tuple[dict[str, RunResult], str]:
    """Run a program in every mode; what is printed must be the same."""
    runs, printed = {}, {}
    for mode, options in MODES.items():
        given = copy.deepcopy(arguments) | options | DEFAULTS
        runs[mode] = program.run(**given, backend=oracle, seed=SEED)
        printed[mode] = capsys.readouterr().out
    assert len(set(printed.values())) == 1
    return runs, printed["eager"]


CASES = pytest.mark.parametrize(
    ("program", "arguments"), [c[1:] for c in programs.CASES], ids=[c[0] for c in programs.CASES]
)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
@CASES
def test_every_mode_asks_what_the_program_says(
    program: Any, arguments: dict[str, Any], script: dict[str, str], capsys: Any
) -> None:
    """No graph break; equal calls, values, output; and those of the meaning on plain text."""
    oracle = Oracle(lambda name, text, call: answered(name, text, call, script))
    runs, printed = run_in_modes(program, arguments, oracle, capsys)
    made = capture([program])
    walked = interpret(
        made.module, program.name, copy.deepcopy(arguments), model=oracle, target=oracle.target,
        seed=SEED, host=made.host, defaults=DEFAULTS,
    )  # fmt: skip
    capsys.readouterr()
    for mode, result in runs.items():
        assert observed(result) == observed(walked), mode
        calls = Counter(record.call for record in result.calls)
        assert not Counter(call for call, _ in walked.demanded_calls) - calls, mode
        assert not calls - Counter(call for call, _ in walked.calls), mode

    answers = [told(oracle, call, result) for call, result in walked.calls]
    replay = Replay(answers, DEFAULTS)
    state = TextState(replay)
    value = program.func(state, **copy.deepcopy(arguments))
    assert capsys.readouterr().out == printed
    assert (repr(value), state.text()) == (repr(walked.value), walked.text)
    assert state.variables == dict(walked.variables)
    assert Counter(replay.asked) == Counter(asked for asked, _ in answers)


@CASES
def test_answers_take_both_arms(program: Any, arguments: dict[str, Any], capsys: Any) -> None:
    """Where the scripts matter, they lead to different texts."""
    texts = set()
    for script in SCRIPTS.values():
        oracle = Oracle(lambda name, text, call, s=script: answered(name, text, call, s))
        texts.add(program.run(**copy.deepcopy(arguments), backend=oracle, seed=SEED).text())
    capsys.readouterr()
    if program.name in ("routed", "acted"):
        assert len(texts) > 1


def test_every_exported_name_is_there() -> None:
    """What the module says it has can be read."""
    for name in lmc.__all__:
        assert getattr(lmc, name) is not None


def test_names_of_the_reference_frontend_are_there() -> None:
    """Every public name of its programs, the server's included."""
    names = (
        "Engine Runtime RuntimeEndpoint ServerArgs OpenAI Anthropic Crusoe LiteLLM VertexAI "
        "assistant assistant_begin assistant_end flush_cache function gen gen_int gen_string "
        "get_server_info global_config image select separate_reasoning set_default_backend "
        "system system_begin system_end user user_begin user_end video greedy_token_selection "
        "token_length_normalized unconditional_likelihood_normalized __version__"
    )
    assert not [name for name in names.split() if not hasattr(lmc, name)]


@pytest.mark.parametrize(
    "name",
    ["Engine", "Runtime", "RuntimeEndpoint", "ServerArgs", "OpenAI", "Anthropic", "Crusoe",
     "LiteLLM", "VertexAI"],
)  # fmt: skip
def test_starting_a_server_says_what_to_write(name: str) -> None:
    """The lines that must change say how."""
    with pytest.raises(UsageError, match=r"lmc\.(set_default|open)_backend"):
        getattr(lmc, name)("http://localhost:30000", model_path="x")


def test_settings_and_cache_of_a_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default backend is one, by whichever name it is set."""
    oracle = Oracle()
    monkeypatch.setattr(backends, "_default", None)
    lmc.global_config.default_backend = oracle
    assert lmc.default_backend() is oracle
    assert lmc.global_config.default_backend is oracle
    assert lmc.flush_cache() is False
    assert lmc.get_server_info()["model_path"] == oracle.target.name


def test_flushing_asks_the_backend() -> None:
    """A backend with a cache forgets it."""

    class Cached(Oracle):
        flushed = 0

        def flush_cache(self) -> int:
            self.flushed += 1
            return 0

    backend = Cached()
    assert lmc.flush_cache(backend, empty_cache=True) is True
    assert backend.flushed == 1


@lmc.function
def seen(s: Any, path: str) -> None:
    s += lmc.user(lmc.image(path) + "What is it?")
    s += lmc.assistant(lmc.gen("answer"))


@lmc.function
def filmed(s: Any, path: str) -> None:
    s += lmc.user(lmc.video(path, 4) + "What is it?")


@lmc.function
def misjudged(s: Any, path: str) -> None:
    s += lmc.separate_reasoning(lmc.gen("a"), model_type="parrot")


@lmc.function
def counted(s: Any, path: str) -> None:
    s += lmc.separate_reasoning(lmc.gen("a", n=2), model_type="qwen3")


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize(
    ("program", "message"),
    [(seen, "image 'cat.png' cannot be read"), (filmed, "video 'cat.png' cannot be read"),
     (misjudged, "does not know model_type='parrot'"), (counted, "one plain text")],
    ids=["image", "video", "unknown kind", "samples"],
)  # fmt: skip
def test_what_cannot_be_done_is_told(program: Any, message: str, mode: str) -> None:
    """In words, at the call, in every mode."""
    with pytest.raises(LmcError, match=message) as raised:
        program.run(path="cat.png", backend=Oracle(), mode=mode)
    assert raised.value.location is not None
    assert raised.value.location.line > 0


def test_results_are_read_as_the_reference_frontend_reads_them() -> None:
    """Streams, batches as lists or iterators, calls outside of a program, changed variables."""
    oracle = Oracle()
    lone = programs.shot(question="Hm", backend=oracle, seed=SEED, max_new_tokens=5)
    assert (
        lone["answer"] == programs.shot.run("Hm", backend=oracle, seed=SEED, max_tokens=5)["answer"]
    )
    assert lone.get_meta_info("answer")["completion_tokens"] <= 5
    lone["answer"] = 3
    lone.set_var("more", lone.get_var("answer") + 1)
    assert (lone["answer"], lone["more"], "more" in lone, lone.error()) == (3, 4, True, None)

    stream = programs.benched.run(
        first="a", second="b", stream=True, backend=oracle, seed=SEED, max_new_tokens=6
    )
    assert "".join(stream.text_iter("answer_2")) == stream["answer_2"]
    assert [turn["role"] for turn in stream.messages()][-2:] == ["user", "assistant"]

    batch = [{"question": question} for question in ("a", "b", "c")]
    options = {"backend": oracle, "seed": SEED, "max_new_tokens": 4, "num_threads": 2}
    listed = programs.shot.run_batch(batch, progress_bar=True, **options)
    tuples = programs.shot.run_batch(batch_kwargs=[("a",), ("b",), ("c",)], **options)
    lazy = programs.shot.run_batch(batch, generator_style=True, **options)
    assert len(listed) == 3
    texts = [result.text() for result in listed]
    assert texts == [result.text() for result in tuples] == [result.text() for result in lazy]

    bound = programs.chosen.bind(choices=["x", "y"])
    bound.cache(oracle)
    assert bound.run(question="?", backend=oracle)["answer"] in ("x", "y")
    assert programs.person.func.__name__ == "person"
    assert programs.person.run(backend=oracle).ret_value is None
