"""What the executor can leave out is left out, and changes no result."""

import threading

import pytest

import lmc
from lmc.runtime.executor import Executor, Switches
from lmc.runtime.oracle import Oracle


@lmc.function
def branches(s, n: int):
    """A fork whose children generate, a recursion-free loop after it, a choice."""
    s += "Common text that all branches share.\n"
    forks = s.fork(3)
    for i, fork in enumerate(forks):
        fork += f"Branch {i}:" + lmc.gen("out", max_tokens=4)
    total = sum(len(fork["out"]) for fork in forks)
    for i in range(n):
        s += f"{i}" + lmc.gen(f"v{i}", max_tokens=3)
    s += lmc.select("last", choices=["a", "b"])
    return [total, s["v0"], s["last"]]


class Watching(Oracle):
    """An oracle that answers on a thread of its own, and notes how many calls are out."""

    def __init__(self):
        super().__init__()
        self.out = self.most = 0
        self.contexts, self.prefilled = [], []
        self.lock = threading.Lock()

    def submit_gen(self, call, on_done, on_text=None):
        return self._later(call, super().submit_gen, on_done)

    def submit_score(self, call, on_done):
        return self._later(call, super().submit_score, on_done)

    def submit_prefill(self, context, on_done):
        self.prefilled.append(context)
        return super().submit_prefill(context, on_done)

    def _later(self, call, submit, on_done):
        with self.lock:
            self.contexts.append(call.context)
            self.out += 1
            self.most = max(self.most, self.out)

        def done(result):
            with self.lock:
                self.out -= 1
            on_done(result)

        threading.Timer(0.02, lambda: submit(call, done)).start()
        return Waiting()


class Waiting:
    """A call that cannot be cancelled."""

    def cancel(self):
        """Let it go on."""


@pytest.fixture(scope="module")
def compiled():
    return branches.compile("oracle")


def run(compiled, **switches):
    backend = Watching()
    executor = Executor(backend, compiled.plan, {}, Switches(**switches))
    return backend, executor.run("branches", {"n": 2}, seed=5)


def test_independent_calls_are_out_at_the_same_time(compiled):
    backend, _ = run(compiled)
    assert backend.most >= 3
    assert len(backend.prefilled) >= 1


def test_without_parallelism_one_call_is_out_at_a_time(compiled):
    backend, result = run(compiled, parallel=False)
    _, expected = run(compiled)
    assert backend.most == 1
    assert backend.contexts == [record.call.context for record in result.calls], "program order"
    assert (result.value, result.calls) == (expected.value, expected.calls)


def test_without_groups_no_prefix_is_computed_for_a_fork(compiled):
    with_groups, expected = run(compiled)
    without, result = run(compiled, groups=False)
    assert len(without.prefilled) < len(with_groups.prefilled)
    assert (result.value, result.calls) == (expected.value, expected.calls)


def test_the_longest_chain_counts_calls_that_waited(compiled):
    _, together = run(compiled)
    _, alone = run(compiled, parallel=False)
    steps = [r.result.usage.decode_steps for r in alone.calls if hasattr(r.result, "token_ids")]
    assert alone.usage.chain_steps == sum(steps)
    assert max(steps) <= together.usage.chain_steps < sum(steps)


def test_a_failure_drops_calls_that_wait_their_turn():
    @lmc.function
    def failing(s):
        forks = s.fork(3)
        for i, fork in enumerate(forks):
            fork += f"{i}" + lmc.gen("out", max_tokens=2)
        int("x" + forks[0]["out"])
        return [fork["out"] for fork in forks]

    backend = Watching()
    executor = Executor(backend, failing.compile("oracle").plan, {}, Switches(parallel=False))
    with pytest.raises(lmc.errors.RunError, match="ValueError"):
        executor.run("failing", {}, seed=1)
    assert len(backend.contexts) < 3
