"""PROTOBUF_NOSR: Protobuf messages without a Schema Registry, their fields numbered as the columns stand."""

from __future__ import annotations

import base64
from typing import Any, cast

from google.protobuf.message import DecodeError

from ottla.connect.converters.protobuf_converter import fill_message, read_message
from ottla.connect.converters.protobuf_schemas import ProtobufWriting, message_schema
from ottla.connect.data.schema import DataError, Schema, Struct
from ottla.schemas.protobuf.protobuf_format import ProtobufFormat


class PlainProtobuf:
    """Messages of one schema. The methods are those of Connect's converters."""

    def __init__(self, schema: Schema) -> None:
        file = ProtobufWriting(False).file(schema)
        parsed = ProtobufFormat().parse(base64.b64encode(file.SerializeToString()).decode(), {})
        self._class = cast(Any, parsed.message_class((0,)))
        self._read = message_schema(self._class.DESCRIPTOR)

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """The bytes of a struct. Raises DataError."""
        if value is None:
            return None
        assert isinstance(value, Struct)
        message = self._class()
        try:
            fill_message(message, value)
            found: bytes = message.SerializeToString()
        except (ValueError, TypeError) as problem:
            raise DataError(f"Failed to serialize Protobuf data for topic {topic}: {problem}") from None
        return found

    def to_connect(self, topic: str, data: bytes | None) -> tuple[Any, Any]:
        """The schema and the struct of bytes. Raises DataError."""
        if data is None:
            return None, None
        message = self._class()
        try:
            message.ParseFromString(data)
        except DecodeError as problem:
            raise DataError(f"Failed to deserialize Protobuf data of topic {topic}: {problem}") from None
        return self._read, read_message(message, self._read)
