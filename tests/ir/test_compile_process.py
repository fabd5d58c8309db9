"""Constraints compiled by other processes: the same meaning, and an end to what does not end."""

import itertools
import os
import resource
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from constraint_scoring import COLLECTIONS
from pattern_scoring import DATA, PATTERNS

from lmc.codegen.target import oracle_target
from lmc.errors import ArtifactError, ConstraintError
from lmc.ir.automata import compile_regex
from lmc.ir.calls import Constraint
from lmc.ir.grammar import Network, network_from_bytes, network_to_bytes, tags_source
from lmc.ir.json_schema import schema_source
from lmc.ir.languages import finding, forget_languages
from lmc.ir.languages.compiling import (
    compile_here,
    compile_small,
    language_from_bytes,
    language_to_bytes,
)
from lmc.ir.languages.process import CompilationLost, CompileProcesses
from lmc.runtime.constraint import ConstraintCache
from lmc.runtime.constraint.grammar import safe_states

TOKENIZER = oracle_target().tokenizer
SECONDS = 60.0
SLOW = Constraint("regex", "(a|b)*a" + "(a|b)" * 80)
"""It is refused, after a second or more."""

NETWORKS = [
    Constraint("ebnf", 'root ::= "" | "(" root ")" | [a-z]+ root'),
    Constraint("ebnf", "start: expr\nexpr: expr /[-+]/ expr | NUMBER\n%import common.NUMBER\n"),
    Constraint("json_schema", '{"type":"array","items":{"$ref":"#"}}'),
    Constraint(
        "tags",
        tags_source(
            [
                {"begin": "<n>", "regex": "[0-9]+", "end": "</n>"},
                {"begin": {"control": "<|end|>"}, "json_schema": {"type": "boolean"}},
            ]
        ),
    ),
]
WRONG = [
    Constraint("regex", "a(b"),
    Constraint("regex", r"(.)\1"),
    Constraint("regex", "a\ud800[^\\W\\w]"),
    Constraint("regex", "(" * 300 + "a" + ")" * 300),
    Constraint("json_schema", '{"items":{"type":"objekt"}}'),
    Constraint("json_schema", '{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a"}}}'),
    Constraint("json_schema", '{"allOf":[{"type":"string"},{"type":"null"}]}'),
    Constraint("ebnf", 'root ::= "a" other\n'),
    Constraint("tags", '{"tags":[]}'),
    Constraint("sql", "select"),  # type: ignore[arg-type]
]


@pytest.fixture(autouse=True)
def _nothing_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMC_CONSTRAINT_CACHE", "off")
    forget_languages()


@pytest.fixture(scope="module")
def processes() -> Iterator[CompileProcesses]:
    """Give processes for all tests of this module."""
    found = CompileProcesses(1)
    yield found
    found.close()


def outcome(compiling, constraint: Constraint) -> object:
    """Return what a compilation gives, in a form that can be compared."""
    try:
        return language_to_bytes(compiling(constraint))
    except ConstraintError as error:
        return error.message, error.hint, error.pointer, error.position, str(error)


def check_alike(processes: CompileProcesses, constraints: list[Constraint]) -> int:
    """Compile both ways; return how many were refused."""
    refused = 0
    for constraint in constraints:
        here = outcome(compile_here, constraint)
        there = outcome(lambda c: language_from_bytes(processes.compile(c, SECONDS)), constraint)
        assert here == there, constraint.source
        refused += isinstance(here, tuple)
    return refused


def test_networks_and_refusals_are_those_of_this_process(processes: CompileProcesses) -> None:
    assert check_alike(processes, NETWORKS) == 0
    assert check_alike(processes, WRONG) == len(WRONG)


@pytest.mark.skipif(not DATA.is_dir(), reason=f"the collections are not at {DATA}")
@pytest.mark.filterwarnings("ignore:Possible (nested set|set):FutureWarning")
@pytest.mark.parametrize(
    ("patterns", "schemas"), [(30, 150), pytest.param(3, 9, marks=pytest.mark.long)]
)
def test_samples_are_compiled_alike(
    processes: CompileProcesses, patterns: int, schemas: int
) -> None:
    found = [
        Constraint("regex", p) for p in itertools.islice(PATTERNS["regex"](), 5, None, patterns)
    ]
    for group in COLLECTIONS["bench"]()[7::schemas]:
        found.append(Constraint("json_schema", schema_source(group.schema)))
    for group in COLLECTIONS["suite"]()[3 :: schemas // 2]:
        found.append(Constraint("json_schema", schema_source(group.schema)))
    assert check_alike(processes, found) < len(found) / 2


def test_a_network_is_read_as_it_was_written() -> None:
    for constraint in NETWORKS:
        network = compile_here(constraint)
        assert isinstance(network, Network)
        again = network_from_bytes(network_to_bytes(network))
        for name in ("table", "classes", "accepting", "calls", "starts", "ranks"):
            one, other = getattr(network, name), getattr(again, name)
            assert one.dtype == other.dtype
            assert np.array_equal(one, other)
        for name in ("controls", "may_be_empty"):
            assert getattr(network, name) == getattr(again, name), name


def test_every_state_of_a_network_leads_to_an_end() -> None:
    for constraint in NETWORKS:
        network = compile_here(constraint)
        assert isinstance(network, Network)
        assert safe_states(network, np.ones(network.table.shape[1], dtype=bool)).all()


def test_damaged_languages_are_told() -> None:
    for language in (compile_here(NETWORKS[1]), compile_regex("a+b")):
        data = language_to_bytes(language)
        for wrong in (b"", data[:-1], data[:20], data[:60] + b"\xff" + data[61:], b"LMC" + data):
            with pytest.raises(ArtifactError):
                language_from_bytes(wrong)


def test_networks_are_refused_for_every_byte_that_is_wrong() -> None:
    data = network_to_bytes(compile_here(NETWORKS[3]))  # type: ignore[arg-type]
    for at in range(0, len(data), 3):
        with pytest.raises(ArtifactError):
            network_from_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])


@pytest.mark.parametrize("place", [(0, 10**6), (1, 10**6), (2, -5)])
def test_networks_that_name_what_is_not_there_are_refused(place: tuple[int, int]) -> None:
    network = compile_here(NETWORKS[0])
    assert isinstance(network, Network)
    calls = network.calls.copy()
    calls[-1, place[0]] = place[1]
    with pytest.raises(ArtifactError, match="do not fit"):
        network_from_bytes(network_to_bytes(replace(network, calls=calls)))


def test_small_constraints_start_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "processes", None)
    limits = ConstraintCache(TOKENIZER)
    schema = schema_source({"type": "object", "properties": {"a": {"enum": ["x", "y"]}}})
    found = [Constraint("regex", "[a-c]+-[0-9]{4}"), Constraint("json_schema", schema)]
    for constraint in found:
        compile_small(constraint)  # tables that all constraints share are built by the first one
        assert limits.get(constraint).matcher()
    with pytest.raises(ConstraintError, match="back-reference"):
        limits.get(WRONG[1])


def test_a_small_source_may_need_a_process() -> None:
    begun = time.thread_time()
    assert compile_small(Constraint("regex", "(a|b)*a" + "(a|b)" * 40)) is None
    assert time.thread_time() - begun < 1.0


def test_what_is_late_is_killed_and_others_are_served() -> None:
    processes = CompileProcesses(1)
    try:
        one = language_from_bytes(processes.compile(NETWORKS[0], SECONDS))
        (worker,) = processes._idle
        with pytest.raises(CompilationLost, match=r"not compiled within 0\.2 s"):
            processes.compile(SLOW, 0.2)
        with pytest.raises(ProcessLookupError):
            os.kill(worker.pid, 0)
        assert not processes._idle
        again = language_from_bytes(processes.compile(NETWORKS[0], SECONDS))
        assert language_to_bytes(one) == language_to_bytes(again)
    finally:
        processes.close()


def test_whoever_waits_for_a_process_is_late_too() -> None:
    processes = CompileProcesses(1)
    try:
        processes.compile(NETWORKS[0], SECONDS)
        with ThreadPoolExecutor(1) as pool:
            slow = pool.submit(processes.compile, SLOW, SECONDS)
            while not processes._busy:
                time.sleep(0.001)
            with pytest.raises(CompilationLost, match=r"not compiled within 0\.1 s"):
                processes.compile(NETWORKS[0], 0.1)
            (worker,) = processes._busy
            worker.stop()
            assert isinstance(slow.exception(), CompilationLost)
    finally:
        processes.close()


def test_a_process_that_dies_harms_one_constraint(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = CompileProcesses(2)
    monkeypatch.setattr(finding, "processes", processes)
    limits = ConstraintCache(TOKENIZER)
    schema = Constraint(
        "json_schema", schema_source({"enum": [f"value {number}" for number in range(300)]})
    )
    try:
        with ThreadPoolExecutor(2) as pool:
            slow = pool.submit(limits.get, SLOW)
            while not processes._busy:
                time.sleep(0.001)
            (worker,) = processes._busy
            assert limits.get(schema).matches(b'"value 7"')
            os.kill(worker.pid, signal.SIGKILL)
            error = slow.exception()
        assert isinstance(error, ConstraintError)
        assert "ended by signal 9" in error.message
        assert error.hint
        assert len(limits) == 1, "it may be compiled the next time"
    finally:
        processes.close()


def test_memory_is_limited() -> None:
    processes = CompileProcesses(1)
    try:
        processes.compile(NETWORKS[0], SECONDS)
        (worker,) = processes._idle
        with open(f"/proc/{worker.pid}/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        assert resource.prlimit(worker.pid, resource.RLIMIT_AS)[0] < 2**32
        resource.prlimit(worker.pid, resource.RLIMIT_AS, (used + 2**20, used + 2**20))
        with pytest.raises(ConstraintError, match=r"needs more than .* MiB of memory"):
            processes.compile(SLOW, SECONDS)
        assert processes.compile(NETWORKS[0], SECONDS), "by another process"
    finally:
        processes.close()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_processes_of_its_own(processes: CompileProcesses) -> None:
    wanted = processes.compile(NETWORKS[0], SECONDS)
    (worker,) = processes._idle
    child = os.fork()
    if not child:
        try:
            processes.after_fork()
            found = processes.compile(NETWORKS[0], SECONDS)
            processes.close()
            os._exit(0 if found == wanted else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert processes.compile(NETWORKS[0], SECONDS) == wanted
    assert [each.pid for each in processes._idle] == [worker.pid]


def test_threads_share_the_processes() -> None:
    processes = CompileProcesses(2)
    sources = [f"[a-{chr(98 + n)}]{{1,70}}" for n in range(12)]
    seen: dict[str, bytes] = {}

    def work(source: str) -> None:
        seen[source] = processes.compile(Constraint("regex", source), SECONDS)

    try:
        threads = [threading.Thread(target=work, args=(source,)) for source in sources]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert 1 <= len(processes._idle) <= 2
        assert seen == {source: compile_regex(source).to_bytes() for source in sources}
    finally:
        processes.close()
