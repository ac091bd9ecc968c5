"""Source offsets as records of Connect's offsets topic: ["connector",{partition}] -> {offset}, in JSON.

The bytes of a key are those that Java's Connect writes: records of a partition compact each other only if
their keys are the same bytes. Java's maps of several names have the order of its HashMap.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from ottla.connect.data.record import SourceOffset, SourcePartition
from ottla.connect.data.schema import DataError

_FIRST_BUCKETS: Final = 16
_SPREAD: Final = 16


class OffsetKey(NamedTuple):
    """What a record of the offsets topic is about."""

    connector: str
    partition: SourcePartition


def key_bytes(connector: str, partition: SourcePartition) -> bytes:
    """The key of a source partition. Raises DataError."""
    return _json([connector, _checked(partition)])


def value_bytes(offset: SourceOffset | None) -> bytes | None:
    """The value of an offset; None for a tombstone. Raises DataError."""
    return None if offset is None else _json(_checked(offset))


def read_key(data: bytes) -> OffsetKey | None:
    """What a key stands for; None for one that is not of this form, as readers pass over it."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    match found:
        case [str() as connector, dict() as partition]:
            return OffsetKey(connector, partition)
    return None


def read_value(data: bytes | None) -> SourceOffset | None:
    """The offset of a value; None for a tombstone and for one that is no JSON object."""
    if data is None:
        return None
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


class OffsetImage:
    """The source offsets of an offsets topic, as far as its records were applied.

    Keys are told apart by their bytes, as compaction does. Of several spellings of one partition that of
    `key_bytes` counts.
    """

    def __init__(self) -> None:
        self._offsets: dict[bytes, SourceOffset] = {}

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Take a record, in the topic's order."""
        offset = read_value(value)
        if offset is None:
            self._offsets.pop(key, None)
        else:
            self._offsets[key] = offset

    def of(self, connector: str) -> list[tuple[SourcePartition, SourceOffset]]:
        """The partitions of a connector with their offsets."""
        found: dict[bytes, tuple[SourcePartition, SourceOffset]] = {}
        for key, offset in self._offsets.items():
            read = read_key(key)
            if read is not None and read.connector == connector:
                own = key_bytes(connector, read.partition)
                if key == own or own not in self._offsets:
                    found[own] = read.partition, offset
        return list(found.values())

    def everything(self) -> list[tuple[OffsetKey, SourceOffset]]:
        """All keys that stand for a partition, with their offsets."""
        found = [(read_key(key), offset) for key, offset in self._offsets.items()]
        return [(key, offset) for key, offset in found if key is not None]

    def spellings(self, connector: str, partition: SourcePartition) -> list[bytes]:
        """The keys under which a partition's offsets stand, other than that of `key_bytes`."""
        own = key_bytes(connector, partition)
        return [
            key
            for key in self._offsets
            if key != own
            and (read := read_key(key)) is not None
            and read.connector == connector
            and read.partition == partition
        ]


def validate(data: Mapping[Any, Any] | None) -> None:
    """Raises DataError for a partition or an offset that Connect can't store."""
    for name, value in (data or {}).items():
        if not isinstance(name, str):
            raise DataError("Offsets may only use String keys")
        if isinstance(value, (Mapping, list, tuple)):
            kind = "MAP" if isinstance(value, Mapping) else "ARRAY"
            raise DataError(
                f"Offsets may only contain primitive types as values, but field {name} contains {kind}"
            )
        if value is not None and not isinstance(value, (bool, int, float, str)):
            raise DataError(
                f"Offsets may only contain primitive types as values, but field {name} contains "
                f"class {type(value).__name__}"
            )


def _checked(data: Mapping[str, Any]) -> dict[str, Any]:
    validate(data)
    return {name: data[name] for name in _in_javas_order(data)}


def _json(value: Any) -> bytes:
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as problem:
        raise DataError(f"an offset that is no JSON: {problem}") from None


def _in_javas_order(names: Iterable[str]) -> list[str]:
    """Names in the order of a HashMap of Java's, to which they were added in this order."""
    given = list(names)
    if len(given) < 2:
        return given
    buckets = _FIRST_BUCKETS
    while len(given) > buckets * 3 // 4:
        buckets *= 2
    return sorted(given, key=lambda name: _spread(_java_hash(name)) & (buckets - 1))


def _java_hash(text: str) -> int:
    """String.hashCode(), without its sign."""
    found = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for unit in range(0, len(data), 2):
        found = (31 * found + int.from_bytes(data[unit : unit + 2], "big")) & 0xFFFF_FFFF
    return found


def _spread(number: int) -> int:
    return number ^ (number >> _SPREAD)
