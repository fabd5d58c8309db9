"""Random modules: the executor, on the plan as it is and after JSON, means what the walk means."""

import json
from contextlib import suppress

import pytest
from random_modules import random_module

from lmc.codegen.lower import lower
from lmc.codegen.plan_json import plan_from_json, plan_to_json
from lmc.errors import LmcError
from lmc.ir.interpreter import interpret
from lmc.ir.verifier import verify
from lmc.runtime.executor import Executor
from lmc.runtime.oracle import Oracle

NUM_SEEDS = 120


class Host:
    """The host functions of random modules; `notes` are their effects in order."""

    def __init__(self):
        self.notes = []

    def functions(self):
        return {"test:note": self._note, "test:both": lambda a, other: f"{a}/{other}"}

    def _note(self, value):
        self.notes.append(value)
        return len(self.notes)


def meaning_of(module, oracle, seed):
    host = Host()
    made = interpret(
        module, "main", {"x": "X"}, model=oracle, target=oracle.target, seed=seed, instance=2,
        defaults={"min_p": 0.1}, host=host.functions(),
    )  # fmt: skip
    return made, host.notes


@pytest.mark.parametrize("part", range(8))
def test_random_modules(part):
    compared = 0
    for seed in range(part, NUM_SEEDS, 8):
        module = random_module(seed)
        verify(module)
        oracle = Oracle(seed=seed)
        plan = plan_from_json(json.loads(json.dumps(plan_to_json(lower(module, oracle.target)))))
        host = Host()
        run = Executor(oracle, plan, host.functions()).run
        options = {"seed": seed, "instance": 2, "defaults": {"min_p": 0.1}}
        try:
            meaning, notes = meaning_of(module, oracle, seed)
        except LmcError:
            with suppress(LmcError):  # what nothing needs may fail without a word here
                run("main", {"x": "X"}, **options)
            continue
        result = run("main", {"x": "X"}, **options)
        assert result.value == meaning.value, seed
        assert result.state.variables == meaning.variables, seed
        assert result.text() == meaning.text, seed
        assert result.state.messages() == meaning.messages, seed
        assert host.notes == notes, seed
        assert [r.call for r in result.calls] == [c for c, _ in meaning.demanded_calls], seed
        compared += 1
    assert compared > NUM_SEEDS / 8 / 2
