"""CPU time of capture and lowering for programs of about 200 lines, without a model.

Run: python benchmarks/bench_capture.py [--profile NAME]
"""

import argparse
import cProfile
import pstats
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmc
from lmc.compiler import compile_program
from lmc.frontend.load import load_module
from lmc.runtime.oracle import Oracle


def straight(lines: int) -> str:
    """Appends and generations one after another."""
    body = [
        f'    s += f"Step {i}: {{topic}} " + lmc.gen("v{i}", max_tokens=8, stop="\\n")'
        if i % 2
        else f'    s += "Now part {i} of the text.\\n"'
        for i in range(lines)
    ]
    return "@lmc.function\ndef program(s, topic: str):\n" + "\n".join(body) + "\n"


def nested(lines: int) -> str:
    """Loops and branches within one another, with early exits and variables."""
    block = """    for i{n} in range(k):
        s += f"Round {{i{n}}}: " + lmc.gen("x{n}", max_tokens=4)
        if s["x{n}"] == "stop":
            break
        elif len(s["x{n}"]) > {n}:
            total += len(s["x{n}"])
            while total > 10:
                total -= 3
                if total == 7:
                    continue
                found.append(total)
        else:
            if k > {n}:
                return found
            match s["x{n}"]:
                case "a" | "b":
                    total += 1
                case _:
                    total -= 1
"""
    count = max(1, lines // 18)
    body = "".join(block.format(n=n) for n in range(count))
    head = "@lmc.function\ndef program(s, k: int):\n    total, found = 0, []\n"
    return head + body + "    return found, total\n"


def helpers(lines: int) -> str:
    """Many helpers that take states, forks and joins."""
    count = max(1, lines // 10)
    parts = [
        f"""def part{n}(s, text, width=2):
    s += "Part {n}: " + text
    forks = s.fork(width)
    forks += lmc.gen("draft{n}", max_tokens=4, temperature=0.7)
    best = max((f["draft{n}"] for f in forks), key=len)
    forks.join()
    for d in s["draft{n}"]:
        if d != best:
            s += d
    return best

"""
        for n in range(count)
    ]
    calls = "".join(f"    texts.append(part{n}(s, text))\n" for n in range(count))
    head = "@lmc.function\ndef program(s, text: str):\n    texts = []\n"
    return "\n".join(parts) + head + calls + "    return texts\n"


def constants(lines: int) -> str:
    """Long constant texts between generations."""
    text = "All of this is constant and said many times over. " * 8
    body = [
        f'    s += """{text}\n{i}"""\n' if i % 4 else f'    s += lmc.gen("g{i}", max_tokens=2)\n'
        for i in range(lines // 2)
    ]
    return "@lmc.function\ndef program(s):\n" + "".join(body)


def states(lines: int) -> str:
    """States in lists and records: kept by number."""
    block = """    for i{n} in range(k):
        pool{n} = [(0, s)]
        for score, state in pool{n}:
            child = state.copy()
            child += f"{n}" + lmc.gen("c{n}", max_tokens=2)
            if len(child["c{n}"]) > score:
                best.append((score + 1, child))
    best = sorted(best, key=lambda pair: pair[0])[:3]
"""
    count = max(1, lines // 8)
    body = "".join(block.format(n=n) for n in range(count))
    end = "    return [state.text() for score, state in best]\n"
    return "@lmc.function\ndef program(s, k: int):\n    best = [(0, s.copy())]\n" + body + end


def deep(lines: int) -> str:
    """Loops and branches six levels deep, each level with names of its own."""
    body, level = "", 1
    for depth in range(6):
        pad = "    " * level
        body += f"{pad}for i{depth} in range(k):\n"
        body += f'{pad}    s += f"{{i{depth}}}" + lmc.gen("d{depth}", max_tokens=2)\n'
        body += f"{pad}    if i{depth} > {depth}:\n{pad}        break\n"
        body += f'{pad}    a{depth} = s["d{depth}"] + last\n{pad}    last = a{depth}\n'
        level += 1
    pad = "    " * level
    rest = max(1, lines - body.count("\n"))
    body += "".join(f'{pad}seen.append(f"{{last}} {n}")\n' for n in range(rest))
    head = '@lmc.function\ndef program(s, k: int):\n    seen, last = [], ""\n'
    return head + body + "    return seen\n"


PROGRAMS: dict[str, Callable[[int], str]] = {
    function.__name__: function for function in (straight, nested, deep, helpers, constants, states)
}


def load(name: str, text: str, folder: Path) -> Any:
    """Write a program and load it."""
    path = folder / f"bench_capture_{name}.py"
    path.write_text("import lmc\n\n\n" + text)
    return load_module(path).program


def main() -> None:
    """Compile each program and print its CPU time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=200)
    parser.add_argument("--profile", choices=sorted(PROGRAMS))
    options = parser.parse_args()
    target = Oracle().target
    lmc.function  # noqa: B018  # what is loaded lazily is no part of the times
    with tempfile.TemporaryDirectory() as folder:
        warm = load("warm", constants(8), Path(folder))
        compile_program(warm, target=target)
        for name, make in PROGRAMS.items():
            if options.profile not in (None, name):
                continue
            program = load(name, make(options.lines), Path(folder))
            profile = cProfile.Profile()
            start = time.process_time()
            program.trace()
            traced = time.process_time()
            if options.profile:
                profile.enable()
            compile_program(program, target=target)
            profile.disable()
            end = time.process_time()
            print(f"{name:10} capture {traced - start:6.3f} s   compile {end - traced:6.3f} s")
            if options.profile:
                pstats.Stats(profile, stream=sys.stdout).sort_stats("cumulative").print_stats(45)


if __name__ == "__main__":
    main()
