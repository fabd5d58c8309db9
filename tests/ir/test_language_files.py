"""Compiled languages on disk: the same ones come back, damaged and foreign files never do."""

import os
import threading
from pathlib import Path

import pytest

from lmc.codegen.target import oracle_target
from lmc.ir.automata import compile_regex
from lmc.ir.calls import Constraint
from lmc.ir.languages import files as language_files
from lmc.ir.languages import finding, forget_languages
from lmc.ir.languages.compiling import compile_here, language_to_bytes
from lmc.ir.languages.files import LanguageFiles
from lmc.runtime.constraint import ConstraintCache

TOKENIZER = oracle_target().tokenizer
COUNTED = Constraint("regex", "[a-z]{1,90}")
CHOICES = Constraint("json_schema", '{"enum":["left","right",3]}')
NESTED = Constraint("ebnf", 'root ::= "" | "(" root ")"')


def stored(files: LanguageFiles, constraint: Constraint) -> bytes:
    """Compile a constraint and store it; return its bytes."""
    data = language_to_bytes(compile_here(constraint))
    assert files.store(constraint, data)
    return data


def found(files: LanguageFiles, constraint: Constraint) -> bytes | None:
    """Return the bytes of what is found."""
    language = files.find(constraint)
    return None if language is None else language_to_bytes(language)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_was_stored_is_found(tmp_path: Path) -> None:
    files, other = LanguageFiles(tmp_path / "new"), LanguageFiles(tmp_path / "new")
    assert found(files, COUNTED) is None
    kept = {each: stored(files, each) for each in (COUNTED, CHOICES, NESTED)}
    assert {each: found(other, each) for each in kept} == kept
    assert found(other, Constraint("ebnf", COUNTED.source)) is None
    assert found(other, Constraint("regex", COUNTED.source + " ")) is None


def test_damaged_and_foreign_files_are_ignored_and_written_anew(tmp_path: Path) -> None:
    files = LanguageFiles(tmp_path)
    data = stored(files, COUNTED)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    stored(files, CHOICES)
    (other,) = set(tmp_path.iterdir()) - {path}
    wrong = [b"", whole[:-1], whole[:30], whole + b"x", b"\0" * len(whole), other.read_bytes()]
    wrong += [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in (3, 20, 50, 90, 400)]
    for content in wrong:
        path.write_bytes(content)
        assert found(files, COUNTED) is None
        assert stored(files, COUNTED) == data == found(files, COUNTED)


def test_another_compiler_finds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = LanguageFiles(tmp_path)
    stored(files, COUNTED)
    monkeypatch.setattr(language_files, "_version", lambda: "later")
    assert found(files, COUNTED) is None


def test_the_least_recently_used_files_go(tmp_path: Path) -> None:
    patterns = [Constraint("regex", f"{letter}{{1,40}}") for letter in "abcdef"]
    stored(LanguageFiles(tmp_path), patterns[0])
    (first,) = tmp_path.iterdir()
    (tmp_path / "notes.txt").write_text("x" * 10_000)
    files = LanguageFiles(tmp_path, max_bytes=int(3.5 * first.stat().st_size))
    for age, constraint in enumerate(patterns[1:3]):
        stored(files, constraint)
        os.utime(files._path(language_files._key(constraint)), (1000 + age, 1000 + age))
    os.utime(first, (999, 999))
    assert found(files, patterns[0]), "its use makes it the youngest"
    stored(files, patterns[3])
    assert [found(files, each) is not None for each in patterns[:4]] == [True, False, True, True]
    assert "notes.txt" in names(tmp_path)
    assert len(names(tmp_path)) == 4
    assert not LanguageFiles(tmp_path, max_bytes=10).store(patterns[4], b"x" * 100)


def test_a_folder_that_cannot_be_written_costs_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    files = LanguageFiles(tmp_path / "file" / "below")
    assert not files.store(COUNTED, b"data")
    assert files.find(COUNTED) is None


def test_threads_may_store_and_find_at_once(tmp_path: Path) -> None:
    wanted = compile_regex(COUNTED.source).to_bytes()
    seen: set[bytes | None] = set()

    def work() -> None:
        files = LanguageFiles(tmp_path)
        for _ in range(20):
            files.store(COUNTED, wanted)
            seen.add(found(files, COUNTED))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {wanted}
    assert len(names(tmp_path)) == 1


class Once:
    """Compile processes that serve one constraint."""

    def __init__(self) -> None:
        self.left = 1

    def compile(self, constraint: Constraint, seconds: float) -> bytes:
        assert self.left, "it was to be found on disk"
        self.left -= 1
        return language_to_bytes(compile_here(constraint))


def test_the_cache_of_constraints_uses_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LMC_CACHE", str(tmp_path))
    monkeypatch.setattr(finding, "processes", Once())
    for _ in range(2):
        forget_languages()
        limit = ConstraintCache(TOKENIZER).get(COUNTED)
        assert limit.matches(b"abc")
        assert not limit.matches(b"a" * 91)
    assert len(names(tmp_path / "constraints")) == 1
    monkeypatch.setenv("LMC_CONSTRAINT_CACHE", "off")
    forget_languages()
    with pytest.raises(AssertionError, match="on disk"):
        ConstraintCache(TOKENIZER).get(COUNTED)
