"""Ways to compare choices under the reference frontend's module name `lang.choices`."""

from lmc.frontend.dsl import (
    greedy_token_selection,
    token_length_normalized,
    unconditional_likelihood_normalized,
)

__all__ = [
    "greedy_token_selection",
    "token_length_normalized",
    "unconditional_likelihood_normalized",
]
