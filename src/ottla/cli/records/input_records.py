"""A record as a command reads it from its input, before it has a partition and bytes of a batch."""

from __future__ import annotations

from typing import Any, NamedTuple

from ottla.protocol.record_columns import Headers


class BadInput(Exception):
    """Input that is no record; the message says why, without its place."""


class InputRecord(NamedTuple):
    """What the input says of a record. topic, partition, timestamp_ms: None where it says nothing.

    key, value: bytes, or values of JSON for a format that encodes them. source: the number of the line on
    which the record begins, from 1.
    """

    key: Any
    value: Any
    headers: Headers
    topic: str | None
    partition: int | None
    timestamp_ms: int | None
    source: int
