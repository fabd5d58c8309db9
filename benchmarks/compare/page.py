"""docs/benchmarks.md: what was measured, put between the marks of the page."""

import re
from collections.abc import Sequence
from pathlib import Path

from compare.results import Results
from compare.tables import ratio_table, seconds_table, shown, single_table, table

LIMITS = {
    "copy_gb_s": "memory copy, GB/s (read and written)",
    "read_gb_s": "memory read, GB/s",
    "bf16_gflop_s": "matrix product in bf16, GFLOP/s",
    "int8_gop_s": "matrix product in int8, GOP/s",
}
DECODE_BYTES = 269e6
"""Bytes of SmolLM2-135M's weights in bfloat16, which a decode step reads."""
PREFILL_FLOP = 0.212e9
"""Operations per prompt token in the linear layers of SmolLM2-135M."""
EXACT = "lmc, bf16"


def limits_table(results: Results) -> str:
    """Return what the machine can do."""
    found = results.data["limits"]
    return table(["limit", "measured"], [[LIMITS[n], shown(found[n], 0)] for n in LIMITS])


def distance_table(results: Results) -> str:
    """Return how near a and c come to the machine's limits, in bf16."""
    found, rows = results.data["limits"], []
    rate = results.rate("a", EXACT)
    if rate is not None:
        limit = found["read_gb_s"] * 1e9 / DECODE_BYTES
        rows.append(["a: decode, tokens/s", shown(rate, 0), shown(limit, 0), f"{rate / limit:.0%}"])
    taken = results.median("c", EXACT)
    if taken is not None:
        rate, limit = 2048 / taken, found["bf16_gflop_s"] * 1e9 / PREFILL_FLOP
        rows.append(
            ["c: prefill, tokens/s", shown(rate, 0), shown(limit, 0), f"{rate / limit:.0%}"]
        )
    return table(["workload", "measured", "limit", "share"], rows)


def profile_table(results: Results, workloads: Sequence[str]) -> str:
    """Return where the time of lmc's exact mode goes, as shares of each workload's time."""
    rows = []
    for name in workloads:
        samples = results.samples(name, EXACT)
        if not samples or "profile" not in samples[-1]:
            continue
        parts, whole = samples[-1]["profile"], samples[-1]["seconds"]
        cells = [f"{parts[part] / whole:.1%}" for part in PARTS]
        rows.append([name, shown(whole), *cells])
    return table(["workload", "seconds", *PARTS.values()], rows)


PARTS = {
    "model": "model",
    "scheduler": "scheduler",
    "choosing": "masks, sampling, text",
    "rest": "program and waiting",
}


def render(results: Results, page: Path, workloads: Sequence[str]) -> None:
    """Put all tables into the page, between their marks."""
    parts = {
        "limits": f"{results.data['machine']}.\n\n{limits_table(results)}",
        "ratios": ratio_table(results),
        "single": single_table(results),
        "seconds": seconds_table(results, workloads),
        "profile": profile_table(results, workloads),
        "distance": distance_table(results),
    }
    content = page.read_text(encoding="utf-8")
    for name, made in parts.items():
        content = put(content, name, made)
    page.write_text(content, encoding="utf-8")


def put(content: str, name: str, made: str) -> str:
    """Return a page with what stands between one pair of marks replaced.

    Raises:
        ValueError: the page has no such marks.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    pattern = re.escape(begin) + r".*?" + re.escape(end)
    if not re.search(pattern, content, re.DOTALL):
        raise ValueError(f"the page has no marks for {name!r}")
    return re.sub(pattern, lambda _: f"{begin}\n{made}\n{end}", content, flags=re.DOTALL)
