"""Programs with `try` of every kind; `test_tries` runs them in every mode."""

import json

import lmc


@lmc.tool(effects="write")
def note(value) -> str:
    return f"noted {value}"


@lmc.tool
def risky(word) -> int:
    if len(str(word)) % 2:
        raise ValueError(f"odd {word}")
    if not word:
        raise KeyError("empty")
    return len(word)


class ToolError(Exception):
    pass


@lmc.tool
def own(word) -> int:
    if len(str(word)) % 2:
        raise ToolError("own", word)
    return 1


@lmc.function
def parse_int(s, x: str):
    """A conversion of generated text."""
    s += "Q"
    s += lmc.gen("x", max_tokens=4)
    try:
        n = int(s["x"])
    except ValueError:
        n = 0
    return n


@lmc.function
def bad_json(s, x: str):
    """The exception in an f-string."""
    s += "Q"
    try:
        d = json.loads(x)
    except json.JSONDecodeError as e:
        s += f"Bad: {e}"
        d = None
    s += str(d)
    return d


@lmc.function
def retry(s, x: str):
    """A retry loop with else."""
    s += "count "
    n = -1
    for i in range(3):
        try:
            s += "try " + lmc.gen("n", type=int, max_tokens=2)
            n = s["n"] + int(x)
            break
        except ValueError as e:
            s += f"({type(e).__name__})"
            continue
    else:
        s += "never"
    return [n, i]


@lmc.function
def hosts(s, x: str):
    """Effects before, in and after what fails."""
    out = []
    try:
        out.append("a")
        note("before")
        k = risky(x)
        note("after")
        out.append(k)
    except (KeyError, TypeError) as e:
        out.append(repr(e))
    except Exception as e:
        out.append(str(e))
        note("handler")
    else:
        out.append("else")
    finally:
        note("finally")
    s += str(out)
    return out


@lmc.function
def returns(s, x: str, flag: bool):
    """Every way out, through finally."""
    for i in range(2):
        try:
            if flag:
                return int(x)
            if i:
                break
            continue
        except ValueError:
            s += "V"
            if len(x) > 2:
                return "long"
            break
        finally:
            s += "F"
            note(i)
    s += "end"
    return "out"


@lmc.function
def reraise(s, x: str):
    """raise alone, and finally, in nested tries."""
    try:
        try:
            s += "in"
            n = int(x)
        except ValueError as e:
            note(str(e))
            raise
        finally:
            s += "fin"
    except Exception as e:
        s += "outer " + str(e)
        n = None
    return n


@lmc.function
def uncaught(s, x: str):
    """No handler takes it."""
    try:
        n = int(x)
    except KeyError:
        n = 1
    finally:
        note("done")
    return n


def helper(s, word):
    s += "help"
    s += lmc.gen("h", type=int, max_tokens=2)
    if len(word) > 3:
        raise RuntimeError("long " + word)
    return s["h"]


@lmc.function
def inlined(s, x: str):
    """A helper with a state fails in the middle of an expression."""
    try:
        k = helper(s, x) + helper(s, x + "a")
    except RuntimeError as e:
        k = str(e)
    except ValueError as e:
        k = "cut"
    s += "k" + str(k)
    return k


def plain(word):
    try:
        return int(word) + 1
    except ValueError:
        pass
    try:
        return float(word)
    except ValueError as e:
        return str(e)
    finally:
        word = word + "x"


@lmc.function
def applied(s, x: str):
    """A helper of plain values has tries of its own."""
    try:
        k = plain(x)
        j = 1 / len(x)
    except ZeroDivisionError as e:
        k = j = str(e)
    s += f"{k} {j}"
    return k


@lmc.function
def inner(s, word):
    """Fails, after a call."""
    s += word + lmc.gen("w", type=int, max_tokens=2)
    if "a" in word:
        raise LookupError(word)
    return s["w"]


@lmc.function
def nested(s, x: str):
    """Another program fails."""
    s += "N"
    got = []
    for word in [x, "b", "a"]:
        try:
            r = inner(word)
            got.append(r.value)
        except LookupError as e:
            got.append(str(e))
        except ValueError:
            got.append("cut")
    s += str(got) + lmc.gen("z", max_tokens=3)
    return got


@lmc.function
def owned(s, x: str):
    """A class of this file, raised by a function and by the program."""
    try:
        own(x)
        if x == "":
            raise ToolError("empty")
    except ToolError as e:
        s += str(e.args)
        return len(e.args)
    return 0


@lmc.function
def missing(s, x: str):
    """Variables that are not set, and wrong parameters."""
    try:
        t = s["zz"]
    except KeyError as e:
        t = str(e)
    try:
        s += x
        s += lmc.gen(x or None, max_tokens=3)
        t = t + s["ab"]
    except Exception as e:
        t = t + type(e).__name__
    return t


@lmc.function
def forks(s, x: str, n: int):
    """Forks, joins and counts in a body."""
    s += "F"
    done = []
    try:
        f = s.fork(n % 4)
        for i, c in enumerate(f):
            c += f"{i}" + lmc.gen("c", type=int, max_tokens=2)
            done.append(i)
        k = 6 // len(f)
        f.join()
    except (ZeroDivisionError, ValueError) as e:
        s += str(e)
        k = -1
    s += str(done) + lmc.gen("z", max_tokens=3)
    return [k, done, "c" in s]


@lmc.function
def mutate(s, xs: list[str]):
    """Lists and dicts keep what was done to them."""
    d = {}
    ys = ["y"]
    for x in xs[:4]:
        try:
            ys.append(x)
            d[x] = len(ys)
            ys[0] = ys[0] + str(int(x)) + str(10 // (len(x) - 1))
            last = x
        except ValueError:
            d["bad"] = d.get("bad", 0) + 1
        except ZeroDivisionError:
            ys.pop()
    s += str(d) + str(ys)
    return [ys, d]


@lmc.function
def maybe(s, x: str):
    """Names that the body may not have come to."""
    try:
        a = 1
        b = int(x)
        c = 2
    except ValueError:
        s += "bad"
    s += str(a)
    return [a, c]


@lmc.function
def roles(s, x: str):
    """A turn that is left open."""
    try:
        with s.user():
            s += x
            n = int(x)
        s += lmc.assistant(lmc.gen("r", max_tokens=3))
    except ValueError:
        s += "oops"
    return s.text()


@lmc.function
def conditions(s, x: str):
    """Conditions and iterables that fail."""
    n = 0
    try:
        if int(x) > 3:
            n = 1
        elif int(x[1:]) > 2:
            n = 2
        while n < 10 // int(x):
            n += 3
            s += "w"
        for ch in json.loads(x[0] + "]"):
            n += ch
    except (ValueError, ZeroDivisionError, IndexError, TypeError) as e:
        s += str(n) + type(e).__name__
    else:
        s += "fine"
    return n


@lmc.function
def swallow(s, x: str):
    """break in finally; isinstance of an exception."""
    for i in range(3):
        try:
            int(x)
        except ValueError:
            s += "x"
        finally:
            if i == 1:
                break

    def get():
        return 1

    try:
        raise KeyError("k")
    except KeyError as e:
        v = isinstance(e, LookupError)
    return [i, v]


def fin(word):
    try:
        return int(word)
    finally:
        if len(word) > 2:
            return "overridden"


@lmc.function
def final(s, x: str):
    """An applied return in finally; raise from."""
    try:
        return fin(x)
    except ValueError as e:
        raise RuntimeError("wrapped") from e


@lmc.function
def chosen(s, x: str, cs: list[str]):
    """A choice among nothing."""
    try:
        s += lmc.select("pick", choices=cs)
        t = s["pick"]
    except Exception as e:
        t = str(e)
    s += t
    return t


@lmc.function
def asserted(s, x: str):
    """assert."""
    try:
        assert len(x) < 3, "too long"
        s += x
    except AssertionError as e:
        s += f"[{e}]"
    return s.text()


ERRORS = (ValueError, KeyError)


@lmc.function
def globals_(s, x: str):
    """A tuple of classes of the module."""
    try:
        n = {"a": 1}[x]
    except ERRORS:
        n = 2
    return n


@lmc.function
def bare(s, x: str):
    """except without a class."""
    try:
        n = [1, 2][len(x)]
    except:
        n = -1
    return n


@lmc.function
def states(s, x: str):
    """Names of states at the time of the failure."""
    best = s
    try:
        q = s.copy()
        q += "q" + lmc.gen("g", max_tokens=3)
        best = q
        n = int(x)
        best = s
    except ValueError:
        n = 0
    return [n, best.text()]


@lmc.function
def walrus(s, xs: list[str]):
    """Comprehensions and named expressions."""
    got = []
    try:
        total = sum(int(y) for y in xs if (last := y) != "zz")
        got = [int(y) + 1 for y in xs]
    except ValueError:
        total = -1
    return [total, got]


@lmc.function
def loop_else(s, x: str):
    """A loop that goes on until a call is good."""
    while True:
        try:
            s += lmc.gen("n", type=int, max_tokens=3)
        except ValueError:
            if len(s.text()) > 4:
                break
            s += "again "
        else:
            s += "ok"
            break
    return s.text()


@lmc.function
def pieces(s, x: str):
    """Pieces under a name that only one path binds."""
    try:
        n = int(x)
        try:
            m = n // (len(x) - 1)
        except ZeroDivisionError:
            q = lmc.gen("w", max_tokens=2) if x > "4" else lmc.gen("w", max_tokens=3)
            s += "a" + q
            m = len(s[q]) + int("a" + x)
        s += f"b{m}"
    except ValueError as e:
        s += f"c{e}"
    return s.text()


@lmc.function
def deep(s, x: str):
    """finally that fails itself."""
    try:
        try:
            try:
                s += "1"
                n = int(x)
            finally:
                s += "2"
                m = len(x) // (len(x) - 3)
        except ValueError:
            s += "3"
            n = 7
    except ZeroDivisionError:
        s += "4"
        n = 8
    return n
