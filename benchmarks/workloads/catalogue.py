"""Every workload: its program, the arguments of its runs, and the same as plain requests."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lmc.program import Program
from workloads import programs
from workloads.requests import Output, Quote, Request, text
from workloads.texts import Texts

NAMES = ("a", "b8", "b32", "c", "d1", "d16", "e", "f", "g", "gu", "h1", "h8", "h64")


@dataclass(frozen=True, slots=True)
class Workload:
    """A program with the arguments of each run, and the requests that it comes to."""

    name: str
    program: Program[..., Any]
    batch: list[dict[str, Any]]
    requests: list[Request]


def completions(name: str, texts: Texts, runs: int, given: int, count: int) -> Workload:
    """Prompts of `given` tokens that share nothing, continued by `count`."""
    batch = [{"prompt": texts.take(given), "count": count} for _ in range(runs)]
    requests = [
        Request(f"{number}", (text(each["prompt"]),), count) for number, each in enumerate(batch)
    ]
    return Workload(name, programs.complete, batch, requests)


def questions(name: str, texts: Texts, count: int) -> Workload:
    """64 questions of 60 tokens behind the same five worked examples."""
    examples = texts.take(1450)
    batch = [
        {"examples": examples, "question": texts.take(60, before=examples), "count": count}
        for _ in range(64)
    ]
    requests = [
        Request(
            f"{number}",
            (text(each["examples"], each["question"]),),
            count,
            after=("0",) if number else (),
        )
        for number, each in enumerate(batch)
    ]
    return Workload(name, programs.answer, batch, requests)


def samples(name: str, texts: Texts) -> Workload:
    """16 sampled branches of 64 tokens behind 600."""
    batch = [{"prompt": texts.take(600), "count": 64}]
    request = Request("0", (text(batch[0]["prompt"]),), 64, temperature=1.0, samples=16)
    return Workload(name, programs.sample, batch, [request])


def talks(name: str, texts: Texts) -> Workload:
    """8 conversations of 4 turns, each 64 tokens in and 64 out."""
    batch, requests = [], []
    for number in range(8):
        turns = [texts.take(64) for _ in range(4)]
        batch.append({"turns": turns, "count": 64})
        prompt: tuple[Any, ...] = ()
        for place, turn in enumerate(turns):
            prompt = (*prompt, text(turn))
            requests.append(Request(f"{number}.{place}", prompt, 64))
            prompt = (*prompt, Output(f"{number}.{place}"))
    return Workload(name, programs.talk, batch, requests)


def records(name: str, texts: Texts) -> Workload:
    """16 JSON records of eight fields under a regex."""
    batch = [{"prompt": texts.take(64, after=programs.ASK_RECORD)} for _ in range(16)]
    requests = [
        Request(
            f"{number}",
            (text(each["prompt"], programs.ASK_RECORD),),
            200,
            is_fixed=False,
            regex=programs.RECORD,
        )
        for number, each in enumerate(batch)
    ]
    return Workload(name, programs.record, batch, requests)


def judges(name: str, texts: Texts, runs: int) -> Workload:
    """Essays of 300 tokens, each judged by branching, solving and merging."""
    batch = [{"essay": texts.take(300, after=programs.ASK_KIND)} for _ in range(runs)]
    requests = [
        request for number, each in enumerate(batch) for request in judgement(number, each["essay"])
    ]
    return Workload(name, programs.judge, batch, requests)


def judgement(number: int, essay: str) -> list[Request]:
    """Return the calls of one judge."""
    kind, summary = f"{number}.kind", f"{number}.summary"
    ask = (essay, programs.ASK_KIND)
    known = (*ask, Quote(kind), ".\n")
    views = [
        Request(
            f"{number}.{aspect}", (text(*known, f"In a few words, what of its {aspect}?\n"),), 64
        )
        for aspect in programs.ASPECTS
    ]
    merged: list[str | Quote] = []
    for aspect, view in zip(programs.ASPECTS, views, strict=True):
        merged += [f"On {aspect}: ", Quote(view.name, strip=True), "\n"]
    sum_up = (text(*known, *merged, "In sum:"),)
    grade = (*sum_up, Output(summary), text("\nFrom A to D, the grade is"))
    return [
        Request(kind, (text(*ask),), 12, is_fixed=False, choices=programs.KINDS),
        *views,
        Request(summary, sum_up, 128),
        Request(f"{number}.grade", grade, 4, is_fixed=False, regex=programs.GRADE),
    ]


MAKERS: dict[str, Callable[[str, Texts], Workload]] = {
    "check": lambda name, texts: completions(name, texts, 2, 32, 8),
    "a": lambda name, texts: completions(name, texts, 1, 128, 128),
    "b8": lambda name, texts: completions(name, texts, 8, 128, 128),
    "b32": lambda name, texts: completions(name, texts, 32, 128, 128),
    "c": lambda name, texts: completions(name, texts, 1, 2048, 1),
    "d1": lambda name, texts: questions(name, texts, 1),
    "d16": lambda name, texts: questions(name, texts, 16),
    "e": samples,
    "f": talks,
    "g": records,
    "gu": lambda name, texts: completions(name, texts, 16, 64, programs.RECORD_TOKENS),
    "h1": lambda name, texts: judges(name, texts, 1),
    "h8": lambda name, texts: judges(name, texts, 8),
    "h64": lambda name, texts: judges(name, texts, 64),
}


def build(name: str, texts: Texts) -> Workload:
    """Return a workload; texts of one `Texts` are never the same twice."""
    return MAKERS[name](name, texts)


def build_all(names: list[str] | None, texts: Texts) -> dict[str, Workload]:
    """Return workloads by name, by default all; their texts do not depend on `names`."""
    made = {name: build(name, texts) for name in MAKERS}
    return {name: made[name] for name in names or made}
