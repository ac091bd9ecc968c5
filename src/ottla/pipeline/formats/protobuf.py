"""Protobuf through the Schema Registry: messages of any writer's schema as columns of one reader's message.

The reader's message is the given one (by default the schema's first) of the given schema, or of the
subject's latest schema when the query starts. Protobuf resolves by field numbers, so a payload is parsed with
the reader's class, whichever schema it names; that id must still be a Protobuf schema of the registry.
Fields that the reader's schema does not have are left out, as in every Protobuf reader.

Columns are built field by field over a whole batch: one attribute of all messages is a list for Arrow, and
no message becomes a dict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Self, cast

import orjson
import pyarrow as pa
from google.protobuf.descriptor import Descriptor
from pyspark.sql.types import DataType

from ottla.client.registry.lookups import RegisteredSchema
from ottla.pipeline.formats.arrow_udf import decode_column, encode_column
from ottla.pipeline.formats.format import FormatError, in_one_line
from ottla.pipeline.formats.framed import Poison, decode_framed, reason_of, spark_arrow_type
from ottla.pipeline.formats.protobuf_types import MessageShape, shape_of
from ottla.pipeline.formats.registry import SchemaRegistry
from ottla.pipeline.formats.subjects import BoundSchema, SchemaChoice, SubjectStrategy, parse_schema
from ottla.pipeline.formats.transport import transport_text
from ottla.schemas import framing
from ottla.schemas.model import SchemaType
from ottla.schemas.protobuf.protobuf_format import ProtobufSchema

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from pyspark.sql import Column

KEPT_SHAPES: Final = 200


@dataclass(frozen=True, slots=True)
class ProtobufFormat:
    """Protobuf in the registry's framing. message: its full name; None for the schema's first message."""

    choice: SchemaChoice
    message: str | None = None
    bound: BoundSchema | None = None

    @classmethod
    def of(
        cls,
        registry: SchemaRegistry,
        schema: str | None,
        message: str | None,
        subject: str | None,
        strategy: SubjectStrategy,
        auto_register: bool,
    ) -> ProtobufFormat:
        """`schema` is the text of a .proto file. Raises FormatError."""
        if schema is not None:
            _message(schema, message)
        return cls(
            SchemaChoice(registry, SchemaType.PROTOBUF, schema, subject, strategy, auto_register), message
        )

    @property
    def native(self) -> bool:
        return False

    def bind(self, topic: str | None, is_key: bool) -> Self:
        return self if self.bound is not None else replace(self, bound=self.choice.found(topic, is_key))

    def data_type(self) -> DataType:
        return _message(self._bound().text, self.message).shape.spark

    def describe(self) -> str:
        return "protobuf" if self.bound is None else self.bound.describe("protobuf")

    def decode(self, column: Column, topic: Column | str, is_key: bool) -> Column:
        text = self.bind(topic if isinstance(topic, str) else None, is_key)._bound().text
        registry, name = self.choice.registry, self.message
        value_type = _message(text, name).shape.spark

        def decode(payloads: Sequence[bytes | None]) -> tuple[pa.Array, list[str | None]]:
            found = _message(text, name)

            def reader_of(writer: RegisteredSchema) -> _Reader:
                assert isinstance(writer.parsed, ProtobufSchema)
                return _Reader(found, writer.parsed)

            return decode_framed(
                payloads, registry, SchemaType.PROTOBUF, f"{name}:{text}", reader_of, found.columns
            )

        return decode_column(decode, value_type, column)

    def encode(self, column: Column, topic: str, is_key: bool) -> Column:
        bound = self.choice.registered(self.choice.found(topic, is_key), topic, is_key)
        text, schema_id, name = bound.text, bound.schema_id, self.message
        assert schema_id is not None
        what = bound.describe("protobuf")

        def encode(texts: Sequence[str | None]) -> list[bytes | None]:
            return _write(_message(text, name), schema_id, texts, what)

        return encode_column(encode, transport_text(column, _message(text, name).shape.spark))

    def _bound(self) -> BoundSchema:
        return self.bound if self.bound is not None else self.choice.found(None, False)


@dataclass(frozen=True, slots=True)
class _Message:
    """The reader's message: its class, and how its columns are built."""

    schema: ProtobufSchema
    path: tuple[int, ...]
    message_class: Callable[[], Message]
    shape: MessageShape

    def columns(self, messages: list[Any], errors: list[str | None]) -> pa.Array:
        try:
            return self._array(messages)
        except Exception:  # a time or a text that Arrow can't hold: tried one by one to find which
            for at, message in enumerate(messages):
                try:
                    self._array([message])
                except Exception as problem:
                    messages[at], errors[at] = None, reason_of(problem)
            return self._array(messages)

    def _array(self, messages: list[Any]) -> pa.Array:
        return self.shape.array(messages).cast(spark_arrow_type(self.shape.spark))


@lru_cache(maxsize=KEPT_SHAPES)
def _message(text: str, name: str | None) -> _Message:
    """The message of that name in a schema, by default its first. Raises FormatError."""
    schema = parse_schema(SchemaType.PROTOBUF, text)
    assert isinstance(schema, ProtobufSchema)
    wanted = schema.name if name is None else name
    try:
        path = schema.index_path(wanted or "")
    except LookupError:
        known = ", ".join(schema.file_descriptor.message_types_by_name) or "none"
        raise FormatError(f"the schema has no message {wanted} (messages: {known})") from None
    found = schema.message_class(path)
    return _Message(schema, path, found, shape_of(cast(Descriptor, found.DESCRIPTOR)))


class _Reader:
    """Decodes bodies of one writer's schema."""

    def __init__(self, message: _Message, writer: ProtobufSchema) -> None:
        self._class = message.message_class
        self._name = message.schema.message_class(message.path).DESCRIPTOR.full_name
        self._writer = writer

    def all(self, bodies: Sequence[bytes]) -> list[Any]:
        return [self.one(body) for body in bodies]

    def one(self, body: bytes) -> Any:
        path: tuple[int, ...]
        if body[:1] == b"\0":
            path, rest = (0,), body[1:]
        else:
            path, remainder = framing.split_message_index(memoryview(body))
            rest = bytes(remainder)
        self._check(path)
        message: Any = self._class()
        message.ParseFromString(rest)
        return message

    def _check(self, path: tuple[int, ...]) -> None:
        try:
            written = self._writer.message_class(path).DESCRIPTOR.full_name
        except LookupError as problem:
            raise Poison(str(problem)) from None
        if written != self._name:
            raise Poison(f"the payload is a {written}, not a {self._name}")


def _write(
    message: _Message, schema_id: int, rows: Sequence[str | None], format_name: str
) -> list[bytes | None]:
    prefix = framing.frame(schema_id, b"", message.path)
    written: list[bytes | None] = []
    for row in rows:
        if row is None:
            written.append(None)
            continue
        made: Any = message.message_class()
        try:
            message.shape.fill(made, orjson.loads(row))
            written.append(prefix + made.SerializeToString())
        except Exception as problem:
            reason = in_one_line(f"{type(problem).__name__}: {problem}")
            raise FormatError(f"a value can't be written as {format_name}: {reason}") from None
    return written
