"""A source's records as rows, and rows as records, in Python: the counterpart of lowering/formats.py.

A row is a dictionary of the source's columns by name, with ROWTIME, ROWPARTITION and ROWOFFSET, and of
windowed sources WINDOWSTART and WINDOWEND. What a topic has that does not fit its columns raises BadRecord.
"""

from __future__ import annotations

import csv
import io
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ottla.connect.data.schema import DataError
from ottla.sql.catalog.sources import Column, Source
from ottla.sql.functions import java_times
from ottla.sql.language.errors import SqlError
from ottla.sql.language.statements import Role, WindowKind
from ottla.sql.lowering.registry_values import NO_REGISTRY, REGISTRY_FORMATS, RegistryForm
from ottla.sql.rows.json_values import from_json, has_decimals, json_text, parsed, to_topic
from ottla.sql.types.bad_value import BadValue
from ottla.sql.types.sql_types import Base

Row = dict[str, Any]
Headers = Sequence[tuple[str, bytes | None]]
Read = Callable[[bytes], Mapping[str, Any]]
Write = Callable[[Mapping[str, Any]], bytes | None]

_TIME_BYTES: Final = 8
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_NUMBERS: Final = {
    Base.INTEGER: struct.Struct(">i"),
    Base.BIGINT: struct.Struct(">q"),
    Base.DOUBLE: struct.Struct(">d"),
}


_BAD: Final = (BadValue, DataError, UnicodeDecodeError, struct.error, csv.Error, OverflowError)
"""What the formats raise for bytes of other formats."""


class BadRecord(ValueError):
    """A record that is no row of its source."""


@dataclass(frozen=True, slots=True)
class KafkaRecord:
    """A record as it comes from a topic."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class WindowBounds:
    """A window of a key, in milliseconds; end exclusive for time windows."""

    start_ms: int
    end_ms: int


class RowCodec:
    """Reads and writes the records of one source. registry: settings of its client, None without one."""

    def __init__(self, source: Source, registry: Mapping[str, str] | None = None) -> None:
        """Raises SqlError for formats that can't be had."""
        self.source = source
        keys, values = source.keys, source.values
        wrapped = not (source.value_format == "KAFKA" or (len(values) == 1 and not source.wrap_single_value))
        key = _form(source, source.key_format, keys, len(keys) > 1, True, registry)
        value = _form(source, source.value_format, values, wrapped, False, registry)
        self._read_key, self._write_key = key
        self._read_value, self._write_value = value
        self.asks_registry = bool({source.key_format, source.value_format} & REGISTRY_FORMATS.keys())
        """Whether its methods may wait for a Schema Registry."""
        self._time = None if source.timestamp is None else source.column(source.timestamp)
        self._headers = [each for each in source.columns if each.role is Role.HEADERS]
        self._key_names = [each.name for each in keys]
        self._value_names = [each.name for each in values]

    def row(self, record: KafkaRecord) -> Row | None:
        """The row of a record; None for one that is none (a stream's without a value). Raises BadRecord.

        A table's deleted row has its key, and None in all other columns.
        """
        source = self.source
        if record.value is None and not source.is_table and self._value_names:
            return None
        if source.is_table and record.key is None:
            return None
        row: Row = {}
        try:
            key, bounds = self.parted(record.key)
            if key is None:
                row |= dict.fromkeys(self._key_names)
            else:
                row |= self._read_key(key)
            if bounds is not None:
                row["WINDOWSTART"], row["WINDOWEND"] = bounds.start_ms, bounds.end_ms
            if record.value is None:
                row |= dict.fromkeys(self._value_names)
            else:
                row |= self._read_value(record.value)
            row["ROWTIME"] = self._time_ms(row, record.timestamp_ms, is_deleted=record.value is None)
        except _BAD as problem:
            raise BadRecord(
                f"{source.topic}-{record.partition} at offset {record.offset} is no row of {source.name}: "
                f"{problem}"
            ) from None
        for each in self._headers:
            row[each.name] = _header(each, record.headers)
        row["ROWPARTITION"], row["ROWOFFSET"] = record.partition, record.offset
        return row

    def stored_row(self, key: bytes, value: bytes, timestamp_ms: int) -> Row:
        """A row of a table's view: its key without the window, its value. Raises BadRecord."""
        try:
            row: Row = {**self._read_key(key), **self._read_value(value)}
            row["ROWTIME"] = self._time_ms(row, timestamp_ms, is_deleted=False)
        except _BAD as problem:
            raise BadRecord(
                f"a record of {self.source.topic} is no row of {self.source.name}: {problem}"
            ) from None
        for each in self._headers:
            row[each.name] = None  # views keep none
        row["ROWPARTITION"] = row["ROWOFFSET"] = None
        return row

    def _time_ms(self, row: Row, record_ms: int, *, is_deleted: bool) -> int:
        """A row's time: of the column that the source names for it, else the record's. Raises BadValue."""
        column = self._time
        if column is None or (is_deleted and column.role is Role.VALUE):
            return record_ms
        told = row[column.name]
        if told is None:
            raise BadValue(f"{column.name} is NULL: the record has no time")
        if column.type.base is not Base.STRING:
            return int(told)
        try:
            time = java_times.parsed(told, self.source.timestamp_format or "")
        except ValueError as problem:
            raise BadValue(str(problem)) from None
        return (time - _EPOCH) // _MILLISECOND

    def check_key(self, key: bytes) -> None:
        """Raises BadRecord for bytes that are no key, without a window, of the source's."""
        self._checked(self._read_key, key)

    def check_value(self, value: bytes) -> None:
        """Raises BadRecord for bytes that are no value of the source's."""
        self._checked(self._read_value, value)

    def _checked(self, read: Read, data: bytes) -> None:
        try:
            read(data)
        except _BAD as problem:
            raise BadRecord(str(problem)) from None

    def parted(self, key: bytes | None) -> tuple[bytes | None, WindowBounds | None]:
        """A key without its window, and the window. Raises BadValue."""
        windowed = self.source.windowed
        if windowed is None or key is None:
            return key, None
        is_session = windowed.kind is WindowKind.SESSION
        size = 2 * _TIME_BYTES if is_session else _TIME_BYTES
        if len(key) < size:
            raise BadValue(f"a windowed key has at least {size} bytes of times")
        start = int.from_bytes(key[-_TIME_BYTES:], "big", signed=True)
        if is_session:
            end = int.from_bytes(key[-2 * _TIME_BYTES : -_TIME_BYTES], "big", signed=True)
        else:
            end = start + (windowed.size_ms or 0)
        return key[:-size], WindowBounds(start, end)

    def key_bytes(self, values: Mapping[str, Any]) -> bytes | None:
        """The key of a row, without a window."""
        if all(values.get(name) is None for name in self._key_names):
            return None
        return self._write_key(values)

    def value_bytes(self, values: Mapping[str, Any]) -> bytes | None:
        """The value of a row; None for a table's row that is deleted."""
        if self.source.is_table and all(values.get(name) is None for name in self._value_names):
            return None
        return self._write_value(values)


def _form(
    source: Source,
    name: str,
    columns: Sequence[Column],
    is_struct: bool,
    is_key: bool,
    registry: Mapping[str, str] | None,
) -> tuple[Read, Write]:
    if not columns or name == "NONE":
        return (lambda data: {}), (lambda values: None)
    match name:
        case "KAFKA":
            return _kafka(columns[0])
        case "JSON":
            return _json_struct(columns, is_key) if is_struct else _json_value(columns[0])
        case "DELIMITED":
            return _delimited(columns, source.value_delimiter)
    if name in REGISTRY_FORMATS or name == NO_REGISTRY:
        if registry is None and name != NO_REGISTRY:
            raise SqlError(
                f"{source.name}: {name} needs a Schema Registry", None, "set ksql.schema.registry.url"
            )
        form = RegistryForm(source.topic, name, columns, is_struct, is_key, registry or {})
        return form.read, form.write
    raise SqlError(f"{source.name}: there is no format {name}", None)


def _kafka(column: Column) -> tuple[Read, Write]:
    name, number = column.name, _NUMBERS.get(column.type.base)
    if number is not None:
        size = number.size

        def read(data: bytes) -> Mapping[str, Any]:
            if len(data) != size:
                raise BadValue(f"{len(data)} bytes are no {column.type}")
            return {name: number.unpack(data)[0]}

        return read, lambda values: None if values.get(name) is None else number.pack(values[name])
    if column.type.base is Base.BYTES:
        return (lambda data: {name: data}), (lambda values: values.get(name))
    return (
        lambda data: {name: data.decode()},
        lambda values: None if values.get(name) is None else str(values[name]).encode(),
    )


def _json_struct(columns: Sequence[Column], is_key: bool) -> tuple[Read, Write]:
    exact = any(has_decimals(each.type) for each in columns)
    readers = [(each.name, each.name.lower(), from_json(each.type)) for each in columns]
    writers = [(each.name, to_topic(each.type)) for each in columns]

    def read(data: bytes) -> Mapping[str, Any]:
        found = parsed(data, exact)
        if found is None:
            return dict.fromkeys(name for name, _, _ in readers)
        if not isinstance(found, dict):
            raise BadValue("its JSON is no object")
        get = found.get
        if is_key:
            return {name: convert(get(name)) for name, _, convert in readers}
        return {
            name: convert(found[name] if name in found else get(lower)) for name, lower, convert in readers
        }

    def write(values: Mapping[str, Any]) -> bytes:
        # As Spark writes it: what is NULL is left out.
        return json_text(
            {name: convert(values[name]) for name, convert in writers if values.get(name) is not None}
        )

    return read, write


def _json_value(column: Column) -> tuple[Read, Write]:
    exact, convert, back = has_decimals(column.type), from_json(column.type), to_topic(column.type)
    name = column.name
    return (
        lambda data: {name: convert(parsed(data, exact))},
        lambda values: None if values.get(name) is None else json_text(back(values[name])),
    )


def _delimited(columns: Sequence[Column], delimiter: str) -> tuple[Read, Write]:
    readers = [(each.name, from_json(each.type), each.type) for each in columns]

    def read(data: bytes) -> Mapping[str, Any]:
        lines = list(csv.reader(io.StringIO(data.decode()), delimiter=delimiter))
        cells = lines[0] if lines else []
        if len(lines) > 1 or len(cells) != len(readers):
            raise BadValue(f"the text is not {len(readers)} columns")
        return {
            name: None if cell == "" else convert(_cell(cell, of.base))
            for (name, convert, of), cell in zip(readers, cells, strict=True)
        }

    def write(values: Mapping[str, Any]) -> bytes:
        text = io.StringIO()
        cells = [_delimited_text(values.get(name)) for name, _, _ in readers]
        csv.writer(text, delimiter=delimiter, lineterminator="").writerow(cells)
        return text.getvalue().encode()

    return read, write


def _cell(text: str, base: Base) -> Any:
    try:
        match base:
            case Base.STRING | Base.BYTES | Base.DECIMAL:
                return text
            case Base.BOOLEAN:
                return {"true": True, "false": False}[text.lower()]
            case Base.DOUBLE:
                return float(text)
            case _:
                return int(text)
    except (ValueError, KeyError):
        raise BadValue(f"{text!r:.80} is no {base.value}") from None


def _delimited_text(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case bytes():
            import base64

            return base64.b64encode(value).decode()
    return str(value)


def _header(column: Column, headers: Headers) -> Any:
    if column.header is None:
        return [{"KEY": name, "VALUE": value} for name, value in headers]
    found = None
    for name, value in headers:
        if name == column.header:
            found = value
    return found
