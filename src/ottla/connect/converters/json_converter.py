"""JsonConverter: JSON with its schema in each record, with one schema for all, or without one."""

from __future__ import annotations

import enum
import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from ottla.config.setting import HIGH, LOW, Table, boolean, choice, integer, string
from ottla.connect.converters.json_reading import (
    JsonReading,
    Read,
    has_decimal_defaults,
    has_decimals,
    plain_value,
)
from ottla.connect.converters.json_writing import JsonWriting, Write, plain_json
from ottla.connect.converters.settings import VERSION, table
from ottla.connect.data.caches import SchemaCache
from ottla.connect.data.json_text import NOT_WHOLE, is_plain, read_json, read_whole_json, write_json
from ottla.connect.data.schema import DataError, Schema
from ottla.connect.plugins.configuring import configured

MAX_CACHED_SCHEMAS: Final = 10_000


class DecimalFormat(enum.StrEnum):
    """How decimals are written."""

    BASE64 = "BASE64"
    NUMERIC = "NUMERIC"


SCHEMAS_ENABLE: Final = boolean(
    "schemas.enable", True, "Whether each record carries its schema.", importance=HIGH
)
SCHEMA_CONTENT: Final = string.optional(
    "schema.content",
    "The schema, as JSON, of all records that are read; those within the records are ignored then. Only with "
    "schemas.enable.",
    importance=HIGH,
)
SCHEMAS_CACHE_SIZE: Final = integer(
    "schemas.cache.size", 1000, "The number of schemas that are kept ready.", importance=HIGH
)
DECIMAL_FORMAT: Final = choice(DecimalFormat)(
    "decimal.format",
    DecimalFormat.BASE64,
    "How decimals are written: BASE64 of their bytes, or NUMERIC.",
    importance=LOW,
)
REPLACE_NULL_WITH_DEFAULT: Final = boolean(
    "replace.null.with.default",
    True,
    "Whether null is read and written as the default where the schema has one.",
    importance=LOW,
)
_ENVELOPE: Final = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional '
    "fields. If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter "
    "configuration."
)


class JsonConverter:
    """See Converter. One thread uses an object."""

    TABLE: ClassVar[Table] = table(
        "JSON converter",
        SCHEMAS_ENABLE,
        SCHEMA_CONTENT,
        SCHEMAS_CACHE_SIZE,
        DECIMAL_FORMAT,
        REPLACE_NULL_WITH_DEFAULT,
    )
    VERSION: ClassVar[str] = VERSION

    __slots__ = (
        "_content",
        "_limit",
        "_prefix",
        "_prefix_reader",
        "_reading",
        "_schemas",
        "_with_schemas",
        "_writers",
        "_writing",
    )

    def __init__(self) -> None:
        self.configure({}, False)

    def configure(self, properties: Mapping[str, str], is_key: bool) -> None:
        """See Converter."""
        settings = configured(self.TABLE, properties)
        replace = settings[REPLACE_NULL_WITH_DEFAULT]
        self._with_schemas = settings[SCHEMAS_ENABLE]
        self._limit = max(1, min(settings[SCHEMAS_CACHE_SIZE], MAX_CACHED_SCHEMAS))
        self._writing = JsonWriting(settings[DECIMAL_FORMAT] is DecimalFormat.NUMERIC, replace)
        self._reading = JsonReading(replace)
        self._writers: SchemaCache[tuple[bytes, Write]] = SchemaCache(self._writer, self._limit)
        self._schemas: OrderedDict[bytes, _Reader] = OrderedDict()
        self._prefix = b""
        self._prefix_reader = _Reader(None, plain_value)
        content = settings[SCHEMA_CONTENT]
        self._content: _Reader | None = None
        if content:
            self._content = self._reader(read_json(content.encode(), exact=True))

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """See Converter."""
        if schema is None:
            if value is None:
                return None
            text = plain_json(value)
            return b'{"schema":null,"payload":' + text + b"}" if self._with_schemas else text
        prefix, write = self._writers.get(schema)
        text = write_json(write(value))
        return prefix + text + b"}" if self._with_schemas else text

    def to_connect(self, topic: str, data: bytes | None) -> tuple[Any, Any]:
        """See Converter."""
        if data is None:
            return None, None
        if not self._with_schemas:
            node = read_json(data)
            return None, node if is_plain(data) else plain_value(node)
        if self._content is not None:
            return self._content.of(read_json(data, exact=self._content.exact))
        if self._prefix and data.startswith(self._prefix) and data.endswith(b"}"):
            reader = self._prefix_reader
            payload = read_whole_json(data[len(self._prefix) : -1], exact=reader.exact)
            if payload is not NOT_WHOLE:
                return reader.of(payload)
        return self._with_envelope(data)

    def _with_envelope(self, data: bytes) -> tuple[Any, Any]:
        envelope = read_json(data)
        if not isinstance(envelope, dict) or envelope.keys() != {"schema", "payload"}:
            raise DataError(_ENVELOPE)
        reader = self._reader(envelope["schema"])
        if reader.exact:
            envelope = read_json(data, exact=True)
        if reader.has_decimal_defaults:
            reader = self._reader(envelope["schema"])
        prefix = b'{"schema":' + _key_of(envelope["schema"]) + b',"payload":'
        if data.startswith(prefix):
            self._prefix, self._prefix_reader = prefix, reader
        return reader.of(envelope["payload"])

    def _reader(self, node: Any) -> _Reader:
        text = _key_of(node)
        kept = self._schemas.get(text)
        if kept is not None:
            self._schemas.move_to_end(text)
            return kept
        schema = self._reading.schema(node)
        if schema is None:
            made = _Reader(None, plain_value)
        else:
            read = self._reading.reader(schema)
            made = _Reader(
                schema, read, exact=has_decimals(schema), has_decimal_defaults=has_decimal_defaults(schema)
            )
        self._schemas[text] = made
        if len(self._schemas) > self._limit:
            self._schemas.popitem(last=False)
        return made

    def _writer(self, schema: Schema) -> tuple[bytes, Write]:
        text = write_json(self._writing.schema_json(schema)) if self._with_schemas else b"null"
        return b'{"schema":' + text + b',"payload":', self._writing.writer(schema)


class _Reader:
    """A schema and the function that reads its values. exact: decimals need all their digits.

    has_decimal_defaults: so do those that stand in the schema.
    """

    __slots__ = ("_read", "_schema", "exact", "has_decimal_defaults")

    def __init__(
        self, schema: Schema | None, read: Read, *, exact: bool = False, has_decimal_defaults: bool = False
    ) -> None:
        self._schema = schema
        self._read = read
        self.exact = exact
        self.has_decimal_defaults = has_decimal_defaults

    def of(self, node: Any) -> tuple[Schema | None, Any]:
        """The schema and the value of parsed JSON. Raises DataError."""
        return self._schema, self._read(node)


def _key_of(node: Any) -> bytes:
    """The compact JSON of a schema; one with numbers of more than 64 bits is no schema, but has a text."""
    try:
        return write_json(node)
    except DataError:
        # A decimal is no text, not even one of the same digits.
        return json.dumps(node, default=lambda number: {"number": str(number)}).encode()
