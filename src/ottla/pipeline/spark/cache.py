"""The directory in which downloads are kept between runs: one for each user, or OTTLA_CACHE."""

from __future__ import annotations

import os
import sys
from pathlib import Path

CACHE_ENVIRONMENT = "OTTLA_CACHE"


def cache_directory() -> Path:
    """The user's cache directory of ottla. It is not created here.

    OTTLA_CACHE wins; otherwise the platform's place: XDG_CACHE_HOME or ~/.cache on Linux,
    ~/Library/Caches on macOS, %LOCALAPPDATA% on Windows. Everything in it can be deleted at any time.
    """
    override = os.environ.get(CACHE_ENVIRONMENT)
    if override:
        return Path(override).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "ottla"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "ottla" / "cache"
    xdg = os.environ.get("XDG_CACHE_HOME")
    return (Path(xdg) if xdg else Path.home() / ".cache") / "ottla"
