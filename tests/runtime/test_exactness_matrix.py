"""Real prompts x every way of serving them: the same token ids and the same log-probabilities.

Every call is answered alone on an empty cache first; whatever else is done must give equal
results, which are compared bit for bit (floats by ==, and none of them is a NaN). A small part
runs always (of the real model in `test_engine_exact.py`); `make test-long` runs 300 prompts on
the real model and on a random one:

    pytest -s tests/runtime/test_exactness_matrix.py -m long
"""

import csv
import json
import math
import time
from dataclasses import dataclass, field

import pytest
from model_support import DATA, TINY, smollm, smollm_path, write_model

from lmc.ir.calls import Constraint, GenCall
from lmc.runtime.engine import room
from lmc.runtime.engine.engine import Engine
from lmc.runtime.models import CausalModel

CHUNKS = (16, 64, 512)
BATCHES = (32, 7, 1)
FORKS = 8
LIMITS = (r"[a-z]{2,6} [0-9]{3}", r"\[(an|the) abc, then: [0-9]{1,2}\]")
ROOM = 64 << 20
"""Bytes of host memory: enough for all KV of these calls."""

SUBJECTS = ("abstract_algebra", "anatomy", "astronomy", "management")
GROUPED = TINY | {"head_dim": 24, "num_attention_heads": 8, "num_key_value_heads": 2}
"""Another head size than SmolLM2's 64, and another group than its 3."""


# -- the prompts -------------------------------------------------------------------------------


def real_prompts(count):
    """Return texts of several data sets in turn; those of a kind share their beginning."""
    if not DATA.is_dir():
        pytest.skip(f"needs the test data in {DATA}")
    kinds = [list(kind()) for kind in (word_problems, questions, endings, articles, chats, odd)]
    return [kinds[i % len(kinds)][i // len(kinds)] for i in range(count)]


def lines(name):
    return (DATA / name).read_text(encoding="utf-8").splitlines()


def word_problems():
    for line in lines("gsm8k/test.jsonl")[:50]:
        yield f"Solve step by step.\nQuestion: {json.loads(line)['question']}"


def questions():
    for number in range(50):
        subject = SUBJECTS[number % len(SUBJECTS)]
        rows = list(csv.reader(lines(f"mmlu/test/{subject}_test.csv")))
        yield f"The following is a question about {subject.replace('_', ' ')}.\n\n{rows[number][0]}"


def endings():
    for line in lines("hellaswag/val_every8th.jsonl")[:50]:
        record = json.loads(line)
        yield f"{record['activity_label']}: {record['ctx']}"


def articles():
    found = json.loads((DATA / "xquad" / "xquad.ar_ru_hi_th_first8articles.json").read_text())
    found |= {"en": json.loads((DATA / "xquad" / "xquad.en.json").read_text())["data"]}
    languages = sorted(found)
    for number in range(50):
        listed = found[languages[number % len(languages)]]
        paragraphs = [paragraph for article in listed for paragraph in article["paragraphs"]]
        yield paragraphs[number // len(languages)]["context"]


def chats():
    for line in lines("multi_turn_chat/identity_conversations_every4th.jsonl")[:50]:
        turns = json.loads(line)["conversations"]
        yield "\n".join(f"{turn['from']}: {turn['value']}" for turn in turns)


def odd():
    yield from [text for text in json.loads((DATA / "strings" / "blns.json").read_text()) if text]


# -- the calls ---------------------------------------------------------------------------------


def calls_over(fakes, contexts, max_tokens):
    """Return a generation per context, with all that a call may ask for, and some choices."""
    calls = []
    for index, context in enumerate(contexts):
        options = {
            "max_tokens": max_tokens,
            "temperature": (0.0, 0.8, 1.5)[index % 3],
            "top_p": (1.0, 0.9)[index % 2],
            "key": index * 7919,
            "return_logprob": True,
            "top_logprobs_num": (0, 3)[index % 2],
            "logprob_start_len": (-1, 0, -1, len(context) - 6)[index % 4],
            "min_tokens": (0, 3)[index % 2],
            "frequency_penalty": (0.0, 0.7)[index % 2],
        }
        if index % 5 == 4:
            options["constraint"] = Constraint("regex", LIMITS[index // 5 % len(LIMITS)])
            options["constraint_mode"] = ("canonical", "mask")[index // 10 % 2]
        calls.append(fakes.gen(context, **options))
        if index % 10 == 0:
            calls.append(fakes.score(context, [context[1:3], context[1:2], context[-3:]]))
    return calls


# -- the matrix --------------------------------------------------------------------------------


@dataclass
class Count:
    """What was compared, in how many ways."""

    ways: list[str] = field(default_factory=list)
    results: int = 0
    token_ids: int = 0
    logprobs: int = 0

    def compare(self, way, results, expected):
        """Compare results with those of the calls alone; equality is that of all their fields."""
        assert len(results) == len(expected)
        for number, (result, alone) in enumerate(zip(results, expected, strict=True)):
            assert result == alone, f"{way}: call {number} differs"
            values = numbers_of(alone)
            assert not any(math.isnan(value) for value in values)
            self.logprobs += len(values)
            self.token_ids += len(getattr(alone, "token_ids", ()))
        self.ways.append(way)
        self.results += len(results)
        print(f"{way}: {len(results)} results are equal", flush=True)


def numbers_of(result):
    """Return every log-probability of a result."""
    if not hasattr(result, "token_ids"):
        return [value for option in result.logprobs for value in option]
    tops = [*(result.top_logprobs or ()), *(result.prompt_top_logprobs or ())]
    listed = [value for top in tops if top is not None for _, value in top]
    return [
        *(result.logprobs or ()), *listed,
        *(value for value in result.prompt_logprobs or () if value is not None),
    ]  # fmt: skip


def alone(fakes, engine, calls, *, is_cold):
    """Answer calls one after another."""
    results = []
    for call in calls:
        if is_cold:
            engine.flush_cache()
        results += fakes.run_all(engine, [call])
    return results


def check_matrix(
    fakes, make, calls, folder, *, small_pool, drafting, chunks=CHUNKS, batches=BATCHES
):
    """Compare every way of serving calls with each call alone on an empty cache.

    `folder` is for KV on disk; `drafting` are the options of an engine with a draft model.
    """
    count = Count()
    with make() as engine:
        cold = alone(fakes, engine, calls, is_cold=True)
        before = engine.stats()
        count.compare("hit", alone(fakes, engine, calls, is_cold=False), cold)
        hits = (engine.stats() - before).cached_tokens
        assert hits > before.cached_tokens
    for batch in batches:
        for chunk in chunks:
            with make(token_budget=chunk, max_running=batch) as engine:
                count.compare(f"batch {batch} chunk {chunk}", fakes.run_all(engine, calls), cold)
                engine.check()
    with make(num_slots=small_pool, token_budget=64, max_running=32) as engine:
        count.compare("preempted", fakes.run_all(engine, calls), cold)
        assert engine.stats().preemptions > 0
        reversed_results = fakes.run_all(engine, calls[::-1])
        count.compare("after eviction", reversed_results, cold[::-1])
        engine.check()
    with make(jumps=False) as engine:
        count.compare("a step per token", fakes.run_all(engine, calls), cold)
    with make(max_running=32, overlap=True) as engine:
        count.compare("overlap", fakes.run_all(engine, calls), cold)
        assert engine._core.overlap.ahead.num_taken > 0
        engine.check()
    generations = [i for i, call in enumerate(calls) if isinstance(call, GenCall)]
    with make(token_budget=64, max_running=32) as engine:
        forked = fakes.run_all(engine, [calls[i] for i in generations for _ in range(FORKS)])
        count.compare("fork of 8", forked, [cold[i] for i in generations for _ in range(FORKS)])
        assert engine.stats().cached_tokens > engine.stats().computed_tokens
    check_drafts(fakes, make, calls, cold, count, drafting)
    check_tiers(fakes, make, calls, cold, count, small_pool=small_pool, folder=folder)
    return count


def check_drafts(fakes, make, calls, cold, count, drafting):
    """Draft tokens from the text's own repetitions and from a model; greedy and sampled calls."""
    with make(drafts="ngram", max_running=7) as engine:
        count.compare("drafts", fakes.run_all(engine, calls), cold)
        assert engine.stats().drafted_tokens > 0
        engine.check()
    with make(token_budget=64, max_running=7, **drafting) as engine:
        count.compare("drafts of a model", fakes.run_all(engine, calls), cold)
        assert engine.stats().drafted_tokens > 0
        engine.check()


def check_tiers(fakes, make, calls, cold, count, *, small_pool, folder):
    """Prefixes that were evicted come back from host memory, and in a new engine from disk."""
    options = {"token_budget": 64, "max_running": 32}
    with make(num_slots=small_pool, host_tier=ROOM, **options) as engine:
        fakes.run_all(engine, calls)
        before = engine.stats()
        count.compare("restored from host memory", fakes.run_all(engine, calls), cold)
        assert (engine.stats() - before).cached_host_tokens > 0
        engine.check()
    for _ in range(2):
        with make(disk_tier=folder, **options) as engine:
            results = fakes.run_all(engine, calls)
            stats = engine.stats()
    count.compare("restored from disk", results, cold)
    assert stats.cached_disk_tokens > 0


@pytest.fixture(autouse=True)
def admit_eagerly(monkeypatch):
    """Keep no room for output when admitting, so that a small pool leads to preemptions."""
    monkeypatch.setattr(room, "GROWTH_RESERVE", 0)


def check_real(fakes, folder, num_prompts):
    """Most prompts are cut short, so that all fits minutes; some cross a tile of attention."""
    from lmc.codegen.target import load_target

    target = load_target(smollm_path())
    encode = target.tokenizer.encode
    texts = enumerate(real_prompts(num_prompts))
    contexts = [tuple(encode(text)[: 90 if i % 11 == 10 else 20]) for i, text in texts]
    calls = calls_over(fakes, contexts, max_tokens=4)

    def make(**own):
        return Engine(smollm(), target, **{"num_slots": 16384, **own})

    drafting = {"draft_model": smollm()}
    return check_matrix(fakes, make, calls, folder, small_pool=100, drafting=drafting)


def check_tiny(fakes, folder, num_prompts, **options):
    model = CausalModel.load(write_model(folder / "model", GROUPED))
    vocab = fakes.FakeTokenizer().vocab_size
    contexts = [
        tuple(3 + byte % (vocab - 3) for byte in text.encode()[:60])
        for text in real_prompts(num_prompts)
    ]
    calls = calls_over(fakes, contexts, max_tokens=12)

    def make(**own):
        return fakes.make_engine(model, **{"num_slots": 32768, **own})

    other = CausalModel.load(write_model(folder / "other", TINY, seed=1))
    drafting = {"draft_model": other}
    return check_matrix(
        fakes, make, calls, folder / "kv", small_pool=130, drafting=drafting, **options
    )


def test_a_random_model_on_a_few_prompts(fakes, tmp_path):
    check_tiny(fakes, tmp_path, 12, chunks=(16, 64), batches=(7, 32))


@pytest.mark.long
def test_a_random_model_on_300_prompts(fakes, tmp_path):
    tell("random Llama", check_tiny, fakes, tmp_path, 300)


@pytest.mark.long
@pytest.mark.model
def test_the_real_model_on_300_prompts(fakes, tmp_path):
    tell("SmolLM2-135M", check_real, fakes, tmp_path, 300)


def tell(name, check, *arguments):
    """Run a check and print what was compared."""
    started, cpu = time.monotonic(), time.process_time()
    count = check(*arguments)
    assert len(count.ways) == 10 + len(CHUNKS) * len(BATCHES)
    print(
        f"\n{name}: {len(count.ways)} ways ({', '.join(count.ways)}), {count.results:,} results, "
        f"{count.token_ids:,} token ids, {count.logprobs:,} log-probabilities equal; "
        f"{time.monotonic() - started:.0f} s, {time.process_time() - cpu:.0f} s of CPU"
    )
