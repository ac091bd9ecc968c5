"""API v2: POST /topics/T and /topics/T/partitions/P, batches of records in one of five formats.

A request is taken or refused as a whole: schemas are found, all of its records encoded and their partitions
checked before the first is produced. The answer has an offset or an error for each record, in their order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final

import orjson
from confluent_kafka import KafkaError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ottla.client.registry.lookups import RegisteredSchema
from ottla.client.registry.wire import RegistryRefusal, RegistryUnreachable
from ottla.rest import kafka_errors
from ottla.rest.figures import ApiVersion
from ottla.rest.records.bytes_in_work import Held
from ottla.rest.records.encoding import (
    FORMAT_OF_SCHEMA,
    PLAIN,
    EmbeddedFormat,
    Encode,
    SchemaEncoders,
    UnencodablePayload,
)
from ottla.rest.records.json_bounds import MAX_VALUES, has_too_many_values
from ottla.rest.records.producing import Deliveries, Outgoing, Producing
from ottla.web.application import json_answer
from ottla.web.errors import ApiError

MEDIA_TYPE: Final = "application/vnd.kafka.v2+json"
FORMATS: Final = {
    "application/vnd.kafka.v2+json": EmbeddedFormat.BINARY,
    "application/vnd.kafka.binary.v2+json": EmbeddedFormat.BINARY,
    "application/vnd.kafka.json.v2+json": EmbeddedFormat.JSON,
    "application/vnd.kafka.avro.v2+json": EmbeddedFormat.AVRO,
    "application/vnd.kafka.jsonschema.v2+json": EmbeddedFormat.JSONSCHEMA,
    "application/vnd.kafka.protobuf.v2+json": EmbeddedFormat.PROTOBUF,
}
MAX_PARTITION: Final = 2**31 - 1
MAX_RECORDS: Final = 200_000
"""Records of one request: until it is answered each takes some 500 bytes beside its own."""
LARGE_BODY_BYTES: Final = 1 << 20
"""Larger bodies are parsed and encoded one at a time: they take many times their size meanwhile."""
_REQUEST_FIELDS: Final = frozenset(
    ("records", "key_schema", "key_schema_id", "value_schema", "value_schema_id")
)
_RECORD_FIELDS: Final = frozenset(("key", "value", "partition"))
_STATUS_OF_RECORDS: Final = {40101: 401, 40301: 403}
"""If a record fails with one of these codes, it is the status of the whole answer."""


@dataclass(frozen=True, slots=True)
class _Side:
    """The encoding of all keys, or of all values, and its schema."""

    encode: Encode
    schema_id: int | None = None


def routes(producing: Producing) -> list[BaseRoute]:
    """The routes that produce."""
    produce = _Produce(producing)
    return [
        Route("/topics/{topic}", produce.to_topic, methods=["POST"]),
        Route("/topics/{topic}/partitions/{partition}", produce.to_partition, methods=["POST"]),
    ]


class _Produce:
    """The two requests: the path names the partition, or the records do."""

    def __init__(self, producing: Producing) -> None:
        self._producing = producing
        self._encoders = SchemaEncoders()
        self._large = asyncio.Lock()

    async def to_topic(self, request: Request) -> Response:
        return await self._produce(request, None)

    async def to_partition(self, request: Request) -> Response:
        text = request.path_params["partition"]
        if not text.isdecimal() or not text.isascii() or int(text[:11]) > MAX_PARTITION:
            raise _no_partition()
        return await self._produce(request, int(text))

    async def _produce(self, request: Request, partition: int | None) -> Response:
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        embedded = FORMATS.get(content_type)
        if embedded is None:
            raise HTTPException(415)
        topic: str = request.path_params["topic"]
        with self._producing.work.request() as held:
            body = await _read_body(request, self._producing.max_body_bytes, held)
            async with self._large if len(body) > LARGE_BODY_BYTES else nullcontext():
                asked = _read_request(body)
                del body
                keys, values, records = await self._read(topic, embedded, asked, partition)
                del asked
            highest = max(record.partition for record in records)
            count = await self._producing.partitions(topic, highest + 1)
            if count is None or highest >= count:
                raise _no_partition()
            deliveries = await self._producing.send(topic, records, ApiVersion.V2)
            await deliveries.wait()
        if any(error.code() in _TOPIC_IS_GONE for error in deliveries.failures.values()):
            self._producing.forget_topic(topic)
        return _answer(deliveries, keys.schema_id, values.schema_id)

    async def _read(
        self, topic: str, embedded: EmbeddedFormat, asked: dict[str, Any], partition: int | None
    ) -> tuple[_Side, _Side, list[Outgoing]]:
        """The request's records, encoded; removes them from the request. Raises ApiError."""
        if await self._producing.partitions(topic) is None:
            raise ApiError(404, 40401, "Topic not found.")
        keys, values = await self._sides(topic, embedded, asked)
        return keys, values, _encoded(asked["records"], keys.encode, values.encode, partition)

    async def _sides(
        self, topic: str, embedded: EmbeddedFormat, asked: Mapping[str, Any]
    ) -> tuple[_Side, _Side]:
        if embedded in PLAIN:
            return _Side(PLAIN[embedded]), _Side(PLAIN[embedded])
        records = asked["records"]
        return (
            await self._side("key", 42201, topic, embedded, asked, _any_has(records, "key")),
            await self._side("value", 42202, topic, embedded, asked, _any_has(records, "value")),
        )

    async def _side(
        self,
        name: str,
        code: int,
        topic: str,
        embedded: EmbeddedFormat,
        asked: Mapping[str, Any],
        needed: bool,
    ) -> _Side:
        """The schema of keys or values: by the id or the text that the request has."""
        text, schema_id = asked.get(f"{name}_schema"), asked.get(f"{name}_schema_id")
        if text is None and schema_id is None:
            if needed:
                raise ApiError(
                    422,
                    code,
                    f"The request has {name}s, and its format needs a schema: "
                    f"give {name}_schema or {name}_schema_id.",
                )
            return _Side(PLAIN[EmbeddedFormat.JSON])
        try:
            schema = await self._schema(f"{topic}-{name}", embedded, text, schema_id)
        except RegistryRefusal as refusal:
            raise _of_registry(refusal, name) from None
        except RegistryUnreachable as problem:
            raise ApiError(408, 40801, f"Schema registration or lookup failed: {problem}") from None
        if schema.parsed.schema_type is not embedded.schema_type:
            found = FORMAT_OF_SCHEMA[schema.parsed.schema_type].lower()
            raise ApiError(422, 42205, f"The {name}'s schema is of the format {found}, not of the request's.")
        try:
            return _Side(self._encoders.of(schema), schema.id)
        except UnencodablePayload as problem:
            raise ApiError(422, 42205, f"Invalid schema: {problem}") from None

    async def _schema(
        self, subject: str, embedded: EmbeddedFormat, text: str | None, schema_id: int | None
    ) -> RegisteredSchema:
        if schema_id is not None:
            return await self._producing.schemas.by_id(schema_id)
        assert text is not None and embedded.schema_type is not None, "looked at by the caller"
        return await self._producing.schemas.register(subject, embedded.schema_type, text)


_TOPIC_IS_GONE: Final = (KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART)


async def _read_body(request: Request, limit_bytes: int, held: Held) -> bytes:
    """The whole body. Raises ApiError 413, and 429 when there is no room for it."""
    parts: list[bytes] = []
    size = 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > limit_bytes:
                raise ApiError(413, 413, f"The request's body is larger than {limit_bytes} bytes")
            await held.add(len(part))
            parts.append(part)
    except ClientDisconnect:
        raise ApiError(400, 400, "The client went away before its request was whole") from None
    return b"".join(parts)


def _read_request(body: bytes) -> dict[str, Any]:
    """The request, checked for its shape. Raises ApiError."""
    if has_too_many_values(body):
        raise ApiError(413, 413, f"The request has more than {MAX_VALUES} values")
    try:
        asked = orjson.loads(body)
    except orjson.JSONDecodeError as problem:
        raise ApiError(400, 400, f"The request is not JSON: {problem}") from None
    if not isinstance(asked, dict):
        raise ApiError(422, 422, "The request must be a JSON object.")
    for name in asked.keys() - _REQUEST_FIELDS:
        raise ApiError(422, 422, f"Unrecognized field: {name[:100]}")
    for name in ("key_schema", "value_schema"):
        if not isinstance(asked.get(name), str | None):
            raise ApiError(422, 422, f"{name} must be a text.")
        schema_id = asked.get(f"{name}_id")
        if schema_id is not None and not (type(schema_id) is int and 0 <= schema_id <= MAX_PARTITION):
            raise ApiError(422, 422, f"{name}_id must be the id of a schema.")
    records = asked.get("records")
    if not isinstance(records, list) or not records:
        raise ApiError(422, 422, "records must be an array, and not empty.")
    if len(records) > MAX_RECORDS:
        raise ApiError(413, 413, f"The request has more than {MAX_RECORDS} records")
    return asked


def _any_has(records: list[Any], name: str) -> bool:
    return any(type(record) is dict and record.get(name) is not None for record in records)


def _encoded(
    records: list[Any], encode_key: Encode, encode_value: Encode, given_partition: int | None
) -> list[Outgoing]:
    """All records as bytes; each is removed from `records`, so that none is in memory twice.

    Raises ApiError for the first that can't be encoded, and names it.
    """
    outgoing = []
    default = -1 if given_partition is None else given_partition
    for place, record in enumerate(records):
        records[place] = None
        try:
            if record.keys() - _RECORD_FIELDS:
                raise ApiError(422, 422, f"Unrecognized field: {min(record.keys() - _RECORD_FIELDS)[:100]}")
            partition = record.get("partition")
            if partition is None:
                partition = default
            elif type(partition) is not int or not 0 <= partition <= MAX_PARTITION:
                raise ApiError(422, 422, f"records[{place}].partition must be a partition's number.")
            elif given_partition is not None:
                raise ApiError(422, 422, "Unrecognized field: partition")
            outgoing.append(
                Outgoing(encode_key(record.get("key")), encode_value(record.get("value")), partition)
            )
        except AttributeError:
            raise ApiError(422, 422, f"records[{place}] must be a JSON object.") from None
        except UnencodablePayload as problem:
            raise ApiError(422, 42203, f"Conversion of records[{place}] failed: {problem}") from None
    return outgoing


def _answer(deliveries: Deliveries, key_schema_id: int | None, value_schema_id: int | None) -> Response:
    offsets: list[dict[str, Any]] = [
        {"partition": partition, "offset": offset, "error_code": None, "error": None}
        for partition, offset in zip(deliveries.partitions, deliveries.offsets, strict=True)
    ]
    status = 200
    for place, error in deliveries.failures.items():
        found = kafka_errors.of_kafka_error(error)
        code = found.error_code if found.error_code in (40101, 40301, 50003) else 50002
        if error.code() == KafkaError._MSG_TIMED_OUT:
            code = 50003
        status = _STATUS_OF_RECORDS.get(code, status)
        offsets[place] = {"partition": None, "offset": None, "error_code": code, "error": found.message}
    content = {"offsets": offsets, "key_schema_id": key_schema_id, "value_schema_id": value_schema_id}
    return json_answer(content, status, MEDIA_TYPE)


def _no_partition() -> ApiError:
    return ApiError(404, 40402, "Partition not found.")


def _of_registry(refusal: RegistryRefusal, name: str) -> ApiError:
    """The answer to a registry's refusal: the schema is invalid, or it can't be had."""
    if refusal.status in (409, 422):
        return ApiError(422, 42205, f"Invalid {name} schema: {refusal.message}")
    if refusal.status in (401, 403):
        return ApiError(refusal.status, refusal.status * 100 + 1, refusal.message)
    return ApiError(408, 40801, f"Schema registration or lookup failed: {refusal.message}")
