"""Tables of results in Markdown."""

from collections.abc import Sequence

from compare.engines import EXACT
from compare.results import TARGETS, Results

ANY_QUALITY = {"a": 1.2, "c": 1.3}
"""Targets for a precision other than bf16."""


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; all columns but the first are numbers."""
    lines = [heads, ["---"] + ["---:"] * (len(heads) - 1), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def shown(value: float | None, digits: int = 2) -> str:
    """Return a figure, or a dash."""
    return "-" if value is None else f"{value:,.{digits}f}"


def seconds_table(results: Results, workloads: Sequence[str]) -> str:
    """Return the seconds of all engines, with output tokens per second in brackets."""
    engines = [*results.engines(peers=False), *results.engines(peers=True)]
    rows = []
    for workload in workloads:
        cells = [_taken(results, workload, engine) for engine in engines]
        if any(cell != "-" for cell in cells):
            rows.append([workload, *cells])
    return table(["workload", *engines], rows)


def _taken(results: Results, workload: str, engine: str) -> str:
    taken = results.median(workload, engine)
    count = results.median(workload, engine, "output_tokens")
    if taken is None or count is None:
        return "-"
    return f"{taken:.2f} ({count / taken:,.0f})"


def single_table(results: Results) -> str:
    """Return decode rate, time to first token and peak memory on the workload a."""
    rows = []
    for engine in [*results.engines(peers=False), *results.engines(peers=True)]:
        rate = results.rate("a", engine)
        if rate is None:
            continue
        first = results.median("a", engine, "first_token")
        memory = results.data["kinds"][engine].get("peak_mb")
        rows.append([engine, shown(rate, 1), shown(first, 3), shown(memory, 0)])
    return table(["engine", "tokens/s", "first token, s", "peak memory, MB"], rows)


def ratio_rows(results: Results) -> list[list[str]]:
    """Return per target: the best peer, lmc's mode, the ratio, the target, whether reached."""
    rows = _decode_rows(results)
    for workload, target in TARGETS.items():
        peer = results.best_peer(workload)
        ratio = results.ratio(workload, EXACT)
        if peer is None or ratio is None:
            continue
        rows.append([workload, peer[0], EXACT, shown(ratio), shown(target), _word(ratio, target)])
        mode = _fastest_mode(results, workload)
        if mode is not None:
            other = results.ratio(workload, mode) or 0.0
            wanted = ANY_QUALITY.get(workload, target)
            rows.append(
                [workload, peer[0], mode, shown(other), shown(wanted), _word(other, wanted)]
            )
    return rows


def _fastest_mode(results: Results, workload: str) -> str | None:
    """Return the quantized mode of lmc that took the least time."""
    found = [
        (taken, name)
        for name in results.engines(peers=False, precision="quantized")
        if (taken := results.median(workload, name)) is not None
    ]
    return min(found)[1] if found else None


def _decode_rows(results: Results) -> list[list[str]]:
    """Return the rows of the workload a, where rates count and not seconds."""
    rows = []
    for precision, target in (("bf16", 0.95), (None, ANY_QUALITY["a"])):
        own = _best_rate(results, False, precision)
        peer = _best_rate(results, True, precision)
        if own is not None and peer is not None:
            ratio = own[0] / peer[0]
            name = "a, same precision" if precision else "a, any precision"
            rows.append([name, peer[1], own[1], shown(ratio), shown(target), _word(ratio, target)])
    return rows


def _best_rate(results: Results, peers: bool, precision: str | None) -> tuple[float, str] | None:
    found = [
        (rate, name)
        for name in results.engines(peers=peers, precision=precision)
        if (rate := results.rate("a", name)) is not None
    ]
    return max(found) if found else None


def _word(ratio: float, target: float) -> str:
    return "yes" if ratio >= target else "no"


def ratio_table(results: Results) -> str:
    """Return the ratios against the best peer beside the targets."""
    heads = ["workload", "best peer", "mode of lmc", "ratio", "target", "reached"]
    return table(heads, ratio_rows(results))
