"""CREATE STREAM and TABLE over a topic: columns, formats, and the other properties of WITH."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ottla.sql.catalog.sources import PSEUDO_COLUMNS, WINDOW_COLUMNS, Catalog, Column, Source, WindowedKeys
from ottla.sql.language.errors import Position, SqlError
from ottla.sql.language.statements import (
    ColumnText,
    CreateSource,
    Properties,
    Role,
    SourceKind,
    WindowKind,
)
from ottla.sql.types.sql_types import BIGINT, BYTES, STRING, TIMESTAMP, Base, SqlType, array, struct, type_of

FORMATS = ("JSON", "JSON_SR", "AVRO", "PROTOBUF", "PROTOBUF_NOSR", "DELIMITED", "KAFKA", "NONE")
REGISTRY_FORMATS = ("JSON_SR", "AVRO", "PROTOBUF")
ALL_HEADERS = array(struct(("KEY", STRING), ("VALUE", BYTES)))
_KAFKA_TYPES = (Base.INTEGER, Base.BIGINT, Base.DOUBLE, Base.STRING, Base.BYTES)
_DELIMITERS = {"SPACE": " ", "TAB": "\t"}
_KEYED_WINDOWS = ("TUMBLING", "HOPPING", "SESSION")
"""What keys in topics have: those of CUMULATE are written as sessions are."""
_UNITS_MS = {"MILLISECOND": 1, "SECOND": 1000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}

_PROPERTIES: Mapping[str, type] = {
    "KAFKA_TOPIC": str,
    "KEY_FORMAT": str,
    "VALUE_FORMAT": str,
    "FORMAT": str,
    "PARTITIONS": int,
    "REPLICAS": int,
    "RETENTION_MS": int,
    "TIMESTAMP": str,
    "TIMESTAMP_FORMAT": str,
    "WRAP_SINGLE_VALUE": bool,
    "VALUE_DELIMITER": str,
    "KEY_DELIMITER": str,
    "VALUE_AVRO_SCHEMA_FULL_NAME": str,
    "KEY_SCHEMA_ID": int,
    "VALUE_SCHEMA_ID": int,
    "KEY_SCHEMA_FULL_NAME": str,
    "VALUE_SCHEMA_FULL_NAME": str,
    "VALUE_PROTOBUF_NULLABLE_REPRESENTATION": str,
    "KEY_PROTOBUF_NULLABLE_REPRESENTATION": str,
    "WINDOW_TYPE": str,
    "WINDOW_SIZE": str,
    "CLEANUP_POLICY": str,
}


@dataclass(frozen=True, slots=True)
class Given:
    """WITH's properties, checked."""

    properties: Properties
    at: Position

    def text(self, name: str) -> str | None:
        found = self.properties.get(name)
        return None if found is None else str(found.value)

    def number(self, name: str) -> int | None:
        found = self.properties.get(name)
        return None if found is None or not isinstance(found.value, int) else found.value

    def place(self, name: str) -> Position:
        found = self.properties.get(name)
        return self.at if found is None else found.at

    def format(self, name: str, default: str) -> str:
        """A format's name. Raises SqlError."""
        found = self.text(name) or self.text("FORMAT")
        if found is None:
            return default
        if found.upper() not in FORMATS:
            close = difflib.get_close_matches(found.upper(), FORMATS, 1)
            raise SqlError(
                f"there is no format {found}",
                self.place(name if name in self.properties else "FORMAT"),
                f"is {close[0]} meant?" if close else "the formats: " + ", ".join(FORMATS),
            )
        return found.upper()


def given(properties: Properties, at: Position) -> Given:
    """WITH's properties, if their names and types are known ones. Raises SqlError."""
    for name, each in properties.items():
        wanted = _PROPERTIES.get(name)
        if wanted is None:
            close = difflib.get_close_matches(name, _PROPERTIES, 1)
            advice = f"is {close[0]} meant?" if close else "the properties: " + ", ".join(_PROPERTIES)
            raise SqlError(f"there is no property {name}", each.at, advice)
        if not isinstance(each.value, wanted) or (wanted is int and isinstance(each.value, bool)):
            kind = {str: "a text in quotes", int: "a whole number", bool: "true or false"}[wanted]
            raise SqlError(f"{name} is {kind}", each.at)
        if name in ("PARTITIONS", "REPLICAS") and isinstance(each.value, int) and each.value < 1:
            raise SqlError(f"{name} is at least 1", each.at)
    return Given(properties, at)


def source_of(statement: CreateSource, catalog: Catalog) -> Source:
    """The stream or table that CREATE makes over a topic. Raises SqlError."""
    found = given(statement.properties, statement.at)
    topic = found.text("KAFKA_TOPIC")
    if topic is None:
        raise SqlError("WITH needs the topic", statement.at, "WITH (KAFKA_TOPIC = 'name', …)")
    columns = bound_columns(statement.columns, statement.kind, catalog)
    value_format = found.format("VALUE_FORMAT", "")
    if not value_format:
        raise SqlError("WITH needs the format of values", statement.at, "VALUE_FORMAT = 'JSON'")
    if not columns and value_format not in REGISTRY_FORMATS:
        raise SqlError(
            f"{value_format} has no schema to take the columns from",
            statement.at,
            "list them: (ID INT KEY, NAME STRING)",
        )
    source = Source(
        statement.name,
        statement.kind,
        columns,
        topic,
        found.format("KEY_FORMAT", "KAFKA"),
        value_format,
        read_only=statement.source,
        windowed=_windowed(found),
    )
    source = with_properties(source, found)
    if columns and statement.kind is SourceKind.TABLE and not source.keys:
        raise SqlError(
            "a table needs a primary key", statement.at, "a column with PRIMARY KEY: ID INT PRIMARY KEY"
        )
    check_formats(source, found)
    return source


def with_properties(source: Source, found: Given) -> Source:
    """The source with the properties that are given beside topic and formats. Raises SqlError."""
    wrap = found.properties.get("WRAP_SINGLE_VALUE")
    source = replace(
        source,
        partitions=found.number("PARTITIONS") or source.partitions,
        replicas=found.number("REPLICAS") or source.replicas,
        retention_ms=found.number("RETENTION_MS") or source.retention_ms,
        wrap_single_value=bool(wrap.value) if wrap is not None else source.wrap_single_value,
        value_delimiter=_delimiter(found),
        key_schema_id=found.number("KEY_SCHEMA_ID"),
        value_schema_id=found.number("VALUE_SCHEMA_ID"),
    )
    name = found.text("TIMESTAMP")
    if name is None:
        if "TIMESTAMP_FORMAT" in found.properties:
            raise SqlError("TIMESTAMP_FORMAT is for a TIMESTAMP column", found.place("TIMESTAMP_FORMAT"))
        return source
    column = source.column(name.strip("`") if name.startswith("`") else name.upper())
    if column is None:
        raise SqlError(f"there is no column {name} for TIMESTAMP", found.place("TIMESTAMP"))
    pattern = found.text("TIMESTAMP_FORMAT")
    if column.type not in (BIGINT, TIMESTAMP, STRING) or (column.type == STRING) is not (pattern is not None):
        raise SqlError(
            f"TIMESTAMP's column is {column.type}" + (" with a format" if pattern else ""),
            found.place("TIMESTAMP"),
            "a BIGINT or TIMESTAMP without TIMESTAMP_FORMAT, or a STRING with one",
        )
    return replace(source, timestamp=column.name, timestamp_format=pattern)


def bound_columns(texts: tuple[ColumnText, ...], kind: SourceKind, catalog: Catalog) -> tuple[Column, ...]:
    """Columns with their types. Raises SqlError."""
    columns: list[Column] = []
    for text in texts:
        of = type_of(text.type, dict(catalog.types))
        _check_column(text, kind, of)
        if any(each.name == text.name for each in columns):
            raise SqlError(f"two columns are named {text.name}", text.at)
        columns.append(Column(text.name, of, text.role, text.header))
    return tuple(columns)


def _check_column(text: ColumnText, kind: SourceKind, of: SqlType) -> None:
    if text.name in PSEUDO_COLUMNS or text.name in WINDOW_COLUMNS:
        raise SqlError(f"{text.name} is a name of the system's", text.at, "choose another one")
    wrong = Role.KEY if kind is SourceKind.TABLE else Role.PRIMARY_KEY
    if text.role is wrong:
        right = "PRIMARY KEY" if kind is SourceKind.TABLE else "KEY"
        raise SqlError(f"a {kind.value.lower()}'s key is {right}", text.at, f"{text.name} {of} {right}")
    if text.role is Role.HEADERS:
        wanted = ALL_HEADERS if text.header is None else BYTES
        if of != wanted:
            raise SqlError(f"{text.name} is of headers: its type is {wanted}", text.at)
    if text.role in (Role.KEY, Role.PRIMARY_KEY) and of.base is Base.MAP:
        raise SqlError("a key can't be a MAP", text.at)


def check_formats(source: Source, found: Given) -> None:
    """Whether the formats can say the columns. Raises SqlError."""
    if source.value_format.startswith("PROTOBUF") and not source.wrap_single_value:
        raise SqlError(
            f"{source.value_format} has messages alone: a single value is wrapped",
            found.place("WRAP_SINGLE_VALUE"),
            "leave WRAP_SINGLE_VALUE out",
        )
    for name, of_format, columns in (
        ("KEY_FORMAT", source.key_format, source.keys),
        ("VALUE_FORMAT", source.value_format, source.values),
    ):
        at = found.place(name if name in found.properties else "FORMAT")
        if of_format == "NONE" and columns:
            raise SqlError(f"{name} NONE is without columns, there is {columns[0].name}", at)
        if of_format == "KAFKA" and len(columns) > 1:
            raise SqlError(f"KAFKA holds one column, there are {len(columns)}", at, f"{name} = 'JSON'")
        for each in columns:
            if of_format == "KAFKA" and each.type.base not in _KAFKA_TYPES:
                raise SqlError(f"KAFKA does not hold {each.type}: {each.name}", at, f"{name} = 'JSON'")
            if of_format == "DELIMITED" and each.type.base in (Base.ARRAY, Base.MAP, Base.STRUCT):
                raise SqlError(f"DELIMITED does not hold {each.type}: {each.name}", at, f"{name} = 'JSON'")
            if each.type.base is Base.MAP and each.type.elements[0] != STRING and of_format != "NONE":
                raise SqlError(f"a map's keys are STRING in topics: {each.name} is {each.type}", at)


def _windowed(found: Given) -> WindowedKeys | None:
    kind, size = found.text("WINDOW_TYPE"), found.text("WINDOW_SIZE")
    if kind is None:
        if size is not None:
            raise SqlError("WINDOW_SIZE is for a WINDOW_TYPE", found.place("WINDOW_SIZE"))
        return None
    if kind.upper() not in _KEYED_WINDOWS:
        raise SqlError(
            f"there are no windows {kind}", found.place("WINDOW_TYPE"), "TUMBLING, HOPPING or SESSION"
        )
    which = WindowKind[kind.upper()]
    if which is WindowKind.SESSION:
        return WindowedKeys(which)
    words = (size or "").upper().split()
    if len(words) != 2 or not words[0].isdigit() or words[1].removesuffix("S") not in _UNITS_MS:
        raise SqlError(
            "WINDOW_SIZE is a number and a unit", found.place("WINDOW_SIZE"), "WINDOW_SIZE = '1 HOUR'"
        )
    return WindowedKeys(which, int(words[0]) * _UNITS_MS[words[1].removesuffix("S")])


def _delimiter(found: Given) -> str:
    text = found.text("VALUE_DELIMITER")
    if text is None:
        return ","
    delimiter = _DELIMITERS.get(text.upper(), text)
    if len(delimiter) != 1:
        raise SqlError("VALUE_DELIMITER is one character, SPACE or TAB", found.place("VALUE_DELIMITER"))
    return delimiter
