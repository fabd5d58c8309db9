"""Work ahead of choices: on, off and forced wrong give the same; waste stays within its bound."""

import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from manual_backend import Background, ManualBackend, executor_of, module_of

from lmc.errors import Cancelled, UsageError
from lmc.passes.pipeline import PassManager
from lmc.runtime.engine.core import EngineCore
from lmc.runtime.engine.generation import Generation
from lmc.runtime.engine.ledger import MAX_SAVED, MAX_WASTE, Ledger
from lmc.runtime.engine.prefilling import Prefilling
from lmc.runtime.engine.sampler import TokenRules
from lmc.runtime.guess import Guess

CHOICE = """
    %s: state = lm.prompt
    %a: text = val.const {value = "Is it a sum? "}
    %s_1: state = lm.extend %s, %a
    %o: list<text> = val.const {value = ["sum", "word"]}
    %s_2: state, %k: text, %m: meta = lm.select %s_1, %o {name = "k", params = {}, dynamic = []}
    %e_1: effect, %r: py = host.call %effect, %k {callee = "m:note"}
    %t: text = val.const {value = "sum"}
    %c: py = val.compare %k, %t {op = "=="}
    %b: bool = val.truth %c
    %s_3: state, %v: text = cf.if %b {taken = [9, 1]} {
      %x: text = val.const {value = ". Add the numbers one by one: "}
      %s_4: state = lm.extend %s_2, %x
      %s_5: state, %w: text, %m_1: meta = lm.gen %s_4 {name = "w", params = {max_tokens = 8}, dynamic = []}
      cf.yield %s_5, %w
    } {
      %y: text = val.const {value = ". Say it in other words: "}
      %s_6: state = lm.extend %s_2, %y
      %s_7: state, %w_1: text, %m_2: meta = lm.gen %s_6 {name = "w", params = {max_tokens = 8}, dynamic = []}
      cf.yield %s_7, %w_1
    }
    %e_2: effect, %r_1: py = host.call %e_1, %v {callee = "m:note"}
    func.return %e_2, %s_3, %v
"""  # noqa: E501


class GuessingManual(ManualBackend):
    """A backend that is answered by hand and takes guesses."""

    takes_guesses = True

    def submit_gen(self, call: Any, on_done: Any, on_text: Any = None, *, guess: Any = None) -> Any:
        return self._noted(super().submit_gen(call, on_done, on_text), guess)

    def submit_prefill(self, context: Any, on_done: Any, *, guess: Any = None) -> Any:
        return self._noted(super().submit_prefill(context, on_done), guess)

    @staticmethod
    def _noted(opened: Any, guess: Any) -> Any:
        opened.guess = guess
        return opened


def foreseen(text: str = CHOICE) -> Any:
    """Return the module with the host call moved behind the arms, and speculated."""
    between = '%e_1: effect, %r: py = host.call %effect, %k {callee = "m:note"}'
    assert between in text
    plain = text.replace(f"    {between}\n", "").replace("%e_1, %v", "%effect, %v")
    return PassManager.parse("speculate").run(module_of(plain)).module


def started(backend: Any, notes: list[Any], module: Any, **options: Any) -> Background:
    """Run a module on a backend, on a thread."""
    executor = executor_of(module, backend, {"m:note": notes.append})
    return Background(lambda: executor.run("main", {}, seed=3, **options))


def test_the_likely_generation_is_started_and_adopted_with_its_text():
    backend, notes, events = GuessingManual(), [], []
    run = started(backend, notes, foreseen(), on_event=lambda *event: events.append(event[2]))
    guess, choice = sorted(backend.wait(2), key=lambda o: hasattr(o.call, "options"))
    assert guess.guess.is_open
    guess.on_text("4")
    assert "4" not in events
    choice.choose(0)
    (same,) = backend.wait(1)
    assert same is guess, "the real call took over what was started"
    guess.guess.spent = 11
    guess.on_text("2")
    guess.say("42")
    result = run.result()
    assert guess.guess.is_adopted
    assert (result.value, notes) == ("42", ["42"])
    assert "".join(events) == result.state.text()
    assert (result.usage.calls, len(backend.log)) == (2, 2)
    assert result.usage.speculated_tokens == result.usage.adopted_tokens == 11
    assert result.usage.ahead_tokens == 0


def test_a_miss_is_cancelled_and_the_right_arm_asked():
    backend, notes = GuessingManual(), []
    run = started(backend, notes, foreseen())
    guess, choice = sorted(backend.wait(2), key=lambda o: hasattr(o.call, "options"))
    guess.guess.spent = 7
    choice.choose(1)
    (real,) = backend.wait(1, log=3)
    assert guess.is_cancelled
    assert guess.guess.is_dropped
    assert real.guess is None
    real.say("fine")
    result = run.result()
    assert (result.value, notes) == ("fine", ["fine"])
    assert (result.usage.speculated_tokens, result.usage.wasted_tokens) == (7, 7)


def test_a_guess_that_the_backend_gave_up_is_asked_anew():
    backend, notes = GuessingManual(), []
    run = started(backend, notes, foreseen())
    guess, choice = sorted(backend.wait(2), key=lambda o: hasattr(o.call, "options"))
    assert guess.guess.drop()
    guess.answer(Cancelled("no room"))
    choice.choose(0)
    (real,) = backend.wait(1, log=3)
    assert real.call == guess.call
    real.say("42")
    assert run.result().value == "42"


@pytest.mark.parametrize("mode", ["off", "wrong"])
def test_off_starts_nothing_and_wrong_adopts_nothing(mode):
    backend, notes = GuessingManual(), []
    run = started(backend, notes, foreseen(), speculate=mode)
    opened = backend.wait(1 if mode == "off" else 2)
    next(o for o in opened if hasattr(o.call, "options")).choose(0)
    (real,) = backend.wait(1, log=2 if mode == "off" else 3)
    assert real.guess is None
    real.say("42")
    assert run.result().value == "42"
    assert all(o.guess.is_dropped for o in opened if getattr(o, "guess", None))


def test_an_unknown_mode_is_refused():
    with pytest.raises(UsageError, match="speculate='maybe' is unknown"):
        executor_of(foreseen(), GuessingManual()).run("main", {}, seed=1, speculate="maybe")


def test_what_is_open_at_the_end_is_dropped():
    backend, notes = GuessingManual(), []
    run = started(backend, notes, foreseen())
    guess, choice = sorted(backend.wait(2), key=lambda o: hasattr(o.call, "options"))
    choice.answer(Cancelled("gone"))
    with pytest.raises(Cancelled):
        run.result()
    assert guess.guess.is_dropped


# -- the ledger ----------------------------------------------------------------------------


def test_the_waste_is_bounded_at_every_moment():
    for seed in range(60):
        draw, ledger = random.Random(seed), Ledger()
        open_guesses: list[Guess] = []
        history: list[tuple[int, int]] = [(0, 0)]
        for _ in range(300):
            match draw.randrange(4):
                case 0:
                    ledger.need(draw.randint(0, 80))
                case 1:
                    open_guesses.append(Guess())
                    ledger.open(open_guesses[-1])
                case 2 if open_guesses:
                    guess = draw.choice(open_guesses)
                    ledger.spend(guess, max(0, min(ledger.allowance(guess), draw.randint(0, 60))))
                case 3 if open_guesses:
                    guess = open_guesses.pop(draw.randrange(len(open_guesses)))
                    guess.repeated = draw.randint(0, 3)
                    (guess.adopt if draw.random() < 0.3 else guess.drop)()
                    ledger.settle()
            held = sum(guess.spent for guess in open_guesses)
            assert ledger.wasted + held <= MAX_WASTE * ledger.needed + 1e-6
            history.append((ledger.needed, ledger.wasted))
        for before, after in zip(history, history[100:], strict=False):
            wasted, needed = after[1] - before[1], after[0] - before[0]
            assert wasted <= MAX_WASTE * needed + MAX_SAVED + 1e-6 + _open_spent(before, after)


def _open_spent(before: Any, after: Any) -> float:
    """Tokens in vain that were charged before a stretch began, at the most what is saved up."""
    return MAX_SAVED


def test_forced_guesses_are_counted_but_not_charged():
    ledger, guess = Ledger(), Guess(is_forced=True)
    ledger.open(guess)
    assert ledger.allowance(guess) is None
    ledger.spend(guess, 500)
    guess.drop()
    ledger.settle()
    ledger.need(100)
    assert (ledger.wasted, ledger.allowance(Guess())) == (500, 10)


def test_a_guess_is_decided_once_whoever_comes_first():
    for _ in range(200):
        guess, said = Guess(), []
        barrier = threading.Barrier(2)

        def decide(what: Any, barrier: Any = barrier, said: Any = said) -> None:
            barrier.wait()
            said.append(what())

        threads = [threading.Thread(target=decide, args=(w,)) for w in (guess.adopt, guess.drop)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(said) == [False, True]
        assert guess.is_adopted != guess.is_dropped


# -- the engine ----------------------------------------------------------------------------


class Tracked:
    """A request of the core and what became of it."""

    def __init__(self, make: Any, guess: Guess | None) -> None:
        self.outcomes: list[Any] = []
        self.request = make(self.outcomes.append)
        self.request.guess = guess
        self.guess = guess


@pytest.mark.parametrize("seed", range(40))
def test_calls_are_the_same_beside_guesses_and_none_is_lost(fakes, seed):
    """Calls and guesses in any order, a pool that is too small, adopted and dropped at will."""
    draw = random.Random(seed)
    model, target = fakes.FakeModel(), fakes.FakeTarget()
    num_slots = draw.choice([160, 400, 2000])
    core = EngineCore(model, num_slots=num_slots, token_budget=48, max_running=6)
    rules = TokenRules(target.tokenizer, model.config.vocab_size)

    def generation(call: Any) -> Any:
        return lambda done: Generation(
            call, done, None, tokenizer=target.tokenizer, rules=rules,
            vocab_size=model.config.vocab_size,
        )  # fmt: skip

    def prefix(context: Any) -> Any:
        return lambda done: Prefilling(
            tuple(context), done, unpin=core.cache.unpin, vocab_size=model.config.vocab_size
        )

    stem = [draw.randrange(3, 60) for _ in range(draw.randint(5, 40))]
    tracked: list[tuple[Any, Tracked]] = []

    def submit(make: Any, call: Any, guess: Guess | None) -> None:
        made = Tracked(make, guess)
        tracked.append((call, made))
        core.register(made.request)
        core.start(made.request)

    for _ in range(120):
        context = stem + [draw.randrange(3, 60) for _ in range(draw.randint(1, 30))]
        call = fakes.gen(context, max_tokens=draw.randint(1, 12), key=draw.randrange(9))
        match draw.randrange(6):
            case 0:
                submit(generation(call), call, None)
            case 1:
                forced = draw.random() < 0.3
                submit(generation(call), call, Guess(is_forced=forced))
            case 2:
                submit(prefix(context), None, Guess(is_forced=draw.random() < 0.3))
            case 3:
                guesses = [t for _, t in tracked if t.guess is not None and t.guess.is_open]
                if guesses:
                    chosen = draw.choice(guesses)
                    if draw.random() < 0.5:
                        chosen.guess.adopt()
                    elif chosen.guess.drop():
                        chosen.request.cancel(core)
            case _:
                if core.has_work:
                    core.step()
        core.check()
    for _, each in tracked:
        if each.guess is not None and each.guess.drop():
            each.request.cancel(core)
    for _ in range(5000):
        if not core.has_work:
            break
        core.step()
    core.check()
    assert not core.has_work
    assert not core.scheduler.guesses.running
    for call, each in tracked:
        assert len(each.outcomes) == 1
        outcome = each.outcomes[0]
        if isinstance(outcome, BaseException):
            assert isinstance(outcome, Cancelled)
            assert each.guess is not None
            assert each.guess.is_dropped, "calls and adopted guesses are served"
        elif call is not None:
            (alone,) = expected(fakes, call)
            assert outcome == alone


def expected(fakes: Any, call: Any) -> list[Any]:
    """Return what a call gives on an engine of its own."""
    with fakes.make_engine() as engine:
        return fakes.run_all(engine, [call])


def test_a_stalled_guess_lets_the_engine_sleep_and_adoption_wakes_it(fakes):
    with fakes.make_engine() as engine:
        waiter, guess = fakes.Waiter(), Guess()
        call = fakes.gen(range(3, 30), max_tokens=4)
        engine.submit_gen(call, waiter, guess=guess)
        for _ in range(3):
            steps = engine.stats().engine_steps
        assert steps == 0, "nothing was needed yet, so nothing may be in vain"
        assert guess.adopt()
        assert waiter.result() == expected(fakes, call)[0]
        stats = engine.stats()
        assert (stats.speculated_tokens, stats.wasted_tokens) == (0, 0)
        assert stats.prompt_tokens == 27


def test_a_prefix_computed_ahead_is_found_when_adopted_and_gone_when_not(fakes):
    for is_right in (True, False):
        with fakes.make_engine() as engine:
            guess, waiter = Guess(is_forced=True), fakes.Waiter()
            ticket = engine.submit_prefill(tuple(range(3, 40)), waiter, guess=guess)
            while guess.spent < 37:  # only beside a call
                fakes.run_all(engine, [fakes.gen([50, 51], max_tokens=3)])
            assert not waiter.outcomes
            if is_right:
                assert guess.adopt()
                assert waiter.result().computed_tokens == 37
            else:
                guess.drop()
                ticket.cancel()
                assert isinstance(waiter.outcome(), Cancelled)
            (result,) = fakes.run_all(engine, [fakes.gen([*range(3, 40), 5, 6], max_tokens=2)])
            assert (result.usage.cached_tokens >= 37) == is_right
            stats = engine.stats()
            assert (stats.speculated_tokens, stats.wasted_tokens) == (37, 0 if is_right else 37)
            engine.check()


# -- programs ------------------------------------------------------------------------------


class GuessingPool:
    """Answers calls and guesses of a model on several threads, in any order."""

    takes_guesses = True
    takes_media = True

    def __init__(self, model: Any, target: Any, pool: ThreadPoolExecutor) -> None:
        self.model, self.target, self.pool = model, target, pool
        self.guesses: list[Guess] = []

    def submit_gen(self, call: Any, on_done: Any, on_text: Any = None, *, guess: Any = None) -> Any:
        def answer() -> Any:
            result = self.model.generate(call)
            if on_text is not None and result.text:
                half = len(result.text) // 2
                for piece in filter(None, (result.text[:half], result.text[half:])):
                    on_text(piece)
            return result

        return self._submit(answer, on_done, guess)

    def submit_score(self, call: Any, on_done: Any) -> Any:
        return self._submit(lambda: self.model.score(call), on_done, None)

    def submit_prefill(self, context: Any, on_done: Any, *, guess: Any = None) -> Any:
        return self._submit(Prefilled, on_done, guess)

    def _submit(self, answer: Any, on_done: Any, guess: Any) -> Any:
        def work() -> None:
            try:
                result = answer()
            except Exception as error:
                result = error
            on_done(result)

        if guess is not None:
            self.guesses.append(guess)
        self.pool.submit(work)
        return Uncancelled()


class Prefilled:
    """A prefix that costs nothing."""

    computed_tokens = 0

    def release(self) -> None:
        """Give nothing back."""


class Uncancelled:
    """A call that goes on when it is cancelled."""

    def cancel(self) -> None:
        """Let it go on."""


def test_random_programs_of_choices_run_alike(tmp_path):
    """Values, texts, calls, host calls and streams are equal on, off and forced wrong."""
    from speculation_programs import ProgramOfChoices

    from lmc.runtime.oracle import Oracle

    adopted = dropped = 0
    with ThreadPoolExecutor(4) as pool:
        for seed in range(40):
            program = ProgramOfChoices(seed)
            oracle = Oracle(seed=seed)
            seen: list[Any] = []
            for mode in ("off", "on", "wrong", "on"):
                backend = GuessingPool(oracle, oracle.target, pool)
                notes, events = [], []
                executor = executor_of(program.module(), backend, {"m:note": notes.append})
                result = executor.run(
                    "main", {"q": f"question {seed}"}, seed=seed, speculate=mode,
                    on_event=lambda *event, events=events: events.append(event),
                )  # fmt: skip
                streams: dict[Any, str] = {}
                for kind, name, text, lineage in events:
                    streams[lineage] = streams.get(lineage, "") + text
                    assert kind in ("text", "gen", "select"), name
                calls = Counter(map(repr, result.calls))
                shown = result.value, result.state.text(), result.state.variables, calls
                seen.append((repr(shown), notes, streams))
                adopted += sum(guess.is_adopted for guess in backend.guesses)
                dropped += sum(guess.is_dropped for guess in backend.guesses)
                assert not any(guess.is_open for guess in backend.guesses)
                if mode in ("off", "wrong"):
                    assert not any(guess.is_adopted for guess in backend.guesses)
            assert all(each == seen[0] for each in seen), program.text
    assert adopted > 50
    assert dropped > 100
