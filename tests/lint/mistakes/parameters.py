"""Mistakes in decode parameters, stop strings, constraints and options."""

import dataclasses
from typing import Literal

import lmc

LINE_END = "\n"
STOPS = ["\n", "<|im_end|>"]
KINDS = ["news", "news item", "poem"]
TABLE = {"end": ["<|im_end|>"], "few": 2}
YEAR = r"[12][0-9]{3}"
RECORD = r'\{"name": "[a-z]{3,9}", "age": [0-9]{1,3}\}'


@dataclasses.dataclass
class Town:
    """Something with two fields."""

    name: str
    people: int


# LMC301: stop strings that cannot occur.


@lmc.function
def empty_stop(s):
    s += "Say:" + lmc.gen("said", stop="")  # LMC301 ""


@lmc.function
def empty_among_others(s):
    s += "Say:" + lmc.gen("said", stop=["\n", ""], max_tokens=4)  # LMC301 ["\n", ""]


@lmc.function
def outside_the_regex(s):
    s += "Year:" + lmc.gen("year", regex=r"[0-9]+", stop="\n", max_tokens=8)  # LMC301 "\n"


@lmc.function
def outside_a_module_regex(s):
    s += "Year:" + lmc.gen(
        "year",
        regex=YEAR,
        stop=["AD"],  # LMC301 "AD"
        max_tokens=8,
    )


@lmc.function
def outside_the_type(s):
    s += "Number:" + lmc.gen("number", type=int, stop=".", max_tokens=8)  # LMC301 "."


@lmc.function
def outside_the_literal(s):
    s += "It is a " + lmc.gen("pet", stop="!", type=Literal["cat", "dog"])  # LMC301 "!"


@lmc.function
def control_stop(s):
    s += "Say:" + lmc.gen("said", max_tokens=8, stop="<|im_end|>")  # LMC301 "<|im_end|>"


@lmc.function
def control_among_others(s):
    s += "Say:" + lmc.gen("said", max_tokens=8, stop=STOPS)  # LMC301 STOPS


@lmc.function
def longer_than_the_limit(s):
    s += "Say:" + lmc.gen("said", 2, stop="END OF THE WHOLE ANSWER")  # LMC301 "END


@lmc.function
def outside_by_pattern(s):
    s += "Year:" + lmc.gen("year", regex=YEAR, stop_regex="[a-z]+", max_tokens=8)  # LMC301 "[a-z]+"


@lmc.function
def looked_up(s):
    s += "Say:" + lmc.gen("said", max_tokens=8, stop=TABLE["end"])  # LMC301 TABLE["end"]


@lmc.function
def from_a_local(s):
    end = "<|im_" + "end|>"
    s += "Say:" + lmc.gen("said", max_tokens=8, stop=end)  # LMC301 end


# LMC302: stop strings that take away what the text needs.


@lmc.function
def quote_lost(s):
    s += '{"name": "' + lmc.gen("name", max_tokens=8, stop='"') + ', "age": '  # LMC302 '"'
    s += lmc.gen("age", type=int, max_tokens=8) + "}"


@lmc.function
def bracket_lost(s):
    s += "Search("
    s += lmc.gen("query", max_tokens=8, stop=")")  # LMC302 ")"
    s += "\nResult:" + lmc.gen("result", max_tokens=8)


@lmc.function
def tag_lost(s):
    s += "<think>" + lmc.gen("thought", max_tokens=8, stop="</think>")  # LMC302 "</think>"
    s += "\nSo:" + lmc.gen("result", max_tokens=8)


@lmc.function
def fence_lost(s):
    s += "```python\n" + lmc.gen("code", max_tokens=40, stop="```")  # LMC302 "```"
    s += "\nIt does this:" + lmc.gen("why", max_tokens=8)


@lmc.function
def begins_in_the_middle(s):
    s += "One sentence:" + lmc.gen("one", max_tokens=8, stop=".\n")  # LMC302 ".\n"
    s += "\nAnother:" + lmc.gen("another", max_tokens=8)


@lmc.function
def only_its_beginning(s):
    s += "Question:" + lmc.gen("question", max_tokens=8, stop="\nAnswer:")  # LMC302 "\nAnswer:"
    s += "\n" + lmc.gen("answer", max_tokens=8)


@lmc.function
def in_two_appends(s):
    s += "f("
    s += lmc.gen("value", max_tokens=8, stop=["\n", ")"])  # LMC302 ")"
    s += " ="
    s += lmc.gen("result", max_tokens=8)


@lmc.function
def lost_on_branches(s):
    s += "Fill in.\n"
    forks = s.fork(2)
    for fork in forks:
        fork += "word = [" + lmc.gen("word", max_tokens=8, stop="]")  # LMC302 "]"
        fork += " and so:" + lmc.gen("why", max_tokens=8)
    forks.join()


# LMC303: limits below the shortest text of the constraint.


@lmc.function
def low_for_a_regex(s):
    s += "Date:" + lmc.gen("date", max_tokens=3, regex=r"\d{4}-\d{2}-\d{2}")  # LMC303 3


@lmc.function
def low_by_position(s):
    s += "Record:" + lmc.gen("record", 4, regex=RECORD)  # LMC303 4


@lmc.function
def low_by_a_table(s):
    s += "Year:" + lmc.gen("year", max_tokens=TABLE["few"], regex=YEAR)  # LMC303 TABLE["few"]


@lmc.function
def low_for_a_type(s):
    s += "Town:" + lmc.gen("town", type=Town, max_tokens=5)  # LMC303 5


@lmc.function
def low_for_a_float(s):
    s += "Number:" + lmc.gen("number", type=float, max_tokens=2)  # LMC303 2
    return s["number"] + 1


@lmc.function
def low_for_a_schema(s):
    s += "Row:"
    s += lmc.gen(
        "row",
        json_schema={"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]},
        max_tokens=2,  # LMC303 2
    )


@lmc.function
def low_without_a_limit(s):
    s += "Digits:" + lmc.gen("digits", regex="[0-9]{400}")  # LMC303 "[0-9]{400}"


@lmc.function
def none_at_all(s):
    s += "Year:" + lmc.gen("year", regex=YEAR, max_tokens=0)  # LMC303 0


# LMC304: constraints that cannot be met.


@lmc.function
def matches_nothing(s):
    s += "Word:" + lmc.gen("word", regex="(?=a)b", max_tokens=8)  # LMC304 "(?=a)b"


@lmc.function
def not_a_regex(s):
    s += "Word:" + lmc.gen("word", regex="[a-z", max_tokens=8)  # LMC304 "[a-z"


@lmc.function
def not_regular(s):
    s += "Word:" + lmc.gen("word", regex=r"([ab]+)\1", max_tokens=8)  # LMC304 r"([ab]+)


@lmc.function
def stopped_for_sure(s):
    s += "Line:" + lmc.gen("line", regex=r"[a-z]+\n", stop="\n", max_tokens=8)  # LMC304 "\n"


@lmc.function
def stopped_by_a_constant(s):
    s += "Row:" + lmc.gen("row", regex=r"[a-z]+;[a-z]+", stop=[";"], max_tokens=8)  # LMC304 [";"]


@lmc.function
def unreadable_number(s):
    s += "Number:"
    s += lmc.gen("number", type=int, regex="[a-z]{2}", max_tokens=8)  # LMC304 "[a-z]{2}"


@lmc.function
def unreadable_literal(s):
    s += "Pet: " + lmc.gen("pet", type=Literal["cat", "dog"], regex="[A-Z]+")  # LMC304 "[A-Z]+"


# LMC305: parameters without a meaning.


@lmc.function
def greedy_top_p(s):
    s += "Say:" + lmc.gen("said", max_tokens=8, temperature=0, top_p=0.9)  # LMC305 0.9


@lmc.function
def greedy_top_k(s):
    s += "Say:" + lmc.gen("said", max_tokens=8, temperature=0.0, top_k=40)  # LMC305 40


@lmc.function
def greedy_min_p(s):
    s += "Say:" + lmc.gen("said", max_tokens=8, min_p=0.1, temperature=0)  # LMC305 0.1


@lmc.function
def greedy_seed(s):
    s += "Say:" + lmc.gen("said", max_tokens=8, seed=7, temperature=0)  # LMC305 7


@lmc.function
def greedy_samples(s):
    s += "Say:" + lmc.gen("said", max_tokens=8, n=4, temperature=0)  # LMC305 4


@lmc.function
def one_token_samples(s):
    s += "Say:" + lmc.gen("said", max_tokens=8, n=3, top_k=1)  # LMC305 3


@lmc.function
def limit_of_a_choice(s):
    s += "Kind: " + lmc.gen("kind", choices=["a", "b"], max_tokens=4)  # LMC305 4


@lmc.function
def regex_of_a_choice(s):
    s += "Kind: " + lmc.gen("kind", choices=["a", "b"], regex="[ab]")  # LMC305 "[ab]"


@lmc.function
def stop_of_nothing(s):
    s += "Say:" + lmc.gen("said", max_tokens=0, stop="\n", return_logprob=True)  # LMC305 "\n"


@lmc.function
def minimum_beyond_the_regex(s):
    s += "Year:" + lmc.gen("year", regex=YEAR, min_tokens=20, max_tokens=30)  # LMC305 20


# LMC306: alternatives that overlap.


@lmc.function
def overlapping(s):
    s += "Pet:" + lmc.gen("pet", regex="(cat|ca[rt])", max_tokens=8)  # LMC306 "(cat|


@lmc.function
def alternative_twice(s):
    s += "Pet:" + lmc.gen("pet", regex="cat|dog|cat", max_tokens=8)  # LMC306 "cat|


# LMC401 to LMC403: options.


@lmc.function
def prefix(s):
    s += "Answer: " + lmc.select("answer", choices=["yes", "yes, but"])  # LMC401 ["yes"


@lmc.function
def prefix_of_module(s):
    s += "Kind: " + lmc.select("kind", KINDS)  # LMC401 KINDS


@lmc.function
def prefix_by_gen(s):
    s += "Kind: " + lmc.gen("kind", choices=["A", "B", "AB"])  # LMC401 ["A"


@lmc.function
def prefix_in_several_lines(s):
    s += "Kind: " + lmc.select(
        "kind",
        choices=[  # LMC401 [
            "search",
            "search again",
        ],
    )


@lmc.function
def listed_twice(s):
    s += "Kind: " + lmc.select("kind", choices=["a", "b", "a"])  # LMC402 "a"]


@lmc.function
def tuple_twice(s):
    s += "Kind: " + lmc.select("kind", choices=("x", "y", "y"))  # LMC402 "y")


@lmc.function
def only_one(s):
    s += "Kind: " + lmc.select("kind", choices=["a"])  # LMC403 ["a"]


@lmc.function
def none_listed(s):
    s += "Kind: " + lmc.select("kind", choices=[])  # LMC403 []


@lmc.function
def prefix_in_a_local(s):
    options = ["on", "one", "off"]
    s += "State: " + lmc.select("state", choices=options)  # LMC401 options


# LMC002: values that a parameter cannot have; the others of the call are still looked at.


@lmc.function
def negative_limit(s):
    s += "Say:" + lmc.gen("said", max_tokens=-1)  # LMC002 -1


@lmc.function
def wrong_temperature(s):
    s += "Say:" + lmc.gen("said", temperature=-0.5, max_tokens=8)  # LMC002 -0.5


@lmc.function
def unknown_parameter(s):
    s += "Say:" + lmc.gen("said", max_token=8)  # LMC002 8


@lmc.function
def unknown_method(s):
    s += "Kind: " + lmc.select("kind", ["a", "b"], choices_method="best")  # LMC002 "best"


@lmc.function
def warm_choice(s):
    s += "Kind: " + lmc.select("kind", ["a", "b"], temperature=0.7)  # LMC002 0.7


@lmc.function
def two_in_one_call(s):
    s += "Say:" + lmc.gen(
        "said",
        top_p=2,  # LMC002 2
        temperature=-1,  # LMC002 -1
    )


# Grammars and constraints as objects.


@lmc.function
def too_short_for_a_grammar(s):
    rule = 'root ::= "[" root "]" | "c"{400}'
    s += "Say:" + lmc.gen("said", grammar=rule, max_tokens=1)  # LMC303 1


@lmc.function
def wrong_grammar(s):
    s += "Say:" + lmc.gen("said", grammar='root ::= "a" b', max_tokens=9)  # LMC304 'root


EVEN = lmc.Constraint.regex("(?:[02468]{2})+")


@lmc.function
def too_short_for_a_constraint(s):
    limit = lmc.Constraint.choices(["the end of the beginning", "the beginning of the end"])
    s += "Say:" + lmc.gen("said", constraint=limit, max_tokens=2)  # LMC303 2


@lmc.function
def wrong_constraint(s):
    s += "Say:" + lmc.gen("said", constraint=EVEN, max_tokens=9, stop=["x"])  # LMC301 "x"
