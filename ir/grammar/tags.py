"""Structural tags: free text in which a begin mark opens what a schema or grammar must follow.

The source is JSON:

    {"tags": [{"begin": "<tool>", "json_schema": {...}, "end": "</tool>"}, ...],
     "free_text": true, "at_least": 0, "at_most": null}

`begin` and `end` are texts, or `{"control": "<|name|>"}` for one control token of the model;
`end` may be left out. Inside stands one of `json_schema` (as `schema_source` gives it, or a
schema), `regex` and `grammar`, or none: then the marks follow each other. Free text holds no
begin mark: the first place where one is complete opens its tag, whatever may follow; of two
that are complete at once the longer one.
"""

import json
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from lmc.errors import ConstraintError
from lmc.ir.automata.budget import Budget
from lmc.ir.automata.compiler import compile_regex
from lmc.ir.automata.dfa import DEAD, ByteDfa
from lmc.ir.automata.graph import Template
from lmc.ir.grammar.compiler import (
    DEFAULT_MAX_SECONDS,
    DEFAULT_MAX_STATES,
    compile_grammar,
)
from lmc.ir.grammar.network import Network, NetworkBuilder

MAX_TAGS = 256
_INSIDE = ("json_schema", "regex", "grammar")


def tags_source(
    tags: list[dict[str, Any]],
    *,
    free_text: bool = True,
    at_least: int = 0,
    at_most: int | None = None,
) -> str:
    """Return structural tags as the source text of a constraint.

    Raises:
        ConstraintError: they are not as the module's text says.
    """
    made: dict[str, Any] = {"tags": tags, "free_text": free_text}
    made |= {"at_least": at_least, "at_most": at_most}
    _checked(made)
    return json.dumps(made, separators=(",", ":"), ensure_ascii=False)


def compile_tags_source(source: str, *, max_seconds: float = DEFAULT_MAX_SECONDS) -> Network:
    """Return the network of structural tags.

    Each part may take as much time as all of them.

    Raises:
        ConstraintError: the source is wrong, a part of it is refused, or it is too costly.
    """
    try:
        spec = json.loads(source)
    except (ValueError, RecursionError) as error:
        raise _wrong(f"they are not JSON: {error}") from None
    tags = _checked(spec)
    budget = Budget(
        max_states=DEFAULT_MAX_STATES, max_seconds=max_seconds, subject="structural tags"
    )
    network = _Tags(spec, tags, budget).run()
    if network is None:
        raise _wrong("no text fits them")
    return network


def _wrong(message: str) -> ConstraintError:
    return ConstraintError(f"structural tags: {message}", hint="see docs/constraints.md")


def _checked(spec: Any) -> list[dict[str, Any]]:
    """Return the tags of a well-formed spec."""
    if not isinstance(spec, dict) or set(spec) - {"tags", "free_text", "at_least", "at_most"}:
        raise _wrong("an object with tags, free_text, at_least and at_most is wanted")
    tags, low, high = spec.get("tags"), spec.get("at_least", 0), spec.get("at_most")
    if not isinstance(tags, list) or not 1 <= len(tags) <= MAX_TAGS:
        raise _wrong(f"a list of 1 to {MAX_TAGS} tags is wanted")
    if low not in (0, 1) or high not in (None, 1) or type(spec.get("free_text", True)) is not bool:
        raise _wrong("free_text is true or false, at_least 0 or 1, at_most 1 or null")
    for index, tag in enumerate(tags):
        known = {"begin", "end", *_INSIDE}
        if not isinstance(tag, dict) or set(tag) - known or sum(k in tag for k in _INSIDE) > 1:
            raise _wrong(f"tag {index} has something else than begin, end and what is inside")
        for name in ("begin", "end"):
            mark = tag.get(name, "" if name == "end" else None)
            is_control = isinstance(mark, dict) and list(mark) == ["control"]
            is_control = is_control and isinstance(mark["control"], str)
            if not is_control and not (isinstance(mark, str) and (mark or name == "end")):
                raise _wrong(f"{name!r} of tag {index} is a text or a control token's name")
    texts = [tag["begin"] for tag in tags if isinstance(tag["begin"], str)]
    for one in texts:
        for other in texts:
            if one in other[:-1]:
                raise _wrong(f"begin {one!r} is complete before {other!r} is, which never opens")
    if len(set(texts)) < len(texts):
        raise _wrong("two tags begin alike")
    return tags


class _Tags:
    """The network of some tags under construction."""

    def __init__(self, spec: dict[str, Any], tags: list[dict[str, Any]], budget: Budget) -> None:
        self.spec = spec
        self.tags = tags
        self.budget = budget
        self.builder = NetworkBuilder(budget)
        # One network for equal parts: they share its rules.
        self._parts: dict[tuple[str, str], ByteDfa | Network] = {}
        self.graph = self.builder.graph
        begins = [tag["begin"] for tag in tags if isinstance(tag["begin"], str)]
        guard = f"(?!{'|'.join(map(re.escape, begins))})" if begins else ""
        self.free = f"(?s:(?:{guard}.)*)" if spec.get("free_text", True) else ""

    def run(self) -> Network | None:
        top = self.builder.rule("top")
        start, end = self.builder.define(top)
        closed = self.graph.node()
        for index in range(len(self.tags)):
            self._tag(index, start, closed)
        if self.spec.get("at_least", 0) == 0:
            self._regex(self.free, start, end)
        self._regex(self.free if self.spec.get("at_most") is None else "", closed, end)
        if self.spec.get("at_most") is None:
            for index in range(len(self.tags)):
                self._tag(index, closed, closed)
        return self.builder.finish(top)

    def _tag(self, index: int, start: int, end: int) -> None:
        """Lead from `start` to `end` by free text and one tag."""
        tag, opened, inside = self.tags[index], self.graph.node(), self.graph.node()
        begin = tag["begin"]
        if isinstance(begin, str):
            # In one pattern: no mark may be complete before this one is.
            self._regex(self.free + re.escape(begin), start, opened)
        else:
            before = self.graph.node()
            self._regex(self.free, start, before)
            self.builder.control(before, begin["control"], opened)
        rule = self.builder.rule(("inside", index))
        if not self.builder.is_defined(rule):
            self._inside(tag, *self.builder.define(rule))
        self.builder.call(opened, rule, inside)
        closing = tag.get("end", "")
        if isinstance(closing, str):
            self.graph.chain(inside, closing.encode(), end)
        else:
            self.builder.control(inside, closing["control"], end)

    def _inside(self, tag: dict[str, Any], start: int, end: int) -> None:
        if "regex" in tag:
            self._regex(str(tag["regex"]), start, end)
        elif "grammar" in tag:
            embed(self.builder, self._grammar(str(tag["grammar"])), start, end)
        elif "json_schema" in tag:
            found = self._schema(tag["json_schema"])
            if isinstance(found, ByteDfa):
                self.graph.copy(Template.of_dfa(found), start, end)
            else:
                embed(self.builder, found, start, end)
        else:
            self.graph.move(start, end)

    def _grammar(self, source: str) -> Network:
        found = self._parts.get(("grammar", source))
        if found is None:
            found = compile_grammar(source, max_seconds=self.budget.max_seconds).network
            self._parts["grammar", source] = found
        assert isinstance(found, Network), "grammars are networks"
        return found

    def _schema(self, schema: Any) -> ByteDfa | Network:
        # Here to break an import cycle: schemas that nest are networks.
        from lmc.ir.json_schema import compile_source, schema_source

        source = schema if isinstance(schema, str) else schema_source(schema)
        found = self._parts.get(("json_schema", source))
        if found is None:
            found = compile_source(source, max_seconds=self.budget.max_seconds)
            self._parts["json_schema", source] = found
        return found

    def _regex(self, pattern: str, start: int, end: int) -> None:
        budget = self.budget
        dfa = compile_regex(pattern, max_states=budget.max_states, max_seconds=budget.max_seconds)
        self.graph.copy(Template.of_dfa(dfa), start, end)
        self.budget.check_time()


def embed(builder: NetworkBuilder, network: Network, start: int, end: int) -> None:
    """Lead from `start` to `end` by the texts of a finished network."""
    graph = builder.graph
    if network.may_be_empty:
        graph.move(start, end)
    rules = [builder.rule((network, rule)) for rule in range(len(network.starts))]
    builder.call(start, rules[0], end)
    starts: list[int] = network.starts.tolist()
    calls, controls = _by_state(network.calls.tolist()), _by_state(network.controls)
    bounds = [*starts[1:], network.state_count]
    for rule, first, last in zip(rules, starts, bounds, strict=True):
        if builder.is_defined(rule):
            continue
        opened, closed = builder.define(rule)
        nodes = {state: graph.node() for state in range(first, last)}
        graph.move(opened, nodes[first])
        for state, node in nodes.items():
            row = network.table[state, network.classes]
            cuts = [0, *(np.flatnonzero(np.diff(row)) + 1).tolist(), len(row)]
            for low, high in pairwise(cuts):
                if row[low] != DEAD:
                    graph.edges[node].append((low, high - 1, nodes[int(row[low])]))
            for called, after in calls.get(state, ()):
                builder.call(node, rules[called], nodes[after])
            for name, after in controls.get(state, ()):
                builder.control(node, name, nodes[after])
            if network.accepting[state]:
                graph.move(node, closed)


def _by_state(rows: Iterable[Sequence[Any]]) -> dict[int, list[tuple[Any, int]]]:
    """Return (state, what, next) entries by state."""
    found: dict[int, list[tuple[Any, int]]] = {}
    for state, what, after in rows:
        found.setdefault(state, []).append((what, after))
    return found
