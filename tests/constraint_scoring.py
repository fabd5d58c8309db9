"""How right constraints are: public collections of schemas and patterns, token by token.

A text is allowed if, at every one of its tokens, the token's bit is set in the mask and
`accept_token` takes it, and if at its end the end tokens' bits are set. That is asked along
the canonical tokens, and along random other tokens of the same bytes; all must say the same.

    python tests/constraint_scoring.py suite           JSON-Schema-Test-Suite, 2020-12, required
    python tests/constraint_scoring.py draft7          the same of draft 7
    python tests/constraint_scoring.py optional        the optional part; `format`: its formats
    python tests/constraint_scoring.py bench           schemas of JSONSchemaBench
    python tests/constraint_scoring.py bench --part 3/8 --show
    python tests/constraint_scoring.py regex           patterns of CPython's and Rust's tests
    python tests/constraint_scoring.py written         patterns that people write in schemas

The tokenizer is SmolLM2's; `--model oracle` takes another.
"""

import argparse
import json
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from pattern_scoring import BYTES, DATA, PATTERNS, pattern_figures, percentiles, score_pattern

import lmc
from lmc.backends import open_target

SUITE = DATA / "json_schema_test_suite" / "tests"
BENCH = DATA / "jsonschemabench"
DRAFT7 = "http://json-schema.org/draft-07/schema#"
MAX_ORDERS = 2_000
"""Places that the search for another order of properties looks at."""


@dataclass
class Group:
    """A schema with its tests: (value, is it valid)."""

    name: str
    schema: Any
    tests: list[tuple[Any, bool]]


@dataclass
class Verdict:
    """What came of a group. Tests by index; `orders` are refused for their order alone."""

    group: Group
    refusal: lmc.ConstraintError | None = None
    seconds: float = 0.0
    wrong: list[int] = field(default_factory=list)
    missed: list[int] = field(default_factory=list)
    orders: list[int] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        """Whether every test comes out right."""
        return not (self.refusal or self.wrong or self.missed or self.orders or self.broken)


# Tokens.


def is_set(row: np.ndarray[Any, np.dtype[np.int32]], token_id: int) -> bool:
    return bool(row[token_id // 32] >> (token_id % 32) & 1)


def allows(limit: lmc.CompiledConstraint, ids: Sequence[int], broken: list[str]) -> bool:
    """Return whether a text is allowed along given tokens; notes where mask and accept differ."""
    matcher = limit.matcher()
    row = np.empty(limit.mask_words, dtype=np.int32)
    for place, token_id in enumerate(ids):
        matcher.fill_bitmask(row)
        bit = is_set(row, token_id)
        if matcher.accept_token(token_id) != bit:
            broken.append(f"mask and accept differ at token {place} of {ids}")
        if not bit:
            return False
    matcher.fill_bitmask(row)
    ends = {is_set(row, end) for end in limit.eos_token_ids}
    if ends != {matcher.can_end()}:
        broken.append(f"end tokens differ from can_end after {ids}")
    return ends == {True}


def random_tokens(text: str, tokenizer: Any, rng: random.Random) -> list[int]:
    """Return random tokens of a text's bytes."""
    data, ids, at = text.encode(), [], 0
    by_bytes, longest = _vocabulary(tokenizer)
    while at < len(data):
        sizes = [n for n in range(1, longest + 1) if data[at : at + n] in by_bytes]
        sizes = [n for n in sizes if at + n <= len(data)]
        if not sizes:  # a byte that the vocabulary lacks
            return []
        size = rng.choice(sizes[:6])
        ids.append(by_bytes[data[at : at + size]])
        at += size
    return ids


@cache
def _vocabulary(tokenizer: Any) -> tuple[dict[bytes, int], int]:
    pieces = tokenizer.token_bytes()
    by_bytes = {piece: i for i, piece in enumerate(pieces) if piece and i not in tokenizer.eos_ids}
    return by_bytes, min(16, max(map(len, by_bytes)))


# Schemas.


def score(group: Group, tokenizer: Any, *, splits: int = 1, **options: Any) -> Verdict:
    """Compile a schema and look at its tests."""
    verdict = Verdict(group)
    started = time.thread_time()
    try:
        constraint = lmc.Constraint.json_schema(group.schema, open_objects=True, **options)
        limit = constraint.compile(tokenizer)
    except lmc.ConstraintError as error:
        if "no valid value" not in error.message:
            verdict.refusal = error
            return verdict
        limit = None
    verdict.seconds = time.thread_time() - started
    for index, (value, is_valid) in enumerate(group.tests):
        text = json.dumps(value, ensure_ascii=False)
        found = limit is not None and _verdict(limit, text, tokenizer, splits, verdict.broken)
        if found and not is_valid:
            verdict.wrong.append(index)
        if is_valid and not found:
            by_bytes = constraint.compile(BYTES) if limit is not None else None
            is_order = by_bytes is not None and has_an_order(by_bytes, value)
            (verdict.orders if is_order else verdict.missed).append(index)
    return verdict


def _verdict(
    limit: lmc.CompiledConstraint, text: str, tokenizer: Any, splits: int, broken: list[str]
) -> bool:
    found = allows(limit, limit.encode(text), broken)
    rng = random.Random(text)
    for _ in range(splits):
        ids = random_tokens(text, tokenizer, rng)
        if (ids or not text) and allows(limit, ids, broken) != found:
            broken.append(f"other tokens of {text} say otherwise: {ids}")
    return found


def has_an_order(limit: lmc.CompiledConstraint, value: Any) -> bool:
    """Return whether a value is allowed with its properties in some order."""
    budget = [MAX_ORDERS]
    return any(each.can_end() for each in _after(limit.matcher(), value, budget))


def _after(matcher: Any, value: Any, budget: list[int]) -> Iterator[Any]:
    """Yield matchers after a value, for each order of its properties that is allowed."""
    if isinstance(value, dict) and value:
        yield from _members(matcher, list(value), value, "{", budget)
    elif isinstance(value, list) and value:
        yield from _items(matcher, value, "[", budget)
    elif _goes_on(matcher, json.dumps(value, ensure_ascii=False), budget):
        yield matcher


def _items(matcher: Any, left: list[Any], mark: str, budget: list[int]) -> Iterator[Any]:
    if not left:
        if _goes_on(matcher, "]", budget):
            yield matcher
        return
    if _goes_on(matcher, mark, budget):
        for after in _after(matcher, left[0], budget):
            yield from _items(after, left[1:], ", ", budget)


def _members(
    matcher: Any, left: list[str], value: dict[str, Any], mark: str, budget: list[int]
) -> Iterator[Any]:
    if not left:
        if _goes_on(matcher, "}", budget):
            yield matcher
        return
    if not _goes_on(matcher, mark, budget):
        return
    for name in left:
        fork = matcher.fork()
        if _goes_on(fork, json.dumps(name, ensure_ascii=False) + ": ", budget):
            for after in _after(fork, value[name], budget):
                yield from _members(after, [n for n in left if n != name], value, ", ", budget)


def _goes_on(matcher: Any, text: str, budget: list[int]) -> bool:
    budget[0] -= 1
    return budget[0] > 0 and all(matcher.accept_token(byte) for byte in text.encode())


# Collections.


def suite_groups(draft: str = "draft2020-12", part: str = ".") -> list[Group]:
    """Return the groups of a draft of the standard's own tests."""
    made = []
    for path in sorted((SUITE / draft / part).glob("*.json")):
        for group in json.loads(path.read_text(encoding="utf-8")):
            schema = group["schema"]
            if draft == "draft7" and isinstance(schema, dict):
                schema = {"$schema": DRAFT7, **schema}
            tests = [(test["data"], test["valid"]) for test in group["tests"]]
            made.append(Group(f"{path.stem}: {group['description']}", schema, tests))
    return made


def bench_groups() -> list[Group]:
    """Return the real schemas, without the tests whose labels are doubtful."""
    doubtful = {
        (item["id"], item["test_index"])
        for item in json.loads((BENCH / "labels_not_confirmed.json").read_text(encoding="utf-8"))
    }
    made = []
    for name in ("cases_part1.jsonl", "cases_part2.jsonl"):
        for line in (BENCH / name).read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            tests = [
                (test["data"], test["valid"])
                for index, test in enumerate(row["tests"])
                if (row["id"], index) not in doubtful
            ]
            made.append(Group(row["id"], row["schema"], tests))
    return made


COLLECTIONS = {
    "suite": suite_groups,
    "draft7": lambda: suite_groups("draft7"),
    "optional": lambda: suite_groups(part="optional"),
    "format": lambda: suite_groups(part="optional/format"),
    "bench": bench_groups,
}


def figures(verdicts: Sequence[Verdict]) -> str:
    """Return the figures of a collection."""
    compiled = sorted(v.seconds for v in verdicts if v.refusal is None)
    return (
        f"{len(verdicts)} schemas: {len(compiled)} compiled, "
        f"{sum(v.is_right for v in verdicts)} right; tests: "
        f"{sum(len(v.wrong) for v in verdicts)} invalid accepted, "
        f"{sum(len(v.missed) for v in verdicts)} valid refused, "
        f"{sum(len(v.orders) for v in verdicts)} more for their order, "
        f"{sum(len(v.broken) for v in verdicts)} broken; "
        f"compile ms {percentiles(compiled)}"
    )


def _shown(verdict: Verdict) -> str:
    lines = [verdict.group.name]
    if verdict.refusal is not None:
        lines.append(f"  refused: {verdict.refusal.message}")
    for kind in ("wrong", "missed", "orders"):
        for index in getattr(verdict, kind):
            lines.append(f"  {kind}: {json.dumps(verdict.group.tests[index][0])[:200]}")
    lines += [f"  broken: {text[:200]}" for text in verdict.broken]
    return "\n".join([*lines, f"  {json.dumps(verdict.group.schema)[:600]}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collection", choices=[*COLLECTIONS, *PATTERNS])
    parser.add_argument("--model", default="smollm2", help="whose tokenizer; or bytes")
    parser.add_argument("--part", default="1/1", help="K/N: the K-th of every N")
    parser.add_argument("--splits", type=int, default=1, help="random tokenizations of a text")
    parser.add_argument("--show", action="store_true", help="show what is not right")
    given = parser.parse_args()
    number, count = map(int, given.part.split("/"))
    part = slice(number - 1, None, count)
    run = run_patterns if given.collection in PATTERNS else run_schemas
    sys.exit(run(given, part))


def run_patterns(given: argparse.Namespace, part: slice) -> bool:
    """Score patterns; returns whether something is wrong."""
    warnings.simplefilter("ignore", FutureWarning)  # what looks like a set of sets
    items = list(PATTERNS[given.collection]().items())[part]
    verdicts = [score_pattern(pattern, texts) for pattern, texts in items]
    if given.show:
        for verdict in verdicts:
            if verdict.refusal is not None:
                print(f"{verdict.refusal.message} [{verdict.refusal.position}]: {verdict.pattern}")
            for text in verdict.wrong:
                print(f"wrong: {verdict.pattern!r} on {text!r}")
    print(pattern_figures(verdicts))
    return any(verdict.wrong for verdict in verdicts)


def run_schemas(given: argparse.Namespace, part: slice) -> bool:
    """Score schemas; returns whether something is wrong."""
    tokenizer = BYTES if given.model == "bytes" else open_target(given.model).tokenizer
    groups = COLLECTIONS[given.collection]()[part]
    verdicts = [score(group, tokenizer, splits=given.splits) for group in groups]
    if given.show:
        for verdict in verdicts:
            if not verdict.is_right:
                print(_shown(verdict))
        reasons = Counter(v.refusal.message.split(": ", 1)[-1] for v in verdicts if v.refusal)
        for reason, times in reasons.most_common():
            print(f"{times:5} {reason[:120]}")
    print(figures(verdicts))
    return any(v.wrong or v.broken for v in verdicts)


if __name__ == "__main__":
    main()
