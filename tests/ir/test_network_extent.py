"""Lengths, examples, skeletons and drawings of networks, against the texts that these have."""

import math
import random

import pytest

import lmc
from lmc.errors import ConstraintError
from lmc.ir.automata.drawing import draw_automaton
from lmc.ir.automata.skeleton import skeleton_of
from lmc.ir.calls import Constraint
from lmc.ir.grammar import Extent, Machine, Network, compile_grammar, network_skeleton
from lmc.ir.grammar.drawing import draw_network
from lmc.ir.languages import language_of
from lmc.ir.skeleton import shown_skeleton, skeleton_faults

PIECES = ('"a"', '"bc"', '"é"', "[ab]", "r0", "r1", "r2", "r3")
TREE = {
    "$defs": {
        "t": {
            "type": "object",
            "properties": {"v": {"type": "integer"}, "kids": {"items": {"$ref": "#/$defs/t"}}},
            "required": ["v"],
        }
    },
    "$ref": "#/$defs/t",
}


def network_of(limit: lmc.Constraint) -> Network:
    found = language_of(limit.request())
    assert isinstance(found, Network)
    return found


def grammar_of(draw: random.Random) -> str:
    """Return a random grammar, mostly with recursion."""
    lines = []
    for number in range(4):
        options = []
        for _ in range(draw.randint(1, 3)):
            parts = draw.choices(PIECES, k=draw.randint(1, 3))
            options.append(" ".join(part + draw.choice(("", "", "", "?", "+")) for part in parts))
        lines.append(f"r{number} ::= {' | '.join(options)}")
    return "\n".join(["root ::= " + " ".join(draw.choices(PIECES, k=3)), *lines])


def texts_of(network: Network, limit: int) -> list[bytes]:
    """Return all texts of up to so many bytes, shortest first."""
    machine = Machine(network)
    found, level = [], [(b"", machine.start)]
    for _ in range(limit + 1):
        found += [text for text, reading in level if reading.may_end]
        level = [
            (text + bytes([byte]), after)
            for text, reading in level
            for byte in machine.allowed_bytes(reading)
            if (after := machine.read(reading, bytes([byte]))) is not None
        ][:600]
    return found


def fits(text: bytes, skeleton: list) -> bool:
    """Whether a text is its skeleton: parts with so many bytes that it all adds up."""
    ends = {0}
    for part in skeleton:
        if part[0] == "hole":
            last = len(text) if part[2] is None else part[2]
            ends = {e + n for e in ends for n in range(part[1], last + 1) if e + n <= len(text)}
            continue
        words = [each.encode() for each in (part[1] if part[0] == "gate" else [part[1]])]
        ends = {e + len(word) for e in ends for word in words if text.startswith(word, e)}
    return len(text) in ends


def test_random_grammars_are_told_as_they_are():
    draw = random.Random(11)
    seen = finite = with_text = 0
    while seen < 70:
        source = grammar_of(draw)
        try:
            network = compile_grammar(source).network
        except ConstraintError:
            continue  # no text ends
        seen += 1
        extent, texts = Extent(network), texts_of(network, 8)
        assert extent.longest_tokens == extent.longest
        example = extent.example()
        assert len(example) == extent.shortest, source
        assert Machine(network).matches(example), source
        if texts:
            assert len(texts[0]) == extent.shortest, source
        if extent.longest <= 8:
            assert max(map(len, texts)) == extent.longest, source
            finite += 1
        skeleton = network_skeleton(network)
        assert skeleton is not None
        assert list(skeleton_faults(skeleton)) == []
        assert all(fits(text, skeleton) for text in texts), (source, skeleton)
        with_text += any(part[0] != "hole" for part in skeleton)
        drawing = draw_network(network)
        assert drawing.count >= 1
        assert all(0 <= s < drawing.count for a in drawing.arrows for s in (a.source, a.target))
    assert finite > 4
    assert with_text > 25


@pytest.mark.parametrize(
    ("limit", "skeleton", "lengths"),
    [
        (lmc.Constraint.json_schema(TREE), """'{"v": ' <1-> '}'""", (8, math.inf, math.inf)),
        (
            lmc.Constraint.ebnf('root ::= "f(" args ")"\nargs ::= "x" | "g(" args ")"'),
            "'f(' <1-> ')'",
            (4, math.inf, math.inf),
        ),
        (
            lmc.Constraint.ebnf('start: "Sum: " e " =" /(yes|no)/\ne: "(" e ")" | /[0-9]/'),
            "'Sum: ' <1-> ' =' (no|yes)",
            (10, math.inf, math.inf),
        ),
        (
            lmc.Constraint.tags(
                [{"begin": {"control": "<|im_start|>"}, "regex": "a[0-9]{1,3}b", "end": ";"}],
                free_text=False, at_least=1, at_most=1,
            ),
            "'a' <1-3> 'b;'",
            (4, 6, 7),
        ),
        (lmc.Constraint.tags([{"begin": "<a>", "end": "b"}]), "<0->", (0, math.inf, math.inf)),
        (lmc.Constraint.ebnf('start: a? \na: "x" a?'), "<0->", (0, math.inf, math.inf)),
    ],
)  # fmt: skip
def test_what_rules_force_is_told(limit, skeleton, lengths):
    network = network_of(limit)
    extent = Extent(network)
    assert shown_skeleton(network_skeleton(network)) == skeleton
    assert (extent.shortest, extent.longest, extent.longest_tokens) == lengths
    assert network_skeleton(network, max_states=1) is None


@pytest.mark.parametrize("pattern", ["ab[0-9]{2}", "(yes|no) x*y", "a(b|c)d?", "[^a]{3}é"])
def test_without_recursion_it_is_what_the_automaton_says(pattern):
    """A regex, and a grammar that calls its text from a rule that nests elsewhere."""
    dfa = language_of(Constraint("regex", pattern))
    nested = network_of(lmc.Constraint.ebnf(f'start: word | "z" start "z"\nword: /{pattern}/'))
    alone = network_of(lmc.Constraint.ebnf(f"start: word\nword: /{pattern}/"))
    assert network_skeleton(alone) == skeleton_of(dfa)
    assert Extent(nested).shortest == Extent(alone).shortest == dfa.shortest_len()
    longest = dfa.longest_len()
    assert Extent(alone).longest == (math.inf if longest is None else longest)
    states = range(dfa.state_count)
    one_way = [len(dfa.allowed_bytes(s)) == 1 and not dfa.is_accepting(s) for s in states]
    assert Extent(alone).forced_share == sum(one_way) / len(one_way)
    whole, own = draw_automaton(dfa), draw_network(alone)
    assert (own.count, own.arrows, own.ends, own.rules) == (
        whole.count, whole.arrows, whole.ends, (),
    )  # fmt: skip


def test_rules_are_drawn_one_by_one():
    drawing = draw_network(network_of(lmc.Constraint.ebnf('root ::= "(" root ")" | [a-c]')))
    labels = [arrow.label for arrow in drawing.arrows]
    assert set(labels) == {")", "(⟨rule 1⟩", "[a-c]", "⟨rule 1⟩"}
    assert drawing.title == "6 states in 2 rules"
    dot, mermaid = drawing.to_dot(), drawing.to_mermaid()
    ((name, state),) = drawing.rules
    assert f"r{state} -> s{state}" in dot
    assert f'r{state}["{name}"] --> s{state}' in mermaid
    picture = drawing.as_picture()
    ids = [node["id"] for node in picture["nodes"]]
    assert len(set(ids)) == len(ids) == drawing.count + 1
    assert all({edge["source"], edge["target"]} <= set(ids) for edge in picture["edges"])
    control = lmc.Constraint.tags(
        [{"begin": {"control": "<|x|>"}, "regex": "a"}], free_text=False, at_least=1, at_most=1
    )
    assert "⟨<|x|>⟩" in control.to_dot()


def test_of_a_large_network_the_skeleton_is_drawn():
    drawing = draw_network(network_of(lmc.Constraint.json_schema(TREE)), max_states=10)
    assert drawing.is_skeleton
    assert [arrow.label for arrow in drawing.arrows] == ['{"v": ', "1 bytes or more", "}"]


def test_rules_that_double_stay_quick():
    rules = [f"r{n}: r{n + 1} r{n + 1}" for n in range(40)]
    network = compile_grammar(
        "start: r0\n" + "\n".join([*rules, 'r40: "a" | "(" start ")"'])
    ).network
    extent = Extent(network)
    assert extent.shortest == 2**40
    assert extent.longest == math.inf
    assert network_skeleton(network) == [["hole", 2**40, None]]


def test_lengths_beyond_counting_are_bounds():
    rules = [f"r{n}: r{n + 1} r{n + 1}" for n in range(1200)]
    network = compile_grammar("start: r0\n" + "\n".join([*rules, 'r1200: "ab" | "c"'])).network
    extent = Extent(network)
    assert (extent.shortest, extent.longest) == (2**50, math.inf)
    ((kind, least, most),) = network_skeleton(network, max_states=8000)
    assert (kind, least >= 2**50, most) == ("hole", True, None)


def test_long_chains_and_many_calls():
    rules = [f'r{n}: "<" r{n + 1} ">"' for n in range(300)]
    network = compile_grammar("start: r0\n" + "\n".join([*rules, 'r300: "a" start | "b"'])).network
    assert Extent(network).shortest == 601
    skeleton = network_skeleton(network)
    assert skeleton is not None
    assert fits(b"<" * 300 + b"b" + b">" * 300, skeleton)
