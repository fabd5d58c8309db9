"""Streams, async runs and batches on the real model."""

import asyncio

import pytest
from examples_support import ESSAY, program, token_ids

import lmc
from lmc.backends import open_backend

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def engine():
    return open_backend()


@lmc.function
def tell(s, topic: str):
    s += lmc.user(f"Tell me about {topic} with emojis: 🙂")
    s += lmc.assistant_begin() + lmc.gen("answer", max_tokens=24, stop=["\n\n", ". "])
    s += " So: " + lmc.select("mood", choices=["good", "bad"]) + lmc.assistant_end()


@pytest.mark.parametrize("mode", ["compiled", "eager"])
def test_streams_join_to_what_was_generated(engine, mode):
    options = {"backend": engine, "seed": 3, "temperature": 0.9, "mode": mode}
    run = tell.run("cats", stream=True, **options)
    pieces = list(run.text_iter())
    assert "".join(pieces) == run.text()
    assert len(pieces) > 5
    again = tell.run("cats", stream=True, **options)
    assert "".join(again.text_iter("answer")) == again["answer"] == run["answer"]
    assert run.calls == again.calls


def test_awaited_runs_and_batches_give_the_same(engine):
    topics = ["cats", "rain", "bread", "Rome"]
    options = {"backend": engine, "seed": 3, "temperature": 0.9}

    async def together():
        return await asyncio.gather(*(tell.arun(topic, **options) for topic in topics))

    awaited = asyncio.run(together())
    alone = [tell.run(topic, **options) for topic in topics]
    assert [token_ids(run) for run in awaited] == [token_ids(run) for run in alone]
    batch = tell.run_batch([(topic,) for topic in topics], **options)
    eager = dict(tell.run_batch([(t,) for t in topics], as_completed=True, mode="eager", **options))
    for number, run in enumerate(batch):
        assert token_ids(run) == token_ids(eager[number])


def test_an_example_streams_each_of_its_states(engine):
    judge = program("judge")
    run = judge.run(essay=ESSAY[:400], stream=True, backend=engine, seed=0)
    assert "".join(run.text_iter()) == run.text()
