"""Every decode parameter through every way of running a program, and wrong values at their line."""

import re

import pytest

import lmc
from lmc.codegen.lower import lower
from lmc.errors import CompileError, RunError, UsageError
from lmc.frontend.capture import capture
from lmc.ir.decode_params import RULES, check_param
from lmc.ir.expressions import GEN_PARAMS
from lmc.ir.interpreter import interpret
from lmc.passes.pipeline import PassManager
from lmc.runtime.eager import run_eager
from lmc.runtime.executor import Executor
from lmc.runtime.oracle import Oracle

VALUES = {
    "max_tokens": 3, "min_tokens": 2, "n": 2, "stop": "e", "stop_token_ids": [100, 7],
    "stop_regex": ["[0-9]+", "z"], "temperature": 0.5, "top_p": 0.4, "top_k": 3, "min_p": 0.1,
    "frequency_penalty": 0.5, "presence_penalty": -0.5, "repetition_penalty": 1.2,
    "logit_bias": {5: 1.5, " the": -2.0}, "seed": 0, "ignore_eos": True, "return_logprob": True,
    "top_logprobs_num": 2, "logprob_start_len": 0, "return_text_in_logprobs": False,
}  # fmt: skip


@lmc.function
def constants(s, q):
    s += q + lmc.gen("a", max_tokens=3, min_tokens=2, n=2, stop="e", stop_token_ids=[100, 7])
    s += lmc.gen("b", stop_regex=["[0-9]+", "z"], temperature=0.5, top_p=0.4, top_k=3, min_p=0.1)
    s += lmc.gen("c", frequency_penalty=0.5, presence_penalty=-0.5, repetition_penalty=1.2)
    s += lmc.gen("d", logit_bias={5: 1.5, " the": -2.0}, seed=0, ignore_eos=True, max_tokens=4)
    s += lmc.gen("e", return_logprob=True, top_logprobs_num=2, logprob_start_len=0, max_tokens=4)
    s += lmc.gen("f", return_logprob=True, return_text_in_logprobs=False, dtype=int)
    s += lmc.gen("g", regex="[a-z]{3,9}", stop=["q"], n=3, temperature=0, max_tokens=9)
    s += lmc.gen("h", choices=["yes", "no"], choices_method=lmc.total_likelihood, max_tokens=7)
    return [s.get_meta_info(x) for x in ("a", "b", "c", "d", "e", "f", "g", "h")]


@lmc.function
def dynamic(s, q, p):
    s += q + lmc.gen(
        "a", max_tokens=p["max_tokens"], min_tokens=p["min_tokens"], n=p["n"], stop=p["stop"],
        stop_token_ids=p["stop_token_ids"], stop_regex=p["stop_regex"],
        temperature=p["temperature"], top_p=p["top_p"], top_k=p["top_k"], min_p=p["min_p"],
        frequency_penalty=p["frequency_penalty"], presence_penalty=p["presence_penalty"],
        repetition_penalty=p["repetition_penalty"], logit_bias=p["logit_bias"], seed=p["seed"],
        ignore_eos=p["ignore_eos"], return_logprob=p["return_logprob"],
        top_logprobs_num=p["top_logprobs_num"], logprob_start_len=p["logprob_start_len"],
        return_text_in_logprobs=p["return_text_in_logprobs"],
    )  # fmt: skip
    return s.get_meta_info("a")


def every_way(program, args, *, script=None, defaults=None, seed=9):
    """Run a program in all modes; they must agree; return the value and the calls."""
    oracle = Oracle(script)
    made = capture([program.__lmc_function__])
    name = program.__lmc_function__.__name__
    walked = interpret(
        made.module, name, dict(args), model=oracle, target=oracle.target, seed=seed,
        host=made.host, defaults=defaults or {},
    )  # fmt: skip
    results = [
        run_eager(oracle, program.__lmc_function__, dict(args), seed=seed, defaults=defaults)
    ]
    for passes in (None, "all"):
        module = capture([program.__lmc_function__]).module
        if passes:
            module = PassManager.parse().run(module).module
        executor = Executor(oracle, lower(module, oracle.target), made.host)
        results.append(executor.run(name, dict(args), seed=seed, defaults=defaults))
    expected = {call for call, _ in walked.calls}
    for result in results:
        assert result.value == walked.value
        assert {record.call for record in result.calls} == expected
    return walked.value, [call for call, _ in walked.calls]


def test_constants_reach_the_calls_in_every_mode():
    metas, calls = every_way(constants, {"q": "A question. "})
    params = {call.site.partition("@")[0]: getattr(call, "params", None) for call in calls}
    assert (params["a"].max_tokens, params["a"].min_tokens, params["a"].stop) == (3, 2, ("e",))
    assert params["a"].stop_token_ids == (100, 7)
    assert params["b"].stop_regex == ("[0-9]+", "z")
    assert (params["b"].top_p, params["b"].top_k, params["b"].min_p) == (0.4, 3, 0.1)
    assert (params["c"].frequency_penalty, params["c"].presence_penalty) == (0.5, -0.5)
    assert params["c"].repetition_penalty == 1.2
    the = Oracle().target.tokenizer.encode(" the")
    assert params["d"].logit_bias == tuple(sorted([(5, 1.5), (the[0], -2.0)]))
    assert params["d"].ignore_eos
    assert (params["e"].top_logprobs_num, params["e"].logprob_start_len) == (2, 0)
    a, _, _, _, e, f, g, h = metas
    assert len(a) == 2
    assert len(e["output_top_logprobs"]) == len(e["token_ids"])
    assert [len(top) for top in e["output_top_logprobs"]] == [2] * len(e["token_ids"])
    assert e["input_token_logprobs"][0][0] is None
    assert len(e["input_token_logprobs"]) == e["prompt_tokens"] == len(e["input_top_logprobs"])
    assert {text for _, _, text in f["output_token_logprobs"]} == {None}
    assert g[0] == g[1] == g[2], "greedy samples are one"
    assert h["choices"] == ["yes", "no"]
    assert h["scores"] == [sum(entry) for entry in h["logprobs"]]


def test_dynamic_values_are_the_same_calls_as_constants():
    _, calls = every_way(dynamic, {"q": "Q ", "p": VALUES})
    unset = dict.fromkeys(VALUES)
    _, plain = every_way(dynamic, {"q": "Q ", "p": unset})
    assert plain[0].params == type(plain[0].params)(), "None is unset"
    for call in calls:
        for name in ("max_tokens", "top_k", "frequency_penalty", "logprob_start_len"):
            assert getattr(call.params, name) == VALUES[name]


def test_a_seed_of_the_generation_replaces_the_runs():
    """The same draw under any run seed; samples still differ; greedy keys stay 0."""
    values = dict.fromkeys(VALUES) | {"seed": 0, "n": 3}
    keys = []
    for seed in (1, 2):
        _, calls = every_way(dynamic, {"q": "Q ", "p": values}, seed=seed)
        keys.append([call.key for call in calls])
    assert keys[0] == keys[1]
    assert len(set(keys[0])) == 3
    _, calls = every_way(dynamic, {"q": "Q ", "p": values | {"seed": 4}})
    assert not set(keys[0]) & {call.key for call in calls}


@lmc.function
def explicit(s):
    s += "Start " + lmc.gen("x", temperature=0.0) + lmc.gen("y", stop=[], n=1)
    s += lmc.gen("w", max_tokens=0) + lmc.gen("v", top_logprobs_num=0, min_tokens=0)
    s += lmc.gen("u", logit_bias={}, stop_regex=[], frequency_penalty=0.0) + lmc.gen("t")


def test_explicit_zero_wins_over_the_runs_defaults():
    defaults = {
        "temperature": 0.9, "stop": ["e"], "max_tokens": 5, "top_logprobs_num": 2, "min_tokens": 2,
        "logit_bias": {5: 1.0}, "stop_regex": "[aeiou]", "frequency_penalty": 1.0,
    }  # fmt: skip
    _, calls = every_way(explicit, {}, defaults=defaults)
    by_name = {call.site.partition("@")[0]: call for call in calls}
    params = {name: call.params for name, call in by_name.items()}
    assert (params["x"].temperature, by_name["x"].key) == (0.0, 0)
    assert params["y"].stop == ()
    assert (params["w"].max_tokens, params["w"].min_tokens) == (0, 0)
    assert (params["v"].top_logprobs_num, params["v"].return_logprob) == (0, False)
    assert (params["u"].logit_bias, params["u"].stop_regex) == ((), ())
    assert params["u"].frequency_penalty == 0.0
    inherited = params["t"]
    assert (inherited.temperature, inherited.stop, inherited.max_tokens) == (0.9, ("e",), 5)
    assert (inherited.logit_bias, inherited.stop_regex) == (((5, 1.0),), ("[aeiou]",))
    assert (inherited.return_logprob, inherited.top_logprobs_num) == (True, 2)


WRONG = [
    ("max_tokens", -1, "an int of at least 0"), ("max_tokens", 2.0, "an int"),
    ("max_tokens", True, "an int"), ("min_tokens", -1, "at least 0"), ("n", 0, "from 1 to 4096"),
    ("n", 5000, "from 1 to 4096"), ("stop", "", "none of them empty"), ("stop", ["a", ""], "empty"),
    ("stop", 3, "a str or a list of str"), ("stop_token_ids", [-1], "a list of token ids"),
    ("stop_token_ids", 5, "a list of token ids"), ("stop_regex", "", "at least one character"),
    ("stop_regex", "x*", "at least one character"), ("stop_regex", "(", "a Python regular"),
    ("temperature", -0.1, "at least 0"), ("temperature", "hot", "a number"),
    ("top_p", 0, "above 0 and at most 1"), ("top_p", 1.5, "above 0 and at most 1"),
    ("top_k", 0, "at least 1, or -1"), ("top_k", -2, "at least 1, or -1"),
    ("min_p", 2, "from 0 to 1"), ("frequency_penalty", 3, "from -2 to 2"),
    ("presence_penalty", -3, "from -2 to 2"), ("repetition_penalty", 0, "above 0"),
    ("logit_bias", [1, 2], "a dict from token ids"), ("logit_bias", {"a": "b"}, "finite numbers"),
    ("seed", 1.5, "an int"), ("ignore_eos", 1, "True or False"),
    ("return_logprob", "yes", "True or False"), ("top_logprobs_num", -1, "at least 0"),
    ("logprob_start_len", -2, "at least 0, or -1"), ("return_text_in_logprobs", 0, "True or"),
    ("regex", 3, "a str"),
]  # fmt: skip


def program_of(load, line):
    """Return a program with one line."""
    return load(f"import lmc\n\n@lmc.function\ndef program(s, v=None):\n    s += {line}\n").program


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Return a function that imports a module from its source."""
    import importlib
    import sys

    monkeypatch.syspath_prepend(tmp_path)

    def load_source(source):
        name = f"lmc_tests_parameters_{len(list(tmp_path.iterdir()))}"
        (tmp_path / f"{name}.py").write_text(source)
        importlib.invalidate_caches()
        sys.modules.pop(name, None)
        return importlib.import_module(name)

    return load_source


@pytest.mark.parametrize(("name", "value", "allowed"), WRONG)
def test_wrong_values_are_told_at_their_line(load, name, value, allowed):
    """Constants before the program runs, in whatever mode; others when it does."""
    program = program_of(load, f"lmc.gen('x', {name}={value!r})")
    with pytest.raises(CompileError) as caught:
        capture([program.__lmc_function__])
    assert caught.value.message.startswith(f"{name} must be ")
    assert allowed in caught.value.message
    assert repr(value) in caught.value.message
    assert caught.value.location.line == 5
    with pytest.raises(CompileError):
        program.run(backend=Oracle())
    late = program_of(load, f"lmc.gen('x', {name}=v)")
    for mode in ("compiled", "eager"):
        with pytest.raises(RunError, match=re.escape(caught.value.message)) as caught_late:
            late.run(v=value, backend=Oracle(), mode=mode)
        assert caught_late.value.location.line == 5


def test_every_parameter_has_a_rule_and_is_tried():
    assert set(RULES) == set(GEN_PARAMS)
    assert {name for name, _, _ in WRONG} >= set(VALUES)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("lmc.gen(append=True, regex='[0-9]')", "append=True needs the name"),
        ("lmc.gen('x', skip_special_tokens=False)", "gen has no parameter 'skip_special_tokens'"),
        ("lmc.gen('x', choices=['a'], append=True)", "one generation"),
        ("lmc.gen('x', type=int, dtype=int)", "both are given"),
        (
            "lmc.gen('x', min_tokens=6, max_tokens=4)",
            r"min_tokens must be at most max_tokens \(4\)",
        ),
        ("lmc.select('x', ['a', 'b'], temperature=0.5)", "temperature must be 0, not 0.5"),
        ("lmc.gen('x', choices=['a', 'b'], temperature=1)", "temperature must be 0, not 1"),
        ("lmc.select('x', ['a'], choices_method='')", "choices_method='' is unknown"),
    ],
)
def test_calls_that_are_wrong_as_a_whole(load, line, message):
    with pytest.raises(CompileError, match=message) as caught:
        capture([program_of(load, line).__lmc_function__])
    assert caught.value.location.line == 5


def test_least_tokens_above_the_default_limit_and_of_the_run(load):
    """A generation's own min_tokens must fit; one of the run ends at the limit."""
    with pytest.raises(RunError, match=r"at most max_tokens \(128\), not 200"):
        program_of(load, "lmc.gen('x', min_tokens=200)").run(backend=Oracle())
    program = program_of(load, "'a' + lmc.gen('x', max_tokens=2)")
    result = program.run(backend=Oracle(), min_tokens=9)
    assert result.calls[0].call.params.min_tokens == 2


@pytest.mark.parametrize(
    ("bias", "message"),
    [
        ({"two words here": 1.0}, "tokens of this model, not one"),
        ({10**9: 1.0}, "there is no token 1000000000"),
        ({"": 1.0}, "is 0 tokens"),
    ],
)
def test_biases_that_name_no_token(load, bias, message):
    program = program_of(load, f"lmc.gen('x', logit_bias={bias!r})")
    with pytest.raises(RunError, match=message) as caught:
        program.run(backend=Oracle())
    assert caught.value.location.line == 5


def test_wrong_defaults_of_a_run_and_unknown_ones():
    for name, value, allowed in WRONG:
        if name not in ("seed", "regex"):
            with pytest.raises(UsageError, match=re.escape(allowed)):
                explicit.run(backend=Oracle(), **{name: value})
    with pytest.raises(UsageError, match="'warmth' is no decode parameter"):
        check_param("warmth", 1)


def test_the_references_name_of_a_runs_limit():
    """A run takes max_new_tokens, as there; a generation's own max_tokens wins."""
    for mode in ("compiled", "eager"):
        result = explicit.run(backend=Oracle(), max_new_tokens=3, mode=mode)
        limits = {record.name: record.call.params.max_tokens for record in result.calls}
        assert (limits["x"], limits["w"]) == (3, 0)
    with pytest.raises(UsageError, match="max_tokens is given twice"):
        explicit.run(backend=Oracle(), max_new_tokens=3, max_tokens=4)


def test_stop_patterns_in_streams():
    """Nothing is shown that a pattern may still take away, and the rest of the token is dropped."""
    pieces = []
    oracle = Oracle({"x": "alpha 12 beta 34. gamma"})

    def on_event(kind, name, text, lineage):
        if kind == "gen":
            pieces.append(text)

    @lmc.function
    def program(s):
        s += "Say: " + lmc.gen("x", stop_regex=r"[0-9]+\.", max_tokens=60) + "!"

    result = program.run(backend=oracle, on_event=on_event)
    assert "".join(pieces) == result["x"] == "alpha 12 beta "
    assert result.text() == "Say: alpha 12 beta !"
    assert result.state.get_meta_info("x")["matched_stop"] == r"[0-9]+\."


def test_parameters_survive_the_artifact(tmp_path):
    """The same calls and metas from the file, without the source."""
    oracle = Oracle()
    compiled = lmc.compile(constants, target=oracle.target)
    compiled.save(tmp_path / "constants.lmc")
    loaded = lmc.load(tmp_path / "constants.lmc")
    expected = constants.run("A question. ", backend=oracle, seed=9)
    found = loaded.run("A question. ", backend=oracle, seed=9)
    assert found.value == expected.value
    assert [record.call for record in found.calls] == [record.call for record in expected.calls]


@lmc.function
def on_the_model(s):
    s += "The capital of France is" + lmc.gen(
        "plain", max_tokens=6, temperature=0, return_logprob=True, top_logprobs_num=2,
        logprob_start_len=0,
    )  # fmt: skip
    metas = [s.get_meta_info("plain")]
    for _ in range(2):
        f = s.copy()
        f += " It is" + lmc.gen("biased", max_tokens=3, temperature=0, logit_bias={" cheese": 50.0})
        f += lmc.gen(
            "fined", max_tokens=12, temperature=0, frequency_penalty=2.0, presence_penalty=2.0,
            repetition_penalty=1.5, min_tokens=12,
        )  # fmt: skip
        f += lmc.gen("cut", max_tokens=40, temperature=0.8, seed=5, stop_regex=r"[.,]\s|\n+")
        f += lmc.gen("both", max_tokens=20, regex=r"[a-z ]{4,30}", stop=["e"], temperature=0)
        metas += [[f[x], f.get_meta_info(x)] for x in ("biased", "fined", "cut", "both")]
    return metas


@pytest.mark.model
def test_the_real_model_in_every_mode(tmp_path):
    """Same metas compiled, eager, from a cold cache, a warm one, and beside other instances."""
    from model_support import smollm, smollm_path

    from lmc.codegen.target import load_target
    from lmc.runtime.engine.engine import Engine

    with Engine(smollm(), load_target(smollm_path()), num_slots=4096) as engine:
        cold = on_the_model.run(backend=engine, seed=1).value
        assert on_the_model.run(backend=engine, seed=2).value == cold, (
            "only a seed of its own draws"
        )
        assert on_the_model.run(backend=engine, seed=1, mode="eager").value == cold
        engine.flush_cache()
        batch = list(on_the_model.run_batch([{}] * 4, backend=engine, seed=1))
        assert batch[0].value == cold
        engine.check()
    plain, *rest = cold
    assert plain["input_token_logprobs"][0] == (None, plain["input_token_logprobs"][0][1], "The")
    assert len(plain["input_token_logprobs"]) == plain["prompt_tokens"] == 5
    assert all(value < 0 for value, _, _ in plain["input_token_logprobs"][1:])
    for (value, token_id, _), top in zip(
        plain["output_token_logprobs"], plain["output_top_logprobs"], strict=True
    ):
        assert top[0][:2] == (value, token_id), "greedy takes the likeliest"
        assert top[0][0] >= top[1][0]
    values = dict(zip(("biased", "fined", "cut", "both"), rest[:4], strict=True))
    assert values["biased"][0] == " cheese cheese cheese"
    assert len(set(values["fined"][1]["token_ids"])) == 12, "no token twice"
    assert not re.search(r"[.,]\s|\n+", values["cut"][0])
    assert "e" not in values["both"][0]
    assert values["cut"] != rest[6], "another place in the program draws anew"
