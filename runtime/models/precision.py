"""How precisely weights are kept and activations multiplied with them."""

from dataclasses import dataclass
from typing import Literal, get_args

from lmc.errors import UsageError

Weights = Literal["full", "stored", "int8", "int4"]
"""`full`: in the model's dtype. `stored`: quantized where the file has them so and the kernels
have that kind, else full. `int8` and `int4`: quantized when they are loaded."""

Activations = Literal["full", "int8"]
"""`full`: in the model's dtype. `int8`: rounded before they meet a quantized weight."""


@dataclass(frozen=True, slots=True)
class Precision:
    """What is kept of weights and activations.

    Raises:
        UsageError: an unknown name, or int8 activations for weights that are not quantized.
    """

    weights: Weights = "full"
    activations: Activations = "full"

    def __post_init__(self) -> None:
        for what, value, known in (
            ("weights", self.weights, get_args(Weights)),
            ("activations", self.activations, get_args(Activations)),
        ):
            if value not in known:
                raise UsageError(f"unknown {what} {value!r}", hint=f"one of {', '.join(known)}")
        if self.activations == "int8" and self.weights == "full":
            raise UsageError(
                "activations in int8 meet quantized weights only",
                hint='give weights="stored", "int8" or "int4" too',
            )

    def __str__(self) -> str:
        return f"weights {self.weights}, activations {self.activations}"
