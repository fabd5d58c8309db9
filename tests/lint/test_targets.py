"""Rules that depend on the model: what it lacks, and how its tokenizer cuts."""

from dataclasses import replace

import pytest

from lmc.codegen.target import oracle_target
from lmc.frontend.load import load_programs
from lmc.linting.program import lint_program

PROGRAMS = """
import lmc


@lmc.function
def turns(s, question: str):
    s += lmc.user(question)
    s += lmc.assistant(lmc.gen("answer", max_tokens=4))


@lmc.function
def pictures(s, picture: lmc.Image):
    s += "What is this?" + lmc.image(picture)
    s += lmc.gen("answer", max_tokens=4)


@lmc.function
def films(s, film: lmc.Image):
    s += "What happens?" + lmc.video(film, 4)
    s += lmc.gen("answer", max_tokens=4)


@lmc.function
def blank(s):
    s += "Answer: " + lmc.gen("answer", max_tokens=4)


@lmc.function
def words(s):
    s += "Say:" + lmc.gen("said", regex="information about everything", max_tokens=3)
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The programs, loaded."""
    path = tmp_path_factory.mktemp("targets") / "for_targets.py"
    path.write_text(PROGRAMS, encoding="utf-8")
    return load_programs(path)


def codes(program, target):
    """Return what is told for a target."""
    return [each.code for each in lint_program(program, target=target)]


def test_roles_need_a_template(programs):
    target = oracle_target()
    assert codes(programs["turns"], target) == []
    found = lint_program(programs["turns"], target=replace(target, template=None))
    assert [each.code for each in found] == ["LMC701"]
    assert "has no chat template" in found[0].message
    assert (found[0].line, found[0].column) == (7, 10)


@pytest.mark.parametrize(("name", "what"), [("pictures", "an image"), ("films", "a video")])
def test_media_need_eyes(programs, name, what):
    target = oracle_target()
    assert codes(programs[name], target) == []
    found = lint_program(programs[name], target=replace(target, sees=False))
    assert [each.code for each in found] == ["LMC701"]
    assert what in found[0].message


class Merging:
    """A tokenizer that makes one token of a text's last two characters."""

    def __init__(self, tokenizer):
        self.inner = tokenizer

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def encode(self, text, *, first=False):
        return [*self.inner.encode(text[:-2], first=first), -1]

    def decode(self, token_ids):
        return ": " if list(token_ids) == [-1] else self.inner.decode(token_ids)


def test_a_blank_that_is_no_token_of_its_own_is_fine(programs):
    target = oracle_target()
    assert codes(programs["blank"], target) == ["LMC201"]
    assert codes(programs["blank"], replace(target, tokenizer=Merging(target.tokenizer))) == []


class Coarse(Merging):
    """A tokenizer that has a token for each of some words."""

    def encode(self, text, *, first=False):
        return self.inner.encode(text, first=first)

    def token_bytes(self):
        return [*self.inner.token_bytes(), b"information", b" about", b" everything"]


def test_limits_are_counted_in_the_tokens_of_the_model(programs):
    target = oracle_target()
    least = {"oracle": codes(programs["words"], target)}
    least["coarse"] = codes(programs["words"], replace(target, tokenizer=Coarse(target.tokenizer)))
    assert least == {"oracle": ["LMC303"], "coarse": []}
