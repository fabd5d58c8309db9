"""Short ways to write a program of IR text."""

from lmc.ir import Module, parse_module, verify

END = "func.return %effect, %s, %s_v"


def program(body: str, *, params: str = "", more: str = "", table: str = "") -> Module:
    """Return a module whose program `p` has this body and these parameters."""
    names = params.split()
    arguments = "".join(f", %{name}: py" for name in names)
    listed = ", ".join(f'{{name = "{name}"}}' for name in names)
    text = (
        f'module "m" {{}} {{\n entry @p\n func @p program (%effect: effect{arguments}) '
        f"{{params = [{listed}]}} {{\n{body}\n}}\n{more}\n}}\n{table}"
    )
    module = parse_module(text)
    verify(module)
    return module


def gen(out: str, state: str, name: str = "x", params: str = "", kind: str = "text") -> str:
    """Return the text of a generation; its state, value and meta are %out, %out_v, %out_m."""
    return (
        f"%{out}: state, %{out}_v: {kind}, %{out}_m: meta = lm.gen %{state} "
        f'{{name = "{name}", params = {{{params}}}, dynamic = []}}'
    )


def text(out: str, value: str) -> str:
    """Return the text of a constant."""
    return f'%{out}: text = val.const {{value = "{value}"}}'
