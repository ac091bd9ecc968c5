"""A record of a coordinator's topic, before it is bytes.

A record's key is an int16 record type followed by the key's fields; its value is an int16 version followed
by the value's fields; no value (a tombstone) deletes what the key names.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.protocol.schema import Message


@dataclass(frozen=True, slots=True)
class CoordinatorRecord:
    """One record to append: `value` is None for a tombstone; `value_version` is how to encode it.

    A record that was read from the log says at which `offset`.
    """

    key: Message
    value: Message | None = None
    value_version: int = 0
    offset: int = field(default=-1, compare=False)
