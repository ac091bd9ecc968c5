"""The Spark properties that make a session's batches short, by the version of Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_FILE_MANAGER = "FileSystemBasedCheckpointFileManager"
_MANAGERS_MOVED_IN: Final = (4, 1)


def version_tuple(spark_version: str) -> tuple[int, int]:
    """Major and minor version: (4, 1) for 4.1.0-preview1. Raises ValueError for any other text."""
    match = re.match(r"(\d+)\.(\d+)", spark_version)
    if match is None:
        raise ValueError(f"no Spark version: {spark_version!r}")
    return int(match[1]), int(match[2])


def low_latency_properties(spark_version: str, checkpoints_are_local: bool) -> Mapping[str, str]:
    """The properties that make the batches of a session short. They change no guarantee."""
    if not checkpoints_are_local:
        return {}
    # Hadoop's default for local files starts a process for every chmod and readlink: 60 ms for each file of a
    # checkpoint, and a batch writes two. This manager renames by Java and as atomically; it saves 100 ms.
    package = "org.apache.spark.sql.execution.streaming."
    if version_tuple(spark_version) >= _MANAGERS_MOVED_IN:
        package += "checkpointing."
    # RawLocalFileSystem, without .crc files, would save another 10 ms; RocksDB cannot upload with it.
    return {"spark.sql.streaming.checkpointFileManagerClass": package + _FILE_MANAGER}
