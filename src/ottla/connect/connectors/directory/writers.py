"""Files that are being written, one for each format."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

from ottla.connect.connectors.directory.formats import Format
from ottla.connect.connectors.plain import java_text, json_text, plain
from ottla.connect.data.record import Record
from ottla.connect.data.schema import DataError, Schema, Struct

GROUP_ROWS: Final = 10_000
BUFFER_BYTES: Final = 1 << 20


class Writer(Protocol):
    """Writes one file."""

    def takes(self, record: Record) -> bool:
        """Whether the record can be in this file; a file of columns has those of its first record."""

    def add(self, record: Record) -> None:
        """Write a record. Raises DataError, and has written nothing of it then; OSError."""

    def finish(self) -> None:
        """Write the rest, sync the file and close it. Raises OSError, DataError."""

    def abandon(self) -> None:
        """Close the file as it is, which is of no use any more."""


def open_writer(path: Path, kind: Format, first: Record) -> Writer:
    """A writer of a file that begins with a record. Raises DataError where it can't, OSError."""
    match kind:
        case Format.LINES | Format.JSON:
            return _Lines(path, kind)
        case Format.CSV:
            return _Csv(path, _csv_columns(first))
        case Format.PARQUET:
            return _Parquet(path, first.value_schema)


class _Lines:
    """Texts, or JSON values, a line each."""

    def __init__(self, path: Path, kind: Format) -> None:
        self._kind = kind
        self._file = path.open("xb", buffering=BUFFER_BYTES)

    def takes(self, record: Record) -> bool:
        return True

    def add(self, record: Record) -> None:
        value = record.value
        if self._kind is Format.JSON:
            text = json_text(value)
        else:
            text = value if isinstance(value, str) else java_text(value)
            if "\n" in text or "\r" in text:
                raise DataError("a text with an end of a line in it is not one line")
        self._file.write(f"{text}\n".encode("utf-8", "surrogatepass"))

    def finish(self) -> None:
        _sync_and_close(self._file)

    def abandon(self) -> None:
        _close_anyhow(self._file)


class _Csv:
    """Rows with a header; what is no text or number in a column is JSON."""

    def __init__(self, path: Path, columns: tuple[str, ...]) -> None:
        self._columns = columns
        self._file = path.open("xb", buffering=BUFFER_BYTES)
        self._write(columns)

    def takes(self, record: Record) -> bool:
        try:
            return _csv_columns(record) == self._columns
        except DataError:
            return True  # `add` refuses it

    def add(self, record: Record) -> None:
        _csv_columns(record)
        values = plain(record.value)
        self._write([values[name] for name in self._columns])

    def finish(self) -> None:
        _sync_and_close(self._file)

    def abandon(self) -> None:
        _close_anyhow(self._file)

    def _write(self, values: Any) -> None:
        row = ",".join(map(_csv_cell, values)) or '""'  # a line without anything would be no row
        self._file.write(f"{row}\n".encode("utf-8", "surrogatepass"))


class _Parquet:
    """Columns by the schema of the first record; row groups of GROUP_ROWS."""

    def __init__(self, path: Path, schema: Schema | None) -> None:
        import pyarrow.parquet as arrow_parquet

        from ottla.connect.connectors.directory.arrow import arrow_schema, arrow_value

        if schema is None:
            raise DataError("columns are written of structs alone, that is of values with a schema")
        self._schema = schema
        self._columns = arrow_schema(schema)
        self._value = arrow_value
        self._path = path
        self._writer = arrow_parquet.ParquetWriter(path, self._columns)
        self._rows: list[Any] = []

    def takes(self, record: Record) -> bool:
        return record.value_schema == self._schema or record.value_schema is None

    def add(self, record: Record) -> None:
        import pyarrow as pa

        if not isinstance(record.value, Struct):
            raise DataError("columns are written of structs alone, that is of values with a schema")
        row = self._value(self._schema, record.value)
        try:  # alone, so that a value which does not fit is found with its record
            pa.RecordBatch.from_pylist([row], schema=self._columns)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as problem:
            raise DataError(str(problem)) from None
        self._rows.append(row)
        if len(self._rows) >= GROUP_ROWS:
            self._write_group()

    def finish(self) -> None:
        if self._rows:
            self._write_group()
        self._writer.close()
        with self._path.open("rb") as file:
            os.fsync(file.fileno())

    def abandon(self) -> None:
        with contextlib.suppress(OSError):
            self._writer.close()

    def _write_group(self) -> None:
        import pyarrow as pa

        self._writer.write_table(pa.Table.from_pylist(self._rows, schema=self._columns))
        self._rows = []


def _csv_columns(record: Record) -> tuple[str, ...]:
    match record.value:
        case Struct():
            return tuple(each.name for each in record.value.schema.fields)
        case Mapping():
            return tuple(record.value)
    raise DataError("rows are written of structs and objects alone")


def _csv_cell(value: Any) -> str:
    """A cell: texts in quotes, so that an empty one is not a null, which is nothing at all."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
    text = value if isinstance(value, str) else json_text(value)
    return '"' + text.replace('"', '""') + '"'


def _sync_and_close(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
    file.close()


def _close_anyhow(file: BinaryIO) -> None:
    """Close a file even when the disk has no room for what is left in its buffer."""
    with contextlib.suppress(OSError):
        file.close()
