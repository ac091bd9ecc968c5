"""CRC-32C in C: the extension of the package crc32c, without that package's first lines.

These look up the package's version, for which Python loads all of email, zipfile and csv: 15 ms of processor
time before a broker's port is open.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import TYPE_CHECKING, Final

_PACKAGE: Final = "crc32c"
_EXTENSION: Final = "crc32c._crc32c"

if TYPE_CHECKING:
    from crc32c import crc32c
else:

    def _load_extension() -> None:
        """Put the extension into sys.modules, where the package finds it too; nothing where it isn't."""
        package = PathFinder.find_spec(_PACKAGE)
        if package is None or package.submodule_search_locations is None:
            return
        spec = PathFinder.find_spec(_EXTENSION, list(package.submodule_search_locations))
        if spec is None or spec.loader is None:
            return
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[_EXTENSION] = module

    if _EXTENSION not in sys.modules:
        _load_extension()
    crc32c = getattr(sys.modules.get(_EXTENSION), "crc32c", None)
    if crc32c is None:  # another release keeps it elsewhere
        from crc32c import crc32c

__all__ = ["crc32c"]
