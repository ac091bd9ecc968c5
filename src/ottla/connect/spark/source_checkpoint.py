"""A source's checkpoint that begins at an offset which was altered through Connect's API.

Spark goes on behind the last batch whose files are in offsets/ and commits/. So the checkpoint of the new
generation gets one finished batch, whose offset is the altered one. The order of writes:

    1. sources/0/, what the source itself keeps: of files that were read, those of batches up to the offset
    2. metadata and commits/0
    3. offsets/0: without it nothing has begun, and all of this is done again

What is written is the same at each attempt. The checkpoint of the former generation is removed afterwards.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ottla.config.errors import ConfigError
from ottla.connect.spark.files.manifest import Place
from ottla.connect.spark.query_offsets import metadata_in_log

OFFSETS: Final = "offsets"
MAX_FILE_BYTES: Final = 256 << 20
MAX_DEPTH: Final = 4
_COMMITS: Final = "commits"
_SOURCE: Final = "sources/0"
_FILES_OFFSET: Final = "logOffset"
_VERSION: Final = "v1"
_COMPACT: Final = ".compact"
_COMPACT_EVERY: Final = 10
"""After so many batches Spark puts their files together into one (fileSource.log.compactInterval)."""


def newest_batch(place: Place, directory: str) -> int | None:
    """The last batch with a file in offsets/ or commits/ of a checkpoint, None without one."""
    return max((int(each) for each in place.names(directory) if each.isdecimal()), default=None)


def begin_at(root: Place, former: str | None, new: str, offset: str) -> None:
    """Make a checkpoint that goes on behind an offset (its JSON). Raises ConfigError.

    root: the connector's directory. former, new: the names of checkpoints in it; former: None for none.
    """
    if newest_batch(root, f"{new}/{OFFSETS}") is not None:
        return  # it was begun
    batch = _batch_of_files(offset)
    if batch is not None and batch < 0:
        return  # before the first file: an empty checkpoint is that
    if batch is not None:
        _copy_files(root, former, new, batch)
    elif former is not None:
        _copy(root, f"{former}/{_SOURCE}", f"{new}/{_SOURCE}", MAX_DEPTH)
    root.create(f"{new}/metadata", _json({"id": str(uuid.uuid4())}))
    root.create(f"{new}/{_COMMITS}/0", f"{_VERSION}\n".encode() + _json({"nextBatchWatermarkMs": 0}))
    metadata: Mapping[str, Any] = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}}
    last = None if former is None else newest_batch(root, f"{former}/{OFFSETS}")
    if last is not None:
        metadata = metadata_in_log(root.read(f"{former}/{OFFSETS}/{last}", MAX_FILE_BYTES)) or metadata
    root.create(f"{new}/{OFFSETS}/0", f"{_VERSION}\n".encode() + _json(metadata) + f"\n{offset}".encode())


def _batch_of_files(offset: str) -> int | None:
    """The number in the offset of a source of files, None for that of another source."""
    found = json.loads(offset)
    if not isinstance(found, dict) or found.keys() != {_FILES_OFFSET}:
        return None
    number = found[_FILES_OFFSET]
    if type(number) is not int:
        raise ConfigError(f"The offset {offset} can't be: {_FILES_OFFSET} is to be a whole number")
    return number


def _copy_files(root: Place, former: str | None, new: str, last: int) -> None:
    """The log of a source of files, up to a batch. Raises ConfigError for a batch that was never read."""
    batches = {} if former is None else _files_read(root, f"{former}/{_SOURCE}")
    newest = max(batches, default=-1)
    if last > newest:
        known = f"the last one is {newest}" if batches else "nothing was read"
        raise ConfigError(f'The offset {{"{_FILES_OFFSET}":{last}}} can\'t be: {known}')
    compacted = (last + 1) // _COMPACT_EVERY * _COMPACT_EVERY - 1
    if compacted >= 0:
        lines = [line for batch in sorted(batches) if batch <= compacted for line in batches[batch]]
        root.create(f"{new}/{_SOURCE}/{compacted}{_COMPACT}", _log(lines))
    for batch in range(compacted + 1, last + 1):
        root.create(f"{new}/{_SOURCE}/{batch}", _log(batches.get(batch, [])))


def _files_read(root: Place, directory: str) -> dict[int, list[str]]:
    """The lines of a source's log by the batches that they tell of."""
    names = root.names(directory)
    numbers = [each.removesuffix(_COMPACT) for each in names if each.endswith(_COMPACT)]
    newest = max((int(each) for each in numbers if each.isdecimal()), default=-1)
    batches: dict[int, list[str]] = {}
    read = [f"{newest}{_COMPACT}"] if newest >= 0 else []
    read += sorted((each for each in names if each.isdecimal() and int(each) > newest), key=int)
    for name in read:
        if name.isdecimal():
            batches.setdefault(int(name), [])
        for line, entry in _entries(root.read(f"{directory}/{name}", MAX_FILE_BYTES)):
            batches.setdefault(int(entry["batchId"]), []).append(line)
    return batches


def _entries(data: bytes) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for line in data.decode("utf-8").splitlines()[1:]:
        if line:
            yield line, json.loads(line)


def _copy(root: Place, source: str, target: str, depth: int) -> None:
    """Copy the files of a directory, and of those in it."""
    for name in root.names(source):
        if name.startswith("."):
            continue  # checksums of Hadoop's
        if depth and root.names(f"{source}/{name}"):
            _copy(root, f"{source}/{name}", f"{target}/{name}", depth - 1)
        else:
            root.create(f"{target}/{name}", root.read(f"{source}/{name}", MAX_FILE_BYTES))


def _log(lines: list[str]) -> bytes:
    return "\n".join([_VERSION, *lines]).encode()


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
