"""The sink as a Python Data Source, `ottla-kafka`: the classes that Spark makes and sends to its workers.

A module of its own because it imports pyspark: `write_exactly_once` imports it when it is called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyspark.sql.datasource
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from ottla.pipeline.sink.exactly_once_settings import (
    FORMAT,
    SinkSettings,
    check_columns,
    settings_from_options,
)
from ottla.pipeline.sink.exactly_once_writer import write_here

if TYPE_CHECKING:
    import pyarrow as pa


class _BatchWriter(DataSourceArrowWriter):
    """Writes the tasks of one batch, for foreachBatch."""

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        write_here(self._settings, iterator)
        return WriterCommitMessage()


def _stream_writer_bases() -> tuple[type, ...]:
    """The base classes of a streaming writer of Arrow batches: one class since Spark 4.1, before that two."""
    own = getattr(pyspark.sql.datasource, "DataSourceStreamArrowWriter", None)
    return (own,) if own is not None else (DataSourceStreamWriter, DataSourceArrowWriter)


class ExactlyOnceKafka(DataSource):
    """The data source that writes rows into Kafka, each exactly once."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._settings = settings_from_options(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        check_columns(schema, self._settings)
        return _BatchWriter(self._settings)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        check_columns(schema, self._settings)
        return _new_stream_writer(self._settings)


class _StreamWriterBody:
    """The methods of the stream writer, for any base classes. The driver has nothing to commit or abort."""

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        write_here(self._settings, iterator)
        return WriterCommitMessage()

    def commit(self, messages: list[Any], batchId: int) -> None:
        return None

    def abort(self, messages: list[Any], batchId: int) -> None:
        return None


StreamWriter: Any = type(
    "StreamWriter", (_StreamWriterBody, *_stream_writer_bases()), {"__module__": __name__}
)


def _new_stream_writer(settings: SinkSettings) -> DataSourceStreamWriter:
    writer: DataSourceStreamWriter = StreamWriter(settings)
    return writer
