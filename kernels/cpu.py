"""The operators in C++ (see csrc), exact and fast on any processor with a compiler."""

from dataclasses import dataclass

import torch

from lmc.errors import EngineError
from lmc.kernels.arena import WeightArena
from lmc.kernels.build import build_library
from lmc.kernels.interface import AttentionIndex, LinearPart, PackedLinear, RopeTable
from lmc.kernels.library import KernelLibrary
from lmc.kernels.threads import usable_cores

HELD_ROWS = 16
HELD_WEIGHTS = 4 << 20
"""Calls on up to so many rows and weights take some 0.1 ms and keep the interpreter lock."""

_WHOLE, _GATE, _UP = 0, 1, 2


@dataclass(frozen=True, slots=True)
class CpuLinear:
    """A packed weight and its bias in the order of the packed outputs.

    `weight_ptr` and `bias_ptr` are the addresses, kept because they are asked for often;
    `is_small` says that a few rows take so little time that the interpreter lock is kept.
    """

    weight: torch.Tensor
    bias: torch.Tensor | None
    num_outputs: int
    num_inputs: int
    is_gated: bool
    is_small: bool
    weight_ptr: int
    bias_ptr: int | None

    @property
    def nbytes(self) -> int:
        """Memory that the packed weight takes, in bytes."""
        return self.weight.nbytes


class CpuKernels:
    """Operators compiled for this processor.

    Args:
        arch: the compiler's `-march`; `native` for this machine.
        use_native_bf16: whether to use the processor's bf16 instructions where it has them.

    Raises:
        BuildError: the kernels could not be compiled.
    """

    is_exact = True
    warning = None

    def __init__(self, *, arch: str = "native", use_native_bf16: bool = True) -> None:
        defines = () if use_native_bf16 else ("LMC_NO_NATIVE_BF16",)
        self.library = KernelLibrary(build_library(arch, defines))
        self._free, self._held = self.library.free, self.library.held
        bf16 = "avx512_bf16" if self._free.lmc_has_native_bf16() else "portable"
        self._arena = WeightArena()
        self.name = f"cpu ({bf16}, {self._free.lmc_lanes()} lanes)"
        self.set_num_threads(usable_cores())

    @property
    def fingerprint(self) -> str:
        """Name of the built library, a hash of all that its code depends on, and its path taken."""
        return f"{self.library.path.stem} {self.name}"

    def set_num_threads(self, count: int) -> None:
        """Set how many threads the operators use; results do not depend on it."""
        self._free.lmc_set_num_threads(count)
        self.num_threads = count

    def pack_linear(self, parts: list[LinearPart], dtype: torch.dtype) -> CpuLinear:
        """Pack the outputs of several weights, one after another, as one layer."""
        total = sum(part.weight.shape[0] for part in parts)
        packing = _Packing(self.library, self._arena, (total, parts[0].weight.shape[1]), dtype)
        first = 0
        for part in parts:
            packing.add(part, first, _WHOLE)
            first += part.weight.shape[0]
        return packing.finish(is_gated=False)

    def pack_gated(self, gate: LinearPart, up: LinearPart, dtype: torch.dtype) -> CpuLinear:
        """Pack the two halves of a gated MLP for `gated_linear`."""
        packing = _Packing(
            self.library, self._arena, (2 * gate.weight.shape[0], gate.weight.shape[1]), dtype
        )
        packing.add(gate, 0, _GATE)
        packing.add(up, 0, _UP)
        return packing.finish(is_gated=True)

    def embed(self, table: PackedLinear, token_ids: torch.Tensor, out: torch.Tensor) -> None:
        """Write rows `token_ids` of a packed table to `out`, float32."""
        layer = _own(table)
        num_wrong = self._held.lmc_embed(
            layer.weight_ptr,
            layer.num_outputs,
            layer.num_inputs,
            token_ids.data_ptr(),
            token_ids.shape[0],
            out.data_ptr(),
            layer.weight.dtype == torch.bfloat16,
        )
        if num_wrong:
            raise EngineError(f"{num_wrong} token ids lie outside 0..{layer.num_outputs - 1}")

    def linear(
        self, x: torch.Tensor, layer: PackedLinear, out: torch.Tensor, *, accumulate: bool = False
    ) -> None:
        """Write (or add) x W^T + bias to `out`."""
        self._linear(x, _own(layer), out, accumulate)

    def gated_linear(self, x: torch.Tensor, layer: PackedLinear, out: torch.Tensor) -> None:
        """Write silu(x G^T) * (x U^T) to `out`."""
        self._linear(x, _own(layer), out, False)

    def _linear(
        self, x: torch.Tensor, layer: CpuLinear, out: torch.Tensor, accumulate: bool
    ) -> None:
        """Run a packed layer, gated or not."""
        num_rows, num_inputs = x.shape
        out_width = layer.num_outputs // 2 if layer.is_gated else layer.num_outputs
        assert x.dtype == layer.weight.dtype
        assert num_inputs == layer.num_inputs
        assert out.shape == (num_rows, out_width), (out.shape, num_rows, out_width)
        is_short = num_rows <= HELD_ROWS and layer.is_small
        (self._held if is_short else self._free).lmc_linear(
            x.data_ptr(),
            layer.weight_ptr,
            layer.bias_ptr,
            out.data_ptr(),
            num_rows,
            layer.num_outputs,
            num_inputs,
            x.dtype == torch.bfloat16,
            out.dtype == torch.float32,
            accumulate,
            layer.is_gated,
        )

    def rms_norm(
        self, x: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor
    ) -> None:
        """Write x / sqrt(mean(x^2) + eps) * weight to `out`."""
        num_rows, width = x.shape
        (self._held if num_rows <= HELD_ROWS else self._free).lmc_rms_norm(
            x.data_ptr(),
            weight.data_ptr(),
            eps,
            num_rows,
            width,
            out.data_ptr(),
            out.dtype == torch.bfloat16,
        )

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
        num_slots, num_kv_heads, _ = keys.shape
        num_wrong = (self._held if num_rows <= HELD_ROWS else self._free).lmc_rope_write(
            qkv.data_ptr(),
            rope.cosine.data_ptr(),
            rope.sine.data_ptr(),
            rope.cosine.shape[0],
            positions.data_ptr(),
            slots.data_ptr(),
            num_rows,
            num_slots,
            num_heads,
            num_kv_heads,
            head_dim,
            q.data_ptr(),
            keys.data_ptr(),
            values.data_ptr(),
            q.dtype == torch.bfloat16,
        )
        if num_wrong:
            raise EngineError(
                f"{num_wrong} rows have a position outside 0..{rope.cosine.shape[0] - 1} "
                f"or a slot outside 0..{num_slots - 1}"
            )

    def attention(
        self,
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        index: AttentionIndex,
        out: torch.Tensor,
    ) -> None:
        """Causal attention of each row over its sequence's cached positions."""
        num_rows, num_heads, head_dim = q.shape
        num_slots, num_kv_heads, _ = keys.shape
        num_table_rows, table_stride = index.page_table.shape
        failed = (self._held if num_rows <= HELD_ROWS else self._free).lmc_attention(
            q.data_ptr(),
            keys.data_ptr(),
            values.data_ptr(),
            index.positions.data_ptr(),
            index.seq_starts.data_ptr(),
            index.table_rows.data_ptr(),
            index.page_table.data_ptr(),
            index.table_rows.shape[0],
            table_stride,
            num_table_rows,
            num_heads,
            num_kv_heads,
            head_dim,
            num_slots,
            out.data_ptr(),
            q.dtype == torch.bfloat16,
        )
        if failed:
            raise EngineError(
                "attention was given positions that do not ascend or exceed the page table "
                f"({table_stride} positions, {num_table_rows} rows), or slots outside "
                f"0..{num_slots - 1}"
            )

    def argmax(self, logits: torch.Tensor, bitmask: torch.Tensor | None = None) -> torch.Tensor:
        """Return the index of each row's largest allowed logit, int32; the lowest wins a tie."""
        num_rows, width = logits.shape
        out = torch.empty(num_rows, dtype=torch.int32)
        pointer, words = _mask_pointer(bitmask, num_rows, width)
        self._free.lmc_argmax(logits.data_ptr(), pointer, words, num_rows, width, out.data_ptr())
        return out

    def log_sum_exp(
        self,
        logits: torch.Tensor,
        bitmask: torch.Tensor | None = None,
        scales: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return log(sum(exp(logits * scale))) over each row's allowed tokens, float64."""
        num_rows, width = logits.shape
        out = torch.empty(num_rows, dtype=torch.float64)
        pointer, words = _mask_pointer(bitmask, num_rows, width)
        self._free.lmc_log_sum_exp(
            logits.data_ptr(), pointer, words, _pointer(scales), num_rows, width, out.data_ptr()
        )
        return out

    def log_softmax(
        self,
        logits: torch.Tensor,
        bitmask: torch.Tensor | None = None,
        scales: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return each row's log-probabilities, float32; -inf where not allowed."""
        num_rows, width = logits.shape
        out = torch.empty(num_rows, width, dtype=torch.float32)
        pointer, words = _mask_pointer(bitmask, num_rows, width)
        self._free.lmc_log_softmax(
            logits.data_ptr(), pointer, words, _pointer(scales), num_rows, width, out.data_ptr()
        )
        return out


class _Packing:
    """A packed weight that is being filled."""

    def __init__(
        self,
        library: KernelLibrary,
        arena: WeightArena,
        shape: tuple[int, int],
        dtype: torch.dtype,
    ) -> None:
        num_outputs, num_inputs = shape
        self._library = library.free
        self._is_bf16 = dtype == torch.bfloat16
        self._shape = shape
        size = self._library.lmc_packed_size(num_outputs, num_inputs, self._is_bf16)
        self._weight = arena.zeros(size, dtype)
        self._bias = torch.zeros(-(-num_outputs // 32) * 32, dtype=torch.float32)
        self._has_bias = False

    def add(self, part: LinearPart, first: int, kind: int) -> None:
        """Pack the rows of a part behind `first` other rows of its kind."""
        num_rows, num_inputs = part.weight.shape
        assert num_inputs == self._shape[1], (part.weight.shape, self._shape)
        weight = part.weight
        if weight.dtype not in (torch.float32, torch.bfloat16):
            weight = weight.float()
        weight = weight.contiguous()
        self._library.lmc_pack(
            weight.data_ptr(),
            weight.dtype == torch.bfloat16,
            num_rows,
            num_inputs,
            first,
            kind,
            self._weight.data_ptr(),
            self._is_bf16,
        )
        if part.bias is not None:
            self._has_bias = True
            places = [self._library.lmc_output_of(first + row, kind) for row in range(num_rows)]
            self._bias[places] = part.bias.float()

    def finish(self, *, is_gated: bool) -> CpuLinear:
        """Return the packed layer."""
        bias = self._bias if self._has_bias else None
        return CpuLinear(
            weight=self._weight,
            bias=bias,
            num_outputs=self._shape[0],
            num_inputs=self._shape[1],
            is_gated=is_gated,
            is_small=self._weight.numel() <= HELD_WEIGHTS,
            weight_ptr=self._weight.data_ptr(),
            bias_ptr=_pointer(bias),
        )


def _own(layer: PackedLinear) -> CpuLinear:
    """Return a layer that these kernels have packed."""
    assert isinstance(layer, CpuLinear), type(layer)
    return layer


def _pointer(tensor: torch.Tensor | None) -> int | None:
    """Return the address of a tensor's data."""
    return None if tensor is None else tensor.data_ptr()


def _mask_pointer(
    bitmask: torch.Tensor | None, num_rows: int, width: int
) -> tuple[int | None, int]:
    """Return a bitmask's address and the words in its rows."""
    if bitmask is None:
        return None, 0
    assert bitmask.dtype == torch.int32
    assert bitmask.is_contiguous()
    assert bitmask.shape[0] == num_rows
    assert bitmask.shape[1] * 32 >= width
    return bitmask.data_ptr(), bitmask.shape[1]
