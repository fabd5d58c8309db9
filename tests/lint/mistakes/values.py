"""Mistakes with variables and values."""

from typing import Literal

import lmc

# LMC501: variables that nothing sets.


@lmc.function
def misspelt(s):
    s += "Name:" + lmc.gen("name", max_tokens=4)
    return s["nmae"]  # LMC501 s["nmae"]


@lmc.function
def read_too_early(s):
    s += "Name:"
    s += "(" + s["name"] + ")"  # LMC501 s["name"]
    s += lmc.gen("name", max_tokens=4)


@lmc.function
def not_of_the_child(s):
    s += "Name:"
    child = s.copy()
    child += lmc.gen("name", max_tokens=4)
    s += child["name"]
    return s["name"]  # LMC501 s["name"]


@lmc.function
def meta_of_nothing(s):
    s += "Name:" + lmc.gen("name", max_tokens=4)
    return s.get_meta_info("title")["finish_reason"]  # LMC501 s.get_meta_info


@lmc.function
def inner(s, word: str):
    s += word + lmc.gen("said", max_tokens=4)


@lmc.function
def of_a_nested_program(s, word: str):
    result = inner(word)
    s += result["says"]  # LMC501 result["says"]


@lmc.function
def after_a_join(s):
    s += "Name:"
    forks = s.fork(2)
    forks += lmc.gen("name", max_tokens=4)
    forks.join()
    return s["names"]  # LMC501 s["names"]


def read_kind(s):
    """Read what the caller should have set."""
    return s["kind"]  # LMC501 s["kind"]


@lmc.function
def in_a_helper(s):
    s += "Kind:" + lmc.gen("sort", max_tokens=4)
    return read_kind(s)


@lmc.function
def in_an_f_string(s):
    s += "Name:" + lmc.gen("name", max_tokens=4)
    s += f" and {s['surname']}"  # LMC501 s['surname']


# LMC502: variables that some way leaves unset.


@lmc.function
def one_arm(s, wants_title: bool):
    s += "Book.\n"
    if wants_title:
        s += "Title:" + lmc.gen("title", max_tokens=4)
    s += "\nText:" + lmc.gen("text", max_tokens=4)
    return s["title"]  # LMC502 s["title"]


@lmc.function
def other_name_in_the_other_arm(s, kind: str):
    s += "Who?\n"
    if kind == "person":
        s += lmc.gen("name", max_tokens=4)
    else:
        s += lmc.gen("title", max_tokens=4)
    s += "\nAbout " + s["name"] + ":" + lmc.gen("about", max_tokens=4)  # LMC502 s["name"]


@lmc.function
def one_case(s, kind: str):
    s += "Who?\n"
    match kind:
        case "a":
            s += lmc.gen("a", max_tokens=4)
        case "b":
            s += lmc.gen("b", max_tokens=4)
    return s["a"]  # LMC502 s["a"]


@lmc.function
def python_name(s, flag: bool):
    if flag:
        ending = "!"
    s += "Hello"
    s += ending  # LMC502 ending
    s += lmc.gen("rest", max_tokens=4)


@lmc.function
def one_option_left(s):
    s += "Kind: " + lmc.select("kind", choices=["news", "poem", "note"])
    if s["kind"] == "news":
        heading = "Today"
    elif s["kind"] == "poem":
        heading = "O"
    s += heading + lmc.gen("text", max_tokens=4)  # LMC502 heading


@lmc.function
def unknown_case(s, verb: str):
    s += "Do.\n"
    match verb:
        case "go":
            s += "Where:" + lmc.gen("place", max_tokens=4)
        case "stay":
            s += "How long:" + lmc.gen("place", max_tokens=4)
    s += "\n" + s["place"]  # LMC502 s["place"]


# LMC503: comparisons that have one outcome.


@lmc.function
def not_an_option(s):
    s += "Is it? " + lmc.select("answer", choices=["yes", "no"])
    if s["answer"] == "maybe":  # LMC503 s["answer"] == "maybe"
        s += " Perhaps."


@lmc.function
def other_case(s):
    s += "Is it? " + lmc.select("answer", choices=["Yes", "No"])
    if s["answer"] == "yes":  # LMC503 s["answer"] == "yes"
        s += " Good."


@lmc.function
def with_a_blank(s):
    s += "Is it?" + lmc.select("answer", choices=[" yes", " no"])
    return s["answer"] == "yes"  # LMC503 s["answer"] == "yes"


@lmc.function
def none_of_these(s):
    s += "Kind: " + lmc.select("kind", choices=["news", "poem"])
    if s["kind"] in ("letter", "note"):  # LMC503 s["kind"] in
        s += " Dear"


@lmc.function
def case_of_no_option(s):
    s += "Kind: " + lmc.select("kind", choices=["news", "poem"])
    match s["kind"]:
        case "news":
            s += " Today"
        case "letter":  # LMC503 "letter"
            s += " Dear"


@lmc.function
def text_and_number(s):
    s += "How many?" + lmc.gen("count", max_tokens=4)
    if s["count"] == 3:  # LMC503 s["count"] == 3
        s += " Three."


@lmc.function
def number_and_text(s):
    s += "How many?" + lmc.gen("count", type=int, max_tokens=8)
    if s["count"] == "3":  # LMC503 s["count"] == "3"
        s += " Three."


@lmc.function
def bool_and_text(s):
    s += "Is it?" + lmc.gen("is_it", type=bool, max_tokens=8)
    if s["is_it"] == "True":  # LMC503 s["is_it"] == "True"
        s += " Yes."


@lmc.function
def outside_the_regex(s):
    s += "Grade:" + lmc.gen("grade", regex="[A-D]", max_tokens=4)
    if s["grade"] == "E":  # LMC503 s["grade"] == "E"
        s += " Failed."


@lmc.function
def outside_the_literal(s):
    s += "Pet:" + lmc.gen("pet", type=Literal["cat", "dog"], max_tokens=8)
    return s["pet"] == "bird"  # LMC503 s["pet"] == "bird"


@lmc.function
def after_lower(s):
    s += "Is it?" + lmc.gen("answer", max_tokens=4)
    if s["answer"].lower() == "Yes":  # LMC503 s["answer"].lower() == "Yes"
        s += " Good."


@lmc.function
def after_strip(s):
    s += "Is it?" + lmc.gen("answer", max_tokens=4)
    answer = s["answer"].strip()
    if answer != " yes":  # LMC503 answer != " yes"
        s += " Good."


# LMC504: operations that the value's type lacks.


@lmc.function
def samples_as_text(s):
    s += "Say:" + lmc.gen("said", max_tokens=4, n=3)
    return s["said"].strip()  # LMC504 s["said"].strip()


@lmc.function
def samples_appended(s):
    s += "Say:" + lmc.gen("said", max_tokens=4, n=3)
    s += s["said"]  # LMC504 s["said"]


@lmc.function
def number_appended(s):
    s += "Count:" + lmc.gen("count", type=int, max_tokens=8)
    s += s["count"]  # LMC504 s["count"]


@lmc.function
def number_and_text_added(s):
    s += "Count:" + lmc.gen("count", type=int, max_tokens=8)
    s += "Twice: " + s["count"]  # LMC504 "Twice: " + s["count"]


@lmc.function
def text_and_number_added(s):
    s += "Count:" + lmc.gen("count", max_tokens=8)
    return s["count"] + 1  # LMC504 s["count"] + 1


@lmc.function
def text_ordered(s):
    s += "Count:" + lmc.gen("count", max_tokens=8)
    if s["count"] > 3:  # LMC504 s["count"] > 3
        s += " Many."


@lmc.function
def number_stripped(s):
    s += "Count:" + lmc.gen("count", type=int, max_tokens=8)
    return s["count"].strip()  # LMC504 s["count"].strip()


@lmc.function
def samples_of_branches(s):
    s += "Say.\n"
    child = s.copy()
    child += lmc.gen("said", max_tokens=4, n=2)
    s += "It said " + child["said"]  # LMC504 "It said " + child["said"]


@lmc.function
def parts_appended(s):
    s += "Words:" + lmc.gen("words", max_tokens=8)
    words = s["words"].split(",")
    s += words  # LMC504 words


@lmc.function
def length_added(s):
    s += "Word:" + lmc.gen("word", max_tokens=8)
    s += "Letters: " + len(s["word"])  # LMC504 "Letters: " + len(s["word"])


@lmc.function
def no_such_method(s):
    s += "Word:" + lmc.gen("word", max_tokens=8)
    s += s["word"].reversed()  # LMC504 s["word"].reversed()
