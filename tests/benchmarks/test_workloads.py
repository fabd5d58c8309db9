"""The workloads: exact lengths, and programs that ask what the plain requests say."""

import pytest
from compare.page import put
from compare.results import Results, decode_rate
from compare.tables import ratio_rows, table
from peers.driver import Graph, choice_pattern
from peers.gbnf import gbnf_of
from workloads.catalogue import build
from workloads.programs import GRADE, KINDS, RECORD
from workloads.requests import Output, Quote, Request, as_json, text
from workloads.texts import DATA, MissingData, Texts, read_rows

import lmc
from lmc.backends import open_target


@pytest.fixture(scope="module")
def rows():
    try:
        return read_rows(DATA)
    except MissingData as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def tokenizer():
    return open_target("oracle").tokenizer


def test_texts_have_exactly_as_many_tokens_as_asked_for_and_begin_differently(rows, tokenizer):
    texts = Texts(tokenizer, rows)
    made = [texts.take(count) for count in (60, 128, 300, 1450, 60)]
    assert [len(tokenizer.encode(each)) for each in made] == [60, 128, 300, 1450, 60]
    assert len({each[:20] for each in made}) == 5


def test_repeats_share_no_text(rows, tokenizer):
    prompts = [
        each["prompt"]
        for repeat in range(6)
        for each in build("b8", Texts(tokenizer, rows, repeat)).batch
    ]
    assert len(set(prompts)) == len(prompts)


def test_a_text_keeps_its_length_between_others(rows, tokenizer):
    before = "Given:\n\n"
    made = Texts(tokenizer, rows).take(64, before=before)
    assert len(tokenizer.encode(before + made)) == len(tokenizer.encode(before)) + 64


@pytest.mark.parametrize("name", ["d16", "e", "f", "g", "h1"])
def test_a_program_asks_what_its_plain_requests_say(rows, tokenizer, name):
    workload = build(name, Texts(tokenizer, rows))
    script = {"kind": KINDS[0], "view": " Well put,", "summary": " It is good."}
    backend = lmc.Oracle(script, seed=1)
    results = workload.program.run_batch(workload.batch, backend=backend, seed=1)
    calls = [record for result in results for record in result.calls]
    expected = resolved(workload.requests, calls, tokenizer)
    # A choice is scored from a border before the prompt's end, so its context is shorter.
    generations = [record.call.context for record in calls if record.name != "kind"]
    assert sorted(generations) == sorted(expected)


def resolved(requests, calls, tokenizer):
    """Return the contexts of plain requests, with what the program's calls gave."""
    graph = Graph(as_json(requests), Decoder(tokenizer))
    given = {}
    for record in calls:
        answer = record.result
        ids = getattr(answer, "token_ids", None)
        given.setdefault(record.call.context, ids)
    found = []
    while graph.waiting:
        ready = graph.take_ready(in_order=True)
        assert ready, "every request comes to its turn"
        for each in ready:
            if each.spec["choices"]:
                each.outputs = [tokenizer.encode(each.spec["choices"][0])]
            else:
                found += [tuple(each.ids)] * each.spec["samples"]
                each.outputs = [list(given[tuple(each.ids)])]
            graph.end(each)
    return found


class Decoder:
    """A tokenizer of lmc with the face that the driver expects."""

    def __init__(self, tokenizer):
        self._tokenizer = tokenizer

    def encode(self, text, add_special_tokens):
        return type("Encoding", (), {"ids": self._tokenizer.encode(text)})

    def decode(self, ids, skip_special_tokens):
        return self._tokenizer.decode(ids)


def test_a_request_waits_for_what_its_prompt_quotes():
    requests = [
        Request("b", (text("x", Quote("a", strip=True)), Output("a")), 4),
        Request("a", (text("abc"),), 4),
        Request("c", (text("abc"),), 4, after=("a",)),
    ]
    codes = type("Codes", (), {})()
    codes.encode = lambda text, add_special_tokens: type("E", (), {"ids": [ord(c) for c in text]})
    codes.decode = lambda ids, skip_special_tokens: "".join(map(chr, ids))
    graph = Graph(as_json(requests), codes)
    (first,) = graph.take_ready(in_order=True)
    assert first.name == "a"
    first.outputs = [[32, 65]]
    graph.end(first)
    found = {each.name: each.ids for each in graph.take_ready(in_order=True)}
    assert found == {"b": [120, 65, 32, 65], "c": [97, 98, 99]}


def test_without_order_prefixes_are_not_waited_for():
    requests = [Request("a", (text(""),), 1), Request("c", (text(""),), 1, after=("a",))]
    codes = type("Codes", (), {"encode": lambda *_, **__: type("E", (), {"ids": []})})()
    assert len(Graph(as_json(requests), codes).take_ready(in_order=False)) == 2


def test_patterns_become_grammars():
    assert gbnf_of(GRADE) == 'root ::= " " [A-D] [+-] ?'
    assert gbnf_of(r"a\{(bc|d)x{3}") == 'root ::= "a{" ( "bc" | "d" ) "x" {3}'
    assert gbnf_of(RECORD).startswith('root ::= "{\\"name\\": \\"" [A-Z] [a-z] {5}')
    with pytest.raises(ValueError, match="not translated"):
        gbnf_of("a+")


def test_choices_become_a_pattern():
    assert choice_pattern([" yes", " no"]) == "( yes| no)"


def results_of(seconds):
    kinds = {
        "lmc, bf16": {"group": "lmc", "precision": "bf16"},
        "lmc, int8": {"group": "lmc", "precision": "quantized"},
        "P": {"group": "p", "precision": "bf16"},
        "Q": {"group": "q", "precision": "quantized"},
    }
    samples = {
        workload: {
            engine: [{"seconds": s, "first_token": 0.0, "output_tokens": 101} for s in taken]
            for engine, taken in engines.items()
        }
        for workload, engines in seconds.items()
    }
    return Results({"machine": "m", "limits": {}, "kinds": kinds, "samples": samples})


def test_ratios_are_of_medians_and_against_the_fastest_peer():
    results = results_of({"b8": {"lmc, bf16": [2, 9, 1], "P": [3, 3, 3], "Q": [5, 4, 4]}})
    assert results.best_peer("b8") == ("P", 3)
    assert results.ratio("b8", "lmc, bf16") == 1.5
    assert ratio_rows(results) == [["b8", "P", "lmc, bf16", "1.50", "1.30", "yes"]]


def test_single_requests_are_compared_by_rate_within_a_precision():
    taken = {"lmc, bf16": [2], "lmc, int8": [1], "P": [1.8], "Q": [1.5]}
    found = ratio_rows(results_of({"a": taken}))
    assert found == [
        ["a, same precision", "P", "lmc, bf16", "0.90", "0.95", "no"],
        ["a, any precision", "Q", "lmc, int8", "1.50", "1.20", "yes"],
    ]


def test_what_was_not_measured_has_no_ratio():
    results = results_of({"b8": {"P": [1]}})
    assert results.ratio("b8", "lmc, bf16") is None
    assert ratio_rows(results) == []


def test_the_rate_leaves_the_first_token_out():
    assert decode_rate({"seconds": 3.0, "first_token": 1.0, "output_tokens": 101}) == 50
    assert decode_rate({"seconds": 3.0, "first_token": None, "output_tokens": 101}) is None


def test_a_table_is_markdown():
    assert table(["a", "b"], [["x", "1"]]) == "| a | b |\n| --- | ---: |\n| x | 1 |"


def test_a_table_replaces_what_stands_between_its_marks():
    page = "x\n<!-- a: begin -->\nold \\1\n<!-- a: end -->\n<!-- b: begin -->\n<!-- b: end -->\n"
    assert put(page, "a", r"n\1ew") == page.replace("old \\1", r"n\1ew")
    with pytest.raises(ValueError, match="no marks for 'c'"):
        put(page, "c", "")
