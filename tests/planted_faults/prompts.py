"""Faults of the executor's prompts and calls of the model."""

from dataclasses import replace
from typing import Any

import lmc.checking.modes
import lmc.codegen.lower
import lmc.frontend.capture.expressions
import lmc.frontend.capture.states
import lmc.ir.evaluate
import lmc.runtime.eager
import lmc.runtime.executor.call_ops as call_ops
import lmc.runtime.executor.calls as calls
import lmc.runtime.executor.control_ops as control_ops
import lmc.runtime.executor.prefill_ops as prefill_ops
import lmc.runtime.executor.run
import lmc.runtime.executor.task
from lmc.runtime.executor.task import Task
from lmc.runtime.prompt_state import ForkPoint, PromptState
from planted_faults.tools import (
    fault,
    method,
    operation,
    wrapped,
)


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
        patch, calls, "derive_key",
        lambda original, seed, instance, lineage, ordinal, sample: original(
            seed, instance, lineage, ordinal, 0
        ),
    )  # fmt: skip


@fault
def instance_not_in_the_key(patch: Any) -> None:
    """All instances of a batch draw the same."""
    wrapped(
        patch, calls, "derive_key",
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
def join_order_reversed(patch: Any) -> None:
    """Children are joined from the last to the first."""
    method(
        patch, "join",
        lambda original, self, children, mode: original(self, list(children)[::-1], mode),
    )  # fmt: skip


@fault
def join_gathers_old_variables(patch: Any) -> None:
    """Variables that the parent had are gathered as well."""

    def join(original: Any, self: PromptState, children: Any, mode: str) -> PromptState:
        made = original(self, children, mode)
        for name in self.variables if mode == "gather_variable" and children else ():
            made = made.set(name, [child.variables.get(name) for child in children])
        return made

    method(patch, "join", join)


@fault
def join_appends_everything(patch: Any) -> None:
    """A join appends the children's whole texts."""

    def child(original: Any, self: PromptState, index: int) -> PromptState:
        return replace(original(self, index), fork_point=ForkPoint())

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
