"""More faults of capture and of eager mode."""

from dataclasses import replace
from typing import Any

import lmc.frontend.capture.states
import lmc.runtime.eager
from lmc.ir import expressions as ex
from lmc.ir.core import Block, Function, Op, Value, replace_values
from lmc.ir.types import BOOL
from lmc.runtime.eager_state import EagerForks, EagerState
from planted_faults.tools import captured, fault, param, wrapped


@fault
def break_captured_as_continue(patch: Any) -> None:
    """A loop over items always goes on."""

    def edit(function: Function, block: Block, op: Op) -> None:
        body = op.blocks[0]
        made = Op("val.const", [], [Value(BOOL, "go")], {"value": True}, [], op.location)
        body.ops.insert(len(body.ops) - 1, made)
        body.terminator.operands[0] = made.result

    captured(patch, "cf.for", edit)


@fault
def format_width_lost(patch: Any) -> None:
    """The width of a field of an f-string is dropped."""

    def edit(function: Function, block: Block, op: Op) -> None:
        made = Op("val.const", [], [Value(op.result.type, "spec")], {"value": ""}, [], op.location)
        block.ops.insert(block.ops.index(op), made)
        op.operands[1] = made.result

    captured(patch, "val.format", edit)


@fault
def and_captured_as_or(patch: Any) -> None:
    """A comparison with `in` is turned around."""

    def edit(function: Function, block: Block, op: Op) -> None:
        words = {"in": "not in", "not in": "in", "is": "is not"}
        op.attributes["op"] = words.get(str(op.attributes["op"]), op.attributes["op"])

    captured(patch, "val.compare", edit)


@fault
def not_captured_as_truth(patch: Any) -> None:
    """`not x` is taken for `bool(x)`."""
    captured(patch, "val.not", lambda f, b, op: setattr(op, "name", "val.truth"))


@fault
def slice_end_lost(patch: Any) -> None:
    """A slice goes to the end."""

    def edit(function: Function, block: Block, op: Op) -> None:
        op.operands[2] = op.operands[3]

    captured(patch, "val.slice", edit)


@fault
def keys_of_a_dict_in_another_order(patch: Any) -> None:
    """A dict lists its items from the last to the first."""

    def edit(function: Function, block: Block, op: Op) -> None:
        pairs = list(zip(op.operands[::2], op.operands[1::2], strict=True))
        op.operands = [value for pair in pairs[::-1] for value in pair]

    captured(patch, "val.dict", edit)


@fault
def host_arguments_swapped(patch: Any) -> None:
    """A host function gets its first two arguments in the wrong order."""

    def edit(function: Function, block: Block, op: Op) -> None:
        if len(op.operands) - len(op.attributes.get("keywords") or ()) > 2:  # type: ignore[arg-type]
            op.operands[1], op.operands[2] = op.operands[2], op.operands[1]

    captured(patch, "host.call", edit)


@fault
def temperature_not_captured(patch: Any) -> None:
    """The temperature of a generation is dropped."""
    captured(
        patch, "lm.gen", lambda f, b, op: param(op, lambda held: held.pop("temperature", None))
    )


@fault
def role_captured_as_another(patch: Any) -> None:
    """A turn of the system is one of the user."""

    def edit(function: Function, block: Block, op: Op) -> None:
        if op.attributes["role"] == "system":
            op.attributes["role"] = "user"

    captured(patch, "lm.begin", edit)
    captured(patch, "lm.end", edit)


@fault
def join_mode_not_captured(patch: Any) -> None:
    """All joins gather variables."""
    captured(patch, "lm.join", lambda f, b, op: op.attributes.update(mode="gather_variable"))


@fault
def variable_set_under_another_name(patch: Any) -> None:
    """`s[name] = value` sets a variable with a longer name."""

    def edit(function: Function, block: Block, op: Op) -> None:
        if "name" in op.attributes:
            op.attributes["name"] = f"{op.attributes['name']}_"

    captured(patch, "lm.set", edit)


@fault
def has_captured_as_its_contrary(patch: Any) -> None:
    """Every variable is looked up as another one."""

    def edit(function: Function, block: Block, op: Op) -> None:
        if "name" in op.attributes:
            op.attributes["name"] = "x" + str(op.attributes["name"])

    captured(patch, "lm.has", edit)


@fault
def places_captured_one_line_late(patch: Any) -> None:
    """Ops have the place of the next line."""

    def edit(function: Function, block: Block, op: Op) -> None:
        if op.location is not None:
            where = op.location
            op.location = replace(where, line=where.line + 1, end_line=where.end_line + 1)

    for name in ("val.index", "val.binary", "lm.extend", "host.call"):
        captured(patch, name, edit)


@fault
def unread_expression_not_captured(patch: Any) -> None:
    """An item of a list that nobody reads is not looked up."""

    def edit(function: Function, block: Block, op: Op) -> None:
        used = {value for other in function.body.walk() for value in other.operands}
        if op.result not in used:
            block.ops.remove(op)

    captured(patch, "val.index", edit)


@fault
def while_captured_as_once(patch: Any) -> None:
    """A while loop ends after its first trip."""

    def edit(function: Function, block: Block, op: Op) -> None:
        body = op.blocks[0]
        made = Op("val.const", [], [Value(BOOL, "go")], {"value": False}, [], op.location)
        body.ops.insert(len(body.ops) - 1, made)
        body.terminator.operands[0] = made.result

    captured(patch, "cf.while", edit)


@fault
def appended_list_is_the_old_one(patch: Any) -> None:
    """What `pop` takes from a list stays in it."""

    def edit(function: Function, block: Block, op: Op) -> None:
        if op.attributes["name"] in ("extend", "pop", "__setitem__", "update"):
            replace_values(function.body, {op.results[0]: op.operands[0]})

    captured(patch, "val.mutate", edit)


# Eager mode.


@fault
def eager_copy_is_the_same_state(patch: Any) -> None:
    """`copy()` gives the state itself."""
    patch.setattr(EagerState, "copy", lambda self, offset=None: self)


@fault
def eager_lambda_counts_from_one(patch: Any) -> None:
    """`forks += lambda i: ...` numbers the children from one."""

    def iadd(original: Any, self: EagerForks, value: Any) -> EagerForks:
        wrong = (lambda i: value(i + 1)) if callable(value) else value
        return original(self, wrong)

    wrapped(patch, EagerForks, "__iadd__", iadd)


@fault
def eager_scope_holds_everything(patch: Any) -> None:
    """A scope's variable holds the whole text."""
    from contextlib import contextmanager

    @contextmanager
    def scope(self: EagerState, name: str) -> Any:
        yield
        self[name] = self.text()

    patch.setattr(EagerState, "var_scope", scope)


@fault
def eager_turn_not_closed(patch: Any) -> None:
    """A turn in a with statement stays open."""
    from contextlib import contextmanager

    @contextmanager
    def turn(self: EagerState, role: str) -> Any:
        self._append(ex.RoleBegin(role))
        yield

    patch.setattr(EagerState, "_turn", turn)


@fault
def eager_nested_defaults_lost(patch: Any) -> None:
    """Parameters given to a nested program are dropped."""
    wrapped(
        patch, lmc.runtime.eager, "checked_defaults",
        lambda original, defaults: original({}),
    )  # fmt: skip


@fault
def eager_nested_programs_inherit_nothing(patch: Any) -> None:
    """A nested program does not get its caller's parameters."""

    def scope(original: Any, lineage: Any, defaults: Any, *rest: Any) -> Any:
        return original(lineage, {} if lineage else defaults, *rest)

    wrapped(patch, lmc.runtime.eager, "Scope", scope)


@fault
def eager_generation_keeps_its_parameters(patch: Any) -> None:
    """Stop strings of one generation hold for those that set none."""
    last: dict[str, Any] = {}

    def call(original: Any, self: EagerState, op: str, part: Any, *rest: Any) -> Any:
        last.update({key: value for key, value in part.params.items() if key == "stop"})
        return original(self, op, replace(part, params={**last, **part.params}), *rest)

    wrapped(patch, EagerState, "_call", call)


@fault
def eager_does_not_count_forks(patch: Any) -> None:
    """Children of two forks have the same lineage."""

    def nested(original: Any, self: Any, size: int = 1, offset: Any = None) -> Any:
        made = original(self, size)
        self.ordinal -= 1
        return made

    wrapped(patch, EagerState, "fork", nested)


@fault
def eager_errors_have_no_place(patch: Any) -> None:
    """What a body raises is told without its line."""
    patch.setattr(lmc.runtime.eager, "raised_at", lambda error, folder: None)


@fault
def eager_errors_at_the_call(patch: Any) -> None:
    """Steps are placed at the first line of the file."""

    def locate(original: Any, self: Any) -> Any:
        place = original(self)
        return place and replace(place, line=1, end_line=1)

    wrapped(patch, lmc.runtime.eager.EagerRun, "locate", locate)


@fault
def eager_choice_not_appended(patch: Any) -> None:
    """A choice of one option is not appended."""

    def append(original: Any, self: EagerState, part: Any) -> None:
        if isinstance(part, ex.Select) and len(list(part.choices)) == 1:
            self[str(part.name)] = next(iter(part.choices))
            return
        original(self, part)

    wrapped(patch, EagerState, "_append", append)
