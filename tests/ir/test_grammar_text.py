"""Grammar notation: what is read, what is refused and where, and which texts come of it."""

import random
import re

import lark
import pytest

from lmc.errors import ConstraintError
from lmc.ir.grammar import Machine, compile_grammar
from lmc.ir.grammar.common import COMMON


def matches(source: str, text: str) -> bool:
    return Machine(compile_grammar(source).network).matches(text.encode())


TEXTS = [
    # Both notations, the same texts.
    ('start: "a" b*\nb: "b" | "c"', ["a", "abcb"], ["", "b", "ad"]),
    ('root ::= "a" b*\nb ::= "b" | "c"', ["a", "abcb"], ["", "b", "ad"]),
    ("root ::= 'a' | [b-dX] | [^\\n\\x61-\\x7a]", ["a", "c", "X", "é", "😀"], ["e", "\n", "ab"]),
    ('root ::= ("ab"){2,3} .', ["ababx", "abababé"], ["abx", "ababababx"]),
    ('root ::= "a"{2} "b"{1,}', ["aab", "aabbb"], ["aa", "aaab"]),
    ('start: "a"~2 "b"~1..2 ["c"]', ["aab", "aabbc"], ["ab", "aabbb"]),
    ('start: "A".."C" /[x-z]+/i "ok"i', ["AXyok", "CzOK"], ["Dxok", "Aok"]),
    ('start: /a\\/b/ "\\"\\\\"', ['a/b"\\'], ["a/b"]),
    ('start: "\\u00e9\\x41\\n"', ["éA\n"], ["é"]),
    # Rules that begin with themselves, at once, by others, behind what may be empty.
    ('start: start "+" N | N\nN: /[0-9]/', ["1", "1+2+3"], ["", "+1", "1+", "11"]),
    ('a: b "x" | "1"\nb: c "y" | "2"\nc: a "z" | "3"', ["1", "2x", "3yx", "1zyx", "1zyxzyx"],
     ["x", "1z", "2"]),
    ('a: e a "x" | "1"\ne: "" | "y"', ["1", "1x", "y1x", "y1xx", "yy1xx"], ["y1", "yy1x"]),
    ('s: s s | "(" s ")" | ', ["", "()", "()(())"], ["(", ")("]),
    ('a: a | "x"', ["x"], ["", "xx"]),
    # Recursion in the middle and at the end.
    ('root ::= "a" root "b" | ""', ["", "ab", "aaabbb"], ["aab", "abb"]),
    ("root ::= item (',' root)?\nitem ::= 'x'", ["x", "x,x,x"], ["x,", ",x"]),
    ('p: "a" p "a" | "b" p "b" | "a" | "b" | ""', ["abba", "aba", ""], ["ab", "abb"]),
    # Keywords and identifiers overlap without harm.
    ('s: "if" " " n | n\nn: /[a-z]+/', ["if", "if x", "ifx"], ["if ", "x y"]),
    # White space that is ignored stands between terminals, not inside of them.
    ('s: W ("," W)*\nW: L L\nL: /[a-z]/\n%ignore " "\n%ignore /\\t+/',
     ["ab,cd", " ab , cd ", "\t ab"], ["a b", "ab,c d", ",", ""]),
    # Marks for trees, priorities and names change no text.
    ('?start: _x -> one | two\n_x.2: "1"\n!two.-1: "2"', ["1", "2"], ["12"]),
    ("// remark\nstart: \"a\" # more\n     | 'b'  // other\n", ["a", "b"], ["ab"]),
    ("# remark\nroot ::= x-y\nx-y ::= 'a'\n       | 'b' # here\n", ["a", "b"], ["x"]),
    ('%import common.INT\n%import common (WORD, WS)\n%import common.CNAME -> NAME\n'
     'start: INT WS WORD WS NAME', ["1 a _b1", "23\tab  c"], ["a 1 b", "1a b"]),
    # The start is `start`, `root`, or what comes first.
    ('x: "x"\nstart: "s"', ["s"], ["x"]),
    ('x ::= "x"\nroot ::= "s"', ["s"], ["x"]),
    ('x: "x" y\ny: "y"', ["xy"], ["y"]),
    ('start: "a"; b: "b";', ["a"], ["b"]),
]  # fmt: skip


@pytest.mark.parametrize(("source", "good", "bad"), TEXTS, ids=[source for source, *_ in TEXTS])
def test_texts_of_a_grammar(source, good, bad):
    assert [matches(source, text) for text in good] == [True] * len(good)
    assert [matches(source, text) for text in bad] == [False] * len(bad)


REFUSED = [
    ("start: a\n  | b\na: \"x\"", (2, 5), "'b' is not defined"),
    ('root ::= "a"\nroot ::= "b"', (2, 1), "'root' is defined twice"),
    ('start: "a"\nloop: "(" loop ")"\n%ignore loop', (2, 1), "'loop' can never end"),
    ('start: a "x"\na: start', (1, 1), "'start' can never end"),
    ('start: "a" ("b"', (1, 12), "'(' is not closed"),
    ('start: "a', (1, 8), "does not end on its line"),
    ('start: "a" @ "b"', (1, 12), "no part of a grammar"),
    ('start: /(a/', (1, 8), "missing )"),
    ('start: "a"\nb: /(.)\\1/\n%ignore b', (2, 4), "back-reference"),
    ('start: /a/l', (1, 8), "flag 'l'"),
    ('%declare X\nstart: X', (1, 1), "'%declare' is not supported"),
    ('%override x: "a"', (1, 1), "'%override' is not supported"),
    ('%import python.NAME\nstart: NAME', (1, 9), "'python' cannot be imported"),
    ('%import common.FOO\nstart: FOO', (1, 16), "common has no 'FOO'"),
    ('sep{x}: x\nstart: sep{"a"}', (1, 4), "templates are not supported"),
    ('start: sep{"a"}', (1, 8), "templates are not supported"),
    ('%ignore "a"', None, "there are no rules"),
    ("", None, "there are no rules"),
    ('start = "a"', (1, 7), "'=' does not define"),
    ('start: "a"~3..2', (1, 11), "3 to 2 times is never"),
    ('root ::= "a"{,}{2000000}', (1, 16), "count is above"),
    ('start: "ab".."c"', (1, 8), "between two characters"),
    ('start: "\\q"', (1, 8), "escape"),
    ('start: "\\ud800"', (1, 8), "no character"),
    ("root ::= [z-a]", (1, 10), "runs backwards"),
    ('start "a"', (1, 7), "':' is wanted"),
    ("start: " + "(" * 70 + '"a"' + ")" * 70, (1, 68), "nesting too deep"),
    ('start: <|im_end|>', (1, 8), "is wanted"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "position", "message"), REFUSED, ids=[message for *_, message in REFUSED]
)
def test_what_is_refused_names_its_place(source, position, message):
    with pytest.raises(ConstraintError, match=re.escape(message)) as caught:
        compile_grammar(source)
    assert caught.value.position == position
    assert caught.value.hint
    if position is not None:
        assert f"at {position[0]}:{position[1]}" in caught.value.message


def test_a_rule_that_nothing_leads_to_is_told():
    found = compile_grammar('start: "a"\nb: "b" c\nc: "c"')
    assert found.warnings == (
        "2:1: nothing leads to rule 'b'",
        "3:1: nothing leads to rule 'c'",
    )


def test_limits_of_size_and_time():
    with pytest.raises(ConstraintError, match="too complex"):
        compile_grammar('start: "a"~30000 x\nx: "(" start ")" | "b"', max_states=2000)
    with pytest.raises(ConstraintError, match="too long"):
        compile_grammar("#" * 1_000_001)
    with pytest.raises(ConstraintError, match="more than 10000 rules"):
        compile_grammar("\n".join(f'r{i} ::= "a"' for i in range(10_001)))
    rules = "\n".join(f'r{i} ::= "a" r{i + 1}' for i in range(3000))
    assert Machine(compile_grammar(f'{rules}\nr3000 ::= ""').network).matches(b"a" * 3000)


@pytest.mark.parametrize("name", [n for n in COMMON if n not in ("ESCAPED_STRING", "C_COMMENT")])
def test_common_terminals_are_larks(name):
    """Lark's own strings and comments hold their ends, where a text is matched as a whole."""
    theirs = lark.Lark(f"%import common.{name}\nstart: {name}", parser="lalr")
    pattern = re.compile(theirs.get_terminal(name).pattern.to_regexp())
    rng = random.Random(name)
    for _ in range(300):
        text = "".join(rng.choice('aZ_09+-.eE \t\n\r/#*"f') for _ in range(rng.randint(0, 5)))
        assert bool(pattern.fullmatch(text)) == bool(re.fullmatch(COMMON[name], text)), text


LARK = [
    ('start: start "+" t | t\nt: N | "(" start ")"\nN: /[0-9]+/\n%ignore " "', "01+() "),
    ('start: "[" (v ("," v)*)? "]"\nv: start | W\nW: /[ab]+/', "[[]],a"),
    ('start: "a" start "b" | "ab"\n', "ab"),
    ('start: x+\nx: "a" | "b" x "+"\n%ignore /[ ]+/', "ab+ "),
    ('start: A | B start\nA: "a"+ B?\nB: "b" ["+"]', "ab+"),
]


@pytest.mark.parametrize(("source", "letters"), LARK)
def test_texts_are_those_that_lark_parses(source, letters):
    theirs = lark.Lark(source, parser="earley", lexer="dynamic_complete")
    ours = Machine(compile_grammar(source).network)
    rng = random.Random(source)
    good = 0
    for _ in range(150):
        text = "".join(rng.choice(letters) for _ in range(rng.randint(1, 6)))
        try:
            theirs.parse(text)
            parsed = True
        except lark.exceptions.LarkError:
            parsed = False
        good += parsed
        assert ours.matches(text.encode()) == parsed, text
    assert good
