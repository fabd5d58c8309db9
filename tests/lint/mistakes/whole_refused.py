"""Whole programs that do not compile, have wrong constraints, or do not fit the model."""
# fmt: off

import lmc


@lmc.function
def close(s, q: str):
    s += "Q: " + q + "\n"
    s += lmc.control("<|eot_id|>")  # LMC701 "<|eot_id|>")
    s += "A:" + lmc.gen("a", max_tokens=10)


@lmc.function
def biased(s, q: str):
    s += "Q: " + q + "\nA:"
    s += lmc.gen("a", max_tokens=10, logit_bias={" unquestionably so": 5.0})  # LMC701 {" unquestiona
    return s["a"]


@lmc.function
def ids(s, q: str):
    s += "Q: " + q + "\nA:"
    s += lmc.gen("a", max_tokens=10, stop_token_ids=[9999999])  # LMC701 [9999999])
    return s["a"]


@lmc.function
def top(s, q: str):
    s += "Q: " + q + "\nA:"
    s += lmc.gen("a", max_tokens=10, beam_width=4)  # LMC002 4)
    return s["a"]


@lmc.function
def biased2(s, q: str):
    s += lmc.user(q)
    s += lmc.assistant(lmc.gen("a", max_tokens=10, logit_bias={8888888: -5.0}))  # LMC701 {8888888: -5.0
    return s["a"]


@lmc.function
def klass(s, q: str):
    s += q

    class Box:  # LMC001 class Box:
        x = 1

    s += lmc.gen("a", max_tokens=4)


@lmc.function
def items(s, q: str):
    s += q + lmc.gen("a", max_tokens=4)
    yield s["a"]  # LMC001 yield s["a"]


COUNT = 0


@lmc.function
def counted(s, q: str):
    global COUNT
    COUNT += 1  # LMC001 COUNT += 1
    s += q + lmc.gen("a", max_tokens=4)


@lmc.function
def safe(s, q: str):
    s += q

    async def later():  # LMC001 async def late
        return 1

    s += lmc.gen("a", max_tokens=4)


def helper(s, q):
    with open(q) as f:  # LMC001 open(q) as f:
        s += f.read()


@lmc.function
def uses(s, q: str):
    helper(s, q)
    s += "\nSummary:" + lmc.gen("a", max_tokens=4)


@lmc.function
def ident(s, doc: str):
    s += doc + "\nId:"
    s += lmc.gen("id", regex=r" ([a-z]+|[a-z0-9]+)", max_tokens=10)  # LMC306 r" ([a-z]+|[a-
    return s["id"]


@lmc.function
def row(s, doc: str):
    s += doc + "\nRow:"
    s += lmc.gen("row", regex=r" \d+,\d+", stop=",", max_tokens=10)  # LMC304 ",", max_token
    return s["row"]


@lmc.function
def none(s, doc: str):
    s += doc + "\nX:"
    s += lmc.gen("x", regex=r" (?=a)b", max_tokens=10)  # LMC304 r" (?=a)b", ma
    return s["x"]


@lmc.function
def num(s, doc: str):
    s += doc + "\nNumber: "
    s += lmc.gen("n", type=int, regex=r"[a-z]+", max_tokens=10)  # LMC304 r"[a-z]+", max
    return s["n"] + 1


@lmc.function
def pet(s, doc: str):
    s += doc + "\nPet:"
    s += lmc.gen("pet", regex="( cat| dog| cat)", max_tokens=4)  # LMC306 "( cat| dog| c
    return s["pet"]


@lmc.function
def size(s, doc: str):
    s += doc + "\nSize: "
    s += lmc.gen("size", choices=["small", "large", "small"])  # LMC402 "small"])


@lmc.function
def zipc(s, doc: str):
    s += doc + "\nZip:"
    s += lmc.gen("zip", regex=r" \d{5}", max_tokens=10)
    if s["zip"] == "12345":  # LMC503 s["zip"] == "1
        s += "\nNew York."
    s += "\nTown:" + lmc.gen("town", max_tokens=5)


IPV4 = r" (\d{1,3}(\.\d{1,3}){3}|[0-9.]+)"


@lmc.function
def ips(s, doc: str):
    s += doc + "\n"
    forks = s.fork(2)
    for f in forks:
        f += "IP:" + lmc.gen("ip", regex=IPV4, max_tokens=20)  # LMC306 IPV4, max_toke
    forks.join()
    return s["ip"]


@lmc.function
def first(s, q: str):
    s += q

    class A:  # LMC001 class A:
        pass

    s += lmc.gen("a", max_tokens=3)


@lmc.function
def second(s, q: str):
    s += q + "\nA:" + lmc.gen("a", max_tokens=3, stop="\n")
    s += "\nB:" + lmc.gen("a", max_tokens=3)  # LMC103 "a", max_token
    return s["a"]


@lmc.function
def third(s, q: str):
    s += q + "\nA: "
    s += lmc.select("a", choices=["a", "ab"])  # LMC401 ["a", "ab"])


@lmc.function
def ev(s, q: str):
    s += q + lmc.gen("e", max_tokens=6)
    v = eval(s["e"])  # LMC001 eval(s["e"])
    s += str(v)


@lmc.function
def gl(s, q: str):
    s += q + lmc.gen("e", max_tokens=6)
    s += str(globals())  # LMC001 globals())


@lmc.function
def od(s, q: str):
    s += q + "\nWhen:" + lmc.gen("w", regex=r" (\d{4}-\d{2}-\d{2}|today|[0-9-]{10})", max_tokens=14)  # LMC306 r" (\d{4}-\d{2
    return s["w"]


NUM = r" (?P<n>[0-9]+|[1-9][0-9]*)"


@lmc.function
def on(s, q: str):
    s += lmc.user(q)
    with s.assistant():
        s += "N:" + lmc.gen("w", regex=NUM, max_tokens=14)  # LMC306 NUM, max_token
    return s["w"]


@lmc.function
def es(s, q: str):
    s += q + "\nMail:" + lmc.gen("m", regex=r" [a-z]+@[a-z]+\.com", stop="@", max_tokens=14)  # LMC304 "@", max_token
    return s["m"]


@lmc.function
def bt(s, q: str):
    s += lmc.user(q + lmc.control("<|endofturn|>"))  # LMC701 "<|endofturn|>
    s += lmc.assistant(lmc.gen("a", max_tokens=5))


BIAS = {"absolutely not possible": -10}


@lmc.function
def bb(s, q: str):
    forks = s.fork(2)
    forks += q + lmc.gen("a", max_tokens=5, logit_bias=BIAS)  # LMC701 BIAS)
    forks.join()
    return s["a"]


@lmc.function
def inner(s, q: str):
    s += q + lmc.gen("a", max_tokens=5, stop_token_ids=[10**8])  # LMC701 [10**8])
    return s["a"]


@lmc.function
def outer(s, q: str):
    s += inner(q).ret_value + lmc.gen("b", max_tokens=5)
