"""ModelRunner: a step plan becomes tensors, one forward pass, and rows of logits.

Beside `self_check.py` the only module of the engine that touches torch. On the CPU the plan's
arrays and the page table are shared with the tensors, not copied.
"""

import os
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lmc.errors import EngineError
from lmc.runtime.engine.kv_memory import read_kv, write_kv
from lmc.runtime.engine.step_plan import StepPlan

if TYPE_CHECKING:
    import torch

    from lmc.runtime.models.batch import ForwardBatch

DEFAULT_NUM_SLOTS = 32768
_MEMORY_SHARE = 4
_BYTES_PER_VALUE = 4


class ModelShape(Protocol):
    """The sizes of a model that the engine needs."""

    @property
    def num_layers(self) -> int:
        """Decoder layers."""
        ...

    @property
    def num_kv_heads(self) -> int:
        """Heads of the KV cache."""
        ...

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        ...

    @property
    def vocab_size(self) -> int:
        """Width of the logits and of the embedding."""
        ...

    @property
    def max_positions(self) -> int:
        """Longest sequence that the model was made for."""
        ...


class CausalModel(Protocol):
    """What the engine runs; see lmc.runtime.models.decoder."""

    @property
    def config(self) -> ModelShape:
        """The model's sizes."""
        ...

    @property
    def weights_fingerprint(self) -> str:
        """Hex digest of the weights."""
        ...

    @property
    def kv_fingerprint(self) -> dict[str, str]:
        """What the bytes of the KV depend on beside the tokens, by name."""
        ...

    def new_kv(self, num_slots: int) -> Any:
        """Make KV memory for `num_slots` tokens."""
        ...

    def forward(self, batch: "ForwardBatch", kv: Any) -> "torch.Tensor":
        """Compute the batch's tokens, write their KV, return float32 [logit rows, vocab]."""
        ...


def default_num_slots(shape: ModelShape) -> int:
    """Return how many tokens of KV to hold: at most a quarter of the machine's memory."""
    per_slot = 2 * shape.num_layers * shape.num_kv_heads * shape.head_dim * _BYTES_PER_VALUE
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1024, min(DEFAULT_NUM_SLOTS, memory // _MEMORY_SHARE // per_slot))


class ModelRunner:
    """A model, its KV memory, and the page table of the running sequences.

    Args:
        model: what computes.
        num_slots: tokens of KV memory.
        max_running: rows of the page table.
    """

    def __init__(self, model: CausalModel, *, num_slots: int, max_running: int) -> None:
        import torch

        self.model = model
        self.max_len = min(model.config.max_positions, num_slots)
        self.page_table: NDArray[np.int32] = np.zeros((max_running, self.max_len), dtype=np.int32)
        self._table = torch.from_numpy(self.page_table)
        self.kv = model.new_kv(num_slots)

    @property
    def kv_bytes_per_token(self) -> int:
        """Size of one token's KV over all layers."""
        return self.kv.nbytes_per_token  # type: ignore[no-any-return]

    def read_kv(self, slots: NDArray[np.int32]) -> bytes:
        """Return the KV of some slots: [layers, keys and values, slots, heads, head dim]."""
        return read_kv(self.kv, slots)

    def write_kv(self, slots: NDArray[np.int32], data: memoryview, first: int) -> None:
        """Write what `read_kv` gave, from token `first` on, into slots: as many as there are."""
        write_kv(self.kv, slots, data, first)

    def forward(self, plan: StepPlan) -> NDArray[np.float32]:
        """Compute a step; return its logits, float32 [len(plan.logit_rows), vocab].

        Raises:
            EngineError: the model's answer has another shape.
            Exception: whatever the model raises.
        """
        import torch

        from lmc.runtime.models.batch import ForwardBatch

        batch = ForwardBatch(
            token_ids=torch.from_numpy(plan.token_ids),
            positions=torch.from_numpy(plan.positions),
            slots=torch.from_numpy(plan.slots),
            seq_starts=torch.from_numpy(plan.seq_starts),
            table_rows=torch.from_numpy(plan.table_rows),
            page_table=self._table,
            logit_rows=torch.from_numpy(plan.logit_rows),
        )
        with torch.inference_mode():
            logits = self.model.forward(batch, self.kv)
        expected = (len(plan.logit_rows), self.model.config.vocab_size)
        if tuple(logits.shape) != expected:
            raise EngineError(
                f"the model gave logits of shape {tuple(logits.shape)}, not {expected}"
            )
        return logits.numpy()
