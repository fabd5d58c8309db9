"""Where lmc keeps what is slow to build, for the next process."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return $LMC_CACHE, or $XDG_CACHE_HOME/lmc, or ~/.cache/lmc; it need not exist."""
    if own := os.environ.get("LMC_CACHE"):
        return Path(own).expanduser()
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared).expanduser() / "lmc"
    return Path.home() / ".cache" / "lmc"
