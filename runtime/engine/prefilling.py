"""Prefilling: a prefix that is computed ahead, so that later calls find it, and pinned."""

from collections.abc import Callable

from lmc.ir.calls import CallHint
from lmc.ir.target import OnPrefill
from lmc.runtime.engine.request import Core, LogitRows, Request, context_array
from lmc.runtime.engine.sequence import Sequence


class PinnedPrefix:
    """A computed prefix: pinned until released, or until a request cannot run otherwise."""

    def __init__(self, computed_tokens: int, release: Callable[[], None]) -> None:
        self._computed_tokens = computed_tokens
        self._release: Callable[[], None] | None = release

    @property
    def computed_tokens(self) -> int:
        """Tokens that had to be computed for it."""
        return self._computed_tokens

    def release(self) -> None:
        """Give the pin back; the tokens stay cached until evicted. May be called again."""
        release, self._release = self._release, None
        if release is not None:
            release()


class Prefilling(Request):
    """One submitted prefix.

    Args:
        context: its token ids; an empty one is pinned without computing anything.
        on_done: gets a PinnedPrefix.
        unpin: gives a pin back, from any thread.
        vocab_size: width of the model's embedding.
        hint: what is known of its place in a program.
    """

    def __init__(
        self,
        context: tuple[int, ...],
        on_done: OnPrefill,
        *,
        unpin: Callable[[int], None],
        vocab_size: int,
        hint: CallHint | None = None,
    ) -> None:
        super().__init__(on_done)
        self._context = context_array(context, vocab_size)
        self._unpin = unpin
        self._hint = hint

    def start(self, core: Core) -> None:
        """Queue the prefix; nothing to do for an empty one."""
        size = len(self._context)
        if size == 0:
            self.deliver(core, PinnedPrefix(0, _release_nothing))
            return
        seq = Sequence(
            core.next_serial(),
            self._context,
            max_len=size,
            logits_from=size,
            owner=self,
            guess=self.guess,
            hint=self._hint,
            namespace=self.namespace,
        )
        self.sequences.append(seq)
        core.add(seq)

    def on_logits(self, core: Core, seq: Sequence, position: int, rows: LogitRows) -> None:
        """Never called: a prefix asks for no logits."""
        raise RuntimeError("a prefix got logits that it did not ask for")

    def on_computed(self, core: Core, seq: Sequence) -> None:
        """Pin the prefix and hand it over; one of a guess waits until a call wants it.

        A prefix that was computed ahead is not pinned: it is wanted now.
        """
        if self.guess is not None and not self.guess.is_adopted:
            return
        size = seq.total_len
        computed = size - seq.first_cached_len
        core.stats.prompt_tokens += size
        core.stats.cached_tokens += seq.first_cached_len
        core.stats.computed_tokens += computed
        host, disk = seq.first_lower_lens(size)
        core.stats.cached_host_tokens += host
        core.stats.cached_disk_tokens += disk
        if self.guess is not None:
            core.end(seq)
            self.deliver(core, PinnedPrefix(computed, _release_nothing))
            return
        pin = core.end_pinned(seq)
        self.deliver(core, PinnedPrefix(computed, lambda: self._unpin(pin)))


def _release_nothing() -> None:
    """Release of a prefix that holds nothing."""
