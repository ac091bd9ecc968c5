"""Rows of a source through Connect's transforms and converters one by one, in Spark's Python processes.

What goes in are keys and values as JSON with its schema. What comes out are the records' bytes, without the
records that a transform drops, and FAILED for those that are refused.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from ottla.connect.converters.json_converter import JsonConverter
from ottla.connect.data.record import Record, SourceRecord
from ottla.connect.host.conversion import Conversion
from ottla.connect.host.errors import StageError, attempted
from ottla.connect.host.producing import ANY_PARTITION, NOW
from ottla.connect.plugins.catalog import installed_plugins
from ottla.connect.spark.rows import FAILED, RowSettings, failure_row
from ottla.pipeline.sink.dead_letters import ERROR_TYPE

if TYPE_CHECKING:
    import pyarrow as pa

OUTGOING: Final = (
    "topic STRING, key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, "
    f"partition INT, timestamp TIMESTAMP, {FAILED} {ERROR_TYPE}"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def produce_batches(settings: RowSettings, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function of mapInArrow."""
    import pyarrow as pa

    text = pa.string()
    header = pa.struct([("key", text), ("value", pa.binary())])
    failure = pa.struct([(name, text) for name in ("node", "stage", "exception", "message", "trace")])
    schema = pa.schema(
        [
            ("topic", text),
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("headers", pa.list_(header)),
            ("partition", pa.int32()),
            ("timestamp", pa.timestamp("us", "UTC")),
            (FAILED, failure),
        ]
    )
    rows = _Rows(settings)
    for batch in batches:
        made = [found for row in batch.to_pylist() if (found := rows.of(row)) is not None]
        yield pa.RecordBatch.from_pylist(made, schema=schema)


class _Rows:
    """The converters of one task of Spark's."""

    def __init__(self, settings: RowSettings) -> None:
        self._conversion = Conversion(installed_plugins(), settings.config, settings.worker)
        self._errors = settings.errors
        self._reader = JsonConverter()

    def of(self, row: dict[str, Any]) -> dict[str, Any] | None:
        """A row of the result, None for a record that is dropped."""
        topic = str(row["topic"])
        key_schema, key = self._reader.to_connect(topic, row["key"])
        schema, value = self._reader.to_connect(topic, row["value"])
        record = Record(topic, None, key, key_schema, value, schema)
        try:
            found = attempted(self._conversion.to_bytes, SourceRecord(record), self._errors, time.sleep)
        except StageError as failed:
            problem = failed.__cause__ or failed
            return {"topic": topic, FAILED: failure_row(failed.stage, failed.executing_class, problem)}
        if found is None:
            return None
        at = None if found.timestamp_ms == NOW else _EPOCH + timedelta(milliseconds=found.timestamp_ms)
        return {
            "topic": found.topic,
            "key": found.key,
            "value": found.value,
            "headers": [{"key": name, "value": data} for name, data in found.headers or ()],
            "partition": None if found.partition == ANY_PARTITION else found.partition,
            "timestamp": at,
            FAILED: None,
        }
