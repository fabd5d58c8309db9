"""What forced text is worth: passes and time of constrained generations, three ways.

    python benchmarks/bench_jumps.py [--data FOLDER] [--repeats N] [--records N] [--schemas N]
        [--parts schemas,patterns,times] [--ways WAY;WAY...] [--threads N] [--cpu]

- **Steps saved**: a pattern that is mostly a template, and real schemas under both layouts of
  JSON. For schemas the texts are their own valid instances: the tokens that are forced along
  the tokenizer's encoding. For the pattern the model writes, and what `lmc explain` predicts
  stands beside; likewise for a schema that may hold itself.
- **End to end**: structured extraction, 16 records of 8 fields under one pattern, in canonical
  ids and under the mask, each with and without jumps. Repeats are interleaved; the median counts.
"""

import argparse
import json
import queue
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lmc.backends import load_model
from lmc.errors import ConstraintError
from lmc.ir.calls import Constraint, GenCall, GenResult, SamplingParams
from lmc.ir.json_schema import compile_json_schema
from lmc.runtime.constraint import ConstraintCache, RegexConstraint
from lmc.runtime.constraint.forecast import forecast, num_forced
from lmc.runtime.engine.engine import Engine

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

WORD = r"[A-Z][a-z]{2,11}"


def layout(fields: dict[str, str]) -> str:
    """Return the pattern of a JSON object with a field per line."""
    lines = ",\n".join(f'    "{name}": {value}' for name, value in fields.items())
    return r"\{\n" + lines + r"\n\}"


RECORD = layout(
    {
        "first name": f'"{WORD}"',
        "family name": f'"{WORD}"',
        "years of age": "[1-9][0-9]",
        "home town": f'"{WORD}"',
        "kind of work": '"(teacher|farmer|doctor|driver|writer)"',
        "number of children": "[0-9]",
        "is a member of the club": "(true|false)",
        "date of the last visit": '"20[0-2][0-9]-(0[1-9]|1[0-2])-([0-2][0-9]|3[01])"',
    }
)
"""Workload g: a record of eight fields."""

CHARACTER = layout(
    {
        "name of the character": f'"{WORD}"',
        "place in the story": '"(the hero|the rival|the mentor|the messenger)"',
        "state of health": '"(in good health|badly wounded|no longer alive)"',
        "what they carry": r"\{\n" + f'        "weapon of choice": "{WORD}",\n'
        r'        "length in metres": [0-9]\.[0-9]\n    \}',
        "loyal to": '"(the northern kingdom|the southern league|nobody at all)"',
        "greatest fear": f'"{WORD}"',
    }
)
"""A character of a story: mostly template, with a few short free fields."""

PERSON = {
    "$defs": {
        "person": {
            "type": "object",
            "properties": {
                "first name": {"type": "string", "pattern": f"^{WORD}$"},
                "years of age": {"type": "integer", "minimum": 10, "maximum": 99},
                "kind of work": {"enum": ["teacher", "farmer", "doctor", "driver", "writer"]},
                "is a member of the club": {"type": "boolean"},
                "next of kin": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/person"}]},
            },
            "required": [
                "first name", "years of age", "kind of work", "is a member of the club",
                "next of kin",
            ],
        }
    },
    "$ref": "#/$defs/person",
}  # fmt: skip
"""A record that may stand inside itself: a network, not one automaton."""

WAYS: dict[str, tuple[str, bool]] = {
    "canonical": ("canonical", True),
    "canonical, a token a step": ("canonical", False),
    "masked, drafts": ("mask", True),
    "masked, a token a step": ("mask", False),
}
"""Mode of the constraint, and whether the engine jumps."""


def calls_of(target: Any, texts: list[str], limit: Constraint, mode: str) -> list[GenCall]:
    """Return one extraction per text."""
    encode = target.tokenizer.encode
    params = SamplingParams(max_tokens=300, temperature=0.0, constraint_mode=mode)  # type: ignore[arg-type]
    return [GenCall(tuple(encode(text, first=True)), params, limit) for text in texts]


def answer(engine: Engine, calls: list[GenCall]) -> list[GenResult]:
    """Answer calls at once."""
    done: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
    for number, call in enumerate(calls):
        engine.submit_gen(call, lambda outcome, number=number: done.put((number, outcome)))
    found = dict(done.get() for _ in calls)
    for outcome in found.values():
        if isinstance(outcome, BaseException):
            raise outcome
    return [found[number] for number in range(len(calls))]


def saved(results: list[GenResult]) -> float:
    """Return the share of output tokens that took no pass of their own."""
    tokens = sum(result.usage.output_tokens for result in results)
    return 1 - sum(result.usage.decode_steps for result in results) / tokens


def print_model(name: str, limit: Constraint, model: Any, target: Any, texts: list[str]) -> None:
    """Print what the model's own texts under a constraint save, and what is predicted of them."""
    constraint = ConstraintCache(target.tokenizer).get(limit)
    predicted = forecast(constraint, target.tokenizer).forced
    cells = []
    for way in ("canonical", "masked, drafts"):
        mode, jumps = WAYS[way]
        with Engine(model, target, jumps=jumps) as engine:
            results = answer(engine, calls_of(target, texts, limit, mode))
        cells.append(f"{way} {saved(results):.1%} of the steps saved")
        if way == "canonical":
            whole = [r.usage for r in results if r.complete]
            each = sum(u.output_tokens - u.decode_steps for u in whole) / max(1, len(whole))
            cells.append(
                f"{each:.1f} a text, predicted {predicted:.1f}, so {each / predicted:.1%} of it"
            )
    print(f"{name}: {', '.join(cells)}")


def print_schemas(data: Path, target: Any, count: int) -> None:
    """Print the share of forced tokens in valid instances of real schemas."""
    lines = (
        (data / "jsonschemabench" / "cases_part1.jsonl").read_text(encoding="utf-8").splitlines()
    )
    for separators in ((", ", ": "), (",", ":")):
        forced = tokens = instances = 0
        for line in lines:
            record = json.loads(line)
            try:
                dfa = compile_json_schema(record["schema"], separators=separators)
            except ConstraintError:
                continue
            constraint = RegexConstraint(dfa, target.tokenizer)
            for test in record["tests"]:
                text = json.dumps(test["data"], separators=separators, ensure_ascii=False)
                if test["valid"] and dfa.matches(text.encode()):
                    ids = target.tokenizer.encode(text)
                    forced += num_forced(constraint, ids)
                    tokens += len(ids)
                    instances += 1
            if instances >= count:
                break
        print(
            f"steps saved, {instances} instances of real schemas, separators {separators}: "
            f"{forced / tokens:.1%} of {tokens:,} tokens"
        )


def print_times(
    model: Any,
    target: Any,
    texts: list[str],
    repeats: int,
    ways: list[str],
    *,
    threads: int | None,
    clock: Callable[[], float],
) -> None:
    """Print the times of workload g, ways in turn."""
    engines = {way: Engine(model, target, jumps=WAYS[way][1], threads=threads) for way in ways}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    results: dict[str, list[GenResult]] = {}
    try:
        for number in range(repeats + 1):
            for way, engine in engines.items():
                calls = calls_of(target, texts, Constraint("regex", RECORD), WAYS[way][0])
                engine.flush_cache()
                begun = clock()
                results[way] = answer(engine, calls)
                if number:  # the first round warms masks and kernels up
                    seconds[way].append(clock() - begun)
    finally:
        for engine in engines.values():
            engine.close()
    for mode in ("canonical", "mask"):
        alike = [results[way] for way in ways if WAYS[way][0] == mode]
        assert all(each == alike[0] for each in alike), "jumps change no result"
    plain = statistics.median(seconds[ways[-1]])
    for way, found in results.items():
        tokens = sum(result.usage.output_tokens for result in found)
        median = statistics.median(seconds[way])
        print(
            f"workload g, {len(texts)} records, {way}: {median:.2f} s "
            f"({', '.join(f'{each:.2f}' for each in seconds[way])}), {tokens} tokens, "
            f"{tokens / median:.0f} a second, {saved(found):.1%} of steps saved, "
            f"{plain / median:.2f} times as fast as the last"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--records", type=int, default=16)
    parser.add_argument("--schemas", type=int, default=150)
    parser.add_argument("--threads", type=int, help="of the forward pass")
    parser.add_argument("--cpu", action="store_true", help="CPU time of the process, not wall time")
    parser.add_argument("--parts", default="schemas,patterns,times")
    parser.add_argument("--ways", default=";".join(WAYS), help="of the times, by ';'")
    options = parser.parse_args()
    loaded = load_model(None)
    model, target = loaded.model, loaded.target
    lines = (options.data / "gsm8k" / "test.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [
        f"{json.loads(line)['question']}\n\nA record of one person in the text above:\n"
        for line in lines[: options.records]
    ]
    parts = options.parts.split(",")
    if "schemas" in parts:
        print_schemas(options.data, target, options.schemas)
    if "patterns" in parts:
        for name, limit in (
            ("template of a character", Constraint("regex", CHARACTER)),
            ("record of 8 fields", Constraint("regex", RECORD)),
            ("record that may nest", Constraint("json_schema", json.dumps(PERSON))),
        ):
            print_model(name, limit, model, target, texts[:4])
    if "times" in parts:
        print_times(
            model,
            target,
            texts,
            options.repeats,
            options.ways.split(";"),
            threads=options.threads,
            clock=time.process_time if options.cpu else time.perf_counter,
        )


if __name__ == "__main__":
    main()
