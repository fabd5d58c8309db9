"""Typed reads, right and wrong: each mistake is marked with what pyright says about it."""

import enum
from dataclasses import dataclass
from typing import Literal, assert_type

import lmc


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Person:
    name: str
    age: int


@lmc.function
def reads(s: lmc.State, topic: str) -> int:
    age = lmc.gen("age", type=int)
    s += "Age: " + age
    assert_type(s[age], int)
    assert_type(age, lmc.Gen[int])
    s[age].upper()  # error: upper
    text: str = s[age]  # error: "int" is not assignable to "str"

    name = lmc.gen("name", stop="\n", temperature=0)
    s += name
    assert_type(s[name], str)
    s[name] + 1  # error: Operator "+" not supported
    s[name].strip()

    colour = lmc.gen(type=Colour)
    s += colour
    assert_type(s[colour], Colour)
    s[colour].valeu  # error: valeu

    person = lmc.gen("person", type=Person, max_tokens=64)
    s += person
    assert_type(s[person], Person)
    s[person].height  # error: height

    answer = lmc.gen("answer", type=Literal["yes", "no"])
    s += answer
    assert_type(s[answer], Literal["yes", "no"])
    if s[answer] == "maybe":  # error: no overlap
        return 0

    many = lmc.gen("many", n=3, type=float)
    s += many
    assert_type(s[many], list[float])
    words = lmc.gen("words", n=2)
    s += words
    assert_type(s[words], list[str])
    numbers = lmc.gen("numbers", type=list[int])
    s += numbers
    assert_type(s[numbers], list[int])
    maybe = lmc.gen("maybe", type=int | None)
    s += maybe
    assert_type(s[maybe], int | None)
    s[maybe] + 1  # error: not supported for "None"

    flag = lmc.gen("flag", dtype=bool)
    s += flag
    assert_type(s[flag], bool)
    kind = lmc.select("kind", choices=["a", "b"])
    s += kind
    assert_type(s[kind], str)
    s[kind] < 3  # error: Operator "<" not supported
    chosen = lmc.gen("chosen", choices=["a", "b"])
    s += chosen
    assert_type(s[chosen], str)
    number = lmc.gen_int("number")
    s += number
    assert_type(s[number], int)
    if age in s:
        s["age"] = s[age] + 1
    s[3]  # error: No overloads
    return s["age"]


@lmc.function
def appends(s: lmc.State, topic: str) -> None:
    s += lmc.select("x", choices=["a"])
    s += lmc.user("a" + lmc.gen("x") + "b")
    s.user("text")
    with s.assistant():
        s += lmc.gen("y")
    with s.var_scope("z"):
        s += topic
    with s.copy() as other:
        other += topic
    s.user(4)  # error: "Literal[4]" is not assignable to "str"
    s.usr("text")  # error: usr
    s.set_var(name="x", value=3)
    s.set("x", [1])
    with lmc.unordered(s):
        s += lmc.gen("xs", append=True)
    numbers = lmc.gen("numbers", append=True, type=int)
    s += numbers
    assert_type(s[numbers], list[int])
    s += lmc.image("a.png") + lmc.video(b"", 3)
    s += lmc.image(3)  # error: is not assignable to
    lmc.gen("x", stpo="\n")  # error: No overloads
    lmc.gen("x", temperature="0")  # error: is not assignable to type "float | None"
    lmc.gen(3)  # error: "Literal[3]" is not assignable to "str"
    lmc.select("x")
    s += 3  # error: not supported


@lmc.function
def forks(s: lmc.State, count: int) -> list[str]:
    judgment = lmc.gen("judgment")
    branches = s.fork(count)
    branches += "text"
    branches += ["a", lmc.gen("b")]
    branches[0] += judgment
    found: list[str] = []
    for branch in branches:
        branch += judgment
        found.append(branch[judgment])
    for branch, word in zip(branches, ["a", "b"]):
        branch += word
    branches.join()
    branches.jion()  # error: jion
    branches += 4  # error: not supported
    return found


def helper(s: lmc.State, question: lmc.Gen[int]) -> int:
    s += question
    return s[question]


@lmc.function
def helped(s: lmc.State) -> int:
    helper(s, lmc.gen("text"))  # error: "Gen[str]" is not assignable to "Gen[int]"
    return helper(s, lmc.gen("number", type=int))


@lmc.function(num_api_spec_tokens=3)
def outer(s: lmc.State, topic: str) -> list[int]:
    found = reads(topic)
    assert_type(found.value, int)
    reads(3)  # error: "Literal[3]" is not assignable to "str"
    reads(topic, temperature=0)
    return [found.value]


AGE = lmc.gen("age", type=int)


def runs(topic: str) -> None:
    result = reads.run(topic=topic)
    assert_type(result.value, int)
    assert_type(result[AGE], int)
    assert_type(result.text(), str)
    result.value.strip()  # error: strip
    reads.run(topic=1)  # error: "Literal[1]" is not assignable to "str"
    reads.run()  # error: No overloads
    reads.run(topc="x")  # error: No overloads
    assert_type(reads.run(topic, temperature=0, seed=1).value, int)
    reads.run(topic, seed="x")  # error: is not assignable to "int"
    handle = outer.run(topic="x", stream=True)
    assert_type(handle.value, list[int])
    for piece in handle.text_iter("x"):
        assert_type(piece, str)
    assert_type(outer.stream("x").result().value, list[int])
    results = reads.run_batch([{"topic": "a"}])
    assert_type(results[0].value, int)
    for one in reads.run_batch_iter([("a",)]):
        assert_type(one.value, int)
    bound = reads.bind(topic="x")
    assert_type(bound.run().value, int)


async def later(topic: str) -> int:
    found = await reads.arun(topic)
    await reads.arun(topic, 3)  # error: No overloads
    return found.value


def takes_any(program: lmc.Program, result: lmc.RunResult) -> None:
    program.run(1, 2, three=3)
    print(program.name, result.value)
