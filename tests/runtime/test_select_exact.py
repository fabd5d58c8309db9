"""`select` through the engine against exact conditional probabilities of a toy model."""

import math

import numpy as np
import pytest
import torch

import lmc
from lmc.ir.expressions import CHOICES_METHODS
from lmc.runtime.engine.engine import Engine

WORDS = ["Q:", "no", "inter", "nation", "al", "isation", "U", "V", "é", "日", " ", "x"]
RARE = 1e-4


class ToyModel:
    """Probabilities of the next token, given by the text so far; the rest is shared evenly."""

    weights_fingerprint = "toy"

    def __init__(self, config, table):
        self.config = config
        self.table = table

    def new_kv(self, num_slots):
        """Return one token per slot, none yet."""
        return np.full(num_slots, -1, dtype=np.int64)

    def forward(self, batch, kv):
        """Write the tokens, and read the whole text of every row from the slots."""
        kv[batch.slots.numpy()] = batch.token_ids.numpy()
        rows = np.repeat(batch.table_rows.numpy(), np.diff(batch.seq_starts.numpy()))
        made = []
        for at in batch.logit_rows.tolist():
            slots = batch.page_table.numpy()[rows[at], : int(batch.positions[at]) + 1]
            made.append(self.probabilities(tuple(kv[slots].tolist())))
        logits = np.log(np.array(made, dtype=np.float64).reshape(-1, self.config.vocab_size))
        return torch.from_numpy(logits.astype(np.float32))

    def probabilities(self, ids):
        """Return the distribution after some ids (words start at id 3)."""
        text = "".join(WORDS[i - 3] for i in ids if i >= 3).removeprefix("Q:")
        given = {3 + WORDS.index(word): p for word, p in self.table.get(text, {}).items()}
        rest = (1 - sum(given.values())) / (self.config.vocab_size - len(given))
        return [given.get(i, max(rest, 1e-12)) for i in range(self.config.vocab_size)]


TABLE = {
    "": {"no": 0.3, "inter": 0.02, "U": 0.25, "V": 0.2, "é": 0.1, "日": 0.05},
    "inter": {"nation": 0.99}, "internation": {"al": 0.99}, "international": {"isation": 0.99},
    "U": {"V": 0.1}, "V": {"U": 0.9}, "no": {"no": 0.5}, "é": {"日": 0.7},
}  # fmt: skip


@pytest.fixture
def toy(fakes):
    """An engine over the toy model; every word is a token and no border can move."""

    class ToyTokenizer(fakes.FakeTokenizer):
        fingerprint = "toy"

        def __init__(self):
            super().__init__()
            self.table = [None, None, None, *(word.encode() for word in WORDS)]
            self.vocab_size = len(self.table)
            self._ids = {piece: i for i, piece in enumerate(self.table) if piece is not None}

        def encode(self, text, *, first=False):
            ids = []
            while text:
                word = max((w for w in WORDS if text.startswith(w)), key=len)
                ids.append(3 + WORDS.index(word))
                text = text[len(word) :]
            return ids

        def stable_len(self, text, *, first=False):
            return len(self.encode(text))

    model = ToyModel(fakes.FakeConfig(vocab_size=3 + len(WORDS)), TABLE)
    with Engine(model, fakes.FakeTarget(ToyTokenizer()), num_slots=512) as engine:
        yield engine


@lmc.function
def choose(s, options, method):
    s += "Q:" + lmc.select("c", options, choices_method=method)
    return s.get_meta_info("c")


def exact(option, before=""):
    """Return the log-probability of every word of an option, by the table."""
    found, text = [], before
    words = lmc_words(option)
    for word in words:
        found.append(math.log(TABLE.get(text, {}).get(word, RARE)))
        text += word
    return found


def lmc_words(option):
    words = []
    while option:
        words.append(max((w for w in WORDS if option.startswith(w)), key=len))
        option = option[len(words[-1]) :]
    return words


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("mode", ["compiled", "eager"])
@pytest.mark.parametrize(
    ("options", "method", "chosen"),
    [
        (["no", "internationalisation"], "total_likelihood", "no"),
        (["no", "internationalisation"], "token_length_normalized", "internationalisation"),
        (["no", "internationalisation"], "greedy_token_selection", "no"),
        (["UV", "VU"], "total_likelihood", "VU"),
        (["UV", "VU"], "token_length_normalized", "VU"),
        (["UV", "VU"], "greedy_token_selection", "UV"),
        (["no", "nono"], "total_likelihood", "no"),
        (["no", "nono"], "token_length_normalized", "nono"),
        (["é日", "é", "日"], "total_likelihood", "é"),
        (["é日", "é", "日"], "token_length_normalized", "é日"),
        (["", "no"], "total_likelihood", ""),
        (["", "no"], "token_length_normalized", ""),
    ],
)
def test_choices_by_exact_probabilities(toy, options, method, chosen, mode, is_reversed):
    options = options[::-1] if is_reversed else options
    result = choose.run(options=options, method=method, backend=toy, mode=mode)
    meta = result.value
    assert result["c"] == chosen
    assert meta["choices"] == options
    for option, logprobs, triples, mean in zip(
        options, meta["logprobs"], meta["input_token_logprobs"],
        meta["normalized_prompt_logprobs"], strict=True,
    ):  # fmt: skip
        assert logprobs == pytest.approx(exact(option), abs=1e-5)
        assert [text for _, _, text in triples] == lmc_words(option)
        assert [logprob for logprob, _, _ in triples] == logprobs
        assert mean == pytest.approx(sum(logprobs) / max(1, len(logprobs)))
    totals = [sum(entry) for entry in meta["logprobs"]]
    expected = totals if method == "total_likelihood" else meta["normalized_prompt_logprobs"]
    assert meta["scores"] == expected
    if method == "greedy_token_selection":
        widths = {len(row) for row in meta["greedy_logprob_matrix"]}
        assert widths == {max(map(len, meta["logprobs"]))}


def test_unconditional_scores_are_subtracted(toy):
    method = "unconditional_likelihood_normalized"
    meta = choose.run(options=["no", "UV"], method=method, backend=toy).value
    means = meta["normalized_prompt_logprobs"]
    alone = [
        sum(value for value, _, _ in entry) / len(entry)
        for entry in meta["unconditional_token_logprobs"]
    ]
    assert meta["scores"] == [mean - other for mean, other in zip(means, alone, strict=True)]
    assert meta["normalized_unconditional_prompt_logprobs"] == meta["scores"]


@pytest.mark.parametrize("method", CHOICES_METHODS)
def test_equal_choices_are_a_tie_that_the_first_wins(toy, method):
    result = choose.run(options=["no", "no", "x"], method=method, backend=toy)
    assert result["c"] == "no"
    assert result.value["scores"][0] == result.value["scores"][1]


@pytest.mark.parametrize("method", CHOICES_METHODS)
def test_a_single_choice_needs_no_call(toy, method):
    result = choose.run(options=["al"], method=method, backend=toy)
    assert (result["c"], list(result.calls)) == ("al", [])
    assert result.value["logprobs"] == result.value["input_token_logprobs"] == [[]]


@lmc.function
def decode(s, k):
    """CoT decoding: the likeliest first tokens, each continued greedily, scored by its lead."""
    s += "Q:"
    step = s.fork(1)[0]
    forks = s.fork(k)
    step += lmc.gen("top", max_tokens=0, return_logprob=True, top_logprobs_num=k,
                    return_text_in_logprobs=True)  # fmt: skip
    first = step.get_meta_info("top")["output_top_logprobs"][0]
    leads = []
    for f, token in zip(forks, first, strict=True):
        _, _, text = token
        f += text
        f += lmc.gen("answer", temperature=0, max_tokens=1, return_logprob=True, top_logprobs_num=2)
        tops = f.get_meta_info("answer")["output_top_logprobs"]
        leads.append((text, round(sum(t[0][0] - t[1][0] for t in tops), 3)))
    return leads


@pytest.mark.parametrize("mode", ["compiled", "eager"])
def test_likeliest_first_tokens_are_continued(toy, mode):
    leads = decode.run(k=3, backend=toy, mode=mode).value
    assert [text for text, _ in leads] == ["no", "U", "V"]
    rest = math.log(0.5 / ((1 - 0.5) / 14))
    assert leads[0][1] == pytest.approx(rest, abs=2e-3)
