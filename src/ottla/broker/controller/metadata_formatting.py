"""Makes an empty directory a node's: the metadata log's first files, in the forms that kafka-storage has too.

    standalone       kraft.version 1, this node the only voter
    static voters    kraft.version 0: controller.quorum.voters names them, the log does not
    initial voters   kraft.version 1, the voters given (kafka-storage format --initial-controllers)
    observer         nothing: it learns the voters from their log

`bootstrap.checkpoint` has the first records of a new cluster; the first leader of the empty log writes them
there. `00000000000000000000-0000000000.checkpoint` has the first voters. Each is complete under its name or
not there. Until the log has its first record, formatting may be done again: a kill in the middle of it costs
nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from ottla.broker.controller.metadata_snapshots import read_snapshot, snapshots, write_snapshot
from ottla.core.image.features import INITIAL_FEATURES, KRAFT_VERSION_LEVEL
from ottla.core.quorum.api import ListenerEndpoint, ReplicaKey, SnapshotId, Voter, VoterSet
from ottla.protocol.records.feature_level_record import FeatureLevelRecord
from ottla.protocol.schema import Message
from ottla.storage.files import sync_directory
from ottla.storage.log_directory import (
    META_PROPERTIES,
    LogDirectory,
    LogDirectoryError,
    MetaProperties,
    write_meta_properties,
)
from ottla.storage.partition_directory import partition_directory_name

log = logging.getLogger("ottla.broker")

METADATA_TOPIC = "__cluster_metadata"
BOOTSTRAP_FILE = "bootstrap.checkpoint"
FIRST_SNAPSHOT = SnapshotId(0, 0)


def own_voter(node_id: int, directory_id: UUID, endpoints: Sequence[ListenerEndpoint]) -> VoterSet:
    """The quorum of one node alone."""
    return VoterSet((Voter(ReplicaKey(node_id, directory_id), tuple(endpoints)),))


def must_format(directory: LogDirectory) -> bool:
    """Whether there is neither a metadata record nor a finished format.

    Raises LogDirectoryError for a directory that holds partitions nevertheless.
    """
    path = directory.partition_path(METADATA_TOPIC, 0)
    if path.is_dir() and (_has_records(path) or snapshots(path)):
        return False
    if any(each.topic != METADATA_TOPIC for each in directory.partitions()):
        raise LogDirectoryError(
            f"log directory {directory.path} holds partitions but no {path.name}: put that directory "
            "back, or name an empty one"
        )
    return True


def format_metadata(
    directory: LogDirectory,
    voters: VoterSet | None,
    *,
    controller: bool,
    now_ms: int,
    first_users: Sequence[Message] = (),
) -> None:
    """Write the metadata log's first files into a directory that has its meta.properties.

    `voters` are those of kraft.version 1, None for static voters and observers. `first_users` are those of a
    new cluster, which controllers have beside its features. Raises OSError.
    """
    _write_first_files(directory.path, voters, controller=controller, now_ms=now_ms, users=first_users)
    log.info("metadata log formatted dir=%s cluster=%s", directory.path, directory.cluster_id)


def format_directory(
    path: Path,
    *,
    cluster_id: str,
    node_id: int,
    directory_id: UUID,
    voters: VoterSet,
    now_ms: int,
    first_users: Sequence[Message] = (),
) -> bool:
    """Format a directory with initial voters, as kafka-storage format --initial-controllers does.

    A node that is none of the voters is formatted as an observer. False if the directory has a
    meta.properties: then it was formatted before, and nothing is done. That file comes last, so a format that
    was cut off is done again by the next call; give the same ids then. Raises OSError, or LogDirectoryError
    for a directory that has metadata records but no meta.properties.
    """
    if (path / META_PROPERTIES).exists():
        return False
    path.mkdir(parents=True, exist_ok=True)
    metadata = path / partition_directory_name(METADATA_TOPIC, 0)
    if metadata.is_dir() and _has_records(metadata):
        raise LogDirectoryError(
            f"log directory {path} holds {metadata.name} but no {META_PROPERTIES}: put that file back,"
            " or name an empty directory"
        )
    is_voter = node_id in voters
    _write_first_files(
        path, voters if is_voter else None, controller=is_voter, now_ms=now_ms, users=first_users
    )
    write_meta_properties(path, MetaProperties(cluster_id, node_id, directory_id))
    return True


def bootstrap_records(directory: Path) -> list[Message]:
    """The first records of a new cluster. Raises LogDirectoryError."""
    file = directory / BOOTSTRAP_FILE
    return read_snapshot(file).records if file.exists() else initial_features()


def initial_features() -> list[Message]:
    """The features of a new cluster."""
    return [FeatureLevelRecord(name=name, feature_level=level) for name, level in INITIAL_FEATURES]


def _has_records(path: Path) -> bool:
    return any(file.stat().st_size > 0 for file in path.glob("*.log"))


def _write_first_files(
    path: Path, voters: VoterSet | None, *, controller: bool, now_ms: int, users: Sequence[Message]
) -> None:
    bootstrap = path / BOOTSTRAP_FILE
    if controller and not bootstrap.exists():  # Kafka's own formatting may have put more into it
        first = [*initial_features(), *users]
        write_snapshot(bootstrap, first, timestamp_ms=now_ms, last_timestamp_ms=0)
    metadata = path / partition_directory_name(METADATA_TOPIC, 0)
    metadata.mkdir(exist_ok=True)
    if voters is not None:
        write_snapshot(
            metadata / FIRST_SNAPSHOT.file_name,
            (),
            voters=voters,
            kraft_version=KRAFT_VERSION_LEVEL,
            timestamp_ms=now_ms,
            last_timestamp_ms=now_ms,
        )
    sync_directory(path)
