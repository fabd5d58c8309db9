"""What the engine does with hints: who goes first, what is kept, what goes at once.

Also that no order, eviction or hint, however wrong, changes a result, leaks a slot, owns one
twice, or keeps a call waiting for ever.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmc.ir.calls import CallHint, SamplingParams
from lmc.runtime.engine import admission
from lmc.runtime.engine.core import EngineCore
from lmc.runtime.engine.generation import Generation
from lmc.runtime.engine.policy import Policy
from lmc.runtime.engine.sampler import TokenRules

ONE = {"max_tokens": 1, "temperature": 0.0, "ignore_eos": True}


class World:
    """A core that a test drives step by step; every step checks who owns what."""

    def __init__(self, fakes, *, slots=200, **options):
        policy = Policy(**{k: options.pop(k) for k in ("order", "eviction") if k in options})
        self.fakes, self.model = fakes, fakes.FakeModel()
        options = {"token_budget": 64, "max_running": 8, **options}
        self.core = EngineCore(self.model, num_slots=slots, policy=policy, **options)
        self.tokenizer = fakes.FakeTokenizer()
        self.rules = TokenRules(self.tokenizer, self.model.config.vocab_size)
        self.done = []

    def ask(self, context, hint=None, name="", **params):
        """Submit a generation; its name is listed in `done` when it ends."""
        call = self.fakes.gen(context, **{**ONE, **params})
        call = type(call)(call.context, SamplingParams(**{**ONE, **params}), hint=hint)
        request = Generation(
            call,
            lambda result: self.done.append((name, result)),
            None,
            tokenizer=self.tokenizer,
            rules=self.rules,
            vocab_size=self.model.config.vocab_size,
        )
        self.core.register(request)
        self.core.start(request)
        return request

    def run(self, limit=5000):
        """Step until nothing is left."""
        for _ in range(limit):
            if not self.core.has_work:
                return
            self.core.step()
            self.core.check()
        raise AssertionError("the engine does not come to an end")

    @property
    def names(self):
        """The names of the calls in the order in which they ended."""
        return [name for name, _ in self.done]

    def cached(self, context):
        """How much of a context is cached."""
        return self.core.cache.match_len(np.array(context, dtype=np.int32))

    def fill(self, count, start=60):
        """Compute some contexts that nobody knows of."""
        for index in range(count):
            self.ask([start + index % 19, 20 + index // 19] * 15)
            self.run()


def hint(run, number=0, before=0, context="unknown", result="unknown", remaining=0, tenant=""):
    return CallHint(
        run=run, program="p", before=before, number=number, context=context, result=result,
        remaining=remaining, tenant=tenant,
    )  # fmt: skip


PROMPT = list(range(3, 43))


def test_what_goes_on_is_kept_and_what_ends_goes_first(fakes):
    world = World(fakes)
    going, ending = [5, *PROMPT], [6, *PROMPT]
    world.ask(going, hint(1, 1, context="last", result="more"))
    world.ask(ending, hint(2, 2, context="last", result="none"))
    world.run()
    assert (world.cached(going), world.cached(ending)) == (41, 41)
    world.fill(9)
    assert (world.cached(going), world.cached(ending)) == (41, 0)


def test_without_hints_or_by_recency_the_oldest_goes(fakes):
    for options, is_hinted in (({"eviction": "recency"}, True), ({}, False)):
        world = World(fakes, **options)
        world.ask([5, *PROMPT], hint(1, 1, result="more") if is_hinted else None)
        world.run()
        world.fill(9)
        assert world.cached([5, *PROMPT]) == 0


def test_a_context_that_goes_on_is_kept_although_its_result_ends(fakes):
    world = World(fakes)
    world.ask(PROMPT, hint(1, 1, context="more", result="none"), max_tokens=8)
    world.run()
    world.fill(9)
    assert world.cached(PROMPT) == 40


def test_the_last_use_gives_back_what_the_call_before_left(fakes):
    world = World(fakes)
    world.ask(PROMPT, hint(1, 1, context="last", result="more"))
    world.run()
    assert world.core.cache.tree.held_len == 40
    world.ask([*PROMPT, 50], hint(1, 2, before=1, context="last", result="none"))
    world.run()
    assert world.core.cache.tree.held_len == 0


def test_the_end_of_a_run_gives_back_what_it_kept(fakes):
    world = World(fakes)
    world.ask(PROMPT, hint(1, 1, context="last", result="more"))
    world.run()
    world.core.scheduler.end_run(1)
    assert world.core.cache.tree.held_len == 0
    world.fill(9)
    assert world.cached(PROMPT) == 0


def test_what_another_run_found_cached_is_not_dead_when_it_ends(fakes):
    world = World(fakes)
    world.ask(PROMPT, hint(1, 1, context="last", result="more"))
    world.run()
    world.ask([*PROMPT, *[50] * 30], hint(2, 2, context="last", result="none"))
    world.run()
    assert (world.cached(PROMPT), world.core.cache.tree.held_len) == (40, 40)


def test_of_a_run_that_has_begun_the_longest_chain_goes_first(fakes):
    world = World(fakes, max_running=1)
    world.ask([*PROMPT, 50], hint(1, 1), name="begins")
    world.core.step()
    for number, remaining in ((2, 4), (3, 0), (4, 90), (5, 7)):
        world.ask([*PROMPT, 50 + number], hint(1, number, remaining=remaining), name=remaining)
    world.run()
    assert world.names == ["begins", 90, 7, 4, 0]


def test_new_runs_begin_by_the_trie_whatever_they_expect(fakes):
    world = World(fakes, max_running=1)
    for run, remaining in ((1, 4), (2, 0), (3, 90)):
        world.ask([*PROMPT, 50 + run], hint(run, run, remaining=remaining), name=run)
    world.run()
    assert world.names == [1, 2, 3]


def test_more_of_the_prompt_in_the_cache_counts_before_a_long_chain(fakes):
    world = World(fakes, max_running=1)
    world.ask(PROMPT, hint(1, 1), name="begins")
    world.core.step()
    world.ask([9, 9, 9], hint(1, 2, remaining=90), name="long")
    world.ask([*PROMPT, 50], hint(1, 3, remaining=1), name="cached")
    world.run()
    assert world.names == ["begins", "cached", "long"]


def test_what_a_waiting_call_needs_outlives_what_nobody_needs(fakes):
    world = World(fakes, max_running=1)
    world.ask(PROMPT)
    world.run()
    world.fill(2)
    world.ask([70] * 100, name="blocker", max_tokens=2)
    world.core.step()
    later = world.ask([*PROMPT, 9], name="later")
    world.run()
    assert world.names[-2:] == ["blocker", "later"]
    assert world.done[-1][1].usage.cached_tokens == 40
    assert later.is_done


def test_a_run_that_has_begun_goes_before_new_ones(fakes):
    world = World(fakes, max_running=1)
    world.ask(PROMPT, hint(7, 1, result="more"), name="first")
    world.run()
    world.ask([70] * 9, name="blocker", max_tokens=3)
    world.core.step()
    for run in (8, 9):
        world.ask([*PROMPT[:20], run], hint(run, run), name=f"new {run}")
    world.ask([2, 2], hint(7, 2, before=1), name="begun")
    world.run()
    assert world.names == ["first", "blocker", "begun", "new 8", "new 9"]


def begun_and_next(fakes, *, slots):
    """A world where run 1 goes on and asks nothing yet, and run 2 wants as much memory."""
    world = World(fakes, slots=slots)
    world.core.scheduler.room.may_wait = True
    world.ask([5, *PROMPT], hint(1, 1, context="last", result="more"), max_tokens=20)
    world.run()
    world.ask([6, *PROMPT], hint(2, 3, context="last", result="more"), "new", max_tokens=20)
    return world


def ask_what_is_due(world):
    first = [5, *PROMPT, 7]
    world.ask(first, hint(1, 2, 1, context="last", result="none"), "due", max_tokens=20)


def test_the_call_of_a_run_that_has_begun_is_waited_for(fakes):
    world = begun_and_next(fakes, slots=100)
    for _ in range(3):
        world.core.step()
        assert world.core.scheduler.room.is_waiting
        assert not world.core.scheduler.running
    ask_what_is_due(world)
    world.run()
    assert world.names == ["", "due", "new"]


def test_where_there_is_room_nothing_is_waited_for(fakes):
    world = begun_and_next(fakes, slots=400)
    world.run()
    assert world.names == ["", "new"]


def test_a_run_that_asks_nothing_for_too_long_is_waited_for_once(fakes):
    world = begun_and_next(fakes, slots=100)
    world.core.step()
    world.core.scheduler.foresight.await_no_longer()
    world.run()
    assert world.names == ["", "new"]
    ask_what_is_due(world)
    world.run()
    assert world.names == ["", "new", "due"]


def test_a_dropped_call_holds_nothing(fakes):
    world = World(fakes, max_running=1)
    world.ask(PROMPT)
    world.run()
    world.ask([70] * 9, max_tokens=3)
    world.core.step()
    waiting = world.ask([*PROMPT, 9], hint(1, 1))
    world.core.step()
    assert world.core.cache.tree.held_len == 40
    waiting.cancel(world.core)
    assert world.core.cache.tree.held_len == 0


def conversation(world, run, turn, contexts):
    """Ask the next turn of a conversation."""
    context = contexts[run] = [*contexts.get(run, [run % 40 + 3]), *range(10, 30 + run % 7)]
    number = 1000 * run + turn
    known = hint(run, number, number - 1 if turn else 0, "last", "more" if turn < 4 else "none")
    world.ask(context, known, name=(run, turn), max_tokens=4)


def forward_tokens(fakes, **options):
    """Hold twelve conversations of five turns in a pool of about half their size."""
    world = World(fakes, slots=700, **options)
    contexts = {}
    for run in range(1, 13):
        conversation(world, run, 0, contexts)
    for _ in range(20_000):
        if not world.core.has_work:
            break
        world.core.step()
        for (run, turn), result in world.done:
            contexts[run] = [*contexts[run], *result.token_ids]
            if turn < 4:
                conversation(world, run, turn + 1, contexts)
            else:
                world.core.scheduler.end_run(run)
        world.done.clear()
    world.core.check()
    assert not world.core.has_work
    return world.core.stats.forward_tokens, sum(map(len, contexts.values()))


def test_conversations_that_do_not_fit_are_held_one_after_another(fakes):
    planned, size = forward_tokens(fakes)
    plain, _ = forward_tokens(fakes, order="arrival", eviction="recency")
    assert size > 1300
    assert planned <= 1.05 * (size + 60)
    assert plain > 1.2 * planned


WORDS = {"context": ("last", "more", "unknown"), "result": ("none", "more", "unknown")}


@st.composite
def calls(draw):
    """Calls with any hints: also of runs that ended, of calls that never were."""
    made = []
    for number in range(draw(st.integers(1, 14))):
        stem = draw(st.integers(3, 5))
        context = [stem] * draw(st.integers(1, 25)) + draw(st.lists(st.integers(6, 9), max_size=8))
        known = None
        if draw(st.booleans()):
            known = hint(
                draw(st.integers(1, 4)),
                number,
                draw(st.integers(0, 14)),
                *(draw(st.sampled_from(words)) for words in WORDS.values()),
                tenant=draw(st.sampled_from(["", "a", "b"])),
            )
        made.append((context, known, draw(st.integers(1, 6)), draw(st.sampled_from("asce"))))
    return made


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    made=calls(), slots=st.sampled_from([45, 90, 400]), order=st.sampled_from(["plan", "random"])
)
def test_no_hint_changes_a_result_or_leaks_or_starves(fakes, made, slots, order):
    world = World(fakes, slots=slots, order=order, token_budget=16, max_running=3)
    expected = World(fakes, slots=4000, order="arrival", eviction="recency")
    for index, (context, known, size, action) in enumerate(made):
        world.ask(context, known, name=index, max_tokens=size)
        expected.ask(context, name=index, max_tokens=size)
        if action == "s":
            world.core.step()
            world.core.check()
        elif action == "e" and known is not None:
            world.core.scheduler.end_run(known.run)
        elif action == "c" and index % 3 == 2:
            world.run()
    world.run()
    expected.run()
    for number in range(5):
        world.core.scheduler.end_run(number)
    world.core.check()
    assert world.core.cache.tree.held_len == world.core.cache.tree.protected_len == 0
    texts = {name: result.token_ids for name, result in world.done}
    assert texts == {name: result.token_ids for name, result in expected.done}
    assert len(world.done) == len(made)


@pytest.mark.parametrize("seed", range(3))
def test_newcomers_without_end_do_not_starve_one_that_waits(fakes, seed):
    world = World(fakes, max_running=1)
    world.ask([seed + 3] * 30, name="poor")
    world.ask([40] * 30)
    for index in range(400):
        if "poor" not in world.names:
            world.ask([40] * 30 + [index % 30 + 3])
            world.core.step()
    assert "poor" in world.names


@pytest.mark.parametrize("kind", ["beyond the window", "since the last ordering"])
def test_what_has_no_place_in_the_order_yet_is_needed_last(fakes, monkeypatch, kind):
    """The prefix of a call that starts earlier outlives that of one that came later."""
    world = World(fakes, max_running=1)
    earlier, later = [5, *PROMPT], [6, *PROMPT]
    world.ask([70] * 20, hint(7, 1, result="more"))
    for context in (earlier, later):  # the later one's prefix was used last
        world.ask(context)
        world.run()
    if kind == "beyond the window":
        monkeypatch.setattr(admission, "WINDOW", 2)
    world.ask([70] * 30, hint(7, 2, before=1), name="blocker", max_tokens=120)
    world.ask([*earlier, 9], name="earlier")
    if kind == "since the last ordering":
        world.core.step()
    world.ask([*later, 9], name="later")
    world.run()
    assert world.names[-3:] == ["blocker", "earlier", "later"]
    used = {name: result.usage.cached_tokens for name, result in world.done}
    assert used["earlier"] == 41
    assert used["later"] < 41
