"""Ledger: how many tokens may be computed ahead of choices, so that few are in vain."""

from lmc.runtime.guess import Guess

MAX_WASTE = 0.1
"""Tokens in vain per token that a call has needed, at the most."""

MAX_SAVED = 128
"""Tokens that may be saved up: with nothing ahead for long, no more than these at once."""


class Ledger:
    """Counts tokens that were needed, and tokens of guesses.

    Every needed token earns a part of one that may be in vain. Guesses are charged for their
    tokens as they are computed, and get back what a call has used. So, whatever becomes of
    the open guesses, the tokens in vain are at every moment within MAX_WASTE of those that
    were needed since the start; and over any stretch, within that and MAX_SAVED. Forced
    guesses are counted, but neither bounded nor charged.
    """

    def __init__(self) -> None:
        self.needed = 0
        self.speculated = 0
        self.wasted = 0
        self._saved = 0.0
        self._open: dict[Guess, None] = {}
        self._adopted: list[Guess] = []

    def open(self, guess: Guess) -> None:
        """Take note of a guess."""
        self._open[guess] = None

    def need(self, count: int) -> None:
        """Take note of tokens that calls have needed."""
        self.needed += count
        self._earn(MAX_WASTE * count)

    def allowance(self, guess: Guess) -> int | None:
        """Return how many more tokens a guess may take now; None for any number."""
        return None if guess.is_forced else int(self._saved)

    def spend(self, guess: Guess, count: int) -> None:
        """Take note of tokens that are computed for an open guess."""
        guess.spent += count
        self.speculated += count
        if not guess.is_forced:
            self._saved -= count

    def settle(self) -> None:
        """Count the guesses that were decided since the last time."""
        for guess in [each for each in self._open if not each.is_open]:
            del self._open[guess]
            if guess.is_adopted:
                self._adopted.append(guess)
            self.wasted += guess.spent - guess.used
            if not guess.is_forced:
                self._saved += guess.used
            self.need(guess.used)

    def take_adopted(self) -> list[Guess]:
        """Return the guesses that were adopted since the last time."""
        adopted, self._adopted = self._adopted, []
        return adopted

    def _earn(self, tokens: float) -> None:
        self._saved = max(self._saved, min(MAX_SAVED, self._saved + tokens))
