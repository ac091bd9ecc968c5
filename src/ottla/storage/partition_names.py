"""The names of partition directories: `<topic>-<n>`, or `<topic>-<n>.<uuid>-delete` for deleted ones."""

from __future__ import annotations

import re
import uuid

DELETED_DIRECTORY_SUFFIX = "-delete"
FUTURE_DIRECTORY_SUFFIX = "-future"
STRAY_DIRECTORY_SUFFIX = "-stray"
_MAX_NAME_LENGTH = 255
_SUFFIXED = re.compile(r"^(\S+)-(\d+)\.([0-9a-f]{32})(-delete|-future|-stray)$")
_PARTITION = re.compile(r"^([a-zA-Z0-9._-]{1,249})-(\d{1,10})$")


def partition_directory_name(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def parse_partition_directory(name: str) -> tuple[str, int] | None:
    """(topic, partition) of a directory's name, None if it is not a partition's (a deleted one's, say)."""
    if name.endswith(
        (DELETED_DIRECTORY_SUFFIX, FUTURE_DIRECTORY_SUFFIX, STRAY_DIRECTORY_SUFFIX)
    ) and _SUFFIXED.match(name):
        return None
    match = _PARTITION.match(name)
    return None if match is None else (match[1], int(match[2]))


def is_deleted_directory(name: str) -> bool:
    return name.endswith(DELETED_DIRECTORY_SUFFIX) and _SUFFIXED.match(name) is not None


def suffixed_directory_name(topic: str, partition: int, suffix: str) -> str:
    """A name that is unique; the topic is cut if the whole would be longer than a file name may be."""
    end = f"-{partition}.{uuid.uuid4().hex}{suffix}"
    return topic[: _MAX_NAME_LENGTH - len(end)] + end
