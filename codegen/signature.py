"""Python signatures of compiled programs, made of data: nothing is evaluated as code."""

import ast
import builtins
import inspect
import typing
from typing import Any

from lmc.codegen.plan import PlanFunction, PlanParam
from lmc.ir.core import copy_attr

_TYPING = ("Any", "Callable", "Iterable", "Literal", "Mapping", "Optional", "Sequence", "Union")
_PLAIN = ("str", "int", "float", "bool", "bytes", "list", "dict", "tuple", "set", "frozenset",
          "object", "type")  # fmt: skip


def signature_of(function: PlanFunction) -> inspect.Signature:
    """Return the signature of a program, without its state.

    Annotations made of builtin and typing names become the objects that they name; others
    stay text.
    """
    return inspect.Signature([_parameter(param) for param in function.params])


def _parameter(param: PlanParam) -> inspect.Parameter:
    kinds = inspect.Parameter
    return inspect.Parameter(
        param.name,
        kinds.KEYWORD_ONLY if param.keyword_only else kinds.POSITIONAL_OR_KEYWORD,
        default=copy_attr(param.default) if param.has_default else kinds.empty,
        annotation=annotation_of(param.annotation) if param.annotation else kinds.empty,
    )


def annotation_of(text: str) -> Any:
    """Return the type that an annotation names, or its text where it names another."""
    try:
        return _type(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError):
        return text


def _type(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=None):
            return None
        case ast.Constant(value=str() as text):
            return annotation_of(text)
        case ast.Name(id=name) if name in _PLAIN:
            return getattr(builtins, name)
        case ast.Name(id=name) if name in _TYPING:
            return getattr(typing, name)
        case ast.Attribute(value=ast.Name(id="typing" | "t"), attr=name) if name in _TYPING:
            return getattr(typing, name)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _type(left) | _type(right)
        case ast.Subscript(value=value, slice=inner):
            made = _type(value)
            if isinstance(made, str):
                raise ValueError("only types take parameters")
            return made[_argument(inner, is_literal=made is typing.Literal)]
    raise ValueError("not a name of builtin or typing")


def _argument(node: ast.expr, *, is_literal: bool) -> Any:
    if isinstance(node, ast.Tuple):
        return tuple(_argument(item, is_literal=is_literal) for item in node.elts)
    if is_literal:
        return ast.literal_eval(node)
    if isinstance(node, ast.Constant) and node.value is Ellipsis:
        return Ellipsis
    if isinstance(node, ast.List):
        return [_type(item) for item in node.elts]
    return _type(node)
