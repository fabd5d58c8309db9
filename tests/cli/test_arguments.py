"""Arguments from text and from lines of JSON."""

import inspect
import io
import json
from collections.abc import Sequence
from typing import Any, Literal

import pytest

from lmc.arguments import argument_sets, fits, parse_argument
from lmc.errors import UsageError


def signature(function: Any) -> inspect.Signature:
    """Return a function's signature."""
    return inspect.signature(function)


def value_of(annotation: Any, text: str, default: Any = inspect.Parameter.empty) -> Any:
    """Return what a text means for a parameter with an annotation."""
    parameter = inspect.Parameter(
        "x", inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
    )
    return parse_argument("p", inspect.Signature([parameter]), f"x={text}")[1]


EMPTY = inspect.Parameter.empty


@pytest.mark.parametrize(
    ("annotation", "text", "expected"),
    [
        (str, "5", "5"), (str, "", ""), (str, "a=b", "a=b"), (str, "日本 🎉", "日本 🎉"),
        ("str", "null", "null"), (Any, "5", "5"), (EMPTY, "5", "5"), (EMPTY, "[1]", "[1]"),
        (int, "5", 5), ("int", "-5", -5), (float, "5", 5), (float, "1e3", 1000.0),
        (bool, "true", True), (list, "[1]", [1]), (list[str], '["a"]', ["a"]),
        ("list[str]", "[]", []), (dict, "{}", {}), (dict[str, int], '{"a": 1}', {"a": 1}),
        (str | None, "null", None), (str | None, "5", "5"), ("Optional[str]", "word", "word"),
        (int | str, "5", 5), (int | str, "five", "five"), (int | None, "null", None),
        (Literal["a", "b"], "a", "a"), (tuple[int, ...], "[1, 2]", [1, 2]),
        (Sequence[int], "[1]", [1]), ("Essay", '{"a": 1}', {"a": 1}), ("Essay", "word", "word"),
    ],
)  # fmt: skip
def test_text_means_what_is_declared(annotation: Any, text: str, expected: Any) -> None:
    value = value_of(annotation, text)
    assert value == expected
    assert type(value) is type(expected)


def test_without_an_annotation_the_default_tells() -> None:
    assert value_of(EMPTY, "5", default="text") == "5"
    assert value_of(EMPTY, "5", default=3) == 5
    assert value_of(EMPTY, "word", default=None) == "word"


@pytest.mark.parametrize(
    ("annotation", "text", "told"),
    [
        (int, "abc", "must be int"), (int, "1.5", "must be int, not 1.5"),
        (int, "true", "must be int, not true"), (float, '"1"', 'must be float, not "1"'),
        (bool, "1", "must be bool, not 1"), (list[str], "[1]", "must be list[str], not [1]"),
        (dict[str, int], '{"a": "b"}', "must be dict[str, int]"),
        (Literal["a", "b"], "c", "must be Literal['a', 'b']"), (int | None, "x", "int | None"),
        ("list[str]", "a", "must be list[str]"),
        (list[list[int]], "[[1], [2.5]]", "list[list[int]]"),
        (int, "[" * 100_000, "must be int"),
    ],
)  # fmt: skip
def test_other_values_are_refused_by_name(annotation: Any, text: str, told: str) -> None:
    with pytest.raises(UsageError, match="argument 'x'") as caught:
        value_of(annotation, text)
    assert told in str(caught.value)
    assert len(str(caught.value)) < 400


def test_unknown_annotations_admit_everything() -> None:
    class Own:
        pass

    for annotation in (Own, "Own", "pkg.Own[int]", object):
        for value in (None, 1, "a", [1], {"a": 1}):
            assert fits(annotation, value)


def program(question: str, turns: int = 3) -> None:
    """Stand in for a program."""


def test_files_stdin_and_a_literal_at_sign(tmp_path: Any, monkeypatch: Any) -> None:
    path = tmp_path / "with blank.txt"
    path.write_text("line\n日本\n", encoding="utf-8")
    parsed = parse_argument("p", signature(program), f"question=@{path}")
    assert parsed == ("question", "line\n日本\n")
    assert parse_argument("p", signature(program), "question=@@file") == ("question", "@file")
    monkeypatch.setattr("sys.stdin", io.StringIO("from stdin"))
    assert parse_argument("p", signature(program), "question=@-") == ("question", "from stdin")
    path.write_text("7", encoding="utf-8")
    assert parse_argument("p", signature(program), f"turns=@{path}") == ("turns", 7)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["question"], "has no '='"), (["quest=1"], "has no argument 'quest'"), ([], "'question'"),
        (["turns=3"], "'question'"), (["question=a", "question=b"], "given twice"),
        (["question=@/no/such/file"], "no such file"), (["question=@/"], "directory"),
    ],
)  # fmt: skip
def test_wrong_use_is_told(given: list[str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        argument_sets("p", signature(program), given, None)


def test_rows_are_runs(tmp_path: Any) -> None:
    path = tmp_path / "rows.jsonl"
    odd = json.dumps({"question": "a\u2028b\x85c\x0bd"}, ensure_ascii=False)
    path.write_text(f'\ufeff{{"question": "a"}}\r\n\n{odd}\n{{"question": "", "turns": 1}}')
    sets = argument_sets("p", signature(program), ["turns=9"], path)
    assert sets == [
        {"question": "a", "turns": 9},
        {"question": "a\u2028b\x85c\x0bd", "turns": 9},
        {"question": "", "turns": 1},
    ]
    path.write_text("\n \n")
    assert argument_sets("p", signature(program), [], path) == []


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("not json", "not JSON"), ("[1]", "list instead of a JSON object"), ("5", "int instead"),
        ('{"quest": 1}', "question"), ('{"question": 5}', "must be str, not 5"),
        ('{"question": "a", "turns": "3"}', 'must be int, not "3"'),
        ('{"question": "a", "more": 1}', "more"), ("[" * 100_000, "not JSON"),
    ],
)  # fmt: skip
def test_a_bad_row_is_told_with_its_line(tmp_path: Any, line: str, told: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(f'{{"question": "a"}}\n{line}\n')
    with pytest.raises(UsageError) as caught:
        argument_sets("p", signature(program), [], path)
    assert str(caught.value).startswith(f"line 2 of {path}: ")
    assert told in str(caught.value)


def test_a_file_that_is_not_text_is_told(tmp_path: Any) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"question": "\xff"}')
    with pytest.raises(UsageError, match="byte 14 is not UTF-8"):
        argument_sets("p", signature(program), [], path)
