"""EngineStats: what an engine has done since it started, as plain totals."""

from dataclasses import dataclass, field, fields

from lmc.runtime.exactness import Exactness


@dataclass(slots=True, kw_only=True)
class EngineStats:
    """Totals of an engine; subtract two snapshots to get those of a run.

    Attributes:
        requests: calls that were submitted.
        finished_requests: calls that gave a result.
        failed_requests: calls that ended with an error.
        cancelled_requests: calls that were cancelled.
        prompt_tokens: tokens of the contexts, `cached_tokens` + `computed_tokens`.
        cached_tokens: of these, taken from the radix tree: computed before, or by another
            call of the same moment.
        computed_tokens: of these, computed for the call.
        output_tokens: tokens generated, without end tokens.
        forced_tokens: of these, decided by a constraint alone.
        drafted_tokens: draft tokens that were computed behind known ones.
        accepted_tokens: of these, those that came indeed; output tokens among others.
        decode_steps: forward passes that gave a token, summed over the calls.
        engine_steps: forward passes of the engine (each serves many calls).
        forward_tokens: tokens that went through the model, recomputed ones included.
        preemptions: sequences that had to start again for want of memory.
        busy_seconds: time spent in steps.
        speculated_tokens: tokens computed ahead of choices, for calls that nobody had made.
        wasted_tokens: of these, those that no call wanted.
        cached_host_tokens: of `cached_tokens`, those that host memory gave.
        cached_disk_tokens: of `cached_tokens`, those that were read from disk for the call.
        host_stored_tokens: tokens copied from the pool to host memory.
        host_loaded_tokens: tokens copied from host memory to the pool.
        host_evicted_tokens: tokens that host memory forgot for want of room.
        disk_stored_tokens: tokens written to the folder.
        disk_loaded_tokens: tokens read from the folder into host memory.
        disk_dropped_tokens: tokens not written, as too much waited to be written.
        disk_evicted_files: files removed from the folder for want of room.
        damaged_files: files of the folder that did not hold what they should.
        exactness: what the check at the start has found; no total, the same in differences.
    """

    requests: int = 0
    finished_requests: int = 0
    failed_requests: int = 0
    cancelled_requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    computed_tokens: int = 0
    output_tokens: int = 0
    forced_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    decode_steps: int = 0
    engine_steps: int = 0
    forward_tokens: int = 0
    preemptions: int = 0
    busy_seconds: float = 0.0
    speculated_tokens: int = 0
    wasted_tokens: int = 0
    cached_host_tokens: int = 0
    cached_disk_tokens: int = 0
    host_stored_tokens: int = 0
    host_loaded_tokens: int = 0
    host_evicted_tokens: int = 0
    disk_stored_tokens: int = 0
    disk_loaded_tokens: int = 0
    disk_dropped_tokens: int = 0
    disk_evicted_files: int = 0
    damaged_files: int = 0
    exactness: Exactness = field(default_factory=Exactness)

    def __sub__(self, earlier: "EngineStats") -> "EngineStats":
        totals = {
            f.name: getattr(self, f.name) - getattr(earlier, f.name)
            for f in fields(self)
            if f.name != "exactness"
        }
        return EngineStats(**totals, exactness=self.exactness)
