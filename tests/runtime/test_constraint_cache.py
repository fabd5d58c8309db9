"""The constraint cache, kept masks, the vocabulary's trie, and all of them under threads."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from lmc.codegen.target import oracle_target
from lmc.errors import ConstraintError
from lmc.ir.automata import ByteDfa, compile_regex
from lmc.ir.calls import Constraint
from lmc.ir.json_schema import schema_source
from lmc.ir.languages import compiling, forget_languages
from lmc.runtime.constraint import ConstraintCache, RegexConstraint
from lmc.runtime.constraint import regex as regex_module
from lmc.runtime.constraint.vocabulary import build_vocabulary, vocabulary_of

TOKENIZER = oracle_target().tokenizer


@pytest.fixture(autouse=True)
def _nothing_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMC_CONSTRAINT_CACHE", "off")
    forget_languages()


def test_equal_masks_are_stored_once() -> None:
    limit = RegexConstraint(compile_regex("[a-z ]{1,200}"), TOKENIZER)
    masks = {id(limit.mask(state)) for state in range(limit.dfa.state_count)}
    assert len(masks) < 40


def test_mask_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex_module, "MAX_MASK_BYTES", 5_000)
    limit = RegexConstraint(compile_regex(r"\w+"), TOKENIZER)
    for state in range(limit.dfa.state_count):
        limit.mask(state)
        assert limit.nbytes < limit.dfa.nbytes + 5_000 + 2 * limit.vocabulary.words * 4


def test_cache_compiles_once_and_remembers_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def counting(pattern: str, **limits: float) -> ByteDfa:
        calls.append(pattern)
        return compile_regex(pattern, **limits)  # type: ignore[arg-type]

    monkeypatch.setattr(compiling, "compile_regex", counting)
    cache = ConstraintCache(TOKENIZER)
    good, bad = Constraint("regex", "a+"), Constraint("regex", r"(.)\1")
    assert cache.get(good) is cache.get(good)
    for _ in range(3):
        with pytest.raises(ConstraintError, match="back-reference at position 3"):
            cache.get(bad)
    assert calls == ["a+", r"(.)\1"]
    assert len(cache) == 2


def test_cache_drops_the_least_recently_used() -> None:
    cache = ConstraintCache(TOKENIZER, max_bytes=4_000)
    first = cache.get(Constraint("regex", "a{1,60}"))
    kept = cache.get(Constraint("regex", "b{1,60}"))
    for size in range(2, 12):
        cache.get(Constraint("regex", f"c{{1,{size}}}"))
        assert cache.get(Constraint("regex", "b{1,60}")) is kept
    assert cache.get(Constraint("regex", "a{1,60}")) is not first
    assert len(cache) < 12


def test_cache_survives_an_unexpected_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(pattern: str, **limits: float) -> ByteDfa:
        raise MemoryError

    cache = ConstraintCache(TOKENIZER)
    with monkeypatch.context() as patch:
        patch.setattr(compiling, "compile_regex", broken)
        with pytest.raises(MemoryError):
            cache.get(Constraint("regex", "a"))
    assert cache.get(Constraint("regex", "a")).dfa.matches(b"a")


def test_threads_share_one_compilation_and_agree_with_a_serial_run() -> None:
    sources = [f"[a-{chr(98 + n % 24)}]{{1,{n % 7 + 2}}}-{n}" for n in range(60)] * 3
    random.Random(3).shuffle(sources)
    serial = {source: compile_regex(source).to_bytes() for source in set(sources)}
    cache, gate = ConstraintCache(TOKENIZER), threading.Barrier(8)
    seen: dict[str, set[int]] = {source: set() for source in serial}

    def work(number: int) -> None:
        gate.wait()
        for source in sources[number:] + sources[:number]:
            found = cache.get(Constraint("regex", source))
            seen[source].add(id(found))
            assert found.dfa.to_bytes() == serial[source]
            found.mask(found.dfa.start)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(cache) == 60
    assert all(len(ids) == 1 for ids in seen.values())


def test_threads_fill_the_masks_of_one_constraint() -> None:
    limit, reference = (
        RegexConstraint(compile_regex(r"\w{1,3}"), TOKENIZER),
        RegexConstraint(compile_regex(r"\w{1,3}"), TOKENIZER),
    )
    expected = [reference.mask(state).words for state in range(reference.dfa.state_count)]

    def work(seed: int) -> None:
        states = list(range(limit.dfa.state_count))
        random.Random(seed).shuffle(states)
        for state in states:
            assert np.array_equal(limit.mask(state).words, expected[state])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def test_vocabulary_is_built_once_per_fingerprint() -> None:
    assert vocabulary_of(TOKENIZER) is vocabulary_of(TOKENIZER)
    fresh = build_vocabulary(TOKENIZER)
    assert np.array_equal(fresh.token_nodes, vocabulary_of(TOKENIZER).token_nodes)


def test_trie_paths_spell_the_tokens() -> None:
    vocabulary = vocabulary_of(TOKENIZER)
    for token_id in range(0, vocabulary.size, 37):
        piece, node, spelled = (
            vocabulary.token_bytes[token_id],
            vocabulary.token_nodes[token_id],
            b"",
        )
        if piece is None:
            assert node == len(vocabulary.node_bytes)
            continue
        while node:
            spelled = bytes([vocabulary.node_bytes[node]]) + spelled
            node = vocabulary.parents[node]
        assert spelled == piece


def test_refusal_of_a_costly_pattern_is_quick_the_second_time() -> None:
    cache, costly = ConstraintCache(TOKENIZER), Constraint("regex", "(a|b)*a(a|b){200}")
    for limit in (10.0, 0.05):
        started = time.thread_time()
        with pytest.raises(ConstraintError, match="too complex"):
            cache.get(costly)
        assert time.thread_time() - started < limit


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 9}, "n": {"type": "integer"}},
    "required": ["name", "n"],
}


def test_schemas_are_served_like_patterns() -> None:
    cache = ConstraintCache(TOKENIZER)
    constraint = Constraint("json_schema", schema_source(SCHEMA))
    compiled = cache.get(constraint)
    assert cache.get(constraint) is compiled
    matcher = compiled.matcher()
    row = np.zeros(compiled.vocabulary.words, dtype=np.int32)
    for token in TOKENIZER.encode('{"name": "Zoë", "n": 12}'):
        matcher.fill_bitmask(row)
        assert row[token // 32] >> (token % 32) & 1
        matcher.accept_token(token)
    assert matcher.can_end()
    assert matcher.is_terminated()
    assert compiled.dfa.forced_bytes(compiled.dfa.start) == b'{"name": "'


def test_schema_refusals_keep_their_place() -> None:
    cache = ConstraintCache(TOKENIZER)
    for _ in range(2):
        with pytest.raises(ConstraintError) as caught:
            cache.get(Constraint("json_schema", '{"items":{"type":"objekt"}}'))
        assert caught.value.pointer == "/items/type"


def test_one_bad_schema_does_not_disturb_others() -> None:
    cache = ConstraintCache(TOKENIZER)
    bad = [
        "(((",
        '{"type":"objekt"}',
        '{"properties":{"a":"bar"}}',
        "5",
        '{"enum":[' + "1," * 900_000,
    ]
    kinds = ["regex", *["json_schema"] * 4]
    with ThreadPoolExecutor(8) as pool:
        good = [
            pool.submit(cache.get, Constraint("json_schema", schema_source(SCHEMA)))
            for _ in range(4)
        ]
        wrong = [
            pool.submit(cache.get, Constraint(kind, source))  # type: ignore[arg-type]
            for kind, source in zip(kinds, bad, strict=True)
        ]
    assert all(isinstance(future.exception(), ConstraintError) for future in wrong)
    assert len({id(future.result()) for future in good}) == 1
