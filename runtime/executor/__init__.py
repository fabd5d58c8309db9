"""The executor: dataflow execution of plans, for many instances at once."""

from lmc.runtime.executor.executor import Executor
from lmc.runtime.executor.prologues import release_prologues
from lmc.runtime.executor.switches import Switches

__all__ = ["Executor", "Switches", "release_prologues"]
