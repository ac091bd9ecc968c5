"""The offset of a source on Spark as Connect's offsets API has it: one partition, and how far it has read.

    {"query": NAME} -> {"logOffset": 3}        the source's own offset, where it is an object of simple values
    {"query": NAME} -> {"json": "[\\"a\\",1]"}    any other one, as the text of its JSON

Where a query goes on is in Spark's checkpoint alone. This is a copy of it, told after each batch; when
somebody has altered the copy, a checkpoint is begun from it (source_checkpoint.py).
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from ottla.config.errors import UserError
from ottla.connect.data.record import SourceOffset, SourcePartition
from ottla.connect.data.schema import DataError
from ottla.connect.host.clients import producer
from ottla.connect.host.messages import Start
from ottla.connect.host.offset_records import key_bytes, validate, value_bytes
from ottla.connect.host.offset_store import ensure_topic, offset_file, offset_of, offset_topics
from ottla.connect.host.producing import Outgoing, drain, produced
from ottla.connect.host.settings import OFFSETS_TOPIC, worker_settings

QUERY: Final = "query"
TELL_SECONDS: Final = 30.0
_JSON: Final = "json"

_log = logging.getLogger(__name__)


def query_partition(connector: str) -> SourcePartition:
    """The one source partition of a connector on Spark."""
    return {QUERY: connector}


def offset_of_json(text: str) -> SourceOffset:
    """A source's offset, of which Spark writes this JSON."""
    try:
        found = json.loads(text)
        if isinstance(found, dict) and found and found.keys() != {_JSON}:
            validate(found)
            return found
    except (ValueError, DataError):
        pass
    return {_JSON: text}


def json_of_offset(offset: SourceOffset) -> str:
    """The JSON that Spark reads as a source's offset. Raises DataError for an offset that is none."""
    if offset.keys() != {_JSON}:
        validate(offset)
        if not offset:
            raise DataError("The offset has no fields")
        return json.dumps(offset, separators=(",", ":"))
    text = offset[_JSON]
    try:
        json.loads(text if isinstance(text, str) else "")
    except ValueError as problem:
        raise DataError(f'"{_JSON}" is to be the text of a JSON value') from problem
    return str(text)


class TellingOffsets:
    """Tells how far a run's query has read, in the connector's offsets. Failures are logged: it is a copy."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self._partition = query_partition(start.run.connector)
        self._told = offset_of(list(start.offsets), self._partition)
        self._is_kept = offset_file(start) is not None or bool(start.worker.get(OFFSETS_TOPIC, "").strip())
        self._problems: list[KafkaError] = []
        self._producer: Any = None

    @property
    def given(self) -> SourceOffset | None:
        """The offset that was stored when the run began, or was told last."""
        return self._told

    def tell(self, offset: SourceOffset) -> None:
        """Store the offset, and wait until it is there."""
        if not self._is_kept or offset == self._told:
            return
        try:
            self._store(offset)
        except (UserError, DataError, KafkaException) as problem:
            _log.warning("the offset %s can't be told: %s", dict(offset), problem)
            return
        self._told = offset

    def _store(self, offset: SourceOffset) -> None:
        name = self._start.run.connector
        if (file := offset_file(self._start)) is not None:
            file.write(name, [(self._partition, offset)])
            return
        topic = offset_topics(self._start).own
        if self._producer is None:
            ensure_topic(self._start, topic, worker_settings(self._start))
            self._producer = producer(
                self._start,
                lambda problem, _: self._problems.append(problem),
                client_id=f"connector-offsets-{name}",
                of_worker=topic.of_worker,
            )
        self._problems.clear()
        row = Outgoing(topic.name, value_bytes(offset), key_bytes(name, self._partition))
        deadline = time.monotonic() + TELL_SECONDS
        produced(self._producer, row, lambda: time.monotonic() < deadline)
        drain(self._producer, seconds=TELL_SECONDS)
        if self._problems:
            raise KafkaException(self._problems[0])


def offset_in_log(data: bytes) -> str | None:
    """The JSON of the one source's offset in a file of a checkpoint's offsets/; None if it has none.

    The file: `v1`, a line of metadata, then a line for each source, `-` for one that has read nothing.
    """
    lines = data.decode("utf-8", "replace").splitlines()
    return lines[2] if len(lines) == 3 and lines[0] == "v1" and lines[2] != "-" else None


def metadata_in_log(data: bytes) -> Mapping[str, Any]:
    """The metadata of the same: watermark, time, and the settings that may not change."""
    lines = data.decode("utf-8", "replace").splitlines()
    try:
        found = json.loads(lines[1])
    except (IndexError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
