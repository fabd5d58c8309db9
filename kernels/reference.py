"""The operators in plain torch: float32 arithmetic, the oracle of the tests.

Also the fallback where no compiler is found. Torch's matrix products choose their order of
summation by shape, so a row may differ in its last bits with the rows beside it: not exact.
"""

import math
from dataclasses import dataclass

import torch

from lmc.errors import EngineError
from lmc.kernels.interface import AttentionIndex, LinearPart, PackedLinear, RopeTable
from lmc.kernels.quantized import QuantizedWeight, round_to_int8


@dataclass(frozen=True, slots=True)
class ReferenceLinear:
    """A weight [n, k] held in float32, and a bias or none.

    A dense weight is rounded to the model's dtype; a quantized one is not.
    """

    weight: torch.Tensor
    bias: torch.Tensor | None
    int8_activations: bool

    @property
    def num_outputs(self) -> int:
        """Rows of the weight."""
        return self.weight.shape[0]

    @property
    def num_inputs(self) -> int:
        """Columns of the weight."""
        return self.weight.shape[1]

    @property
    def nbytes(self) -> int:
        """Memory that the weight takes, in bytes."""
        return self.weight.nbytes

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        """Return x W^T + bias in float32."""
        rows = round_to_int8(x) if self.int8_activations else x.float()
        y = rows @ self.weight.T
        return y if self.bias is None else y + self.bias


class ReferenceKernels:
    """The plain implementation.

    Args:
        reason: why the compiled kernels are not used; shown to the user as a warning.
    """

    name = "reference"
    fingerprint = f"reference, torch {torch.__version__}"
    is_exact = False

    def __init__(self, reason: str | None = None) -> None:
        self.warning = (
            None
            if reason is None
            else f"slow reference kernels in use, results may vary with batching: {reason}"
        )

    @property
    def num_threads(self) -> int:
        """Torch's number of threads."""
        return torch.get_num_threads()

    def set_num_threads(self, count: int) -> None:
        """Set torch's number of threads."""
        torch.set_num_threads(count)

    def dequantize(self, weight: QuantizedWeight, dtype: torch.dtype) -> torch.Tensor:
        """Return a quantized weight as a dense one."""
        return weight.dequantize().to(dtype)

    def pack_linear(
        self, parts: list[LinearPart], dtype: torch.dtype, *, int8_activations: bool = False
    ) -> ReferenceLinear:
        """Join the weights of several parts."""
        weight = torch.cat([_in_float(part, dtype) for part in parts])
        rounds = int8_activations and parts[0].kind is not None
        if all(part.bias is None for part in parts):
            return ReferenceLinear(weight, None, rounds)
        biases = [
            torch.zeros(part.weight.shape[0]) if part.bias is None else part.bias.float()
            for part in parts
        ]
        return ReferenceLinear(weight, torch.cat(biases), rounds)

    def pack_gated(
        self,
        gate: LinearPart,
        up: LinearPart,
        dtype: torch.dtype,
        *,
        int8_activations: bool = False,
    ) -> ReferenceLinear:
        """Join gate and up, one behind the other."""
        return self.pack_linear([gate, up], dtype, int8_activations=int8_activations)

    def embed(self, table: PackedLinear, token_ids: torch.Tensor, out: torch.Tensor) -> None:
        """Write rows `token_ids` of a table to `out`."""
        weight = _own(table).weight
        num_wrong = int(((token_ids < 0) | (token_ids >= weight.shape[0])).sum())
        if num_wrong:
            raise EngineError(f"{num_wrong} token ids lie outside 0..{weight.shape[0] - 1}")
        out.copy_(weight[token_ids.long()])

    def linear(
        self, x: torch.Tensor, layer: PackedLinear, out: torch.Tensor, *, accumulate: bool = False
    ) -> None:
        """Write (or add) x W^T + bias to `out`."""
        y = _own(layer).apply(x)
        out.copy_(out + y if accumulate else y)

    def gated_linear(self, x: torch.Tensor, layer: PackedLinear, out: torch.Tensor) -> None:
        """Write silu(x G^T) * (x U^T) to `out`."""
        gate, up = _own(layer).apply(x).chunk(2, dim=-1)
        out.copy_(torch.nn.functional.silu(gate) * up)

    def rms_norm(
        self, x: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor
    ) -> None:
        """Write x / sqrt(mean(x^2) + eps) * weight to `out`."""
        out.copy_(x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight)

    def rope_write(
        self,
        qkv: torch.Tensor,
        rope: RopeTable,
        positions: torch.Tensor,
        slots: torch.Tensor,
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
    ) -> None:
        """Rotate queries and keys, and write keys and values into their slots."""
        num_rows, num_heads, head_dim = q.shape
        num_kv_heads = keys.shape[1]
        _check_range("positions", positions, rope.cosine.shape[0])
        _check_range("slots", slots, keys.shape[0])
        rows = qkv.view(num_rows, num_heads + 2 * num_kv_heads, head_dim)
        cosine = rope.cosine[positions.long()].unsqueeze(1)
        sine = rope.sine[positions.long()].unsqueeze(1)
        rotated = _rotate(rows[:, : num_heads + num_kv_heads], cosine, sine)
        q.copy_(rotated[:, :num_heads])
        keys[slots.long()] = rotated[:, num_heads:].to(keys.dtype)
        values[slots.long()] = rows[:, num_heads + num_kv_heads :].to(values.dtype)

    def attention(
        self,
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        index: AttentionIndex,
        out: torch.Tensor,
    ) -> None:
        """Causal attention of each row over its sequence's cached positions."""
        _check_range("table rows", index.table_rows, index.page_table.shape[0])
        _check_range("positions", index.positions, index.page_table.shape[1])
        starts = index.seq_starts.tolist()
        for s, table_row in enumerate(index.table_rows.tolist()):
            begin, end = starts[s], starts[s + 1]
            positions = index.positions[begin:end]
            if bool((positions[1:] <= positions[:-1]).any()):
                raise EngineError(f"positions of sequence {s} do not ascend")
            if begin < end:
                slots = index.page_table[table_row, : int(positions[-1]) + 1]
                _check_range("slots", slots, keys.shape[0])
                out[begin:end] = _attend(
                    q[begin:end], keys[slots.long()], values[slots.long()], positions
                ).to(out.dtype)

    def argmax(self, logits: torch.Tensor, bitmask: torch.Tensor | None = None) -> torch.Tensor:
        """Return the index of each row's largest allowed logit; the lowest wins a tie."""
        masked = _masked(logits, bitmask)
        best = masked.max(dim=-1, keepdim=True).values
        first = (masked == best).int().argmax(dim=-1).int()
        return torch.where(best.squeeze(-1) == -math.inf, -1, first).int()

    def log_sum_exp(
        self,
        logits: torch.Tensor,
        bitmask: torch.Tensor | None = None,
        scales: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return log(sum(exp(logits * scale))) over each row's allowed tokens, float64."""
        return torch.logsumexp(_masked(_scaled(logits, scales), bitmask).double(), dim=-1)

    def log_softmax(
        self,
        logits: torch.Tensor,
        bitmask: torch.Tensor | None = None,
        scales: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return each row's log-probabilities, float32; -inf where not allowed."""
        scaled = _scaled(logits, scales)
        total = torch.logsumexp(_masked(scaled, bitmask).double(), dim=-1, keepdim=True)
        return _masked((scaled.double() - total).float(), bitmask)


def _in_float(part: LinearPart, dtype: torch.dtype) -> torch.Tensor:
    """Return a part's weight in float32."""
    if isinstance(part.weight, QuantizedWeight):
        return part.weight.dequantize()
    return part.weight.to(dtype).float()


def _own(layer: PackedLinear) -> ReferenceLinear:
    """Return a layer that these kernels have packed."""
    assert isinstance(layer, ReferenceLinear), type(layer)
    return layer


def _check_range(what: str, numbers: torch.Tensor, limit: int) -> None:
    """Raise EngineError unless all numbers lie in 0..limit-1."""
    num_wrong = int(((numbers < 0) | (numbers >= limit)).sum())
    if num_wrong:
        raise EngineError(f"{num_wrong} {what} lie outside 0..{limit - 1}")


def _rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Rotate the pairs (i, i + head_dim / 2) of each head."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


def _attend(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, positions: torch.Tensor
) -> torch.Tensor:
    """Attention of rows [n, heads, head_dim] over a sequence's keys [len, kv_heads, head_dim]."""
    num_rows, num_heads, head_dim = q.shape
    group = num_heads // keys.shape[1]
    grouped = q.float().view(num_rows, keys.shape[1], group, head_dim)
    scores = torch.einsum("rkgd,lkd->rkgl", grouped, keys.float()) / math.sqrt(head_dim)
    visible = torch.arange(keys.shape[0]).unsqueeze(0) <= positions.unsqueeze(1)
    scores = scores.masked_fill(~visible[:, None, None, :], -math.inf)
    weights = torch.softmax(scores, dim=-1)
    return torch.einsum("rkgl,lkd->rkgd", weights, values.float()).reshape(q.shape)


def _scaled(logits: torch.Tensor, scales: torch.Tensor | None) -> torch.Tensor:
    """Multiply each row by its scale."""
    return logits if scales is None else logits * scales.unsqueeze(1)


def _masked(logits: torch.Tensor, bitmask: torch.Tensor | None) -> torch.Tensor:
    """Put tokens that a bitmask does not allow at -infinity."""
    if bitmask is None:
        return logits
    tokens = torch.arange(logits.shape[1])
    words = bitmask[:, tokens // 32]
    allowed = (words >> (tokens % 32).int()) & 1
    return logits.masked_fill(allowed == 0, -math.inf)
