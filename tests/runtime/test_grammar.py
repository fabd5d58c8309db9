"""Context-free constraints: masks against a naive Earley recogniser, matchers, ends, traps."""

import itertools
import random

import numpy as np
import pytest
from earley import Earley, RandomGrammar

from lmc.codegen.target import load_target
from lmc.errors import ConstraintError, EngineError, TokenRefused
from lmc.ir.calls import Constraint
from lmc.ir.grammar import compile_grammar
from lmc.models_store import find_packaged
from lmc.runtime.constraint import ConstraintCache, GrammarConstraint, GrammarMatcher

CONTROL, END, END2 = 0, 2, 3
PIECES = [
    *(None, b"", b"<end>", b"<end2>"),
    *(bytes([byte]) for byte in 'abc()01+-*" xy\n,:{}[]é'.encode()),
    *(b"ab", b"ba", b"aab", b"((", b"a(", b"bc", "é".encode(), b"a\xc3", b"\xa9b", b"abab", b"aa"),
    *(b"))", b")+", b"1+", b"01", b'":', b'{"', b"}}", b"]]", b"xxxx", b"\xff", b"(((", b"ab"),
]


class Tiny:
    """A vocabulary without an encoder; constraints need no more."""

    def __init__(self, pieces=PIECES, ends=(END, END2), controls=None) -> None:
        self.pieces = pieces
        self.fingerprint = str(hash((tuple(pieces), tuple(ends))))
        self.vocab_size = len(pieces)
        self.eos_ids = frozenset(ends)
        self.controls = controls or {"<call>": CONTROL}

    def token_bytes(self):
        return self.pieces

    def control_id(self, name):
        return self.controls.get(name)


def constraint(source: str, tokenizer: object = None) -> GrammarConstraint:
    return GrammarConstraint(compile_grammar(source).network, tokenizer or Tiny())  # type: ignore[arg-type]


def bits(matcher: GrammarMatcher, width: int | None = None) -> set[int]:
    """Return the ids that a matcher allows."""
    row = np.full(width or matcher.constraint.vocabulary.words + 2, -1, dtype=np.int32)
    matcher.fill_bitmask(row)
    unpacked = np.unpackbits(row.view(np.uint8), bitorder="little")
    return set(np.flatnonzero(unpacked).tolist())


def accepts(matcher: GrammarMatcher, token_id: int) -> bool:
    """Return whether a token is taken; the matcher is as it was."""
    try:
        matcher.accept_token(token_id)
    except TokenRefused:
        return False
    matcher.rollback(1)
    return True


def expected(oracle: Earley, chart, pieces=PIECES) -> set[int]:
    """Return the ids that the oracle allows after a chart."""
    charts = {b"": chart}  # tokens share their beginnings

    def after(piece: bytes):
        if piece not in charts:
            before = after(piece[:-1])
            charts[piece] = None if before is None else oracle.feed(before, piece[-1:])
        return charts[piece]

    ids = {i for i, p in enumerate(pieces) if p and i not in (END, END2) and after(p) is not None}
    return ids | ({END, END2} if oracle.may_end(chart) else set())


def random_case(rng: random.Random):
    """Return a random grammar's constraint with its oracle; None where it is refused."""
    made = RandomGrammar(rng, lark=rng.random() < 0.5)
    oracle = Earley(made.rules, "start")
    try:
        return constraint(made.text), oracle, made.text
    except ConstraintError:
        never = "can never end"
        with pytest.raises(ConstraintError, match=never):
            constraint(made.text)
        return None


def check_random(rng: random.Random) -> bool:
    case = random_case(rng)
    if case is None:
        return False
    limit, oracle, text = case
    assert oracle.rules.get("start"), text
    matcher, chart = limit.matcher(), oracle.first
    history = []
    for _ in range(5):
        found, wanted = bits(matcher), expected(oracle, chart)
        assert found == wanted, (text, history, found ^ wanted)
        assert {i for i in range(len(PIECES)) if accepts(matcher, i)} == wanted, (text, history)
        assert matcher.can_end() == oracle.may_end(chart)
        assert matcher.is_terminated() == (not wanted - {END, END2})
        text_ids = sorted(wanted - {END, END2})
        assert matcher.single_token() == (text_ids[0] if len(wanted) == 1 else None)
        if not matcher.can_end():
            singles = [b for b in range(256) if oracle.feed(chart, bytes([b])) is not None]
            assert limit.runs._dfa.is_forced(matcher.reading) == (len(singles) == 1)
        if not text_ids:
            break
        token_id = rng.choice(text_ids)
        history.append((matcher.fork(), found))
        matcher.accept_token(token_id)
        chart = oracle.feed(chart, PIECES[token_id])
        if len(chart) > 8:
            break
    for back in range(1, len(history) + 1):
        other = matcher.fork()
        other.rollback(back)
        kept, found = history[-back]
        assert bits(other) == bits(kept) == found
    return True


def test_masks_of_random_grammars_are_those_of_earleys_method():
    rng = random.Random(20261130)
    assert sum(check_random(rng) for _ in range(110)) > 60


@pytest.mark.long
def test_masks_of_many_random_grammars():
    rng = random.Random(7)
    assert sum(check_random(rng) for _ in range(4000)) > 2000


def test_texts_of_random_grammars_are_those_of_earleys_method():
    rng = random.Random(3)
    texts = ["".join(p) for n in range(5) for p in itertools.product("abc(", repeat=n)]
    seen = 0
    while seen < 12:
        case = random_case(rng)
        if case is None:
            continue
        limit, oracle, source = case
        seen += 1
        for text in rng.sample(texts, 60):
            assert limit.matches(text.encode()) == oracle.matches(text.encode()), (source, text)


JSON = r"""
start: value
value: object | array | STRING | NUMBER | "true" | "false" | "null"
object: "{" [pair ("," pair)*] "}"
pair: STRING ":" value
array: "[" [value ("," value)*] "]"
STRING: /"([^"\\\x00-\x1f]|\\(["\\\/bfnrt]|u[0-9a-fA-F]{4}))*"/
NUMBER: /-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/
%ignore /[ \t\n]{1,2}/
"""


@pytest.mark.parametrize(
    "text", ['{"a": [1, {"bé": "x\\n"}, tru', '[[[[[-1.5e3, "", [', "[]", "  "]
)
def test_masks_of_a_real_vocabulary_are_those_of_its_tokens_one_by_one(text):
    path = find_packaged()
    if path is None:
        pytest.skip("no packaged model")
    tokenizer = load_target(path).tokenizer
    limit = constraint(JSON, tokenizer)
    matcher, pieces = limit.matcher(), limit.vocabulary.token_bytes
    for token_id in tokenizer.encode(text):
        found = bits(matcher)
        assert token_id in found
        matcher.accept_token(token_id)
    for state in (matcher, limit.matcher()):
        machine, here = limit.machine, state.reading
        wanted = {
            i
            for i, piece in enumerate(pieces)
            if piece is not None and machine.read(here, piece) is not None
        }
        assert bits(state) - tokenizer.eos_ids == wanted
        assert (tokenizer.eos_ids <= bits(state)) == state.can_end()


NESTED = 'root ::= "(" root ")" | "[" root "]" | "a"'


def test_nesting_has_no_bound():
    matcher = constraint(NESTED).matcher()
    for _ in range(3000):
        matcher.accept_token(PIECES.index(b"("))
    matcher.accept_token(PIECES.index(b"a"))
    for _ in range(1500):
        matcher.accept_token(PIECES.index(b"))"))
    assert matcher.is_terminated()
    assert bits(matcher) == {END, END2}
    matcher.rollback(1500)
    assert not matcher.can_end()
    assert PIECES.index(b"))") in bits(matcher)


def test_control_tokens_are_masked_and_refused_everywhere():
    limit = constraint('root ::= "\\"" [^"]* "\\"" | "(" root ")"')
    matcher = limit.matcher()
    for piece in (b"(", b'"', b"a", b'"'):
        assert CONTROL not in bits(matcher)
        assert not accepts(matcher, CONTROL)
        assert END not in bits(matcher)
        matcher.accept_token(PIECES.index(piece))
    # The control token's spelling is text like any other, the token itself never comes.
    assert limit.matches(b'"<|im_start|>"')


def test_the_end_comes_exactly_where_the_text_may_end():
    matcher = constraint('s: s "+" s | "a"').matcher()
    assert END not in bits(matcher)
    matcher.accept_token(PIECES.index(b"a"))
    assert {END, END2} <= bits(matcher)
    assert not matcher.is_terminated()
    matcher.accept_token(END)
    assert matcher.is_terminated()
    assert bits(matcher) == set()
    assert not accepts(matcher, PIECES.index(b"+"))
    assert not accepts(matcher, END)
    matcher.rollback(1)
    assert {END, END2, PIECES.index(b"+")} <= bits(matcher)


def test_the_empty_text_alone():
    for source in ('root ::= ""', 'root ::= a a\na ::= ""'):
        matcher = constraint(source).matcher()
        assert bits(matcher) == {END, END2}
        assert matcher.is_terminated()


def test_a_row_that_is_too_short_and_taking_back_too_much():
    matcher = constraint(NESTED).matcher()
    with pytest.raises(EngineError, match="too short"):
        matcher.fill_bitmask(np.zeros(0, dtype=np.int32))
    with pytest.raises(EngineError, match="cannot take back 1"):
        matcher.rollback(1)
    assert accepts(matcher, 10**6) is False
    assert accepts(matcher, -1) is False


def test_a_wide_row_is_zero_beyond_the_vocabulary():
    matcher = constraint(NESTED).matcher()
    assert max(bits(matcher, 9)) < len(PIECES)


# Vocabularies that cannot spell everything.

POOR = [None, b"<end>", b"a", b"(", b")", b"ab", b"zz", b"(z"]


def poor(source: str) -> GrammarMatcher:
    return constraint(source, Tiny(POOR, ends=(1,))).matcher()


def test_tokens_that_lead_into_a_trap_are_not_allowed():
    # After "(z" only "z" could follow, which no token gives alone.
    matcher = poor('root ::= "(" root ")" | "(zq)" | "a"')
    assert bits(matcher) == {2, 3}
    matcher.accept_token(3)
    assert 7 in bits(poor('root ::= "(" root ")" | "(z)" | "a"'))
    assert not accepts(matcher, 7)


def test_what_only_whole_tokens_spell_may_come():
    matcher = poor('root ::= "(" root ")" | "zz" | "a"')
    matcher.accept_token(3)
    assert bits(matcher) == {2, 3, 6}
    matcher.accept_token(6)
    assert bits(matcher) == {4}


def test_a_grammar_that_no_token_can_spell_is_refused():
    with pytest.raises(ConstraintError, match="cannot spell"):
        poor('root ::= "(" root ")" | "q"')
    with pytest.raises(ConstraintError, match="cannot spell"):
        ConstraintCache(Tiny(POOR, ends=(1,))).get(Constraint("ebnf", 'root ::= "q"'))  # type: ignore[arg-type]


# The cost of unusual grammars.


def test_very_ambiguous_grammars_stay_quick():
    limit = constraint('s: s s | s s s | "a" | "(" s ")"')
    matcher = limit.matcher()
    for _ in range(40):
        assert PIECES.index(b"aab") not in bits(matcher)
        matcher.accept_token(PIECES.index(b"aa"))
    assert matcher.can_end()


def test_the_machine_forgets_and_goes_on(monkeypatch):
    import lmc.ir.grammar.machine as machine
    import lmc.runtime.constraint.walk as walk

    monkeypatch.setattr(machine, "MAX_READINGS", 20)
    monkeypatch.setattr(walk, "_MAX_READINGS", 10)
    rng, limit = random.Random(5), constraint(NESTED)
    oracle = Earley({"s": [(frozenset(b"("), "s", frozenset(b")")), (frozenset(b"a"),),
                           (frozenset(b"["), "s", frozenset(b"]"))]}, "s")  # fmt: skip
    matcher, chart = limit.matcher(), oracle.first
    for _ in range(40):
        wanted = expected(oracle, chart)
        assert bits(matcher) == wanted
        token_id = rng.choice(sorted(i for i in wanted if PIECES[i] and b"a" not in PIECES[i]))
        matcher.accept_token(token_id)
        chart = oracle.feed(chart, PIECES[token_id])
