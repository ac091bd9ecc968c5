"""What several connectors share: settings of every connector that they use, and the ledger's words."""

from __future__ import annotations

from typing import Final

from ottla.config.setting import integer, long, string
from ottla.config.settings import Settings
from ottla.config.validators import at_least

# Internal: the runtime documents `name` and `tasks.max`, and adds the generation to what a task is given.
NAME: Final = string("name", "connector", "The connector's name.", internal=True)
TASKS_MAX: Final = integer(
    "tasks.max", 1, "The most tasks that the connector has.", at_least(1), internal=True
)
GENERATION: Final = long(
    "ottla.generation",
    0,
    "Grows when a sink's offsets are altered or deleted: what the other system knows of offsets before that "
    "counts no more.",
    at_least(0),
    internal=True,
)


class Superseded(Exception):
    """Another task has written these records: this one must end, and go on at the other's offsets."""


def ledger_name(settings: Settings) -> str:
    """The name under which a sink keeps its offsets with the data, another for each generation."""
    return f"{settings[NAME]}-{settings[GENERATION]}"
