"""The public face of constraints: any tokenizer, masks in place, refusals with their place."""

import dataclasses
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

import lmc
from lmc.codegen.target import oracle_target
from lmc.errors import EngineError, ModelError, UsageError

DOCS = Path(__file__).resolve().parent.parent / "docs" / "constraints.md"


def taken(limit: lmc.CompiledConstraint, text: str) -> bool:
    """Return whether a text is allowed, by masks and by accept, which must agree."""
    matcher = limit.matcher()
    row = np.empty(limit.mask_words, dtype=np.int32)
    for token_id in limit.encode(text):
        matcher.fill_bitmask(row)
        is_set = bool(row[token_id // 32] >> (token_id % 32) & 1)
        assert matcher.accept_token(token_id) == is_set
        if not is_set:
            return False
    return matcher.can_end()


def test_regex_and_choices() -> None:
    date = lmc.Constraint.regex(r"[0-9]{4}-[0-9]{2}").compile("oracle")
    assert taken(date, "2024-05")
    assert not taken(date, "2024-0")
    assert not taken(date, "2024-x5")
    words = lmc.Constraint.choices(["a.c", "ab|"]).compile("oracle")
    assert [taken(words, text) for text in ("a.c", "ab|", "abc", "ab")] == [1, 1, 0, 0]


@dataclasses.dataclass
class Point:
    x: int
    name: str = ""


def test_schemas_of_all_forms() -> None:
    import pydantic

    class Model(pydantic.BaseModel):
        x: int

    for form in (
        {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
        '{"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}',
        Model,
        Point,
    ):
        limit = lmc.Constraint.json_schema(form).compile("oracle")
        assert taken(limit, '{"x": 12}')
        assert not taken(limit, '{"x": "12"}')
        assert not taken(limit, "{}")
    points = lmc.Constraint.json_schema(list[Point], separators=(",", ":")).compile("oracle")
    assert taken(points, '[{"x":1},{"x":2,"name":"b"}]')
    assert not taken(points, '[{"x": 1}]')


def test_a_refused_token_changes_nothing() -> None:
    matcher = (limit := lmc.Constraint.regex("abc?").compile("oracle")).matcher()
    before, after = np.empty((2, limit.mask_words + 3), dtype=np.uint32)
    matcher.fill_bitmask(before)
    for wrong in (limit.encode("z")[0], *limit.eos_token_ids, -1, limit.vocab_size, 10**6):
        assert not matcher.accept_token(wrong)
    matcher.fill_bitmask(after)
    assert (before == after).all()
    assert not before[-3:].any()
    other = matcher.fork()
    assert all(other.accept_token(i) for i in limit.encode("abc"))
    assert other.is_terminated()
    assert other.accept_token(min(limit.eos_token_ids))
    other.rollback(len(limit.encode("abc")) + 1)
    other.fill_bitmask(after)
    assert (before == after).all()
    with pytest.raises(EngineError, match="0 were accepted"):
        other.rollback(1)


def test_forced_ids_are_what_the_tokenizer_writes() -> None:
    limit = lmc.Constraint.regex('\\{"name": "[a-z]{3}", "city": "[a-z]+"\\}').compile("oracle")
    matcher = limit.matcher()
    text = '{"name": "abc", "city": "xy"}'
    canonical = limit.encode(text)
    forced, done = 0, 0
    while done < len(canonical):
        run = matcher.forced_token_ids()
        assert run == canonical[done : done + len(run)]
        assert matcher.fork().forced_token_ids() == run
        forced += len(run)
        for token_id in run or canonical[done : done + 1]:
            assert matcher.accept_token(token_id)
            done += 1
    assert forced >= 5
    matcher.rollback(done)
    assert matcher.forced_token_ids() == canonical[: len(matcher.forced_token_ids())] != []


def test_masks_go_into_what_is_given() -> None:
    torch = pytest.importorskip("torch")
    limit = lmc.Constraint.regex("[a-f]+").compile("oracle")
    want = np.zeros(limit.mask_words, dtype=np.int32)
    limit.matcher().fill_bitmask(want)
    assert want.any()
    rows = np.full((3, limit.mask_words), -1, dtype=np.int32)
    limit.matcher().fill_bitmask(rows[1])
    assert (rows[1] == want).all()
    assert (rows[[0, 2]] == -1).all()
    tensor = torch.full((2, limit.mask_words), -1, dtype=torch.int32)
    limit.matcher().fill_bitmask(tensor[1])
    limit.matcher().fill_bitmask(tensor[:1])
    assert (tensor.numpy() == want).all()
    for wrong in (want.astype(np.int64), rows, rows.T[:1], [0] * limit.mask_words, want.tobytes()):
        with pytest.raises(UsageError, match="one row"):
            limit.matcher().fill_bitmask(wrong)
    with pytest.raises(EngineError, match="too short"):
        limit.matcher().fill_bitmask(want[:-1])


@pytest.mark.parametrize(
    ("pattern", "position"), [(r"ab(.)\1", 5), (r"ab(c", 2), (r"a(?>(b|bc)*)c", 1)]
)
def test_refused_patterns_name_the_position(pattern: str, position: int) -> None:
    for _ in range(2):  # a refusal that is remembered is the same
        with pytest.raises(lmc.ConstraintError) as caught:
            lmc.Constraint.regex(pattern).compile("oracle")
        assert caught.value.position == position


def test_grammars() -> None:
    limit = lmc.Constraint.ebnf('start: "(" start ")" | "x"').compile("oracle")
    assert [taken(limit, text) for text in ("x", "(((x)))", "((x)", ")")] == [1, 1, 0, 0]
    with pytest.raises(lmc.ConstraintError) as caught:
        lmc.Constraint.ebnf('start: "a" other\n').compile("oracle")
    assert caught.value.position == (1, 12)


def test_refused_schemas_name_the_pointer() -> None:
    for schema, pointer in (
        ({"items": {"$ref": "other.json"}}, "/items/$ref"),
        ({"properties": {"a": {"pattern": "(.)\\1"}}}, "/properties/a/pattern"),
        ({"allOf": [{"type": "string"}, {"type": "null"}]}, ""),
        ("{", ""),
    ):
        with pytest.raises(lmc.ConstraintError) as caught:
            lmc.Constraint.json_schema(schema).compile("oracle")
        assert caught.value.pointer == pointer


def test_wrong_uses() -> None:
    with pytest.raises(ModelError, match="no tokenizer"):
        lmc.Constraint.regex("a").compile(3)
    for make, what in ((lmc.Constraint.regex, "regex"), (lmc.Constraint.ebnf, "grammar")):
        for wrong in (5, None, b"a"):
            with pytest.raises(lmc.ConstraintError, match=f"a {what} is a text, not"):
                make(wrong)  # type: ignore[arg-type]
    matcher = lmc.Constraint.regex("a").compile("oracle").matcher()
    for wrong in ("5", None, 1.0):
        with pytest.raises(UsageError, match="a token id is an integer"):
            matcher.accept_token(wrong)  # type: ignore[arg-type]
    for wrong in ("1", None, 1.0):
        with pytest.raises(UsageError, match="a count of tokens is an integer"):
            matcher.rollback(wrong)  # type: ignore[arg-type]
    for wrong in (2, "</s>", ["x"]):
        with pytest.raises(UsageError, match=r"no list of ids|a token id is an integer"):
            lmc.Constraint.regex("a").compile("oracle", eos_token_ids=wrong)  # type: ignore[arg-type]
    with pytest.raises(lmc.ConstraintError, match="half a surrogate pair at position 10") as half:
        lmc.Constraint.ebnf('root ::= "\ud800"')
    assert half.value.position == 10
    for wrong in (None, "x", {"begin": "<a>"}, [1]):
        with pytest.raises(lmc.ConstraintError, match=r"list of dicts|structural tags"):
            lmc.Constraint.tags(wrong)  # type: ignore[arg-type]
    with pytest.raises(lmc.ConstraintError, match="no pair of texts"):
        lmc.Constraint.json_schema({}, separators=",")  # type: ignore[arg-type]
    for options in ({"max_depth": -1}, {"max_depth": "a"}, {"open_objects": "no"}):
        with pytest.raises(UsageError, match=next(iter(options))):
            lmc.Constraint.json_schema({}, **options)  # type: ignore[arg-type]
    for wrong in ([], "abc", [1], None, 3):
        with pytest.raises(lmc.ConstraintError, match="list of texts"):
            lmc.Constraint.choices(wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no token 99999999"):
        lmc.Constraint.regex("a").compile("oracle", eos_token_ids=[99999999])


def test_tokenizers_of_all_kinds(tmp_path: Path) -> None:
    """One tokenizer as an object, files, and lmc's own gives the same masks."""
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    own = oracle_target().tokenizer
    (tmp_path / "tokenizer.json").write_text(own.spec.model_json, encoding="utf-8")
    (tmp_path / "other.json").write_text(own.spec.model_json, encoding="utf-8")
    plain = tokenizers.Tokenizer.from_str(own.spec.model_json)
    wrapped = transformers.PreTrainedTokenizerFast(
        tokenizer_object=plain, eos_token=own.control_text(min(own.eos_ids))
    )
    ends = frozenset([min(own.eos_ids)])
    masks = []
    for given in (own, plain, wrapped, tmp_path, tmp_path / "tokenizer.json",
                  str(tmp_path / "other.json")):  # fmt: skip
        limit = lmc.Constraint.regex("(ab|é)*").compile(given, eos_token_ids=ends)
        assert limit.eos_token_ids == ends
        row = np.zeros(limit.mask_words, dtype=np.int32)
        limit.matcher().fill_bitmask(row)
        masks.append(row.tobytes())
    assert len(set(masks)) == 1
    assert lmc.Constraint.regex("a").compile(wrapped).eos_token_ids == ends
    assert lmc.Constraint.regex("a").compile(plain).eos_token_ids >= ends  # by spelling


@pytest.mark.model
def test_examples_of_the_documentation(tmp_path: Path) -> None:
    text = DOCS.read_text(encoding="utf-8")
    section = text[text.index("## As a library") : text.index("## Figures")]
    examples = re.findall(r"^```python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    assert len(examples) >= 3
    for example in examples:
        (tmp_path / "example.py").write_text(example, encoding="utf-8")
        runpy.run_path(str(tmp_path / "example.py"))
