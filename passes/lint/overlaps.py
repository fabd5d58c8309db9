"""Whether two patterns share a text, by interegular: loaded when first asked, under a budget.

Its automata have character sets as letters, which makes intersections of patterns cheap. What
it does not read (look-around at odd places, flags) or what is too large is not answered.
"""

import time
from functools import lru_cache
from typing import Any

from lmc.errors import ConstraintError

MAX_PATTERN = 400
MAX_FSM_STATES = 400
MAX_COMPILE_SECONDS = 0.3
MAX_PAIRS = 20_000
MAX_SECONDS = 1.0


def overlap_example(one: str, other: str) -> str | None:
    """Return a text that two patterns both match in full, None where none is known."""
    first, second = _machine(one), _machine(other)
    if first is None or second is None:
        return None
    searched = _search(first, second)
    return searched[1] if searched is not None and searched[0] else None


def can_match_within(pattern: str, whole: str) -> bool | None:
    """Whether a text that `whole` matches can hold a match of `pattern`; None: not known."""
    # A search may need few states for a pattern of many, but these are built on the way.
    if len(pattern) > MAX_PATTERN or not _is_small(pattern):
        return None
    first, second = _machine(rf"(.|\n)*({pattern})(.|\n)*"), _machine(whole)
    if first is None or second is None:
        return None
    searched = _search(first, second)
    return None if searched is None else searched[0]


@lru_cache(maxsize=64)
def _machine(pattern: str) -> Any:
    """Return the automaton of a pattern, None where it is not read or too large."""
    if len(pattern) > MAX_PATTERN or not _is_small(pattern):
        return None
    import interegular
    from interegular.patterns import InvalidSyntax, Unsupported

    try:
        machine = interegular.parse_pattern(pattern).to_fsm()
    except (InvalidSyntax, Unsupported, RecursionError, NotImplementedError):
        # What interegular cannot read (look-behind raises the last): the rules then tell nothing.
        return None
    return machine if len(machine.states) <= MAX_FSM_STATES else None


def _is_small(pattern: str) -> bool:
    """Whether a pattern has few states: interegular builds its own without any limit."""
    from lmc.ir.automata import compile_regex

    try:
        compile_regex(pattern, max_states=MAX_FSM_STATES, max_seconds=MAX_COMPILE_SECONDS)
    except ConstraintError:
        return False
    return True


def _search(one: Any, other: Any) -> tuple[bool, str] | None:
    """Search the pairs of states for one where both accept; None when the budget is spent."""
    deadline = time.thread_time() + MAX_SECONDS
    letters = _letters(one, other)
    start = (one.initial, other.initial)
    seen: dict[tuple[Any, Any], tuple[Any, str] | None] = {start: None}
    pending = [start]
    for pair in pending:
        if pair[0] in one.finals and pair[1] in other.finals:
            return True, _spelled(pair, seen)
        if len(seen) > MAX_PAIRS or time.thread_time() > deadline:
            return None
        first, second = one.map.get(pair[0], {}), other.map.get(pair[1], {})
        for letter, (left, right) in letters.items():
            target = (first.get(left), second.get(right))
            if None in target or target in seen:
                continue
            seen[target] = (pair, letter)
            pending.append(target)
    return False, ""


def _letters(one: Any, other: Any) -> dict[str, tuple[int, int]]:
    """Return one character for each pair of classes that the two alphabets tell apart."""
    from interegular.fsm import anything_else

    found: dict[tuple[int, int], str] = {}
    known = [c for c in {*one.alphabet, *other.alphabet} if c is not anything_else]
    for character in sorted(known, key=str):
        pair = (one.alphabet[character], other.alphabet[character])
        found.setdefault(pair, str(character))
    spare = next(chr(n) for n in range(0x4E00, 0x9FFF) if chr(n) not in known)
    found.setdefault((one.alphabet[anything_else], other.alphabet[anything_else]), spare)
    return {character: pair for pair, character in found.items()}


def _spelled(pair: Any, seen: dict[Any, Any]) -> str:
    out: list[str] = []
    while seen[pair] is not None:
        pair, letter = seen[pair]
        out.append(letter)
    return "".join(reversed(out))
