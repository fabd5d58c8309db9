"""The oracle: a model without weights, a pure function of the call, for testing programs.

Every answer depends only on the call (context ids, decode parameters, constraint, key), so
two runs that make the same calls get the same answers, in whatever order. Answers can be
scripted by the program's name for a call, which makes every branch reachable:

    oracle = Oracle({"kind": "an essay", "grade": "Grade: A"})
    result = judge.run("...", backend=oracle)
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lmc.errors import UsageError
from lmc.ir.calls import CallUsage, GenCall, GenResult, ScoreCall, ScoreResult
from lmc.ir.media import MARK, MediaToken
from lmc.ir.target import OnGen, OnPrefill, OnScore, OnText, Target
from lmc.runtime.constraint import ConstraintCache
from lmc.runtime.exactness import Exactness
from lmc.runtime.oracle_grammar import random_answer
from lmc.runtime.oracle_text import Draw, random_ids
from lmc.runtime.oracle_walk import Walk
from lmc.runtime.reference_names import ServerNames

Script = (
    Mapping[str, str | Sequence[str]] | Callable[[str, str, GenCall | ScoreCall], str | None] | None
)


class DoneTicket:
    """The ticket of a call that was answered at once."""

    def cancel(self) -> None:
        """Do nothing: the answer has come."""


class OraclePrefill:
    """A prefix that the oracle pretends to hold."""

    def __init__(self, computed_tokens: int) -> None:
        self.computed_tokens = computed_tokens

    def release(self) -> None:
        """Do nothing: nothing is held."""


def checked_script(script: Script) -> Script:
    """Return a script as it is; raises UsageError where it cannot answer."""
    if script is None or callable(script):
        return script
    if not isinstance(script, Mapping):
        raise UsageError(
            f"an oracle cannot be scripted by {script!r}",
            hint='give {"name": "answer"}, or a function of (name, prompt text, call)',
        )
    for name, answer in script.items():
        listed = answer if isinstance(answer, list) else [answer]
        if not all(isinstance(each, str) for each in listed) or not listed:
            raise UsageError(
                f"the scripted answer {answer!r} for '{name}' is no text",
                hint="answers are texts, also of typed generations: write '12' for 12",
            )
    return script


class Oracle(ServerNames):
    """Implements lmc.ir.target.Backend and lmc.ir.target.Model.

    Args:
        script: answers by the program's name for a call ("lm.gen" or "lm.select" for unnamed
            ones): a str; a list of str, one of which is taken by a hash of the context; or
            a function of (name, text of the prompt, call) that returns a str, or None for
            an unscripted answer. The answer to a select must be one of its options.
        seed: changes all unscripted answers.
        target: tokenizer and chat template; by default a small real one.
    """

    def __init__(self, script: Script = None, seed: int = 0, target: Target | None = None) -> None:
        if target is None:
            from lmc.codegen.target import oracle_target

            target = oracle_target()
        self.target: Target = target
        self.takes_media = True
        self.script = checked_script(script)
        self.seed = seed
        self._constraints = ConstraintCache(target.tokenizer)

    exactness = Exactness("by construction")

    # -- model -----------------------------------------------------------------------------

    def generate(self, call: GenCall) -> GenResult:
        """Answer a generation.

        Raises:
            UsageError: a scripted answer that the constraint does not allow.
            ConstraintError: a constraint that is wrong or unsupported.
        """
        return self._walk(call, None).result()

    def score(self, call: ScoreCall) -> ScoreResult:
        """Score options.

        Raises:
            UsageError: a scripted answer that is none of the options.
        """
        answer = self._scripted(call)
        chosen = None if answer is None else self._option(call, answer)
        logprobs = [
            self._option_logprobs(call, option, None if chosen is None else index == chosen)
            for index, option in enumerate(call.options)
        ]
        prompt_tokens = len(call.context)
        output_tokens = sum(map(len, call.options))
        usage = CallUsage(prompt_tokens=prompt_tokens, output_tokens=output_tokens)
        return ScoreResult(logprobs=tuple(logprobs), usage=usage)

    # -- backend ---------------------------------------------------------------------------

    def submit_gen(
        self, call: GenCall, on_done: OnGen, on_text: OnText | None = None
    ) -> DoneTicket:
        """Answer a generation before returning."""
        on_done(_outcome(lambda: self._walk(call, on_text).result()))
        return DoneTicket()

    def submit_score(self, call: ScoreCall, on_done: OnScore) -> DoneTicket:
        """Answer scoring before returning."""
        on_done(_outcome(lambda: self.score(call)))
        return DoneTicket()

    def submit_prefill(self, context: tuple[int, ...], on_done: OnPrefill) -> DoneTicket:
        """Take note of a prefix before returning."""
        on_done(OraclePrefill(len(context)))
        return DoneTicket()

    # -- generations -----------------------------------------------------------------------

    def _walk(self, call: GenCall, on_text: OnText | None) -> Walk:
        """Decide the answer's ids and walk them under the call's parameters."""
        tokenizer = self.target.tokenizer
        draw = Draw(self.seed, call)
        constraint = None
        if call.constraint is not None:
            constraint = self._constraints.get(call.constraint)
        answer = self._scripted(call)
        walk = Walk(tokenizer, call, constraint, draw, on_text)
        if answer is not None:
            walk.follow(tokenizer.encode(answer), is_scripted=True)
        elif constraint is not None:
            walk.follow(random_answer(tokenizer, constraint, draw))
        else:
            walk.follow(random_ids(tokenizer, draw, call.params))
        return walk

    def _scripted(self, call: GenCall | ScoreCall) -> str | None:
        name = call.site.rpartition("@")[0]
        script: Any = self.script
        if script is None:
            return None
        if callable(script):
            answer = script(name, self.spell(call.context), call)
        else:
            answer = script.get(name)
        if answer is None or isinstance(answer, str):
            return answer
        listed = list(answer)
        if not listed or not all(isinstance(item, str) for item in listed):
            raise UsageError(f"the script of {name!r} must be a str or a list of str: {answer!r}")
        return listed[Draw(self.seed, call.context).below(len(listed))]

    def spell(self, token_ids: Sequence[int]) -> str:
        """Return the text of ids, control tokens spelled out, images as `<image>`."""
        tokenizer = self.target.tokenizer
        parts: list[str] = []
        plain: list[int] = []
        for token_id in token_ids:
            if isinstance(token_id, MediaToken):
                parts += [tokenizer.decode(plain), MARK]
                plain = []
                continue
            control = tokenizer.control_text(token_id)
            if control is None:
                plain.append(token_id)
                continue
            parts += [tokenizer.decode(plain), control]
            plain = []
        return "".join([*parts, tokenizer.decode(plain)])

    # -- scores ----------------------------------------------------------------------------

    def _option_logprobs(
        self, call: ScoreCall, option: tuple[int, ...], is_chosen: bool | None
    ) -> tuple[float, ...]:
        """Return a log-probability per token, a hash of the ids up to it.

        `is_chosen` of None: unscripted. Scores without a prompt vary less than the distance
        between a scripted choice and the others, so that it wins by every method.
        """
        is_alone = call.context == (self.target.tokenizer.empty_context_id,)
        logprobs = []
        for length in range(1, len(option) + 1):
            share = Draw(self.seed, (call.context, option[:length])).share()
            if is_chosen is None:
                logprobs.append(-0.05 - 8.0 * share)
            elif is_chosen:
                logprobs.append(-0.01 if is_alone else -0.001)
            else:
                logprobs.append(-1.0 - share if is_alone else -16.0 - share)
        return tuple(logprobs)

    def _option(self, call: ScoreCall, answer: str) -> int:
        """Return the option whose text is the answer.

        All options begin with the same text of the prompt that is not stable; the shortest
        beginning that they share and that leaves the answer is it.
        """
        texts = [self.spell((*call.context, *option)) for option in call.options]
        found: list[tuple[int, int]] = []
        for index, text in enumerate(texts):
            shared = text[: len(text) - len(answer)]
            if text.endswith(answer) and all(other.startswith(shared) for other in texts):
                found.append((len(shared), index))
        if not found:
            name = call.site.rpartition("@")[0]
            raise UsageError(
                f"the script answers {answer!r} to the select '{name}', which is not an option",
                hint="the script's answer must be one of the choices",
            )
        return min(found)[1]


def _outcome(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as error:
        # A script of the user's own may raise anything; the call's submitter is told.
        return error
