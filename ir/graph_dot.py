"""Drawings in Graphviz' DOT language."""

from lmc.ir.graph_boxes import Edge, Node, Picture, Region

_STYLES = {
    "text": 'shape=box style="filled" fillcolor="#f7f7f7"',
    "prologue": 'shape=box style="filled,bold" fillcolor="#cdeac0"',
    "gen": 'shape=box style="filled,rounded" fillcolor="#cfe2f3"',
    "select": 'shape=box style="filled,rounded" fillcolor="#d9d2e9"',
    "fork": 'shape=trapezium style="filled" fillcolor="#ffffff"',
    "join": 'shape=invtrapezium style="filled" fillcolor="#ffffff"',
    "group": 'shape=box style="filled" fillcolor="#ffffff" peripheries=2',
    "branch": 'shape=diamond style="filled" fillcolor="#fff2cc" margin="0.02,0.02"',
    "merge": "shape=circle width=0.12 fixedsize=true style=filled fillcolor=black",
    "loop": 'shape=hexagon style="filled" fillcolor="#fff2cc"',
    "call": 'shape=box style="filled" fillcolor="#fce5cd" peripheries=2',
    "host": 'shape=component style="filled" fillcolor="#fce5cd"',
    "compute": 'shape=box style="filled,dashed" fillcolor="#ffffff"',
    "param": 'shape=oval style="filled" fillcolor="#eeeeee"',
    "return": 'shape=box style="filled,bold" fillcolor="#ffffff"',
}
_SHARED = "#d9f2d0"
_PLAIN_FILLS = ("#f7f7f7", "#ffffff")
_EDGES = {
    "state": "penwidth=2.4",
    "value": 'penwidth=0.7 color="#666666" arrowsize=0.6',
    "back": 'penwidth=2.4 style=dashed constraint=false color="#444444"',
}
LEGEND = (
    "bold: a prompt; thin: a value; dashed: the next round; green: text that all branches "
    "below share"
)


def to_dot(picture: Picture) -> str:
    """Return the drawing as a DOT digraph."""
    lines = [
        f"digraph {quoted(picture.name)} {{",
        '  graph [rankdir=TB fontname="Helvetica" fontsize=11 labeljust=l labelloc=b '
        f"nodesep=0.3 ranksep=0.35 label={quoted(LEGEND)}]",
        '  node [fontname="Helvetica" fontsize=10 margin="0.12,0.06" color="#555555"]',
        '  edge [fontname="Helvetica" fontsize=9]',
    ]
    for region in picture.functions:
        lines += _region(region, "  ")
    lines += [f"  {_edge(edge)}" for edge in picture.edges]
    return "\n".join([*lines, "}"]) + "\n"


def _region(region: Region, pad: str) -> list[str]:
    look = 'color="#888888" labelloc=t' if region.kind == "function" else 'color="#bbbbbb"'
    lines = [
        f"{pad}subgraph cluster_{region.id} {{",
        f"{pad}  graph [label={quoted(region.label)} style=rounded {look} labelloc=t]",
    ]
    lines += [f"{pad}  {_node(node)}" for node in region.nodes]
    for inner in region.regions:
        lines += _region(inner, pad + "  ")
    return [*lines, pad + "}"]


def _node(node: Node) -> str:
    style = _STYLES[node.kind]
    if node.is_shared:
        style += ' color="#38761d" penwidth=2'
        for fill in _PLAIN_FILLS:
            style = style.replace(f'fillcolor="{fill}"', f'fillcolor="{_SHARED}"')
    is_text = node.kind not in ("branch", "merge", "fork", "join", "loop", "param")
    # \l ends a line and aligns it left.
    label = "".join(_escape(line) + ("\\l" if is_text else "\\n") for line in node.lines)
    label = label if is_text else label.removesuffix("\\n")
    place = f" tooltip={quoted(str(node.location))}" if node.location else ""
    return f'{node.id} [label="{label}" {style}{place}]'


def _edge(edge: Edge) -> str:
    label = f" label={quoted(edge.label)}" if edge.label else ""
    return f"{edge.source.id} -> {edge.target.id} [{_EDGES[edge.kind]}{label}]"


def quoted(text: str) -> str:
    return f'"{_escape(text)}"'


def _escape(text: str) -> str:
    """Escape for a quoted DOT string; what no XML may hold becomes a visible stand-in."""
    shown = "".join(char if char.isprintable() else _stand_in(char) for char in text)
    # Graphviz reads character entities in labels, so that an ampersand must be one itself.
    return shown.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")


def _stand_in(char: str) -> str:
    return {"\n": "↵", "\t": "⇥"}.get(char, "�")
