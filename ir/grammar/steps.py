"""A machine as a deterministic automaton: its readings are the states."""

from lmc.ir.automata.dfa import DEAD
from lmc.ir.grammar.machine import Machine, Reading


class MachineSteps:
    """What `ForcedRuns` asks of an automaton, answered by a machine; safe between threads.

    A state in which a control token may come is not forced, and none is read.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    @property
    def start(self) -> Reading:
        """The reading of the empty text."""
        return self.machine.start

    def is_forced(self, state: Reading) -> bool:
        """Return whether one byte only may come next, and no end."""
        return not state.may_end and self._only(state) is not None

    def forced_bytes(self, state: Reading) -> bytes:
        """Return the bytes that must come next: as long as one byte only may, and no end."""
        made = bytearray()
        while not state.may_end and (byte := self._only(state)) is not None:
            made += byte
            after = self.machine.read(state, byte)
            assert after is not None, "the byte is allowed"
            state = after
        return bytes(made)

    def step(self, state: Reading, data: bytes) -> Reading | int:
        """Return the state after some bytes, DEAD if they may not come."""
        after = self.machine.read(state, data)
        return DEAD if after is None else after

    def is_accepting(self, state: Reading) -> bool:
        """Return whether the text may end in `state`."""
        return state.may_end

    def allowed_bytes(self, state: Reading) -> bytes:
        """Return the bytes that may come next, ascending."""
        return self.machine.allowed_bytes(state)

    def _only(self, state: Reading) -> bytes | None:
        """Return the one byte that may come next, if no control token may."""
        options = self.machine.allowed_bytes(state)
        return None if len(options) != 1 or self.machine.allowed_controls(state) else options
