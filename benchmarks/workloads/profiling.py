"""Where an engine's time goes: clocks around the parts of its step.

Steps run on the engine's one thread, so the parts never overlap. The clocks cost about a
microsecond a step and change nothing of what is computed.
"""

import time
from collections.abc import Callable
from typing import Any


class StepClock:
    """Seconds in the forward pass, in planning and bookkeeping, and in handing results out."""

    def __init__(self, engine: Any) -> None:
        core = engine._core
        self.seconds = {"model": 0.0, "scheduler": 0.0, "choosing": 0.0}
        self._time(core, "_compute", "model")
        self._time(core, "_plan", "scheduler")
        self._time(core.scheduler, "commit", "scheduler")
        self._time(core.scheduler, "settle", "scheduler")
        self._time(core, "_hand_out", "choosing")

    def _time(self, owner: Any, name: str, part: str) -> None:
        """Put a clock around a method."""
        inner: Callable[..., Any] = getattr(owner, name)

        def timed(*args: Any, **keywords: Any) -> Any:
            begun = time.perf_counter()
            try:
                return inner(*args, **keywords)
            finally:
                self.seconds[part] += time.perf_counter() - begun

        setattr(owner, name, timed)

    def since(self, earlier: dict[str, float], seconds: float) -> dict[str, float]:
        """Return what was spent since a copy of `seconds`, and what is left of a whole time."""
        parts = {name: spent - earlier[name] for name, spent in self.seconds.items()}
        return {**parts, "rest": seconds - sum(parts.values())}
