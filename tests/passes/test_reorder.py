"""reorder: a permutation of pieces, the best one there is, and what it saves is what it says."""

import re
from itertools import permutations
from random import Random

import lmc
from lmc.frontend.capture import capture
from lmc.ir.builder import Builder, new_function
from lmc.ir.core import Module, Value
from lmc.ir.interpreter import interpret
from lmc.ir.types import STATE
from lmc.ir.verifier import verify
from lmc.passes.analysis import Facts
from lmc.passes.pieces import Class, Piece, Sharing, shared, stretch_from
from lmc.passes.pipeline import PassManager
from lmc.passes.reorder import chosen_order

ARGS = {"a": "abc", "b": "xyz"}


def mark(b: Builder, state: Value, side: str) -> Value:
    return b.op("lm.unordered", [state], [STATE], attributes={"side": side}).result


def random_stretch(draw: Random, count: int) -> tuple[Module, list[str]]:
    """Return a program with one stretch, and the letters of its pieces in the source's order.

    Each piece appends its letter, so that the final text shows the order.
    """
    function = new_function("main", ["a", "b"])
    b = Builder(function.body)
    effect, *arguments = function.body.arguments
    state = b.prompt()
    match draw.randrange(4):
        case 0:
            state = b.extend(state, "S")
        case 1:
            state = b.extend(state, arguments[0])
        case 2:
            state = b.gen(state, None).results[0]
    state = mark(b, state, "begin")
    names, letters, made = ["u", "v"], "ABCDEFGH"[:count], []
    for number, letter in enumerate(letters):
        if number:
            state = mark(b, state, "next")
        front = letter + "." * draw.randrange(4)
        match draw.randrange(8):
            case 0 | 1 | 2:
                state = b.extend(state, front)
            case 3 | 4:
                text = b.value("val.binary", [b.const(front), draw.choice(arguments)], op="+")
                state = b.extend(state, text)
            case 5:
                state, text, _ = b.gen(b.extend(state, front), draw.choice(names)).results
                made.append(text)
            case 6:
                state = b.extend(b.extend(state, front), draw.choice([*made, *arguments]))
            case _:
                called = b.op("lm.set", [state, arguments[0]], [STATE], attributes={"name": "w"})
                state = b.extend(called.result, front)
    state = mark(b, state, "end")
    b.return_(effect, state, b.const(None))
    module = Module("m", {"main": function}, ["main"])
    verify(module)
    return module, list(letters)


def pieces_of(module: Module) -> tuple[list[Piece], Class]:
    """Return the pieces of the module's stretch, and what decides the prompt before."""
    from lmc.passes.pieces import class_before

    facts = Facts.of(module.functions["main"], is_called=False)
    begin = next(op for op in module.walk() if op.attributes.get("side") == "begin")
    return stretch_from(begin, facts, ()).pieces, class_before(begin.operands[0], facts)


def allowed(pieces: list[Piece]) -> list[list[Piece]]:
    """Return every order in which what stays keeps its order."""
    stays = [piece for piece in pieces if not piece.may_move]
    orders = map(list, permutations(pieces))
    return [o for o in orders if [piece for piece in o if not piece.may_move] == stays]


def rank(sharing: Sharing) -> tuple[int, int, int]:
    """Order sharings: equal arguments first, since all that other runs share is among that."""
    return sharing.known, sharing.characters, sharing.everywhere


def test_the_chosen_order_is_the_best_of_all() -> None:
    gained = 0
    for seed in range(200):
        draw = Random(seed)
        module, _ = random_stretch(draw, draw.randint(2, 6 if seed % 20 else 7))
        pieces, before = pieces_of(module)
        chosen = chosen_order(pieces, before)
        assert sorted(map(id, chosen)) == sorted(map(id, pieces))
        best = max(rank(shared(order, before)) for order in allowed(pieces))
        assert rank(shared(chosen, before)) == best, seed
        gained += rank(shared(pieces, before)) < best
    assert gained > 80


def shown(module: Module, target, model) -> tuple[str, list[str]]:
    run = interpret(module, "main", ARGS, model=model, target=target, seed=3)
    return run.text, [call.site for call, _ in run.calls]


def test_the_result_is_a_permutation_of_the_pieces(merging_target, hash_model) -> None:
    for seed in range(150):
        check_permutation(Random(seed), merging_target, hash_model)


def check_permutation(draw: Random, merging_target, hash_model) -> None:
    """Fail if what reorder makes of a stretch is no permutation of its pieces."""
    module, letters = random_stretch(draw, draw.randint(2, 7))
    before = shown(module, merging_target, hash_model)
    result = PassManager.parse("reorder").run(module)
    after = shown(result.module, merging_target, hash_model)
    assert after[1] == before[1], "calls keep their order"
    assert not any(op.name == "lm.unordered" for op in result.module.walk())
    order = re.findall("[A-H]", after[0])
    assert sorted(order) == letters
    assert result.level == ("E" if order == letters else "C")
    assert (result.reference is module) == (order == letters)
    if order == letters:
        assert after == before
    again = PassManager.parse("reorder").run(result.module)
    assert again.module is result.module


def test_check_compares_from_the_new_order_on() -> None:
    report = lmc.check(reordered, examples=10)
    assert report.is_equal, report
    assert "unordered pieces are in another order in pipeline, reorder" in str(report)
    plain = lmc.check(written_well, examples=5)
    assert plain.is_equal
    assert not plain.notes


@lmc.function
def reordered(s, name: str):
    with lmc.unordered(s):
        s += "Name: " + name
        s += lmc.gen("x", max_tokens=4)
        s += "Be kind. "
    forks = s.fork(2)
    forks += "On:" + lmc.gen("y", max_tokens=3)
    return [fork["y"] for fork in forks]


@lmc.function
def written_well(s, name: str):
    with lmc.unordered(s):
        s += "Be kind. "
        s += "Name: " + name + lmc.gen("x", max_tokens=4)


def test_the_log_says_the_level_and_eager_mode_keeps_the_source_order() -> None:
    compiled = reordered.compile("oracle")
    levels = {record.name: record.level for record in compiled.pass_log if record.changed}
    assert levels["reorder"] == "C"
    assert set(levels.values()) == {"C", "E"}
    assert {r.level for r in written_well.compile("oracle").pass_log} == {"E"}
    oracle = lmc.Oracle({"x": " x ", "y": "y"})
    assert reordered.run(name="Ada", backend=oracle).text() == "Be kind. Name: Ada x "
    eager = reordered.run(name="Ada", backend=oracle, mode="eager")
    assert eager.text() == "Name: Ada x Be kind. "


def test_remarks_tell_what_is_gained_and_what_is_in_the_way() -> None:
    module = capture([reordered]).module
    (remark,) = PassManager.parse("reorder").run(module).log[0].remarks
    assert remark.fired
    assert remark.message == (
        "in another order: 9 characters more are the same in all runs, "
        "9 constant characters more before what is generated"
    )
