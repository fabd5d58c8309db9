"""Names of an oracle's script that a program does not have: told where one is nearly right."""

import warnings
import weakref
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, cast

from lmc.errors import ScriptWarning
from lmc.ir.core import Module


def warn_of_script(backend: Any, module: Module, name: str, level: int) -> None:
    """Warn of names that look like a mistake; once per oracle and name.

    One oracle may answer several programs, so a name that is unlike all of this program's is
    not told. Nothing is told where the program computes names.

    Args:
        backend: what runs the program; only oracles that are scripted by name are looked at.
        module: the program as captured.
        name: what to call the program.
        level: how many frames above the caller the user's code is.
    """
    script: Any = getattr(backend, "script", None)
    known = call_names(module)
    if not isinstance(script, Mapping) or known is None:
        return
    answers = cast("Mapping[str, Any]", script)
    told: set[str] = backend.__dict__.setdefault("_told_names", set())
    unanswered = [each for each in known if each not in answers]
    for each in answers:
        close = [] if each in known or each in told else get_close_matches(each, unanswered, n=1)
        if close:
            told.add(each)
            warnings.warn(
                f"the oracle's script answers '{each}', but no call of program '{name}' has "
                f"that name; did you mean '{close[0]}'?",
                ScriptWarning,
                stacklevel=level + 1,
            )


def is_new(backend: Any, program: Any) -> bool:
    """Whether a backend runs a program for the first time."""
    seen: Any = backend.__dict__.setdefault("_seen_programs", weakref.WeakSet())
    if program in seen:
        return False
    seen.add(program)
    return True


def call_names(module: Module) -> list[str] | None:
    """Return the names of a module's calls of the model; None where some are computed."""
    found: dict[str, None] = {}
    for op in module.walk():
        if op.name not in ("lm.gen", "lm.select"):
            continue
        dynamic: Any = op.attributes["dynamic"]
        if "name" in dynamic:
            return None
        found.setdefault(str(op.attributes.get("name", op.name)))
    return list(found)
