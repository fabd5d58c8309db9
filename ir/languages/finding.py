"""language_of: the one way from a constraint to its language, for whoever needs it.

What was found last is kept, refusals among it. Else it is on disk, or is compiled: what is small
on this thread, all else by a process that can be killed. So passes, lowering, the commands, the
library and the engine treat a constraint alike, and share one compilation of it.
"""

import threading
import time
from collections import OrderedDict

from lmc.errors import ConstraintError
from lmc.ir.automata import ByteDfa
from lmc.ir.calls import Constraint
from lmc.ir.forced_runs import Steps
from lmc.ir.grammar import Machine, MachineSteps
from lmc.ir.languages.compiling import (
    Language,
    compile_small,
    language_from_bytes,
    language_to_bytes,
)
from lmc.ir.languages.files import language_files
from lmc.ir.languages.process import CompilationLost, processes

DEFAULT_SECONDS = 60.0
"""The most time that a process takes for a constraint, where nobody says otherwise."""

WORTH_KEEPING = 0.005
"""Seconds of processor time from which a compilation's result is kept on disk."""

MAX_KEPT = 64
MAX_KEPT_BYTES = 64 * 2**20

_lock = threading.Lock()
_kept: "OrderedDict[Constraint, Language | ConstraintError]" = OrderedDict()


def language_of(constraint: Constraint, seconds: float = DEFAULT_SECONDS) -> Language:
    """Return the language of a constraint: kept, from disk, compiled here or by a process.

    Args:
        constraint: of any kind.
        seconds: the most time that a process may take, waiting for one included.

    Raises:
        ConstraintError: it is wrong, unsupported or too costly; carries the place.
        CompilationLost: the process was late, or has died. The next call tries again.
    """
    with _lock:
        found = _kept.get(constraint)
        if found is not None:
            _kept.move_to_end(constraint)
    if isinstance(found, ConstraintError):
        raise found.again()
    if found is None:
        try:
            found = _find(constraint, seconds)
        except CompilationLost:
            raise
        except ConstraintError as error:
            _keep(constraint, error.again())
            raise
        _keep(constraint, found)
    return found


def steps_of(constraint: Constraint, seconds: float = DEFAULT_SECONDS) -> Steps:
    """Return what follows the texts of a constraint byte by byte; args and errors as above."""
    found = language_of(constraint, seconds)
    return found if isinstance(found, ByteDfa) else MachineSteps(Machine(found))


def forget_languages() -> None:
    """Forget what is kept in this process; files stay."""
    with _lock:
        _kept.clear()


def _keep(constraint: Constraint, entry: Language | ConstraintError) -> None:
    """Keep what was found, and drop what was unused for longest where that is too much."""
    with _lock:
        _kept[constraint] = entry
        _kept.move_to_end(constraint)
        total = sum(_size(each) for each in _kept.values())
        while len(_kept) > 1 and (len(_kept) > MAX_KEPT or total > MAX_KEPT_BYTES):
            total -= _size(_kept.popitem(last=False)[1])


def _size(entry: Language | ConstraintError) -> int:
    return 0 if isinstance(entry, ConstraintError) else entry.nbytes


def _find(constraint: Constraint, seconds: float) -> Language:
    files = language_files()
    if files and (found := files.find(constraint)):
        return found
    begun = time.thread_time()
    found, data = compile_small(constraint), None
    if found is None:
        data = processes.compile(constraint, seconds)
        found = language_from_bytes(data)
    elif time.thread_time() - begun > WORTH_KEEPING:
        data = language_to_bytes(found)
    if files and data:
        files.store(constraint, data)
    return found
