"""A record of a coordinator's topic, before it is encoded.

A record's key is an int16 record type followed by the key's fields; its value is an int16 version followed by
the value's fields. A record without a value (a tombstone) deletes what its key names.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.protocol.schema import Message


@dataclass(frozen=True, slots=True)
class CoordinatorRecord:
    """One record to append: `value` is None for a tombstone; `value_version` is the version to encode.

    A record that was read from the log has its `offset`.
    """

    key: Message
    value: Message | None = None
    value_version: int = 0
    offset: int = field(default=-1, compare=False)
