"""Engine: a model that answers many calls at once; implements lmc.ir.target.Backend.

Calls become requests, which a thread of its own serves (engine_thread.py). Callbacks run on
that thread and should be short. Constraints are compiled in a small thread pool, within a time
limit, so others are served meanwhile. Every call ends in exactly one `on_done`, also when the
engine is closed.
"""

import os
from pathlib import Path
from types import TracebackType
from weakref import WeakValueDictionary

import numpy as np

from lmc.errors import ConstraintError, EngineError
from lmc.ir.calls import CallHint, GenCall, ScoreCall
from lmc.ir.target import OnGen, OnPrefill, OnScore, OnText, Target
from lmc.runtime.engine.compile_pool import CompilePool, make_compiler
from lmc.runtime.engine.core import EngineCore
from lmc.runtime.engine.drafters import DEFAULT_LIMIT, ForcedDrafts, make_drafter
from lmc.runtime.engine.engine_thread import CallTicket, EngineThread, closed_error
from lmc.runtime.engine.generation import Generation
from lmc.runtime.engine.model_runner import CausalModel, default_num_slots
from lmc.runtime.engine.namespace import InNamespace, check_namespace
from lmc.runtime.engine.policy import CacheKind, DraftKind, EvictionKind, OrderKind, Policy
from lmc.runtime.engine.prefilling import Prefilling
from lmc.runtime.engine.request import Request
from lmc.runtime.engine.sampler import TokenRules
from lmc.runtime.engine.scoring import Scoring
from lmc.runtime.engine.sizes import expect_counts, expect_pages, expect_seconds
from lmc.runtime.engine.tiers import tier_options
from lmc.runtime.guess import Guess
from lmc.runtime.reference_names import ServerNames
from lmc.runtime.stop_patterns import compile_stop_pattern
from lmc.version import __version__

CLOSE_SECONDS = 5.0
"""How long a closing engine waits for constraints that are being compiled."""


class Engine(EngineThread, ServerNames):
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
        overlap: choose the next step while the forward pass of one runs on another thread.
        threads: threads of the forward pass; by default whatever torch is set to.
        jumps: what a constraint decides takes no steps of its own; False gives the same results
            token by token, to measure what that is worth.
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
            cannot be made; what is no count, time or size, or holds nothing; a folder that
            cannot be used.
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
        overlap: bool = False,
        threads: int | None = None,
        cache: CacheKind = "radix",
        order: OrderKind = "plan",
        eviction: EvictionKind = "plan",
        drafts: DraftKind | None = None,
        num_drafts: int = DEFAULT_LIMIT,
        draft_model: CausalModel | None = None,
        jumps: bool = True,
        reuse_constraints: bool = True,
        constraint_seconds: float = 60.0,
        host_tier: int | None = None,
        disk_tier: str | Path | None = None,
        disk_bytes: int | None = None,
    ) -> None:
        expect_counts(
            num_slots=num_slots,
            token_budget=token_budget,
            max_running=max_running,
            page_size=page_size,
            threads=threads,
        )
        expect_counts(least=0, cache_events=cache_events)
        expect_seconds(constraint_seconds=constraint_seconds)
        if drafts is None:
            drafts = "off" if draft_model is None else "model"
        policy = Policy(cache=cache, order=order, eviction=eviction, drafts=drafts)
        tiers = tier_options(host_tier, disk_tier, disk_bytes)
        self._target = target
        self._vocab_size = model.config.vocab_size
        self._rules = TokenRules(target.tokenizer, self._vocab_size)
        sizes = {
            "num_slots": default_num_slots(model.config) if num_slots is None else num_slots,
            "token_budget": token_budget,
            "max_running": max_running,
        }
        expect_pages(sizes["num_slots"], page_size)
        drafter = make_drafter(policy.drafts, num_drafts, draft_model, **sizes)
        drafter = ForcedDrafts(drafter) if jumps else drafter
        core = EngineCore(
            model,
            **sizes,
            policy=policy,
            page_size=page_size,
            drafter=drafter,
            overlap=overlap,
            max_events=cache_events,
            is_debug=os.environ.get("LMC_DEBUG") == "1" if debug is None else debug,
            tiers=tiers,
            binding={} if tiers is None else {"lmc": __version__, **kv_binding(model, target)},
            wake=self._wake_up,
        )
        self._jumps = jumps
        self._compile = make_compiler(target, reuse=reuse_constraints, seconds=constraint_seconds)
        self._compile_seconds = constraint_seconds
        self._pool = CompilePool(constraint_seconds)
        self._namespaces: WeakValueDictionary[str, InNamespace] = WeakValueDictionary()
        super().__init__(core, threads)
        self._start_thread()

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
                jumps=self._jumps,
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
            guess.on_adopt = self._wake_up

    # -- KV that is kept in files ------------------------------------------------------------

    @property
    def num_slots(self) -> int:
        """Tokens of KV that the pool holds."""
        return self._core.cache.num_slots

    @property
    def page_size(self) -> int:
        """Tokens of a page of KV memory."""
        return self._core.cache.page_size

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

    def read_kv(
        self, context: tuple[int, ...], start: int, end: int | None = None, *, namespace: str = ""
    ) -> bytes:
        """Return the KV of a pinned prefix from token `start` to `end`, by default its own.

        Raises:
            EngineError: it is not cached: evicted, or in a page that the prefix does not fill.
        """
        token_ids = np.array(context, dtype=np.int32)
        last = len(context) if end is None else end
        return self._ask(lambda: self._core.read_kv(token_ids, start, last, namespace))

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

    # -- the end --------------------------------------------------------------------------------

    def close(self) -> None:
        """End every call with Cancelled and stop; no thread is left. May be called again."""
        self._ask_to_stop()
        self._pool.close()
        if self._join():
            self._pool.join(CLOSE_SECONDS)

    def __enter__(self) -> "Engine":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- within ----------------------------------------------------------------------------------

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
            self._discard(lambda: request.fail(self._core, closed_error()))

    def _unpin(self, pin: int) -> None:
        self._discard(lambda: self._core.cache.unpin(pin))


def kv_binding(model: CausalModel, target: Target) -> dict[str, str]:
    """Return what the bytes of a prefix's KV depend on, by name."""
    return {
        "tokenizer": target.tokenizer.fingerprint,
        "template": target.fingerprint,
        **model.kv_fingerprint,
    }


def _too_late(seconds: float) -> ConstraintError:
    return ConstraintError(
        f"the constraint was not compiled within {seconds:g} s",
        hint="make the pattern or schema smaller, or raise constraint_seconds",
    )
