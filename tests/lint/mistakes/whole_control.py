"""Whole programs with mistakes in options, loops and effects."""
# fmt: off

import os
import random
import subprocess
import time
import urllib.request
from typing import Literal

import lmc


@lmc.function
def verdict(s, claim: str):
    s += "Claim: " + claim + "\nVerdict: "
    s += lmc.select("verdict", choices=["true", "true in part", "false"])  # LMC401 ["true", "true


@lmc.function
def scale(s, text: str):
    s += text + "\nScore: " + lmc.gen("score", choices=["1", "2", "10"])  # LMC401 ["1", "2", "10


LABELS = ["no", "none", "some"]


@lmc.function
def label(s, text: str):
    s += text + "\nHow much? "
    s += lmc.select("label", LABELS)  # LMC401 LABELS)
    return s["label"]


@lmc.function
def tool(s, q: str):
    s += q + "\nTool: " + lmc.select("tool", choices=["search", "search_web", "stop"])  # LMC401 ["search", "se
    return s["tool"]


@lmc.function
def agent(s, q: str):
    t = tool(q).ret_value
    s += q + "\nI use " + t + ":" + lmc.gen("rest", max_tokens=20)


@lmc.function
def sure(s, q: str):
    s += lmc.user(q)
    s += lmc.assistant("I am " + lmc.select("sure", ["sure", "sure about it"]) + ".")  # LMC401 ["sure", "sure


@lmc.function
def multi(s, items: list[str]):
    s += "Judge.\n"
    forks = s.fork(len(items))
    for f, item in zip(forks, items):
        f += item + ": "
        f += lmc.select("j", choices=("ok", "okay", "bad"))  # LMC401 ("ok", "okay",
    forks.join()
    return s["j"]


@lmc.function
def retry(s, q: str):
    tries = 0
    s += "Q: " + q + "\n"
    while tries < 3:  # LMC601 while tries <
        s += "A:" + lmc.gen("a", max_tokens=10, stop="\n") + "\n"
        s += "Right? " + lmc.select("right", choices=["yes", "no"]) + "\n"
    return s["a"]


@lmc.function
def forever(s, q: str):
    s += lmc.user(q)
    while True:  # LMC601 while True:
        s += lmc.assistant(lmc.gen("a", max_tokens=10))
        s += lmc.user("Go on.")


@lmc.function
def agent_again(s, goal: str):
    s += "Goal: " + goal + "\n"
    while True:  # LMC601 while True:
        s += "Thought:" + lmc.gen("t", max_tokens=20, stop="\n") + "\n"
        s += "Do: " + lmc.select("do", choices=["continue", "stop"]) + "\n"
        if s["do"] == "stop":
            break
    return s["t"]


@lmc.function
def expand(s, topic: str):
    s += "Topic: " + topic + "\nSub:"
    s += lmc.gen("sub", max_tokens=10, stop="\n")
    inner = expand(s["sub"])  # LMC601 expand(s["sub"
    return inner.ret_value + s["sub"]


def loop(s, lines):
    i = 0
    while i < len(lines):  # LMC601 while i < len(
        s += lines[i] + lmc.gen("x", max_tokens=4, stop="\n") + "\n"


@lmc.function
def run(s, lines: list[str]):
    s += "Lines:\n"
    loop(s, lines)
    return s.text()


@lmc.function
def guess(s, secret: str):
    s += "Guess:" + lmc.gen("guess", max_tokens=4, stop="\n")
    g = s["guess"]
    while g != secret:  # LMC601 while g != sec
        s += "\nWrong. Guess again:" + lmc.gen("guess", max_tokens=4, stop="\n")
    s += "\nRight."


@lmc.function
def dice(s, q: str):
    s += q + "\nRoll? " + lmc.select("roll", choices=["yes", "no"])
    if s["roll"] == "yes":
        n = random.randint(1, 6)  # LMC602 random.randint
        s += f"\nRolled {n}."
    s += "\nSo:" + lmc.gen("so", max_tokens=20)


def fetch(url):
    with urllib.request.urlopen(url) as page:
        return page.read().decode()


@lmc.function
def agent_again_again(s, q: str):
    s += "Q: " + q + "\n"
    for _ in range(3):
        s += "Next: " + lmc.select("next", choices=["look up", "answer"]) + "\n"
        if s["next"] == "look up":
            s += "Page: " + fetch("http://example.org/" + q)[:50] + "\n"  # LMC602 fetch("http://
        else:
            break
    s += "Answer:" + lmc.gen("answer", max_tokens=20)


@lmc.function
def wait(s, q: str):
    s += q + "\nWait? "
    s += lmc.gen("wait", type=bool, max_tokens=4)
    if s["wait"]:
        time.sleep(1)  # LMC602 time.sleep(1)
        s += "\nWaited."
    s += "\nDone:" + lmc.gen("done", max_tokens=5)


@lmc.function
def files(s, q: str):
    s += q + "\nDo: "
    s += lmc.gen("do", type=Literal["list", "leave"], max_tokens=6)
    match s["do"]:
        case "list":
            s += "\n" + ", ".join(os.listdir("."))  # LMC602 os.listdir("."
        case "leave":
            s += "\nBye."
    s += "\nThen:" + lmc.gen("then", max_tokens=5)


def act(s, what):
    if what == "run":
        out = subprocess.check_output(["date"])  # LMC602 subprocess.che
        s += out.decode()


@lmc.function
def shell(s, q: str):
    s += q + "\nAction: " + lmc.select("what", choices=["run", "skip"]) + "\n"
    act(s, s["what"])
    s += "Summary:" + lmc.gen("sum", max_tokens=10)


@lmc.function
def pb(s, q: str, fine: bool):
    s += q + "\nHow good? "
    if fine:
        s += lmc.select("g", choices=["bad", "good", "goodish"])  # LMC401 ["bad", "good"
    else:
        s += lmc.select("g", choices=["bad", "good"])
    return s["g"]


MODES = ("auto", "automatic", "manual")


@lmc.function
def pm(s, q: str):
    s += lmc.user(q)
    with s.assistant():
        s += "Mode: "
        s += lmc.gen("m", choices=MODES, temperature=0)  # LMC401 MODES, tempera
    return s["m"]


@lmc.function
def wrong(s, xs: list[str]):
    i = 0
    j = 0
    s += "List\n"
    while i < len(xs):  # LMC601 while i < len(
        s += xs[i] + ":" + lmc.gen("v", max_tokens=4, stop="\n") + "\n"
        j += 1


@lmc.function
def cont(s, q: str):
    done = False
    s += q
    while not done:  # LMC601 while not done
        s += "\nTry:" + lmc.gen("t", max_tokens=4, stop="\n")
        if s["t"] == " ok":
            continue


@lmc.function
def ping(s, n: int):
    s += "ping" + lmc.gen("a", max_tokens=2)
    return pong(n).ret_value  # LMC601 pong(n).ret_va


@lmc.function
def pong(s, n: int):
    s += "pong" + lmc.gen("b", max_tokens=2)
    return ping(n).ret_value  # LMC601 ping(n).ret_va


@lmc.function
def flag(s, q: str):
    s += q
    more = "yes"
    while more == "yes":  # LMC601 while more ==
        s += "\nItem:" + lmc.gen("item", max_tokens=5, stop="\n")
        s += "\nMore? " + lmc.select("more", choices=["yes", "no"])
        more = s["more"]


def noise():
    return random.choice(["a", "b"])


@lmc.function
def effects(s, q: str):
    s += q
    forks = s.fork(2)
    for f in forks:
        f += "\nNoise? " + lmc.select("n", choices=["yes", "no"])
        if f["n"] == "yes":
            f += "\n" + noise()  # LMC602 noise()
        f += "\nSo:" + lmc.gen("so", max_tokens=5)
    forks.join()
    return s["so"]


LOG = []


def log(x):
    open("log.txt", "a").write(x)


@lmc.function
def eff(s, q: str):
    s += q + "\nSave? " + lmc.gen("save", choices=["yes", "no"])
    if s["save"] == "yes":
        log(q)  # LMC602 log(q)
    s += "\nBye" + lmc.gen("x", max_tokens=3)


@lmc.function
def do(s, q: str):
    s += q + "\nHow? " + lmc.select("h", ["fast", "slow", "fast"])  # LMC402 "fast"])
    return s["h"]


@lmc.function
def oo(s, q: str):
    s += q + "\nHow? " + lmc.select("h", choices=["fast"])  # LMC403 ["fast"])
    return s["h"]
