"""More faults of passes: what may not be dropped, moved, merged or computed ahead."""

from typing import Any

from lmc.ir.core import Block, Function, Module, Op, replace_values
from lmc.ir.types import STATE
from lmc.passes import analysis, dce, fold, fold_states, fold_values, hoist_prefix, unroll
from lmc.passes.batch_forks import BatchForksPass
from planted_faults.tools import after, each_op, fault, ops_of, wrapped


def uses(function: Function) -> set[Any]:
    """Return every value that some op takes."""
    return {value for _, op in ops_of(function.body) for value in op.operands}


@fault
def dce_drops_branches_with_effects(patch: Any) -> None:
    """A branch whose values nobody reads goes, with the host calls in it."""

    def edit(function: Function, block: Block, op: Op) -> None:
        used = uses(function)
        unread = all(v not in used or v.type.name == "effect" for v in op.results)
        inner = op.blocks[1].terminator.operands
        outer = {v for b in op.blocks for o in b.ops for v in o.results}
        if unread and op in block.ops and not any(value in outer for value in inner):
            replace_values(function.body, dict(zip(op.results, inner, strict=True)))
            block.ops.remove(op)

    after(patch, dce.DcePass, each_op("cf.if", edit))


@fault
def dce_drops_calls_read_by_computed_names(patch: Any) -> None:
    """A generation on a copy goes where no reading names its variable in the source."""

    def change(module: Module) -> None:
        for function in module.functions.values():
            ops = list(ops_of(function.body))
            named = {op.attributes.get("name") for _, op in ops if op.name in ("lm.get", "lm.has")}
            returned = function.body.terminator.operands
            for block, op in ops:
                if op.name == "lm.gen" and op.attributes.get("name") not in named:
                    used = uses(function)
                    if any(v in used for v in op.results[1:]) or op.results[0] in returned:
                        continue
                    place = block.ops.index(op)
                    tick = Op("lm.tick", [op.operands[0]], [op.results[0]], {"n": 1}, [],
                              op.location)  # fmt: skip
                    block.ops[place] = tick

    after(patch, dce.DcePass, change)


@fault
def dce_drops_text_before_a_choice(patch: Any) -> None:
    """What is appended right before a choice goes."""

    def change(module: Module) -> None:
        for function in module.functions.values():
            made = {r: (b, o) for b, o in ops_of(function.body) for r in o.results}
            for _, op in list(ops_of(function.body)):
                if op.name == "lm.select" and op.operands[0] in made:
                    _, before = made[op.operands[0]]
                    if before.name == "lm.extend":
                        op.operands[0] = before.operands[0]

    after(patch, dce.DcePass, change)


@fault
def fold_computes_what_raises(patch: Any) -> None:
    """An expression of constants that raises becomes None."""

    def evaluate(original: Any, op: Op, operands: Any) -> Any:
        made = original(op, operands)
        is_known = all(rewriter_constant(value) for value in operands)
        return made if made is not None or not is_known else None

    def rewriter_constant(value: Any) -> bool:
        return value is not None

    def drop(function: Function, block: Block, op: Op) -> None:
        constants = {o.result for _, o in ops_of(function.body) if o.name == "val.const"}
        if op.operands[1] in constants and op in block.ops and op.result.type.name == "py":
            block.ops[block.ops.index(op)] = Op(
                "val.const", [], [op.result], {"value": None}, [], op.location
            )

    wrapped(patch, fold_values, "evaluate", evaluate)
    after(patch, fold.FoldPass, each_op("val.index", drop))


@fault
def fold_reads_an_older_version(patch: Any) -> None:
    """A read of a variable gives what was set before it was set again."""

    def look(original: Any, state: Any, name: str, facts: Any) -> Any:
        found = original(state, name, facts)
        if isinstance(found, tuple):
            earlier = original(found[0].operands[0], name, facts)
            if isinstance(earlier, tuple):
                return earlier
        return found

    wrapped(patch, fold_states, "lookup", look)


@fault
def fold_forgets_computed_names(patch: Any) -> None:
    """A variable set under a computed name is taken for another one."""

    def look(original: Any, op: Op, position: int, name: str, facts: Any) -> Any:
        if op.name in ("lm.gen", "lm.set") and "name" not in op.attributes:
            return op.operands[0]
        return original(op, position, name, facts)

    wrapped(patch, analysis, "_look_through", look)


@fault
def fold_takes_a_loops_start(patch: Any) -> None:
    """A number that a loop counts is the one that it began with."""

    def edit(function: Function, block: Block, op: Op) -> None:
        first = 1 if op.name == "cf.for" else 0
        body = op.blocks[0]
        for argument, start in zip(body.arguments[first:], op.operands[first:], strict=True):
            if argument.type.name == "int":
                replace_values(body, {argument: start})

    def change(module: Module) -> None:
        each_op("cf.for", edit)(module)
        each_op("cf.while", edit)(module)

    after(patch, fold.FoldPass, change)


@fault
def fold_merges_appends_of_two_prompts(patch: Any) -> None:
    """An append after which the prompt is used twice is done once for both."""
    patch.setattr(
        fold_states, "_is_only_step",
        lambda rewriter, before, op: rewriter.facts.blocks[before] is rewriter.facts.blocks[op],
    )  # fmt: skip


@fault
def fold_drops_blank_text(patch: Any) -> None:
    """Text of blanks counts as no text."""

    def drop(rewriter: Any, op: Op) -> Any:
        text = rewriter.facts.constant_text(op.operands[1])
        if text is None or text.strip(" "):
            return fold_states.drop_empty_extend(rewriter, op)
        rewriter.replace(op.result, op.operands[0])
        return []

    rules = tuple(
        drop if rule is fold_states.drop_empty_extend else rule for rule in fold.RULES["lm.extend"]
    )
    patch.setitem(fold.RULES, "lm.extend", rules)


@fault
def unroll_repeats_the_last_trip(patch: Any) -> None:
    """A written-out loop has one trip too many."""
    wrapped(
        patch, unroll._Unroller, "_items",
        lambda original, self, value: (lambda items: (*items, items[-1]) if items else items)(
            original(self, value)
        ),
    )  # fmt: skip


@fault
def unroll_starts_each_trip_anew(patch: Any) -> None:
    """Each written-out trip begins with what the loop began with."""

    def trip(original: Any, self: Any, op: Op, item: Any, carried: Any) -> Any:
        starts = op.operands[1:]
        mixed = [
            value if value.type in (STATE,) or value.type.name == "effect" else start
            for value, start in zip(carried, starts, strict=True)
        ]
        return original(self, op, item, mixed)

    wrapped(patch, unroll._Unroller, "_trip", trip)


@fault
def hoist_moves_past_a_branch(patch: Any) -> None:
    """What one arm appends first is appended whichever way it goes."""

    def edit(function: Function, block: Block, op: Op) -> None:
        first = op.blocks[0].ops[0]
        if first.name == "val.const" and len(op.blocks[0].ops) > 1:
            first = op.blocks[0].ops[1]
        inner = {o.result for o in op.blocks[0].ops if o.name == "val.const"}
        if first.name != "lm.extend" or first.operands[1] not in inner or op not in block.ops:
            return
        const = next(o for o in op.blocks[0].ops if o.result is first.operands[1])
        for moved in (const, first):
            op.blocks[0].ops.remove(moved)
            block.ops.insert(block.ops.index(op), moved)
        replace_values(op.blocks[1], {first.operands[0]: first.result})

    after(patch, hoist_prefix.HoistPrefixPass, each_op("cf.if", edit))


@fault
def hoist_evaluates_ahead(patch: Any) -> None:
    """An item of a list is taken before the condition that guards it."""

    def edit(function: Function, block: Block, op: Op) -> None:
        for nested in op.blocks:
            made = {value for o in nested.ops for value in o.results} | set(nested.arguments)
            for inner in list(nested.ops):
                is_free = not any(value in made for value in inner.operands)
                if inner.name in ("val.index", "val.binary") and is_free and op in block.ops:
                    nested.ops.remove(inner)
                    block.ops.insert(block.ops.index(op), inner)

    after(patch, hoist_prefix.HoistPrefixPass, each_op("cf.if", edit))


@fault
def hoist_calls_ahead(patch: Any) -> None:
    """A generation of an arm is made before the branch, so it is needed on both ways."""

    def edit(function: Function, block: Block, op: Op) -> None:
        for number, nested in enumerate(op.blocks):
            made = {value for o in nested.ops for value in o.results}
            for inner in list(nested.ops):
                if inner.name == "lm.gen" and not any(v in made for v in inner.operands):
                    nested.ops.remove(inner)
                    block.ops.insert(block.ops.index(op), inner)
                    replace_values(op.blocks[1 - number], {inner.operands[0]: inner.results[0]})
                    return

    after(patch, hoist_prefix.HoistPrefixPass, each_op("cf.if", edit))


@fault
def batch_forks_joins_the_wrong_child(patch: Any) -> None:
    """A join gets the first child in place of the last."""

    def edit(function: Function, block: Block, op: Op) -> None:
        made = {r: o for _, o in ops_of(function.body) for r in o.results}
        listed = made.get(op.operands[1])
        if listed is not None and listed.name == "val.list" and len(listed.operands) > 1:
            listed.operands[-1] = listed.operands[0]

    after(patch, BatchForksPass, each_op("lm.join", edit))


@fault
def batch_forks_merges_two_forks(patch: Any) -> None:
    """The children of a second fork of one prompt are those of the first."""

    def change(module: Module) -> None:
        for function in module.functions.values():
            forks = [op for _, op in ops_of(function.body) if op.name == "lm.fork"]
            known: dict[Any, Op] = {}
            for op in forks:
                key = op.attributes.get("count")
                first = known.setdefault(key, op)
                if first is not op and first in function.body.ops and op in function.body.ops:
                    replace_values(function.body, {op.results[1]: first.results[1]})

    after(patch, BatchForksPass, change)


@fault
def variable_version_after_a_branch(patch: Any) -> None:
    """After a branch a value is that of one arm, whichever way it went."""

    def edit(function: Function, block: Block, op: Op) -> None:
        for index, result in enumerate(op.results):
            if result.type.name in ("text", "int"):
                other = op.blocks[0].terminator.operands[index]
                held = {v for o in block.ops for v in o.results}
                if other in held:
                    op.blocks[1].terminator.operands[index] = other

    after(patch, fold.FoldPass, each_op("cf.if", edit))


@fault
def effects_threaded_around_a_loop(patch: Any) -> None:
    """A loop of which nobody reads the values runs no more, host calls and all."""

    def edit(function: Function, block: Block, op: Op) -> None:
        used = uses(function)
        read = [v for v in op.results if v in used and v.type.name != "effect"]
        if not read and op in block.ops:
            replace_values(function.body, dict(zip(op.results, op.operands[1:], strict=True)))
            block.ops.remove(op)

    after(patch, dce.DcePass, each_op("cf.for", edit))
