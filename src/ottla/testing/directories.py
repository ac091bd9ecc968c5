"""The directory of a server: the caller's own, or a temporary one that is removed afterwards."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def kept_or_temporary(directory: Path | None) -> Iterator[Path]:
    """`directory`, which stays; or, for None, a new one for the length of the block."""
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
        yield directory
        return
    made = Path(tempfile.mkdtemp(prefix="ottla-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
