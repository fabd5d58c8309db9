"""What calls to an engine over the fake model must give, computed one token at a time."""

import numpy as np

from lmc.ir.calls import Constraint
from lmc.runtime.engine.sampler import pick_token, token_logprobs

PROMPT = tuple(range(3, 40))
OPTIONS = [(5, 6, 7), (5, 6, 8), (5,), (9, 9, 9, 9), (5, 6, 7, 10), (), (5, 6, 7)]


def regex(source):
    return Constraint("regex", source)


def expected_tokens(fakes, call, model=None):
    """Return what a free call must give, looking at whole sequences one token at a time."""
    model, tokenizer = model or fakes.FakeModel(), fakes.FakeTokenizer()
    eos, params = tokenizer.eos_ids, call.params
    ids, logprobs = list(call.context) or [tokenizer.empty_context_id], []
    for position in range(params.max_tokens):
        row = model.logits_after(ids)
        raw = row.copy()
        row[[0, 2]] = -np.inf
        row[tokenizer.vocab_size :] = -np.inf
        if params.ignore_eos or position < params.min_tokens:
            row[list(eos)] = -np.inf
        token = pick_token(row, params, key=call.key, position=position)
        if token in eos:
            break
        ids.append(token)
        logprobs += token_logprobs(raw, [token])
    return tuple(ids[len(ids) - len(logprobs) :]), tuple(logprobs)


def expected_scores(fakes, context, options):
    model, scores = fakes.FakeModel(), []
    for option in options:
        ids, found = list(context), []
        for token in option:
            found += token_logprobs(model.logits_after(ids), [token])
            ids.append(token)
        scores.append(tuple(found))
    return tuple(scores)
