"""Known problems of other systems: programs, stop strings and streams. Each is tested here as a
user meets it: by a program, in both modes, on the oracle or an engine over a fake model."""

import asyncio
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations

import pytest

import lmc
from lmc.errors import RunError
from lmc.ir.parser import parse_module
from lmc.ir.printer import print_module
from lmc.runtime.oracle import Oracle

both_modes = pytest.mark.parametrize("mode", ["compiled", "eager"])


@pytest.fixture
def engine(fakes):
    """Return what makes engines over a fake model; they are closed in the end."""
    made = []

    def make(**options):
        made.append(fakes.make_engine(**options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def streamed(program, backend, name="x", **options):
    """Return the pieces of a variable, and the run's handle."""
    run = program.run(stream=True, backend=backend, seed=1, **options)
    return list(run.text_iter(name)), run


# -- the language ------------------------------------------------------------------------------


@lmc.function
def forks_first(s, size: int):
    branches = s.fork(size)
    for i, branch in enumerate(branches):
        branch += f"{i}: " + lmc.gen("o", max_tokens=4)
    s += ""
    others = s.fork(size)
    for i, branch in enumerate(others):
        branch += f"{i}: " + lmc.gen("p", max_tokens=4)
    branches.join()
    others.join()
    return (s["o"], s["p"]) if size else ([], [])


@both_modes
def test_a_fork_before_any_text(mode):
    for size in (0, 1, 3):
        run = forks_first.run(size, backend=Oracle(), seed=1, mode=mode)
        assert run.text() == ""
        assert [len(run.calls), *map(len, run.value)] == [2 * size, size, size]
        assert all(record.call.context for record in run.calls), "no prompt of no tokens"


@lmc.function
def one_of_three_fails(s):
    branches = s.fork(3)
    for i, branch in enumerate(branches):
        branch += f"{i}" + lmc.gen("o", max_tokens=4, stop="!")
    return branches[0]["o"] + branches[2]["o"]


@both_modes
def test_a_branch_that_fails_does_not_stop_the_others(mode):
    def script(name, prompt, call):
        if prompt == "1":
            raise ValueError("broken")
        return f"fine{prompt}"

    assert one_of_three_fails.run(backend=Oracle(script), mode=mode).value == "fine0fine2"


@lmc.function
def three_colours(s):
    s += "Name a colour: " + lmc.gen("c", n=3, max_tokens=3) + " end"
    return s["c"]


@both_modes
def test_n_samples_are_a_list_and_the_prompt_goes_on_with_the_first(mode):
    run = three_colours.run(backend=Oracle(), seed=5, mode=mode)
    assert isinstance(run.value, list)
    assert len(run.value) == len(set(run.value)) == 3
    assert run.text() == f"Name a colour: {run.value[0]} end"
    assert [record.sample for record in run.calls] == [0, 1, 2]


@lmc.function
def long_prompt(s, doc: str):
    s += doc + lmc.gen("x", max_tokens=4)


@both_modes
def test_an_awaited_run_with_too_long_a_prompt_raises_promptly(mode, engine):
    backend = engine(num_slots=512)

    async def ask(doc):
        started = time.monotonic()
        with pytest.raises(RunError, match="tokens") as caught:
            await long_prompt.arun(doc, backend=backend, mode=mode)
        # What is compiled is refused before its first call.
        told = "cannot fit" if mode == "compiled" else "the prompt ends in "
        assert told in str(caught.value)
        assert caught.value.location.line == long_prompt.func.__code__.co_firstlineno + 2
        return time.monotonic() - started

    async def ask_in_a_server():
        errors = await asyncio.gather(*(ask("ab " * 20_000) for _ in range(3)))
        assert len(asyncio.all_tasks()) == 1
        return max(errors)

    assert asyncio.run(ask_in_a_server()) < 10
    end = time.monotonic() + 5
    while any(t.name in ("lmc-executor", "lmc-eager") for t in threading.enumerate()):
        assert time.monotonic() < end
    assert asyncio.run(long_prompt.arun("ab", backend=backend, mode=mode)).text().startswith("ab")


@lmc.function
def own_list(s):
    s["xs"] = ["1", "2"]
    branch = s.fork(1)[0]
    branch += lmc.gen("d", regex="[0-9]", max_tokens=2)
    branch["xs"] = branch["xs"] + [branch["d"]]
    s += lmc.gen("d", regex="[0-9]", max_tokens=2)
    s["xs"] = s["xs"] + [s["d"], s["d"]]
    return branch["xs"]


@lmc.function
def appending_gen(s):
    s.set("xs", ["1", "2"])
    forks = s.fork(2)
    for fork in forks:
        fork += lmc.gen("xs", append=True, regex="[0-9]", max_tokens=2)
    forks[1] += lmc.gen("xs", append=True, regex="[0-9]", max_tokens=2)
    s += lmc.gen("xs", append=True, regex="[0-9]", max_tokens=2)
    return [fork["xs"] for fork in forks]


@both_modes
def test_a_list_is_a_branchs_own(mode):
    run = own_list.run(backend=Oracle(), seed=2, mode=mode)
    assert [len(run["xs"]), len(run.value)] == [4, 3]
    assert run["xs"][:2] == run.value[:2] == ["1", "2"]


@both_modes
def test_a_generation_is_added_to_a_branchs_own_list(mode):
    run = appending_gen.run(backend=Oracle(), seed=2, mode=mode)
    lists = [run["xs"], *run.value]
    assert list(map(len, lists)) == [3, 3, 4]
    for held in lists:
        assert held[:2] == ["1", "2"]
        assert all(re.fullmatch("[0-9]", digit) for digit in held[2:])
    assert run.text() == lists[0][2]


@lmc.function
def quoted(s):
    s += '"'
    s += lmc.gen("v", stop='"')
    s += '", \\ and \n\0 é '


@both_modes
def test_quotes_next_to_a_hole(mode):
    run = quoted.run(backend=Oracle({"v": 'in"side'}), mode=mode)
    assert run.text() == '"in", \\ and \n\0 é '
    text = print_module(quoted.trace())
    assert print_module(parse_module(text)) == text
    assert r'"\", \\ and \n\u0000 é "' in text


def answers(s):
    with s.assistant():
        s += lmc.gen("a", max_tokens=3)


@lmc.function
def role_in_helper(s):
    s += lmc.user("hi")
    answers(s)


@lmc.function
def role_inline(s):
    s += lmc.user("hi")
    with s.assistant():
        s += lmc.gen("a", max_tokens=3)


@both_modes
def test_roles_within_a_helper(mode):
    runs = [p.run(backend=Oracle(), seed=1, mode=mode) for p in (role_in_helper, role_inline)]
    assert runs[0].text() == runs[1].text()
    assert [turn["role"] for turn in runs[0].messages()] == ["system", "user", "assistant"]
    assert runs[0].calls[0].call == runs[1].calls[0].call


@lmc.function
def begun_by_marks(s):
    s += lmc.user("List:") + lmc.assistant_begin() + "1. " + lmc.gen("a", max_tokens=3)


@lmc.function
def begun_in_a_block(s):
    s += lmc.user("List:")
    with s.assistant():
        s += "1. " + lmc.gen("a", max_tokens=3)


@both_modes
def test_the_models_turn_goes_on_from_what_the_program_has_begun(mode):
    """The prompt ends with the program's own text, and no mark of a turn's end behind it."""
    contexts = []
    for program in (begun_by_marks, begun_in_a_block):
        backend = Oracle()
        run = program.run(backend=backend, seed=1, mode=mode)
        context = run.calls[0].call.context
        tokenizer = backend.target.tokenizer
        controls = [at for at, i in enumerate(context) if tokenizer.control_text(i) is not None]
        assert tokenizer.decode(context[controls[-1] + 1 :]) == "assistant\n1. "
        assert "assistant\n1. " + run["a"] in run.text()
        contexts.append(context)
    assert contexts[0] == contexts[1]


@lmc.function
def constrained(s, pattern: str):
    s += lmc.gen("x", regex=pattern, max_tokens=24)


def test_constraints_compiled_by_many_threads():
    patterns = [f"[a-c]{{{n % 5 + 1}}}-{n}(x|y{n})" for n in range(60)] * 3
    backend = Oracle()
    alone = [constrained.run(p, backend=Oracle(), seed=1)["x"] for p in patterns[:60]]
    with ThreadPoolExecutor(8) as pool:
        made = pool.map(lambda p: constrained.run(p, backend=backend, seed=1)["x"], patterns)
        assert list(made) == alone * 3


@lmc.function
def zeros(s):
    s += lmc.gen("x", temperature=0.0, max_tokens=4) + lmc.gen("z", stop=[], max_tokens=4)
    s += lmc.gen("w", max_tokens=0)


@both_modes
def test_explicit_zeros_win_over_defaults(mode):
    run = zeros.run(backend=Oracle(), temperature=0.9, stop="e", max_tokens=9, mode=mode)
    first, second, third = (record.call.params for record in run.calls)
    assert first.temperature == 0.0
    assert first.stop == ("e",)
    assert (second.temperature, second.stop) == (0.9, ())
    assert (third.max_tokens, run["w"]) == (0, "")


# -- stop strings and streams ------------------------------------------------------------------


@lmc.function
def stopped(s, stops: list, limit: int):
    s += "Say: " + lmc.gen("x", stop=stops, max_tokens=limit) + "|" + lmc.gen("y", max_tokens=2)


@both_modes
def test_a_stop_string_that_spans_tokens(mode):
    backend = Oracle({"x": "alpha beta gamma delta", "y": "end"})
    pieces, run = streamed(stopped, backend, stops=["beta gamma"], limit=40, mode=mode)
    assert "".join(pieces) == run["x"] == "alpha "
    assert len(pieces) > 1
    meta = run.get_meta_info("x")
    assert (meta["finish_reason"], meta["matched_stop"]) == ("stop", "beta gamma")
    assert run.text() == "Say: alpha |end"
    beside, whole = streamed(stopped, backend, None, stops=["beta gamma"], limit=40, mode=mode)
    assert "".join(beside) == whole.text() == run.text()


@both_modes
def test_of_several_stops_the_earliest_counts(mode):
    backend = Oracle({"x": 'Ann" , Bob]', "y": "end"})
    for stops in permutations(["]", ",", '"']):
        pieces, run = streamed(stopped, backend, stops=list(stops), limit=40, mode=mode)
        assert "".join(pieces) == run["x"] == "Ann"
        assert run.get_meta_info("x")["matched_stop"] == '"'
    pieces, run = streamed(stopped, backend, stops=["nn", 'nn" ,'], limit=40, mode=mode)
    assert ("".join(pieces), run.get_meta_info("x")["matched_stop"]) == ("A", "nn")


@lmc.function
def newlines(s):
    s += "a" + lmc.gen("x", stop="\n", min_tokens=6, max_tokens=12, temperature=0)


@both_modes
def test_a_stop_together_with_a_minimum_length(mode, engine, fakes):
    model = fakes.FakeModel()
    backend = engine(model=model)
    model.favourite = backend.target.tokenizer.id_of(b"\n")
    pieces, run = streamed(newlines, backend, mode=mode)
    assert "".join(pieces) == run["x"] == "\n" * 6
    meta = run.get_meta_info("x")
    assert (meta["finish_reason"], meta["matched_stop"]) == ("stop", "\n")
    model.favourite = 1  # the end token: it may not come before either
    _, run = streamed(newlines, backend, mode=mode)
    assert len(run.calls[0].result.token_ids) == 6
    assert run.get_meta_info("x")["finish_reason"] == "stop"


@lmc.function
def broken_bytes(s, count: int):
    s += "a" + lmc.gen("x", max_tokens=count, temperature=0)


@both_modes
def test_undecodable_output_flows_and_can_be_ended(mode, engine, fakes):
    model = fakes.FakeModel()
    backend = engine(model=model, num_slots=8192)
    model.favourite = backend.target.tokenizer.id_of(b"\xff")
    pieces, run = streamed(broken_bytes, backend, count=400, mode=mode)
    assert "".join(pieces) == run["x"] == "\ufffd" * 400
    assert len(pieces) > 100, "it comes steadily"
    handle = broken_bytes.run(4000, stream=True, backend=backend, mode=mode)
    stream = handle.text_iter("x")
    assert [next(stream) for _ in range(5)] == ["\ufffd"] * 5
    handle.cancel()
    assert handle.error() is not None


@both_modes
def test_no_half_character_is_ever_shown(mode, engine):
    script = {"x": "naïve 🙂👩‍👩‍👧 日本語", "y": "é"}
    pieces, run = streamed(stopped, Oracle(script), stops=["語"], limit=60, mode=mode)
    assert "".join(pieces) == run["x"] == script["x"][:-1]
    assert not any("\ufffd" in piece for piece in pieces)
    backend = engine()
    for seed in range(5):
        handle = long_prompt.run("abc", stream=True, backend=backend, seed=seed, mode=mode)
        assert "".join(handle.text_iter()) == handle.text()


@lmc.function
def stop_pattern(s):
    s += 'Name: "' + lmc.gen("x", stop_regex='"', max_tokens=20) + '" next ' + lmc.gen("y")


@both_modes
def test_a_stop_pattern_inside_a_token(mode):
    backend = Oracle({"x": 'test", next', "y": "end"})
    pieces, run = streamed(stop_pattern, backend, mode=mode)
    assert "".join(pieces) == run["x"] == "test"
    assert run.text() == 'Name: "test" next end'
    assert run.calls[0].result.text == "test"
    assert backend.spell(run.calls[1].call.context) == 'Name: "test" next '
