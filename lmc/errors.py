"""Errors of lmc: one tree, named by phase, each with a place and a remedy.

Every error that a user can cause derives from LmcError. The command line prints
`str(error)` and exits with `error.exit_code`; an error that is not an LmcError is our
own bug and keeps its traceback.
"""

from typing import Protocol


class HasRender(Protocol):
    """A source location that can draw itself (lmc.ir.location.Location)."""

    def render(self) -> str:
        """Return `file:line:column`, the source line and carets below it."""
        ...


class LmcError(Exception):
    """A failure that names its place and its remedy.

    Args:
        message: what went wrong, with the values concerned.
        hint: what the user can do about it.
        location: where in the user's source it happened.

    `raised` is the exception of Python's own, or of the user's, that the error tells of.
    """

    exit_code = 1
    raised: Exception | None = None

    def __init__(
        self, message: str, *, hint: str | None = None, location: HasRender | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.location = location

    def __str__(self) -> str:
        parts = [self.message]
        if self.location is not None:
            parts.append(self.location.render())
        if self.hint:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)


class UsageError(LmcError):
    """Wrong use: unknown argument, file without a program, bad option value."""

    exit_code = 2


class ModelError(UsageError):
    """A model that is missing, damaged or of an unsupported kind."""


class CompileError(LmcError):
    """A program that could not be compiled; base of the compiler's phases."""

    exit_code = 3


class CaptureError(CompileError):
    """Source that capture cannot turn into IR (a graph break) or that does not parse."""


class ParseError(CompileError):
    """IR text that does not parse."""


class VerifyError(CompileError):
    """IR that breaks an invariant."""


class PassError(CompileError):
    """A pass failed, or left IR that does not verify."""


class LowerError(CompileError):
    """IR that cannot be lowered for the chosen target."""


class ConstraintError(CompileError):
    """A regex, schema or grammar that is wrong, unsupported or too costly.

    `pointer` is the JSON pointer of the place in a schema ("" for all of it), None where there
    is no schema. `position` is the place in a regex, as the number of characters before it (0
    for all of it), or in a grammar, as (line, column) from 1; None where there is none.
    """

    pointer: str | None = None
    position: int | tuple[int, int] | None = None

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        location: HasRender | None = None,
        position: int | tuple[int, int] | None = None,
    ) -> None:
        super().__init__(message, hint=hint, location=location)
        self.position = position

    def again(self) -> "ConstraintError":
        """Return the same refusal anew: one that is kept would gather a traceback per raise."""
        fresh = ConstraintError(self.message, hint=self.hint, position=self.position)
        fresh.pointer = self.pointer
        return fresh


class ArtifactError(CompileError):
    """An artifact that is damaged, foreign or does not fit the model."""


class RunError(LmcError):
    """The program failed while running; carries the op's line and the prompt's tail."""


class VariableError(RunError, KeyError):
    """A variable that no call and no assignment has set."""


class IncompleteError(RunError, ValueError):
    """A typed generation that was cut before its value was complete, or is no such value."""


class AppendError(RunError, TypeError):
    """Something that cannot be appended to a prompt."""


class WordError(RunError, UsageError):
    """A word of the language used wrongly, where Python itself meets it: in eager mode.

    A program's `except RunError` catches it there as in compiled mode.
    """


class EngineError(LmcError):
    """The engine could not serve a request (too long for the pool, cancelled, ...)."""


class TokenRefused(EngineError):
    """A token that a constraint does not allow; the matcher is as it was."""


class Cancelled(EngineError):
    """The request or run was cancelled."""


class GraphBreakWarning(UserWarning):
    """A program that capture cannot read runs uncompiled, in eager mode."""


class PoolWarning(UserWarning):
    """A run may need more tokens of KV than the engine's pool holds, and so be slow."""


class PrefixKvWarning(UserWarning):
    """The prefix KV of an artifact does not fit what runs it, so it is computed."""


class ScriptWarning(UserWarning):
    """An oracle's script answers a name that the program does not have, but nearly has."""
