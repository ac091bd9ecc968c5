"""How far an incremental snapshot is, and its keys in the connector's offset: Debezium's; no I/O.

`incremental_snapshot_collections` are the tables that are left, the first one being read,
`incremental_snapshot_primary_key` is the key up to which its rows are in the topic, and
`incremental_snapshot_maximum_key` the largest one when it was begun. Debezium writes keys as serialized Java
objects, which are read; here they are written as JSON lists of texts. `…_signal_offset` is the place in the
signal topic, as Debezium's connectors for binlogs have it. What ottla has besides: `…_paused`,
`…_signal_file`, and `blocking_snapshot_collections`, the tables of a blocking snapshot that is not done.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ottla.connect.cdc.core.java_keys import BadKey, java_key

RowKey = tuple[str | None, ...]
"""The texts of a row's key."""
_ROOT: Final = "incremental_snapshot"
PRIMARY_KEY: Final = f"{_ROOT}_primary_key"
MAXIMUM_KEY: Final = f"{_ROOT}_maximum_key"
COLLECTIONS: Final = f"{_ROOT}_collections"
CORRELATION_ID: Final = f"{_ROOT}_correlation_id"
SIGNAL_OFFSET: Final = f"{_ROOT}_signal_offset"
SIGNAL_FILE: Final = f"{_ROOT}_signal_file"
PAUSED: Final = f"{_ROOT}_paused"
BLOCKING: Final = "blocking_snapshot_collections"


class BadProgress(ValueError):
    """Keys of an offset that make no sense."""


@dataclass(frozen=True, slots=True)
class Collection:
    """A table to copy. condition: behind WHERE; surrogate_key: the column whose order the chunks follow."""

    table: str
    condition: str | None = None
    surrogate_key: str | None = None
    correlation_id: str | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """Tables that are left, and how far the first one is.

    signal_offset: of the last signal that was taken from the topic. signal_file: the mark of the last file.
    correlation_id: of the latest request.
    """

    collections: tuple[Collection, ...] = ()
    last_key: RowKey | None = None
    maximum_key: RowKey | None = None
    correlation_id: str | None = None
    is_paused: bool = False
    blocking: tuple[Collection, ...] = ()
    signal_offset: int | None = None
    signal_file: str | None = None

    @property
    def is_running(self) -> bool:
        """Whether tables are left to be read in chunks."""
        return bool(self.collections)

    def next_collection(self) -> Progress:
        """The progress when the first table is done."""
        left = self.collections[1:]
        done = replace(self, collections=left, last_key=None, maximum_key=None)
        return done if left else replace(done, is_paused=False)

    def offset(self) -> Mapping[str, Any]:
        """What stands in the connector's offset, beside its place; empty where there is nothing."""
        found: dict[str, Any] = {}
        if self.collections:
            found[PRIMARY_KEY] = _key_text(self.last_key)
            found[MAXIMUM_KEY] = _key_text(self.maximum_key)
            found[COLLECTIONS] = _collections_text(self.collections)
            found[CORRELATION_ID] = self.correlation_id
            if self.is_paused:
                found[PAUSED] = True
        if self.blocking:
            found[BLOCKING] = _collections_text(self.blocking)
        if self.signal_offset is not None:
            found[SIGNAL_OFFSET] = self.signal_offset
        if self.signal_file is not None:
            found[SIGNAL_FILE] = self.signal_file
        return found


@dataclass(frozen=True, slots=True)
class Resumed:
    """The progress of an offset. warning: why its first table begins anew, None if it goes on."""

    progress: Progress
    warning: str | None = None


def progress_of(offset: Mapping[str, Any]) -> Resumed:
    """The progress that an offset holds, of ours or of Debezium's. Raises BadProgress."""
    collections = _collections(offset, COLLECTIONS)
    warning = None
    last = maximum = None
    try:
        if collections:
            last, maximum = _key(offset, PRIMARY_KEY), _key(offset, MAXIMUM_KEY)
            if last is not None and maximum is None:
                last = None
    except BadKey as problem:
        warning = str(problem)
        last = maximum = None
    signal = offset.get(SIGNAL_OFFSET)
    if signal is not None and (type(signal) is not int or signal < 0):
        raise BadProgress(f"an offset's {SIGNAL_OFFSET!r} must be a place in a topic, not {signal!r}")
    correlation, file = offset.get(CORRELATION_ID), offset.get(SIGNAL_FILE)
    progress = Progress(
        collections,
        last,
        maximum,
        None if correlation is None else str(correlation),
        bool(collections) and offset.get(PAUSED) is True,
        _collections(offset, BLOCKING),
        signal,
        None if file is None else str(file),
    )
    return Resumed(progress, warning)


def _key_text(key: RowKey | None) -> str | None:
    return None if key is None else json.dumps(key, separators=(",", ":"), ensure_ascii=False)


def _key(offset: Mapping[str, Any], name: str) -> RowKey | None:
    text = offset.get(name)
    if text is None:
        return None
    if not isinstance(text, str):
        raise BadKey(f"an offset's {name!r} is no text")
    if not text.startswith("["):
        return java_key(text)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise BadKey(f"an offset's {name!r} is no list: {problem}") from None
    if not found or not all(isinstance(each, str | None) for each in found):
        raise BadKey(f"an offset's {name!r} is no list of texts")
    return tuple(found)


def _collections_text(collections: Sequence[Collection]) -> str:
    rows = [
        {
            f"{COLLECTIONS}_id": each.table,
            f"{COLLECTIONS}_additional_condition": each.condition,
            f"{COLLECTIONS}_surrogate_key": each.surrogate_key,
            f"{COLLECTIONS}_correlation_id": each.correlation_id,
        }
        for each in collections
    ]
    return json.dumps(rows, separators=(",", ":"), ensure_ascii=False)


def _collections(offset: Mapping[str, Any], name: str) -> tuple[Collection, ...]:
    text = offset.get(name)
    if text is None:
        return ()
    try:
        rows = json.loads(text)
        return tuple(
            Collection(
                row[f"{COLLECTIONS}_id"],
                row.get(f"{COLLECTIONS}_additional_condition") or None,
                row.get(f"{COLLECTIONS}_surrogate_key") or None,
                row.get(f"{COLLECTIONS}_correlation_id"),
            )
            for row in rows
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as problem:
        raise BadProgress(f"an offset's {name!r} is no list of tables: {problem}") from None
