"""A program may return its state, or states that it made: they are read in the result."""

from pathlib import Path
from typing import Any

import pytest

import lmc
from lmc.errors import CaptureError
from lmc.runtime.oracle import Oracle

MODES: dict[str, dict[str, Any]] = {
    "eager": {"mode": "eager"},
    "unoptimised": {"passes": ""},
    "optimised": {},
}


@lmc.function
def own(s, question: str):
    s += lmc.user(question)
    s += lmc.assistant(lmc.gen("said", max_tokens=4))
    return s


@lmc.function
def early(s, count: int):
    s += "One" + lmc.gen("said", max_tokens=3)
    if count > 1:
        return s
    s += "Two" + lmc.gen("more", max_tokens=3)
    return s


@lmc.function
def branches(s, width: int):
    s += "Think." + lmc.gen("said", max_tokens=2)
    forks = s.fork(width)
    forks += lambda i: f" {i}:" + lmc.gen("thought", max_tokens=3)
    return forks


@lmc.function
def one_branch(s, count: int):
    branch = s.fork(2)[1]
    branch += "Aside:" + lmc.gen("said", max_tokens=3)
    if count > 1:
        return branch
    s += "Main:" + lmc.gen("said", max_tokens=2)
    return s


@lmc.function
def asks(s, question: str):
    """Reads what another program returned, by both of its names."""
    first = own(question)
    s += "It said" + first.ret_value["said"] + "/" + first["said"] + lmc.gen("then", max_tokens=2)
    return [first.value.text(), first.text()]


CASES = [
    (own, {"question": "Why?"}),
    *((early, {"count": count}) for count in (1, 2)),
    *((branches, {"width": width}) for width in (0, 1, 3)),
    *((one_branch, {"count": count}) for count in (1, 2)),
    (asks, {"question": "Why?"}),
]


def told(value: Any) -> Any:
    """Return what can be read of a result's value."""
    if isinstance(value, list):
        return [told(item) for item in value]
    return value if isinstance(value, str) else (value.text(), dict(value.variables))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("program", "arguments"), CASES)
def test_returned_states_are_the_same_in_every_mode(
    program: Any, arguments: dict[str, Any], tmp_path: Path
) -> None:
    """No graph break; from an artifact as well."""
    runs = [program.run(**arguments, backend=Oracle(), seed=2, **m) for m in MODES.values()]
    program.compile("oracle").save(tmp_path / "kept.lmc")
    runs.append(lmc.load(tmp_path / "kept.lmc").run(**arguments, backend=Oracle(), seed=2))
    first = (told(runs[0].value), runs[0].text(), dict(runs[0].variables))
    for run in runs:
        assert (told(run.value), run.text(), dict(run.variables)) == first
    assert lmc.check(program, arguments=[arguments], examples=3, rounds=1).is_equal


def test_the_returned_state_is_the_programs_own() -> None:
    """Its text and variables are those of the result."""
    run = own.run("Why?", backend=Oracle())
    assert (run.ret_value.text(), run.ret_value["said"]) == (run.text(), run["said"])


@lmc.function
def takes_branches(s):
    s += branches(2).value[0].text()


@lmc.function
def sometimes(s, count: int):
    s += "One"
    if count > 1:
        return s
    return None


@pytest.mark.parametrize(
    ("program", "message"),
    [(takes_branches, "'branches' returns states, which its caller cannot take"),
     (sometimes, "a state on one path and plain data on another")],
)  # fmt: skip
def test_other_uses_break_with_their_reason(program: Any, message: str) -> None:
    """Told when the program is traced."""
    with pytest.raises(CaptureError, match=message):
        program.trace()
