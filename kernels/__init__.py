"""Tensors to tensors: one operator interface, its implementations, and the choice of one."""

from typing import TYPE_CHECKING

from lmc.errors import LmcError

if TYPE_CHECKING:
    from lmc.kernels.interface import Kernels


def default_kernels() -> "Kernels":
    """Return the compiled kernels, or the reference kernels (with a warning) without a compiler."""
    from lmc.kernels.build import BuildError
    from lmc.kernels.cpu import CpuKernels
    from lmc.kernels.reference import ReferenceKernels

    try:
        return CpuKernels()
    except (BuildError, OSError) as error:
        reason = error.message if isinstance(error, LmcError) else str(error)
        return ReferenceKernels(reason)
