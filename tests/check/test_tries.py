"""`try` statements mean the same in every mode, both arms of every branch taken."""

import inspect
import json
import time
from pathlib import Path

import pytest
from hypothesis import strategies as st

import lmc
from lmc.checking.program import check_program
from lmc.codegen.lower import lower
from lmc.errors import CaptureError, RunError
from lmc.frontend.load import load_programs
from lmc.ir.graph import to_dot, to_mermaid

PROGRAMS = load_programs(Path(__file__).parent / "tries.py")
WORDS = st.sampled_from(
    ["", "5", "12", "abc", "a", "zz", "[1]", "123", "-4", "3", "9", "2.5", "{", "ab", "12345"]
)
STRATEGIES = {"x": WORDS, "xs": st.lists(WORDS, max_size=4)}
ONE_ARM = {"conditions"}
"""Programs of which one arm cannot be taken."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_mode_runs_alike(name: str) -> None:
    program = PROGRAMS[name]
    parameters = inspect.signature(program.__lmc_function__).parameters
    strategies = {key: made for key, made in STRATEGIES.items() if key in parameters}
    report = check_program(
        program, strategies=strategies, examples=40, rounds=1, reduce=False, call_host=True
    )
    assert report.is_equal, report
    if name not in ONE_ARM:
        assert all(branch.is_covered for branch in report.branches), report


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "inner"])
def test_drawings_show_the_try(name: str) -> None:
    module = PROGRAMS[name].trace()
    for drawing in (to_dot(module), to_mermaid(module)):
        assert "raised" in drawing


@lmc.function
def again(s):
    """The same call, until it is a number that is not cut."""
    for _ in range(4):
        try:
            s += lmc.gen("n", type=int, max_tokens=3, temperature=1)
            return s["n"]
        except ValueError:
            continue
    return None


@lmc.function
def before(s):
    """The generation fails before the try, in which it is read."""
    s += "a" + lmc.gen("n", type=int, max_tokens=1)
    try:
        n = s["n"]
    except Exception:
        n = "caught"
    return n


@lmc.function
def progress(s):
    """What was appended before the call that fails stays."""
    s += "a"
    try:
        s += "b" + lmc.gen("g", max_tokens=2) + "c" + lmc.gen("n", type=int, max_tokens=1) + "d"
    except lmc.errors.RunError as error:
        s += f"[{error}]"
    return s.text()


MODES = [{"mode": "eager"}, {"passes": ""}, {}]


@pytest.mark.parametrize("options", MODES, ids=str)
def test_a_call_that_failed_counts_so_the_next_has_another_key(options) -> None:
    asked = []

    def answer(name, prompt, call):
        asked.append(call.key)
        return "1234567" if len(asked) < 3 else "7"

    assert again.run(backend=lmc.Oracle(answer), seed=1, **options).value == 7
    assert len(set(asked)) == 3


@pytest.mark.parametrize("options", MODES, ids=str)
def test_a_call_that_failed_before_the_try_ends_the_run(options) -> None:
    with pytest.raises(RunError, match="was cut") as caught:
        before.run(backend=lmc.Oracle({"n": "1234567"}), seed=1, **options)
    assert caught.value.location is not None


@pytest.mark.parametrize("options", MODES, ids=str)
def test_what_was_appended_before_a_call_that_fails_stays(options) -> None:
    made = progress.run(backend=lmc.Oracle({"g": "gg", "n": "1234567"}), seed=1, **options)
    assert made.value == f"abggc[the int was cut before it was complete: {made.value[-3]!r}]"


def down(s, n):
    """Changes a state, calls itself, fails in the end."""
    s += f"{n}"
    if n == 0:
        raise ValueError("zero")
    down(s, n - 1)


@lmc.function
def recursive(s, n: int):
    """What `down` had appended would be lost."""
    try:
        down(s, n)
    except ValueError:
        s += "z"


def test_a_recursive_helper_in_a_try_is_a_graph_break() -> None:
    with pytest.raises(CaptureError, match="recursive helper"):
        recursive.trace()


@lmc.tool
def slow(seconds: float) -> str:
    """Waits."""
    time.sleep(seconds)
    return "done"


@lmc.function
def patient(s):
    """Would catch anything."""
    try:
        s += slow(0.6)
        s += slow(0.6)
    except Exception:
        s += "caught"
    return s.text()


@pytest.mark.parametrize("options", MODES, ids=str)
def test_no_handler_catches_that_the_time_is_over(options) -> None:
    with pytest.raises(RunError, match="took longer than"):
        patient.run(backend="oracle", timeout=0.2, **options)


@lmc.function
def decode(s, text: str):
    """Catches a class of a module."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        return error.pos


def test_an_artifact_lists_the_classes_that_it_needs(tmp_path: Path) -> None:
    compiled = decode.compile("oracle")
    path = tmp_path / "decode.lmc"
    compiled.save(path)
    loaded = lmc.load(path)
    assert "json.decoder:JSONDecodeError" in lower(decode.trace()).callees()
    assert loaded.run(text="[1,", backend="oracle").value == 3
    assert loaded.run(text="[1]", backend="oracle").value == [1]


@pytest.mark.parametrize("options", MODES, ids=str)
def test_a_stream_shows_no_text_of_what_was_cut(options) -> None:
    oracle = lmc.Oracle({"g": "gg", "n": "1234567"})
    handle = progress.run(backend=oracle, seed=1, stream=True, **options)
    assert "".join(handle.text_iter()) == handle.value
