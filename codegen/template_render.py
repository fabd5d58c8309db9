"""Renders Jinja chat templates in a sandbox, as the reference library does.

Templates come with model files, so they are foreign code: they run in Jinja's immutable
sandbox, get plain data only, and may write a bounded amount of text.
"""

import os
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from lmc.errors import LowerError

if TYPE_CHECKING:
    from jinja2 import Template

MAX_SOURCE = 1 << 18
"""Characters of a template's source."""
MAX_OUTPUT = 1 << 16
"""Characters that a rendering of probe contents may have."""


class TemplateRefusal(Exception):
    """The template itself refuses a conversation (it calls `raise_exception`, or fails)."""


class TemplateRenderer:
    """One compiled template with the names that it may use."""

    def __init__(self, source: str, variables: Mapping[str, str]) -> None:
        if len(source) > MAX_SOURCE:
            raise LowerError(
                f"the chat template has {len(source)} characters; at most {MAX_SOURCE} are read",
                hint="choose a model with a smaller chat template",
            )
        self._source = source
        self._variables = dict(variables)
        self.used_date = False

    def render(
        self, roles: Sequence[str], contents: Sequence[str], *, is_open: bool = False
    ) -> str:
        """Render a conversation; `is_open` adds the generation prompt.

        Raises:
            TemplateRefusal: the template refuses the conversation or fails on it.
            LowerError: the template does not compile, or writes without end.
        """
        messages = [
            {"role": role, "content": content}
            for role, content in zip(roles, contents, strict=True)
        ]
        template = self._template
        parts: list[str] = []
        size = 0
        try:
            for part in template.generate(
                messages=messages, add_generation_prompt=is_open, **self._variables
            ):
                parts.append(part)
                size += len(part)
                if size > MAX_OUTPUT:
                    break
        except TemplateRefusal:
            raise
        except Exception as error:  # whatever foreign code raises means: not renderable
            raise TemplateRefusal(f"{type(error).__name__}: {error}") from error
        if size > MAX_OUTPUT:
            raise LowerError(
                f"the chat template wrote more than {MAX_OUTPUT} characters for "
                f"{len(messages)} short turns",
                hint="the template is damaged; choose another model",
            )
        return "".join(parts)

    @cached_property
    def _template(self) -> "Template":
        from jinja2 import TemplateSyntaxError, nodes
        from jinja2.ext import Extension, loopcontrols
        from jinja2.parser import Parser
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        class GenerationTag(Extension):
            """`{% generation %}`: marks what a model writes; here it is just its body."""

            tags = {"generation"}  # noqa: RUF012 (Jinja's own form)

            def parse(self, parser: Parser) -> list[nodes.Node]:
                """Return the body."""
                next(parser.stream)
                return parser.parse_statements(("name:endgeneration",), drop_needle=True)

        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, GenerationTag]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = self._strftime_now
        try:
            return environment.from_string(self._source)
        except TemplateSyntaxError as error:
            raise LowerError(
                f"the chat template does not compile: {error.message} (line {error.lineno})",
                hint="choose a model with a valid chat template",
            ) from error

    def _strftime_now(self, layout: str) -> str:
        """Return today's date in a layout; $SOURCE_DATE_EPOCH fixes the day (in UTC)."""
        self.used_date = True
        fixed = os.environ.get("SOURCE_DATE_EPOCH")
        moment = time.gmtime(int(fixed)) if fixed else time.localtime()
        return time.strftime(layout, moment)


def _raise_exception(message: str) -> NoReturn:
    raise TemplateRefusal(message)


def _to_json(value: Any, indent: int | None = None) -> str:
    """Write JSON for a template: plain text, nothing escaped for HTML."""
    import json

    return json.dumps(value, ensure_ascii=False, indent=indent)
