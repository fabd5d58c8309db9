"""Where in the user's source an eager program is: the nearest frame outside of lmc."""

from lmc.ir.location import Location, current_instruction, is_in, is_own, span_of


def user_location(folder: str) -> Location | None:
    """Return the line that is being run in the nearest frame of the user's code."""
    found = current_instruction()
    return None if found is None else span_of(found, folder)


def raised_at(error: BaseException, folder: str) -> Location | None:
    """Return the innermost line of the user's code on an exception's way."""
    found: Location | None = None
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if not is_own(trace.tb_frame) and (found is None or is_in(code.co_filename, folder)):
            found = span_of((code, trace.tb_lasti), folder)
        trace = trace.tb_next
    return found
