"""The records that MirrorMaker 2 keeps its state in: offset syncs, checkpoints, heartbeats, as bytes.

Keys and values are structs of Kafka's protocol types, not flexible: texts have an int16 length in front.
Values of checkpoints and heartbeats begin with an int16 version, those of offset syncs have none (KIP-382).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

VERSION: Final = 0
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_LONGS: Final = struct.Struct(">qq")


class FormatError(ValueError):
    """Bytes that are not such a record."""


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """A record of a source partition, and the offset that its copy has on the target."""

    topic: str
    partition: int
    upstream_offset: int
    downstream_offset: int

    def key(self) -> bytes:
        """The record's key. Raises FormatError for a name that is too long."""
        return _text(self.topic) + _INT.pack(self.partition)

    def value(self) -> bytes:
        """The record's value."""
        return _LONGS.pack(self.upstream_offset, self.downstream_offset)

    @classmethod
    def read(cls, key: bytes, value: bytes) -> OffsetSync:
        """Raises FormatError."""
        reading = _Reading(key)
        topic, partition = reading.text(), reading.int32()
        reading.require_end()
        reading = _Reading(value)
        upstream, downstream = reading.int64(), reading.int64()
        reading.require_end()
        return cls(topic, partition, upstream, downstream)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A group's offset of a source partition, translated. topic: its name on the target."""

    group: str
    topic: str
    partition: int
    upstream_offset: int
    downstream_offset: int
    metadata: str = ""

    def key(self) -> bytes:
        """The record's key. Raises FormatError for a name that is too long."""
        return _text(self.group) + _text(self.topic) + _INT.pack(self.partition)

    def value(self) -> bytes:
        """The record's value. Raises FormatError for metadata that are too long."""
        offsets = _LONGS.pack(self.upstream_offset, self.downstream_offset)
        return _SHORT.pack(VERSION) + offsets + _text(self.metadata)

    @classmethod
    def read(cls, key: bytes, value: bytes) -> Checkpoint:
        """Raises FormatError."""
        reading = _Reading(key)
        group, topic, partition = reading.text(), reading.text(), reading.int32()
        reading.require_end()
        reading = _Reading(value)
        reading.require_version()
        upstream, downstream, metadata = reading.int64(), reading.int64(), reading.text()
        reading.require_end()
        return cls(group, topic, partition, upstream, downstream, metadata)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A sign of life of a flow, by the names of its clusters. timestamp_ms: since the epoch."""

    source_alias: str
    target_alias: str
    timestamp_ms: int

    def key(self) -> bytes:
        """The record's key. Raises FormatError for a name that is too long."""
        return _text(self.source_alias) + _text(self.target_alias)

    def value(self) -> bytes:
        """The record's value."""
        return _SHORT.pack(VERSION) + _LONG.pack(self.timestamp_ms)

    @classmethod
    def read(cls, key: bytes, value: bytes) -> Heartbeat:
        """Raises FormatError."""
        reading = _Reading(key)
        source, target = reading.text(), reading.text()
        reading.require_end()
        reading = _Reading(value)
        reading.require_version()
        timestamp_ms = reading.int64()
        reading.require_end()
        return cls(source, target, timestamp_ms)


def _text(text: str) -> bytes:
    data = text.encode()
    if len(data) > 0x7FFF:
        raise FormatError(f"a text of {len(data)} bytes is longer than its field, which holds 32767")
    return _SHORT.pack(len(data)) + data


class _Reading:
    """Takes fields of a struct one behind the other. Each raises FormatError."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def text(self) -> str:
        length = self._one(_SHORT)
        if length < 0:
            raise FormatError(f"a text has the length {length}")
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as problem:
            raise FormatError(f"a text is not UTF-8: {problem}") from None

    def int32(self) -> int:
        return self._one(_INT)

    def int64(self) -> int:
        return self._one(_LONG)

    def require_version(self) -> None:
        version = self._one(_SHORT)
        if version != VERSION:
            raise FormatError(f"version {version} is not known, only {VERSION}")

    def require_end(self) -> None:
        if self._at != len(self._data):
            raise FormatError(f"{len(self._data) - self._at} bytes follow the last field")

    def _one(self, form: struct.Struct) -> int:
        (number,) = form.unpack(self._take(form.size))
        return int(number)

    def _take(self, length: int) -> bytes:
        end = self._at + length
        if end > len(self._data):
            raise FormatError(f"{len(self._data)} bytes are {end - len(self._data)} too few")
        taken = self._data[self._at : end]
        self._at = end
        return taken
