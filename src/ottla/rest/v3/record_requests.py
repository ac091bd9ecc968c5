"""API v3: reads and encodes one record of a request: its bytes, and the parts that the answer repeats.

A key or value names its format (`type`), or its schema and thereby the format: by `schema_id`, by
`schema_version` of a subject, as text (`schema`, which is registered), or, when it names none, the newest
one of the subject. The subject is given (`subject`) or follows from `subject_name_strategy`, TOPIC_NAME by
default.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ottla.client.registry.lookups import RegisteredSchema
from ottla.client.registry.wire import RegistryRefusal, RegistryUnreachable
from ottla.rest.records.encoding import (
    FORMAT_OF_SCHEMA,
    PLAIN,
    EmbeddedFormat,
    SchemaEncoders,
    UnencodablePayload,
    encode_binary,
)
from ottla.rest.records.producing import Outgoing, Producing
from ottla.schemas.format import InvalidSchema
from ottla.schemas.formats import format_of
from ottla.web.errors import ApiError

MAX_HEADERS: Final = 1_000
MAX_PARTITION: Final = 2**31 - 1
MAX_TIMESTAMP_MS: Final = 253_402_300_799_999
"""The latest timestamp: the end of the year 9999."""
KEPT_NAMES: Final = 100
_RECORD_FIELDS: Final = frozenset(("partition_id", "headers", "key", "value", "timestamp"))
_PART_FIELDS: Final = frozenset(
    ("type", "subject", "subject_name_strategy", "schema_id", "schema_version", "schema", "data")
)
_SCHEMA_FIELDS: Final = _PART_FIELDS - {"type", "data"}
_PLAIN_BY_NAME: Final = {str(embedded): encode for embedded, encode in PLAIN.items()}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


class SubjectNameStrategy(enum.StrEnum):
    """How a subject follows from topic and schema."""

    TOPIC_NAME = "TOPIC_NAME"
    RECORD_NAME = "RECORD_NAME"
    TOPIC_RECORD_NAME = "TOPIC_RECORD_NAME"

    def subject(self, topic: str, is_key: bool, name: str | None) -> str:
        """The subject. `name`: of the schema's record. Raises ApiError where it is needed and absent."""
        if self is SubjectNameStrategy.TOPIC_NAME:
            return f"{topic}-{'key' if is_key else 'value'}"
        if name is None:
            raise ApiError(400, 400, f"{self} needs a schema that is known by then, of a record with a name.")
        return name if self is SubjectNameStrategy.RECORD_NAME else f"{topic}-{name}"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A record that can be produced; `key` and `value` are the answer's objects for them."""

    outgoing: Outgoing
    key: dict[str, Any] | None
    value: dict[str, Any] | None


class RecordRequests:
    """Reads the records of one request, which all go to one topic."""

    def __init__(self, producing: Producing, encoders: SchemaEncoders, topic: str) -> None:
        self._schemas = producing.schemas
        self._encoders = encoders
        self._topic = topic
        self._names: dict[tuple[EmbeddedFormat, str], str | None] = {}

    async def prepare(self, record: Mapping[str, Any]) -> Prepared:
        """Read and encode a record. Raises ApiError."""
        if record.keys() - _RECORD_FIELDS:
            raise _unknown_field(record.keys() - _RECORD_FIELDS)
        key_bytes, key = await self._part(record.get("key"), True)
        value_bytes, value = await self._part(record.get("value"), False)
        partition = record.get("partition_id")
        if partition is None:
            partition = -1
        elif type(partition) is not int or not 0 <= partition <= MAX_PARTITION:
            raise ApiError(400, 400, "partition_id must be a partition's number.")
        timestamp = record.get("timestamp")
        headers = record.get("headers")
        return Prepared(
            Outgoing(
                key_bytes,
                value_bytes,
                partition,
                0 if timestamp is None else _milliseconds(timestamp),
                None if headers is None else _headers(headers),
            ),
            key,
            value,
        )

    async def _part(self, part: Any, is_key: bool) -> tuple[bytes | None, dict[str, Any] | None]:
        """A key or a value: its bytes, and the answer's object for it."""
        if part is None:
            return None, None
        if type(part) is not dict:
            raise ApiError(400, 400, f"{_name(is_key)} must be an object with type and data.")
        if part.keys() - _PART_FIELDS:
            raise _unknown_field(part.keys() - _PART_FIELDS)
        kind = part.get("type")
        encode = _PLAIN_BY_NAME.get(kind) if type(kind) is str else None
        try:
            if encode is None:
                return await self._with_schema(part, is_key)
            if len(part) > 2 and any(part.get(field) is not None for field in _SCHEMA_FIELDS):
                raise ApiError(400, 400, f"A {_name(is_key)} of type {kind} has no schema.")
            data = encode(part.get("data"))
        except UnencodablePayload as problem:
            raise ApiError(400, 400, f"Bad Request: {_name(is_key)}: {problem}") from None
        return data, {"type": kind, "size": 0 if data is None else len(data)}

    async def _with_schema(
        self, part: Mapping[str, Any], is_key: bool
    ) -> tuple[bytes | None, dict[str, Any]]:
        embedded = _embedded_format(part.get("type"))
        try:
            schema = await self._schema(part, embedded, is_key)
        except RegistryRefusal as refusal:
            if refusal.status in (401, 403):
                raise ApiError(refusal.status, refusal.status * 100 + 1, refusal.message) from None
            code = (422, 422) if refusal.status < 500 else (408, 40801)
            raise ApiError(
                *code, f"The schema of the {_name(is_key)} can't be had: {refusal.message}"
            ) from None
        except RegistryUnreachable as problem:
            raise ApiError(
                408, 40801, f"The schema of the {_name(is_key)} can't be looked up: {problem}"
            ) from None
        found = FORMAT_OF_SCHEMA[schema.parsed.schema_type]
        if embedded not in (None, found):
            raise ApiError(400, 400, f"The {_name(is_key)}'s schema is of type {found}, not {embedded}.")
        data = self._encoders.of(schema)(part.get("data"))
        shown = {
            "type": str(found),
            "subject": schema.subject,
            "schema_id": schema.id,
            "schema_version": schema.version,
            "size": 0 if data is None else len(data),
        }
        return data, shown

    async def _schema(
        self, part: Mapping[str, Any], embedded: EmbeddedFormat | None, is_key: bool
    ) -> RegisteredSchema:
        """The schema that a key or value names."""
        schema_id, version, text = part.get("schema_id"), part.get("schema_version"), part.get("schema")
        subject = part.get("subject")
        if sum(given is not None for given in (schema_id, version, text)) > 1:
            raise ApiError(400, 400, "Only one of schema_id, schema_version and schema can be given.")
        if subject is not None and (type(subject) is not str or not subject):
            raise ApiError(400, 400, "subject must be a text that is not empty.")
        strategy = _strategy(part.get("subject_name_strategy"))
        if subject is not None and part.get("subject_name_strategy") is not None:
            raise ApiError(400, 400, "Only one of subject and subject_name_strategy can be given.")
        if schema_id is not None:
            found = await self._schemas.by_id(_whole(schema_id, "schema_id"))
            subject = subject or strategy.subject(self._topic, is_key, found.parsed.name)
            version = await self._schemas.version_under(found, subject)
            return replace(found, subject=subject if version else None, version=version)
        if text is not None:
            if embedded is None or type(text) is not str:
                raise ApiError(400, 400, "schema must be a text, and type must say of which format it is.")
            if subject is None:
                subject = strategy.subject(self._topic, is_key, self._record_name(strategy, embedded, text))
            schema_type = embedded.schema_type
            assert schema_type is not None, "formats without schemas are dealt with before"
            return await self._schemas.register(subject, schema_type, text)
        subject = subject or strategy.subject(self._topic, is_key, None)
        if version is not None:
            return await self._schemas.version(subject, _whole(version, "schema_version"))
        return await self._schemas.latest(subject)

    def _record_name(self, strategy: SubjectNameStrategy, embedded: EmbeddedFormat, text: str) -> str | None:
        """The name of the record that a schema's text defines, where the strategy asks for it."""
        schema_type = embedded.schema_type
        if strategy is SubjectNameStrategy.TOPIC_NAME or schema_type is None:
            return None
        if (embedded, text) not in self._names:
            try:
                name = format_of(schema_type).parse(text, {}).name
            except InvalidSchema as problem:
                raise ApiError(422, 422, f"Invalid schema: {problem}") from None
            if len(self._names) >= KEPT_NAMES:
                self._names.clear()
            self._names[embedded, text] = name
        return self._names[embedded, text]


def _name(is_key: bool) -> str:
    return "key" if is_key else "value"


def _embedded_format(kind: Any) -> EmbeddedFormat | None:
    if kind is None:
        return None
    try:
        return EmbeddedFormat(kind)
    except ValueError:
        raise ApiError(400, 400, f"type must be one of {', '.join(EmbeddedFormat)}.") from None


def _strategy(text: Any) -> SubjectNameStrategy:
    if text is None:
        return SubjectNameStrategy.TOPIC_NAME
    try:
        return SubjectNameStrategy(text)
    except ValueError:
        raise ApiError(
            400, 400, f"subject_name_strategy must be one of {', '.join(SubjectNameStrategy)}."
        ) from None


def _whole(value: Any, name: str) -> int:
    if type(value) is not int or not 0 <= value <= MAX_PARTITION:
        raise ApiError(400, 400, f"{name} must be a whole number.")
    return value


def _milliseconds(timestamp: Any) -> int:
    """Milliseconds since 1970, from a text in ISO 8601 or from such a number."""
    if type(timestamp) is int:
        found = timestamp
    else:
        try:
            moment = datetime.fromisoformat(timestamp)
            found = (moment.replace(tzinfo=moment.tzinfo or UTC) - _EPOCH) // _MILLISECOND
        except (TypeError, ValueError, OverflowError):
            raise ApiError(400, 400, "timestamp must be of ISO 8601, or milliseconds since 1970.") from None
    if not 0 <= found <= MAX_TIMESTAMP_MS:
        raise ApiError(400, 400, "timestamp must be from 1970 to 9999.")
    return found


def _headers(headers: Any) -> list[tuple[str, str | bytes | None]]:
    if type(headers) is not list or len(headers) > MAX_HEADERS:
        raise ApiError(400, 400, f"headers must be an array of at most {MAX_HEADERS} headers.")
    found: list[tuple[str, str | bytes | None]] = []
    for header in headers:
        if (
            type(header) is not dict
            or type(header.get("name")) is not str
            or header.keys() - {"name", "value"}
        ):
            raise ApiError(400, 400, "A header must have a name, and may have a value in base64.")
        try:
            found.append((header["name"], encode_binary(header.get("value"))))
        except UnencodablePayload as problem:
            raise ApiError(400, 400, f"Bad Request: a header's value: {problem}") from None
    return found


def _unknown_field(names: Any) -> ApiError:
    return ApiError(400, 400, f"Unrecognized field: {min(names)[:100]}")
