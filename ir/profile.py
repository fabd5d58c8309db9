"""Profiles: what recorded runs took, by the place in the source; as objects and as JSON.

A profile never changes what a program means. Passes read it for what is likely (which arm of a
branch, how long a generation), drawings show it. docs/profile.md describes the file.
"""

import json
import re
import threading
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmc.errors import UsageError
from lmc.ir.calls import CallUsage
from lmc.ir.location import Location

VERSION = 1
SECONDS = ("queue", "first_token", "total")
SITE_OPS = ("lm.gen", "lm.select")
MODEL_COUNTS = ("calls", "prompt_tokens", "cached_tokens")
_PLACE = re.compile(r"(.*?)(?::([0-9]{1,9}):([0-9]{1,9}))?", re.DOTALL)
SPECULATION = ("speculated", "adopted", "wasted")

Place = tuple[int, int]
"""Line and column."""


@dataclass(slots=True, kw_only=True)
class Site:
    """The model calls that one place of the source made.

    Attributes:
        at: the place, as 'file:line:column'.
        op: lm.gen or lm.select.
        name: the program's name for the call; "" for an unnamed one.
        calls: answers; each of n samples counts.
        prompt_tokens: tokens of the contexts, over all calls.
        cached_tokens: of these, found in the cache: shared.
        output_tokens: tokens generated, over all calls.
        output_min: the fewest that one call gave.
        output_max: the most.
        seconds: over all calls, from submission: until the start, the first token, the end.
    """

    at: str
    op: str
    name: str
    calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    output_min: int = 0
    output_max: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(SECONDS, 0.0))

    @property
    def output_mean(self) -> float:
        """Tokens per call."""
        return self.output_tokens / self.calls if self.calls else 0.0

    def add(self, other: "Site") -> None:
        """Count the calls of another record of this place too."""
        counts = [site.output_min for site in (self, other) if site.calls]
        self.output_min = min(counts, default=0)
        self.output_max = max(self.output_max, other.output_max)
        for name in (*MODEL_COUNTS, "output_tokens"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in SECONDS:
            self.seconds[name] += other.seconds[name]

    def as_data(self) -> dict[str, Any]:
        """Return the site as the file has it."""
        return {
            "at": self.at,
            "op": self.op,
            "name": self.name,
            **{name: getattr(self, name) for name in MODEL_COUNTS},
            "output_tokens": {
                "min": self.output_min,
                "mean": round(self.output_mean, 3),
                "max": self.output_max,
                "total": self.output_tokens,
            },
            "seconds": {name: round(self.seconds[name], 6) for name in SECONDS},
        }


@dataclass(slots=True, kw_only=True)
class BranchCount:
    """How often each arm of a `cf.if` was taken.

    Several branches may stand at one place (the cases of a `match`); `test` is the place of
    the op that made the condition, "" where there is none.
    """

    at: str
    test: str
    taken: list[int] = field(default_factory=lambda: [0, 0])

    def as_data(self) -> dict[str, Any]:
        """Return the branch as the file has it."""
        return {"at": self.at, "op": "cf.if", "test": self.test, "taken": list(self.taken)}


class Profile:
    """What runs took; give one to `run` or `run_batch` and they add to it, from any thread.

    Example:
        profile = lmc.Profile()
        judge.run_batch(essays, profile=profile)
        profile.save("run.json")
    """

    def __init__(self, program: str = "") -> None:
        self.program = program
        self.runs = 0
        self.sites: dict[tuple[str, str, str], Site] = {}
        self.branches: dict[tuple[str, str], BranchCount] = {}
        self.speculation = dict.fromkeys(SPECULATION, 0)
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<profile of {self.program or 'no program'}: {self.runs} runs>"

    # -- recording ---------------------------------------------------------------------------

    def note_call(self, place: Location | None, op: str, name: str, usage: CallUsage) -> None:
        """Count an answered call."""
        made = Site(
            at=str(place or ""),
            op=op,
            name=name,
            calls=1,
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            output_tokens=usage.output_tokens,
            output_min=usage.output_tokens,
            output_max=usage.output_tokens,
            seconds={each: getattr(usage, f"{each}_seconds") for each in SECONDS},
        )
        with self._lock:
            self.add_site(made)

    def note_branch(self, place: Location | None, test: Location | None, is_first: bool) -> None:
        """Count a branch that was taken."""
        with self._lock:
            self.branch(str(place or ""), str(test or "")).taken[0 if is_first else 1] += 1

    def note_run(self, speculation: Mapping[str, int] | None = None) -> None:
        """Count a run that has ended, with the tokens that it computed ahead of choices."""
        with self._lock:
            self.runs += 1
            for name in SPECULATION if speculation is not None else ():
                self.speculation[name] += speculation[name]

    def merge(self, other: "Profile") -> None:
        """Count the runs of another profile too."""
        with self._lock:
            self.program = self.program or other.program
            self.runs += other.runs
            for site in other.sites.values():
                self.add_site(site)
            for branch in other.branches.values():
                taken = self.branch(branch.at, branch.test).taken
                taken[:] = [mine + more for mine, more in zip(taken, branch.taken, strict=True)]
            for name in SPECULATION:
                self.speculation[name] += other.speculation[name]

    def add_site(self, site: Site) -> None:
        """Count the calls of a place; the caller holds the lock, or the only reference."""
        key = (site.at, site.op, site.name)
        known = self.sites.get(key)
        if known is None:
            known = self.sites[key] = Site(at=site.at, op=site.op, name=site.name)
        known.add(site)

    def branch(self, at: str, test: str) -> BranchCount:
        """Return the counts of a branch, made when they are first asked for."""
        return self.branches.setdefault((at, test), BranchCount(at=at, test=test))

    # -- reading -----------------------------------------------------------------------------

    def taken(self, place: Location | None, test: Location | None) -> tuple[int, int]:
        """Return how often the arms of a branch were taken."""
        found = self.branches.get((str(place or ""), str(test or "")))
        return (found.taken[0], found.taken[1]) if found is not None else (0, 0)

    def site(self, place: Location | None, op: str, name: str) -> Site | None:
        """Return the record of a call's place."""
        return self.sites.get((str(place or ""), op, name))

    def took(self, places: Container[str] | None = None) -> dict[Place, str]:
        """Return in words what the calls and branches at each line and column took.

        `places` are those that count, as 'file:line:column'; all of them without it.
        """
        told: dict[Place, list[str]] = {}
        for site in sorted(self.sites.values(), key=lambda s: (sort_key(s.at), s.op, s.name)):
            if places is None or site.at in places:
                told.setdefault(sort_key(site.at)[1:], []).append(_site_words(site))
        for branch in sorted(self.branches.values(), key=lambda b: sort_key(b.at, b.test)):
            words = f"first arm {branch.taken[0]} times, second {branch.taken[1]}"
            if places is None or branch.at in places:
                told.setdefault(sort_key(branch.at)[1:3], []).append(words)
        return {place: "; ".join(words) for place, words in told.items() if place[0]}

    # -- files -------------------------------------------------------------------------------

    def as_data(self) -> dict[str, Any]:
        """Return the profile as the file has it, in an order that never varies."""
        sites = sorted(self.sites.values(), key=lambda s: (sort_key(s.at), s.op, s.name))
        branches = sorted(self.branches.values(), key=lambda b: sort_key(b.at, b.test))
        return {
            "version": VERSION,
            "program": self.program,
            "runs": self.runs,
            "sites": [site.as_data() for site in sites],
            "branches": [branch.as_data() for branch in branches],
            "speculation": dict(self.speculation),
        }

    def save(self, path: str | Path) -> None:
        """Write the profile as JSON; raises UsageError where that fails."""
        text = json.dumps(self.as_data(), indent=1) + "\n"
        try:
            Path(path).write_text(text, encoding="utf-8")
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise UsageError(f"cannot write {path}: {why}") from error


def check_profile(profile: object) -> None:
    """Raise UsageError for what is no profile."""
    if not isinstance(profile, Profile):
        raise UsageError(
            f"profile must be a lmc.Profile, not {profile!r:.80}",
            hint="read a file with lmc.read_profile",
        )


def sort_key(*places: str) -> tuple[Any, ...]:
    """Return file, line and column of places, one after another; 0 for what is no number."""
    parts: list[Any] = []
    for place in places:
        file, line, column = _PLACE.fullmatch(place).groups()  # type: ignore[union-attr]
        parts += [file, int(line or 0), int(column or 0)]
    return tuple(parts)


def _site_words(site: Site) -> str:
    calls = "1 call" if site.calls == 1 else f"{site.calls:,} calls"
    shared = f", {site.cached_tokens:,} shared" if site.cached_tokens else ""
    words = f"{calls}, {site.prompt_tokens:,} prompt tokens{shared}"
    if site.output_max:
        spread = f"{site.output_min}..{site.output_max}"
        words += f", {spread} output tokens, {site.output_mean:.1f} on average"
    return f"{words}, {site.seconds['total']:.2f} s" if site.seconds["total"] else words


def unknown_places(profile: Profile, known: Iterable[str]) -> list[str]:
    """Return the places that a profile has and a program has not, sorted."""
    listed = set(known)
    held = {site.at for site in profile.sites.values()}
    held |= {branch.at for branch in profile.branches.values()}
    return sorted(held - listed, key=sort_key)
