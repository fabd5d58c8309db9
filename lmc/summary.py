"""What is told after a run: the summary for people, and the JSON object for programs."""

import json
from typing import Any

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
        if hasattr(call.result, "token_ids")
    ]
    return sorted(records, key=lambda r: (r["lineage"], r["ordinal"]))


def usage_dict(results: list[RunResult]) -> dict[str, Any]:
    """Return the counts of runs, added up; times are seconds."""
    usages = [result.usage for result in results]
    counts = (
        "calls", "prompt_tokens", "computed_tokens", "cached_tokens", "output_tokens",
        "forced_tokens", "decode_steps",
    )  # fmt: skip
    total: dict[str, Any] = {name: sum(getattr(u, name) for u in usages) for name in counts}
    total["held_back_tokens"] = max((u.held_back_tokens for u in usages), default=0)
    total["prologue_tokens"] = sum(u.prologue_tokens for u in usages)
    firsts = [u.first_token_seconds for u in usages if u.first_token_seconds is not None]
    total["first_token_seconds"] = min(firsts) if firsts else None
    return total


def json_object(result: RunResult) -> str:
    """Return one run as one line of JSON; what JSON cannot hold is given as its repr."""
    payload = {
        "return": result.value,
        "values": result.state.variables,
        "text": result.state.text(),
        "token_ids": call_records(result),
        "usage": usage_dict([result]) | {"seconds": round(result.usage.seconds, 4)},
        "seed": result.seed,
    }
    return json.dumps(payload, ensure_ascii=False, default=repr)


def shown_value(result: RunResult) -> str:
    """Return what a run gave, for a person: its return value, else its text."""
    value = result.value
    if value is None:
        return result.state.text()
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=2, default=repr)


def summary_lines(name: str, results: list[RunResult], seconds: float) -> list[str]:
    """Return the lines of the summary that follows a run."""
    total = usage_dict(results)
    instances = f", {len(results)} instances" if len(results) != 1 else ""
    first = total["first_token_seconds"]
    speed = total["output_tokens"] / seconds if seconds > 0 else 0.0
    return [
        f"{name}: {total['calls']} calls{instances} in {seconds:.2f} s",
        f"  prompt tokens  {total['prompt_tokens']:>7,}  = {total['computed_tokens']:,} computed"
        f" + {total['cached_tokens']:,} shared",
        f"  constant prefix{total['prologue_tokens']:>7,}  computed once"
        f" ({total['held_back_tokens']} held back)",
        f"  output tokens  {total['output_tokens']:>7,}  = "
        f"{total['output_tokens'] - total['forced_tokens']:,} sampled"
        f" + {total['forced_tokens']:,} forced",
        f"  decode steps   {total['decode_steps']:>7,}",
        f"  first token    {'-' if first is None else f'{first:.3f} s':>9}",
        f"  speed          {speed:>7.1f}  tokens a second",
    ]
