"""A batch of records up to the first one that nothing can be made of: what is before it is written first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ottla.connect.data.record import SinkRecord
from ottla.connect.data.schema import DataError
from ottla.connect.plugins.api import RecordError

T = TypeVar("T")


def made_of(
    records: Sequence[SinkRecord], make: Callable[[SinkRecord], T]
) -> tuple[list[T], RecordError | None]:
    """What is made of the records before the first for which `make` raises DataError, and its error."""
    made: list[T] = []
    for position, each in enumerate(records):
        try:
            made.append(make(each))
        except DataError as problem:
            return made, RecordError(position, str(problem))
    return made, None
