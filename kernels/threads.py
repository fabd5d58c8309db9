"""How many processor cores this process may use."""

import math
import os
from pathlib import Path


def usable_cores() -> int:
    """Return the number of cores: affinity, cut by a container's quota and $OMP_NUM_THREADS."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    limits = [cores or 1, _quota(), _environment()]
    return max(1, min(limit for limit in limits if limit is not None))


def _quota() -> int | None:
    """Return the CPU quota of the control group, in whole cores."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()[:2]
        return None if quota == "max" else math.ceil(int(quota) / int(period))
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _environment() -> int | None:
    """Return $OMP_NUM_THREADS where it is a positive number."""
    value = os.environ.get("OMP_NUM_THREADS", "")
    return int(value) if value.isdecimal() and int(value) > 0 else None
