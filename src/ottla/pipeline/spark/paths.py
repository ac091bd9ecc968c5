"""The place on the local disk of a location for Spark's checkpoints."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit


def local_path(location: str | Path) -> Path | None:
    """The directory of a checkpoint location; None if it is not on a local disk."""
    if isinstance(location, Path):
        return location
    parts = urlsplit(location)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    # A Windows drive looks like a scheme of one letter.
    return Path(location) if len(parts.scheme) < 2 else None
