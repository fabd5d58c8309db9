"""Drawings and the networkx view: valid, complete, and with the right boxes marked."""

import re
import shutil
import subprocess
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmc.ir import (
    Builder,
    Module,
    new_function,
    parse_module,
    to_dot,
    to_mermaid,
    to_networkx,
    verify,
)
from lmc.ir.graph_boxes import Node, Picture, nodes_of
from lmc.ir.graph_picture import picture_of

JUDGE = """module "judge" {} {
  entry @judge
  func @judge program (%effect: effect, %essay: py) {params = [{name = "essay"}]} {
    %r: state = lm.prologue {pieces = [["text", "Judge:\\n"]]}
    %r1: state = lm.begin %r {role = "user"}
    %r2: state = lm.extend %r1, %essay
    %r3: state = lm.end %r2 {role = "user"}
    %ch: py = val.const {value = ["yes", "no"]}
    %s: state, %ok: text, %m: meta = lm.select %r3, %ch {name = "ok", params = {}, dynamic = []}
    %w: text = val.const {value = "no"}
    %cmp: py = val.compare %ok, %w {op = "=="}
    %b: bool = val.truth %cmp
    %out: state, %v: py = cf.if %b {} {
      cf.yield %s, %w
    } {
      %p: state, %f: list<state> = lm.fork %s {count = 2}
      %i0: int = val.const {value = 0}
      %i1: int = val.const {value = 1}
      %c: state = val.index %f, %i0
      %d: state = val.index %f, %i1
      %c1: state, %x: text, %xm: meta = lm.gen %c {name = "x", params = {n = 1}, dynamic = []}
      %d1: state, %y: text, %ym: meta = lm.gen %d {name = "y", params = {}, dynamic = []}
      %t: text = val.concat %x, %w, %y
      %p1: state = lm.extend %p, %t
      cf.yield %p1, %x
    }
    %l: state = cf.for %essay, %out {} { (%item: py, %st: state)
      %st1: state, %z: text, %zm: meta = lm.gen %st {name = "z", params = {}, dynamic = []}
      %go: bool = val.truth %z
      cf.yield %go, %st1
    }
    func.return %effect, %l, %v
  }
}
"""


@pytest.fixture
def judge() -> Module:
    """A module with a prologue, a choice, a branch, a fork and a loop."""
    module = parse_module(JUDGE)
    verify(module)
    return module


def box(picture: Picture, start: str) -> Node:
    """Return the only box whose first line starts so."""
    nodes = [node for region in picture.functions for node in nodes_of(region)]
    (found,) = (node for node in nodes if node.lines[0].startswith(start))
    return found


def arrows(picture: Picture) -> set[tuple[str, str, str, str]]:
    """Return the arrows by the first lines of their boxes."""
    return {(e.source.lines[0], e.target.lines[0], e.kind, e.label) for e in picture.edges}


def test_neighbouring_appends_share_a_box(judge: Module) -> None:
    picture = picture_of(judge)
    assert box(picture, "prologue").lines == ["prologue: computed once", "Judge:↵"]
    assert box(picture, "<user>").lines == ["<user>{essay}</user>"]


def test_text_whose_front_moved_away_shows_its_rest(judge: Module) -> None:
    function = judge.functions["judge"]
    build = Builder(function.body, index=1)
    parts = [build.const("Text: "), function.body.arguments[1], build.const("!")]
    joined, none = build.value("val.concat", parts), build.const(None)
    for start, shown in ((6, "{essay}!"), (2, "xt: {essay}!")):
        rest = build.value("val.slice", [joined, build.const(start), none, none])
        build.extend(function.body.ops[0].result, rest)
        assert box(picture_of(judge), shown).lines == [shown]


def test_arrows_follow_states_through_branches_and_loops(judge: Module) -> None:
    assert arrows(picture_of(judge)) == {
        ("prologue: computed once", "<user>{essay}</user>", "state", ""),
        ("essay", "<user>{essay}</user>", "value", ""),
        ("<user>{essay}</user>", 'select "ok"', "state", ""),
        ('select "ok"', "ok == 'no'?", "state", ""),
        ("ok == 'no'?", "", "state", "yes"),
        ("ok == 'no'?", "fork into 2", "state", "no"),
        ("fork into 2", 'gen "x"', "state", "[0]"),
        ("fork into 2", 'gen "y"', "state", "[1]"),
        ("fork into 2", "{x}no{y}", "state", ""),
        ('gen "x"', "{x}no{y}", "value", ""),
        ('gen "y"', "{x}no{y}", "value", ""),
        ('gen "x"', "", "value", ""),
        ("{x}no{y}", "", "state", ""),
        ("", "for item in essay", "state", ""),
        ("essay", "for item in essay", "value", ""),
        ("for item in essay", 'gen "z"', "state", ""),
        ('gen "z"', "for item in essay", "back", "while z"),
        ("for item in essay", "return 'no' if ok == 'no' else x", "state", ""),
        ("", "return 'no' if ok == 'no' else x", "value", ""),
    }


def test_what_leads_to_a_fork_is_marked_as_shared(judge: Module) -> None:
    picture = picture_of(judge)
    marked = [n.lines[0] for r in picture.functions for n in nodes_of(r) if n.is_shared]
    leading = ["prologue: computed once", "<user>{essay}</user>", 'select "ok"', "ok == 'no'?"]
    assert marked == [*leading, "fork into 2"]
    dot = to_dot(judge)
    assert dot.count('color="#38761d"') == 5
    assert "class n3,n4,n5,n6,n10 beforeBox" in to_mermaid(judge)


def test_regions_are_framed_and_labelled(judge: Module) -> None:
    (function,) = picture_of(judge).functions
    assert function.label == "judge(essay)"
    assert [region.label for region in function.regions] == ["no", "each time"]
    assert to_dot(judge).count("subgraph cluster_") == 3
    assert to_mermaid(judge).count("subgraph ") == to_mermaid(judge).count("\n    end\n") + 1 == 3


def weird(text: str) -> Module:
    """Return a module with a text everywhere a label may show it."""
    function = new_function("p", [])
    build = Builder(function.body)
    state = build.extend(build.prompt(), text)
    made = build.select(state, [text, "b"], text)
    state = build.gen(made.results[0], text, stop=text, regex=text).results[0]
    flag = build.truth(build.compare("==", made.results[1], text))
    build.return_(function.body.arguments[0], state, flag)
    return Module(text, {"p": function}, ["p"])


DOT_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|->|[\[\]{}=;]|[A-Za-z_][A-Za-z0-9_]*|[0-9.]+)')
MERMAID_LINE = re.compile(
    r'flowchart TB|\s*(subgraph c\d+\["[^"]*"\]|end|'
    r'n\d+(\[|\(|\{|\[\[|\(\[|\(\(|\{\{|\[/|\[\\)"[^"]*"'
    r"(\]|\)|\}|\]\]|\]\)|\)\)|\}\}|/\]|\\\]):::[a-z]+Box"
    r'|n\d+ (==>|-->|-\.->)(\|"[^"]*"\|)? n\d+|classDef [A-Za-z]+ [^"]+|class [n\d,]+ beforeBox'
    r"|linkStyle [\d,]+ [^\"]+)"
)


def check_dot(dot: str) -> None:
    """Fail if a drawing is no DOT, or an arrow leads to no box."""
    tokens, at = [], 0
    while at < len(dot.rstrip()):
        match = DOT_TOKEN.match(dot, at)
        assert match, dot[at : at + 80]
        tokens.append(match.group(1))
        at = match.end()
    depth = 0
    for token in tokens:
        depth += (token in "{[") - (token in "}]")
        assert depth >= 0
    assert depth == 0
    declared = {a for a, b in pairwise(tokens) if b == "[" and a[0] == "n"}
    used = [t for a, t, b in zip(tokens, tokens[1:], tokens[2:], strict=False) if "->" in (a, b)]
    assert declared.issuperset(used)
    assert not any("\n" in token for token in tokens)


def check_mermaid(text: str) -> None:
    """Fail if a line is none that a flowchart has, or a label could be read as markup."""
    for line in text.splitlines():
        assert MERMAID_LINE.fullmatch(line), line
    for label in re.findall(r'"([^"]*)"', text):
        for line in label.split("<br/>"):
            assert not re.search(r"[<>`*_\\\[\]{}|]", line), line
            assert not re.match(r"\s*([-+]|\d+[.])", line), line


def test_drawings_are_valid(judge: Module) -> None:
    check_dot(to_dot(judge))
    check_mermaid(to_mermaid(judge))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.text(max_size=30) | st.sampled_from(['"]; n1 --> n2', "\\l\\", "- a\n1. b", "%%", "&lt;"])
)
def test_no_text_breaks_a_drawing(text: str) -> None:
    module = weird(text)
    check_dot(to_dot(module))
    check_mermaid(to_mermaid(module))
    to_dot(module).encode("utf-8")


@pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz is not installed")
def test_graphviz_reads_drawings(judge: Module) -> None:
    for module in (judge, weird('a "b" \\ &amp; <b> {|}\n\x00 \ud800 🙂')):
        done = subprocess.run(
            ["dot", "-Tplain"], input=to_dot(module), capture_output=True, text=True, check=True
        )
        assert done.stdout.startswith("graph ")
        assert "rror" not in done.stderr


def test_long_texts_are_cut_but_arguments_stay(judge: Module) -> None:
    function = judge.functions["judge"]
    build = Builder(function.body, index=1)
    state = function.body.ops[0].result
    for text in ("word " * 500, function.body.arguments[1], "x" * 3000):
        state = build.extend(state, text)
    function.body.ops[build.index or 0].operands[0] = state
    verify(judge)
    lines = box(picture_of(judge), "word word").lines
    assert len(lines) <= 16
    assert max(map(len, lines)) <= 60
    assert any("{essay}" in line for line in lines)


def test_networkx_view_has_every_use(judge: Module) -> None:
    graph = to_networkx(judge)
    ops = list(judge.walk())
    assert sum(op is not None for _, op in graph.nodes(data="op")) == len(ops)
    uses = [e for *_, e in graph.edges(data=True) if e["kind"] == "use"]
    assert len(uses) == sum(len(op.operands) for op in ops)
    assert graph.nodes["judge/0"]["name"] == "lm.prologue"
    assert graph.has_edge("judge/arg1", "judge/2")
    assert graph.has_edge("judge/9/1/9", "judge/9")
    assert [e["kind"] for e in graph.get_edge_data("judge/10", "judge/10/0/arg1").values()] == [
        "enter"
    ]
