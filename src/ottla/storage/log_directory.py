"""A log directory: its owner, the process that uses it, how it was closed, and its partitions.

    .lock                    held by the process that uses the directory
    meta.properties          version=1, cluster.id, node.id, directory.id (KIP-858)
    .kafka_cleanshutdown     {"version":0,"brokerEpoch":n}: all logs were closed; written last of all
    *-offset-checkpoint      offsets by partition, see `checkpoints`
    <topic>-<n>/             a partition's log
    <topic>-<n>.<uuid>-delete/   a deleted one, removed on start

Theory of operation. `open` checks before it writes: a directory that cannot be written, that another process
uses, or that belongs to another cluster or node stays as it is. The clean shutdown marker is removed,
durably, before `open` returns: no record is ever appended while the marker exists. If the start fails after
that, the next one checks the logs again, which only takes longer.

`.lock` is locked twice: as Apache Kafka does (a record lock of the process), so that the two never share a
directory, and for the open file, so that two brokers in one process do not either.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from ottla.storage import checkpoints
from ottla.storage.checkpoints import TopicPartition, uuid_from_text, uuid_to_text
from ottla.storage.errors import LogDirectoryError, StorageError
from ottla.storage.files import OpenFiles, replace_file, sync_directory
from ottla.storage.partition_directory import (
    STRAY_DIRECTORY_SUFFIX,
    is_deleted_directory,
    parse_partition_directory,
    partition_directory_name,
    suffixed_directory_name,
)
from ottla.storage.recovery import CLEAN_CHECK_BYTES

fcntl: ModuleType | None
msvcrt: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None
try:
    import msvcrt
except ImportError:
    msvcrt = None

LOCK_FILE = ".lock"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
_MAX_META_BYTES = 64 * 1024
_CLEAN_CHECK_TOTAL_BYTES = 16 << 20
_RESERVED_DIRECTORY_IDS = 100  # uuids below are reserved (KIP-858)

log = logging.getLogger("ottla.storage")

__all__ = [
    "LogDirectory",
    "LogDirectoryError",
    "MetaProperties",
    "read_meta_properties",
    "write_meta_properties",
]


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The content of meta.properties. Files older than KIP-858 have no directory id; `open` makes one."""

    cluster_id: str
    node_id: int
    directory_id: uuid.UUID | None


@dataclass(frozen=True, slots=True)
class PartitionDirectory:
    """A partition with a directory here."""

    topic: str
    partition: int
    path: Path


class LogDirectory:
    """An opened, locked log directory."""

    __slots__ = ("_lock", "broker_epoch", "clean_shutdown", "meta", "open_files", "path")

    def __init__(
        self, path: Path, meta: MetaProperties, lock: int, *, clean_shutdown: bool, broker_epoch: int
    ) -> None:
        self.path = path
        self.meta = meta
        self.clean_shutdown = clean_shutdown
        self.broker_epoch = broker_epoch
        self.open_files = OpenFiles()
        self._lock = lock

    @classmethod
    def open(cls, path: Path, *, node_id: int, cluster_id: str | None = None) -> LogDirectory:
        """Lock the directory and check that it is this node's; format it if it is empty or does not exist.

        With `cluster_id` None the directory may belong to any cluster; an empty one gets a new cluster id.
        Raises LogDirectoryError.
        """
        _make_writable(path)
        lock = _lock(path)
        try:
            return cls._open_locked(path, lock, node_id, cluster_id)
        except BaseException as error:
            _unlock(lock)
            if isinstance(error, OSError):
                raise LogDirectoryError(
                    f"cannot use log directory {path}: {error.strerror}: {error.filename}; name another one"
                ) from error
            raise

    @classmethod
    def _open_locked(cls, path: Path, lock: int, node_id: int, cluster_id: str | None) -> LogDirectory:
        meta = _read_meta(path / META_PROPERTIES)
        if meta is None:
            _require_unused(path)
            meta = MetaProperties(cluster_id or _new_uuid_text(), node_id, None)
        _require_same(path, meta, node_id, cluster_id)
        if meta.directory_id is None:
            meta = replace(meta, directory_id=_new_directory_id())
            write_meta_properties(path, meta)
        marker = path / CLEAN_SHUTDOWN_FILE
        clean_shutdown = marker.exists()
        broker_epoch = _read_broker_epoch(marker) if clean_shutdown else -1
        if clean_shutdown:
            marker.unlink()
            sync_directory(path)
        _remove_deleted_directories(path)
        return cls(path, meta, lock, clean_shutdown=clean_shutdown, broker_epoch=broker_epoch)

    # --- identity -------------------------------------------------------------------------------------

    @property
    def cluster_id(self) -> str:
        return self.meta.cluster_id

    @property
    def directory_id(self) -> uuid.UUID:
        assert self.meta.directory_id is not None  # set by open()
        return self.meta.directory_id

    # --- partitions -----------------------------------------------------------------------------------

    def clean_check_bytes(self) -> int:
        """The bytes of each log to check after a clean stop, so that all together take little time to start.

        The few partitions of a small broker are checked whole, as far as they are small.
        """
        return max(CLEAN_CHECK_BYTES, _CLEAN_CHECK_TOTAL_BYTES // max(1, len(self.partitions())))

    def partition_path(self, topic: str, partition: int) -> Path:
        return self.path / partition_directory_name(topic, partition)

    def partitions(self) -> list[PartitionDirectory]:
        """The partitions with a directory, in the order of their names."""
        found = []
        with os.scandir(self.path) as entries:
            for entry in entries:
                named = parse_partition_directory(entry.name)
                if named is not None and entry.is_dir():
                    found.append(PartitionDirectory(*named, self.path / entry.name))
        return sorted(found, key=lambda found: found.path.name)

    def set_stray_aside(self, directory: Path) -> Path:
        """Rename the directory of a partition that the cluster does not know: `<topic>-<n>.<uuid>-stray`.

        Its files are kept; an administrator may check and remove them.
        """
        named = parse_partition_directory(directory.name)
        topic, partition = named if named is not None else (directory.name, 0)
        target = directory.with_name(suffixed_directory_name(topic, partition, STRAY_DIRECTORY_SUFFIX))
        os.replace(directory, target)
        log.warning("partition unknown to the cluster set aside path=%s", target)
        return target

    @staticmethod
    def remove_deleted(directory: Path) -> None:
        """Remove a directory that `Log.delete` renamed. Files that cannot be removed go at the next start."""
        shutil.rmtree(directory, ignore_errors=True)

    # --- checkpoints ----------------------------------------------------------------------------------

    def read_recovery_points(self) -> dict[TopicPartition, int]:
        return self._read_offsets(checkpoints.RECOVERY_POINT_CHECKPOINT)

    def write_recovery_points(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Checkpoint the offsets below which each log is synced."""
        self._write_offsets(checkpoints.RECOVERY_POINT_CHECKPOINT, offsets)

    def read_log_start_offsets(self) -> dict[TopicPartition, int]:
        return self._read_offsets(checkpoints.LOG_START_OFFSET_CHECKPOINT)

    def write_log_start_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Checkpoint the log start offsets inside of segments, before DeleteRecords is answered."""
        self._write_offsets(checkpoints.LOG_START_OFFSET_CHECKPOINT, offsets)

    def read_high_watermarks(self) -> dict[TopicPartition, int]:
        return self._read_offsets(checkpoints.REPLICATION_OFFSET_CHECKPOINT)

    def write_high_watermarks(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._write_offsets(checkpoints.REPLICATION_OFFSET_CHECKPOINT, offsets)

    def read_cleaner_offsets(self) -> dict[TopicPartition, int]:
        return self._read_offsets(checkpoints.CLEANER_OFFSET_CHECKPOINT)

    def write_cleaner_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._write_offsets(checkpoints.CLEANER_OFFSET_CHECKPOINT, offsets)

    def _read_offsets(self, name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoints.read_offsets(self.path / name)
        except StorageError as error:
            raise LogDirectoryError(str(error)) from error

    def _write_offsets(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        checkpoints.write_offsets(self.path / name, offsets)

    # --- closing --------------------------------------------------------------------------------------

    def close(self, *, clean: bool, broker_epoch: int = -1) -> None:
        """Unlock. `clean`: all logs are closed and the
        checkpoints written, so leave the marker that says so.
        """
        if self._lock < 0:
            return
        if clean:
            content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
            replace_file(self.path / CLEAN_SHUTDOWN_FILE, content.encode(), sync=True)
        _unlock(self._lock)
        self._lock = -1


# --- checks before the first write --------------------------------------------------------------------


def _make_writable(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise LogDirectoryError(f"log directory {path} is a file: name a directory") from None
    except OSError as error:
        raise LogDirectoryError(
            f"cannot make log directory {path}: {error.strerror}; name one that you may write to"
        ) from error
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise LogDirectoryError(
            f"log directory {path} is not writable for this user: change its owner or name another one"
        )


def _lock(path: Path) -> int:
    try:
        fd = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
    except OSError as error:
        raise LogDirectoryError(
            f"log directory {path} is not writable: {error.strerror}; change its owner or name another one"
        ) from error
    try:
        if fcntl is not None:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        elif msvcrt is not None:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
    except OSError as error:
        os.close(fd)
        raise LogDirectoryError(
            f"log directory {path} is in use by another broker: stop that one or name another directory"
        ) from error
    return fd


def _unlock(lock: int) -> None:
    with contextlib.suppress(OSError):
        os.close(lock)


def _require_unused(path: Path) -> None:
    """Refuse a directory without meta.properties if it holds files that look like a log's."""
    for entry in path.iterdir():
        if entry.is_dir() and parse_partition_directory(entry.name) is not None:
            raise LogDirectoryError(
                f"log directory {path} holds {entry.name} but no {META_PROPERTIES}: put that file back,"
                f" or name an empty directory"
            )


def _require_same(path: Path, meta: MetaProperties, node_id: int, cluster_id: str | None) -> None:
    if cluster_id is not None and meta.cluster_id != cluster_id:
        raise LogDirectoryError(
            f"log directory {path} belongs to cluster {meta.cluster_id}, not to {cluster_id}:"
            f" name another directory"
        )
    if meta.node_id != node_id:
        raise LogDirectoryError(
            f"log directory {path} belongs to node {meta.node_id}, not to {node_id}:"
            f" set node.id={meta.node_id} or name another directory"
        )


def _remove_deleted_directories(path: Path) -> None:
    with os.scandir(path) as entries:
        deleted = [entry.path for entry in entries if is_deleted_directory(entry.name) and entry.is_dir()]
    for directory in deleted:
        shutil.rmtree(directory, ignore_errors=True)
        log.info("deleted partition removed path=%s", directory)


# --- files ------------------------------------------------------------------------------------------------


def read_meta_properties(path: Path) -> MetaProperties | None:
    """The identity of the directory `path`; None if it has none yet. Raises LogDirectoryError."""
    return _read_meta(path / META_PROPERTIES)


def write_meta_properties(path: Path, meta: MetaProperties) -> None:
    """Set the identity of the directory `path`; it is on the disk when this returns."""
    replace_file(path / META_PROPERTIES, _encode_meta(meta), sync=True)


def _encode_meta(meta: MetaProperties) -> bytes:
    assert meta.directory_id is not None
    now = time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime())
    return (
        f"#\n#{now}\ncluster.id={meta.cluster_id}\ndirectory.id={uuid_to_text(meta.directory_id)}\n"
        f"node.id={meta.node_id}\nversion=1\n"
    ).encode()


def _read_meta(path: Path) -> MetaProperties | None:
    """The content, None if there is no file. Raises LogDirectoryError if it cannot be read."""
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_META_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LogDirectoryError(f"cannot read {path}: {error.strerror}") from error
    properties = _parse_properties(text.splitlines())
    version = properties.get("version", "0")
    if version not in ("0", "1"):
        raise LogDirectoryError(
            f"{path} has version {version}, this ottla reads version 1: name another directory"
        )
    try:
        directory_id = properties.get("directory.id")
        return MetaProperties(
            cluster_id=properties["cluster.id"],
            node_id=int(properties["node.id"] if version == "1" else properties["broker.id"]),
            directory_id=uuid_from_text(directory_id) if directory_id else None,
        )
    except (KeyError, ValueError) as error:
        raise LogDirectoryError(
            f"{path} is damaged ({error}): put a good copy in its place, or name another directory"
        ) from None


def _parse_properties(lines: Iterable[str]) -> dict[str, str]:
    """`key=value` lines as Java writes them: `#` and `!` begin comments, a backslash escapes."""
    properties = {}
    for line in lines:
        stripped = line.strip()
        if stripped and stripped[0] not in "#!" and "=" in stripped:
            key, value = stripped.split("=", 1)
            properties[key.strip().replace("\\", "")] = value.strip().replace("\\", "")
    return properties


def _read_broker_epoch(marker: Path) -> int:
    """The broker's epoch when it stopped; -1 if the marker has none (older ones are empty)."""
    try:
        epoch = json.loads(marker.read_bytes())["brokerEpoch"]
    except (OSError, ValueError, KeyError, TypeError):
        return -1
    return epoch if isinstance(epoch, int) else -1


def _new_uuid_text() -> str:
    """A random uuid as text without a dash at the start, which command lines would read as an option."""
    while True:
        text = uuid_to_text(uuid.uuid4())
        if not text.startswith("-"):
            return text


def _new_directory_id() -> uuid.UUID:
    while True:
        candidate = uuid_from_text(_new_uuid_text())
        if candidate.int >= _RESERVED_DIRECTORY_IDS:
            return candidate
