"""The directory of one partition: its name, and its topic.

A partition lives in `<topic>-<n>`. The directory is made first, then `partition.metadata` with the topic's id
(renamed into place), then the first segment: a kill in between leaves a directory that opens as an empty log.
Deleted partitions are renamed to `<topic>-<n>.<32 hex digits>-delete` and removed later.
"""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from uuid import UUID

from ottla.storage.checkpoints import read_partition_metadata, write_partition_metadata
from ottla.storage.errors import StorageError

DELETED_DIRECTORY_SUFFIX = "-delete"
FUTURE_DIRECTORY_SUFFIX = "-future"
STRAY_DIRECTORY_SUFFIX = "-stray"
_MAX_NAME_LENGTH = 255
_SUFFIXED = re.compile(r"^(\S+)-(\d+)\.([0-9a-f]{32})(-delete|-future|-stray)$")
_PARTITION = re.compile(r"^([a-zA-Z0-9._-]{1,249})-(\d{1,10})$")


def partition_directory_name(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def parse_partition_directory(name: str) -> tuple[str, int] | None:
    """(topic, partition) of a directory's name, None if it
    is not a partition's (but a deleted one's, say).
    """
    if name.endswith(
        (DELETED_DIRECTORY_SUFFIX, FUTURE_DIRECTORY_SUFFIX, STRAY_DIRECTORY_SUFFIX)
    ) and _SUFFIXED.match(name):
        return None
    match = _PARTITION.match(name)
    return None if match is None else (match[1], int(match[2]))


def is_deleted_directory(name: str) -> bool:
    return name.endswith(DELETED_DIRECTORY_SUFFIX) and _SUFFIXED.match(name) is not None


def suffixed_directory_name(topic: str, partition: int, suffix: str) -> str:
    """A unique name; the topic is cut if the whole would be longer than a file name may be."""
    end = f"-{partition}.{uuid.uuid4().hex}{suffix}"
    return topic[: _MAX_NAME_LENGTH - len(end)] + end


def claim_directory(directory: Path, topic_id: UUID | None) -> UUID | None:
    """Make the directory, or check that it is this topic's. Returns the topic id."""
    try:
        known = read_partition_metadata(directory)
    except NotADirectoryError:
        raise StorageError(
            f"{directory} is a file where a partition's directory is to be; move it away"
        ) from None
    if known is None:
        directory.mkdir(exist_ok=True)
        if topic_id is not None:
            write_partition_metadata(directory, topic_id)
        return topic_id
    if topic_id is not None and topic_id != known:
        raise StorageError(
            f"{directory} belongs to another topic of the same name (id {known}, expected {topic_id});"
            f" move it away if its data is not needed"
        )
    return known
