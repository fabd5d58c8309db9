"""Work ahead of choices: what `lm.foresee` lists is computed while the choice is made.

A path of an option is a prefix to compute, or a generation to start. When the choice is there,
what its path has prepared is adopted, the rest is dropped. A started generation is used by a
call that is equal to it (context, parameters, constraint and key), so nothing can change.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from lmc.errors import LmcError
from lmc.ir.calls import GenCall, GenResult
from lmc.runtime.executor.calls import calls_on
from lmc.runtime.executor.modes import Mode
from lmc.runtime.guess import Guess
from lmc.runtime.parameters import gen_params
from lmc.runtime.prompt_state import Lineage, PromptState, prologue_state

if TYPE_CHECKING:
    from lmc.runtime.executor.run import Run


@dataclass(eq=False, slots=True)
class Attempt:
    """One guess that is out; belongs to the loop's thread.

    Attributes:
        guess: what the backend knows of it.
        call: the generation that was started; None for a prefix.
        ticket: cancels it.
        started: when it was submitted.
        chain_before: decode steps of the longest chain of calls at that time.
        pieces: text that came before a call took the generation over.
        result: its outcome, once it is there.
    """

    guess: Guess
    call: GenCall | None
    chain_before: int
    ticket: Any = None
    started: float = field(default_factory=time.monotonic)
    pieces: list[str] = field(default_factory=list)
    result: Any = None
    _on_done: Callable[[Any], None] | None = None
    _on_text: Callable[[str], None] | None = None

    def hand_over(
        self, on_done: Callable[[Any], None], on_text: Callable[[str], None] | None
    ) -> None:
        """Let a call have what came so far, and what still comes."""
        self._on_done, self._on_text = on_done, on_text
        if on_text is not None:
            for piece in self.pieces:
                on_text(piece)
        if self.result is not None:
            on_done(self.result)

    def said(self, piece: str) -> None:
        """Take a piece of the generation's text."""
        if self._on_done is None:
            self.pieces.append(piece)
        elif self._on_text is not None:
            self._on_text(piece)

    def done(self, result: Any) -> None:
        """Take the outcome."""
        self.result = result
        if self._on_done is not None:
            self._on_done(result)

    def drop(self) -> None:
        """Give it up."""
        if self.guess.drop() and self.ticket is not None:
            self.ticket.cancel()


class Speculator:
    """The guesses of one run; belongs to the loop's thread."""

    def __init__(self, run: "Run", mode: Mode) -> None:
        self._run = run
        self._mode = mode
        is_able = run.switches.parallel and getattr(run.backend, "takes_guesses", False)
        self._is_on = mode != "off" and is_able
        self._choices: dict[tuple[Lineage, int], dict[str, Attempt]] = {}
        self._calls: dict[GenCall, Attempt] = {}
        self._all: list[Attempt] = []

    # -- before the choice -------------------------------------------------------------------

    def foresee(
        self, state: PromptState, paths: list[dict[str, Any]], defaults: Mapping[str, Any],
        *, is_generated: bool,
    ) -> None:  # fmt: skip
        """Start what may follow a choice.

        Args:
            state: the prompt that the choice is made on.
            paths: what may follow, likelier ones first.
            defaults: the run's decode parameters.
            is_generated: whether the choice is generated, so that its ids stay as they are.
        """
        if not self._is_on or self._run.is_closed:
            return
        attempts: dict[str, Attempt] = {}
        for path in paths:
            try:
                after = _after(state, path, is_generated=is_generated)
                attempt = self._attempt(after, path.get("gen"), defaults)
            except LmcError:
                continue  # told where the program itself comes to it
            if attempt is not None:
                attempts[path["choice"]] = attempt
        if attempts:
            self._choices[state.lineage, state.ordinal] = attempts

    def _attempt(
        self, after: PromptState, call: dict[str, Any] | None, defaults: Mapping[str, Any]
    ) -> Attempt | None:
        run, guess = self._run, Guess(is_forced=self._mode == "wrong")
        backend: Any = run.backend
        if call is None:
            context = after.stable_context()
            attempt = Attempt(guess, None, run.chain_steps)
            attempt.ticket = backend.submit_prefill(context, self._done(attempt), guess=guess)
        else:
            made = started_call(run, after, call, defaults)
            if made in self._calls:
                return None
            attempt = self._calls[made] = Attempt(guess, made, run.chain_steps)
            on_text = None
            if run.on_event is not None and not call.get("quiet"):
                on_text = partial(self._post, attempt.said)
            attempt.ticket = backend.submit_gen(made, self._done(attempt), on_text, guess=guess)
        self._all.append(attempt)
        return attempt

    def _done(self, attempt: Attempt) -> Callable[[Any], None]:
        return partial(self._post, attempt.done)

    def _post(self, function: Callable[[Any], None], value: Any) -> None:
        self._run.loop.post(partial(function, value))

    # -- after it ----------------------------------------------------------------------------

    def decide(
        self, state: PromptState, chosen: str, token_ids: tuple[int, ...] | None = None
    ) -> None:
        """Adopt the prefix of what was chosen on a state, and drop what was not.

        A text that was generated as other ids (`token_ids`) than those that were foreseen is
        another one. A generation stays open for the call that is equal to it. Forced to be
        wrong, nothing is adopted.
        """
        attempts = self._choices.pop((state.lineage, state.ordinal), None) if self._choices else {}
        for choice, attempt in (attempts or {}).items():
            is_other = token_ids is not None and token_ids != self._ids(choice)
            if choice != chosen or is_other or self._mode == "wrong":
                self._drop(attempt)
            elif attempt.call is None:
                attempt.guess.adopt()

    def _ids(self, choice: str) -> tuple[int, ...]:
        return tuple(self._run.backend.target.tokenizer.encode(choice))

    def take(self, call: GenCall) -> Attempt | None:
        """Return the started generation that is equal to a call, for the call to have."""
        attempt = self._calls.pop(call, None) if self._calls else None
        return attempt if attempt is not None and attempt.guess.adopt() else None

    def close(self) -> None:
        """Drop what is still open; the run has ended."""
        for attempt in self._all:
            attempt.drop()
        self._calls.clear()
        self._choices.clear()

    def _drop(self, attempt: Attempt) -> None:
        if attempt.call is not None:
            self._calls.pop(attempt.call, None)
        attempt.drop()

    def tokens(self) -> dict[str, int]:
        """Return the tokens that were computed ahead, those adopted, and those in vain.

        `ahead` are those that no call counts as its own: prefixes, and what was in vain.
        """
        speculated = sum(each.guess.spent for each in self._all)
        used = sum(each.guess.used for each in self._all)
        own = sum(each.guess.used for each in self._all if each.call is not None)
        return {
            "speculated": speculated, "adopted": used, "wasted": speculated - used,
            "ahead": speculated - own,
        }  # fmt: skip


def _after(state: PromptState, path: Mapping[str, Any], *, is_generated: bool) -> PromptState:
    """Return the state that a path leads to."""
    choice: str = path["choice"]
    if is_generated:
        ids = tuple(state.target.tokenizer.encode(choice))
        after = state.generated(GenResult(token_ids=ids, text=choice))
    else:
        after = state.extend(choice)
    return prologue_state(path["pieces"], after.tick(1 + path.get("ticks", 0)))


def started_call(
    run: "Run", state: PromptState, attributes: Mapping[str, Any], defaults: Mapping[str, Any]
) -> GenCall:
    """Return the call that a generation with these attributes will make on a state.

    Raises:
        RunError: wrong parameters.
    """
    merged = {**defaults, **attributes.get("defaults", {})}
    params = gen_params(attributes, (), merged, run.backend.target.tokenizer)
    site = f"{params.name or 'lm.gen'}@{attributes['at']}"
    return calls_on(state, params, seed=run.seed, instance=run.instance, site=site)[0]
