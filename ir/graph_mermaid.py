"""Drawings in Mermaid's flowchart language."""

import re

from lmc.ir.graph_boxes import Edge, Node, Picture, Region, nodes_of

_SHAPES = {
    "gen": ("(", ")"), "select": ("(", ")"), "fork": ("[/", "\\]"), "join": ("[\\", "/]"),
    "branch": ("{", "}"), "merge": ("((", "))"), "loop": ("{{", "}}"), "call": ("[[", "]]"),
    "host": ("[[", "]]"), "group": ("[[", "]]"), "param": ("([", "])"), "return": ("[", "]"),
}  # fmt: skip
_CLASSES = {
    "text": "fill:#f7f7f7,stroke:#555",
    "prologue": "fill:#cdeac0,stroke:#333,stroke-width:2px",
    "gen": "fill:#cfe2f3,stroke:#555",
    "select": "fill:#d9d2e9,stroke:#555",
    "fork": "fill:#fff,stroke:#555",
    "join": "fill:#fff,stroke:#555",
    "group": "fill:#fff,stroke:#555",
    "branch": "fill:#fff2cc,stroke:#555",
    "merge": "fill:#000,stroke:#000",
    "loop": "fill:#fff2cc,stroke:#555",
    "call": "fill:#fce5cd,stroke:#555",
    "host": "fill:#fce5cd,stroke:#555",
    "compute": "fill:#fff,stroke:#555,stroke-dasharray:4 3",
    "param": "fill:#eee,stroke:#555",
    "return": "fill:#fff,stroke:#333,stroke-width:2px",
    "shared": "fill:#d9f2d0,stroke:#38761d,stroke-width:2px",
    "before": "stroke:#38761d,stroke-width:2px",
}
_ARROWS = {"state": "==>", "value": "-->", "back": "-.->"}
_LEFT = "color:#000,text-align:left"
_PLAIN = re.compile(r"[A-Za-z0-9 ,:()'?!]|[^\x00-\x7f]")
_OWN_FILL = ("gen", "select", "prologue", "merge", "call", "host", "branch", "loop")


def to_mermaid(picture: Picture) -> str:
    """Return the drawing as a Mermaid flowchart."""
    lines = ["flowchart TB"]
    for region in picture.functions:
        lines += _region(region, "  ")
    lines += [f"  {_edge(edge)}" for edge in picture.edges]
    lines += [f"  classDef {name}Box {style},{_LEFT}" for name, style in _CLASSES.items()]
    framed = [n.id for r in picture.functions for n in nodes_of(r) if n.is_shared]
    if framed:
        lines.append(f"  class {','.join(framed)} beforeBox")
    thin = [str(i) for i, edge in enumerate(picture.edges) if edge.kind == "value"]
    if thin:
        lines.append(f"  linkStyle {','.join(thin)} stroke:#888,stroke-width:1px")
    return "\n".join(lines) + "\n"


def _region(region: Region, pad: str) -> list[str]:
    lines = [f'{pad}subgraph {region.id}["{escaped(region.label)}"]']
    lines += [f"{pad}  {_node(node)}" for node in region.nodes]
    for inner in region.regions:
        lines += _region(inner, pad + "  ")
    return [*lines, pad + "end"]


def _node(node: Node) -> str:
    left, right = _SHAPES.get(node.kind, ("[", "]"))
    label = "<br/>".join(map(escaped, node.lines)) or " "
    return f'{node.id}{left}"{label}"{right}:::{_class(node)}Box'


def _class(node: Node) -> str:
    # "Box" is added to the name: some kinds are words of Mermaid.
    if node.is_shared and node.kind not in _OWN_FILL:
        return "shared"
    return node.kind


def _edge(edge: Edge) -> str:
    label = f'|"{escaped(edge.label)}"|' if edge.label else ""
    return f"{edge.source.id} {_ARROWS[edge.kind]}{label} {edge.target.id}"


def escaped(text: str) -> str:
    """Write all that Mermaid, Markdown or HTML could read as markup as character codes.

    Marks such as `-` and `.` make a list only where a line starts.
    """
    head = len(text) - len(text.lstrip(" 0123456789")) + 1
    kept = (_PLAIN.fullmatch(c) or (c in "./-=" and i >= head) for i, c in enumerate(text))
    shown = (
        char if keep and char.isprintable() else _coded(char)
        for char, keep in zip(text, kept, strict=True)
    )
    return "".join(shown) or " "


def _coded(char: str) -> str:
    shown = {"\n": "↵", "\t": "⇥"}.get(char)
    if shown or not char.isprintable():
        return shown or "�"
    return f"#{ord(char)};"
