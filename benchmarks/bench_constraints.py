"""What constraints cost: compiling them, loading them again, masks, and the delay of others.

    python benchmarks/bench_constraints.py [--data FOLDER] [--every N]
        [--parts compile,masks,held,delays] [--only TEXT]

- **compile**: processor time of real schemas and patterns; the time of loading their languages from
  disk again and of binding them to SmolLM2's vocabulary.
- **masks**: along the tokens of valid texts, where a state is met first, and later.
- **held**: the processor time that a constraint which is made to be costly takes in the engine's
  process, beside the process that compiles it: so long, at the most, it holds up other requests.
- **delays**: the longest time between two tokens of one request, while another one asks for
  such a constraint. At most 50 ms longer than without is wanted.

`--every N` takes every so many of the schemas and patterns, `--only TEXT` the costly constraints
with that in their names.
"""

import argparse
import json
import queue
import re
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lmc.backends import load_model, open_target
from lmc.errors import ConstraintError
from lmc.ir.calls import Constraint, GenCall, SamplingParams
from lmc.ir.grammar import Network
from lmc.ir.json_schema import schema_source
from lmc.ir.languages.compiling import Language, compile_here, language_to_bytes
from lmc.ir.languages.files import LanguageFiles
from lmc.runtime.constraint import ConstraintCache, GrammarConstraint, RegexConstraint
from lmc.runtime.engine.engine import Engine

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
WANTED_DELAY = 0.050


def shown(name: str, seconds: list[float], unit: str = "ms") -> None:
    """Print what half, nine in ten and all but one in a hundred took at the most."""
    scale = {"ms": 1e3, "us": 1e6}[unit]
    found = np.percentile(np.array(seconds) * scale, [50, 90, 99, 100])
    told = " / ".join(f"{value:.3g}" for value in found)
    print(f"{name}, {len(seconds):,}: 50th / 90th / 99th / most {told} {unit}", flush=True)


def schemas(data: Path, every: int) -> Iterator[tuple[Constraint, list[str]]]:
    """Yield real schemas with the texts of their valid instances."""
    rows = [
        json.loads(line)
        for path in sorted((data / "jsonschemabench").glob("cases_part*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    for row in rows[::every]:
        texts = [json.dumps(t["data"], ensure_ascii=False) for t in row["tests"] if t["valid"]]
        yield Constraint("json_schema", schema_source(row["schema"])), texts


def patterns(data: Path, every: int) -> list[Constraint]:
    """Return patterns that people write in schemas, as far as Python reads them."""
    path = data / "regex" / "json_schema_patterns.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()[:: 4 * every]
    found = []
    for line in lines:
        try:
            re.compile(json.loads(line)["pattern"])
        except (re.error, OverflowError):
            continue
        found.append(Constraint("regex", json.loads(line)["pattern"]))
    return found


def compiled(constraints: list[Constraint]) -> tuple[list[float], dict[Constraint, Language]]:
    """Compile; return the processor time of each, and the languages of those not refused."""
    seconds, languages = [], {}
    for constraint in constraints:
        begun = time.thread_time()
        try:
            languages[constraint] = compile_here(constraint)
        except ConstraintError:
            pass
        seconds.append(time.thread_time() - begun)
    return seconds, languages


def bind(language: Language, tokenizer: Any) -> RegexConstraint | GrammarConstraint:
    """Return a language as a constraint of a tokenizer."""
    if isinstance(language, Network):
        return GrammarConstraint(language, tokenizer)
    return RegexConstraint(language, tokenizer)


def print_loading(name: str, languages: dict[Constraint, Language], tokenizer: Any) -> None:
    """Print the times of loading languages from disk and binding them."""
    loading, binding = [], []
    with tempfile.TemporaryDirectory() as folder:
        files = LanguageFiles(Path(folder))
        for constraint, language in languages.items():
            files.store(constraint, language_to_bytes(language))
        for constraint, language in languages.items():
            bind(language, tokenizer)  # tables of the vocabulary are made once
            begun = time.perf_counter()
            found = files.find(constraint)
            loaded = time.perf_counter()
            assert found is not None
            bind(found, tokenizer)
            loading.append(loaded - begun)
            binding.append(time.perf_counter() - loaded)
    shown(f"{name}, warm load", loading)
    shown(f"{name}, binding to a vocabulary", binding)


def print_masks(cases: list[tuple[Constraint, list[str]]], tokenizer: Any) -> None:
    """Print the times of masks along texts, the first time and the second one."""
    times: tuple[list[float], list[float]] = [], []
    for constraint, texts in cases:
        try:
            limit = bind(compile_here(constraint), tokenizer)
        except ConstraintError:
            continue
        row = np.zeros(limit.vocabulary.words, dtype=np.int32)
        for seconds in times:
            for text in texts:
                if limit.matches(text.encode()):
                    walk(limit.matcher(), tokenizer.encode(text), row, seconds)
    shown("masks, the first time that a text is read", times[0], "us")
    shown("masks, later", times[1], "us")


def walk(matcher: Any, ids: list[int], row: Any, seconds: list[float]) -> None:
    """Note the time of every mask along some tokens."""
    for token in ids:
        begun = time.perf_counter()
        matcher.fill_bitmask(row)
        seconds.append(time.perf_counter() - begun)
        matcher.accept_token(token)


def hostile() -> dict[str, Constraint]:
    """Return constraints that are made to be costly."""
    deep: dict[str, Any] = {"type": "integer"}
    for _ in range(150):
        deep = {"type": "array", "items": deep}
    large = {"properties": {f"f{n}": {"maxLength": 20, "title": "x" * 800} for n in range(1_100)}}
    cyclic = {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}
    found: dict[str, object] = {
        "nesting of 150 levels": deep,
        "schema of 0.9 MB": large,
        "enum of 100,000": {"enum": list(range(100_000))},
        "cyclic references": {"$ref": "#/$defs/a", "$defs": cyclic},
        "schema that holds itself": {"type": "array", "items": {"$ref": "#"}},
        "multiples of 0.0997": {"type": "number", "multipleOf": 0.0997},
    }
    grammar = "\n".join(
        f'r{n} ::= "a" r{(7 * n + 1) % 2000} | "b" r{(5 * n + 2) % 2000} | "c{n}"'
        for n in range(2000)
    )
    return {
        "(a+)+b": Constraint("regex", "(a+)+b"),
        "automaton of 2^50 states": Constraint("regex", "(a|b)*a" + "(a|b)" * 50),
        "the same by a count": Constraint("regex", "(a|b)*a(a|b){200}"),
        "nested counts": Constraint("regex", "((a{1,100}){1,100}){1,100}"),
        r"\w{1,5000}": Constraint("regex", r"\w{1,5000}"),
        "[a-z]{1,20000}": Constraint("regex", "[a-z]{1,20000}"),
        **{name: Constraint("json_schema", schema_source(s)) for name, s in found.items()},  # type: ignore[arg-type]
        "grammar of 2,000 rules": Constraint("ebnf", grammar),
    }


def print_held(only: str, tokenizer: Any) -> None:
    """Print what costly constraints take of this process."""
    cache = ConstraintCache(tokenizer)
    # What is made once: a process, tables of the vocabulary, of forced text and of patterns.
    for pattern in ("[a-z]{1,100} forced", "a{1,3}b forced"):
        cache.get(Constraint("regex", pattern))
    for name, constraint in hostile().items():
        if only not in name:
            continue
        begun, wall, what = time.thread_time(), time.perf_counter(), "compiled"
        try:
            limit = cache.get(constraint)
            limit.matcher().fill_bitmask(np.zeros(limit.vocabulary.words, dtype=np.int32))
        except ConstraintError as error:
            what = f"refused ({error.message})"
        held, took = time.thread_time() - begun, time.perf_counter() - wall
        verdict = "" if held <= WANTED_DELAY else "  MORE THAN WANTED"
        print(f"{name}: {held * 1e3:.1f} ms here, {took:.2f} s until {what}{verdict}", flush=True)


def print_delays(only: str) -> None:
    """Print the longest step of a request beside each hostile constraint."""
    loaded = load_model(None)
    context = tuple(loaded.target.tokenizer.encode("Count: one, two, three,"))
    params = SamplingParams(max_tokens=4_000, min_tokens=4_000, temperature=0.0)
    with Engine(loaded.model, loaded.target, threads=1) as engine:
        times: list[float] = []
        ticket = engine.submit_gen(
            GenCall(context, params), lambda _: None, lambda _: times.append(time.perf_counter())
        )
        one = SamplingParams(max_tokens=1)

        def beside(constraint: Constraint | None) -> tuple[float, float, str]:
            """Return the longest step, the time until the answer, and what it is."""
            done: queue.Queue[Any] = queue.Queue()
            begun, first = time.perf_counter(), len(times)
            engine.submit_gen(GenCall(context[:2], one, constraint), done.put)
            outcome = done.get(timeout=120)
            took = time.perf_counter() - begun
            time.sleep(0.3)
            steps = np.diff(times[max(0, first - 1) :])
            is_refusal = isinstance(outcome, BaseException)
            return float(steps.max()), took, "refused" if is_refusal else "compiled"

        while len(times) < 10:
            time.sleep(0.05)
        beside(Constraint("regex", "[a-z]{1,100}"))  # starts a process
        plain = [beside(None)[0] for _ in range(5)]
        usual, most = float(np.median(np.diff(times))), max(plain)
        print(f"a step {usual * 1e3:.1f} ms; beside calls without constraints {most * 1e3:.1f} ms")
        for name, constraint in hostile().items():
            if only not in name:
                continue
            longest, took, what = beside(constraint)
            delay = longest - most
            verdict = "" if delay <= WANTED_DELAY else "  MORE THAN WANTED"
            print(
                f"{name}: {what} after {took:.2f} s; longest step {longest * 1e3:.1f} ms, "
                f"delay {max(0.0, delay) * 1e3:.1f} ms{verdict}",
                flush=True,
            )
        ticket.cancel()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--every", type=int, default=6)
    parser.add_argument("--parts", default="compile,masks,held,delays")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of patterns that are odd
    parts: dict[str, Callable[[], None]] = {"delays": lambda: print_delays(options.only)}
    cases = list(schemas(options.data, options.every))
    tokenizer = open_target("smollm2").tokenizer

    def print_compile() -> None:
        for name, constraints in (
            ("schemas", [constraint for constraint, _ in cases]),
            ("patterns", patterns(options.data, options.every)),
        ):
            seconds, languages = compiled(constraints)
            shown(f"{name}, compilation", seconds)
            print_loading(name, languages, tokenizer)

    parts["compile"] = print_compile
    parts["held"] = lambda: print_held(options.only, tokenizer)
    parts["masks"] = lambda: print_masks(cases, tokenizer)
    for part in options.parts.split(","):
        parts[part]()


if __name__ == "__main__":
    main()
