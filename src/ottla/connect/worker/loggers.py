"""The levels of this process's loggers, as /admin/loggers shows and sets them, with log4j's names."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

ROOT: Final = "root"
MAX_LOGGERS: Final = 10_000
LEVELS: Final[Mapping[str, int]] = {
    "OFF": logging.CRITICAL + 10,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
    "ALL": 1,
}


class Loggers:
    """Those that have a level of their own, and the root."""

    def __init__(self) -> None:
        self._modified_ms: dict[str, int] = {}

    def all(self) -> dict[str, Any]:
        """Every logger with a level of its own by its name."""
        found = {ROOT: self._told(ROOT, logging.getLogger())}
        for name in sorted(logging.root.manager.loggerDict)[:MAX_LOGGERS]:
            logger = logging.root.manager.loggerDict[name]
            if isinstance(logger, logging.Logger) and logger.level != logging.NOTSET:
                found[name] = self._told(name, logger)
        return found

    def one(self, name: str) -> dict[str, Any] | None:
        """One logger; None for one that is not there."""
        if name == ROOT:
            return self._told(ROOT, logging.getLogger())
        logger = logging.root.manager.loggerDict.get(name)
        return self._told(name, logger) if isinstance(logger, logging.Logger) else None

    def set(self, name: str, level: str) -> Sequence[str]:
        """Set a level, for all loggers below too; the names of those that it was set for."""
        below = [
            each
            for each, logger in list(logging.root.manager.loggerDict.items())
            if isinstance(logger, logging.Logger) and each.startswith(f"{name}.") and logger.level
        ]
        is_root = name == ROOT
        changed = [name, *([] if is_root else below)]
        for each in changed:
            logger = logging.getLogger() if each == ROOT else logging.getLogger(each)
            logger.setLevel(LEVELS[level.upper()])
            self._modified_ms[each] = int(time.time() * 1000)
        return sorted(changed)

    def _told(self, name: str, logger: logging.Logger) -> dict[str, Any]:
        number = logger.getEffectiveLevel()
        level = min(LEVELS, key=lambda each: (abs(LEVELS[each] - number), LEVELS[each]))
        return {"level": level, "last_modified": self._modified_ms.get(name)}
