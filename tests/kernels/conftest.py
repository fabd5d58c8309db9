"""Compiled kernels in the variants that this machine can run."""

import platform

import pytest

from lmc.kernels.cpu import CpuKernels
from lmc.kernels.reference import ReferenceKernels

# AVX2 has neither 512-bit vectors nor bf16 instructions: the portable path in other sizes.
# Without tile registers the native path is that of most processors with bf16 instructions.
VARIANTS = {"native": {"arch": "native"}}
if platform.machine() == "x86_64":
    VARIANTS["avx2"] = {"arch": "x86-64-v3"}
    VARIANTS["no amx"] = {"arch": "native", "use_amx": False}


@pytest.fixture(scope="session", params=sorted(VARIANTS))
def kernels(request):
    """The compiled kernels, once for each code path, on two threads."""
    compiled = CpuKernels(**VARIANTS[request.param])
    before = compiled.num_threads
    compiled.set_num_threads(2)
    yield compiled
    compiled.set_num_threads(before)


@pytest.fixture(scope="session")
def reference():
    """The plain kernels."""
    return ReferenceKernels()
