"""Records as they are written to a state's topic, and as they are replayed from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Record:
    """A record to be written: `value` None is a tombstone. Its key decides its partition, as with Java."""

    key: bytes
    value: bytes | None


class ReplayedRecord(NamedTuple):
    """A committed record, as it comes from the topic. A record without a key has the empty one."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
