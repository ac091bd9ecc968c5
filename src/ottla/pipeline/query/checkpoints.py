"""Reads a query's checkpoint on a local disk, in any state that a crash may have left it in.

Spark's layout: `metadata` holds the query's id and is written once, before anything else. `offsets/N` is
written before batch N runs, `commits/N` after it; both are written as temporary files and renamed. A file
that can't be read counts as missing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Offsets = dict[str, dict[int, int]]
"""The next offset to read, by topic and partition."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint's directory, which need not exist."""

    path: Path

    @property
    def query_id(self) -> str | None:
        """The id that Spark gave the query when it made the checkpoint; None if there is no checkpoint."""
        found = _json(_text(self.path / "metadata").strip())
        identifier = found.get("id") if isinstance(found, dict) else None
        return str(identifier) if identifier else None

    @property
    def exists(self) -> bool:
        """Whether a query has begun here: without `metadata` Spark starts a new one."""
        return self.query_id is not None

    @property
    def planned_batches(self) -> list[int]:
        """The batches whose offsets are written, in order."""
        return _numbered(self.path / "offsets")

    @property
    def finished_batches(self) -> list[int]:
        """The finished batches, in order; Spark keeps the last hundred."""
        return _numbered(self.path / "commits")

    @property
    def last_finished_batch(self) -> int | None:
        """The batch after which the query goes on; None if no batch is finished."""
        return max(self.finished_batches, default=None)

    @property
    def unfinished_batch_ms(self) -> int | None:
        """When the unfinished batch was planned, by the driver's clock; None if there is no such batch."""
        planned = self.planned_batches
        if not planned or planned[-1] == self.last_finished_batch:
            return None
        planned_ms = self._batch_metadata(planned[-1]).get("batchTimestampMs")
        return planned_ms if isinstance(planned_ms, int) else None

    def _batch_metadata(self, batch_id: int) -> dict[str, Any]:
        lines = _text(self.path / "offsets" / str(batch_id)).splitlines()
        found = _json(lines[1]) if len(lines) > 1 else None
        return found if isinstance(found, dict) else {}

    def batch_positions(self, batch_id: int) -> Offsets:
        """The positions up to which a batch has read all of its Kafka sources; empty if they are unknown.

        The file has a version line, a line of metadata, then a line for each source.
        """
        positions: Offsets = {}
        for source in self.source_positions(batch_id):
            positions |= source
        return positions

    def source_positions(self, batch_id: int) -> list[Offsets]:
        """The same of each source; empty for one that is not Kafka's."""
        lines = _text(self.path / "offsets" / str(batch_id)).splitlines()[2:]
        return [parse_source_offset(line) for line in lines]

    @property
    def positions(self) -> Offsets:
        """The positions up to which the finished batches have read; empty if there is no finished batch."""
        last = self.last_finished_batch
        return {} if last is None else self.batch_positions(last)

    @property
    def properties(self) -> Mapping[str, str]:
        """The Spark properties that the query keeps for good, such as its number of shuffle partitions."""
        planned = self.planned_batches
        conf = self._batch_metadata(planned[-1]).get("conf") if planned else None
        return {str(key): str(value) for key, value in conf.items()} if isinstance(conf, dict) else {}


def parse_source_offset(text: str | None) -> Offsets:
    """The positions in a Kafka source's offset JSON, `{"topic": {"0": 12}}`; empty for any other text."""
    value = _json(text or "")
    try:
        return {
            str(topic): {int(partition): int(offset) for partition, offset in partitions.items()}
            for topic, partitions in value.items()
        }
    except (ValueError, TypeError, AttributeError):
        return {}


def _numbered(directory: Path) -> list[int]:
    try:
        return sorted(int(path.name) for path in directory.iterdir() if path.name.isdecimal())
    except OSError:
        return []


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
