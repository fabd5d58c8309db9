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

from lmc.version import __version__

if TYPE_CHECKING:
    from lmc.backends import default_backend, open_backend, set_default_backend
    from lmc.checking.program import CheckReport
    from lmc.checking.program import check_program as check
    from lmc.compat import (
        REGEX_BOOL,
        REGEX_FLOAT,
        REGEX_INT,
        REGEX_STR,
        Anthropic,
        Crusoe,
        Engine,
        LiteLLM,
        OpenAI,
        Runtime,
        RuntimeEndpoint,
        ServerArgs,
        VertexAI,
        flush_cache,
        get_server_info,
        global_config,
    )
    from lmc.compiled import CompiledProgram, load
    from lmc.compiler import compile_program as compile
    from lmc.constraints import CompiledConstraint, Constraint, ConstraintMatcher
    from lmc.errors import ConstraintError
    from lmc.frontend.dsl import (
        Image,
        assistant,
        assistant_begin,
        assistant_end,
        control,
        gen,
        gen_int,
        gen_string,
        greedy_token_selection,
        image,
        select,
        separate_reasoning,
        system,
        system_begin,
        system_end,
        token_length_normalized,
        tool,
        total_likelihood,
        unconditional_likelihood_normalized,
        unordered,
        user,
        user_begin,
        user_end,
        video,
    )
    from lmc.frontend.typed import Appendable, Forks, State
    from lmc.ir.expressions import Expression, Gen, Select
    from lmc.ir.profile import Profile
    from lmc.ir.profile_file import read_profile
    from lmc.linting.program import Diagnostic
    from lmc.linting.program import lint_program as lint
    from lmc.program import Program, function
    from lmc.runtime.executor.handle import RunHandle
    from lmc.runtime.oracle import Oracle
    from lmc.runtime.result import RunResult
    from lmc.runtime.tracing import Trace as trace

__all__ = [
    "REGEX_BOOL",
    "REGEX_FLOAT",
    "REGEX_INT",
    "REGEX_STR",
    "Anthropic",
    "Appendable",
    "CheckReport",
    "CompiledConstraint",
    "CompiledProgram",
    "Constraint",
    "ConstraintError",
    "ConstraintMatcher",
    "Crusoe",
    "Diagnostic",
    "Engine",
    "Expression",
    "Forks",
    "Gen",
    "Image",
    "LiteLLM",
    "OpenAI",
    "Oracle",
    "Profile",
    "Program",
    "RunHandle",
    "RunResult",
    "Runtime",
    "RuntimeEndpoint",
    "Select",
    "ServerArgs",
    "State",
    "VertexAI",
    "__version__",
    "assistant",
    "assistant_begin",
    "assistant_end",
    "check",
    "compile",
    "control",
    "default_backend",
    "flush_cache",
    "function",
    "gen",
    "gen_int",
    "gen_string",
    "get_server_info",
    "global_config",
    "greedy_token_selection",
    "image",
    "lint",
    "load",
    "open_backend",
    "read_profile",
    "select",
    "separate_reasoning",
    "set_default_backend",
    "system",
    "system_begin",
    "system_end",
    "token_length_normalized",
    "tool",
    "total_likelihood",
    "trace",
    "unconditional_likelihood_normalized",
    "unordered",
    "user",
    "user_begin",
    "user_end",
    "video",
]

_HOMES = {
    "REGEX_BOOL": "lmc.compat",
    "REGEX_FLOAT": "lmc.compat",
    "REGEX_INT": "lmc.compat",
    "REGEX_STR": "lmc.compat",
    "Anthropic": "lmc.compat",
    "Crusoe": "lmc.compat",
    "Engine": "lmc.compat",
    "LiteLLM": "lmc.compat",
    "OpenAI": "lmc.compat",
    "Runtime": "lmc.compat",
    "RuntimeEndpoint": "lmc.compat",
    "ServerArgs": "lmc.compat",
    "VertexAI": "lmc.compat",
    "flush_cache": "lmc.compat",
    "get_server_info": "lmc.compat",
    "global_config": "lmc.compat",
    "CheckReport": "lmc.checking.program",
    "Appendable": "lmc.frontend.typed",
    "Forks": "lmc.frontend.typed",
    "State": "lmc.frontend.typed",
    "Expression": "lmc.ir.expressions",
    "Gen": "lmc.ir.expressions",
    "Select": "lmc.ir.expressions",
    "CompiledConstraint": "lmc.constraints",
    "CompiledProgram": "lmc.compiled",
    "Constraint": "lmc.constraints",
    "ConstraintError": "lmc.errors",
    "ConstraintMatcher": "lmc.constraints",
    "Diagnostic": "lmc.linting.program",
    "Oracle": "lmc.runtime.oracle",
    "Profile": "lmc.ir.profile",
    "read_profile": "lmc.ir.profile_file",
    "RunHandle": "lmc.runtime.executor.handle",
    "RunResult": "lmc.runtime.result",
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
    if name == "trace":
        return import_module("lmc.runtime.tracing").Trace
    if name == "check":
        return import_module("lmc.checking.program").check_program
    if name in ("api", "lang", "test", "utils"):
        return import_module(f"lmc.{name}")  # modules of the reference frontend
    if name == "lint":
        return import_module("lmc.linting.program").lint_program
    if name not in __all__:
        raise AttributeError(f"module 'lmc' has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "lmc.frontend.dsl")), name)
