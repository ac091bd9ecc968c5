"""The settings that all converters have."""

from __future__ import annotations

from typing import Any, Final

from ottla.config.setting import LOW, Setting, Table, by_name, string
from ottla.config.validators import OneOf

TYPE: Final = string(
    "converter.type",
    "value",
    "Whether keys, values or headers are converted. The worker sets it.",
    OneOf(("key", "value", "header")),
    importance=LOW,
)
VERSION: Final = "4.3.1"
"""The version of Apache Kafka whose converters these are like."""


def table(title: str, *settings: Setting[Any]) -> Table:
    """The table of a converter."""
    return Table(title, by_name((TYPE, *settings)))
