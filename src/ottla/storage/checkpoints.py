"""Kafka's small text files: offsets by partition, leader epochs, a partition's topic id.

    recovery-point-offset-checkpoint, log-start-offset-checkpoint, replication-offset-checkpoint,
    cleaner-offset-checkpoint (one a log directory): version 0, entry count, then "topic partition offset"
    leader-epoch-checkpoint (one a partition): version 0, entry count, then "epoch start_offset"
    partition.metadata (one a partition): "version: 0", "topic_id: <22 characters>"

All are replaced as a whole (written beside, renamed). An empty file counts as one without entries, as in
Apache Kafka: a power loss can leave a file empty that was not synced. Any other invalid content raises
StorageError.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from uuid import UUID

from ottla.storage.errors import StorageError
from ottla.storage.files import replace_file

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
REPLICATION_OFFSET_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT = "cleaner-offset-checkpoint"
LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"

_VERSION = "0"
_MAX_FILE_BYTES = 256 << 20
_ZERO_UUID = UUID(int=0)

TopicPartition = tuple[str, int]


def uuid_to_text(value: UUID) -> str:
    """A uuid as Kafka writes it: URL-safe base64 of its 16 bytes, without padding, 22 characters."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode("ascii")


def uuid_from_text(text: str) -> UUID:
    """Inverse of `uuid_to_text`. Raises ValueError."""
    try:
        raw = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"{text!r} is not a uuid of 22 base64 characters") from None
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not a uuid of 22 base64 characters")
    return UUID(bytes=raw)


def write_offsets(path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace an offset checkpoint; it is on the disk when this returns."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    replace_file(path, _encode(lines), sync=True)


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """An offset checkpoint; empty if the file does not exist or is empty. Raises StorageError."""
    offsets: dict[TopicPartition, int] = {}
    for fields in _read(path, fields=3):
        try:
            offsets[fields[0], int(fields[1])] = int(fields[2])
        except ValueError:
            raise _malformed(path, " ".join(fields)) from None
    return offsets


def encode_leader_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    """The content of a leader epoch checkpoint with these (epoch, start offset) entries."""
    return _encode([f"{epoch} {start_offset}" for epoch, start_offset in entries])


def read_leader_epochs(path: Path) -> list[tuple[int, int]]:
    """The (epoch, start offset) entries; empty without a file or with an empty one. Raises StorageError."""
    try:
        return [(int(epoch), int(start_offset)) for epoch, start_offset in _read(path, fields=2)]
    except ValueError:
        raise _malformed(path, "a number was expected") from None


def write_partition_metadata(directory: Path, topic_id: UUID, *, sync: bool = False) -> None:
    """Write the topic id into a partition's directory."""
    text = f"version: 0\ntopic_id: {uuid_to_text(topic_id)}"
    replace_file(directory / PARTITION_METADATA, text.encode(), sync=sync)


def read_partition_metadata(directory: Path) -> UUID | None:
    """The topic id; None if there is no file or an empty one. Raises StorageError."""
    path = directory / PARTITION_METADATA
    text = _read_text(path)
    if not text.strip():
        return None
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    try:
        version = int(fields["version"])
        topic_id = uuid_from_text(fields["topic_id"].strip())
    except (KeyError, ValueError):
        raise _malformed(path, text[:80]) from None
    if version < 0 or topic_id == _ZERO_UUID:
        raise _malformed(path, text[:80])
    return topic_id


def _encode(lines: Sequence[str]) -> bytes:
    return "\n".join([_VERSION, str(len(lines)), *lines, ""]).encode()


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return ""
    if len(raw) > _MAX_FILE_BYTES:
        raise StorageError(f"{path} has more than {_MAX_FILE_BYTES} bytes; remove it if it is not yours")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise _malformed(path, "it is not text") from None


def _read(path: Path, *, fields: int) -> list[list[str]]:
    lines = _read_text(path).splitlines()
    if len(lines) < 2:
        if lines and lines[0] != _VERSION:
            raise _malformed(path, lines[0])
        return []
    if lines[0].strip() != _VERSION:
        raise StorageError(f"{path} has version {lines[0][:20]!r}, this ottla reads version {_VERSION}")
    entries = [line.split() for line in lines[2:]]
    for entry, line in zip(entries, lines[2:], strict=True):
        if len(entry) != fields:
            raise _malformed(path, line)
    if lines[1].strip() != str(len(entries)):
        raise _malformed(path, f"{len(entries)} entries where line 2 says {lines[1][:20]!r}")
    return entries


def _malformed(path: Path, content: str) -> StorageError:
    return StorageError(f"{path} is damaged ({content!r}): put a good copy in its place or remove it")
