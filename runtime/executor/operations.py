"""The table of all ops, shared by compiled and eager runs."""

from lmc.runtime.executor.call_ops import CALL_OPERATIONS
from lmc.runtime.executor.code import Operation
from lmc.runtime.executor.control_ops import CONTROL_OPERATIONS
from lmc.runtime.executor.guard import GUARD_OPERATIONS
from lmc.runtime.executor.host_ops import HOST_OPERATIONS
from lmc.runtime.executor.prefill_ops import PREFILL_OPERATIONS
from lmc.runtime.executor.state_ops import STATE_OPERATIONS

OPERATIONS: dict[str, Operation] = {
    **STATE_OPERATIONS,
    **CALL_OPERATIONS,
    **PREFILL_OPERATIONS,
    **CONTROL_OPERATIONS,
    **GUARD_OPERATIONS,
    **HOST_OPERATIONS,
}
