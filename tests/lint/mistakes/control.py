"""Mistakes of control: loops and calls without an end, effects, breaks, what a model lacks."""

import itertools
import random

import lmc

SEEN = []
COUNTS = {}
TOTAL = 0


def order(item):
    """Do something in the world that capture cannot look into."""
    return __import__("os").environ.get(item, "")


class Shop:
    """A host object."""

    def __init__(self):
        self.sold = []

    def sell(self, item):
        """Sell something."""
        self.sold.append(item)
        return item


SHOP = Shop()


# LMC601: no end.


@lmc.function
def forever(s):
    s += "Go.\n"
    while True:  # LMC601 while True
        s += lmc.gen("step", max_tokens=4, stop="\n")


@lmc.function
def forever_by_continue(s):
    s += "Go.\n"
    while True:  # LMC601 while True
        s += lmc.gen("step", max_tokens=4, stop="\n")
        if s["step"] == "skip":
            continue
        s += "\n"


@lmc.function
def forever_on_a_branch(s):
    s += "Go.\n"
    child = s.copy()
    while 1:  # LMC601 while 1
        child += lmc.gen("step", max_tokens=4, stop="\n")  # LMC101 lmc.gen("step"


@lmc.function
def same_condition(s, limit: int):
    s += "Go.\n"
    i = 0
    while i < limit:  # LMC601 while i < limit
        s += lmc.gen("step", max_tokens=4, stop="\n")


@lmc.function
def same_argument(s, is_on: bool):
    s += "Go.\n"
    while is_on:  # LMC601 while is_on
        s += lmc.gen("step", max_tokens=4, stop="\n")


@lmc.function
def same_variable(s):
    s += "Go." + lmc.gen("go", max_tokens=4)
    while s["go"] == "yes":  # LMC601 while s["go"]
        s += lmc.gen("step", max_tokens=4, stop="\n")


@lmc.function
def items_without_end(s):
    s += "Go.\n"
    for i in itertools.count():  # LMC601 for i in
        s += f"{i}:" + lmc.gen("step", max_tokens=4, stop="\n")


@lmc.function
def by_the_model_alone(s):
    s += "Guess:" + lmc.gen("guess", max_tokens=4, stop="\n")
    while s["guess"] != "right":  # LMC601 while s["guess"]
        s += "\nNo. Again:" + lmc.gen("guess", max_tokens=4, stop="\n")


@lmc.function
def break_by_the_model_alone(s):
    s += "Talk.\n"
    while True:  # LMC601 while True
        s += lmc.gen("word", max_tokens=4, stop="\n")
        if "end" in s["word"]:
            break


@lmc.function
def calls_itself(s, word: str):
    s += word + lmc.gen("word", max_tokens=4)
    calls_itself(s["word"])  # LMC601 calls_itself(


@lmc.function
def ping(s, word: str):
    s += word + lmc.gen("word", max_tokens=4)
    return pong(s["word"]).value  # LMC601 pong(


@lmc.function
def pong(s, word: str):
    s += word + lmc.gen("word", max_tokens=4)
    return ping(s["word"]).value  # LMC601 ping(


# LMC602: effects that keep an arm from starting ahead.


@lmc.function
def bought(s, item: str):
    s += "Buy " + item + "? " + lmc.select("buy", choices=["yes", "no"])
    if s["buy"] == "yes":
        s += order(item)  # LMC602 order(item)
        s += lmc.gen("thanks", max_tokens=4)


@lmc.function
def sold_by_type(s, item: str):
    s += "Sell " + item + "?" + lmc.gen("sell", type=bool, max_tokens=8)
    if s["sell"]:
        price = random.choice([1, 2])  # LMC602 random.choice(
        s += f" for {price}" + lmc.gen("thanks", max_tokens=4)


@lmc.function
def in_a_case(s, item: str):
    s += "Do: " + lmc.select("verb", choices=["buy", "wait"])
    match s["verb"]:
        case "buy":
            s += order(item)  # LMC602 order(item)
        case _:
            s += " Waiting."


# LMC603: tools that do what they deny.


@lmc.tool(effects="none")
def remembers(text):
    """Keep a text."""
    SEEN.append(text)  # LMC603 SEEN.append
    return text


@lmc.tool(effects="none")
def counts(text):
    """Count a text."""
    global TOTAL
    TOTAL += 1  # LMC603 TOTAL
    return TOTAL


@lmc.tool(effects="none")
def tallies(text):
    """Count a text in a dict."""
    COUNTS[text] = 1  # LMC603 COUNTS[text]
    return text


@lmc.tool(effects="none")
def prints(text):
    """Show a text."""
    print(text)  # LMC603 print(text)
    return text


@lmc.tool(effects="none")
def draws(low):
    """Draw a number."""
    return random.randint(low, 9)  # LMC603 random.randint


@lmc.tool(effects="none")
def writes(text):
    """Write a text to a file."""
    with open("log.txt", "a") as file:  # LMC603 open(
        file.write(text)
    return text


@lmc.function
def uses_tools(s, text: str):
    s += remembers(text) + tallies(text) + prints(text) + writes(text)
    s += str(counts(text)) + str(draws(1)) + lmc.gen("rest", max_tokens=4)


# LMC001: what cannot be compiled.


@lmc.function
def with_a_class(s):
    s += "Hello."

    class Inner:  # LMC001 class Inner
        pass

    s += lmc.gen("rest", max_tokens=4)


@lmc.function
def state_in_text(s):
    s += "Hello."
    s += f"again: {s}"  # LMC001 s}
    s += lmc.gen("rest", max_tokens=4)


@lmc.function
def with_eval(s, text: str):
    s += "Value: " + str(eval(text))  # LMC001 eval(text)
    s += lmc.gen("rest", max_tokens=4)


@lmc.function
def break_and_more(s):
    s += "Hello."
    del s.text  # LMC001 s.text
    return None
    s += "Never."  # LMC102 s += "Never."


# LMC701: what the model lacks.


@lmc.function
def unknown_control(s):
    s += "Hello." + lmc.control("<|eot_id|>")  # LMC701 "<|eot_id|>"
    s += lmc.gen("rest", max_tokens=4)


@lmc.function
def unknown_id(s):
    s += "Hello." + lmc.gen("rest", max_tokens=4, stop_token_ids=[9999999])  # LMC701 [9999999]


@lmc.function
def bias_of_two_tokens(s):
    s += "Hello."
    s += lmc.gen("rest", max_tokens=4, logit_bias={"two words": 1.0})  # LMC701 {"two words"
