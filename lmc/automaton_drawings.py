"""Drawings of the automata behind a program's constrained generations, for `lmc viz`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lmc.errors import ConstraintError, UsageError
from lmc.ir.calls import Constraint
from lmc.ir.core import Module, Op
from lmc.ir.decode_params import check_params, constraint_from
from lmc.ir.expressions import CONSTRAINTS
from lmc.ir.graph_html import Place

if TYPE_CHECKING:
    from lmc.ir.automata.drawing import Drawing


def drawings_by_place(module: Module) -> "dict[Place, Drawing]":
    """Return the drawings of a module's constraints, those that are known."""
    found: dict[Place, Drawing] = {}
    for op, constraint in _constraints(module):
        if op.location is None:
            continue
        try:
            found[op.location.line, op.location.column] = drawing_of(constraint)
        except ConstraintError:
            continue  # lmc compile tells it; a page of the rest is still of use
    return found


def drawing_named(module: Module, name: str) -> "Drawing":
    """Return the drawing of the constraint of a generation, by the generation's name.

    Raises:
        UsageError: there is no such generation.
        ConstraintError: the constraint is refused.
    """
    known = [(op.attributes.get("name"), constraint) for op, constraint in _constraints(module)]
    constraint = next((found for each, found in known if each == name), None)
    if constraint is None:
        names = ", ".join(sorted({str(each) for each, _ in known if each})) or "none"
        raise UsageError(
            f"there is no generation {name!r} with a constraint that is known before it runs",
            hint=f"there are: {names}",
        )
    return drawing_of(constraint)


def drawing_of(constraint: Constraint) -> "Drawing":
    """Return the drawing of a constraint: its automaton, or the network of what nests.

    Raises:
        ConstraintError: the constraint is refused.
    """
    from lmc.ir.automata import ByteDfa
    from lmc.ir.automata.drawing import draw_automaton
    from lmc.ir.grammar.drawing import draw_network
    from lmc.ir.languages import language_of

    found = language_of(constraint)
    return draw_automaton(found) if isinstance(found, ByteDfa) else draw_network(found)


def _constraints(module: Module) -> Iterator[tuple[Op, Constraint]]:
    """Yield the generations whose constraint is known, in the order of the program."""
    for op in module.walk():
        params, dynamic = op.attributes.get("params"), op.attributes.get("dynamic")
        if op.name != "lm.gen" or not isinstance(params, dict) or not isinstance(dynamic, list):
            continue
        if any(name in dynamic for name in CONSTRAINTS):
            continue
        try:
            given = check_params({key: params[key] for key in CONSTRAINTS if key in params})
        except UsageError:
            continue  # the call fails when it is made
        constraint = constraint_from(given)
        if constraint is not None:
            yield op, constraint
