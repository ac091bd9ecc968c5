"""The levels of this process's loggers, as the broker loggers of Kafka's admin clients (KIP-412).

Names of levels are Kafka's (log4j's); TRACE is below Python's DEBUG, OFF above its CRITICAL.
"""

from __future__ import annotations

import logging

from ottla.protocol.errors import InvalidConfig, InvalidRequest

LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50, "OFF": 100}
ROOT = "root"
_OWN = "ottla"


def logger_levels() -> dict[str, str]:
    """Each of our loggers, and the root, with the level that holds for it."""
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] == _OWN]
    levels = {name: _level_name(logging.getLogger(name).getEffectiveLevel()) for name in sorted(names)}
    levels[ROOT] = _level_name(logging.root.getEffectiveLevel())
    return levels


def check_level(name: str, level: str | None) -> None:
    """Whether the logger exists and may have this level. Raises InvalidConfig."""
    if name not in logger_levels():
        raise InvalidConfig(f"Logger {name} does not exist!")
    if level is not None and level.upper() not in LEVELS:
        raise InvalidConfig(
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(LEVELS)}"
        )


def set_level(name: str, level: str | None) -> None:
    """Set a logger's level; None gives it that of its parent.

    Raises InvalidRequest for the root, which has none.
    """
    if name == ROOT and level is None:
        raise InvalidRequest(f"Removing the log level of the {ROOT} logger is not allowed")
    logger = logging.root if name == ROOT else logging.getLogger(name)
    logger.setLevel(logging.NOTSET if level is None else LEVELS[level.upper()])


def _level_name(level: int) -> str:
    return next((name for name, value in LEVELS.items() if level <= value), "OFF")
