"""Types of the results of pure ops, where they are known without running them."""

from lmc.ir.types import BOOL, DICT, FLOAT, INT, PY, TEXT, Type, list_of

_TEXT_METHODS = {
    **dict.fromkeys(
        ("strip", "lstrip", "rstrip", "lower", "upper", "title", "capitalize", "casefold",
         "replace", "join", "format", "removeprefix", "removesuffix", "zfill", "center",
         "ljust", "rjust", "swapcase", "expandtabs", "translate", "format_map"), TEXT),
    **dict.fromkeys(
        ("startswith", "endswith", "isdigit", "isalpha", "isalnum", "isspace", "islower",
         "isupper", "isnumeric", "isdecimal", "isidentifier", "istitle", "isascii",
         "isprintable"), BOOL),
    **dict.fromkeys(("find", "rfind", "index", "rindex", "count"), INT),
    **dict.fromkeys(("split", "rsplit", "splitlines"), list_of(TEXT)),
}  # fmt: skip

_CALLS = {
    "len": INT, "str": TEXT, "int": INT, "float": FLOAT, "bool": BOOL, "repr": TEXT,
    "ord": INT, "chr": TEXT, "any": BOOL, "all": BOOL, "isinstance": BOOL, "dict": DICT,
    "range": list_of(INT), "json.dumps": TEXT, "re.sub": TEXT, "re.escape": TEXT,
    "math.floor": INT, "math.ceil": INT, "math.sqrt": FLOAT, "math.log": FLOAT,
    "math.exp": FLOAT, "math.isclose": BOOL, "string.capwords": TEXT,
    "list": list_of(PY), "enumerate": list_of(PY), "zip": list_of(PY),
    "re.split": list_of(PY),
}  # fmt: skip

_SAME_ITEMS = ("sorted", "list", "reversed")

FRESH_CALLS = frozenset({
    "json.loads", "json.dumps", "re.search", "re.match", "re.fullmatch", "re.findall", "re.split",
    "len", "range", "repr", "round", "sum",
})  # fmt: skip
"""Functions whose result holds nothing of what they were given."""

FLAT_CALLS = frozenset({"list", "sorted", "reversed", "tuple", "set", "dict"})
"""Functions whose result holds what they were given at the same level."""

PICKING_CALLS = frozenset({"min", "max"})
"""Functions that may give back one of the objects that they were given."""

PICKING_METHODS = frozenset({"get"})


def binary_type(op: str, left: Type, right: Type) -> Type:
    """Return the type of `left op right`."""
    numbers = {BOOL, INT, FLOAT}
    if op == "%" and left == TEXT:
        return TEXT
    if op == "+" and TEXT in (left, right):
        return TEXT
    if op == "*" and TEXT in (left, right):
        return TEXT
    if op == "+" and left == right and left.name == "list":
        return left
    if left in numbers and right in numbers:
        if op == "/" or FLOAT in (left, right):
            return FLOAT if op != "**" else PY
        if op in ("+", "-", "*", "//", "%", "<<", ">>"):
            return INT
        if op in ("&", "|", "^"):
            return BOOL if left == right == BOOL else INT
    return PY


def method_type(receiver: Type, name: str) -> Type:
    """Return the type of a method's result."""
    if receiver == TEXT:
        return _TEXT_METHODS.get(name, PY)
    if receiver.name == "list" and name in ("index", "count"):
        return INT
    if receiver.name == "list" and name == "copy":
        return receiver
    if receiver == DICT and name in ("keys", "values", "items"):
        return list_of(PY)
    return PY


def call_type(callee: str, arguments: list[Type]) -> Type:
    """Return the type of a function's result."""
    first = arguments[0] if arguments else PY
    if callee in _SAME_ITEMS:
        if first.name == "list":
            return first
        return list_of(TEXT) if first == TEXT else list_of(PY)
    if callee == "abs" and first in (INT, FLOAT):
        return first
    if callee == "sum" and first == list_of(INT) and len(arguments) == 1:
        return INT
    return _CALLS.get(callee, PY)


def index_type(container: Type) -> Type:
    """Return the type of an item."""
    if container == TEXT:
        return TEXT
    if container.name == "list" and container.element is not None:
        return container.element
    return PY
