"""Reading a profile's file: a foreign or damaged one is one clear error."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lmc.errors import UsageError
from lmc.ir.profile import (
    MODEL_COUNTS,
    SECONDS,
    SITE_OPS,
    SPECULATION,
    VERSION,
    Profile,
    Site,
    sort_key,
)

MAX_FILE_BYTES = 64 * 1024 * 1024


def read_profile(path: str | Path) -> Profile:
    """Read a profile that `Profile.save` wrote.

    Raises:
        UsageError: no such file, or one that is no profile, damaged, or of a newer lmc.
    """
    path = Path(path)
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise UsageError(f"{path} is over the limit of {MAX_FILE_BYTES:,} bytes")
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {(error.strerror or str(error)).lower()}",
            hint="make one: lmc run prog.py --profile run.json",
        ) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no profile: it is no JSON ({error})", hint=_AGAIN) from error
    try:
        return profile_of(data)
    except UsageError as error:
        raise UsageError(f"{path} {error.message}", hint=error.hint) from error


_AGAIN = "record it again: lmc run prog.py --profile run.json"


def profile_of(data: Any) -> Profile:
    """Return the profile that plain data holds; raises UsageError that says what is wrong."""
    if not isinstance(data, dict) or not {"version", "sites", "branches"} <= data.keys():
        raise UsageError("is no profile", hint=_AGAIN)
    version = data["version"]
    if version != VERSION or isinstance(version, bool):
        newer = isinstance(version, int) and version > VERSION
        hint = "install a newer lmc, or record it again with this one" if newer else _AGAIN
        raise UsageError(f"has profile version {version!r}; this lmc reads {VERSION}", hint=hint)
    try:
        profile = Profile(_text(data, "program"))
        profile.runs = _count(data, "runs")
        for number, item in enumerate(_list(data, "sites")):
            with _Within(f"site {number}"):
                profile.add_site(_site(item))
        for number, item in enumerate(_list(data, "branches")):
            with _Within(f"branch {number}"):
                _read_branch(item, profile)
        with _Within("speculation"):
            counts = _dict(data.get("speculation", dict.fromkeys(SPECULATION, 0)))
            profile.speculation = {name: _count(counts, name) for name in SPECULATION}
    except _Damaged as error:
        raise UsageError(f"is a damaged profile: {error}", hint=_AGAIN) from error
    return profile


class _Damaged(ValueError):
    """Something in a profile that cannot be."""


class _Within:
    """Puts the place before what is wrong."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, _Damaged):
            raise _Damaged(f"{self._place}: {error}") from None


def _site(item: Any) -> Site:
    data = _dict(item)
    output, seconds = _dict(data.get("output_tokens")), _dict(data.get("seconds"))
    made = Site(
        at=_place_text(data, "at"),
        op=_text(data, "op"),
        name=_text(data, "name"),
        output_tokens=_count(output, "total"),
        output_min=_count(output, "min"),
        output_max=_count(output, "max"),
        seconds={name: _number(seconds, name) for name in SECONDS},
        **{name: _count(data, name) for name in MODEL_COUNTS},
    )
    if made.op not in SITE_OPS:
        raise _Damaged(f"'op' is {made.op!r}, which calls no model")
    bounds = made.output_min * made.calls, made.output_max * made.calls
    if not (made.calls and made.output_min <= made.output_max):
        raise _Damaged("its counts contradict each other")
    if not bounds[0] <= made.output_tokens <= bounds[1] or made.cached_tokens > made.prompt_tokens:
        raise _Damaged("its counts contradict each other")
    return made


def _read_branch(item: Any, profile: Profile) -> None:
    data = _dict(item)
    if data.get("op") != "cf.if":
        raise _Damaged(f"'op' is {data.get('op')!r}, which is no branch")
    taken = _list(data, "taken")
    if len(taken) != 2:
        raise _Damaged(f"'taken' has {len(taken)} numbers, not 2")
    test = _place_text(data, "test") if data.get("test") else ""
    found = profile.branch(_place_text(data, "at"), test)
    for arm, count in enumerate(taken):
        found.taken[arm] += _count({"taken": count}, "taken")


def _dict(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Damaged(f"{value!r:.40} is no object")
    return value


def _list(data: Mapping[str, Any], key: str) -> list[Any]:
    value = data.get(key)
    if not isinstance(value, list):
        raise _Damaged(f"{key!r} is no list")
    return value


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    if not isinstance(value, str):
        raise _Damaged(f"{key!r} is no text")
    return value


def _place_text(data: Mapping[str, Any], key: str) -> str:
    value = _text(data, key)
    if value and sort_key(value)[1] < 1:
        raise _Damaged(f"{key!r} is {value!r:.60}, no place like 'prog.py:3:5'")
    return value


def _count(data: Mapping[str, Any], key: str) -> int:
    value = data.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _Damaged(f"{key!r} is no count")
    return value


def _number(data: Mapping[str, Any], key: str) -> float:
    value = data.get(key)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value < float("inf"):  # type: ignore[operator]
        raise _Damaged(f"{key!r} is no number of seconds")
    return float(value)  # type: ignore[arg-type]
