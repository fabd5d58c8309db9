"""The kinds of control flow and of calls in a random program's text, for counting shares."""

import ast
from collections.abc import Callable, Iterator

ROLES = ("system", "user", "assistant")
HELPERS = {"helper": "helper with a state", "inner": "nested program", "digits": "recursion"}
"""Functions of `program_head` and `program_generator` by name, and what calling them is."""

PURE, EFFECTFUL = ("shout",), ("note", "ask", "facts")

LOOPS = (ast.For, ast.While)
NODES: dict[type[ast.AST], str] = {
    ast.If: "if", ast.While: "while", ast.Break: "break", ast.Continue: "continue",
    ast.Match: "match", ast.BoolOp: "short circuit", ast.IfExp: "conditional expression",
    ast.ListComp: "list comprehension", ast.SetComp: "set comprehension",
    ast.DictComp: "dict comprehension", ast.GeneratorExp: "generator", ast.Assert: "assert",
    ast.Raise: "raise", ast.Try: "try", ast.ExceptHandler: "handler",
    ast.JoinedStr: "f-string", ast.Starred: "starred item",
    ast.Slice: "slice", ast.Delete: "del",
}  # fmt: skip
METHODS = {
    "copy": "copy", "var_scope": "var_scope", "text": "text", "messages": "messages",
    "get_meta_info": "meta", "fork": "fork", "set_var": "set",
}  # fmt: skip

FEATURES = (
    *NODES.values(), *dict.fromkeys(METHODS.values()), *HELPERS.values(),
    "elif", "else", "for over a range", "for over a list", "for over forks", "for-else",
    "while-else", "exit from a nested loop", "early return", "chained comparison", "unpacking",
    "guard of a case", "helper that returns a state", "list of states", "dict of states",
    "lambda over forks", "one text per fork", "fork of computed width",
    "role as a value", "role as a method", "role as a block", "role by its borders",
    "join of variables", "join of texts", "select", "choices of gen", "gen of several",
    "typed gen", "gen of a computed name", "computed parameter", "control token",
    "pure host call", "host call with effects", "method of a host value",
    "get", "has", "computed name of a variable",
)  # fmt: skip
"""What at least one of twenty random programs must have, each."""


def features(tree: ast.AST) -> set[str]:
    """Return the features of a program's text that `FEATURES` lists."""
    found = {name for node in ast.walk(tree) for name in _of_node(node)}
    return found | set(_early_returns(tree))


def _of_node(node: ast.AST) -> Iterator[str]:
    if type(node) in NODES:
        yield NODES[type(node)]
    for kind, look in LOOKS.items():
        if isinstance(node, kind):
            yield from look(node)


def _if(node: ast.If) -> Iterator[str]:
    if node.orelse:
        is_elif = len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)
        yield "elif" if is_elif else "else"


def _for(node: ast.For) -> Iterator[str]:
    yield from _loop(node)
    yield f"for over {_items(node.iter)}"


def _items(node: ast.expr) -> str:
    """Return what a loop goes over; names of `program_statements` tell groups of forks."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id == "range":
            return "a range"
        return _items(node.args[0]) if node.args else "a list"
    is_group = isinstance(node, ast.Name) and node.id[0] == "g" and node.id[1:].isdigit()
    return "forks" if is_group else "a list"


def _loop(node: ast.For | ast.While) -> Iterator[str]:
    if node.orelse:
        yield "for-else" if isinstance(node, ast.For) else "while-else"
    inner = [loop for stmt in node.body for loop in ast.walk(stmt) if isinstance(loop, LOOPS)]
    if any(
        isinstance(each, (ast.Break, ast.Continue)) for loop in inner for each in ast.walk(loop)
    ):
        yield "exit from a nested loop"


def _early_returns(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            nested = [inner for stmt in node.body if not isinstance(stmt, ast.Return)
                      for inner in ast.walk(stmt)]  # fmt: skip
            if any(isinstance(inner, ast.Return) for inner in nested):
                yield "early return"


def _compare(node: ast.Compare) -> Iterator[str]:
    if len(node.ops) > 1:
        yield "chained comparison"
    is_state = isinstance(node.comparators[0], ast.Name) and _is_state(node.comparators[0].id)
    if is_state and isinstance(node.ops[0], (ast.In, ast.NotIn)):
        yield "has"


def _is_state(name: str) -> bool:
    return name in ("s", "st", "q") or (name[0] == "q" and name[1:].isdigit())


def _subscript(node: ast.Subscript) -> Iterator[str]:
    if isinstance(node.value, ast.Name) and _is_state(node.value.id):
        yield "get" if isinstance(node.ctx, ast.Load) else "set"
        if not isinstance(node.slice, ast.Constant):
            yield "computed name of a variable"


def _assign(node: ast.Assign) -> Iterator[str]:
    if isinstance(node.targets[0], (ast.Tuple, ast.List)):
        yield "unpacking"
    is_kept = isinstance(node.targets[0], ast.Subscript) and not isinstance(
        node.targets[0].slice, ast.Constant
    )
    if isinstance(node.value, ast.Call) and is_kept and _method(node.value) == "copy":
        yield "dict of states"
    if isinstance(node.value, ast.ListComp) and isinstance(node.value.elt, ast.Call):
        if _method(node.value.elt) == "copy":
            yield "list of states"
    if isinstance(node.value, ast.Call) and _called(node.value) == "extended":
        yield "helper that returns a state"


def _change(node: ast.AugAssign) -> Iterator[str]:
    if isinstance(node.value, ast.Lambda):
        yield "lambda over forks"
    is_group = isinstance(node.target, ast.Name) and node.target.id[0] == "g"
    if isinstance(node.value, ast.List) and is_group:
        yield "one text per fork"


def _case(node: ast.match_case) -> Iterator[str]:
    if node.guard is not None:
        yield "guard of a case"


def _with(node: ast.With) -> Iterator[str]:
    call = node.items[0].context_expr
    if isinstance(call, ast.Call) and _method(call) in ROLES:
        yield "role as a block"


def _method(call: ast.Call) -> str:
    """Return the name of the method that is called on what is not the package, or ''."""
    is_method = isinstance(call.func, ast.Attribute) and _owner(call) != "lmc"
    return call.func.attr if is_method and isinstance(call.func, ast.Attribute) else ""


def _called(call: ast.Call) -> str:
    """Return the name of the function that is called, 'lmc.name' for the package's."""
    if isinstance(call.func, ast.Name):
        return call.func.id
    is_ours = isinstance(call.func, ast.Attribute) and _owner(call) == "lmc"
    return f"lmc.{call.func.attr}" if is_ours and isinstance(call.func, ast.Attribute) else ""


def _owner(call: ast.Call) -> str:
    held = call.func.value if isinstance(call.func, ast.Attribute) else None
    return held.id if isinstance(held, ast.Name) else ""


def _call(node: ast.Call) -> Iterator[str]:
    name, method = _called(node), _method(node)
    yield from (each for each in (HELPERS.get(name), METHODS.get(method)) if each)
    if name in PURE:
        yield "pure host call"
    if name in EFFECTFUL:
        yield "host call with effects"
    held = node.func.value if isinstance(node.func, ast.Attribute) else None
    if isinstance(held, ast.Call) and _called(held) in EFFECTFUL:
        yield "method of a host value"
    if method == "fork" and not isinstance(node.args[0], ast.Constant):
        yield "fork of computed width"
    if method == "join":
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        is_text = any(
            isinstance(a, ast.Constant) and a.value == "concate_and_append" for a in given
        )
        if is_text or isinstance(held, ast.Name):
            yield "join of texts" if is_text else "join of variables"
    yield from _role(name, method)
    yield from _model_call(node, name)


def _role(name: str, method: str) -> Iterator[str]:
    if name.removeprefix("lmc.") in ROLES:
        yield "role as a value"
    if method in ROLES:
        yield "role as a method"
    if name.endswith("_begin") or method.endswith("_begin"):
        yield "role by its borders"
    if name == "lmc.control":
        yield "control token"


def _model_call(node: ast.Call, name: str) -> Iterator[str]:
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    if name == "lmc.select":
        yield "select"
    if name.startswith("lmc.gen_") or (name == "lmc.gen" and "type" in given):
        yield "typed gen"
    if name != "lmc.gen":
        return
    if "choices" in given:
        yield "choices of gen"
    if "n" in given:
        yield "gen of several"
    if node.args and isinstance(node.args[0], ast.JoinedStr):
        yield "gen of a computed name"
    if any(not isinstance(value, (ast.Constant, ast.List, ast.Dict)) for value in given.values()):
        yield "computed parameter"


LOOKS: dict[type[ast.AST], Callable[..., Iterator[str]]] = {
    ast.If: _if, ast.For: _for, ast.While: _loop, ast.Compare: _compare, ast.Assign: _assign,
    ast.Subscript: _subscript, ast.AugAssign: _change, ast.With: _with, ast.Call: _call,
    ast.match_case: _case,
}  # fmt: skip
