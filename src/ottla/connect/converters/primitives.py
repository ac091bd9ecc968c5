"""Converters of single values, in the encodings of Kafka's serializers: texts, bytes, booleans, numbers."""

from __future__ import annotations

import codecs
import struct
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from ottla.config.errors import ConfigError
from ottla.config.setting import HIGH, Table, string
from ottla.connect.converters.settings import VERSION, table
from ottla.connect.data.building import OPTIONAL
from ottla.connect.data.checking import BITS, java_class
from ottla.connect.data.java_text import float32, value_text
from ottla.connect.data.schema import DataError, Schema, Type
from ottla.connect.plugins.configuring import configured

ENCODING: Final = string(
    "converter.encoding",
    "UTF-8",
    "The name of the character set in which strings are written as bytes.",
    importance=HIGH,
)


class StringConverter:
    """Texts in an encoding; other values are written as String.valueOf writes them."""

    TABLE: ClassVar[Table] = table("string converter", ENCODING)
    VERSION: ClassVar[str] = VERSION

    def __init__(self) -> None:
        self._encoding = "utf-8"

    def configure(self, properties: Mapping[str, str], is_key: bool) -> None:
        """See Converter."""
        encoding = configured(self.TABLE, properties)[ENCODING]
        try:
            self._encoding = codecs.lookup(encoding).name
            "".encode(self._encoding)
        except LookupError:
            raise ConfigError(
                f"Invalid value {encoding} for configuration {ENCODING.name}: Unsupported encoding {encoding}"
            ) from None

    def to_connect(self, topic: str, data: bytes | None) -> tuple[Any, Any]:
        """See Converter."""
        return OPTIONAL[Type.STRING], None if data is None else data.decode(self._encoding, "replace")

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """See Converter."""
        if value is None:
            return None
        text = value if type(value) is str else value_text(value, schema)
        return text.encode(self._encoding, "replace")


class ByteArrayConverter:
    """Bytes as they are."""

    TABLE: ClassVar[Table] = table("byte array converter")
    VERSION: ClassVar[str] = VERSION

    def configure(self, properties: Mapping[str, str], is_key: bool) -> None:
        """See Converter."""
        configured(self.TABLE, properties)

    def to_connect(self, topic: str, data: bytes | None) -> tuple[Any, Any]:
        """See Converter."""
        return OPTIONAL[Type.BYTES], data

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """See Converter."""
        if schema is not None and schema.type is not Type.BYTES:
            raise DataError(f"Invalid schema type for ByteArrayConverter: {schema.type.name}")
        if value is not None and not isinstance(value, bytes):
            raise DataError(
                f"ByteArrayConverter is not compatible with objects of type class {java_class(value, schema)}"
            )
        return value


class BooleanConverter:
    """One byte: 1 or 0."""

    TABLE: ClassVar[Table] = table("boolean converter")
    VERSION: ClassVar[str] = VERSION

    def configure(self, properties: Mapping[str, str], is_key: bool) -> None:
        """See Converter."""
        configured(self.TABLE, properties)

    def to_connect(self, topic: str, data: bytes | None) -> tuple[Any, Any]:
        """See Converter."""
        if data is None:
            return OPTIONAL[Type.BOOLEAN], None
        if data not in (b"\0", b"\1"):
            raise DataError("Failed to deserialize boolean: ")
        return OPTIONAL[Type.BOOLEAN], data == b"\1"

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """See Converter."""
        if schema is not None and schema.type is not Type.BOOLEAN:
            raise DataError(f"Invalid schema type for BooleanConverter: {schema.type.name}")
        if value is None:
            return None
        if not isinstance(value, bool):
            raise DataError(
                f"BooleanConverter is not compatible with objects of type class {java_class(value, schema)}"
            )
        return b"\1" if value else b"\0"


class _NumberConverter:
    """Numbers of one type, most significant byte first."""

    __slots__ = ("_name", "_schema", "_struct", "_type")

    def __init__(self, name: str, type: Type, layout: str) -> None:
        self._name = name
        self._type = type
        self._schema = OPTIONAL[type]
        self._struct = struct.Struct(layout)

    def read(self, data: bytes | None) -> tuple[Any, Any]:
        if data is None:
            return self._schema, None
        if len(data) != self._struct.size:
            raise DataError(f"Failed to deserialize {self._name}: ")
        return self._schema, self._struct.unpack(data)[0]

    def write(self, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        is_whole = self._type in BITS
        fits = isinstance(value, int if is_whole else float) and not isinstance(value, bool)
        # Without a schema Python does not tell Java's four whole numbers apart, nor its two floats.
        if not fits or (schema is not None and schema.type is not self._type):
            raise DataError(f"Failed to serialize to {self._name} (was class {java_class(value, schema)}): ")
        try:
            return self._struct.pack(float32(value) if self._type is Type.FLOAT32 else value)
        except struct.error:
            raise DataError(f"Failed to serialize to {self._name}: {value} is out of its range") from None


def _converter_class(name: str, type: Type, layout: str) -> type[Any]:
    numbers = _NumberConverter(name, type, layout)

    class Converter:
        """Numbers of one type; see `Converter` in the plugins' API."""

        TABLE: ClassVar[Table] = table(f"{name} converter")
        VERSION: ClassVar[str] = VERSION

        def configure(self, properties: Mapping[str, str], is_key: bool) -> None:
            """See Converter."""
            configured(self.TABLE, properties)

        def to_connect(self, topic: str, data: bytes | None) -> tuple[Any, Any]:
            """See Converter."""
            return numbers.read(data)

        def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
            """See Converter."""
            return numbers.write(schema, value)

    return Converter


ShortConverter: Final = _converter_class("short", Type.INT16, ">h")
IntegerConverter: Final = _converter_class("integer", Type.INT32, ">i")
LongConverter: Final = _converter_class("long", Type.INT64, ">q")
FloatConverter: Final = _converter_class("float", Type.FLOAT32, ">f")
DoubleConverter: Final = _converter_class("double", Type.FLOAT64, ">d")
