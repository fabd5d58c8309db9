"""The executor: dataflow execution of plans, for many instances at once."""

from lmc.runtime.executor.executor import Executor
from lmc.runtime.executor.prologues import release_prologues

__all__ = ["Executor", "release_prologues"]
