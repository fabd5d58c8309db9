"""Structural tags: free text, marks, what stands inside, and control tokens by name."""

import json
import random
import re

import pytest

from lmc.codegen.target import oracle_target
from lmc.errors import ConstraintError, TokenRefused
from lmc.ir.calls import Constraint
from lmc.ir.grammar import Machine, compile_tags_source, tags_source
from lmc.runtime.constraint import ConstraintCache

TREE = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}}
TOOLS = [
    {"begin": "<a>", "regex": "[0-9]+", "end": "</a>"},
    {"begin": "<b>", "json_schema": {"enum": ["x", 1]}, "end": "</b>"},
    {"begin": "<t>", "json_schema": TREE, "end": "</t>"},
    {"begin": "!", "grammar": 'root ::= "(" root ")" | ""'},
]


def machine(tags, **options) -> Machine:
    return Machine(compile_tags_source(tags_source(tags, **options)))


@pytest.mark.parametrize(("text", "is_right"), [
    ("", True), ("free <text> é < a>", True), ("<a>12</a>", True),
    ("x <a>1</a> y <a>2</a> z", True),
    ("<a>", False), ("<a>x</a>", False), ("<a>12", False), ("</a>", True), ("<<a>1</a>", True),
    ('<b>"x"</b><b>1</b>', True), ("<b>x</b>", False), ("<a>1</b>", False), ("<a>1</a><a>", False),
    ('<t>{"kids": [{"kids": []}, {}]}</t>!((()))', True), ('<t>{"kids": [{"kids": [}]}</t>', False),
    ("!", True),
    ("!()()", True), ("!(", True), ("!(<a>", False), ("a!<a>3</a>!", True), ("<a<b>1</b>", True),
])  # fmt: skip
def test_texts_with_tags(text, is_right):
    assert machine(TOOLS).matches(text.encode()) == is_right


@pytest.mark.parametrize(("options", "good", "bad"), [
    ({"at_least": 1}, ["<a>1</a>", "x<a>1</a>y<a>2</a>"], ["", "x"]),
    ({"at_most": 1}, ["", "x", "x<a>1</a>"], ["<a>1</a><a>1</a>", "<a>1</a>y"]),
    ({"at_least": 1, "at_most": 1, "free_text": False}, ["<a>1</a>"], ["", "x<a>1</a>"]),
    ({"free_text": False}, ["", "<a>1</a><a>2</a>"], ["x", "<a>1</a> <a>2</a>"]),
])  # fmt: skip
def test_how_many_tags_and_free_text(options, good, bad):
    made = machine(TOOLS[:1], **options)
    assert all(made.matches(text.encode()) for text in good)
    assert not any(made.matches(text.encode()) for text in bad)


LETTERS = ["a", "b", "aa", "x.", "y.", "c"]


@pytest.mark.parametrize("begins", [["aa"], ["ab", "b"], ["aba"], ["bb", "ab"], ["aab", "ba"]])
def test_the_first_complete_mark_opens_its_tag(begins):
    """Marks that overlap themselves or each other leave no way around."""
    tags = [{"begin": begin, "regex": "[xy]", "end": "."} for begin in begins]
    made, rng = machine(tags), random.Random(str(begins))

    def follows(text: str) -> bool:
        while True:
            ends = [(text.find(b) + len(b), b) for b in begins if b in text]
            if not ends:
                return True
            at = min(ends)[0]
            # Marks that end at the same place open the same.
            if not re.match(r"[xy]\.", text[at:]):
                return False
            text = text[at + 2 :]

    verdicts = [0, 0]
    for _ in range(800):
        text = "".join(rng.choice(LETTERS) for _ in range(rng.randint(0, 6)))
        assert made.matches(text.encode()) == follows(text), text
        verdicts[follows(text)] += 1
    assert min(verdicts) > 5


def test_control_tokens_come_where_they_are_named_and_only_there():
    tokenizer = oracle_target().tokenizer
    name = next(
        text for i in range(tokenizer.vocab_size)
        if (text := tokenizer.control_text(i)) and i not in tokenizer.eos_ids
    )  # fmt: skip
    control = tokenizer.control_id(name)
    tags = [{"begin": {"control": name}, "json_schema": {"type": "integer"},
             "end": {"control": name}}]  # fmt: skip
    limit = ConstraintCache(tokenizer).get(Constraint("tags", tags_source(tags)))
    matcher = limit.matcher()
    others = [
        i for i, piece in enumerate(tokenizer.token_bytes())
        if piece is None and i != control and i not in tokenizer.eos_ids
    ]  # fmt: skip
    for step, (token_id, is_named) in enumerate(
        [*((i, True) for i in tokenizer.encode("Hi")), (control, True),
         *((i, False) for i in tokenizer.encode("12")), (control, True), (control, True)]
    ):  # fmt: skip
        row = limit.mask(matcher.reading)
        has_control = bool(int(row.words[control // 32]) >> control % 32 & 1)
        assert has_control == is_named or token_id != control, step
        assert not any(int(row.words[i // 32]) >> i % 32 & 1 for i in others)
        matcher.accept_token(token_id)
    assert not matcher.can_end()
    with pytest.raises(TokenRefused):
        matcher.accept_token(control)
    matcher.rollback(1)
    assert matcher.can_end()
    # The token's spelling is text: it opens nothing.
    assert limit.matches(name.encode())


def test_control_tokens_that_are_missing_or_end_the_text_are_refused():
    tokenizer = oracle_target().tokenizer
    end = tokenizer.control_text(min(tokenizer.eos_ids))
    for name, message in (("<|nothing|>", "has no control token"), (end, "ends a generation")):
        source = tags_source([{"begin": {"control": name}}])
        with pytest.raises(ConstraintError, match=message):
            ConstraintCache(tokenizer).get(Constraint("tags", source))


@pytest.mark.parametrize("source", [
    "no", "[]", "{}", '{"tags":[]}', '{"tags":[{}]}', '{"tags":[{"begin":""}]}',
    '{"tags":[{"begin":"a","regex":"x","grammar":"y"}]}', '{"tags":[{"begin":"a"}],"x":1}',
    '{"tags":[{"begin":"a"},{"begin":"ab"}]}', '{"tags":[{"begin":"a"},{"begin":"a"}]}',
    '{"tags":[{"begin":"a"}],"at_least":2}', '{"tags":[{"begin":{"control":1}}]}',
])  # fmt: skip
def test_wrong_tags_are_refused(source):
    with pytest.raises(ConstraintError, match="structural tags"):
        compile_tags_source(source)


def test_what_is_inside_is_refused_as_it_is_alone():
    with pytest.raises(ConstraintError, match="regex is not valid"):
        compile_tags_source(json.dumps({"tags": [{"begin": "a", "regex": "("}]}))
    with pytest.raises(ConstraintError, match="is not defined"):
        compile_tags_source(json.dumps({"tags": [{"begin": "a", "grammar": "root ::= x"}]}))
