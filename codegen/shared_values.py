"""Long texts and lists of numbers that stand several times in JSON data, written once.

    {"shared": [value, ...], "data": ...}

In `data`, {"$shared": n} stands for `shared[n]`. Data of a plan has no such object of its own:
the encoding of attributes hides keys that begin with '$' (plan_json.py).
"""

from typing import Any

MIN_TEXT = 64
MIN_ITEMS = 32
_KEY = "$shared"


def split_shared(data: Any) -> dict[str, Any]:
    """Return JSON data with what is long and repeated taken out."""
    counts: dict[Any, int] = {}
    _count(data, counts)
    places = {value: i for i, value in enumerate(v for v, n in counts.items() if n > 1)}
    shared = [list(value) if isinstance(value, tuple) else value for value in places]
    return {"shared": shared, "data": _replaced(data, places)}


def join_shared(data: Any) -> Any:
    """Undo `split_shared`; raises TypeError or LookupError for foreign data."""
    return _filled(data["data"], list(data["shared"]))


def _key(value: Any) -> Any:
    """Return a value as a key if it is long enough to be shared, else None."""
    if isinstance(value, str):
        return value if len(value) >= MIN_TEXT else None
    if isinstance(value, list) and len(value) >= MIN_ITEMS:
        if all(type(item) is int for item in value):
            return tuple(value)
    return None


def _count(data: Any, counts: dict[Any, int]) -> None:
    key = _key(data)
    if key is not None:
        counts[key] = counts.get(key, 0) + 1
    elif isinstance(data, (list, dict)):
        for item in data.values() if isinstance(data, dict) else data:
            _count(item, counts)


def _replaced(data: Any, places: dict[Any, int]) -> Any:
    key = _key(data)
    if key is not None:
        return {_KEY: places[key]} if key in places else data
    if isinstance(data, list):
        return [_replaced(item, places) for item in data]
    if isinstance(data, dict):
        return {name: _replaced(item, places) for name, item in data.items()}
    return data


def _filled(data: Any, shared: list[Any]) -> Any:
    if isinstance(data, list):
        return [_filled(item, shared) for item in data]
    if isinstance(data, dict):
        if len(data) == 1 and _KEY in data:
            place = data[_KEY]
            if type(place) is not int or not 0 <= place < len(shared):
                raise LookupError(f"there is no shared value {place!r}")
            return shared[place]
        return {name: _filled(item, shared) for name, item in data.items()}
    return data
