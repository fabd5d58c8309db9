"""Faults of passes."""

from typing import Any

from lmc.ir.core import Block, Function, Module, Op
from lmc.passes import dce, fold, fold_control, fold_values, hoist_prefix, unroll
from lmc.passes.batch_forks import BatchForksPass
from planted_faults.tools import after, dropped, each_op, fault, ops_of, wrapped


@fault
def dce_drops_ticks(patch: Any) -> None:
    """A dropped fork is not counted."""
    after(patch, dce.DcePass, each_op("lm.tick", dropped))


@fault
def dce_drops_effects(patch: Any) -> None:
    """A host call whose answer nobody reads goes."""

    def edit(function: Function, block: Block, op: Op) -> None:
        used = {value for _, other in ops_of(function.body) for value in other.operands}
        if op.results[1] not in used:
            dropped(function, block, op)

    after(patch, dce.DcePass, each_op("host.call", edit))


@fault
def dce_drops_what_may_raise(patch: Any) -> None:
    """Every unread expression goes."""
    patch.setattr(dce, "is_total", lambda op, facts: True)


@fault
def dce_drops_variables(patch: Any) -> None:
    """A variable that nobody reads within the program goes."""
    after(patch, dce.DcePass, each_op("lm.set", dropped))


@fault
def fold_uses_another_operator(patch: Any) -> None:
    """A difference of constants becomes a sum."""

    def evaluate(original: Any, op: Op, operands: Any) -> Any:
        if op.name == "val.binary" and op.attributes["op"] == "-":
            op = Op(op.name, op.operands, op.results, {"op": "+"}, [], op.location)
        return original(op, operands)

    wrapped(patch, fold_values, "evaluate", evaluate)


@fault
def fold_takes_the_other_arm(patch: Any) -> None:
    """A branch on a known condition is replaced by the arm that is not taken."""

    def wrong(rewriter: Any, op: Op) -> Any:
        if rewriter.facts.constant(op.operands[0]) is not None:
            op.blocks.reverse()
        return fold_control.branch_on_constant(rewriter, op)

    rules = tuple(
        wrong if rule is fold_control.branch_on_constant else rule for rule in fold.RULES["cf.if"]
    )
    patch.setitem(fold.RULES, "cf.if", rules)


@fault
def fold_joins_backwards(patch: Any) -> None:
    """Neighbouring constants of an f-string are joined in the wrong order."""
    wrapped(
        patch, fold_values, "_joined",
        lambda original, rewriter, values, op: original(rewriter, values[::-1], op),
    )  # fmt: skip


@fault
def fold_takes_the_wrong_item(patch: Any) -> None:
    """An index into a known list is off by one."""

    def wrong(rewriter: Any, op: Op) -> Any:
        key = rewriter.facts.constant(op.operands[1])
        if key is None or type(key.value) is not int or key.value < 1:
            return fold_values.index_of_known(rewriter, op)
        items = fold_values.known_items(op.operands[0], rewriter.facts)
        if items is None or key.value >= len(items.items):
            return None
        item = items.items[key.value - 1]
        return (
            rewriter.produce(item, op.result, op.location)
            if rewriter.fits(item, op.result)
            else None
        )

    rules = tuple(
        wrong if rule is fold_values.index_of_known else rule for rule in fold.RULES["val.index"]
    )
    patch.setitem(fold.RULES, "val.index", rules)


@fault
def fold_drops_carried_values(patch: Any) -> None:
    """Values that a loop changes are taken for unchanged."""
    patch.setattr(fold_control, "_is_unchanged", lambda *args: True)


@fault
def fold_confuses_one_and_true(patch: Any) -> None:
    """Equal constants of different types are taken for the same."""
    patch.setattr(
        fold_control, "same_constant",
        lambda a, b: a is not None and b is not None and a.value == b.value,
    )  # fmt: skip


@fault
def unroll_loses_the_last_trip(patch: Any) -> None:
    """A written-out loop has one trip too few."""
    wrapped(
        patch, unroll._Unroller, "_trips",
        lambda original, self, op, items, carried, **given: original(
            self, op, items[:-1] if len(items) > 1 else items, carried, **given
        ),
    )  # fmt: skip


@fault
def unroll_goes_backwards(patch: Any) -> None:
    """A written-out loop has its trips in the reverse order."""
    wrapped(
        patch, unroll._Unroller, "_items",
        lambda original, self, value: (original(self, value) or ())[::-1] or original(self, value),
    )  # fmt: skip


@fault
def unroll_ignores_the_end(patch: Any) -> None:
    """A written-out loop goes on where its body says to end."""

    def branch(original: Any, self: Any, op: Op, *rest: Any, **given: Any) -> Op:
        made = original(self, op, *rest, **given)
        made.blocks[1] = clone_module_block(made.blocks[0])
        return made

    wrapped(patch, unroll._Unroller, "_branch", branch)


def clone_module_block(block: Block) -> Block:
    """Return a copy of a block."""
    from lmc.ir.core import clone_block

    return clone_block(block, {})


@fault
def hoists_past_differing_text(patch: Any) -> None:
    """The first child's text is taken for what all begin with."""
    patch.setattr(hoist_prefix, "common_head", lambda heads, min_chars: heads[0])


@fault
def hoist_leaves_text_behind(patch: Any) -> None:
    """What is moved before a fork stays in all children but the first."""
    wrapped(
        patch, hoist_prefix._Hoister, "_move_before_fork",
        lambda original, self, block, fork, head, starts: original(
            self, block, fork, head, starts[:1]
        ),
    )  # fmt: skip


@fault
def hoist_ignores_joins(patch: Any) -> None:
    """Text is moved out of children whose added text a join appends."""
    patch.setattr(hoist_prefix, "joins_added_text", lambda fork, facts: False)


@fault
def prologue_loses_a_blank(patch: Any) -> None:
    """Constant prefixes lose the blank at their end."""

    def pieces(module: Module) -> None:
        for _, op in (pair for f in module.functions.values() for pair in ops_of(f.body)):
            if op.name == "lm.prologue":
                op.attributes["pieces"] = [[k, t.rstrip() if k == "text" else t]
                                           for k, t in op.attributes["pieces"]]  # type: ignore[union-attr, misc]  # fmt: skip

    after(patch, hoist_prefix.HoistPrefixPass, pieces)


@fault
def hoist_counts_the_fork_twice(patch: Any) -> None:
    """The parent of a fork whose text moved has counted one call too many."""

    def edit(function: Function, block: Block, op: Op) -> None:
        op.attributes["n"] = 2

    after(patch, hoist_prefix.HoistPrefixPass, each_op("lm.tick", edit))


@fault
def group_swaps_children(patch: Any) -> None:
    """A group gives its children in the reverse order."""
    after(patch, BatchForksPass, each_op("lm.group", lambda f, b, op: op.results.reverse()))


@fault
def sampled_calls_merged(patch: Any) -> None:
    """Children that ask the same are taken for one."""

    def edit(function: Function, block: Block, op: Op) -> None:
        if op.results[0].type.name != "state":
            return
        first = next(o for _, o in ops_of(function.body)
                     if o.name == "val.index" and o.operands[0] is op.operands[0])  # fmt: skip
        op.operands[1] = first.operands[1]

    after(patch, BatchForksPass, each_op("val.index", edit))
