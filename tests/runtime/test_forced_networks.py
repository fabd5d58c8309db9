"""What grammars, tags and schemas that hold themselves force: ids, heads, the same results."""

import json
import random

import pytest
from engine_expected import PROMPT
from tokenizers_fetched import NAMES, tokenizer_named

import lmc
from lmc.codegen.forced_head import forced_head
from lmc.codegen.lower import lower
from lmc.frontend.capture import capture
from lmc.ir.calls import Constraint
from lmc.passes.pipeline import PassManager
from lmc.runtime.constraint import ConstraintCache
from lmc.runtime.constraint.forecast import num_forced
from lmc.runtime.oracle_grammar import random_answer
from lmc.runtime.oracle_text import Draw

TREE = {
    "$defs": {
        "t": {
            "type": "object",
            "properties": {
                "größe": {"type": "integer"},
                "order": {"enum": ["order", "orderName", "日本語", "日本"]},
                "kids": {"type": "array", "items": {"$ref": "#/$defs/t"}},
            },
            "required": ["größe", "order"],
        }
    },
    "$ref": "#/$defs/t",
}
CASES = {
    "tree": lmc.Constraint.json_schema(TREE),
    "compact tree": lmc.Constraint.json_schema(TREE, separators=(",", ":")),
    "calls": lmc.Constraint.ebnf(
        'root ::= "The result of f(" args ") is certain"\n'
        'args ::= arg (", the next argument: " arg)*\narg ::= "(skill|cloud)" | "g(" args ")"'
    ),
    "words": lmc.Constraint.ebnf(
        'start: "<begin>" item+ "<end>"\nitem: "the sky" | "the skills" | "[" item "]"'
    ),
    "tags": lmc.Constraint.tags(
        [
            {"begin": "<tool_call>", "end": "</tool_call>", "json_schema": TREE},
            {"begin": "<answer>", "end": "</answer>", "regex": "[0-9]{1,4} metres"},
        ],
        free_text=False, at_least=1, at_most=1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", CASES)
def test_forced_ids_are_those_of_the_whole_text(case, name):
    """The oracle is the tokenizer: what is forced must be what it writes at that place."""
    tokenizer = tokenizer_named(name)
    limit = ConstraintCache(tokenizer).get(CASES[case].request())
    forced = total = 0
    for number in range(12):
        ids = random_answer(tokenizer, limit, Draw(5, number))
        text = b"".join(tokenizer.token_bytes()[i] or b"" for i in ids).decode()
        ids = tokenizer.encode(text)
        matcher, at = limit.matcher(), 0
        while at < len(ids):
            run = matcher.forced_ids(ids[:at])
            assert list(run) == ids[at : at + len(run)], (text, at)
            forced += len(run)
            for token_id in run or ids[at : at + 1]:
                matcher.accept_token(token_id)
                at += 1
        assert matcher.can_end()
        assert forced == total + num_forced(limit, ids)
        total = forced
    assert forced > 0


def steps_of_engine(fakes, calls, **options):
    with fakes.make_engine(**options) as engine:
        return fakes.run_all(engine, calls), engine.stats()


NETWORKS = (
    Constraint("ebnf", 'root ::= "[the abc: " body ", then: 12"\nbody ::= "(" body ")" | [a-c]+'),
    Constraint("json_schema", json.dumps({
        "$defs": {"t": {"type": "object", "properties": {
            "abc": {"enum": ["the", "then"]}, "c": {"items": {"$ref": "#/$defs/t"}},
        }, "required": ["abc"]}}, "$ref": "#/$defs/t",
    })),
    Constraint("tags", json.dumps({
        "tags": [{"begin": "[the", "regex": "[0-9]{1,3}", "end": " abc]"}], "free_text": False,
        "at_least": 1, "at_most": 1,
    })),
)  # fmt: skip


@pytest.mark.parametrize("mode", ["canonical", "mask"])
def test_results_are_those_of_a_step_per_token(fakes, mode):
    rng = random.Random(4)
    calls = [
        fakes.gen(
            PROMPT[: rng.randint(1, 30)],
            constraint=NETWORKS[key % len(NETWORKS)],
            constraint_mode=mode,
            temperature=rng.choice((0.0, 0.7, 1.5)),
            max_tokens=rng.choice((3, 6, 40, 60)),
            stop=rng.choice(((), ("abc",), ("c: ", "00"))),
            key=key,
        )
        for key in range(45)
    ]
    plain, slow = steps_of_engine(fakes, calls, jumps=False)
    found, quick = steps_of_engine(fakes, calls, debug=True)
    assert found == plain
    assert quick.output_tokens == slow.output_tokens
    assert quick.decode_steps < slow.decode_steps


@lmc.function
def begins(s):
    s += "The record of a tree is "
    s += lmc.gen("tree", constraint=CASES["tree"], max_tokens=80)


@lmc.function
def answers(s, deep: str):
    s += "Answer: " + lmc.gen("answer", constraint=CASES["tags"], max_tokens=40)
    s += lmc.gen("deep", grammar=deep, max_tokens=40)


def test_what_a_network_forces_first_is_part_of_the_constant_prefix():
    target = lmc.Oracle().target
    tokenizer = target.tokenizer
    limit = ConstraintCache(tokenizer).get(CASES["tree"].request())
    head = limit.matcher().forced_ids(())
    assert tokenizer.decode(head).startswith('{"größe"')
    module = PassManager.parse().run(capture([begins.__lmc_function__]).module).module
    (gen,) = [op for op in module.walk() if op.name == "lm.gen"]
    assert forced_head([gen], tokenizer) == head
    assert gen.attributes["skeleton"][0] == ["text", '{"größe": ']
    plan = lower(module, target)
    (step,) = [s for s in plan.functions["begins"].body.walk() if s.op == "lm.prologue"]
    ids = step.attributes["token_ids"]
    assert ids == (*tokenizer.start_ids, *tokenizer.encode("The record of a tree is "), *head)
    masked = lmc.gen("tree", constraint=CASES["tree"], constraint_mode="mask")
    gen.attributes["params"] = masked.params
    assert forced_head([gen], tokenizer) == ()


def test_every_mode_gives_the_same():
    for seed in range(3):
        backend = lmc.Oracle(seed=seed)
        for program, given in ((begins, {}), (answers, {"deep": 'root ::= "(" root ")" | "x"'})):
            made = program.run(**given, backend=backend, seed=seed)
            eager = program.run(**given, backend=backend, seed=seed, mode="eager")
            assert made.text() == eager.text()
