"""Repairs a published jar whose fault would end queries, until a release without the fault takes its place.

Spark 4.1.1's Kafka source tells its metrics after each batch. After a restart that repeats a planned batch it
has not asked for the latest offsets yet, takes their absence for a value, and the query ends with a
NullPointerException (SPARK-55271, mended in 4.2.0): each start after a kill in the middle of a batch would
fail once. The repair is that of 4.2.0, ten bytes in one method: `Option(offsets)` for `Some(offsets)`.

The repaired jar lies beside the published one in the cache. It is made again from the published bytes at each
start and compared, so a damaged copy is replaced, and a sound one keeps its time of change.
"""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from ottla.pipeline.spark.cache import CACHE_ENVIRONMENT, cache_directory
from ottla.pipeline.spark.maven import Jar, MavenError


@dataclass(frozen=True, slots=True)
class Repair:
    """Bytes of one entry of a jar that are replaced by as many others; they are in it once."""

    entry: str
    found: bytes
    wanted: bytes


_KAFKA_SOURCE = "org/apache/spark/sql/kafka010/KafkaMicroBatchStream.class"
REPAIRS: Mapping[str, Repair] = MappingProxyType(
    {
        # new Some, dup, this.latestPartitionOffsets, Some.<init>: by the SHA-256 of the published jar
        "9c1ce986f548e6b1dcb0e2dfe2f253a0bc58f2232a32a0c9c6c674dd25a8570c": Repair(
            _KAFKA_SOURCE,
            bytes.fromhex("bb01a7 59 2a b70175 b701aa"),
            # Option$.MODULE$, this.latestPartitionOffsets, Option$.apply, nop
            bytes.fromhex("b20173 2a b70175 b60178 00"),
        )
    }
)


def repaired(jar: Jar, path: Path) -> Path:
    """The path of the jar without its fault; `path` itself if it has none. Raises MavenError."""
    repair = REPAIRS.get(jar.sha256)
    if repair is None:
        return path
    place = cache_directory() / "maven" / Path(jar.relative_path).with_suffix(".repaired.jar")
    try:
        wanted = repaired_bytes(path.read_bytes(), repair)
        if not place.is_file() or place.read_bytes() != wanted:
            replace_file(place, wanted)
    except OSError as error:
        raise MavenError(
            f"cannot write {place}: {error}. Set {CACHE_ENVIRONMENT} to a writable directory."
        ) from error
    return place


def repaired_bytes(jar: bytes, repair: Repair) -> bytes:
    """The jar with the bytes replaced, its entries uncompressed: always the same for the same jar."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(jar)) as published, zipfile.ZipFile(result, "w") as made:
        for info in published.infolist():
            data = published.read(info)
            if info.filename == repair.entry:
                data = _repaired_entry(data, repair)
            made.writestr(zipfile.ZipInfo(info.filename, info.date_time), data)
    return result.getvalue()


def single_entry_jar(entry: bytes, repair: Repair) -> bytes:
    """A jar of the repaired entry alone: always the same for the same bytes. Raises ValueError."""
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w") as made:
        made.writestr(zipfile.ZipInfo(repair.entry), _repaired_entry(entry, repair))
    return result.getvalue()


def _repaired_entry(data: bytes, repair: Repair) -> bytes:
    if data.count(repair.found) != 1 or len(repair.found) != len(repair.wanted):
        raise ValueError(f"{repair.entry} is not the class that the repair is for")
    return data.replace(repair.found, repair.wanted)


def replace_file(place: Path, data: bytes) -> None:
    """Write a file of the cache whole or not at all. Raises OSError."""
    place.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".repaired.", dir=place.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, place)
    except BaseException:
        os.unlink(temporary)
        raise
