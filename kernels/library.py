"""The compiled kernels as a ctypes library with declared signatures."""

import ctypes
from ctypes import c_float, c_int, c_int64, c_uint64, c_void_p
from pathlib import Path

_PTR, _LONG, _INT = c_void_p, c_int64, c_int

# Name -> (result, arguments), as declared in csrc.
_SIGNATURES: dict[str, tuple[type | None, list[type]]] = {
    "lmc_set_num_threads": (None, [_INT]),
    "lmc_has_native_bf16": (_INT, []),
    "lmc_lanes": (_INT, []),
    "lmc_uses_amx": (_INT, []),
    "lmc_packed_size": (_LONG, [_LONG, _LONG, _INT]),
    "lmc_output_of": (_LONG, [_LONG, _INT]),
    "lmc_pack": (None, [_PTR, _INT, _LONG, _LONG, _LONG, _INT, _PTR, _INT]),
    "lmc_linear": (
        None,
        [_PTR, _PTR, _PTR, _PTR, _LONG, _LONG, _LONG, _INT, _INT, _INT, _INT],
    ),
    "lmc_embed": (_LONG, [_PTR, _LONG, _LONG, _PTR, _LONG, _PTR, _INT]),
    "lmc_quantized_size": (_LONG, [_LONG, _LONG, _INT]),
    "lmc_dequantize": (None, [_PTR, _INT, _LONG, _LONG, _PTR, _INT]),
    "lmc_quantized_pack": (None, [_PTR, _INT, _LONG, _LONG, _LONG, _INT, _PTR]),
    "lmc_quantized_linear": (None, [*[_PTR] * 4, *[_LONG] * 3, *[_INT] * 6]),
    "lmc_quantized_embed": (_LONG, [_PTR, _LONG, _LONG, _INT, _PTR, _LONG, _PTR]),
    "lmc_rms_norm": (None, [_PTR, _PTR, c_float, _LONG, _LONG, _PTR, _INT]),
    "lmc_rope_write": (
        _LONG,
        [_PTR, _PTR, _PTR, _LONG, _PTR, _PTR, *[_LONG] * 5, _PTR, _PTR, _PTR, _INT],
    ),
    "lmc_attention": (_INT, [*[_PTR] * 7, *[_LONG] * 7, _PTR, _INT]),
    "lmc_argmax": (None, [_PTR, _PTR, _LONG, _LONG, _LONG, _PTR]),
    "lmc_log_sum_exp": (None, [_PTR, _PTR, _LONG, _PTR, _LONG, _LONG, _PTR]),
    "lmc_log_softmax": (None, [_PTR, _PTR, _LONG, _PTR, _LONG, _LONG, _PTR]),
    "lmc_read_sum": (c_uint64, [_PTR, _LONG]),
}


class KernelLibrary:
    """Entry points of the library, in two forms.

    A call through `free` lets other Python threads run meanwhile; a call through `held` keeps
    the interpreter lock. Short calls hold it: giving it up a few hundred times per token would
    let any busy thread take it for whole switch intervals (5 ms).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.free = ctypes.CDLL(str(path))
        self.held = ctypes.PyDLL(str(path))
        for library in (self.free, self.held):
            for name, (result, arguments) in _SIGNATURES.items():
                function = getattr(library, name)
                function.restype = result
                function.argtypes = arguments
