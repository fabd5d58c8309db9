"""The thread pool: callers at the same time, and the child of a fork."""

import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import torch

from lmc.kernels.interface import LinearPart
from lmc.kernels.threads import usable_cores


def test_callers_on_several_threads_get_their_own_results(kernels):
    generator = torch.Generator().manual_seed(0)
    layer = kernels.pack_linear(
        [LinearPart(torch.randn(300, 64, generator=generator))], torch.float32
    )
    inputs = [torch.randn(40, 64, generator=generator) for _ in range(8)]

    def apply(x):
        out = torch.empty(x.shape[0], 300)
        kernels.linear(x, layer, out)
        return out

    expected = [apply(x) for x in inputs]
    kernels.set_num_threads(4)
    with ThreadPoolExecutor(max_workers=4) as pool:
        for _ in range(50):
            for actual, wanted in zip(pool.map(apply, inputs), expected, strict=True):
                assert torch.equal(actual, wanted)
    kernels.set_num_threads(2)


def test_the_child_of_a_fork_computes_too():
    script = """
        import os, torch
        from lmc.kernels.cpu import CpuKernels
        kernels = CpuKernels()
        kernels.set_num_threads(3)
        logits = torch.arange(4000.0).reshape(40, 100)
        assert kernels.argmax(logits).tolist() == [99] * 40
        child = os.fork()
        if child == 0:
            is_right = kernels.argmax(logits).tolist() == [99] * 40
            os._exit(0 if is_right else 1)
        raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], timeout=120)
    assert done.returncode == 0


def test_the_number_of_threads_follows_the_environment(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert usable_cores() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "not a number")
    assert usable_cores() >= 1
