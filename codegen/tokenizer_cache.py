"""Checked, atomic files for what is slow to build, in lmc's cache folder.

A file is a line with the SHA-256 of the rest, then the rest. One that is damaged or cut
short reads as absent, so that it is built again. A cache that cannot be written (read-only
home, full disk) costs time, never correctness.
"""

import hashlib
import os
import tempfile
from pathlib import Path


def read_cached(path: Path) -> str | None:
    """Return the text stored by `write_cached`; None when absent or damaged."""
    try:
        head, _, body = path.read_bytes().partition(b"\n")
        if head != hashlib.sha256(body).hexdigest().encode():
            return None
        return body.decode()
    except (OSError, UnicodeDecodeError):
        return None


def write_cached(path: Path, text: str) -> bool:
    """Store text at `path` in one step; return whether it could be stored."""
    body = text.encode()
    content = hashlib.sha256(body).hexdigest().encode() + b"\n" + body
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError:
        return False
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        return False
    return True
