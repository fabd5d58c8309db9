"""What the oracle says under a constraint: a random text of it that heads for the end in time."""

import heapq

from lmc.ir.automata.dfa import DEAD
from lmc.ir.grammar.machine import Context, Machine, Reading
from lmc.ir.grammar.network import Network
from lmc.ir.target import Tokenizer
from lmc.runtime.constraint import Compiled, RegexConstraint
from lmc.runtime.oracle_text import MAX_MATCH_LEN, Draw, choose_byte, random_match


def random_answer(tokenizer: Tokenizer, constraint: Compiled, draw: Draw) -> list[int]:
    """Return the ids of a text that a constraint allows."""
    if isinstance(constraint, RegexConstraint):
        return tokenizer.encode(random_match(constraint.dfa, draw))
    ids: list[int] = []
    for piece in _Drawing(constraint.machine, draw).pieces():
        ids += tokenizer.encode(piece) if piece[:1] != "\0" else [constraint.control_ids[piece[1:]]]
    return ids


class _Drawing:
    """A random text of a network, by the shortest ways out of its states."""

    def __init__(self, machine: Machine, draw: Draw) -> None:
        self.machine = machine
        self.draw = draw
        self.to_end = shortest_ends(machine.network)
        self.outer: dict[Context, int] = {machine.root: 0}

    def pieces(self) -> list[str]:
        """Return the text cut at control tokens, which come as NUL and their name."""
        wanted_len = self.draw.below(MAX_MATCH_LEN)
        made: list[str] = []
        text, count = bytearray(), 0
        reading = self.machine.start
        while True:
            options = self._options(reading)
            if reading.may_end and (not options or count >= wanted_len or self.draw.below(4) == 0):
                break
            if count >= wanted_len:
                nearest = min(self._distance(after) for _, after in options)
                options = [each for each in options if self._distance(each[1]) == nearest]
            letter, reading = self._chosen(options)
            count += 1
            if isinstance(letter, str):
                made += [text.decode(), "\0" + letter] if text else ["\0" + letter]
                text.clear()
            else:
                text.append(letter)
        return [*made, text.decode()] if text else made

    def _options(self, reading: Reading) -> list[tuple[int | str, Reading]]:
        """Return what may come next, with the readings after it."""
        machine = self.machine
        letters: list[int | str] = [*machine.allowed_bytes(reading)]
        letters += machine.allowed_controls(reading)
        found = []
        for letter in letters:
            key = letter if isinstance(letter, str) else machine.class_of[letter]
            after = machine.step(reading, key)
            if after is not None:
                found.append((letter, after))
        return found

    def _chosen(self, options: list[tuple[int | str, Reading]]) -> tuple[int | str, Reading]:
        by_byte = {letter: after for letter, after in options if isinstance(letter, int)}
        named = [each for each in options if isinstance(each[0], str)]
        if named and (not by_byte or self.draw.below(4) == 0):
            return self.draw.choose(named)
        byte = choose_byte(bytes(sorted(by_byte)), self.draw)
        return byte, by_byte[byte]

    def _distance(self, reading: Reading) -> int:
        """Return the length of the shortest text that completes a reading."""
        if reading.may_end:
            return 0
        return min(self.to_end[state] + self._beyond(context) for state, context in reading.places)

    def _beyond(self, context: Context) -> int:
        """Return the shortest way from the end of a context's rule to the end of the text."""
        pending = [context]
        while pending:
            here = pending[-1]
            missing = [outer for _, outer in here.returns if outer not in self.outer]
            if here not in self.outer and missing:
                pending += missing
                continue
            pending.pop()
            if here not in self.outer:
                self.outer[here] = min(
                    self.to_end[state] + self.outer[outer] for state, outer in here.returns
                )
        return self.outer[context]


def shortest_ends(network: Network) -> list[int]:
    """Return the length of the shortest text from each state to an end of its rule."""
    befores: list[list[tuple[int, int]]] = [[] for _ in network.accepting]  # (state, cost)
    callers: list[list[tuple[int, int]]] = [[] for _ in network.starts]
    for state, row in enumerate(network.table.tolist()):
        for target in {target for target in row if target != DEAD}:
            befores[target].append((state, 1))
    for state, _, target in network.controls:
        befores[target].append((state, 1))
    for state, rule, target in network.calls.tolist():
        callers[rule].append((state, target))
    rule_of = {start: rule for rule, start in enumerate(network.starts.tolist())}
    found: dict[int, int] = {}
    heap = [(0, state) for state, ends in enumerate(network.accepting.tolist()) if ends]
    while heap:
        cost, state = heapq.heappop(heap)
        if state in found:
            continue
        found[state] = cost
        for before, more in befores[state]:
            heapq.heappush(heap, (cost + more, before))
        if state in rule_of:
            # The rule's own length is known now: ways through it open, also those to come.
            for before, target in callers[rule_of[state]]:
                befores[target].append((before, cost))
                if target in found:
                    heapq.heappush(heap, (found[target] + cost, before))
    return [found.get(state, 2**40) for state in range(len(network.accepting))]
