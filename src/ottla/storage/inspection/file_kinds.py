"""Tells the files of a data directory apart by their names, without opening them."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.storage.checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
)
from ottla.storage.file_names import offset_of
from ottla.storage.log_directory import CLEAN_SHUTDOWN_FILE, META_PROPERTIES

BOOTSTRAP_CHECKPOINT: Final = "bootstrap.checkpoint"
QUORUM_STATE: Final = "quorum-state"
OFFSET_CHECKPOINTS: Final = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
)

_PASSING_SUFFIXES: Final = (".deleted", ".cleaned", ".swap")
_METADATA_SNAPSHOT: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_PARTITION: Final = re.compile(
    r"^(?P<topic>\S+)-(?P<partition>\d{1,10})(?:\.[0-9a-f]{32}-(?:delete|future|stray))?$"
)


class FileKind(enum.Enum):
    """What a file holds; the values are words for people."""

    SEGMENT = "segment"
    OFFSET_INDEX = "offset index"
    TIME_INDEX = "time index"
    TRANSACTION_INDEX = "transaction index"
    PRODUCER_SNAPSHOT = "producer snapshot"
    METADATA_SNAPSHOT = "metadata snapshot"
    LEADER_EPOCHS = "leader epochs"
    PARTITION_METADATA = "partition metadata"
    META_PROPERTIES = "meta properties"
    OFFSET_CHECKPOINT = "offset checkpoint"
    QUORUM_STATE = "quorum state"
    CLEAN_SHUTDOWN = "clean shutdown marker"


_BY_SUFFIX: Final = {
    ".log": FileKind.SEGMENT,
    ".index": FileKind.OFFSET_INDEX,
    ".timeindex": FileKind.TIME_INDEX,
    ".txnindex": FileKind.TRANSACTION_INDEX,
    ".snapshot": FileKind.PRODUCER_SNAPSHOT,
}
_BY_NAME: Final = {
    LEADER_EPOCH_CHECKPOINT: FileKind.LEADER_EPOCHS,
    PARTITION_METADATA: FileKind.PARTITION_METADATA,
    META_PROPERTIES: FileKind.META_PROPERTIES,
    QUORUM_STATE: FileKind.QUORUM_STATE,
    CLEAN_SHUTDOWN_FILE: FileKind.CLEAN_SHUTDOWN,
    BOOTSTRAP_CHECKPOINT: FileKind.METADATA_SNAPSHOT,
    **dict.fromkeys(OFFSET_CHECKPOINTS, FileKind.OFFSET_CHECKPOINT),
}


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file whose name says what it holds.

    base_offset: of a segment and its indexes, or that a snapshot is the state before; None for other kinds.
    epoch: of a metadata snapshot. passing: the file is being made or deleted (`.swap`, `.deleted`).
    """

    path: Path
    kind: FileKind
    base_offset: int | None = None
    epoch: int | None = None
    passing: bool = False


def known_file(path: Path) -> KnownFile | None:
    """The file's kind by its name; None for a file that Kafka does not keep."""
    name = path.name
    passing = name.endswith(_PASSING_SUFFIXES)
    if passing:
        name = name.rpartition(".")[0]
    if name in _BY_NAME:
        return KnownFile(path, _BY_NAME[name], passing=passing)
    snapshot = _METADATA_SNAPSHOT.fullmatch(name)
    if snapshot is not None:
        return KnownFile(
            path, FileKind.METADATA_SNAPSHOT, int(snapshot[1]), epoch=int(snapshot[2]), passing=passing
        )
    base_offset = offset_of(name)
    kind = None if base_offset is None else _BY_SUFFIX.get(name[20:])
    return None if kind is None else KnownFile(path, kind, base_offset, passing=passing)


def partition_of(directory: str) -> tuple[str, int] | None:
    """Topic and partition by a directory's name, a stray one's too; None if it is no partition's."""
    found = _PARTITION.match(directory)
    return None if found is None else (found["topic"], int(found["partition"]))
