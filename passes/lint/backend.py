"""Rules on what the model that the program is checked for lacks."""

from collections.abc import Iterator

from lmc.errors import LmcError
from lmc.ir.core import Op
from lmc.ir.decode_params import bias_by_id
from lmc.passes.lint.context import Context
from lmc.passes.lint.finding import UNSUPPORTED, Finding, argument, found


def roles_without_template(context: Context) -> Iterator[Finding]:
    """Find turns where the model has no chat template, or one that lacks the role."""
    for op in context.calls("lm.begin", "lm.end"):
        role = str(op.attributes["role"])
        why = _template_lacks(role, op, context)
        if why is not None:
            yield found(
                UNSUPPORTED, op.location, f"a turn of '{role}' cannot be written: {why}",
                "choose a model with a chat template, or write the turn as plain text",
            )  # fmt: skip
            if op.name == "lm.begin":
                return


def _template_lacks(role: str, op: Op, context: Context) -> str | None:
    template = context.target.template
    if template is None:
        return f"{context.target.name} has no chat template"
    try:
        if op.name == "lm.begin":
            template.begin(role, is_first=True)
        else:
            template.end(role)
    except LmcError as error:
        return error.message
    return None


def unknown_controls(context: Context) -> Iterator[Finding]:
    """Find control tokens that the tokenizer does not have."""
    for op in context.calls("lm.control"):
        token = str(op.attributes["token"])
        if context.target.tokenizer.control_id(token) is None:
            yield found(
                UNSUPPORTED, op.location,
                f"{context.target.name} has no control token {token!r}",
                "use one that its tokenizer has, or a role", focus=argument("token"),
            )  # fmt: skip


def wrong_token_ids(context: Context) -> Iterator[Finding]:
    """Find token ids and texts of biases that the vocabulary does not have."""
    tokenizer = context.target.tokenizer
    for op in context.calls("lm.gen"):
        params = context.params(op)
        ids = params.get("stop_token_ids")
        beyond = (
            [i for i in ids if isinstance(i, int) and i >= tokenizer.vocab_size]
            if isinstance(ids, (list, tuple))
            else []
        )
        if beyond:
            yield found(
                UNSUPPORTED, op.location,
                f"{context.target.name} has no token {beyond[0]}; ids end at "
                f"{tokenizer.vocab_size - 1}",
                "give ids of this model's vocabulary", focus=argument("stop_token_ids"),
            )  # fmt: skip
        bias = params.get("logit_bias")
        if isinstance(bias, list):
            try:
                bias_by_id(bias, tokenizer)  # type: ignore[arg-type]
            except LmcError as error:
                yield found(
                    UNSUPPORTED, op.location, error.message,
                    error.hint or "give keys that are single tokens of this model",
                    focus=argument("logit_bias"),
                )  # fmt: skip


def media(context: Context) -> Iterator[Finding]:
    """Find images and films where the model reads text only."""
    if getattr(context.target, "sees", False):
        return
    for op in context.calls("lm.image"):
        what = "a video" if op.attributes["kind"] == "video" else "an image"
        yield found(
            UNSUPPORTED, op.location,
            f"{context.target.name} reads text only, and this appends {what}",
            "choose a model that sees, or describe it in words",
        )  # fmt: skip


RULES = (roles_without_template, unknown_controls, wrong_token_ids, media)
