"""Sets of JSON numbers: by value, spelled out digit by digit.

Plain spellings (no exponent) are an automaton over digits, point and sign, exact for ranges
of any size and for multiples; spellings with an exponent are allowed only where the sign
alone decides.
"""

from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

from lmc.errors import ConstraintError
from lmc.ir.automata.budget import Budget
from lmc.ir.json_schema import textset
from lmc.ir.json_schema.textset import TextSet

ALPHABET = "-.0123456789"
MAX_DIGITS = 20
"""Digits before and after the point that a number may have, beyond those of its bounds."""
MAX_BOUND_DIGITS = 400
MAX_MULTIPLE_STATES = 20_000
_BOTH = frozenset("+-")

Number = int | Decimal


@dataclass(frozen=True, slots=True)
class NumberSet:
    """Numbers by value.

    Args:
        plain: their spellings without exponent.
        exponents: the signs under which any spelling with an exponent is a member.
        is_exact: whether no other spelling with an exponent is a member.
        words: value and spelling of each, where the set was given as a list.
        digits: digits that its bounds have.
    """

    plain: TextSet
    exponents: frozenset[str] = frozenset()
    is_exact: bool = True
    words: tuple[tuple[Decimal, str], ...] | None = None
    digits: int = field(default=0, compare=False)

    @property
    def is_empty(self) -> bool:
        """Whether surely no number is in the set."""
        if self.words is not None:
            return not self.words
        return self.plain.is_empty and not self.exponents


def spelling(value: Number) -> str:
    """Return the plain spelling of a number as it was written.

    Raises:
        ConstraintError: it has too many digits.
    """
    if isinstance(value, Decimal) and abs(value.adjusted()) > MAX_BOUND_DIGITS:
        raise too_long(value)
    text = format(value, "f") if isinstance(value, Decimal) else _int_text(value)
    if len(text) > MAX_BOUND_DIGITS:
        raise too_long(value)
    return text


def _int_text(value: int) -> str:
    if value.bit_length() > 4 * MAX_BOUND_DIGITS:
        raise too_long("an integer")
    return str(value)


def too_long(value: object) -> ConstraintError:
    """Return the refusal of a number with too many digits."""
    return ConstraintError(
        f"number {value!s:.40} has more than {MAX_BOUND_DIGITS} digits",
        hint="use a smaller bound",
    )


def _compare_step(whole: str, fraction: str) -> Any:
    """Return the step function that compares a plain spelling with a bound's digits.

    States: ("s",), ("-",), ("i", sign, digits read, order, is zero), ("p", sign, order) after
    the point, ("f", sign, order, fraction digits read). The order is that of the sizes so
    far: -1, 0 or 1.
    """
    size = len(whole)

    def step(state: tuple[Any, ...], char: str) -> tuple[Any, ...] | None:
        kind = state[0]
        if kind in ("s", "-"):
            sign = "-" if kind == "-" else "+"
            if char == "-":
                return ("-",) if kind == "s" else None
            if char == ".":
                return None
            return ("i", sign, 1, _order(char, whole[0]), char == "0")
        if kind == "i":
            _, sign, count, order, is_zero = state
            if char == ".":
                return ("p", sign, (count > size) - (count < size) or order)
            if char == "-" or is_zero:
                return None
            if count >= size:
                return ("i", sign, size + 1, 1, False)
            return ("i", sign, count + 1, order or _order(char, whole[count]), False)
        if char in "-.":
            return None
        sign, order = state[1], state[2]
        place = 0 if kind == "p" else state[3]
        if order == 0:
            order = _order(char, fraction[place] if place < len(fraction) else "0")
        return ("f", sign, order, min(place + 1, len(fraction)) if order == 0 else 0)

    return step


def _order(a: str, b: str) -> int:
    return (a > b) - (a < b)


def _parts(value: Number) -> tuple[bool, str, str]:
    """Return whether a number is negative, and its digits before and after the point."""
    text = spelling(value)
    whole, _, fraction = text.removeprefix("-").partition(".")
    fraction = fraction.rstrip("0")
    is_negative = text.startswith("-") and any(c in "123456789" for c in text)
    return is_negative, whole.lstrip("0") or "0", fraction


def compared(value: Number, wanted: frozenset[int], budget: Budget) -> TextSet:
    """Return the plain spellings of numbers whose order to `value` is in `wanted`."""
    is_negative, whole, fraction = _parts(value)
    bound_is_zero = whole == "0" and not fraction

    def accepts(state: tuple[Any, ...]) -> bool:
        if state[0] not in ("i", "f"):
            return False
        sign, size = state[1], len(whole)
        if state[0] == "i":
            order = (state[2] > size) - (state[2] < size) or state[3]
            order = order or (-1 if fraction else 0)
        else:
            order = state[2]
            if order == 0 and state[3] < len(fraction):
                order = -1
        if bound_is_zero:
            found = 0 if order == 0 else (-1 if sign == "-" else 1)
        elif (sign == "-") != is_negative:
            found = -1 if sign == "-" else 1
        else:
            found = -order if is_negative else order
        return found in wanted

    return textset.explore(ALPHABET, ("s",), _compare_step(whole, fraction), accepts, budget)


@lru_cache(maxsize=8)
def _fixed(kind: str) -> TextSet:
    budget = Budget(max_states=10_000, max_seconds=60.0)
    if kind == "plain":
        return compared(0, frozenset((-1, 0, 1)), budget)
    return multiples(1, budget)


def every_number() -> NumberSet:
    """Return all numbers."""
    return NumberSet(_fixed("plain"), _BOTH)


def no_number() -> NumberSet:
    """Return the empty set."""
    return NumberSet(textset.nothing(), words=())


def integers() -> NumberSet:
    """Return the numbers that are whole, such as 3 and 3.0."""
    return NumberSet(_fixed("integer"), is_exact=False)


def of_values(values: list[Number]) -> NumberSet:
    """Return the given numbers, each spelled as it was given."""
    words: dict[Decimal, str] = {}
    for value in values:
        words.setdefault(Decimal(value), spelling(value))
    return NumberSet(textset.nothing(), words=tuple(words.items()))


def at_least(value: Number, *, exclusive: bool, budget: Budget) -> NumberSet:
    """Return the numbers from `value` up."""
    wanted = frozenset((1,)) if exclusive else frozenset((0, 1))
    signs = "+" if value < 0 or (value == 0 and not exclusive) else ""
    plain = compared(value, wanted, budget)
    return NumberSet(plain, frozenset(signs), False, digits=len(spelling(value)))


def at_most(value: Number, *, exclusive: bool, budget: Budget) -> NumberSet:
    """Return the numbers up to `value`."""
    wanted = frozenset((-1,)) if exclusive else frozenset((-1, 0))
    signs = "-" if value > 0 or (value == 0 and not exclusive) else ""
    plain = compared(value, wanted, budget)
    return NumberSet(plain, frozenset(signs), False, digits=len(spelling(value)))


def multiples_of(value: Number, budget: Budget) -> NumberSet:
    """Return the multiples of a positive number."""
    return NumberSet(multiples(value, budget), is_exact=False)


def multiples(value: Number, budget: Budget) -> TextSet:
    """Return the plain spellings of the multiples of a positive number.

    With `value` = p / 10**k in lowest power, a number is a multiple if it has no digit but 0
    past place k, and its digits up to there are a multiple of p.
    """
    _, whole, fraction = _parts(value)
    places, modulus = len(fraction), int(whole + fraction)
    if modulus * (places + 2) > MAX_MULTIPLE_STATES:
        raise ConstraintError(
            f"multiples of {value} need an automaton of more than {MAX_MULTIPLE_STATES} states",
            hint="use a smaller 'multipleOf', or one with fewer digits",
        )

    def step(state: tuple[Any, ...], char: str) -> tuple[Any, ...] | None:
        kind = state[0]
        if kind in ("s", "-"):
            if char == "-":
                return ("-",) if kind == "s" else None
            return None if char == "." else ("0",) if char == "0" else ("i", int(char) % modulus)
        if kind in ("0", "i"):
            rest = 0 if kind == "0" else state[1]
            if char == ".":
                return ("p", rest)
            if char == "-" or kind == "0":
                return None
            return ("i", (rest * 10 + int(char)) % modulus)
        if char in "-.":
            return None
        place = 0 if kind == "p" else state[1]
        rest = state[-1]
        if place == places:
            return ("f", place, rest) if char == "0" else None
        return ("f", place + 1, (rest * 10 + int(char)) % modulus)

    def accepts(state: tuple[Any, ...]) -> bool:
        if state[0] in ("s", "-", "p"):
            return False
        rest = 0 if state[0] == "0" else state[-1]
        place = state[1] if state[0] == "f" else 0
        return rest * 10 ** (places - place) % modulus == 0

    return textset.explore(ALPHABET, ("s",), step, accepts, budget)


def intersect(a: NumberSet, b: NumberSet, budget: Budget) -> NumberSet:
    """Return the numbers that are in both sets."""
    for few, other in ((a, b), (b, a)):
        if few.words is not None:
            if other.words is not None:
                values = {value for value, _ in other.words}
                kept = tuple(word for word in few.words if word[0] in values)
            else:
                kept = tuple(word for word in few.words if word[1] in other.plain)
            return replace(few, words=kept)
    return NumberSet(
        textset.intersect(a.plain, b.plain, budget),
        a.exponents & b.exponents,
        a.is_exact and b.is_exact,
        digits=max(a.digits, b.digits),
    )


def unite(a: NumberSet, b: NumberSet, budget: Budget) -> NumberSet:
    """Return the numbers that are in either set."""
    if a.words is not None and b.words is not None:
        merged = dict(b.words) | dict(a.words)
        return replace(a, words=tuple(merged.items()))
    if a.is_empty or b.is_empty:
        return b if a.is_empty else a
    a, b = _spelled(a, budget), _spelled(b, budget)
    return NumberSet(
        textset.unite(a.plain, b.plain, budget),
        a.exponents | b.exponents,
        a.is_exact and b.is_exact,
        digits=max(a.digits, b.digits),
    )


def complement(a: NumberSet, budget: Budget) -> NumberSet:
    """Return all other numbers."""
    a = _spelled(a, budget)
    return NumberSet(
        textset.subtract(_fixed("plain"), a.plain, budget),
        _BOTH - a.exponents if a.is_exact else frozenset(),
        a.is_exact,
        digits=a.digits,
    )


def _spelled(a: NumberSet, budget: Budget) -> NumberSet:
    """Return a listed set by the automaton of all its values' plain spellings."""
    if a.words is None:
        return a
    plain = textset.nothing()
    for value, _ in a.words:
        plain = textset.unite(plain, compared(value, frozenset((0,)), budget), budget)
    digits = max((len(text) for _, text in a.words), default=0)
    return NumberSet(plain, is_exact=not a.words, digits=digits)


@lru_cache(maxsize=32)
def _limits(digits: int) -> TextSet:
    """Return the plain spellings of at most so many digits before and after the point."""
    budget = Budget(max_states=10_000, max_seconds=60.0)

    def step(state: tuple[str, int], char: str) -> tuple[str, int] | None:
        kind, count = state
        if char == "-":
            return ("-", 0) if kind == "s" else None
        if char == ".":
            return ("f", 0) if kind == "i" else None
        kind = "i" if kind in ("s", "-") else kind
        return (kind, count + 1) if count < digits else None

    def accepts(state: tuple[str, int]) -> bool:
        return state[1] > 0

    return textset.explore(ALPHABET, ("s", 0), step, accepts, budget)


_BOUNDED: dict[tuple[bytes, int], TextSet] = {}
_MAX_KEPT = 256


def bounded(numbers: NumberSet, budget: Budget) -> TextSet:
    """Return the plain spellings with the limit on digits applied."""
    digits = max(MAX_DIGITS, numbers.digits)
    key = (numbers.plain.key, digits)
    found = _BOUNDED.get(key)
    if found is None:
        found = textset.intersect(numbers.plain, _limits(digits), budget)
        if len(_BOUNDED) >= _MAX_KEPT:
            _BOUNDED.clear()
        _BOUNDED[key] = found
    return found
