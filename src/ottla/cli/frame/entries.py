"""Where the commands of the top level are, and how one is imported. Needs nothing of click."""

from __future__ import annotations

import gc
import importlib
from types import ModuleType
from typing import NamedTuple

from ottla.config.errors import UserError


class Entry(NamedTuple):
    """Where a command is, `module:attribute` (a click command), and its summary, one line."""

    target: str
    summary: str


def load_module(name: str, path: str) -> ModuleType:
    """Import a command's module. path: the command's words, for errors.

    Raises UserError if this version has no such module, or a package is missing that it needs.
    """
    # Modules stay: a collector that looks through them as they come costs a broker 12 ms of its start.
    gc.disable()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing and f"{name}.".startswith(f"{missing}."):
            raise UserError(f"this version of ottla does not have `{path}`") from None
        if not missing or missing.partition(".")[0] == "ottla":
            raise
        from ottla.cli.frame.extras import missing_package_line

        raise UserError(missing_package_line(path, missing)) from None
    finally:
        gc.enable()
