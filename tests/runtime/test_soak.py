"""A short soak; `make soak` makes a long one."""

import pytest
from soak import soak

SLOTS = 1500


@pytest.mark.long
def test_clients_that_leave_and_abort_leave_nothing_behind():
    report = soak(2.0, num_slots=SLOTS)
    report.check(SLOTS, max_growth=0.03)  # memory is not yet steady after so short a time
