"""The engine over a fake model: every call gives what the model alone would give."""

import numpy as np


def reference(model, context, count):
    """Return the greedy continuation of a context, one whole-sequence look at a time."""
    ids = list(context)
    for _ in range(count):
        row = model.logits_after(ids)
        row[[0, 2]] = -np.inf
        row[63 + 3 :] = -np.inf
        ids.append(int(row.argmax()))
    return ids[len(context) :]


def test_greedy_tokens_are_the_models(fakes):
    with fakes.make_engine() as engine:
        vocab = engine.target.tokenizer.vocab_size
        (result,) = fakes.run_all(engine, [fakes.gen(range(3, 30), ignore_eos=True)])
    model = fakes.FakeModel()
    ids = list(range(3, 30))
    for _ in range(8):
        row = model.logits_after(ids)
        row[[0, 1, 2]] = -np.inf
        row[vocab:] = -np.inf
        ids.append(int(row.argmax()))
    assert list(result.token_ids) == ids[27:]
    assert result.finish_reason == "length"
