"""Records through Connect's converters and transforms one by one, in Spark's Python processes.

What goes in are Kafka's columns, and FAILED for records that have failed already. What comes out are the
same columns without the records that a transform drops: the topic as transforms made it, key and value as
JSON with its schema (null for a tombstone), and FAILED for records that a converter or a transform refuses.
What may come right (a registry that is away) is attempted again here, in the task of Spark's that has met it,
for as long as errors.retry.timeout says.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from ottla.connect.converters.json_converter import JsonConverter
from ottla.connect.data.record import Record
from ottla.connect.host.conversion import Conversion
from ottla.connect.host.errors import SINK_TASK, Stage, StageError, attempted, java_class_name, stack_trace
from ottla.connect.host.settings import ErrorSettings
from ottla.connect.plugins.catalog import installed_plugins
from ottla.connect.spark.sink import KEY, OFFSET, PARTITION, TIMESTAMP, TOPIC, VALUE
from ottla.pipeline.sink.dead_letters import MAX_MESSAGE_CHARACTERS, MAX_TRACE_CHARACTERS

if TYPE_CHECKING:
    import pyarrow as pa

FAILED: Final = "failed"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_REPLACE_NULL: Final = "replace.null.with.default"


@dataclass(frozen=True, slots=True)
class RowSettings:
    """What a process needs to convert records: the connector's configuration, and the worker's.

    errors: how long what may come right is attempted again.
    """

    config: Mapping[str, str]
    worker: Mapping[str, str]
    errors: ErrorSettings


@dataclass(frozen=True, slots=True)
class _Consumed:
    """A record as a consumer's client gives it, of which `Conversion` reads these."""

    row: Mapping[str, Any]

    def topic(self) -> str:
        return str(self.row[TOPIC])

    def partition(self) -> int:
        return int(self.row[PARTITION])

    def offset(self) -> int:
        return int(self.row[OFFSET])

    def key(self) -> bytes | None:
        found: bytes | None = self.row[KEY]
        return found

    def value(self) -> bytes | None:
        found: bytes | None = self.row[VALUE]
        return found

    def headers(self) -> list[tuple[str, bytes | None]]:
        return [(each["key"], each["value"]) for each in self.row["headers"] or ()]

    def timestamp(self) -> tuple[int, int]:
        """The type (0: there is no time) and the milliseconds."""
        found = self.row[TIMESTAMP]
        millis = -1 if found is None else (found - _EPOCH) // _MILLISECOND
        return (0 if millis < 0 else 1), millis


def convert_batches(settings: RowSettings, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function of mapInArrow."""
    import pyarrow as pa

    rows = _Rows(settings)
    for batch in batches:
        made = [found for row in batch.to_pylist() if (found := rows.of(row)) is not None]
        yield pa.RecordBatch.from_pylist(made, schema=batch.schema)


class _Rows:
    """The converters of one task of Spark's."""

    def __init__(self, settings: RowSettings) -> None:
        self._conversion = Conversion(installed_plugins(), settings.config, settings.worker)
        self._errors = settings.errors
        self._writers = {KEY: self._writer(KEY), VALUE: self._writer(VALUE)}

    def _writer(self, side: str) -> JsonConverter:
        chosen = self._conversion.key if side == KEY else self._conversion.value
        made = JsonConverter()
        properties = {"schemas.enable": "true"}
        if _REPLACE_NULL in chosen.properties:
            properties[_REPLACE_NULL] = chosen.properties[_REPLACE_NULL]
        made.configure(properties, side == KEY)
        return made

    def of(self, row: dict[str, Any]) -> dict[str, Any] | None:
        """A row of the result, None for a record that is dropped."""
        if row[FAILED] is not None:
            return row
        message: Any = _Consumed(row)
        try:
            found = attempted(self._conversion.to_record, message, self._errors, time.sleep)
        except StageError as failed:
            return row | {
                FAILED: failure_row(failed.stage, failed.executing_class, failed.__cause__ or failed)
            }
        if found is None:
            return None
        try:
            return row | self._written(found.record)
        except Exception as problem:
            return row | {FAILED: failure_row(Stage.TASK_PUT, SINK_TASK, problem)}

    def _written(self, record: Record) -> dict[str, Any]:
        millis = record.timestamp_ms
        return {
            TOPIC: record.topic,
            TIMESTAMP: None if millis is None else _EPOCH + millis * _MILLISECOND,
            KEY: self._writers[KEY].from_connect(record.topic, record.key_schema, record.key),
            VALUE: self._writers[VALUE].from_connect(record.topic, record.value_schema, record.value),
        }


def failure_row(stage: Stage, class_name: str, problem: BaseException) -> dict[str, str]:
    """Why a record is refused (ERROR_TYPE)."""
    return {
        "node": class_name,
        "stage": stage.value,
        "exception": java_class_name(problem),
        "message": str(problem)[:MAX_MESSAGE_CHARACTERS],
        "trace": stack_trace(problem)[:MAX_TRACE_CHARACTERS],
    }
