"""What an engine tells of itself: times of calls, Prometheus text, and trace files."""

import itertools
import json
import math
import os
import re
import subprocess
import sys
import textwrap
import time

import pytest

import lmc
from lmc.errors import UsageError
from lmc.runtime import tracing
from lmc.runtime.engine.metrics import Histogram
from lmc.runtime.oracle import Oracle
from lmc.runtime.tracing import active_trace


@lmc.function
def branching(s):
    s += "the abc then 12 and "
    branches = s.fork(3)
    for i, branch in enumerate(branches):
        branch += f"{i}: " + lmc.gen("x", max_tokens=12, ignore_eos=True)
    branches.join()
    s += lmc.select("which", ["one", "two"])
    return [branch["x"] for branch in branches]


# -- times of calls ----------------------------------------------------------------------------


class Paced:
    """Slows a fake model's steps down by given seconds, the last one for all that follow."""

    def __init__(self, *seconds):
        self.seconds = list(seconds)

    def __call__(self, batch):
        time.sleep(self.seconds.pop(0) if len(self.seconds) > 1 else self.seconds[0])


def test_a_calls_times_are_those_of_its_steps(fakes):
    model = fakes.FakeModel(before_forward=Paced(0.05, 0.0, 0.08, 0.0))
    with fakes.make_engine(model) as engine:
        call = fakes.gen(range(3, 20), max_tokens=6, ignore_eos=True)
        (usage,) = [result.usage for result in fakes.run_all(engine, [call])]
    assert 0 <= usage.queue_seconds <= usage.first_token_seconds - 0.05
    assert usage.longest_gap_seconds >= 0.08
    assert usage.decode_seconds >= usage.longest_gap_seconds
    assert math.isclose(usage.mean_gap_seconds, usage.decode_seconds / 5)
    assert usage.first_token_seconds + usage.decode_seconds <= usage.total_seconds


def test_a_call_that_waits_for_room_tells_so(fakes):
    model = fakes.FakeModel(before_forward=Paced(0.01))
    with fakes.make_engine(model, max_running=1) as engine:
        calls = [fakes.gen((5, n), max_tokens=8, ignore_eos=True) for n in range(3, 6)]
        waits = sorted(result.usage.queue_seconds for result in fakes.run_all(engine, calls))
    assert waits[1] >= 0.06
    assert waits[2] >= 2 * 0.06


def test_a_run_and_its_summary_tell_times(fakes):
    from lmc.summary import summary_lines, usage_dict

    model = fakes.FakeModel(before_forward=Paced(0.004))
    with fakes.make_engine(model) as engine:
        result = branching.run(backend=engine, seed=1)
    usages = [call.result.usage for call in result.calls]
    told = result.usage
    assert told.longest_gap_seconds == max(u.longest_gap_seconds for u in usages)
    assert told.longest_queue_seconds == max(u.queue_seconds for u in usages)
    assert told.num_gaps == 3 * 11
    assert math.isclose(told.mean_gap_seconds, sum(u.decode_seconds for u in usages) / 33)
    assert told.mean_gap_seconds >= 0.004
    text = "\n".join(summary_lines("branching", [result], 1.0))
    assert re.search(r"between tokens +0\.\d{3} s, 0\.\d{3} s at most", text)
    assert re.search(r"queued +\d+\.\d{3} s at most", text)
    assert usage_dict([result])["mean_gap_seconds"] == told.mean_gap_seconds


# -- Prometheus --------------------------------------------------------------------------------

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(rf"({NAME})(?:\{{le=\"([^\"]*)\"\}})? (\S+)")


def parsed(text):
    """Parse the exposition format strictly; return kinds, and values by (name, le)."""
    assert text.endswith("\n")
    kinds, values, described, current = {}, {}, set(), None
    for line in text.removesuffix("\n").split("\n"):
        if found := re.fullmatch(rf"# HELP ({NAME}) (\S.*)", line):
            assert found[1] not in described
            described.add(found[1])
        elif found := re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge|histogram)", line):
            current = found[1]
            assert current in described
            assert current not in kinds
            kinds[current] = found[2]
        else:
            found = SAMPLE.fullmatch(line)
            assert found, line
            suffixes = ("_bucket", "_sum", "_count") if kinds[current] == "histogram" else ("",)
            assert found[1] in [current + suffix for suffix in suffixes]
            assert (found[2] is not None) == found[1].endswith("_bucket")
            assert found.group(1, 2) not in values
            values[found.group(1, 2)] = float(found[3])
    assert kinds.keys() == described
    return kinds, values


def check_histograms(kinds, values):
    for name in [name for name, kind in kinds.items() if kind == "histogram"]:
        buckets = [
            (float(le), count) for (of, le), count in values.items() if of == name + "_bucket"
        ]
        assert buckets == sorted(buckets), "cumulative, in order"
        assert buckets[-1] == (math.inf, values[name + "_count", None])
        assert name.endswith(("_seconds", "_tokens"))


def test_metrics_are_valid_and_count_what_was_done(fakes):
    with fakes.make_engine() as engine:
        kinds, fresh = parsed(engine.metrics_text())
        assert {value for key, value in fresh.items() if key[0].endswith("_total")} == {0.0}
        branching.run(backend=engine, seed=1)
        stats = engine.stats()
        kinds, values = parsed(engine.metrics_text())
    check_histograms(kinds, values)
    for name, kind in kinds.items():
        assert name.startswith("lmc_")
        assert name.endswith("_total") == (kind == "counter")
    for name in ("requests", "output_tokens", "cached_tokens", "computed_tokens", "engine_steps"):
        assert values[f"lmc_{name}_total", None] == getattr(stats, name) > 0
    assert values["lmc_step_tokens_count", None] == stats.engine_steps
    assert values["lmc_step_tokens_sum", None] == stats.forward_tokens
    assert values["lmc_request_seconds_count", None] == 4
    assert values["lmc_time_between_tokens_seconds_count", None] == 3 * 11
    assert values["lmc_kv_slots", None] == 4096
    assert values["lmc_kv_slots_free", None] + values["lmc_kv_slots_cached", None] == 4096
    assert values["lmc_running_sequences", None] == values["lmc_exact", None] == 0


def test_a_bucket_holds_its_bound():
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 7.25):
        histogram.observe(value)
    assert histogram.lines("x") == [
        'x_bucket{le="1"} 2', 'x_bucket{le="2"} 4', 'x_bucket{le="+Inf"} 5', "x_sum 12.25",
        "x_count 5",
    ]  # fmt: skip


# -- traces ------------------------------------------------------------------------------------


def events_of(path):
    """Read a trace and check what every viewer needs; return its events."""
    whole = json.loads(path.read_text(encoding="utf-8"))
    assert whole["otherData"] == {"dropped_records": 0}
    open_spans = {}
    for event in whole["traceEvents"]:
        assert event["ph"] in ("M", "X", "C", "b", "e")
        assert isinstance(event["pid"], int)
        if event["ph"] == "M":
            continue
        assert event["ts"] >= 0
        if event["ph"] in "be":
            stack = open_spans.setdefault((event["cat"], event["id"]), [])
            if event["ph"] == "b":
                stack.append(event)
            else:
                begun = stack.pop() if event["name"] == stack[-1]["name"] else stack.pop(0)
                assert begun["name"] == event["name"]
                assert begun["ts"] <= event["ts"]
    assert not any(open_spans.values()), "every span has an end"
    return whole["traceEvents"]


def named(events, group, phase):
    return [e for e in events if e["pid"] == group and e["ph"] == phase]


@pytest.mark.parametrize("mode", ["compiled", "eager"])
def test_a_trace_holds_steps_requests_and_calls(fakes, tmp_path, mode):
    path = tmp_path / "run.json"
    with fakes.make_engine(token_budget=16) as engine:
        with lmc.trace(path) as trace:
            assert active_trace() is trace
            branching.run(backend=engine, seed=1, mode=mode)
        assert active_trace() is None
        stats = engine.stats()
        branching.run(backend=engine, seed=2, mode=mode)  # leaves no mark
    events = events_of(path)
    steps = named(events, tracing.STEPS, "X")
    assert len(steps) == stats.engine_steps
    tokens = [step["args"]["prefill tokens"] + step["args"]["decode tokens"] for step in steps]
    assert sum(tokens) == stats.forward_tokens
    assert steps[0]["args"]["decode tokens"] == 0
    assert max(step["args"]["decoding"] for step in steps) == 3
    assert all(a["ts"] + a["dur"] <= b["ts"] + 0.2 for a, b in itertools.pairwise(steps))
    line = branching.func.__code__.co_firstlineno
    calls = named(events, tracing.PROGRAMS, "b")
    assert [call["name"].partition("@")[0] for call in calls].count("x") == 3
    for call in calls:
        expected = line + (5 if call["name"].startswith("x@") else 7)
        assert f"test_observability.py:{expected}:" in call["args"]["line"]
        assert call["args"]["program"].endswith(":branching")
    requests = named(events, tracing.REQUESTS, "b")
    whole = [e for e in requests if "outcome" in e["args"]]
    assert sum(e["args"].get("output_tokens", 0) for e in whole) == 3 * 12
    assert sum(e["args"].get("cached_tokens", 0) for e in whole) > 0
    assert (
        sorted(e["args"]["outcome"] for e in whole if e["name"].startswith("x@")) == ["length"] * 3
    )
    assert {e["name"] for e in requests if e not in whole} == {"queued", "prefill", "decode"}


def test_requests_that_fail_or_are_cancelled_are_told(fakes, tmp_path):
    path = tmp_path / "run.json"
    with lmc.trace(path):
        engine = fakes.make_engine(num_slots=64)
        waiter = fakes.Waiter()
        engine.submit_gen(fakes.gen(range(3, 60), max_tokens=50), waiter)
        assert isinstance(waiter.outcome(), lmc.errors.EngineError)
        engine.submit_gen(fakes.gen((5, 6), max_tokens=60, ignore_eos=True), fakes.Waiter())
        engine.close()
    outcomes = [e["args"].get("outcome", "") for e in named(events_of(path), tracing.REQUESTS, "b")]
    assert [text for text in outcomes if text.startswith("failed: the request may need")]
    assert "cancelled" in outcomes or "length" in outcomes


def test_only_one_trace_at_a_time_and_only_where_it_can_be_written(tmp_path):
    with lmc.trace(tmp_path / "a.json"):
        with pytest.raises(UsageError, match=r"a trace is being written to .*a\.json"):
            lmc.trace(tmp_path / "b.json").__enter__()
        assert active_trace() is not None
    with pytest.raises(UsageError, match="cannot write the trace"):
        lmc.trace(tmp_path).__enter__()
    assert active_trace() is None


def test_memory_is_bounded_and_what_is_left_out_is_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(tracing, "MOST_WAITING", 5)
    monkeypatch.setattr(tracing, "FLUSH_SECONDS", 60.0)
    path = tmp_path / "run.json"
    with lmc.trace(path) as trace:
        for number in range(8):
            trace.add(tracing.call_events, f"x@f.py:{number}", 1, "p", 0.0, 1.0)
    whole = json.loads(path.read_text())
    assert whole["otherData"] == {"dropped_records": 3}
    assert len(named(whole["traceEvents"], tracing.PROGRAMS, "b")) == 5


class FullDisk:
    """A file that cannot take anything more."""

    def __init__(self, file):
        self._file = file
        self.seek = self.flush = lambda *_: None
        self.close = file.close

    def write(self, data):
        raise OSError(28, "No space left on device")


def test_a_trace_that_cannot_be_written_further_is_told(tmp_path):
    trace = lmc.trace(tmp_path / "run.json").__enter__()
    trace._file = FullDisk(trace._file)
    trace.add(tracing.call_events, "x@f.py:1", 1, "p", 0.0, 1.0)
    with pytest.raises(UsageError, match="ends early: No space left"):
        trace.__exit__(None, None, None)
    assert active_trace() is None


def at_one_moment(path):
    """The file in one read: `read_bytes` goes on behind what was the end, if it grew meanwhile."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 10**7)
    finally:
        os.close(descriptor)


def test_the_file_is_whole_while_it_grows(tmp_path, monkeypatch):
    monkeypatch.setattr(tracing, "FLUSH_SECONDS", 0.001)
    path = tmp_path / "run.json"
    with lmc.trace(path) as trace:
        for number in range(200):
            trace.add(tracing.call_events, f"x@f.py:{number}", 1, "p", 0.0, 1.0)
            time.sleep(0.0005)
            json.loads(at_one_moment(path))
    assert len(named(events_of(path), tracing.PROGRAMS, "b")) == 200


def test_after_a_kill_the_file_can_be_read(tmp_path):
    path = tmp_path / "run.json"
    body = f"""
        import os, time, lmc
        from lmc.runtime import tracing
        with lmc.trace({str(path)!r}) as trace:
            trace.add(tracing.call_events, "x@f.py:1", 1, "p", 0.0, 1.0)
            time.sleep(3 * tracing.FLUSH_SECONDS)
            os.kill(os.getpid(), 9)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(body)], check=False)
    assert len(named(events_of(path), tracing.PROGRAMS, "b")) == 1


def test_ctrl_c_leaves_a_whole_file(tmp_path):
    path = tmp_path / "run.json"
    with pytest.raises(KeyboardInterrupt), lmc.trace(path):
        raise KeyboardInterrupt
    assert active_trace() is None
    events_of(path)


def test_the_oracle_is_traced_too(tmp_path):
    path = tmp_path / "run.json"
    with lmc.trace(path):
        branching.run(backend=Oracle(), seed=1)
    calls = named(events_of(path), tracing.PROGRAMS, "b")
    assert len(calls) == 4
