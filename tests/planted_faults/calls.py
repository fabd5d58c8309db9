"""Faults of what is asked of the model, and of what is made of its answers."""

from dataclasses import replace
from typing import Any

import lmc.runtime.executor.call_ops as call_ops
import lmc.runtime.executor.calls as calls
import lmc.runtime.executor.control_ops as control_ops
import lmc.runtime.executor.state_ops as state_ops
from lmc.runtime.executor.frame import Scope
from lmc.runtime.executor.task import Task
from lmc.runtime.prompt_state import PromptState
from planted_faults.tools import fault, lowered, method, operation, param, wrapped


def resolved(patch: Any, change: Any) -> None:
    """Change the parameters that a generation comes to."""
    wrapped(patch, call_ops, "gen_params", lambda original, *args: change(original(*args)))


def sampling(patch: Any, **fields: Any) -> None:
    """Have all generations run with fixed values of some parameters."""
    resolved(patch, lambda made: replace(made, sampling=replace(made.sampling, **fields)))


@fault
def zero_read_as_unset(patch: Any) -> None:
    """A parameter of 0, "" or [] counts as not given, so the run's default is taken."""

    def change(params: dict[str, Any]) -> None:
        for name in [name for name, value in params.items() if not value]:
            del params[name]

    lowered(patch, "lm.gen", lambda f, b, op: param(op, change))


@fault
def stop_token_ids_lost(patch: Any) -> None:
    """Generations do not stop at ids."""
    sampling(patch, stop_token_ids=())


@fault
def stop_regex_lost(patch: Any) -> None:
    """Generations do not stop at patterns."""
    sampling(patch, stop_regex=())


@fault
def min_tokens_lost(patch: Any) -> None:
    """A least number of tokens is not kept."""
    sampling(patch, min_tokens=0)


@fault
def penalties_lost(patch: Any) -> None:
    """Penalties for repetition have no effect."""
    sampling(patch, frequency_penalty=0.0, presence_penalty=0.0, repetition_penalty=1.0)


@fault
def logit_bias_lost(patch: Any) -> None:
    """Biases of single ids are dropped."""
    sampling(patch, logit_bias=())


@fault
def log_probabilities_not_asked_for(patch: Any) -> None:
    """The meta dict has no log-probabilities."""
    sampling(patch, return_logprob=False, top_logprobs_num=0)


@fault
def seed_of_a_call_ignored(patch: Any) -> None:
    """`gen(seed=...)` takes the run's seed."""
    resolved(patch, lambda made: replace(made, seed=None))


@fault
def seed_of_a_call_stays(patch: Any) -> None:
    """The seed of one call is the next one's as well."""
    last: list[int] = []

    def change(made: Any) -> Any:
        if made.seed is not None:
            last[:] = [made.seed]
        return replace(made, seed=last[0]) if last else made

    resolved(patch, change)


@fault
def constraint_of_the_call_before(patch: Any) -> None:
    """Constraints come one call late."""
    last: list[Any] = [None]

    def change(made: Any) -> Any:
        before, last[0] = last[0], made.constraint
        return replace(made, constraint=before if made.constraint else None)

    resolved(patch, change)


@fault
def computed_parameters_swapped(patch: Any) -> None:
    """Parameters known at run time get each other's values."""
    wrapped(
        patch, call_ops, "dynamic_values",
        lambda original, task, first: original(task, first)[::-1],
    )  # fmt: skip


@fault
def lineage_of_nested_programs_lost(patch: Any) -> None:
    """A nested program of a child draws as one of the root's."""

    def scope(original: Any, lineage: Any, *rest: Any) -> Scope:
        return original(lineage[-1:], *rest)

    wrapped(patch, control_ops, "Scope", scope)


@fault
def nested_defaults_stay(patch: Any) -> None:
    """What one nested call sets holds for the later ones."""
    held: dict[str, Any] = {}

    def scope(original: Any, lineage: Any, defaults: Any, depth: int) -> Scope:
        held.update(defaults)
        return original(lineage, dict(held), depth)

    wrapped(patch, control_ops, "Scope", scope)


@fault
def fork_not_counted(patch: Any) -> None:
    """Two forks of one state give their children the same random keys."""
    patch.setattr(state_ops, "_ticked", lambda task: lambda state: state)


@fault
def ordinal_not_in_the_key(patch: Any) -> None:
    """Two calls of one state draw alike."""
    wrapped(
        patch, calls, "derive_key",
        lambda original, seed, instance, lineage, ordinal, sample: original(
            seed, instance, lineage, 0, sample
        ),
    )  # fmt: skip


@fault
def children_in_the_reverse_order(patch: Any) -> None:
    """The first child of a fork is the last."""

    def act(task: Task) -> None:
        state_ops.fork(task)
        slot = task.output(1)
        if slot.value:
            slot.value.reverse()

    operation(patch, "lm.fork", act)


@fault
def stop_string_not_cut(patch: Any) -> None:
    """The stop string that a generation met stays in the prompt."""

    def generated(original: Any, self: PromptState, result: Any, *rest: Any) -> PromptState:
        made = original(self, result, *rest)
        stop = result.matched_stop
        return made.extend(stop) if isinstance(stop, str) else made

    method(patch, "generated", generated)


@fault
def last_sample_goes_on(patch: Any) -> None:
    """Of several samples the last one is appended."""

    def give(original: Any, task: Any, state: Any, params: Any, calls: Any, results: Any) -> None:
        is_several = len(results) > 1
        chosen = results[-1]
        swap = state.__class__.generated
        if not is_several:
            return original(task, state, params, calls, results)
        with patch.context() as inner:
            inner.setattr(
                PromptState, "generated", lambda self, result, *rest: swap(self, chosen, *rest)
            )
            return original(task, state, params, calls, results)

    wrapped(patch, call_ops, "give_gen", give)


@fault
def typed_value_off_by_one(patch: Any) -> None:
    """A whole number is read one too large."""

    def read(original: Any, params: Any, result: Any) -> Any:
        value = original(params, result)
        return value + 1 if type(value) is int else value

    wrapped(patch, call_ops, "read_value", read)


@fault
def cut_values_accepted(patch: Any) -> None:
    """A typed generation that was cut short gives its text."""

    def read(original: Any, params: Any, result: Any) -> Any:
        return result.text if not result.complete else original(params, result)

    wrapped(patch, call_ops, "read_value", read)


@fault
def finish_reason_always_stop(patch: Any) -> None:
    """The meta dict does not tell of the limit."""
    wrapped(
        patch, call_ops, "gen_meta",
        lambda original, *args, **given: {**original(*args, **given), "finish_reason": "stop"},
    )  # fmt: skip


@fault
def meta_of_the_last_call(patch: Any) -> None:
    """Meta dicts are all the last call's."""
    method(
        patch, "meta",
        lambda original, self, name: list(self.metas.values())[-1] if name in self.metas
        else original(self, name),
    )  # fmt: skip


@fault
def meta_of_a_choice_lost(patch: Any) -> None:
    """A choice's meta dict has no scores."""
    wrapped(
        patch, call_ops, "select_meta",
        lambda original, *args, **given: {**original(*args, **given), "scores": []},
    )  # fmt: skip


@fault
def choice_trimmed(patch: Any) -> None:
    """A choice is appended without the blanks at its ends."""

    def give(original: Any, task: Any, state: Any, name: Any, choices: Any, *rest: Any) -> None:
        original(task, state, name, [choice.strip() for choice in choices], *rest)

    wrapped(patch, call_ops, "give_select", give)


@fault
def choices_method_ignored(patch: Any) -> None:
    """All choices are compared by their means."""
    patch.setattr(call_ops, "choices_method", lambda given: "token_length_normalized")


@fault
def only_choice_not_counted(patch: Any) -> None:
    """A choice of one counts no ordinal."""

    def give(original: Any, task: Any, state: Any, name: Any, choices: Any, *rest: Any) -> None:
        state = state if len(choices) > 1 else state.tick(-1)
        original(task, state, name, choices, *rest)

    wrapped(patch, call_ops, "give_select", give)


@fault
def text_misses_the_open_run(patch: Any) -> None:
    """`text()` ends at the last generation."""
    method(patch, "text", lambda original, self: original(replace(self, open_text=None)))


@fault
def messages_have_the_first_role(patch: Any) -> None:
    """All turns are told as the first one's role."""

    def messages(original: Any, self: PromptState) -> Any:
        turns = original(self)
        return [{**turn, "role": turns[0]["role"]} for turn in turns]

    method(patch, "messages", messages)


@fault
def open_turn_in_messages(patch: Any) -> None:
    """A turn that is open is told as if it were closed."""

    def messages(original: Any, self: PromptState) -> Any:
        end = self.text_len
        turns = (turn._replace(end=end) if turn.end is None else turn for turn in self.turns)
        return original(replace(self, turns=tuple(turns)))

    method(patch, "messages", messages)


@fault
def every_turn_is_the_first(patch: Any) -> None:
    """The template's start stands before each turn."""

    def begin(original: Any, self: PromptState, role: str) -> PromptState:
        made = original(replace(self, turns=()), role)
        return replace(made, turns=(*self.turns, *made.turns))

    method(patch, "begin", begin)


@fault
def joined_variable_is_the_parents(patch: Any) -> None:
    """A join of a child that changed a variable of the parent gives it to the parent."""

    def join(original: Any, self: PromptState, children: Any, mode: str) -> PromptState:
        made = original(self, children, mode)
        for child in children:
            for name, value in child.variables.items():
                if name in child.fork_point.names and value != self.variables.get(name):
                    made = made.set(name, value)
        return made

    method(patch, "join", join)


@fault
def missing_child_has_a_place_in_a_join(patch: Any) -> None:
    """For a child without the variable None stands in the list."""

    def join(original: Any, self: PromptState, children: Any, mode: str) -> PromptState:
        made = original(self, children, mode)
        for name, value in made.variables.items():
            if self.variables.get(name) is not value and isinstance(value, list):
                made.variables[name] = [child.variables.get(name) for child in children]
        return made

    method(patch, "join", join)


@fault
def join_without_a_lineage_of_its_own(patch: Any) -> None:
    """After a join the parent draws as its first child."""

    def join(original: Any, self: PromptState, children: Any, mode: str) -> PromptState:
        made = original(self, children, mode)
        return replace(made, lineage=children[0].lineage) if children else made

    method(patch, "join", join)
