"""What is told after a run: the summary for people, and the JSON object for programs."""

import json
import math
from typing import Any, cast

from lmc.ir.calls import GenResult
from lmc.runtime.result import RunResult


def call_records(result: RunResult) -> list[dict[str, Any]]:
    """Return name, lineage, ordinal and token ids per generation, in an order that never varies."""
    records = [
        {
            "name": call.name,
            "lineage": "/".join(call.lineage),
            "ordinal": call.ordinal,
            "token_ids": list(call.result.token_ids),
        }
        for call in result.calls
        if isinstance(call.result, GenResult)
    ]
    return sorted(records, key=lambda r: (r["lineage"], r["ordinal"]))


def usage_dict(results: list[RunResult]) -> dict[str, Any]:
    """Return the counts of runs, added up; times are seconds."""
    usages = [result.usage for result in results]
    counts = (
        "calls", "prompt_tokens", "computed_tokens", "cached_tokens", "cached_host_tokens",
        "cached_disk_tokens", "prologue_tokens",
        "output_tokens", "forced_tokens", "drafted_tokens", "accepted_tokens", "decode_steps",
        "speculated_tokens", "adopted_tokens", "wasted_tokens", "ahead_tokens",
    )  # fmt: skip
    total: dict[str, Any] = {name: sum(getattr(u, name) for u in usages) for name in counts}
    total["group_tokens"] = sum(u.shared_tokens for u in usages)
    total["held_back_tokens"] = max((u.held_back_tokens for u in usages), default=0)
    firsts = [u.first_token_seconds for u in usages if u.first_token_seconds is not None]
    total["first_token_seconds"] = min(firsts) if firsts else None
    for name in ("longest_queue_seconds", "longest_gap_seconds"):
        total[name] = max((getattr(u, name) for u in usages), default=0.0)
    num_gaps = sum(u.num_gaps for u in usages)
    total["mean_gap_seconds"] = sum(u.decode_seconds for u in usages) / max(1, num_gaps)
    return total


def json_object(result: RunResult) -> str:
    """Return one run as one line of JSON; what JSON cannot hold is given as its repr."""
    payload = {
        "return": json_value(result.value),
        "values": json_value(result.state.variables),
        "text": result.state.text(),
        "token_ids": call_records(result),
        "usage": usage_dict([result]) | {"seconds": round(result.usage.seconds, 4)},
        "exact": str(result.exactness),
        "seed": result.seed,
    }
    return json.dumps(payload, ensure_ascii=False, allow_nan=False)


def json_value(value: Any, outer: tuple[int, ...] = ()) -> Any:
    """Return a value as JSON can hold it; anything else in it becomes its repr.

    `outer` are the containers that it lies in: one that holds itself becomes its repr.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if id(value) in outer or not isinstance(value, (dict, list, tuple)):
        return repr(value)
    outer = (*outer, id(cast(Any, value)))
    if isinstance(value, dict):
        members = cast(dict[Any, Any], value)
        return {_key(key): json_value(item, outer) for key, item in members.items()}
    return [json_value(item, outer) for item in cast(list[Any], value)]


def _key(key: Any) -> Any:
    is_known = key is None or isinstance(key, (str, bool, int))
    return key if is_known else repr(key)


def shown_value(result: RunResult) -> str:
    """Return what a run gave, for a person: its return value, else its text."""
    value = result.value
    if value is None:
        return result.state.text()
    if isinstance(value, str):
        return value
    return json.dumps(json_value(value), ensure_ascii=False, indent=2)


def summary_lines(name: str, results: list[RunResult], seconds: float) -> list[str]:
    """Return the lines of the summary that follows a run; what did not occur is left out."""
    total = usage_dict(results)
    runs = f"{counted(len(results), 'run')}, " if len(results) != 1 else ""
    title = f"{name}: {runs}{counted(total['calls'], 'call')} in {seconds:.2f} s"
    rows = _rows(total, seconds)
    if results:
        rows.append(("exact", str(results[0].exactness)))
    return [title, *(f"  {label:<15}{text}" for label, text in rows)]


def seed_line(results: list[RunResult]) -> str | None:
    """Return how to repeat what was sampled; None where nothing was."""
    is_sampled = any(getattr(record.call, "key", 0) for r in results for record in r.calls)
    return f"  {'seed':<15}{results[0].seed} (--seed repeats it)" if is_sampled else None


def counted(number: int, word: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def _rows(total: dict[str, Any], seconds: float) -> list[tuple[str, str]]:
    """Return label and text of every row."""
    prompt, computed, shared = (
        total[f"{kind}_tokens"] for kind in ("prompt", "computed", "cached")
    )  # fmt: skip
    output, forced, held_back = (
        total[f"{kind}_tokens"] for kind in ("output", "forced", "held_back")
    )  # fmt: skip
    prologues, groups = total["prologue_tokens"], total["group_tokens"]
    lower = [
        f"{total[f'cached_{kind}_tokens']:,} from {name}"
        for kind, name in (("host", "host memory"), ("disk", "disk"))
        if total[f"cached_{kind}_tokens"]
    ]
    below = f" ({', '.join(lower)})" if lower else ""
    rows = [("prompt tokens", f"{prompt:>7,} = {computed:,} computed + {shared:,} shared{below}")]
    if prologues or held_back:
        tail = f" ({held_back:,} more held back)" if held_back else ""
        rows.append(("constant prefix", f"{prologues:>7,} computed before the calls{tail}"))
    if groups:
        rows.append(("fork prefixes", f"{groups:>7,} computed before the calls, once per fork"))
    speculated, ahead = total["speculated_tokens"], total["ahead_tokens"]
    if speculated:
        parts = f"{total['adopted_tokens']:,} used + {total['wasted_tokens']:,} in vain"
        rows.append(("ahead of choices", f"{speculated:>7,} = {parts}"))
    if prologues or groups or ahead:
        before = prologues + groups + ahead
        text = f"{computed + before:>7,} = {computed:,} by calls + {before:,} before them"
        rows.append(("computed in all", text))
    rows += [
        ("output tokens", f"{output:>7,} = {output - forced:,} sampled + {forced:,} forced"),
        ("decode steps", f"{total['decode_steps']:>7,}"),
    ]
    if total["drafted_tokens"]:
        text = f"{total['drafted_tokens']:>7,} of which {total['accepted_tokens']:,} came"
        rows.append(("draft tokens", text))
    if total["first_token_seconds"] is not None:
        rows.append(("first token", f"{total['first_token_seconds']:>7.3f} s"))
    if total["longest_gap_seconds"]:
        mean, longest = total["mean_gap_seconds"], total["longest_gap_seconds"]
        rows.append(("between tokens", f"{mean:>7.3f} s, {longest:.3f} s at most"))
    if total["longest_queue_seconds"]:
        rows.append(("queued", f"{total['longest_queue_seconds']:>7.3f} s at most"))
    if seconds > 0:
        rows.append(("speed", f"{output / seconds:>7.1f} tokens per second"))
    return rows
