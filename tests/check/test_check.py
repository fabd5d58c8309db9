"""The public face of check: reports, arguments, host functions, reduction, the command."""

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted_faults import FAULTS

import lmc
from lmc.checking.answers import Words, words_of
from lmc.checking.arguments import arguments_strategy
from lmc.checking.program import check_program
from lmc.cli import run_command
from lmc.errors import CaptureError, UsageError
from lmc.frontend.load import load_module
from lmc.ir.parser import parse_module
from lmc.ir.verifier import verify
from lmc.passes.pipeline import pass_names
from lmc.runtime.oracle import Oracle

Load = Callable[[str], ModuleType]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Write a program file and load it."""
    count = 0

    def make(body: str) -> ModuleType:
        nonlocal count
        count += 1
        path = tmp_path / f"checked_{count}.py"
        path.write_text(f"import lmc\n\n{textwrap.dedent(body)}", encoding="utf-8")
        return load_module(path)

    return make


BRANCHES = """
    @lmc.function
    def prog(s, topic: str, n: int = 2):
        s += "Topic: " + topic + lmc.select("kind", choices=["news", "poem", "other"])
        if s["kind"] == "poem":
            s += lmc.gen("line", max_tokens=3)
            if s["line"] == " roses":
                s += "!"
        if topic == "tea":
            s += "hot"
        for i in range(n):
            s += str(i)
        if n > 90:
            s += "many"
        s += "Age " + lmc.gen("age", type=int, max_tokens=30)
        return "old" if s["age"] == 77 else "young"
"""


def test_branches_are_driven_both_ways(load: Load) -> None:
    """By choices, texts and numbers that the program compares with, of answers and arguments."""
    report = lmc.check(load(BRANCHES).prog, examples=150)
    assert report.is_equal, report
    assert [branch for branch in report.branches if not branch.is_covered] == []
    assert len(report.branches) == 5
    assert report.modes[:2] == ("eager", "unoptimised")
    assert report.modes[-1] == "pipeline"
    assert "5 of 5 went both ways" in str(report)


def test_branches_that_do_not_turn_are_told_by_line(load: Load) -> None:
    """With the way that they never went."""
    module = load("""
        @lmc.function
        def prog(s, text: str):
            s += text
            if len(text) > 10_000:
                if text:
                    s += "long"
    """)
    report = lmc.check(module.prog, examples=5)
    told = [str(branch) for branch in report.branches]
    assert told == [
        f"{module.__name__}.py:7:5: never True",
        f"{module.__name__}.py:8:9: never reached",
    ]
    assert all(line in str(report) for line in told)


def test_the_seed_decides_what_is_tried(load: Load) -> None:
    """Two checks with one seed see the same examples."""
    program = load(BRANCHES).prog
    first, again = (check_program(program, examples=20, seed=5, rounds=1) for _ in range(2))
    assert first == again


def test_a_difference_is_shrunk_to_a_short_module(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arguments and answers first; the IR parses, verifies, and names pass and place."""
    program = load("""
        @lmc.function
        def prog(s, word: str, items: list[str]):
            s += "Some words: " + word
            for item in items:
                s += item + lmc.gen("x", max_tokens=2)
            total = 0
            for number in (4, 5):
                total += number - 1
            s += str(total) + lmc.gen("end", max_tokens=1)
            return [total, word]
    """).prog
    FAULTS["fold_uses_another_operator"](monkeypatch)
    report = lmc.check(program, examples=10)
    assert not report.is_equal
    (difference,) = report.differences
    assert difference.mode == "pipeline"
    assert difference.fault == "pass fold"
    assert difference.mismatch.aspect in ("value", "text")
    assert difference.example.args == {"word": "", "items": []}
    assert difference.example.scenario.seed == 0
    module = parse_module(difference.ir)
    verify(module)
    assert sum(1 for _ in module.walk()) <= 9
    assert 'op = "-"' in difference.ir
    assert "pass fold" in str(report)


def test_a_fault_of_the_executor_is_told_as_such(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module is right, what runs it is not."""
    program = load(BRANCHES).prog
    FAULTS["for_loses_the_last_item"](monkeypatch)
    report = lmc.check(program, examples=10)
    assert report.differences[0].fault == "the executor on the unoptimised module"
    assert "cf.for" in report.differences[0].ir


def test_several_faults_are_told_apart(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """One pass that differs does not hide another."""
    program = load("""
        @lmc.function
        def prog(s):
            s.fork(2)
            for x in (3, 2):
                s += str(x) + lmc.gen("g", max_tokens=3)
            return s["g"]
    """).prog
    FAULTS["dce_drops_ticks"](monkeypatch)
    FAULTS["unroll_goes_backwards"](monkeypatch)
    report = lmc.check(program, examples=6)
    assert {difference.mode for difference in report.differences} == {"unroll", "dce"}


HOST = """
    CALLS = []

    def send(text: str, times: int = 1) -> int:
        try:
            CALLS.append(text)
        finally:
            pass
        return len(text)

    @lmc.tool(effects="none")
    def size(text) -> float:
        CALLS.append(text)
        return 0.5

    @lmc.function
    def prog(s, word: str):
        found = send(word, times=2)
        s += word + lmc.gen("x", max_tokens=2)
        send(s["x"])
        return [found + 1, size(word) * 2]
"""


def test_host_functions_are_not_called(load: Load) -> None:
    """Stand-ins answer by the annotated type, also in eager mode, and are taken back."""
    module = load(HOST)
    real = module.send, module.size
    report = lmc.check(module.prog, examples=10)
    assert report.is_equal, report
    assert report.failed == 0
    assert module.CALLS == []
    assert (module.send, module.size) == real


def test_real_host_functions_are_called_once_per_example(load: Load) -> None:
    """Every mode gets what they answered the first time."""
    module = load(HOST)
    report = check_program(
        module.prog, arguments=[{"word": "w"}], examples=4, rounds=1, call_host=True
    )
    assert report.is_equal, report
    assert module.CALLS.count("w") == 2 * report.examples


def test_swapped_effects_are_a_difference(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the answers of stand-ins are the same."""
    module = load("""
        @lmc.tool(effects="write")
        def note(text) -> None:
            print(text)

        @lmc.tool(effects="write")
        def tell(text) -> None:
            print(text)

        @lmc.function
        def prog(s):
            note("a")
            tell("a")
    """)
    FAULTS["effects_swapped"](monkeypatch)
    report = lmc.check(module.prog, examples=2)
    assert report.differences[0].mismatch.aspect == "host calls"


def test_functions_in_closures_and_modules_are_replaced(load: Load) -> None:
    """Wherever the body finds them."""
    module = load("""
        import atexit

        def outer():
            from atexit import register as hidden

            @lmc.function
            def prog(s, word: str):
                hidden(word)
                atexit.unregister(word)
                s += word
            return prog

        prog = outer()
    """)
    report = lmc.check(module.prog, examples=4)
    assert report.is_equal, report
    assert "eager" in report.modes
    assert report.failed == 0, "the real one refuses texts"


def test_a_function_out_of_reach_is_noted(load: Load) -> None:
    """Where no stand-in can be put into the Python body, eager mode is left out."""
    module = load("""
        class Box:
            @staticmethod
            def put(word) -> str:
                with open(word):
                    return word

        @lmc.function
        def prog(s, word: str):
            s += Box.put(word)
    """)
    report = lmc.check(module.prog, examples=2)
    assert "eager" not in report.modes
    assert any("Box.put" in note for note in report.notes)


def test_errors_are_compared_by_kind_and_place(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that fail alike are alike; one that fails elsewhere differs."""
    program = load("""
        @lmc.function
        def prog(s, items: list[str], n: int):
            first = items[n]
            s += first + lmc.gen("x", max_tokens=2)
            return 6 // len(s["x"])
    """).prog
    report = lmc.check(program, examples=30)
    assert report.is_equal, report
    assert 0 < report.failed < report.examples
    FAULTS["dce_drops_what_may_raise"](monkeypatch)
    unread = load("""
        @lmc.function
        def prog(s, items: list[str]):
            items[0]
            return "read"
    """).prog
    assert lmc.check(unread, examples=10).differences[0].mismatch.aspect == "error"


def test_a_compiler_that_raises_is_a_difference(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pass is named."""
    from lmc.passes.unroll import UnrollPass

    def rewrite(self: Any, module: Any, remarks: Any) -> bool:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(UnrollPass, "rewrite", rewrite)
    report = lmc.check(load(BRANCHES).prog, examples=2)
    assert report.differences[0].mismatch.aspect == "compilation"
    assert report.differences[0].fault.startswith("pass unroll")


def test_a_run_that_hangs_is_a_difference(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is cancelled after a while."""
    import lmc.checking.modes
    from lmc.runtime.executor import control_ops

    monkeypatch.setattr(lmc.checking.modes, "TIME_LIMIT_S", 0.5)
    monkeypatch.setattr(control_ops.Loop, "decide", lambda self: self.open())
    program = load("""
        @lmc.function
        def prog(s, n: int):
            i = 0
            while i < 2:
                i += 1
            return i
    """).prog
    report = check_program(program, examples=1, reduce=False)
    assert "did not end" in report.differences[0].mismatch.got


def test_programs_that_never_end_are_not_judged(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing can be said of them, which the report tells."""
    import lmc.checking.modes

    monkeypatch.setattr(lmc.checking.modes, "MAX_STEPS", 500)
    program = load("""
        @lmc.function
        def prog(s):
            i = 0
            while True:
                i += 1
    """).prog
    report = lmc.check(program, examples=1)
    assert (report.examples, report.unjudged) == (0, 1)


def test_arguments_come_from_the_signature() -> None:
    """By annotation, by the default's type, text where nothing is said."""

    def prog(  # type: ignore[no-untyped-def]
        s, plain, n: int, flag: bool, items: list[int], table: dict[str, float],
        maybe: "int | None", kind: "Literal", pair: tuple[int, str], given=3, *, key: str = "k",
    ):  # fmt: skip
        pass

    from typing import Literal

    prog.__annotations__["kind"] = Literal["a", "b"]

    @settings(max_examples=25, database=None, derandomize=True)
    @given(arguments_strategy(prog, {"n": st.just(9)}, Words()))
    def draw(drawn: dict[str, Any]) -> None:
        assert isinstance(drawn["plain"], str)
        assert drawn["n"] == 9
        assert isinstance(drawn["flag"], bool)
        assert all(type(item) is int for item in drawn["items"])
        assert all(type(value) is float for value in drawn["table"].values())
        assert drawn["maybe"] is None or isinstance(drawn["maybe"], int)
        assert drawn["kind"] in ("a", "b")
        assert isinstance(drawn["pair"], tuple)
        assert isinstance(drawn["given"], int)
        assert isinstance(drawn["key"], str)

    draw()


def test_unknown_types_and_names_are_refused() -> None:
    """With the remedy."""

    class Strange:
        pass

    def prog(s: Any, thing: Strange) -> None:
        pass

    with pytest.raises(UsageError, match="no values are known for the argument 'thing'") as caught:
        arguments_strategy(prog, None, Words())
    assert "strategies=" in str(caught.value)
    with pytest.raises(UsageError, match="no argument 'other'"):
        arguments_strategy(prog, {"other": st.none()}, Words())


def test_given_arguments_are_chosen_from(load: Load) -> None:
    """Instead of drawn ones."""
    module = load("""
        @lmc.function
        def prog(s, turns):
            for turn in turns:
                s += turn["text"]
    """)
    report = lmc.check(module.prog, examples=6, arguments=[{"turns": [{"text": "a"}]}])
    assert report.is_equal
    assert report.failed == 0
    with pytest.raises(UsageError, match="no set of arguments"):
        lmc.check(module.prog, arguments=[])


def test_a_scripted_oracle_keeps_its_answers(load: Load) -> None:
    """So that a user can check one path."""
    program = load(BRANCHES).prog
    oracle = Oracle({"kind": "news", "age": "3"})
    report = check_program(program, examples=10, oracle=oracle, rounds=1)
    assert report.is_equal
    by_line = {branch.location.line: branch for branch in report.branches}
    assert not by_line[7].was_true


def test_words_are_found_in_the_module(load: Load) -> None:
    """What is compared with, and what is stopped at."""
    module = load("""
        @lmc.function
        def prog(s, x: str):
            s += lmc.gen("a", stop=["END", "."])
            if x == "red" or s["a"].startswith("blue") or len(x) > 12:
                s += "!"
    """)
    words = words_of(module.prog.trace())
    assert set(words.texts) == {"red", "blue"}
    assert words.numbers == [12]
    assert words.stops == ["END", "."]


def test_graph_breaks_are_not_checked(load: Load) -> None:
    """There is nothing to compare with."""
    module = load("""
        @lmc.function
        def prog(s):
            class Local:
                pass

            s += "a"
    """)
    with pytest.raises(CaptureError):
        lmc.check(module.prog)


def test_a_missing_hypothesis_is_told(monkeypatch: pytest.MonkeyPatch, load: Load) -> None:
    """With the remedy, not as a traceback."""
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(UsageError, match="hypothesis") as caught:
        lmc.check(load(BRANCHES).prog)
    assert "pip install hypothesis" in str(caught.value)


# The command.


def test_the_command_prints_the_report(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    """And exits with 0 where nothing differs."""
    path = load(BRANCHES).__file__
    assert run_command(["check", f"{path}:prog", "--examples", "8", "--seed", "3"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("checked prog: ")
    assert f"eager, unoptimised, {', '.join(pass_names())}" in out
    assert out.endswith("no difference\n")


def test_the_command_exits_with_1_on_a_difference(
    load: Load, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report has arguments, both values, and the IR."""
    FAULTS["select_takes_the_worst"](monkeypatch)
    assert run_command(["check", str(load(BRANCHES).__file__), "--examples", "5"]) == 1
    out = capsys.readouterr().out
    for part in ("difference: ", "arguments: ", "answers: seed", "expected:", "got:"):
        assert part in out


def test_the_command_takes_arguments_from_a_file(
    load: Load, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A JSON object per line; a wrong one is told."""
    path = str(load(BRANCHES).__file__)
    lines = tmp_path / "args.jsonl"
    lines.write_text('{"topic": "tea"}\n{"topic": "x", "n": 95}\n')
    assert run_command(["check", path, "--args", str(lines), "--examples", "12"]) == 0
    lines.write_text('{"n": 3}\n')
    assert run_command(["check", path, "--args", str(lines)]) == 2
    assert "args.jsonl" in capsys.readouterr().err


def test_the_command_refuses_artifacts(capsys: pytest.CaptureFixture[str]) -> None:
    """They have no Python body."""
    assert run_command(["check", "prog.lmc"]) == 2
    assert "artifact" in capsys.readouterr().err
