"""A page that shows a module stage by stage: one HTML file that needs nothing else.

The layout is dagre's (MIT licence, viewer/dagre.LICENSE.txt), which stands in the page.
"""

import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmc.ir.core import Module
from lmc.ir.graph_boxes import Node, Picture, Region, nodes_of
from lmc.ir.graph_picture import picture_of
from lmc.ir.location import Location
from lmc.ir.printer import print_module

VIEWER = Path(__file__).resolve().parent / "viewer"

Place = tuple[int, int]
"""Line and column."""


@dataclass(frozen=True, slots=True)
class StageRemark:
    """What a pass did (`fired`) or why not, and the source line (0: none)."""

    text: str
    line: int
    fired: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A module as one pass left it.

    Attributes:
        name: the pass, or 'captured'.
        module: what it left.
        level: what the pass keeps; '' for the captured module.
        remarks: what it told.
        costs: what the ops of a place take, in words.
        line_costs: prefill tokens by line, in words.
        took: what the ops of a place took in a recorded run, in words.
    """

    name: str
    module: Module
    level: str = ""
    remarks: Sequence[StageRemark] = ()
    costs: Mapping[Place, str] = field(default_factory=dict[Place, str])
    line_costs: Mapping[int, str] = field(default_factory=dict[int, str])
    took: Mapping[Place, str] = field(default_factory=dict[Place, str])


def to_html(
    title: str,
    stages: Sequence[Stage],
    source: Sequence[tuple[int, str]],
    totals: str = "",
    took: Mapping[int, str] | None = None,
    automata: Mapping[Place, Mapping[str, Any]] | None = None,
) -> str:
    """Return the page.

    Args:
        title: its heading.
        stages: the module as captured, and as each pass left it.
        source: the source's lines with their numbers.
        totals: a line for the head.
        took: what recorded runs took, by source line, in words.
        automata: pictures of the constraints of generations, by place.
    """
    pictures = automata or {}
    data = {
        "title": title,
        "totals": totals,
        "source": [{"number": number, "text": text} for number, text in source],
        "stages": [_stage(stage) for stage in stages],
        "took": {str(line): text for line, text in (took or {}).items()},
        "automata": {f"{line}:{column}": found for (line, column), found in pictures.items()},
    }
    # No text of a program may end the script element that holds it.
    plain = json.dumps(data, ensure_ascii=True).replace("<", "\\u003c")
    parts = {
        "TITLE": html.escape(title),
        "STYLE": _read("page.css"),
        "LAYOUT": _read("dagre.min.js"),
        "SCRIPT": _read("page.js"),
        "DATA": plain,
    }
    return re.sub("@([A-Z]+)@", lambda mark: parts[mark[1]], _read("page.html"))


def source_lines(module: Module) -> list[tuple[int, str]]:
    """Return the source lines that a module's locations hold."""
    found = {
        op.location.line: op.location.text
        for op in module.walk()
        if op.location is not None and op.location.text
    }
    return sorted(found.items())


def _read(name: str) -> str:
    return (VIEWER / name).read_text(encoding="utf-8")


def _stage(stage: Stage) -> dict[str, Any]:
    remarks = [{"text": r.text, "line": r.line, "fired": r.fired} for r in stage.remarks]
    return {
        "name": stage.name,
        "level": stage.level,
        "remarks": remarks,
        "costs": {str(line): text for line, text in stage.line_costs.items()},
        "ir": print_module(stage.module),
        "picture": _picture(picture_of(stage.module), stage),
    }


def _picture(picture: Picture, stage: Stage) -> dict[str, Any]:
    return {
        "regions": [_region(r) for top in picture.functions for r in _regions(top)],
        "nodes": [_node(n, stage) for top in picture.functions for n in nodes_of(top)],
        "edges": [
            {"source": e.source.id, "target": e.target.id, "kind": e.kind, "label": e.label}
            for e in picture.edges
        ],
    }


def _regions(region: Region) -> Iterator[Region]:
    yield region
    for inner in region.regions:
        yield from _regions(inner)


def _region(region: Region) -> dict[str, Any]:
    parent = region.parent.id if region.parent is not None else None
    return {"id": region.id, "label": region.label, "kind": region.kind, "parent": parent}


def _node(node: Node, stage: Stage) -> dict[str, Any]:
    place = _place(node.location)
    return {
        "id": node.id,
        "kind": node.kind,
        "lines": node.lines,
        "parent": node.region.id if node.region is not None else None,
        "line": place[0] if place else 0,
        "place": str(node.location or ""),
        "at": f"{place[0]}:{place[1]}" if place else "",
        "shared": node.is_shared,
        "cost": stage.costs.get(place, "") if place else "",
        "took": stage.took.get(place, "") if place else "",
    }


def _place(location: Location | None) -> Place | None:
    return (location.line, location.column) if location is not None else None
