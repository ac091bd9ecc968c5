"""A decision on a write: the records to store, and the answer that may be given when they are stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from ottla.replicated.records import Record

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Decision(Generic[T]):
    """Records that must be stored, all or none and in this order, before `answer` may be given."""

    records: tuple[Record, ...]
    answer: T
