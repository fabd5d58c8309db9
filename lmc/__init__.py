"""lmc: compile language-model programs and run them on lmc's own engine.

    import lmc

    @lmc.function
    def greet(s, name: str):
        s += "Say hello to " + name + ": " + lmc.gen("hello", max_tokens=16, stop="\\n")

    print(greet.run(name="Ada")["hello"])

Names are loaded on first use, so that importing lmc stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lmc.backends import default_backend, open_backend, set_default_backend
    from lmc.check_program import CheckReport
    from lmc.check_program import check_program as check
    from lmc.compiled import CompiledProgram, load
    from lmc.compiler import compile_program as compile
    from lmc.frontend.dsl import (
        assistant,
        assistant_begin,
        assistant_end,
        control,
        gen,
        gen_int,
        select,
        system,
        system_begin,
        system_end,
        tool,
        user,
        user_begin,
        user_end,
    )
    from lmc.program import Program, function
    from lmc.runtime.oracle import Oracle

__version__ = "0.1.0"
__all__ = [
    "CheckReport",
    "CompiledProgram",
    "Oracle",
    "Program",
    "__version__",
    "assistant",
    "assistant_begin",
    "assistant_end",
    "check",
    "compile",
    "control",
    "default_backend",
    "function",
    "gen",
    "gen_int",
    "load",
    "open_backend",
    "select",
    "set_default_backend",
    "system",
    "system_begin",
    "system_end",
    "tool",
    "user",
    "user_begin",
    "user_end",
]

_HOMES = {
    "CheckReport": "lmc.check_program",
    "CompiledProgram": "lmc.compiled",
    "Oracle": "lmc.runtime.oracle",
    "Program": "lmc.program",
    "default_backend": "lmc.backends",
    "function": "lmc.program",
    "load": "lmc.compiled",
    "open_backend": "lmc.backends",
    "set_default_backend": "lmc.backends",
}


def __getattr__(name: str) -> Any:
    if name == "compile":
        return import_module("lmc.compiler").compile_program
    if name == "check":
        return import_module("lmc.check_program").check_program
    if name not in __all__:
        raise AttributeError(f"module 'lmc' has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "lmc.frontend.dsl")), name)
