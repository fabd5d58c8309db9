"""The oracle: a pure function of the call, with scripts, limits, stops and constraints."""

import re
import threading
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmc.codegen.target import oracle_target
from lmc.errors import UsageError
from lmc.ir.calls import Constraint, GenCall, SamplingParams, ScoreCall
from lmc.runtime.oracle import Oracle
from lmc.runtime.oracle_text import WORDS
from lmc.runtime.prompt_state import root_state

TOKENIZER = oracle_target().tokenizer
CONTEXT = tuple(TOKENIZER.encode("Tell me:", first=True))
PATTERNS = [
    r"-?(0|[1-9][0-9]{0,17})",
    r"(True|False)",
    r"[A-Z][a-z]+( [A-Z][a-z]+)*",
    r'\{"name": "[^"]{1,20}", "age": [0-9]{1,3}\}',
    r"yes|no|naïve 🙂",
    r".*",
    r"(a|b)*c",
    r"",
    r"[^\n]{3,}\n",
]  # fmt: skip


def gen(site="", constraint=None, context=CONTEXT, key=0, **params):
    return GenCall(
        context,
        SamplingParams(**params),
        Constraint("regex", constraint) if constraint is not None else None,
        key,
        site,
    )


def random_calls(count):
    contexts = [CONTEXT, (1, 2, 3), (TOKENIZER.empty_context_id,)]
    for number in range(count):
        pattern = PATTERNS[number % len(PATTERNS)] if number % 2 else None
        stop = ("\n", "es") if number % 3 else ()
        yield gen(
            f"x{number}@f:1:1", pattern, contexts[number % 3], number, max_tokens=1 + number % 40,
            stop=stop, min_tokens=number % 4, return_logprob=number % 5 == 0,
        )  # fmt: skip


def test_answers_depend_on_the_call_alone():
    calls = list(random_calls(120))
    first = [Oracle(seed=3).generate(call) for call in calls]
    oracle = Oracle(seed=3)
    assert [oracle.generate(call) for call in reversed(calls)] == first[::-1]
    moved = [replace(call, site="elsewhere@g:2:2") for call in calls]
    assert [oracle.generate(call) for call in moved] == first
    assert [Oracle(seed=4).generate(call) for call in calls] != first


@pytest.mark.parametrize("change", ["context", "key", "params", "constraint"])
def test_every_part_of_a_call_counts(change):
    oracle = Oracle()
    changed = {
        "context": gen(context=(*CONTEXT, 65)),
        "key": gen(key=1),
        "params": gen(temperature=0.5),
        "constraint": gen(constraint=r".{8,}"),
    }
    assert oracle.generate(gen()) != oracle.generate(changed[change])


def test_answers_hold_what_the_tokenizer_says():
    oracle = Oracle()
    for call in random_calls(200):
        result = oracle.generate(call)
        assert len(result.token_ids) <= call.params.max_tokens
        assert TOKENIZER.decode(result.token_ids) + result.tail == result.text
        assert not any(stop in result.text for stop in call.params.stop) or call.params.min_tokens
        if call.params.return_logprob:
            assert result.logprobs is not None
            assert len(result.logprobs) == len(result.token_ids)
        if call.constraint is not None:
            is_match = re.fullmatch(call.constraint.source, result.text) is not None
            assert result.complete == (is_match and result.finish_reason != "length")
            assert is_match or result.finish_reason == "length" or result.matched_stop


def test_unscripted_text_is_hard_on_borders():
    oracle = Oracle()
    results = [oracle.generate(gen(key=key)) for key in range(300)]
    text = "".join(result.text for result in results)
    assert all(word in text for word in WORDS)
    unlike = [r for r in results if tuple(TOKENIZER.encode(r.text)) != r.token_ids]
    assert unlike, "ids that no encoder gives for the text"
    assert len({len(result.token_ids) for result in results}) > 20
    cut = [oracle.generate(gen(key=key, max_tokens=3)) for key in range(200)]
    assert any(len(r.token_ids) < 3 and r.finish_reason == "length" for r in cut), "cut characters"


def test_lengths_follow_the_parameters():
    oracle = Oracle()
    for key in range(30):
        assert len(oracle.generate(gen(key=key, min_tokens=50)).token_ids) >= 45
        endless = oracle.generate(gen(key=key, ignore_eos=True, max_tokens=30))
        assert endless.finish_reason == "length"
    nothing = oracle.generate(gen(max_tokens=0))
    assert (nothing.token_ids, nothing.text, nothing.finish_reason) == ((), "", "length")
    assert not oracle.generate(gen(constraint="a+", max_tokens=0)).complete
    assert not oracle.generate(gen(constraint="a*", max_tokens=0)).complete
    assert oracle.generate(gen(constraint="a{0}", max_tokens=1)).complete


def test_scripts_answer_by_name():
    oracle = Oracle({"a": "An answer.\nMore", "b": ["one", "two", "three"]})
    assert oracle.generate(gen("a@f.py:1:2")).text == "An answer.\nMore"
    stopped = oracle.generate(gen("a@f.py:1:2", stop=("\n",)))
    assert (stopped.text, stopped.matched_stop) == ("An answer.", "\n")
    assert oracle.generate(gen("a@f.py:1:2", max_tokens=1)).finish_reason == "length"
    unscripted = oracle.generate(gen("ab@f.py:1:2"))
    assert unscripted == Oracle().generate(gen())
    seen = {oracle.generate(gen("b@f", context=(*CONTEXT, n))).text for n in range(40)}
    assert seen == {"one", "two", "three"}
    repeated = [oracle.generate(gen("b@f", key=key)).text for key in range(9)]
    assert len(set(repeated)) == 1, "the context alone decides"


def test_a_script_may_be_a_function():
    def script(name, prompt, call):
        assert name == "x"
        return prompt.upper() if isinstance(call, GenCall) and call.key else None

    oracle = Oracle(script)
    state = root_state(oracle.target).begin("user").extend("hi é")
    call = gen("x@f", context=state.context_ids(), key=1)
    assert oracle.generate(call).text == state.text().upper()
    assert oracle.spell(state.context_ids()) == state.text()
    assert oracle.generate(gen("x@f")) == Oracle().generate(gen())


def test_scripted_answers_obey_the_constraint():
    oracle = Oracle({"n": "42", "bad": "4x", "long": "yes!", "short": "ye"})
    assert oracle.generate(gen("n@f", r"[0-9]+")).complete
    assert not oracle.generate(gen("n@f", r"[0-9]+x", max_tokens=1)).complete
    for name, pattern in (("bad", r"[0-9]+"), ("long", "yes"), ("short", "yes"), ("n", "[0-9]{3}")):
        with pytest.raises(UsageError, match=f"'{name}', which does not match its regex"):
            oracle.generate(gen(f"{name}@f", pattern))


def test_stop_token_ids_end_an_answer():
    ids = TOKENIZER.encode("one two three")
    result = Oracle({"a": "one two three"}).generate(gen("a@f", stop_token_ids=(ids[1],)))
    assert result.token_ids == (ids[0],)
    assert (result.finish_reason, result.matched_stop) == ("stop", ids[1])


def score(site, text, options):
    state = root_state(oracle_target()).extend(text)
    return ScoreCall(*state.option_ids(options), site)


@settings(max_examples=60, deadline=None)
@given(
    st.text(max_size=12),
    st.lists(st.text(min_size=1, max_size=6), min_size=2, max_size=5, unique=True),
    st.integers(0, 4),
)
def test_scripted_choices_win(text, options, index):
    chosen = options[index % len(options)]
    call = score("s@f", text, options)
    if any(not ids for ids in call.options):
        return  # an option that adds no token of its own cannot be told apart
    rows = Oracle({"s": chosen}).score(call).logprobs
    means = [sum(row) / len(row) for row in rows]
    texts = [TOKENIZER.decode((*call.context, *ids)) for ids in call.options]
    best = means.index(max(means))
    assert texts[best].endswith(chosen)


def test_scripted_choices_win_by_every_method():
    options = ["yes", "no", "maybe"]
    for chosen in options:
        oracle = Oracle({"s": chosen})
        rows = oracle.score(score("s@f", "Well: ", options)).logprobs
        alone = ScoreCall(
            (TOKENIZER.empty_context_id,),
            tuple(tuple(TOKENIZER.encode(option, first=True)) for option in options),
            "s@f",
        )
        less = oracle.score(alone).logprobs
        means = [sum(row) / len(row) for row in rows]
        apart = [m - sum(row) / len(row) for m, row in zip(means, less, strict=True)]
        assert options[means.index(max(means))] == chosen
        assert options[apart.index(max(apart))] == chosen
        assert options[max(range(3), key=lambda i: rows[i][0])] == chosen


def test_unscripted_scores_vary_and_are_pure():
    oracle = Oracle()
    calls = [score("s@f", f"Prompt {n}: ", ["yes", "no", "perhaps"]) for n in range(60)]
    best = set()
    for call in calls:
        rows = oracle.score(call).logprobs
        assert rows == Oracle().score(call).logprobs
        assert [len(row) for row in rows] == [len(option) for option in call.options]
        assert all(value < 0 for row in rows for value in row)
        best.add(max(range(3), key=lambda i: sum(rows[i]) / len(rows[i])))
    assert best == {0, 1, 2}


def test_a_scripted_choice_must_be_an_option():
    with pytest.raises(UsageError, match=r"answers 'never' to the select 's'"):
        Oracle({"s": "never"}).score(score("s@f", "Well: ", ["yes", "no"]))


def test_as_a_backend_it_says_the_same():
    oracle = Oracle({"bad": "x"})
    for call in random_calls(40):
        results, pieces = [], []
        ticket = oracle.submit_gen(call, results.append, pieces.append)
        ticket.cancel()
        assert results == [oracle.generate(call)]
        assert "".join(pieces) == results[0].text
    failed = []
    oracle.submit_gen(gen("bad@f", "[0-9]"), failed.append)
    assert isinstance(failed[0], UsageError)
    prefix = []
    oracle.submit_prefill(CONTEXT, prefix.append)
    assert prefix[0].computed_tokens == len(CONTEXT)
    prefix[0].release()


def test_threads_get_the_same_answers():
    oracle, calls = Oracle(), list(random_calls(60))
    expected = [Oracle().generate(call) for call in calls]
    found = {}
    threads = [
        threading.Thread(target=lambda n=n: found.update({n: [oracle.generate(c) for c in calls]}))
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(answers == expected for answers in found.values())
    assert len(found) == 4
