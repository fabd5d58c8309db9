"""The parts of a drawing: boxes, the frames around them, and arrows."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from lmc.ir.location import Location

NodeKind = Literal[
    "text", "gen", "select", "fork", "join", "group", "prologue", "branch", "merge", "loop",
    "call", "host", "compute", "param", "return",
]  # fmt: skip
EdgeKind = Literal["state", "value", "back"]


@dataclass(eq=False, slots=True)
class Node:
    """A box; `is_shared` says that several branches have its text in common."""

    id: str
    kind: NodeKind
    lines: list[str]
    location: Location | None = None
    region: "Region | None" = None
    is_shared: bool = False


@dataclass(eq=False, slots=True)
class Region:
    """A frame around boxes: a function, an arm of a branch, the body of a loop.

    States enter a region through its `entry`, the branch or loop it belongs to.
    """

    id: str
    label: str
    kind: Literal["function", "arm", "body"]
    parent: "Region | None" = None
    entry: Node | None = None
    nodes: list[Node] = field(default_factory=list)
    regions: list["Region"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Edge:
    """An arrow: a prompt state, a plain value, or the way back to a loop's start."""

    source: Node
    target: Node
    kind: EdgeKind
    label: str = ""


@dataclass(slots=True)
class Picture:
    """All boxes by region, and the arrows between them."""

    name: str
    functions: list[Region]
    edges: list[Edge]


def path_of(node: Node) -> list[Region]:
    """Return the regions around a node, outermost first."""
    path: list[Region] = []
    region = node.region
    while region is not None:
        path.append(region)
        region = region.parent
    return path[::-1]


def is_within(node: Node, region: Region) -> bool:
    """Whether a node lies in a region or in one nested in it."""
    return region in path_of(node)


def entered(source: Node, target: Node) -> list[Region]:
    """Return the regions that an arrow enters on its way, outermost first."""
    around = path_of(source)
    return [region for region in path_of(target) if region not in around]


def nodes_of(region: Region) -> Iterator[Node]:
    """Yield all nodes of a region and of those nested in it."""
    yield from region.nodes
    for inner in region.regions:
        yield from nodes_of(inner)
