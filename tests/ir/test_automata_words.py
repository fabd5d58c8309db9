"""Automata of word lists are the minimal ones, and long lists are compiled or refused in time."""

import random

import pytest

from lmc.errors import ConstraintError
from lmc.ir.automata.budget import Budget
from lmc.ir.automata.graph import Graph, to_dfa
from lmc.ir.automata.words import automaton_of_words
from lmc.ir.json_schema import compile_json_schema


def budget(max_states: int = 10_000) -> Budget:
    return Budget(max_states=max_states, max_seconds=10.0)


def drawn(rng: random.Random) -> list[bytes]:
    """Return words that share beginnings and endings; the empty word and repetitions as well."""
    parts = [bytes(rng.choices(b"abc\xff", k=rng.randrange(4))) for _ in range(6)]
    return [b"".join(rng.choices(parts, k=rng.randrange(4))) for _ in range(rng.randrange(1, 60))]


@pytest.mark.parametrize("seed", range(40))
def test_words_give_what_their_chains_give(seed: int) -> None:
    words = drawn(random.Random(seed))
    one, other = Graph(budget()), Graph(budget())
    ends = one.node(), one.node()
    for word in words:
        one.chain(ends[0], word, ends[1])
    others = other.node(), other.node()
    other.words(words, *others)
    expected, found = to_dfa(one, *ends, budget()), to_dfa(other, *others, budget())
    assert expected is not None
    assert found is not None
    assert found.to_bytes() == expected.to_bytes()
    rows, finals = automaton_of_words(sorted(set(words)))
    assert len(rows) == expected.state_count, "it is minimal by itself"
    assert len(finals) == int(expected.accepting.sum())


def test_states_are_numbered_from_the_start() -> None:
    rows, finals = automaton_of_words([b"ab", b"b", b"cb"])
    assert rows == [{97: 1, 98: 2, 99: 1}, {98: 2}, {}]
    assert finals == [2]


def test_a_list_of_100000_values_is_compiled() -> None:
    dfa = compile_json_schema({"enum": list(range(100_000))})
    assert dfa.state_count == 6
    assert dfa.matches(b"99999")
    assert not dfa.matches(b"100000")
    assert not dfa.matches(b"01")


def test_a_list_that_cannot_fit_is_refused_at_the_first_try() -> None:
    rng = random.Random(5)
    words = ["".join(rng.choices("abcdefghijklmnopqrst", k=9)) for _ in range(14_000)]
    with pytest.raises(ConstraintError, match="its listed values need more than 32000 states"):
        compile_json_schema({"enum": words})


@pytest.mark.parametrize("kind", ["strings", "numbers", "names"])
def test_long_lists_keep_their_meaning_beside_other_keywords(kind: str) -> None:
    rng = random.Random(kind)
    words = sorted({"".join(rng.choices("abcd", k=rng.randrange(1, 7))) for _ in range(400)})
    if kind == "strings":
        dfa = compile_json_schema({"enum": words, "maxLength": 4, "not": {"enum": words[::3]}})
        kept = [word for index, word in enumerate(words) if len(word) <= 4 and index % 3]
        texts = {f'"{word}"' for word in kept}
        asked = [f'"{word}"' for word in words]
    elif kind == "numbers":
        numbers = rng.sample(range(-5000, 5000), 400)
        dfa = compile_json_schema({"enum": numbers, "minimum": -100, "multipleOf": 2})
        texts = {str(n) for n in numbers if n >= -100 and n % 2 == 0}
        asked = [str(n) for n in range(-5000, 5000)]
    else:
        schema = {"propertyNames": {"enum": words}, "maxProperties": 1, "minProperties": 1}
        dfa = compile_json_schema({"type": "object", "additionalProperties": {"const": 1}} | schema)
        texts = {f'{{"{word}": 1}}' for word in words}
        asked = [f'{{"{word}x": 1}}' for word in words] + sorted(texts)
    assert {text for text in asked if dfa.matches(text.encode())} == texts
