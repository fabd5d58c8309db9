"""Engine: a model that answers many calls at once; implements lmc.ir.target.Backend.

One thread of its own runs the steps; calls come in through an inbox. Callbacks run on that
thread and should be short. Constraints are compiled in a small thread pool, within a time
limit, so others are served meanwhile. Every call ends in exactly one `on_done`, also when the
engine is closed.
"""

import atexit
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import TypeVar
from weakref import WeakValueDictionary

import numpy as np

from lmc.errors import Cancelled, ConstraintError, EngineError
from lmc.ir.calls import CallHint, Constraint, GenCall, ScoreCall
from lmc.ir.target import OnGen, OnPrefill, OnScore, OnText, Target
from lmc.runtime.cache.events import CacheEvent, CacheStats
from lmc.runtime.constraint.cache import ConstraintCache
from lmc.runtime.engine.compile_pool import CompilePool
from lmc.runtime.engine.core import EngineCore
from lmc.runtime.engine.drafters import DEFAULT_LIMIT, make_drafter
from lmc.runtime.engine.generation import CompiledConstraint, Generation
from lmc.runtime.engine.model_runner import CausalModel, default_num_slots
from lmc.runtime.engine.namespace import InNamespace, check_namespace
from lmc.runtime.engine.policy import CacheKind, DraftKind, EvictionKind, OrderKind, Policy
from lmc.runtime.engine.prefilling import Prefilling
from lmc.runtime.engine.request import Request
from lmc.runtime.engine.sampler import TokenRules
from lmc.runtime.engine.scoring import Scoring
from lmc.runtime.engine.self_check import check_exactness
from lmc.runtime.engine.stats import EngineStats
from lmc.runtime.engine.tiers import tier_options
from lmc.runtime.engine.watch import gauges_of
from lmc.runtime.exactness import Exactness
from lmc.runtime.guess import Guess
from lmc.runtime.reference_names import ServerNames
from lmc.runtime.stop_patterns import compile_stop_pattern
from lmc.version import __version__

T = TypeVar("T")

_log = logging.getLogger(__name__)

CLOSE_SECONDS = 5.0
"""How long a closing engine waits for constraints that are being compiled."""


class CallTicket:
    """A submitted call; `cancel` may come at any time, from any thread."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        self._cancel = cancel

    def cancel(self) -> None:
        """Ask to end the call; its `on_done` still comes, with Cancelled."""
        self._cancel()


class Engine(ServerNames):
    """Serves generations, scores and prefixes over one model.

    Args:
        model: what computes (lmc.runtime.models.decoder.CausalModel).
        target: what programs are lowered for; gives the tokenizer.
        num_slots: tokens of KV memory; by default 32,768, less where memory is short.
        token_budget: tokens per step.
        max_running: sequences that run at once.
        page_size: tokens of a page of KV memory; calls share whole pages. What makes no whole
            page of `num_slots` is left out.
        cache_events: changes of what is cached that wait for `take_cache_events` at the most;
            of more the oldest are lost. 0 notes none.
        debug: verify after every step that each slot of KV memory has one owner and holds the
            tokens it is used for; by default as the environment's LMC_DEBUG says ("1"). Slow.
        threads: threads of the forward pass; by default whatever torch is set to.
        reuse_constraints: calls with the same constraint share its compiled form; False
            compiles it for each call, to measure what that is worth.
        constraint_seconds: time that a call's constraint and stop patterns may take to be
            compiled, waiting included; then the call ends with a ConstraintError.
        cache, order, eviction: what is kept, served and forgotten first; see Policy.
        drafts: where draft tokens come from; see Policy. By default from the draft model,
            where there is one.
        num_drafts: the most draft tokens of a call in a step.
        draft_model: a smaller model of the same tokenizer.
        host_tier: bytes of host memory for KV that the pool evicts.
        disk_tier: folder for KV that later processes may use; brings 256 MiB of host memory
            if `host_tier` asks for none.
        disk_bytes: what the folder may take; 4 GiB by default.

    Raises:
        UsageError: an unknown choice of `cache`, `order`, `eviction` or `drafts`, or drafts that
            cannot be made; sizes that hold nothing; a folder that cannot be used.
    """

    def __init__(
        self,
        model: CausalModel,
        target: Target,
        *,
        num_slots: int | None = None,
        token_budget: int = 512,
        max_running: int = 64,
        page_size: int = 1,
        cache_events: int = 0,
        debug: bool | None = None,
        threads: int | None = None,
        cache: CacheKind = "radix",
        order: OrderKind = "plan",
        eviction: EvictionKind = "plan",
        drafts: DraftKind | None = None,
        num_drafts: int = DEFAULT_LIMIT,
        draft_model: CausalModel | None = None,
        reuse_constraints: bool = True,
        constraint_seconds: float = 60.0,
        host_tier: int | None = None,
        disk_tier: str | Path | None = None,
        disk_bytes: int | None = None,
    ) -> None:
        if drafts is None:
            drafts = "off" if draft_model is None else "model"
        policy = Policy(cache=cache, order=order, eviction=eviction, drafts=drafts)
        tiers = tier_options(host_tier, disk_tier, disk_bytes)
        self._target = target
        self._threads = threads
        self._vocab_size = model.config.vocab_size
        self._rules = TokenRules(target.tokenizer, self._vocab_size)
        sizes = {
            "num_slots": num_slots or default_num_slots(model.config),
            "token_budget": token_budget,
            "max_running": max_running,
        }
        drafter = make_drafter(policy.drafts, num_drafts, draft_model, **sizes)
        self._core = EngineCore(
            model,
            **sizes,
            policy=policy,
            page_size=page_size,
            drafter=drafter,
            max_events=cache_events,
            is_debug=os.environ.get("LMC_DEBUG") == "1" if debug is None else debug,
            tiers=tiers,
            binding={} if tiers is None else {"lmc": __version__, **kv_binding(model, target)},
            wake=lambda: self._discard(_nothing),
        )
        self._compile = _make_compiler(target, reuse=reuse_constraints)
        self._compile_seconds = constraint_seconds
        self._pool = CompilePool(constraint_seconds)
        self._inbox: deque[Callable[[], None]] = deque()
        self._wake = threading.Condition()
        self._namespaces: WeakValueDictionary[str, InNamespace] = WeakValueDictionary()
        self._is_closing = False
        self._has_stopped = False
        self._exactness: Future[Exactness] = Future()
        self._thread = threading.Thread(target=self._run, name="lmc-engine", daemon=True)
        self._at_exit = _close_at_exit(self)
        self._thread.start()

    takes_guesses = True

    # -- Backend -----------------------------------------------------------------------------

    @property
    def target(self) -> Target:
        """What programs must be lowered for."""
        return self._target

    def submit_gen(
        self,
        call: GenCall,
        on_done: OnGen,
        on_text: OnText | None = None,
        *,
        guess: Guess | None = None,
        namespace: str = "",
    ) -> CallTicket:
        """Start a generation; a `guess` is served when there is room, until it is adopted.

        This and every other call shares cached tokens with those of its `namespace` only.
        """
        try:
            request = Generation(
                call,
                on_done,
                on_text,
                tokenizer=self._target.tokenizer,
                rules=self._rules,
                vocab_size=self._vocab_size,
            )
        except EngineError as error:
            return self._refuse(on_done, error)
        request.namespace = check_namespace(namespace)
        self._note_guess(request, guess)
        if call.constraint is None and not call.params.stop_regex:
            return self._submit(request)
        ticket = self._submit(request, is_ready=False)
        self._prepare(request)
        return ticket

    def submit_score(self, call: ScoreCall, on_done: OnScore, *, namespace: str = "") -> CallTicket:
        """Start scoring options."""
        try:
            request = Scoring(
                call,
                on_done,
                vocab_size=self._vocab_size,
                stand_in_id=self._target.tokenizer.empty_context_id,
            )
        except EngineError as error:
            return self._refuse(on_done, error)
        request.namespace = check_namespace(namespace)
        return self._submit(request)

    def submit_prefill(
        self,
        context: tuple[int, ...],
        on_done: OnPrefill,
        *,
        guess: Guess | None = None,
        namespace: str = "",
    ) -> CallTicket:
        """Compute a prefix so that later calls find it, and pin it.

        That of a `guess` is computed when there is room, not pinned, and given when adopted.
        """
        return self._prefill(context, on_done, guess=guess, namespace=namespace)

    def submit_hinted_prefill(
        self,
        hint: CallHint,
        context: tuple[int, ...],
        on_done: OnPrefill,
        *,
        namespace: str = "",
    ) -> CallTicket:
        """As `submit_prefill`, for a run that alone needs the prefix."""
        return self._prefill(context, on_done, hint=hint, namespace=namespace)

    def _prefill(
        self,
        context: tuple[int, ...],
        on_done: OnPrefill,
        *,
        guess: Guess | None = None,
        hint: CallHint | None = None,
        namespace: str,
    ) -> CallTicket:
        try:
            request = Prefilling(
                context, on_done, unpin=self._unpin, vocab_size=self._vocab_size, hint=hint
            )
        except EngineError as error:
            return self._refuse(on_done, error)
        request.namespace = check_namespace(namespace)
        self._note_guess(request, guess)
        return self._submit(request)

    def in_namespace(self, namespace: str) -> InNamespace:
        """Return this engine as one namespace sees it: a backend for runs of one tenant.

        The same object for the same name, as long as somebody has it.

        Raises:
            UsageError: the name is no text, or longer than 256 characters.
        """
        with self._wake:
            view = self._namespaces.get(check_namespace(namespace))
            if view is None:
                view = self._namespaces[namespace] = InNamespace(self, namespace)
            return view

    def _note_guess(self, request: Request, guess: Guess | None) -> None:
        """Have the engine look again when a guess is adopted."""
        if guess is not None:
            request.guess = guess
            guess.on_adopt = lambda: self._discard(_nothing)

    # -- KV that is kept in files ------------------------------------------------------------

    @property
    def num_slots(self) -> int:
        """Tokens of KV that the pool holds."""
        return self._core.cache.num_slots

    @property
    def max_len(self) -> int:
        """The most tokens that one call can hold: its context and what it generates."""
        return self._core.scheduler.max_len

    @property
    def kv_binding(self) -> dict[str, str]:
        """What the bytes of a prefix's KV depend on, by name."""
        return kv_binding(self._core.runner.model, self._target)

    @property
    def kv_bytes_per_token(self) -> int:
        """Size of one token's KV."""
        return self._core.runner.kv_bytes_per_token

    def read_kv(self, context: tuple[int, ...], start: int, *, namespace: str = "") -> bytes:
        """Return the KV of a pinned prefix from token `start` on.

        Raises:
            EngineError: it is not cached.
        """
        token_ids = np.array(context, dtype=np.int32)
        return self._ask(lambda: self._core.read_kv(token_ids, start, namespace))

    def submit_loaded(
        self,
        context: tuple[int, ...],
        start: int,
        data: memoryview,
        on_done: OnPrefill,
        *,
        namespace: str = "",
    ) -> CallTicket:
        """As `submit_prefill`, with the KV from token `start` on, as `read_kv` gave it.

        What cannot be placed is computed.

        Raises:
            EngineError: the data has another size.
        """
        if len(data) != (len(context) - start) * self.kv_bytes_per_token:
            raise EngineError(f"the KV of {len(context) - start} tokens has {len(data)} bytes")
        token_ids = np.array(context, dtype=np.int32)
        self._post(lambda: self._core.place_kv(token_ids, start, data, namespace))
        return self.submit_prefill(context, on_done, namespace=namespace)

    def end_run(self, run: int) -> None:
        """Take note that a run (CallHint.run) asks nothing more; what it kept may go."""
        self._discard(lambda: self._core.scheduler.end_run(run))

    # -- more --------------------------------------------------------------------------------

    @property
    def exactness(self) -> Exactness:
        """What the check at the start has found; waits for it."""
        return self._exactness.result()

    def stats(self) -> EngineStats:
        """Return the totals since the start; waits for the step that is running."""
        stats = self._ask(self._core.snapshot)
        stats.exactness = self.exactness
        return stats

    def metrics_text(self) -> str:
        """Return totals, gauges and histograms in Prometheus' text format."""
        return self._ask(self._metrics_text)

    def cache_stats(self) -> CacheStats:
        """Return what the prefix cache holds and has done; waits for the step that is running."""
        return self._ask(self._core.cache.stats)

    def take_cache_events(self) -> list[CacheEvent]:
        """Return what has changed in the prefix cache since the last time, oldest first.

        Nothing but with the option `cache_events`.
        """
        events = self._core.cache.events
        return [] if events is None else self._ask(events.take)

    def flush_cache(self) -> int:
        """Forget every cached prefix that is neither in use nor pinned; return its tokens."""
        return self._ask(self._core.cache.flush)

    def check(self) -> None:
        """Verify that every slot of the KV memory has exactly one owner.

        With the option `debug` also that it holds the tokens it is used for.
        """
        self._ask(self._core.check)

    def close(self) -> None:
        """End every call with Cancelled and stop; no thread is left. May be called again."""
        with self._wake:
            self._is_closing = True
            self._wake.notify_all()
        self._pool.close()
        if threading.current_thread() is self._thread:
            return
        self._thread.join()
        self._pool.join(CLOSE_SECONDS)
        atexit.unregister(self._at_exit)

    def __enter__(self) -> "Engine":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- inbox -------------------------------------------------------------------------------

    def _post(self, action: Callable[[], None]) -> bool:
        """Have the engine's thread run `action` before its next step; False when it is gone."""
        with self._wake:
            if self._has_stopped:
                return False
            self._inbox.append(action)
            self._wake.notify_all()
            return True

    def _ask(self, action: Callable[[], T]) -> T:
        """Run `action` on the engine's thread and return its result."""
        if threading.current_thread() is self._thread:
            return action()
        answer: Future[T] = Future()
        if not self._post(lambda: _settle(answer, action)):
            return action()
        return answer.result()

    def _submit(self, request: Request, *, is_ready: bool = True) -> CallTicket:
        """Register a request, and start it if nothing has to be prepared."""
        core = self._core

        def begin() -> None:
            core.register(request)
            if is_ready:
                core.start(request)

        if not self._post(begin):
            request.fail(core, _closed())
        return CallTicket(lambda: self._discard(lambda: request.cancel(core)))

    def _refuse(self, on_done: Callable[[EngineError], None], error: EngineError) -> CallTicket:
        """End a call that cannot be taken."""
        if not self._post(lambda: _call_back(on_done, error)):
            _call_back(on_done, error)
        return CallTicket(lambda: None)

    def _prepare(self, request: Generation) -> None:
        """Compile a call's patterns outside the engine's thread, then start its request."""
        call = request.call

        def work() -> None:
            try:
                for source in call.params.stop_regex:
                    compile_stop_pattern(source)
                if call.constraint is not None:
                    request.set_constraint(self._compile(call.constraint))
            except Exception as error:
                failure = error
                self._discard(lambda: request.fail(self._core, failure))
                return
            self._discard(lambda: self._core.start(request))

        def give_up() -> None:
            late = _too_late(self._compile_seconds)
            self._discard(lambda: request.fail(self._core, late))

        if not self._pool.submit(work, give_up):
            self._discard(lambda: request.fail(self._core, _closed()))

    def _metrics_text(self) -> str:
        core = self._core
        stats = core.snapshot()
        return core.watch.metrics.text(stats, gauges_of(core, self.exactness))

    def _unpin(self, pin: int) -> None:
        self._discard(lambda: self._core.cache.unpin(pin))

    def _discard(self, action: Callable[[], None]) -> None:
        """Post an action that no longer matters once the engine is gone."""
        self._post(action)

    # -- the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        """Serve until closed; whatever happens, every request is ended."""
        reason: BaseException = Cancelled("the engine was closed")
        try:
            self._set_threads()
            self._exactness.set_result(check_exactness(self._core.runner.model))
            while self._take_in():
                self._core.step()
        except BaseException as error:
            _log.exception("the engine stopped")
            reason = EngineError(f"the engine stopped: {error}")
            reason.__cause__ = error
        finally:
            self._stop(reason)

    def _take_in(self) -> bool:
        """Run what came in; wait while there is nothing to do. False when closing."""
        while True:
            with self._wake:
                while not (self._inbox or self._is_closing or self._core.has_work):
                    self._wake.wait(self._core.patience)
                if self._is_closing:
                    return False
                actions = list(self._inbox)
                self._inbox.clear()
            for action in actions:
                action()
            if self._core.has_work:
                return True

    def _stop(self, reason: BaseException) -> None:
        """Take nothing more in, run what is in the inbox, end every request."""
        with self._wake:
            self._has_stopped = True
            if not self._exactness.done():
                self._exactness.set_result(Exactness(detail="the engine stopped before its check"))
            actions = list(self._inbox)
            self._inbox.clear()
        for action in actions:
            action()
        self._core.fail_all(reason)
        self._core.close()

    def _set_threads(self) -> None:
        if self._threads is not None:
            import torch

            torch.set_num_threads(self._threads)


def kv_binding(model: CausalModel, target: Target) -> dict[str, str]:
    """Return what the bytes of a prefix's KV depend on, by name."""
    return {
        "tokenizer": target.tokenizer.fingerprint,
        "template": target.fingerprint,
        **model.kv_fingerprint,
    }


def _make_compiler(target: Target, *, reuse: bool) -> Callable[[Constraint], CompiledConstraint]:
    """Return what compiles constraints for a target's tokenizer."""
    if not reuse:
        return lambda constraint: ConstraintCache(target.tokenizer).get(constraint)
    cache: list[ConstraintCache] = []
    lock = threading.Lock()

    def compile_constraint(constraint: Constraint) -> CompiledConstraint:
        with lock:
            if not cache:
                cache.append(ConstraintCache(target.tokenizer))
        return cache[0].get(constraint)

    return compile_constraint


def _close_at_exit(engine: Engine) -> Callable[[], None]:
    """Close an engine that is still open when the interpreter ends."""
    ref = weakref.ref(engine)

    def close() -> None:
        alive = ref()
        if alive is not None:
            alive.close()

    atexit.register(close)
    return close


def _nothing() -> None:
    """Wake the engine, so that it looks again."""


def _settle(answer: Future[T], action: Callable[[], T]) -> None:
    try:
        answer.set_result(action())
    except Exception as error:
        answer.set_exception(error)


def _call_back(on_done: Callable[[EngineError], None], error: EngineError) -> None:
    try:
        on_done(error)
    except Exception:
        _log.exception("an on_done callback raised")


def _too_late(seconds: float) -> ConstraintError:
    return ConstraintError(
        f"the constraint was not compiled within {seconds:g} s",
        hint="make the pattern or schema smaller, or raise constraint_seconds",
    )


def _closed() -> EngineError:
    return EngineError("the engine is closed", hint="make a new one")
