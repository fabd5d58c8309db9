"""Prompt states: the same ids, texts and turns as the reference interpreter's, at little cost."""

import random
import time

import pytest

from lmc.codegen.target import oracle_target
from lmc.errors import RunError
from lmc.ir.calls import GenResult
from lmc.ir.interpreter_prompt import Prompt
from lmc.ir.turns import default_turns
from lmc.runtime.encodings import Encodings
from lmc.runtime.prompt_state import checked_text, root_state

WORDS = [
    "Hello",
    " world",
    "na",
    "ïve",
    " 12",
    "34",
    "\n",
    " ",
    "日",
    "本🙂",
    "",
    "don",
    "'t",
    "<|im_end|>",
]
ROLES = ["system", "user", "assistant"]


def generated(draw, tokenizer):
    text = "".join(draw.choices(WORDS, k=draw.randint(0, 4)))
    ids = tuple(tokenizer.encode(text))
    tail = draw.choice(["", "", "tail", "é"])
    return GenResult(token_ids=ids, text=tokenizer.decode(ids) + tail, tail=tail)


def step(draw, target, state, prompt):
    """Do the same random thing to both."""
    tokenizer, template = target.tokenizer, target.template
    match draw.choice(["text", "text", "text", "gen", "control", "begin", "end", "fork"]):
        case "text":
            text = draw.choice(WORDS)
            return state.extend(text), prompt.append_text(text)
        case "gen":
            result = generated(draw, tokenizer)
            text = result.text.removesuffix(result.tail)
            made = prompt.append_ids(result.token_ids, text).append_text(result.tail)
            return state.generated(result).tick(), made.count()
        case "control":
            token_id = tokenizer.control_id("<|im_end|>")
            return state.control_token("<|im_end|>"), prompt.append_ids((token_id,), "<|im_end|>")
        case "begin":
            role = draw.choice(ROLES)
            if prompt.open_index is not None:
                with pytest.raises(RunError, match="cannot begin within"):
                    state.begin(role)
                return state, prompt
            pieces = template.begin(role, is_first=not prompt.turns)
            given = (template, tokenizer, role, len(prompt.text))
            before = () if prompt.turns else default_turns(*given)
            return state.begin(role), prompt.append_pieces(pieces, tokenizer).open_turn(
                role, before
            )
        case "end":
            if prompt.open_index is None:
                return state, prompt
            role = prompt.turns[prompt.open_index].role
            made = prompt.close_turn().append_pieces(template.end(role), tokenizer)
            return state.end(role), made
        case _:
            return state.child(1).set("x", 1), prompt.child(1).set("x", 1)


def check(target, state, prompt):
    assert state.text() == prompt.text
    assert state.text_len == len(prompt.text)
    assert state.messages() == prompt.messages
    assert (state.lineage, state.ordinal) == (prompt.lineage, prompt.ordinal)
    assert state.context_ids() == prompt.context(target.tokenizer)
    choices = [" yes", "no", "'s", ""]
    assert state.option_ids(choices) == prompt.options(target.tokenizer, choices)
    assert state.tail(7) == prompt.text[-7:]


@pytest.mark.parametrize("seed", range(12))
def test_states_agree_with_the_interpreter(seed):
    draw, target = random.Random(seed), oracle_target()
    for _ in range(5):
        state, prompt = root_state(target), Prompt()
        check(target, state, prompt)
        for _ in range(24):
            state, prompt = step(draw, target, state, prompt)
            check(target, state, prompt)


@pytest.mark.parametrize("seed", range(6))
def test_no_continuation_changes_the_stable_context(seed):
    draw, target = random.Random(seed), oracle_target()
    for _ in range(10):
        state, prompt = root_state(target), Prompt()
        for _ in range(10):
            stable = state.stable_context()
            assert state.context_ids()[: len(stable)] == stable or not state.text_len
            for text in WORDS:
                ids = state.extend(text).context_ids()
                assert ids[: len(stable)] == stable
            state, prompt = step(draw, target, state, prompt)


def test_how_text_was_cut_changes_nothing():
    draw, target = random.Random(5), oracle_target()
    text = "".join(draw.choices(WORDS, k=60))
    whole = root_state(target).extend(text)
    state = root_state(target)
    for char in text:
        state = state.extend(char)
    assert (
        state.context_ids()
        == whole.context_ids()
        == tuple(target.tokenizer.encode(text, first=True))
    )


def test_states_are_values():
    base = root_state(oracle_target()).extend("base ")
    left, right = base.extend("left"), base.extend("right").set("x", 1)
    assert (left.text(), right.text(), base.text()) == ("base left", "base right", "base ")
    assert "x" not in base.variables
    child = right.child(0).set("y", 2)
    assert right.variables == {"x": 1}
    assert child.variables == {"x": 1, "y": 2}


def test_empty_appends_change_nothing():
    state = root_state(oracle_target()).extend("a")
    assert state.extend("") is state
    nothing = GenResult(token_ids=(), text="")
    assert state.generated(nothing).extend("b").context_ids() == state.extend("b").context_ids()


def test_what_cannot_be_appended_is_told():
    state = root_state(oracle_target())
    with pytest.raises(RunError, match="not int: 5"):
        checked_text(5)
    with pytest.raises(RunError, match="no control token '<nope>'"):
        state.control_token("<nope>")
    with pytest.raises(RunError, match="no turn of 'user' can be closed: none is open"):
        state.end("user")
    with pytest.raises(RunError, match="that of 'user' is open"):
        state.begin("user").end("system")
    with pytest.raises(RunError, match="no variable 'x'") as caught:
        state.set("y", 1).get("x")
    assert "'y'" in str(caught.value)


def test_joins_gather_what_is_new():
    parent = root_state(oracle_target()).extend("P").set("old", 0)
    first = parent.child(0).extend("A").set("x", 1, meta={"m": 1}).set("old", 5)
    second = parent.tick().child(1).extend("B").set("y", 2)
    joined = parent.join([first, second], "gather_variable")
    assert joined.variables == {"old": 0, "x": [1], "y": [2]}
    assert joined.metas == {"x": [{"m": 1}]}
    assert joined.text() == "P"
    appended = parent.join([first, second], "concate_and_append")
    assert (appended.text(), appended.variables) == ("PAB", {"old": 0})
    again = joined.set("x", 7).join([first, second], "gather_variable")
    assert again.variables == {"old": 0, "x": 7, "y": [2]}
    with pytest.raises(RunError, match="join mode 'sideways'"):
        parent.join([], "sideways")


class Counting:
    """A tokenizer that counts the characters that it encodes."""

    def __init__(self, inner):
        self._inner = inner
        self.fingerprint = f"counting {inner.fingerprint}"
        self.characters = 0

    def encode(self, text, *, first=False):
        self.characters += len(text)
        return self._inner.encode(text, first=first)

    def __getattr__(self, name):
        return getattr(self._inner, name)


def test_a_long_chat_encodes_every_text_once():
    class Target:
        name, fingerprint, template = "t", "t", oracle_target().template
        tokenizer = Counting(oracle_target().tokenizer)

    state, answer = root_state(Target()), tuple(oracle_target().tokenizer.encode("fine, yes"))
    started = time.perf_counter()
    for turn in range(1500):
        state = state.begin("user").extend(f"question {turn}?").end("user").begin("assistant")
        assert state.context_ids()
        state = state.generated(GenResult(token_ids=answer, text="fine, yes")).end("assistant")
    assert Target.tokenizer.characters < 1.05 * len(state.text())
    assert time.perf_counter() - started < 20
    assert len(state.messages()) == 3001  # with the template's own system turn


def test_deep_chains_are_freed_without_recursion():
    state = root_state(oracle_target())
    answer = GenResult(token_ids=(65,), text="x")
    for _ in range(50_000):
        state = state.extend("a").generated(answer)
    for _ in range(50_000):
        state = state.extend("b")
    assert len(state.context_ids()) > 100_000
    del state


def test_the_memory_of_encodings_is_bounded():
    encodings = Encodings(oracle_target().tokenizer, max_characters=1000)
    for number in range(200):
        text = f"{number} " * 20
        ids = encodings.encode(text, first=False)
        assert list(ids) == oracle_target().tokenizer.encode(text)
        assert encodings.stable_len(text, first=False) <= len(ids)
    assert len(encodings._known) < 20
    long = "x" * 5000
    assert encodings.encode(long, first=True) == encodings.encode(long, first=True)
