"""Any two events at any two places of a small run: every request ends once and owns nothing.

Three requests and a guess run on the fake executor of scheduler_driver.py, in a pool that is
too small for all. Who owns what is checked after every step and after every event. All pairs
are tried in the long run, a part of them always. Where the next step is chosen while one is in
flight, the same steps must come.
"""

import itertools

import pytest
from scheduler_driver import Driver, contents, reference

from lmc.runtime.engine.sequence import SequenceState
from lmc.runtime.guess import Guess

REQUESTS = [([1, 2, 3], 8), (list(range(30)), 4), ([*range(29), 77], 6)]
GUESSED = [60, 61, 62, 63]
STEPS = 12

TARGETS = ("abort", "finish", "preempt", "not a number")
"""Events that happen to one request."""

STEP_EVENTS = ("error", "not a number")
"""Events of a forward pass; all others come before it is planned, or while it runs."""

EVENTS = [(kind, target) for kind in TARGETS for target in range(len(REQUESTS))] + [
    ("evict", None), ("error", None), ("drop guess", None)
]  # fmt: skip

MOMENTS = [
    (step, place, event)
    for step in range(STEPS)
    for event in EVENTS
    for place in (("pass",) if event[0] in STEP_EVENTS else ("before", "inside"))
]

STRIDE = 97
"""Of all pairs of moments every so many-th is tried outside the long run."""


class Play:
    """One run with some events in it."""

    def __init__(self, moments, *, has_guess=True, is_ahead=False):
        self.moments = moments
        self.happened = 0
        self.plans = []
        self.driver = Driver(slots=64, budget=8, max_running=3, is_ahead=is_ahead)
        self.seqs = [self.driver.submit(prompt, count) for prompt, count in REQUESTS]
        self.guess = Guess(is_forced=True)
        self.guess_seq = self.driver.submit(GUESSED, 3, guess=self.guess)
        if not has_guess:
            self.drop_guess()

    def run(self):
        """Do all steps; check that everybody has ended once, right, and owns nothing."""
        driver = self.driver
        for step in range(60):
            self.act(step, "before")
            failed = self.failing(step)
            plan = driver.step(between=lambda step=step: self.act(step, "inside"), failed=failed)
            self.plans.append(contents(plan))
            self.end_failed(failed)
            for seq in driver.scheduler.guesses.take_dropped():
                driver.end(seq, "dropped")
            if not driver.scheduler.has_work:
                break
        self.drop_guess()
        assert driver.ended.keys() == {seq.serial for seq in (*self.seqs, self.guess_seq)}
        assert all(len(reasons) == 1 for reasons in driver.ended.values())
        driver.assert_clean()
        self.check_outputs()

    def act(self, step, place):
        for at, where, (kind, target) in self.moments:
            if (at, where) == (step, place):
                self.happen(kind, target)
                self.driver.check()

    def happen(self, kind, target):
        scheduler = self.driver.scheduler
        if kind == "evict":
            self.happened += self.driver.cache.flush() > 0
        elif kind == "drop guess":
            self.happened += not self.guess_seq.is_finished
            self.drop_guess()
        elif kind == "preempt":
            if self.seqs[target].state is SequenceState.RUNNING:
                scheduler.room.preempt(self.seqs[target])
                self.happened += 1
        elif not self.seqs[target].is_finished:
            self.driver.end(self.seqs[target], kind)
            self.happened += 1

    def drop_guess(self):
        """Give the guess up, as the executor does when another option was chosen."""
        if not self.guess_seq.is_finished:
            assert self.guess.drop()
            self.driver.end(self.guess_seq, "dropped")

    def failing(self, step):
        """Return whom the next pass fails: those of a step are known when it is planned."""
        failed = set()
        for at, where, (kind, target) in self.moments:
            if (at, where) == (step, "pass"):
                failed.update(self.seqs if kind == "error" else [self.seqs[target]])
                failed.update([self.guess_seq] if kind == "error" else [])
        return failed

    def end_failed(self, failed):
        """End those that the last pass has failed, if they had a part in it."""
        plan = self.driver.last_plan
        for part in plan.extends if plan is not None else ():
            if part.seq in failed and not part.seq.is_finished:
                self.driver.end(part.seq, "failed", keep_cache=False)
                self.happened += 1
                self.driver.check()

    def check_outputs(self):
        """What came out is what must come out, up to where a request was ended."""
        for seq, (prompt, count) in zip(self.seqs, REQUESTS, strict=True):
            output = self.driver.outputs[seq.serial]
            assert output == reference(prompt, count)[: len(output)]
            if self.driver.ended[seq.serial] == ["done"]:
                assert len(output) == count


def test_without_events_all_requests_end_within_the_steps_that_are_tried():
    play = Play([])
    play.run()
    assert 8 <= play.driver.steps <= STEPS
    assert all(play.driver.ended[seq.serial] == ["done"] for seq in play.seqs)


def test_one_event_at_any_place_leaves_nothing_behind():
    counts = dict.fromkeys([kind for kind, _ in EVENTS], 0)
    for moment in MOMENTS:
        play = Play([moment])
        play.run()
        counts[moment[2][0]] += play.happened > 0
    assert all(counts.values()), f"events that never happened: {counts}"


def test_two_events_at_any_two_places_leave_nothing_behind():
    happened = 0
    for pair in itertools.islice(itertools.combinations(MOMENTS, 2), 0, None, STRIDE):
        play = Play(pair)
        play.run()
        happened += play.happened > 0
    assert happened > 50, "events come to pass"


def check_ahead(moments):
    """Compare a run that chooses steps ahead with one in order; return how many, and came."""
    plain, ahead = (Play(moments, has_guess=False, is_ahead=each) for each in (False, True))
    plain.run()
    ahead.run()
    assert ahead.plans == plain.plans
    assert ahead.driver.ended == plain.driver.ended
    assert ahead.happened == plain.happened
    return ahead.driver.ahead.num_assumed, ahead.driver.ahead.num_taken


def test_events_while_a_step_is_in_flight_lead_to_the_steps_of_a_run_in_order():
    counts = [check_ahead([moment]) for moment in MOMENTS[::3]]
    pairs = itertools.islice(itertools.combinations(MOMENTS, 2), 0, None, 6 * STRIDE)
    counts += [check_ahead(pair) for pair in pairs]
    num_assumed, num_taken = (sum(column) for column in zip(*counts, strict=True))
    assert num_assumed - num_taken > 10, "events made steps void that were chosen ahead"
    assert num_taken > 2 * len(counts)


@pytest.mark.long
def test_all_pairs_of_events_in_flight_lead_to_the_steps_of_a_run_in_order():
    for pair in itertools.combinations_with_replacement(MOMENTS, 2):
        check_ahead(pair)


@pytest.mark.long
def test_all_pairs_of_events_leave_nothing_behind():
    for pair in itertools.combinations_with_replacement(MOMENTS, 2):
        Play(pair).run()
