"""The executor does what the reference interpreter says, on random programs, in any order.

Calls are answered by several threads, so answers overtake one another.
"""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lmc.codegen.lower import lower
from lmc.errors import RunError
from lmc.ir.core import Module
from lmc.ir.interpreter import interpret
from lmc.ir.interpreter_prompt import Prompt
from lmc.passes.pipeline import PassManager
from lmc.runtime.executor import Executor, Switches

ARGS = {"a": "abc", "b": 3}


class Ticket:
    """A call that cannot be cancelled."""

    def cancel(self) -> None:
        """Let the call go on."""


class Prefilled:
    """A prefix that costs nothing."""

    computed_tokens = 0

    def release(self) -> None:
        """Give nothing back."""


class PooledBackend:
    """Answers each call on some thread of a pool."""

    def __init__(self, target: Any, model: Any, pool: ThreadPoolExecutor) -> None:
        self.target, self.model, self.pool = target, model, pool

    def submit_gen(self, call: Any, on_done: Callable[[Any], None], on_text: Any = None) -> Ticket:
        """Answer a generation."""
        return self._submit(lambda: self.model.generate(call), on_done)

    def submit_score(self, call: Any, on_done: Callable[[Any], None]) -> Ticket:
        """Score options."""
        return self._submit(lambda: self.model.score(call), on_done)

    def submit_prefill(self, context: Any, on_done: Callable[[Any], None]) -> Ticket:
        """Do nothing for a prefix."""
        return self._submit(Prefilled, on_done)

    def _submit(self, answer: Callable[[], Any], on_done: Callable[[Any], None]) -> Ticket:
        self.pool.submit(lambda: on_done(answer()))
        return Ticket()


def shown(value: Any) -> Any:
    """Return a value with its states as what can be seen of them."""
    if isinstance(value, Prompt):
        return value.text, {name: shown(held.value) for name, held in value.variables.items()}
    if hasattr(value, "variables"):
        return value.text(), {name: shown(held) for name, held in value.variables.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(shown, value))
    return value


def pure(value: Any) -> str:
    """A host function without effects."""
    return repr(value) + "ab"


MODES = {
    "unoptimised": (False, Switches()),
    "optimised": (True, Switches()),
    "one after another": (True, Switches(parallel=False, groups=False)),
}


def check(
    module: Module, is_optimised: bool, switches: Switches, target: Any, model: Any, backend: Any
) -> None:
    """Fail if the executor shows anything that the interpreter does not, or the reverse."""
    host = {"m:note": lambda value: [value, value], "m:pure": pure}
    try:
        expected = interpret(module, "main", ARGS, model=model, target=target, seed=7, host=host)
    except RunError:
        return  # what the executor makes of errors is tested where it is defined
    run = PassManager.parse().run(module).module if is_optimised else module
    noted: list[Any] = []

    def note(value: Any) -> list[Any]:
        noted.append(value)
        return [value, value]

    plan = lower(run, target)
    host = {"m:note": note, "m:pure": pure}
    made = Executor(backend, plan, host, switches).run("main", ARGS, seed=7)
    assert repr(shown(made.value)) == repr(shown(expected.value))
    assert repr(shown(made.state)) == repr(shown(expected.state))
    assert made.state.messages() == expected.messages
    assert repr(noted) == repr([args[0] for _, (args, _) in expected.host_calls])
    calls = Counter(record.call for record in made.calls)
    if is_optimised:
        assert not calls - Counter(call for call, _ in expected.calls)
    else:
        assert calls == Counter(call for call, _ in expected.demanded_calls)


@pytest.mark.parametrize("mode", MODES)
@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(draw=st.randoms(use_true_random=False))
def test_random_programs_run_as_they_mean(
    draw: Random, mode: str, make_program: Any, merging_target: Any, hash_model: Any
) -> None:
    with ThreadPoolExecutor(4) as pool:
        backend = PooledBackend(merging_target, hash_model, pool)
        check(make_program(draw), *MODES[mode], merging_target, hash_model, backend)
