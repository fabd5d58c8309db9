"""What models think aloud before they answer, and how it is told from the answer."""

from typing import NamedTuple


class Marks(NamedTuple):
    """What bounds the reasoning in a text.

    Attributes:
        opening: begins it; a model may write it several times, or not at all.
        closing: ends it.
        is_assumed: a text is reasoning from its start, whether it is opened or not.
        interruption: ends it where it is never closed, and belongs to what follows.
    """

    opening: str
    closing: str
    is_assumed: bool
    interruption: str = ""


_PLAIN = Marks("<think>", "</think>", is_assumed=True)
_OPENED = Marks("<think>", "</think>", is_assumed=False)
_TOOLS = Marks("<think>", "</think>", is_assumed=False, interruption="<tool_call>")
_THINKING = _TOOLS._replace(is_assumed=True)

REASONING: dict[str, Marks] = {
    "deepseek-r1": _PLAIN,
    "deepseek-v3": _TOOLS,
    "deepseek-v4": _OPENED,
    "deepseek-v41": _OPENED,
    "dots": _TOOLS,
    "gigachat35": _PLAIN,
    "glm45": _TOOLS,
    "interns1": _TOOLS,
    "iquest_q1": _PLAIN,
    "k2_horizon": Marks("<ifm|think>", "</ifm|think>", True, "<ifm|tool_call"),
    "kimi": Marks("◁think▷", "◁/think▷", is_assumed=False),
    "kimi_k2": _OPENED._replace(interruption="<|tool_calls_section_begin|>"),
    "mimo": _TOOLS,
    "minimax": _THINKING,
    "mistral": Marks("[THINK]", "[/THINK]", is_assumed=False),
    "nanbeige": _TOOLS,
    "nemotron_3": _TOOLS,
    "poolside_v1": _TOOLS,
    "qwen3": _TOOLS,
    "qwen3-thinking": _THINKING,
    "step3": _PLAIN,
    "step3p5": _PLAIN,
}
"""The marks of kinds of models, by the reference frontend's names."""

REASONING_NAME = "_reasoning_content"
"""Added to a variable's name for what `separate_reasoning` takes away from it."""


SPLIT_REASONING = "lmc.ir.reasoning.split_reasoning"
"""What programs call the function below."""


def split_reasoning(text: str, model_type: str) -> tuple[str, str]:
    """Return the reasoning in a generated text, and what follows it, as they were written."""
    opening, closing, is_assumed, interruption = REASONING[model_type]
    if not is_assumed and opening not in text:
        return "", text
    while text.startswith(opening):
        text = text[len(opening) :]
    if closing in text:
        reasoning, _, answer = text.partition(closing)
        return reasoning, answer
    end = text.find(interruption) if interruption else -1
    return (text, "") if end < 0 else (text[:end], text[end:])
