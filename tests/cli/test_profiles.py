"""`lmc run --profile` records, `lmc compile --profile` uses it and says so."""

import json
import os

import pytest
from command_support import EXAMPLES

import lmc as front
from lmc.errors import UsageError
from lmc.program import Program
from lmc.sources import find_program

BODY = """
@lmc.function
def route(s, question: str):
    s += "Question: " + question + "\\nKind: " + lmc.select("kind", choices=["sum", "other"])
    match s["kind"]:
        case "sum":
            s += "\\nAdd: " + lmc.gen("added", max_tokens=4)
        case "product":
            s += "\\nMultiply: " + lmc.gen("product", max_tokens=4)
        case _:
            s += "\\nSay: " + lmc.gen("said", max_tokens=6, stop="\\n")
"""


@pytest.fixture
def rows(tmp_path):
    """Arguments of several runs."""
    path = tmp_path / "rows.jsonl"
    questions = [f"What is {number} and {number}?" for number in range(12)]
    path.write_text("\n".join(json.dumps({"question": q}) for q in questions))
    return path


def record(lmc, program, rows, *more):
    told = lmc("run", program, "--model", "oracle", "--seed", 1, "--args", rows,
               "--profile", "run.json", *more)  # fmt: skip
    assert told.code == 0, told.err
    with open("run.json") as file:
        return json.load(file)


def without_seconds(data):
    return data | {"sites": [site | {"seconds": None} for site in data["sites"]]}


def test_a_batch_is_recorded_by_place(lmc, write, rows):
    data = record(lmc, write("route.py", BODY), rows)
    assert (data["version"], data["program"], data["runs"]) == (1, "route", 12)
    sites = {site["name"]: site for site in data["sites"]}
    assert sites["kind"]["at"] == "route.py:5:49"
    assert sites["kind"]["calls"] == 12
    assert sites["added"]["calls"] + sites["said"]["calls"] == 12
    assert 1 <= sites["said"]["output_tokens"]["mean"] <= 6
    first, second = data["branches"]
    assert first["taken"] == [sites["added"]["calls"], sites["said"]["calls"]]
    assert second["taken"] == [0, sites["said"]["calls"]]
    assert first["at"] == second["at"]
    assert (first["test"], second["test"]) == ("route.py:7:14", "route.py:9:14")


def test_the_same_runs_give_the_same_profile(lmc, write, rows):
    program = write("route.py", BODY)
    first = record(lmc, program, rows)
    assert without_seconds(record(lmc, program, rows)) == without_seconds(first)


def test_eager_runs_count_calls(lmc, write, rows):
    program = write("route.py", BODY)
    compiled, eager = record(lmc, program, rows), record(lmc, program, rows, "--eager")
    assert without_seconds(eager)["sites"] == without_seconds(compiled)["sites"]
    assert eager["branches"] == []


def test_artifacts_record_as_their_source(lmc, write, rows):
    program = write("route.py", BODY)
    expected = record(lmc, program, rows)
    assert lmc("compile", program, "--model", "oracle").code == 0
    assert without_seconds(record(lmc, "route.lmc", rows)) == without_seconds(expected)


def test_compiling_notes_the_profile_and_changes_no_result(lmc, write, rows):
    program = write("route.py", BODY)
    record(lmc, program, rows)
    args = ("--model", "oracle", "--profile", "run.json", "--remarks")
    told = lmc("compile", program, *args, "-o", "with.lmc")
    assert told.code == 0
    assert "profile of 12 runs: 4 places were used" in told.err
    assert "did: the first arm was taken " in told.err
    shown = lmc("ir", "with.lmc").out
    assert "expected = " in shown
    assert "taken = [" in shown
    again = lmc("compile", program, *args, "-o", "again.lmc")
    assert again.code == 0
    with open("with.lmc", "rb") as one, open("again.lmc", "rb") as other:
        assert one.read() == other.read()
    assert lmc("compile", program, "--model", "oracle", "-o", "without.lmc").code == 0
    runs = [
        lmc("run", name, "--model", "oracle", "--seed", 1, "--args", rows).out
        for name in ("with.lmc", "without.lmc")
    ]
    assert runs[0] == runs[1] != ""


def test_places_that_are_gone_are_ignored_with_a_word(lmc, write, rows):
    record(lmc, write("route.py", BODY), rows)
    program = write("route.py", BODY.replace("match s", "\n    match s"))
    told = lmc("compile", program, "--model", "oracle", "--profile", "run.json")
    assert told.code == 0
    assert "the program has no call or branch at route.py:6:5 any more" in told.err
    assert "profile of 12 runs: 0 places" in told.err


def test_a_profile_of_another_program_is_told_once(lmc, write, rows):
    record(lmc, write("route.py", BODY), rows)
    body = 'text = "said"\n    s += lmc.gen("x")\n'
    other = write("other.py", f"@lmc.function\ndef other(s):\n    {body}")
    told = lmc("compile", other, "--model", "oracle", "--profile", "run.json")
    assert told.code == 0
    assert "note: the profile is of 'route', and has no place of this program\n" in told.err
    assert "any more" not in told.err
    told = lmc("viz", other, "--format", "html", "--profile", "run.json", "-o", "page.html")
    assert told.code == 2
    assert "error: the profile is of 'route', and has no place of " in told.err
    assert not os.path.exists("page.html")


def test_a_page_shows_what_its_own_places_took(lmc, write, rows):
    record(lmc, write("route.py", BODY), rows)
    data = front.read_profile("run.json")
    some = data.took({"route.py:5:49"})
    assert list(some) == [(5, 49)]
    assert some[5, 49] == data.took()[5, 49]
    assert len(data.took()) > 1


def test_a_damaged_profile_and_a_missing_folder_are_refused(lmc, write):
    program = write("route.py", BODY)
    with open("run.json", "w") as file:
        file.write("{}")
    told = lmc("compile", program, "--model", "oracle", "--profile", "run.json")
    assert (told.code, told.err.splitlines()[0]) == (2, "error: run.json is no profile")
    told = lmc("run", program, "--model", "oracle", "--arg", "question=?", "--profile", "no/x.json")
    assert told.code == 2
    assert "cannot write no/x.json: there is no folder no" in told.err
    told = lmc("run", program, "--model", "oracle", "--arg", "question=?", "--profile", ".")
    assert (told.code, told.out) == (2, "")
    assert told.err == "error: cannot write .: it is a folder\nhint: give --profile a file's name\n"


def test_the_name_of_a_file_is_no_profile():
    program: Program = find_program(str(EXAMPLES / "judge.py"))[1]
    message = "must be a lmc\\.Profile, not 'run\\.json'\nhint: read a file with lmc\\.read_profile"
    with pytest.raises(UsageError, match=message):
        program.compile("oracle", profile="run.json")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=message):
        program.run(essay="", backend="oracle", profile="run.json")


def test_a_run_that_fails_is_recorded_up_to_there(lmc, write):
    body = 's += lmc.gen("x", max_tokens=2)\n    int(s["x"] + "no")\n'
    program = write("fails.py", f"@lmc.function\ndef fails(s):\n    {body}")
    told = lmc("run", program, "--model", "oracle", "--profile", "run.json")
    assert told.code == 1
    profile = front.read_profile("run.json")
    assert (profile.runs, [site.calls for site in profile.sites.values()]) == (1, [1])


def test_runs_share_a_profile():
    program: Program = find_program(str(EXAMPLES / "judge.py"))[1]
    profile = front.Profile()
    program.run(essay="A.", backend="oracle", seed=1, profile=profile)
    program.run_batch([{"essay": "B."}, {"essay": "C."}], backend="oracle", seed=1, profile=profile)
    assert profile.program == "judge"
    assert profile.runs == 3
    assert sum(site.calls for site in profile.sites.values() if site.name == "kind") == 3
    with pytest.raises(UsageError, match=r"profile must be a lmc\.Profile"):
        program.run(essay="A.", backend="oracle", profile="run.json")
