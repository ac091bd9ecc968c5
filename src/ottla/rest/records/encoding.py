"""JSON values of requests -> the bytes of keys and values, for every format that the proxy speaks.

A null is a null key or a tombstone in every format. JSON goes on as it was read: its members keep their
order, whole numbers of more than 64 bits become doubles.
"""

from __future__ import annotations

import binascii
import enum
import io
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, cast

import orjson

from ottla.client.registry.lookups import RegisteredSchema
from ottla.client.registry.rules import write_obstacle
from ottla.rest.records.avro_encoding import JsonEncoder, NotCompiled, compiled
from ottla.schemas import framing
from ottla.schemas.format import ParsedSchema
from ottla.schemas.model import SchemaType

MAX_SHOWN_CHARACTERS: Final = 500
KEPT_ENCODERS: Final = 500
FIRST_MESSAGE: Final = (0,)
"""The message of a Protobuf schema that the proxy writes: the first, as Confluent's proxy does."""

Encode = Callable[[Any], bytes | None]


class EmbeddedFormat(enum.StrEnum):
    """How a request has a key or value in JSON, and how it is encoded."""

    BINARY = "BINARY"
    JSON = "JSON"
    STRING = "STRING"
    AVRO = "AVRO"
    JSONSCHEMA = "JSONSCHEMA"
    PROTOBUF = "PROTOBUF"

    @property
    def schema_type(self) -> SchemaType | None:
        """The type of schema that the format needs."""
        return _SCHEMA_TYPES.get(self)


_SCHEMA_TYPES: Final = {
    EmbeddedFormat.AVRO: SchemaType.AVRO,
    EmbeddedFormat.JSONSCHEMA: SchemaType.JSON,
    EmbeddedFormat.PROTOBUF: SchemaType.PROTOBUF,
}
FORMAT_OF_SCHEMA: Final = {schema_type: embedded for embedded, schema_type in _SCHEMA_TYPES.items()}


class UnencodablePayload(Exception):
    """A value that can't be written in its format; the message says why, in a line of bounded length."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message[: 2 * MAX_SHOWN_CHARACTERS].split())[:MAX_SHOWN_CHARACTERS])


class ValidatesJson(Protocol):
    """A JSON Schema that validates values."""

    def validate(self, value: Any) -> list[str]:
        """One sentence for each fault; none when the value is valid."""


class HasMessages(Protocol):
    """A Protobuf schema that has classes for its messages."""

    def message_class(self, path: Sequence[int]) -> Any:
        """The class of the message at this path of indexes."""


def encode_binary(value: Any) -> bytes | None:
    """Base64 text. Raises UnencodablePayload."""
    if value is None:
        return None
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except (TypeError, ValueError) as problem:
        raise UnencodablePayload(f"not a text in base64: {problem}") from None


def encode_json(value: Any) -> bytes | None:
    """A value as JSON."""
    # copied, as the bytes that orjson returns hold on to a buffer of 4 KiB
    return None if value is None else b"%b" % orjson.dumps(value)


def encode_string(value: Any) -> bytes | None:
    """A text in UTF-8; numbers and booleans as JSON writes them. Raises UnencodablePayload."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict | list):
        raise UnencodablePayload("a STRING can't be an object or an array")
    return b"%b" % orjson.dumps(value)


PLAIN: Final[dict[EmbeddedFormat, Encode]] = {
    EmbeddedFormat.BINARY: encode_binary,
    EmbeddedFormat.JSON: encode_json,
    EmbeddedFormat.STRING: encode_string,
}
"""The encoders of formats without schemas."""


class SchemaEncoders:
    """Encoders of the schemas in use, by their ids, bounded in number."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, tuple[ParsedSchema, Encode]] = OrderedDict()

    def of(self, schema: RegisteredSchema) -> Encode:
        """The encoder of values with a schema, framed with its id; it raises UnencodablePayload for a value.

        Raises UnencodablePayload for a schema with which no values can be written.
        """
        kept = self._kept.get(schema.id)
        if kept is not None and kept[0] is schema.parsed:
            self._kept.move_to_end(schema.id)
            return kept[1]
        obstacle = write_obstacle(schema.rules)
        if obstacle is not None:
            raise UnencodablePayload(f"values can't be written with schema {schema.id}: {obstacle}")
        encode = _MAKERS[schema.parsed.schema_type](schema)
        self._kept[schema.id] = schema.parsed, encode
        if len(self._kept) > KEPT_ENCODERS:
            self._kept.popitem(last=False)
        return encode


def _avro(schema: RegisteredSchema) -> Encode:
    from fastavro import parse_schema
    from fastavro.read import LOGICAL_READERS
    from fastavro.schema import SchemaParseException

    try:
        parsed = parse_schema(orjson.loads(schema.parsed.formatted("resolved")))
    except (SchemaParseException, orjson.JSONDecodeError, TypeError, ValueError, RecursionError) as problem:
        raise UnencodablePayload(f"values can't be written with schema {schema.id}: {problem}") from None
    prefix = framing.frame(schema.id, b"")
    by_fastavro = _fastavro_encoder(parsed)
    try:
        encode_json = compiled(parsed, frozenset(LOGICAL_READERS), _fastavro_encoder)
    except NotCompiled:
        encode_json = by_fastavro

    def encode(value: Any) -> bytes | None:
        if value is None:
            return None
        try:
            return prefix + encode_json(value)
        except Exception:
            # fastavro takes more values, and says what is wrong with the others
            try:
                return prefix + by_fastavro(value)
            except Exception as problem:
                # fastavro has no exception of its own for values of another shape
                reason = f"the value does not fit its Avro schema: {_reason(problem)}"
                raise UnencodablePayload(reason) from None

    return encode


def _fastavro_encoder(schema: Any) -> JsonEncoder:
    """fastavro's encoder of the JSON values of a parsed schema; it raises many kinds of exceptions."""
    from fastavro import json_reader, schemaless_writer, validate

    def encode(value: Any) -> bytes:
        datum = next(json_reader(io.StringIO(orjson.dumps(value).decode()), schema))
        # the writer does not check: it would write 1.5 as an int, and any text as a boolean
        validate(datum, schema, raise_errors=True)
        written = io.BytesIO()
        schemaless_writer(written, schema, datum)
        return written.getvalue()

    return encode


def _json_schema(schema: RegisteredSchema) -> Encode:
    validate = cast(ValidatesJson, schema.parsed).validate
    schema_id = schema.id

    def encode(value: Any) -> bytes | None:
        if value is None:
            return None
        faults = validate(value)
        if faults:
            raise UnencodablePayload(f"the value does not fit its JSON Schema: {'; '.join(faults)}")
        return framing.frame(schema_id, orjson.dumps(value))

    return encode


def _protobuf(schema: RegisteredSchema) -> Encode:
    from google.protobuf.json_format import ParseDict, ParseError

    try:
        message_class = cast(HasMessages, schema.parsed).message_class(FIRST_MESSAGE)
    except (LookupError, ValueError) as problem:
        raise UnencodablePayload(f"values can't be written with schema {schema.id}: {problem}") from None
    prefix = framing.frame(schema.id, b"", FIRST_MESSAGE)

    def encode(value: Any) -> bytes | None:
        if value is None:
            return None
        try:
            message = ParseDict(value, message_class())
            return prefix + cast(bytes, message.SerializeToString())
        except (ParseError, TypeError, ValueError, AttributeError, RecursionError) as problem:
            raise UnencodablePayload(
                f"the value does not fit its Protobuf schema: {_reason(problem)}"
            ) from None

    return encode


_MAKERS: Final[dict[SchemaType, Callable[[RegisteredSchema], Encode]]] = {
    SchemaType.AVRO: _avro,
    SchemaType.JSON: _json_schema,
    SchemaType.PROTOBUF: _protobuf,
}


def _reason(problem: Exception) -> str:
    text = str(problem)
    return text if len(text) > 3 and " " in text else f"{type(problem).__name__} {text}".strip()
