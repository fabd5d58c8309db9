"""Rules of `fold` for `cf.*` ops: known conditions, values that a loop or branch leaves alone."""

from lmc.ir.core import Block, Op, Value
from lmc.ir.types import BOOL, EFFECT
from lmc.passes.analysis import Const, known_items
from lmc.passes.demand import is_decision_free
from lmc.passes.fold_values import holds_mutable
from lmc.passes.rewriting import Rewriter, Rule, make_const
from lmc.passes.totality import is_total


def same_constant(left: Const | None, right: Const | None) -> bool:
    """Whether two constants are the same value of the same type, inside and out."""
    # repr tells 1, 1.0 and True apart at every depth, and -0.0 from 0.0.
    return left is not None and right is not None and repr(left.value) == repr(right.value)


def branch_on_constant(rewriter: Rewriter, op: Op) -> list[Op] | None:
    """Put the arm that is taken in place of the branch."""
    known = rewriter.facts.constant(op.operands[0])
    if known is None:
        return None
    arm = op.blocks[0 if known.value else 1]
    rewriter.remarks.fired(f"the condition is always {bool(known.value)}", op)
    return splice(rewriter, arm, op.results, arm.terminator.operands)


def splice(rewriter: Rewriter, block: Block, results: list[Value], values: list[Value]) -> list[Op]:
    """Return a block's ops without its end, and let its values stand for the results."""
    for result, value in zip(results, values, strict=True):
        rewriter.replace(result, value)
    return block.ops[:-1]


def know_condition_inside(rewriter: Rewriter, op: Op) -> list[Op] | None:
    """Let the condition be True within the first arm and False within the second."""
    condition = op.operands[0]
    fired = False
    for arm, holds in zip(op.blocks, (True, False), strict=True):
        users = [inner for inner in arm.walk() if condition in inner.operands]
        if not users:
            continue
        known = make_const(holds, op.location)
        for inner in users:
            inner.operands = [
                known.result if value is condition else value for value in inner.operands
            ]
        arm.ops.insert(0, known)
        rewriter.facts.add(known, arm)
        fired = True
    return [op] if fired else None


def simplify_branch_results(rewriter: Rewriter, op: Op) -> list[Op] | None:
    """Resolve results that do not depend on the arm; drop those that nobody reads."""
    first, second = (block.terminator for block in op.blocks)
    before: list[Op] = []
    dropped: list[int] = []
    for i, result in enumerate(op.results):
        pair = rewriter.final(first.operands[i]), rewriter.final(second.operands[i])
        made = _branch_result(rewriter, op, result, pair)
        if made is not None:
            before += made
            dropped.append(i)
    if not dropped:
        return None
    for end in (first, second):
        end.operands = _without(end.operands, dropped)
    op.results = _without(op.results, dropped)
    return [*before, op]


def _branch_result(
    rewriter: Rewriter, op: Op, result: Value, pair: tuple[Value, Value]
) -> list[Op] | None:
    """Return the ops that give a result without the branch; None if it needs the branch.

    A result that is the same in both arms still demands the calls behind the condition.
    """
    facts = rewriter.facts
    if not facts.uses(result):
        return []
    is_free = result.type == EFFECT or is_decision_free(op, facts)
    if is_free and pair[0] is pair[1] and rewriter.can_replace(result, pair[0]):
        rewriter.remarks.fired("both arms give the same value", op)
        rewriter.replace(result, pair[0])
        return []
    left, right = map(facts.constant, pair)
    if left is None or right is None:
        return None
    if is_free and same_constant(left, right):
        rewriter.remarks.fired("both arms give the same constant", op)
        return [Op("val.const", [], [result], {"value": left.value}, [], op.location)]
    if (left.value, right.value) == (True, False) and _are_bools(left, right):
        rewriter.replace(result, op.operands[0])
        return []
    if (left.value, right.value) == (False, True) and _are_bools(left, right):
        opposite = Value(BOOL, result.hint)
        rewriter.replace(result, opposite)
        return [Op("val.not", [op.operands[0]], [opposite], {}, [], op.location)]
    return None


def _are_bools(*constants: Const) -> bool:
    return all(type(constant.value) is bool for constant in constants)


def _without(values: list[Value], dropped: list[int]) -> list[Value]:
    return [value for i, value in enumerate(values) if i not in dropped]


def drop_empty_branch(rewriter: Rewriter, op: Op) -> list[Op] | None:
    """Drop a branch that does nothing."""
    if op.results or any(len(block.ops) > 1 for block in op.blocks):
        return None
    return []


def drop_empty_loop(rewriter: Rewriter, op: Op) -> list[Op] | None:
    """Drop a loop over nothing."""
    known = rewriter.facts.constant(op.operands[0])
    is_empty = known is not None and isinstance(known.value, (str, dict)) and not known.value
    items = known_items(op.operands[0], rewriter.facts)
    if not is_empty and (items is None or items.items):
        return None
    rewriter.remarks.fired("the loop is over nothing", op)
    for result, value in zip(op.results, op.operands[1:], strict=True):
        rewriter.replace(result, value)
    return []


def run_once(rewriter: Rewriter, op: Op) -> list[Op] | None:
    """Put the body in place of a `cf.while` that never goes on."""
    body = op.blocks[0]
    known = rewriter.facts.constant(rewriter.final(body.terminator.operands[0]))
    if known is None or known.value:
        return None
    rewriter.remarks.fired("the loop runs once", op)
    for argument, value in zip(body.arguments, op.operands, strict=True):
        rewriter.replace(argument, value)
    return splice(rewriter, body, op.results, body.terminator.operands[1:])


def simplify_carried(rewriter: Rewriter, op: Op) -> list[Op] | None:
    """Resolve carried values that stay as they were; drop those that nobody reads."""
    first = 1 if op.name == "cf.for" else 0
    body = op.blocks[0]
    dropped: list[int] = []
    is_free = is_decision_free(op, rewriter.facts)
    for i, result in enumerate(op.results):
        init, argument = op.operands[first + i], body.arguments[first + i]
        given = rewriter.final(body.terminator.operands[1 + i])
        if _is_unread(rewriter, result, argument, body):
            dropped.append(i)
        elif not (is_free or result.type == EFFECT):
            continue  # it demands the calls that decide how often the loop runs
        elif _is_unchanged(rewriter, init, argument, given) and rewriter.can_replace(result, init):
            rewriter.remarks.fired("a carried value never changes", op)
            rewriter.replace(result, init)
            rewriter.replace(argument, init)
            dropped.append(i)
    if not dropped:
        return None
    op.results = _without(op.results, dropped)
    body.terminator.operands = _without(body.terminator.operands, [i + 1 for i in dropped])
    body.arguments = _without(body.arguments, [first + i for i in dropped])
    op.operands = _without(op.operands, [first + i for i in dropped])
    return [op]


def _is_unread(rewriter: Rewriter, result: Value, argument: Value, body: Block) -> bool:
    """Whether nobody reads a carried value, but for the loop that hands it on."""
    users = [user for user, _ in rewriter.facts.uses(argument)]
    return (
        not rewriter.facts.uses(result)
        and all(user is body.terminator for user in users)
        and (len(users) <= 1)
    )


def _is_unchanged(rewriter: Rewriter, init: Value, argument: Value, given: Value) -> bool:
    if given is argument or given is init:
        return True
    start, end = rewriter.facts.constant(init), rewriter.facts.constant(given)
    if start is not None and holds_mutable(start.value):
        return False  # each trip has a list of its own
    return same_constant(start, end)


def drop_sure_try(rewriter: Rewriter, op: Op) -> list[Op] | None:
    """Put the block in place of a `cf.try` in which nothing can fail."""
    *inner, end = op.blocks[0].ops
    if not all(_is_sure(rewriter, each) for each in inner):
        return None
    pairs = [
        (result, rewriter.final(value))
        for result, value in zip(
            op.results[1:], [end.operands[0], *op.operands[1:], *end.operands[1:]], strict=True
        )
    ]
    if not all(rewriter.can_replace(result, value) for result, value in pairs):
        return None
    rewriter.remarks.fired("nothing in the try can fail", op)
    for result, value in pairs:
        rewriter.replace(result, value)
    nothing = Op("val.const", [], [op.results[0]], {"value": None}, [], op.location)
    return [nothing, *(each for each in inner if each.name != "cf.save")]


def _is_sure(rewriter: Rewriter, op: Op) -> bool:
    is_known = op.name in SURE or op.name.startswith("val.")
    return op.name == "cf.save" or (is_known and is_total(op, rewriter.facts))


SURE = frozenset({"lm.extend", "lm.set", "lm.get", "lm.has", "lm.meta", "lm.text", "lm.tick"})
"""Ops on states that cannot fail where they are total."""

RULES: dict[str, tuple[Rule, ...]] = {
    "cf.if": (
        branch_on_constant,
        know_condition_inside,
        simplify_branch_results,
        drop_empty_branch,
    ),
    "cf.for": (drop_empty_loop, simplify_carried),
    "cf.while": (run_once, simplify_carried),
    "cf.try": (drop_sure_try,),
}
