"""Records of a read -> the JSON of its answer, in every format: binary, JSON, Avro, JSON Schema, Protobuf.

Keys and values are of the same format; null stays null. JSON is checked and passed on unchanged, so numbers
keep all of their digits. Avro appears in its own JSON encoding (a union's value under its branch's name,
bytes as characters, logical types as the types that they stand on; NaN as a string, as Java does), Protobuf
in its JSON mapping, defaults included, as Confluent does.

Timestamps and headers come only if a read asks for them: Confluent's proxy never gives either, and clients
that were written for it may refuse fields that they do not know.

A record that can't be decoded ends its partition's part of the answer; nothing is left out silently.
"""

from __future__ import annotations

import binascii
import enum
import io
import json
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast

import orjson
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from ottla.client.registry.async_client import RegistryClient
from ottla.client.registry.lookups import RegisteredSchema
from ottla.client.registry.rules import read_obstacle
from ottla.client.registry.wire import RegistryRefusal, RegistryUnreachable
from ottla.rest.consumers.consumer_settings import DataFormat
from ottla.rest.records.encoding import HasMessages
from ottla.schemas import framing
from ottla.schemas.model import SchemaType
from ottla.web.errors import ApiError

KEPT_DECODERS: Final = 500
MAX_REASON_CHARACTERS: Final = 500

Decode = Callable[[memoryview], bytes]
"""Decodes the bytes behind a payload's schema id to JSON. May raise any exception of the format's library."""


class RecordField(enum.StrEnum):
    """A field of a record that is answered only to reads that ask for it."""

    TIMESTAMP = "timestamp"
    """Milliseconds since 1970; null for a record without one, of a format before Kafka 0.10."""
    HEADERS = "headers"
    """A list of names and values in base64, as API v3 takes them."""


class UndecodablePayload(Exception):
    """Bytes that are not in the format; the message says why."""


class _SchemaNeeded(Exception):
    """The schema of this id has to be looked up first."""

    def __init__(self, schema_id: int) -> None:
        super().__init__(schema_id)
        self.schema_id = schema_id


@dataclass(frozen=True, slots=True)
class Undecodable:
    """A record that does not fit the format, and why."""

    topic: str
    partition: int
    offset: int
    reason: str


@dataclass(slots=True)
class Decoded:
    """Records and their JSON, one part for each; the first record that could not be decoded, if any."""

    parts: list[bytes] = field(default_factory=list)
    answered: list[Message] = field(default_factory=list)
    problem: Undecodable | None = None


class RunInThread(Protocol):
    """Runs a function on a thread."""

    async def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any: ...


class SchemaDecoders:
    """Decoders of the schemas in use, by their ids, bounded in number."""

    def __init__(self, schemas: RegistryClient) -> None:
        self._schemas = schemas
        self._kept: OrderedDict[int, tuple[SchemaType, Decode]] = OrderedDict()

    def known(self, schema_id: int) -> tuple[SchemaType, Decode] | None:
        """The decoder of a schema that was looked up and is still kept, else None. For threads too."""
        return self._kept.get(schema_id)

    async def find(self, schema_id: int) -> tuple[SchemaType, Decode]:
        """A schema's decoder. Raises UndecodablePayload for an unknown id, ApiError 408 if none answers."""
        schema = await schema_of(self._schemas, schema_id)
        found = schema.parsed.schema_type, decoder_of(schema)
        self._kept[schema_id] = found
        self._kept.move_to_end(schema_id)
        if len(self._kept) > KEPT_DECODERS:
            self._kept.popitem(last=False)
        return found


async def schema_of(schemas: RegistryClient, schema_id: int) -> RegisteredSchema:
    """The schema of an id. Raises UndecodablePayload if there is none, ApiError 408 if none answers."""
    try:
        return await schemas.by_id(schema_id)
    except RegistryRefusal as refusal:
        if refusal.status == 404:
            raise UndecodablePayload(f"There is no schema {schema_id}: {refusal.message}") from None
        raise ApiError(408, 40801, f"Schema registration or lookup failed: {refusal.message}") from None
    except RegistryUnreachable as problem:
        raise ApiError(408, 40801, f"Schema registration or lookup failed: {problem}") from None


def decoder_of(schema: RegisteredSchema) -> Decode:
    """The decoder of payloads with this schema. Raises UndecodablePayload."""
    obstacle = read_obstacle(schema.rules)
    if obstacle is not None:
        raise UndecodablePayload(f"Schema {schema.id} can't be read with: {obstacle}")
    try:
        return _MAKERS[schema.parsed.schema_type](schema)
    except Exception as problem:
        raise UndecodablePayload(f"Schema {schema.id} can't be read with: {_reason(problem)}") from None


class RecordDecoder:
    """Decodes records of one format."""

    def __init__(self, data_format: DataFormat, decoders: SchemaDecoders) -> None:
        self._decoders = decoders
        self._schema_type = _SCHEMA_TYPES.get(data_format)
        self._payload = self._framed if self._schema_type else _PLAIN[data_format]

    async def decode(
        self,
        messages: Sequence[Message],
        in_thread: RunInThread,
        include: Collection[RecordField] = (),
    ) -> Decoded:
        """The JSON of the records of each partition, up to the first that can't be decoded.

        `include`: the fields beside those that every record has.
        Raises ApiError 408 40801 when the registry can't be asked.
        """
        decoded = Decoded()
        stopped: set[tuple[str | None, int | None]] = set()
        # Found for this read, which may have more schemas than are kept.
        found: dict[int, tuple[SchemaType, Decode] | UndecodablePayload] = {}
        at = 0
        while at < len(messages):
            at, needed = await in_thread(self._decode_some, messages, at, decoded, stopped, found, include)
            if needed is not None:
                try:
                    found[needed] = await self._decoders.find(needed)
                except UndecodablePayload as problem:
                    found[needed] = problem
        return decoded

    def _decode_some(
        self,
        messages: Sequence[Message],
        start: int,
        decoded: Decoded,
        stopped: set[tuple[str | None, int | None]],
        found: dict[int, tuple[SchemaType, Decode] | UndecodablePayload],
        include: Collection[RecordField],
    ) -> tuple[int, int | None]:
        """Decode until the end or an unknown schema: the index to go on at, and the schema's id."""
        for at in range(start, len(messages)):
            message = messages[at]
            topic, partition = message.topic(), message.partition()
            if (topic, partition) in stopped:
                continue
            try:
                shown = {
                    "topic": topic,
                    "key": self._payload(message.key(), found),
                    "value": self._payload(message.value(), found),
                    "partition": partition,
                    "offset": message.offset(),
                }
                if include:
                    _add(shown, message, include)
                part = orjson.dumps(shown)
            except _SchemaNeeded as needed:
                return at, needed.schema_id
            except Exception as problem:
                # the libraries of the formats raise many kinds of exceptions for bytes of another format
                stopped.add((topic, partition))
                if decoded.problem is None:
                    decoded.problem = Undecodable(
                        topic or "", partition or 0, message.offset() or 0, _reason(problem)
                    )
                continue
            decoded.parts.append(part)
            decoded.answered.append(message)
        return len(messages), None

    def _framed(
        self, payload: bytes | None, found: dict[int, tuple[SchemaType, Decode] | UndecodablePayload]
    ) -> orjson.Fragment | None:
        if payload is None:
            return None
        schema_id, data = framing.split_frame(payload)
        if self._schema_type is SchemaType.JSON:
            return checked_json(bytes(data))
        known = found.get(schema_id) or self._decoders.known(schema_id)
        if known is None:
            raise _SchemaNeeded(schema_id)
        if isinstance(known, UndecodablePayload):
            raise known
        schema_type, decode = known
        if schema_type is not self._schema_type:
            raise UndecodablePayload(
                f"Schema {schema_id} is of the type {schema_type}, not {self._schema_type}"
            )
        return orjson.Fragment(decode(data))


def _add(shown: dict[str, Any], message: Message, include: Collection[RecordField]) -> None:
    if RecordField.TIMESTAMP in include:
        kind, timestamp_ms = message.timestamp()
        shown["timestamp"] = None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms
    if RecordField.HEADERS in include:
        headers = cast(list[tuple[str, bytes | None]], message.headers() or [])
        shown["headers"] = [{"name": name, "value": base64_text(value)} for name, value in headers]


def base64_text(payload: bytes | None, _: Any = None) -> str | None:
    """Binary data as text in base64."""
    return None if payload is None else binascii.b2a_base64(payload, newline=False).decode()


def checked_json(payload: bytes | None, _: Any = None) -> orjson.Fragment | None:
    """Checked JSON, unchanged. Raises orjson.JSONDecodeError for bytes that are not JSON."""
    if payload is None:
        return None
    orjson.loads(payload)
    return orjson.Fragment(payload)


_SCHEMA_TYPES: Final = {
    DataFormat.AVRO: SchemaType.AVRO,
    DataFormat.JSON_SCHEMA: SchemaType.JSON,
    DataFormat.PROTOBUF: SchemaType.PROTOBUF,
}
_PLAIN: Final[dict[DataFormat, Callable[..., Any]]] = {
    DataFormat.BINARY: base64_text,
    DataFormat.JSON: checked_json,
}


def _avro(schema: RegisteredSchema) -> Decode:
    from fastavro import _read_py, json_writer, parse_schema, schemaless_reader

    text = orjson.loads(schema.parsed.formatted("resolved"))
    plain = _without_logical_types(text)
    parsed = parse_schema(plain)
    shape = _AvroShape()
    shape.walk(plain, "")
    if shape.bytes_for_nothing:
        raise UndecodablePayload("an array's items take no bytes, so a few bytes could be any number of them")
    # On data that are nested deeply the reader in C overflows its stack; the one in Python raises.
    read = _read_py.schemaless_reader if shape.recursive else schemaless_reader

    def decode(data: memoryview) -> bytes:
        # names of branches are kept, as a union may have several records of one shape
        datum = read(io.BytesIO(data), parsed, None, return_record_name=True, return_named_type=True)
        written = io.StringIO()
        json_writer(written, parsed, [datum])
        told = written.getvalue()
        try:
            orjson.loads(told)
        except orjson.JSONDecodeError:
            told = json.dumps(json.loads(told, parse_constant=str))
        return told.encode()

    return decode


def _without_logical_types(schema: Any) -> Any:
    """A schema without logical types: Python's dates and decimals have narrower bounds than its numbers."""
    match schema:
        case dict():
            return {
                name: value if name in ("default", "symbols") else _without_logical_types(value)
                for name, value in schema.items()
                if name != "logicalType"
            }
        case list():
            return [_without_logical_types(each) for each in schema]
    return schema


class _AvroShape:
    """Finds out whether a schema's data may be nested without end, or have many items in no bytes."""

    def __init__(self) -> None:
        self.recursive = False
        self.bytes_for_nothing = False
        self._open: set[str] = set()
        self._empty: dict[str, bool] = {}

    def walk(self, schema: Any, namespace: str) -> bool:
        """Whether a value may take no bytes."""
        if isinstance(schema, list):
            for branch in schema:
                self.walk(branch, namespace)
            return False
        if isinstance(schema, str):
            return self._named(schema, namespace)
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._record(schema, namespace)
        if kind == "fixed":
            name = _full_name(schema, namespace)
            self._empty[name] = schema["size"] == 0
            return self._empty[name]
        if kind == "enum":
            self._empty[_full_name(schema, namespace)] = False
            return False
        if kind == "array":
            self.bytes_for_nothing |= self.walk(schema["items"], namespace)
            return False
        if kind == "map":
            self.walk(schema["values"], namespace)
            return False
        return self.walk(kind, namespace)

    def _record(self, schema: Any, namespace: str) -> bool:
        name = _full_name(schema, namespace)
        inner = name.rpartition(".")[0]
        self._open.add(name)
        # a list, not a generator: every field has to be visited
        fields = [self.walk(each["type"], inner) for each in schema["fields"]]
        self._open.discard(name)
        self._empty[name] = all(fields)
        return self._empty[name]

    def _named(self, name: str, namespace: str) -> bool:
        if name == "null":
            return True
        for full in (name if "." in name or not namespace else f"{namespace}.{name}", name):
            if full in self._open:
                self.recursive = True
                return False
            if full in self._empty:
                return self._empty[full]
        return False


def _full_name(schema: Any, namespace: str) -> str:
    name: str = schema["name"]
    if "." in name:
        return name
    space = schema.get("namespace", namespace)
    return f"{space}.{name}" if space else name


def _json_schema(_schema: RegisteredSchema) -> Decode:
    def decode(data: memoryview) -> bytes:
        orjson.loads(data)
        return bytes(data)

    return decode


def _protobuf(schema: RegisteredSchema) -> Decode:
    from google.protobuf.json_format import MessageToDict

    messages = cast(HasMessages, schema.parsed)

    def decode(data: memoryview) -> bytes:
        path, rest = framing.split_message_index(data)
        message = messages.message_class(path)()
        message.ParseFromString(bytes(rest))
        return orjson.dumps(MessageToDict(message, always_print_fields_with_no_presence=True))

    return decode


_MAKERS: Final[dict[SchemaType, Callable[[RegisteredSchema], Decode]]] = {
    SchemaType.AVRO: _avro,
    SchemaType.JSON: _json_schema,
    SchemaType.PROTOBUF: _protobuf,
}


def _reason(problem: Exception) -> str:
    text = str(problem)
    if isinstance(problem, EOFError):
        text = "the payload ends too soon"
    elif not isinstance(problem, UndecodablePayload | framing.UnframedPayload | orjson.JSONDecodeError):
        text = f"{type(problem).__name__}: {text}"
    return text[:MAX_REASON_CHARACTERS]
