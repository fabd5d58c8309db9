"""The scheduler core against a fake executor: no tensors, no threads, every step checked.

The executor keeps in every slot a hash of all tokens up to there, made from the slot of the
position before, as the page table says. Tokens are drawn from that hash, so a slot that is
shared, moved or freed wrongly gives another output than the reference.
"""

import random

import numpy as np

from lmc.runtime.cache.page_pool import Owner
from lmc.runtime.cache.prefix_cache import PrefixCache
from lmc.runtime.engine.plan_ahead import PlanAhead
from lmc.runtime.engine.scheduler import Scheduler
from lmc.runtime.engine.sequence import Sequence

ARRAYS = ("token_ids", "positions", "slots", "seq_starts", "table_rows", "logit_rows")


def next_hash(before, token):
    return (before * 1_000_003 + token * 7919 + 12345) % (2**61 - 1)


def reference(prompt, count):
    """Return what a prompt must continue with."""
    state, output = 1, []
    for token in prompt:
        state = next_hash(state, token)
    for _ in range(count):
        output.append(state % 50)
        state = next_hash(state, output[-1])
    return output


def contents(plan):
    """Return all that a plan says, its sequences by their numbers."""
    if plan is None:
        return None
    parts = [
        (p.seq.serial, p.epoch, p.start, p.length, p.logits_start, p.first_logit, p.num_drafts)
        for p in plan.extends
    ]
    arrays = [getattr(plan, name) for name in ARRAYS]
    assert all(array.dtype == np.int32 for array in arrays)
    return parts, [array.tolist() for array in arrays]


class Driver:
    """A scheduler with its executor; `submit`, then `run`.

    Who owns what is checked after every step, or after every `check_every` steps. With
    `is_ahead` the next step is chosen before the results of one are applied.
    """

    def __init__(
        self, *, slots=256, max_len=256, budget=32, max_running=8, page_size=1, check_every=1,
        is_ahead=False,
    ):  # fmt: skip
        self.check_every = check_every
        self.cache = PrefixCache(slots, page_size=page_size)
        table = np.zeros((max_running, max_len), dtype=np.int32)
        self.scheduler = Scheduler(self.cache, table, token_budget=budget, max_running=max_running)
        self.ahead = PlanAhead(self.scheduler) if is_ahead else None
        self.kv = [0xBAD] * slots
        self.outputs, self.ended, self.rows = {}, {}, {}
        self.serial = 0
        self.computed = 0
        self.steps = 0
        self.last_plan = None

    def submit(self, prompt, max_tokens=4, *, rows_from=None, **options):
        """Queue a generation; or, with max_tokens 0, a sequence that only wants logits."""
        self.serial += 1
        prompt = np.array(prompt, dtype=np.int32)
        if max_tokens:
            options.setdefault("chooser", object())
        seq = Sequence(
            self.serial,
            prompt,
            max_len=len(prompt) + max(0, max_tokens - 1),
            logits_from=len(prompt) - 1 if rows_from is None else rows_from,
            owner=max_tokens,
            **options,
        )
        self.outputs[seq.serial], self.rows[seq.serial] = [], {}
        self.scheduler.submit(seq)
        return seq

    def end(self, seq, reason, **options):
        self.ended.setdefault(seq.serial, []).append(reason)
        self.scheduler.finish(seq, **options)

    def step(self, *, between=None, failed=()):
        """Do one step; `between` runs after planning. Returns the plan."""
        self.steps += 1
        plan = None if self.ahead is None else self.ahead.take()
        plan, ready = self.scheduler.plan() if plan is None else (plan, [])
        self.last_plan = plan
        for seq in ready:
            self.end(seq, "ready")
        if plan is not None:
            if self.ahead is not None and self.ahead.is_of_use(plan):
                self.ahead.assume(plan)
            self.execute(plan)
        if between is not None:
            between()
        if plan is not None:
            self.scheduler.commit(plan, failed=failed)
            for part in plan.extends:
                if part.is_live and part.seq not in failed:
                    self.take(part, plan)
        if self.steps % self.check_every == 0:
            self.check()
        return plan

    def execute(self, plan):
        """Compute the step's hashes through the page table."""
        self.computed += plan.num_tokens
        table = self.scheduler.page_table
        for index, row in enumerate(plan.table_rows):
            for at in range(plan.seq_starts[index], plan.seq_starts[index + 1]):
                position = int(plan.positions[at])
                before = self.kv[table[row, position - 1]] if position else 1
                assert table[row, position] == plan.slots[at]
                self.kv[plan.slots[at]] = next_hash(before, int(plan.token_ids[at]))
        self.logits = [self.kv[plan.slots[at]] for at in plan.logit_rows]

    def take(self, part, plan):
        """Read a part's logits; sample at the end of its tokens."""
        seq = part.seq
        for offset in range(part.num_logits):
            position = part.logits_start + offset
            self.rows[seq.serial][position] = self.logits[part.first_logit + offset]
            seq.logits_from = position + 1
        if seq.extend_len > 0:
            return
        if seq.owner == 0:
            self.end(seq, "done")
            return
        token = self.logits[part.first_logit + part.num_logits - 1] % 50
        self.outputs[seq.serial].append(token)
        if len(self.outputs[seq.serial]) == seq.owner:
            self.end(seq, "done")
        else:
            seq.append(token)
            seq.logits_from = seq.total_len - 1

    def run(self, limit=2000):
        """Step until nothing is left."""
        while self.scheduler.has_work:
            before = self.steps
            self.step()
            assert before < limit, "the scheduler does not come to an end"

    def check(self):
        table = self.scheduler.page_table
        running = self.scheduler.running
        holding = [*running, *self.scheduler.guesses.running]
        self.cache.check(table[s.row, s.handle.length : s.alloc_len] for s in holding)
        rows = sorted([s.row for s in holding] + self.scheduler.rows.free)
        assert rows == list(range(self.scheduler.max_running))
        assert [s.serial for s in running] == sorted(s.serial for s in running)

    def assert_clean(self):
        """Nothing runs, nothing is held."""
        self.check()
        assert not self.scheduler.has_work
        assert self.cache.pool.num_owned(Owner.REQUEST) == 0
        assert self.cache.tree.protected_len == 0
        assert self.cache.available == self.cache.num_slots


def random_prompts(count, *, seed=0, longest=60):
    """Return prompts that share beginnings in many ways."""
    rng = random.Random(seed)
    stems = [[rng.randrange(50) for _ in range(longest)] for _ in range(3)]
    prompts = []
    for _ in range(count):
        stem = rng.choice(stems)[: rng.randint(0, longest - 1)]
        prompts.append(stem + [rng.randrange(50) for _ in range(rng.randint(1, longest // 4))])
    return prompts
