"""Faults to plant into lmc, each by one patch: `check` must find nearly all of them.

A fault is a function that patches by pytest's monkeypatch; `FAULTS` has them by name. They
are of the kinds that compilers and executors of prompts have had: lost text at a border, wrong
random keys, calls merged or dropped, effects swapped, branches frozen, loops off by one.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import lmc.checking.modes
import lmc.codegen.lower
import lmc.frontend.capture.expressions
import lmc.frontend.capture.states
import lmc.ir.evaluate
import lmc.runtime.eager
import lmc.runtime.executor.call_ops as call_ops
import lmc.runtime.executor.control_ops as control_ops
import lmc.runtime.executor.prefill_ops as prefill_ops
import lmc.runtime.executor.run
import lmc.runtime.executor.state_ops as state_ops
import lmc.runtime.executor.task
from lmc.ir.core import Block, Function, Module, Op, clone_module, replace_values
from lmc.passes import dce, fold, fold_control, fold_values, hoist_prefix, unroll
from lmc.passes.base import Pass
from lmc.passes.batch_forks import BatchForksPass
from lmc.runtime.eager_state import EagerForks, EagerState
from lmc.runtime.executor.operations import OPERATIONS
from lmc.runtime.executor.task import Task
from lmc.runtime.prompt_state import ForkPoint, PromptState

Plant = Callable[[Any], None]
Edit = Callable[[Block, Op], None]

FAULTS: dict[str, Plant] = {}


def fault(plant: Plant) -> Plant:
    """Register a fault under its function's name."""
    FAULTS[plant.__name__] = plant
    return plant


def wrapped(patch: Any, owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Replace a function by `around(original, *args)`."""
    original = getattr(owner, name)
    patch.setattr(owner, name, lambda *args, **given: around(original, *args, **given))


# Faults of lowering: the module is changed on its way to the plan.


def edit_ops(module: Module, name: str, edit: Callable[[Function, Block, Op], None]) -> Module:
    """Return a copy of a module with an edit of every op of a name."""
    copy = clone_module(module)
    for function in copy.functions.values():
        for block, op in list(ops_of(function.body)):
            if op.name == name:
                edit(function, block, op)
    return copy


def ops_of(block: Block) -> Any:
    """Yield every op with its block."""
    for op in block.ops:
        yield block, op
        for nested in op.blocks:
            yield from ops_of(nested)


def lowered(patch: Any, name: str, edit: Callable[[Function, Block, Op], None]) -> None:
    """Lower modules with an edit of every op of a name."""
    wrapped(
        patch, lmc.checking.modes, "lower",
        lambda lower, module, target: lower(edit_ops(module, name, edit), target),
    )  # fmt: skip


def dropped(function: Function, block: Block, op: Op) -> None:
    """Drop an op: its first result becomes its first operand."""
    block.ops.remove(op)
    replace_values(function.body, {op.results[0]: op.operands[0]})


def param(op: Op, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the decode parameters of an op."""
    params = dict(op.attributes["params"])  # type: ignore[arg-type]
    change(params)
    op.attributes["params"] = params


@fault
def role_marker_lost(patch: Any) -> None:
    """Turns are not closed."""
    lowered(patch, "lm.end", dropped)


@fault
def control_token_lost(patch: Any) -> None:
    """Control tokens are dropped."""
    lowered(patch, "lm.control", dropped)


@fault
def stop_strings_lost(patch: Any) -> None:
    """Generations do not stop at strings."""
    lowered(patch, "lm.gen", lambda f, b, op: param(op, lambda p: p.pop("stop", None)))


@fault
def first_stop_only(patch: Any) -> None:
    """Of a list of stop strings, one counts."""

    def change(params: dict[str, Any]) -> None:
        if isinstance(params.get("stop"), list):
            params["stop"] = params["stop"][:1]

    lowered(patch, "lm.gen", lambda f, b, op: param(op, change))


@fault
def max_tokens_off_by_one(patch: Any) -> None:
    """A generation gets one token more."""

    def change(params: dict[str, Any]) -> None:
        if "max_tokens" in params:
            params["max_tokens"] += 1

    lowered(patch, "lm.gen", lambda f, b, op: param(op, change))


@fault
def constants_trimmed(patch: Any) -> None:
    """Constant text loses the blank at its end."""

    def edit(function: Function, block: Block, op: Op) -> None:
        value = op.attributes["value"]
        if isinstance(value, str):
            op.attributes["value"] = value.rstrip(" ")

    lowered(patch, "val.const", edit)


@fault
def arms_swapped(patch: Any) -> None:
    """Branches take the other arm."""
    lowered(patch, "cf.if", lambda f, b, op: op.blocks.reverse())


@fault
def carried_values_swapped(patch: Any) -> None:
    """Two results of a loop that have one type change places."""

    def edit(function: Function, block: Block, op: Op) -> None:
        for i, first in enumerate(op.results):
            for other in op.results[i + 1 :]:
                if first.type == other.type:
                    users = [o for _, o in ops_of(function.body)]
                    swap = {first: other, other: first}
                    for user in users:
                        user.operands = [swap.get(value, value) for value in user.operands]
                    return

    lowered(patch, "cf.for", edit)


@fault
def defaults_of_the_call_lost(patch: Any) -> None:
    """Decode parameters given to a nested program are dropped."""
    lowered(patch, "func.call", lambda f, b, op: op.attributes.pop("defaults", None))


@fault
def host_keywords_swapped(patch: Any) -> None:
    """Keywords of a host call get each other's values."""

    def edit(function: Function, block: Block, op: Op) -> None:
        names = op.attributes.get("keywords")
        if isinstance(names, list):
            op.attributes["keywords"] = names[::-1]

    lowered(patch, "host.call", edit)


@fault
def effects_swapped(patch: Any) -> None:
    """Two host calls in a row change places."""

    def edit(function: Function, block: Block, op: Op) -> None:
        calls = [each for each in block.ops if each.name == "host.call"]
        for first, second in pairwise(calls):
            is_next = second.operands[0] is first.results[0]
            if is_next and first.results[1] not in second.operands and op is first:
                for key in ("callee", "keywords"):
                    held = first.attributes.pop(key, None), second.attributes.pop(key, None)
                    first.attributes |= {} if held[1] is None else {key: held[1]}
                    second.attributes |= {} if held[0] is None else {key: held[0]}
                defined = {v for o in block.ops[: block.ops.index(first)] for v in o.results}
                free = {v for o in block.ops for v in o.results}
                if all(v in defined or v not in free for v in second.operands[1:]):
                    rest = first.operands[1:], second.operands[1:]
                    first.operands[1:], second.operands[1:] = rest[1], rest[0]
                return

    lowered(patch, "host.call", edit)


@fault
def ticks_lost(patch: Any) -> None:
    """Calls that a pass dropped are not counted."""
    lowered(patch, "lm.tick", dropped)


# Faults of passes.


def after(patch: Any, kind: type[Pass], edit: Callable[[Module], None]) -> None:
    """Have a pass do something more at its end."""

    def rewrite(original: Any, self: Pass, module: Module, remarks: Any) -> bool:
        changed = original(self, module, remarks)
        edit(module)
        return changed or True

    wrapped(patch, kind, "rewrite", rewrite)


def each_op(name: str, edit: Callable[[Function, Block, Op], None]) -> Callable[[Module], None]:
    """Return an edit of every op of a name."""

    def change(module: Module) -> None:
        for function in module.functions.values():
            for block, op in list(ops_of(function.body)):
                if op.name == name:
                    edit(function, block, op)

    return change


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


# Faults of the executor.


def method(patch: Any, name: str, around: Callable[..., Any]) -> None:
    """Wrap a method of the executor's prompt states."""
    wrapped(patch, PromptState, name, around)


def operation(patch: Any, op: str, act: Callable[[Task], None]) -> None:
    """Have another function carry out an op."""
    patch.setitem(OPERATIONS, op, replace(OPERATIONS[op], act=act))


@fault
def held_back_tail_dropped(patch: Any) -> None:
    """Text left of a cut inside a token is lost from the prompt."""
    method(
        patch, "generated",
        lambda original, self, result, *rest: original(self, replace(result, tail=""), *rest),
    )  # fmt: skip


@fault
def appends_encoded_apart(patch: Any) -> None:
    """Each append is encoded by itself."""

    def extend(original: Any, self: PromptState, text: str, *rest: Any) -> PromptState:
        made = original(self, text, *rest)
        if not text:
            return made
        ids = tuple(self.target.tokenizer.encode(text, first=made.closed is None))
        return original(self, "", *rest)._close(text, ids)

    method(patch, "extend", extend)


@fault
def samples_share_a_key(patch: Any) -> None:
    """All n samples get the key of the first."""
    wrapped(
        patch, call_ops, "derive_key",
        lambda original, seed, instance, lineage, ordinal, sample: original(
            seed, instance, lineage, ordinal, 0
        ),
    )  # fmt: skip


@fault
def instance_not_in_the_key(patch: Any) -> None:
    """All instances of a batch draw the same."""
    wrapped(
        patch, call_ops, "derive_key",
        lambda original, seed, instance, *place: original(seed, 0, *place),
    )  # fmt: skip


@fault
def ordinals_count_twice(patch: Any) -> None:
    """A call counts two ordinals."""
    method(patch, "tick", lambda original, self, count=1: original(self, 2 * count))


@fault
def child_lineage_off_by_one(patch: Any) -> None:
    """Children are numbered from one."""
    method(patch, "child", lambda original, self, index: original(self, index + 1))


@fault
def nested_lineage_off_by_one(patch: Any) -> None:
    """A nested program takes the ordinal after its own."""
    wrapped(
        patch, control_ops, "enter",
        lambda original, task, identity: original(task, (identity[0], identity[1] + 1)),
    )  # fmt: skip


@fault
def defaults_not_inherited(patch: Any) -> None:
    """A nested program does not get its caller's decode parameters."""
    wrapped(
        patch, control_ops, "Scope",
        lambda original, lineage, defaults, depth: original(lineage, {}, depth),
    )  # fmt: skip


@fault
def defaults_win(patch: Any) -> None:
    """The run's decode parameters override a generation's own."""

    def params(original: Any, attributes: Any, dynamic: Any, defaults: Any, *rest: Any) -> Any:
        own = {**attributes["params"], **defaults}
        return original({**attributes, "params": own}, dynamic, defaults, *rest)

    wrapped(patch, call_ops, "gen_params", params)


@fault
def stop_lists_merged(patch: Any) -> None:
    """Stop strings of one generation stay for the next."""
    seen: list[str] = []

    def params(original: Any, *args: Any) -> Any:
        made = original(*args)
        seen.extend(stop for stop in made.sampling.stop if stop not in seen)
        return replace(made, sampling=replace(made.sampling, stop=tuple(seen)))

    wrapped(patch, call_ops, "gen_params", params)


@fault
def constraint_dropped(patch: Any) -> None:
    """A regex is not handed on."""
    wrapped(
        patch, call_ops, "gen_params",
        lambda original, *args: replace(original(*args), constraint=None),
    )  # fmt: skip


@fault
def samples_reversed(patch: Any) -> None:
    """n samples arrive in the reverse order."""
    wrapped(
        patch, call_ops, "give_gen",
        lambda original, task, state, params, calls, results: original(
            task, state, params, calls, results[::-1]
        ),
    )  # fmt: skip


@fault
def select_takes_the_worst(patch: Any) -> None:
    """The unlikeliest choice wins."""

    def compare(original: Any, method: str, results: Any) -> Any:
        _, scores = original(method, results)
        return scores.index(min(scores)), scores

    wrapped(patch, call_ops, "compare", compare)


@fault
def select_swaps_options(patch: Any) -> None:
    """Options are scored in the reverse order."""
    method(
        patch, "option_ids",
        lambda original, self, options: original(self, options[::-1]),
    )  # fmt: skip


@fault
def options_encoded_apart(patch: Any) -> None:
    """An option is encoded without the text before it."""

    def ids(original: Any, self: PromptState, options: Any) -> Any:
        encode = self.target.tokenizer.encode
        return self.context_ids(), tuple(tuple(encode(option)) for option in options)

    method(patch, "option_ids", ids)


@fault
def greedy_calls_have_keys(patch: Any) -> None:
    """A greedy call gets a random key."""
    wrapped(
        patch, call_ops, "gen_calls",
        lambda original, *args: [replace(call, key=call.key or 7) for call in original(*args)],
    )  # fmt: skip


@fault
def branches_frozen(patch: Any) -> None:
    """Every branch takes its first arm."""

    def act(task: Task) -> None:
        code = task.step.blocks[0]
        frame = task.frame
        results = control_ops.open_frame(
            task.run, code, (), frame.registers, (*task.order, 0), frame.scope, frame.control
        )
        task.give_from(results, task.slot(0).origin)

    operation(patch, "cf.if", act)


@fault
def for_loses_the_last_item(patch: Any) -> None:
    """A loop ends one item early."""

    def init(original: Any, self: Any, task: Task, items: Any, carried: Any) -> None:
        original(self, task, items[:-1] if items else items, carried)

    wrapped(patch, control_ops.Loop, "__init__", init)


@fault
def go_on_ignored(patch: Any) -> None:
    """A loop over items does not end early."""

    def decide(original: Any, self: Any) -> None:
        if self.items is not None and self.go_on.failure is None:
            self.open()
        else:
            original(self)

    wrapped(patch, control_ops.Loop, "decide", decide)


@fault
def while_runs_once(patch: Any) -> None:
    """A while loop never runs again."""

    def decide(original: Any, self: Any) -> None:
        if self.items is None and self.go_on.failure is None:
            self.end()
        else:
            original(self)

    wrapped(patch, control_ops.Loop, "decide", decide)


@fault
def join_order_reversed(patch: Any) -> None:
    """Children are joined from the last to the first."""
    method(
        patch, "join",
        lambda original, self, children, mode: original(self, list(children)[::-1], mode),
    )  # fmt: skip


@fault
def join_gathers_old_variables(patch: Any) -> None:
    """Variables that the parent had are gathered as well."""

    def child(original: Any, self: PromptState, index: int) -> PromptState:
        made = original(self, index)
        return replace(made, fork_point=ForkPoint(made.fork_point.text_len, frozenset()))

    method(patch, "child", child)


@fault
def join_appends_everything(patch: Any) -> None:
    """A join appends the children's whole texts."""

    def child(original: Any, self: PromptState, index: int) -> PromptState:
        made = original(self, index)
        return replace(made, fork_point=ForkPoint(0, made.fork_point.names))

    method(patch, "child", child)


@fault
def system_turn_lost(patch: Any) -> None:
    """The template's default system turn is left out."""

    def begin(original: Any, self: PromptState, role: str) -> PromptState:
        turns = self.turns or (lmc.runtime.prompt_state.Turn("system", 0, 0),)
        made = original(replace(self, turns=turns), role)
        return replace(made, turns=made.turns if self.turns else made.turns[1:])

    method(patch, "begin", begin)


@fault
def control_token_as_text(patch: Any) -> None:
    """A control token is appended by its letters."""
    method(patch, "control_token", lambda original, self, token: self.extend(token))


@fault
def group_swapped_in_the_executor(patch: Any) -> None:
    """A group hands the first child's state to the last."""
    wrapped(
        patch, prefill_ops, "_give_children",
        lambda original, task, children, pin: original(task, list(children)[::-1], pin),
    )  # fmt: skip


@fault
def variables_kept(patch: Any) -> None:
    """A variable that is set again keeps its first value."""

    def set_(original: Any, self: PromptState, name: str, *rest: Any, **given: Any) -> Any:
        made = original(self, name, *rest, **given)
        if name in self.variables:
            made.variables[name] = self.variables[name]
        return made

    method(patch, "set", set_)


@fault
def has_is_always_true(patch: Any) -> None:
    """Every variable is taken to be set."""
    operation(patch, "lm.has", lambda task: task.give_one(0, True))


@fault
def typed_values_stay_text(patch: Any) -> None:
    """A typed generation gives its text."""
    patch.setattr(call_ops, "read_value", lambda params, result: result.text)


@fault
def meta_counts_one_more(patch: Any) -> None:
    """The meta dict counts one token too many."""

    def meta(original: Any, *args: Any, **given: Any) -> Any:
        made = original(*args, **given)
        return {**made, "completion_tokens": made["completion_tokens"] + 1}

    wrapped(patch, call_ops, "gen_meta", meta)


@fault
def conditions_not_needed(patch: Any) -> None:
    """What decided a branch does not count as needed."""
    wrapped(
        patch, Task, "give_from",
        lambda original, self, sources, control=None, **given: original(self, sources, **given),
    )  # fmt: skip


@fault
def text_streamed_twice(patch: Any) -> None:
    """A listener gets the same text again."""

    def tell(original: Any, task: Task, state: PromptState) -> PromptState:
        return original(task, replace(state, told_len=0))

    wrapped(patch, state_ops, "tell", tell)


@fault
def effects_remembered(patch: Any) -> None:
    """A host call with the arguments of an earlier one is not made."""
    from lmc.runtime.executor import host_ops

    known: dict[str, Any] = {}

    def call(original: Any, function: Any, args: Any, keywords: Any, done: Any) -> None:
        key = repr((function.args[1:] if hasattr(function, "args") else "", args, keywords))
        if key in known:
            done(known[key])
            return

        def keep(result: Any) -> None:
            known[key] = result
            done(result)

        original(function, args, keywords, keep)

    wrapped(patch, host_ops, "call_host", call)


# Faults of capture.


def captured(patch: Any, name: str, edit: Callable[[Function, Block, Op], None]) -> None:
    """Capture modules with an edit of every op of a name."""

    def capture(original: Any, functions: Any) -> Any:
        made = original(functions)
        return replace(made, module=edit_ops(made.module, name, edit))

    wrapped(patch, lmc.checking.modes, "capture", capture)


@fault
def less_captured_as_at_most(patch: Any) -> None:
    """`<` is taken for `<=`."""

    def edit(function: Function, block: Block, op: Op) -> None:
        if op.attributes["op"] == "<":
            op.attributes["op"] = "<="

    captured(patch, "val.compare", edit)


@fault
def conversion_lost(patch: Any) -> None:
    """`!r` in an f-string is dropped."""
    captured(patch, "val.format", lambda f, b, op: op.attributes.update(conversion=""))


@fault
def arguments_of_a_program_swapped(patch: Any) -> None:
    """A nested program gets its first two arguments in the wrong order."""

    def edit(function: Function, block: Block, op: Op) -> None:
        op.operands[2:4] = op.operands[2:4][::-1]

    captured(patch, "func.call", edit)


@fault
def appending_to_a_list_lost(patch: Any) -> None:
    """A list that is changed in place stays as it was."""

    def edit(function: Function, block: Block, op: Op) -> None:
        if op.attributes["name"] in ("insert", "append"):
            replace_values(function.body, {op.results[0]: op.operands[0]})

    captured(patch, "val.mutate", edit)


@fault
def scope_starts_at_zero(patch: Any) -> None:
    """A scope's variable holds the whole text."""

    def edit(function: Function, block: Block, op: Op) -> None:
        op.operands[1] = op.operands[3]

    captured(patch, "val.slice", edit)


@fault
def unpacked_backwards(patch: Any) -> None:
    """Names get each other's items."""
    captured(patch, "val.unpack", lambda f, b, op: op.results.reverse())


@fault
def early_exits_lost(patch: Any) -> None:
    """Of two reasons to leave a loop, one counts."""
    wrapped(
        patch, lmc.frontend.capture.states.States, "either",
        lambda original, self, left, right, node: left,
    )  # fmt: skip


@fault
def effect_not_captured(patch: Any) -> None:
    """Host calls whose value is not used are left out."""

    def edit(function: Function, block: Block, op: Op) -> None:
        used = {value for _, other in ops_of(function.body) for value in other.operands}
        if op.results[1] not in used:
            dropped(function, block, op)

    captured(patch, "host.call", edit)


@fault
def floor_division_truncates(patch: Any) -> None:
    """`//` rounds towards zero."""
    patch.setitem(lmc.ir.evaluate.BINARY, "//", lambda a, b: int(a / b))


# Faults of eager mode.


@fault
def eager_lists_backwards(patch: Any) -> None:
    """`forks += [...]` hands the first text to the last child."""
    wrapped(
        patch, EagerForks, "__iadd__",
        lambda original, self, value: original(
            self, value[::-1] if isinstance(value, list) else value
        ),
    )  # fmt: skip


@fault
def eager_join_ignores_its_mode(patch: Any) -> None:
    """Texts of children are not appended."""
    wrapped(
        patch, EagerState, "join",
        lambda original, self, children, mode: original(self, children, "gather_variable"),
    )  # fmt: skip


@fault
def eager_sets_nothing(patch: Any) -> None:
    """`s[name] = value` has no effect."""
    patch.setattr(EagerState, "__setitem__", lambda self, name, value: None)


@fault
def eager_nested_keys(patch: Any) -> None:
    """A nested program's lineage lacks the ordinal."""
    wrapped(
        patch, lmc.runtime.eager, "Scope",
        lambda original, lineage, *rest: original(tuple(p[:4] for p in lineage), *rest),
    )  # fmt: skip


# Faults that no result shows.


@fault
def prologue_tail_not_held_back(patch: Any) -> None:
    """A constant prefix is computed up to its last token, which what follows may change."""

    def tokens(original: Any, pieces: Any, target: Any) -> Any:
        ids, held_back = original(pieces, target)
        prompt = prefill_ops.prologue_state(pieces, prefill_ops.root_state(target))
        return (prompt.context_ids() if held_back else ids), 0

    wrapped(patch, lmc.codegen.lower, "stable_tokens", tokens)


@fault
def group_tail_not_held_back(patch: Any) -> None:
    """The common prefix of a group is computed up to its last token."""
    method(patch, "stable_context", lambda original, self: self.context_ids())


@fault
def tail_of_errors_lost(patch: Any) -> None:
    """Errors show the last character of the prompt only."""
    patch.setattr(lmc.runtime.executor.task, "TAIL_LEN", 1)


@fault
def children_streamed_as_each_other(patch: Any) -> None:
    """Text of the first child is told as the second's."""

    def emit(original: Any, self: Any, kind: str, name: Any, text: str, lineage: Any) -> None:
        last = lineage[-1][:-1] + "1" if lineage and lineage[-1].endswith(".0") else None
        original(self, kind, name, text, (*lineage[:-1], last) if last else lineage)

    wrapped(patch, lmc.runtime.executor.run.Run, "emit", emit)


@fault
def stored_plan_loses_tuples(patch: Any) -> None:
    """Tuples come back from a stored plan as lists."""
    from lmc.codegen import plan_json

    wrapped(
        patch, plan_json, "encode_attr",
        lambda original, value: original(list(value) if isinstance(value, tuple) else value),
    )  # fmt: skip
