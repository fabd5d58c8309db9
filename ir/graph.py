"""Views of a module as a graph: for analyses with networkx, and as drawings.

networkx is imported at the first call of `to_networkx` only; drawings need nothing.
"""

from typing import TYPE_CHECKING, Any

from lmc.ir import graph_dot, graph_mermaid
from lmc.ir.core import Block, Function, Module, Value
from lmc.ir.graph_picture import picture_of

if TYPE_CHECKING:
    from networkx import MultiDiGraph


def to_dot(module: Module) -> str:
    """Return a drawing of the module in Graphviz' DOT language."""
    return graph_dot.to_dot(picture_of(module))


def to_mermaid(module: Module) -> str:
    """Return a drawing of the module in Mermaid's flowchart language."""
    return graph_mermaid.to_mermaid(picture_of(module))


def to_networkx(module: Module) -> "MultiDiGraph[str]":
    """Return the module's dataflow: a node per op, an edge per use of a value.

    Nodes are named `function/3` for the op at index 3 of a function's body,
    `function/3/0/1` for an op of its first block; `function/arg0` for the first argument.
    Node attributes: op (None for arguments), name, function. Edge attributes: value, type,
    operand (its index), kind ('use', or 'yield' from a block's end to the op that holds it,
    or 'enter' from an op to a block argument that it binds).
    """
    from networkx import MultiDiGraph

    graph: Any = MultiDiGraph(name=module.name)
    for function in module.functions.values():
        owners: dict[Value, str] = {}
        _add_block(graph, function, function.body, function.name, None, owners)
    return graph


def _add_block(
    graph: Any,
    function: Function,
    block: Block,
    path: str,
    holder: str | None,
    owners: dict[Value, str],
) -> None:
    for index, argument in enumerate(block.arguments):
        name = f"{path}/arg{index}"
        graph.add_node(name, op=None, name=argument.hint, function=function.name)
        owners[argument] = name
        if holder is not None:
            graph.add_edge(holder, name, value=argument, type=str(argument.type), kind="enter")
    for index, op in enumerate(block.ops):
        name = f"{path}/{index}"
        graph.add_node(name, op=op, name=op.name, function=function.name)
        for operand, value in enumerate(op.operands):
            details = {"value": value, "type": str(value.type), "operand": operand}
            graph.add_edge(owners[value], name, kind="use", **details)
            if op.name == "cf.yield" and holder is not None:
                graph.add_edge(name, holder, kind="yield", **details)
        for number, nested in enumerate(op.blocks):
            _add_block(graph, function, nested, f"{name}/{number}", name, owners)
        owners.update(dict.fromkeys(op.results, name))
