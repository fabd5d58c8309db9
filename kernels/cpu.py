"""The operators in C++ (see csrc), exact and fast on any processor with a compiler."""

import torch

from lmc.errors import EngineError
from lmc.kernels.arena import WeightArena
from lmc.kernels.build import build_library
from lmc.kernels.cpu_linear import GATE, UP, WHOLE, CpuLinear, Packing
from lmc.kernels.interface import AttentionIndex, LinearPart, PackedLinear, RopeTable
from lmc.kernels.library import KernelLibrary
from lmc.kernels.quantized import GGML_NUMBERS, QuantizedWeight
from lmc.kernels.threads import usable_cores

HELD_ROWS = 16
"""Calls on up to so many rows and small weights take some 0.1 ms and keep the interpreter lock."""


class CpuKernels:
    """Operators compiled for this processor.

    Args:
        arch: the compiler's `-march`; `native` for this machine.
        use_native_bf16: whether to use the processor's bf16 instructions where it has them.
        use_amx: whether to use its tile registers where it has them and the system grants them.

    Raises:
        BuildError: the kernels could not be compiled.
    """

    is_exact = True
    warning = None

    def __init__(
        self, *, arch: str = "native", use_native_bf16: bool = True, use_amx: bool = True
    ) -> None:
        defines = [] if use_native_bf16 else ["LMC_NO_NATIVE_BF16"]
        if not use_amx:
            defines.append("LMC_NO_AMX")
        self.library = KernelLibrary(build_library(arch, defines))
        self._free, self._held = self.library.free, self.library.held
        bf16 = "avx512_bf16" if self._free.lmc_has_native_bf16() else "portable"
        if self._free.lmc_uses_amx():
            bf16 = "amx_bf16"
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

    def dequantize(self, weight: QuantizedWeight, dtype: torch.dtype) -> torch.Tensor:
        """Return a quantized weight as a dense one."""
        assert dtype in (torch.float32, torch.bfloat16), dtype
        rows = weight.rows.contiguous()
        dense = torch.empty(weight.shape, dtype=dtype)
        self._free.lmc_dequantize(
            rows.data_ptr(),
            GGML_NUMBERS[weight.kind],
            *weight.shape,
            dense.data_ptr(),
            dtype == torch.bfloat16,
        )
        return dense

    def pack_linear(
        self, parts: list[LinearPart], dtype: torch.dtype, *, int8_activations: bool = False
    ) -> CpuLinear:
        """Pack the outputs of several weights, one after another, as one layer."""
        packing = self._packing(parts, dtype, int8_activations)
        first = 0
        for part in parts:
            packing.add(part, first, WHOLE)
            first += part.weight.shape[0]
        return packing.finish(is_gated=False)

    def pack_gated(
        self,
        gate: LinearPart,
        up: LinearPart,
        dtype: torch.dtype,
        *,
        int8_activations: bool = False,
    ) -> CpuLinear:
        """Pack the two halves of a gated MLP for `gated_linear`."""
        packing = self._packing([gate, up], dtype, int8_activations)
        packing.add(gate, 0, GATE)
        packing.add(up, 0, UP)
        return packing.finish(is_gated=True)

    def _packing(
        self, parts: list[LinearPart], dtype: torch.dtype, int8_activations: bool
    ) -> Packing:
        return Packing(self.library, self._arena, parts, dtype, int8_activations=int8_activations)

    def embed(self, table: PackedLinear, token_ids: torch.Tensor, out: torch.Tensor) -> None:
        """Write rows `token_ids` of a packed table to `out`, float32."""
        layer = _own(table)
        shape = layer.weight_ptr, layer.num_outputs, layer.num_inputs
        rows = token_ids.data_ptr(), token_ids.shape[0], out.data_ptr()
        if layer.kind is None:
            is_bf16 = layer.weight.dtype == torch.bfloat16
            num_wrong = self._held.lmc_embed(*shape, *rows, is_bf16)
        else:
            num_wrong = self._held.lmc_quantized_embed(*shape, layer.kind, *rows)
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
        assert num_inputs == layer.num_inputs
        assert out.shape == (num_rows, out_width), (out.shape, num_rows, out_width)
        library = self._held if num_rows <= HELD_ROWS and layer.is_small else self._free
        pointers = x.data_ptr(), layer.weight_ptr, layer.bias_ptr, out.data_ptr()
        shape = num_rows, layer.num_outputs, num_inputs
        is_bf16 = x.dtype == torch.bfloat16
        flags = out.dtype == torch.float32, accumulate, layer.is_gated
        if layer.kind is None:
            assert x.dtype == layer.weight.dtype
            library.lmc_linear(*pointers, *shape, is_bf16, *flags)
        else:
            rounds = layer.int8_activations
            library.lmc_quantized_linear(*pointers, *shape, layer.kind, is_bf16, rounds, *flags)

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
