"""Reads the text files of a data directory into JSON values: checkpoints, identities, the quorum's state.

Files that are not as Kafka writes them raise DamagedFile; text files may be up to 64 MiB.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from ottla.storage.checkpoints import read_leader_epochs, read_offsets, read_partition_metadata, uuid_to_text
from ottla.storage.errors import StorageError
from ottla.storage.inspection.entry_files import read_bounded
from ottla.storage.inspection.problem import DamagedFile, Problem
from ottla.storage.log_directory import LogDirectoryError, read_meta_properties

MAX_TEXT_BYTES: Final = 64 * 1024 * 1024
_QUORUM_NUMBERS: Final = {"leaderId": -1, "leaderEpoch": 0, "votedId": -1}
"""The numbers in a quorum's state, and the smallest that each may be."""


def leader_epochs(path: Path) -> list[tuple[int, int]]:
    """The epochs and their start offsets. Raises DamagedFile unless both grow, OSError."""
    read_bounded(path, MAX_TEXT_BYTES)
    try:
        entries = read_leader_epochs(path)
    except StorageError as problem:
        raise _damaged(path, problem) from None
    last_epoch, last_start = -1, -1
    for line, (epoch, start_offset) in enumerate(entries, 3):
        if epoch <= last_epoch or start_offset < last_start or start_offset < 0:
            reason = f"line {line}: {epoch} {start_offset} follows {last_epoch} {last_start}"
            raise DamagedFile(Problem(path, reason, offset=start_offset))
        last_epoch, last_start = epoch, start_offset
    return entries


def offset_checkpoint(path: Path) -> dict[tuple[str, int], int]:
    """The offsets by topic and partition. Raises DamagedFile, OSError."""
    read_bounded(path, MAX_TEXT_BYTES)
    try:
        offsets = read_offsets(path)
    except StorageError as problem:
        raise _damaged(path, problem) from None
    for (topic, partition), offset in offsets.items():
        if partition < 0 or offset < 0:
            raise DamagedFile(Problem(path, f"{topic}-{partition} has offset {offset}", offset=offset))
    return offsets


def partition_metadata(path: Path) -> dict[str, Any]:
    """The topic's id. Raises DamagedFile, OSError."""
    read_bounded(path, MAX_TEXT_BYTES)
    try:
        topic_id = read_partition_metadata(path.parent)
    except StorageError as problem:
        raise _damaged(path, problem) from None
    return {"topic_id": None if topic_id is None else uuid_to_text(topic_id)}


def meta_properties(path: Path) -> dict[str, Any]:
    """The directory's cluster, node and own id. Raises DamagedFile, OSError."""
    read_bounded(path, MAX_TEXT_BYTES)
    try:
        meta = read_meta_properties(path.parent)
    except LogDirectoryError as problem:
        raise _damaged(path, problem) from None
    if meta is None:
        raise FileNotFoundError(str(path))
    return {
        "cluster.id": meta.cluster_id,
        "node.id": meta.node_id,
        "directory.id": None if meta.directory_id is None else uuid_to_text(meta.directory_id),
    }


def quorum_state(path: Path) -> dict[str, Any]:
    """The epoch, leader and vote, in Kafka's own JSON. Raises DamagedFile, OSError."""
    content = _json_object(path)
    if content.get("data_version") not in (0, 1):
        raise DamagedFile(Problem(path, f"data_version is {content.get('data_version')!r}, not 0 or 1"))
    for name, smallest in _QUORUM_NUMBERS.items():
        value = content.get(name, smallest)
        if not isinstance(value, int) or isinstance(value, bool) or value < smallest:
            raise DamagedFile(Problem(path, f"{name} is {value!r}"))
    return content


def clean_shutdown(path: Path) -> dict[str, Any]:
    """The broker's epoch when it stopped; older versions leave it out. Raises DamagedFile, OSError."""
    return _json_object(path) if read_bounded(path, MAX_TEXT_BYTES) else {}


def _json_object(path: Path) -> dict[str, Any]:
    raw = read_bounded(path, MAX_TEXT_BYTES)
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError) as problem:
        raise DamagedFile(Problem(path, f"no JSON: {problem}")) from None
    if not isinstance(content, dict):
        raise DamagedFile(Problem(path, "no JSON object"))
    return content


def _damaged(path: Path, problem: Exception) -> DamagedFile:
    return DamagedFile(Problem(path, str(problem).removeprefix(f"{path} ")))
