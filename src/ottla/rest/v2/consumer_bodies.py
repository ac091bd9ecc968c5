"""Reads the bodies and queries of requests to consumer instances; invalid ones are refused with 422.

A body that is not JSON is 400, a query that is not a number 40002.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request

from ottla.rest.consumers.decoding import RecordField
from ottla.rest.consumers.group_consumer import CommittedOffset, Partition
from ottla.web.bodies import parse_json, read_body
from ottla.web.errors import ApiError

MAX_BODY_BYTES: Final = 1 << 20
MAX_ENTRIES: Final = 10_000
MAX_PATTERN_CHARACTERS: Final = 255
MAX_REPETITION: Final = 1_000
MAX_METADATA_CHARACTERS: Final = 4_096
MAX_SHOWN: Final = 100
_MAX_PARTITION: Final = 2**31 - 1
_MAX_OFFSET: Final = 2**63 - 2
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")
_REPETITION: Final = re.compile(r"\{([0-9]*)(?:,([0-9]*))?\}")
_CONTENT_TYPE: Final = re.compile(
    r"application/(json|octet-stream|vnd\.kafka(\.(binary|json|avro|jsonschema|protobuf))?(\.v2)?\+json)"
)


async def read_object(request: Request, *fields: str) -> dict[str, Any]:
    """The request's JSON object, with no fields but these; an empty body is an empty object.

    Raises ApiError, 415 for another content type than the API's.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type and not _CONTENT_TYPE.fullmatch(content_type):
        raise HTTPException(415)
    body = await read_body(request, MAX_BODY_BYTES)
    if not body.strip():
        return {}
    found = parse_json(body, ApiError(400, 400, "The request is not JSON"))
    if not isinstance(found, dict):
        raise ApiError(422, 422, "The request must be a JSON object")
    if fields:
        _only(found, fields)
    return found


def query_number(request: Request, name: str) -> int | None:
    """A whole number of the query; None if it is negative or missing."""
    text = request.query_params.get(name)
    if text is None or text == "":
        return None
    if not _NUMBER.fullmatch(text):
        raise ApiError(400, 40002, f"{name} must be a whole number")
    return int(text) if int(text) >= 0 else None


def query_fields(request: Request) -> frozenset[RecordField]:
    """The fields of records that the query `include` names, with commas between."""
    names = request.query_params.get("include", "").split(",")
    try:
        return frozenset(RecordField(name.strip()) for name in names if name.strip())
    except ValueError:
        raise ApiError(400, 40002, f"include may name {', '.join(RecordField)}") from None


def topics(body: Mapping[str, Any]) -> list[str]:
    """The topics of a subscription."""
    return [_topic(each) for each in _list(body, "topics")]


def topic_pattern(body: Mapping[str, Any]) -> str | None:
    """The regular expression of a subscription, if it is by one.

    The C library that compiles it takes as much memory as an expression asks for: those that ask for much are
        refused.
    """
    pattern = body.get("topic_pattern")
    if pattern is None:
        return None
    if not isinstance(pattern, str) or not 0 < len(pattern) <= MAX_PATTERN_CHARACTERS or "\0" in pattern:
        raise ApiError(
            422,
            422,
            f"topic_pattern must be a regular expression of 1 to {MAX_PATTERN_CHARACTERS} characters",
        )
    product = 1
    for low, high in _REPETITION.findall(pattern):
        product *= max(int(low[:9] or 1), int(high[:9] or 1), 1)
    if product > MAX_REPETITION or re.search(r"\\[0-9]", pattern):
        raise ApiError(
            422,
            422,
            f"topic_pattern must not repeat a part more than {MAX_REPETITION} times, nor refer back to one",
        )
    return pattern


def partitions(body: Mapping[str, Any]) -> list[Partition]:
    """`{"partitions": [{"topic", "partition"}]}`, each partition once."""
    found: dict[Partition, None] = {}
    for entry in _entries(body, "partitions", ("topic", "partition")):
        found[_partition(entry)] = None
    return list(found)


def positions(body: Mapping[str, Any]) -> dict[Partition, int]:
    """`{"offsets": [{"topic", "partition", "offset"}]}`."""
    return {
        _partition(entry): _number(entry, "offset", _MAX_OFFSET)
        for entry in _entries(body, "offsets", ("topic", "partition", "offset", "metadata"))
    }


def times(body: Mapping[str, Any]) -> dict[Partition, int]:
    """`{"timestamps": [{"topic", "partition", "timestamp"}]}`: ISO 8601 texts or milliseconds since 1970."""
    return {
        _partition(entry): _time(entry)
        for entry in _entries(body, "timestamps", ("topic", "partition", "timestamp"))
    }


def commits(body: Mapping[str, Any]) -> list[CommittedOffset]:
    """`{"offsets": [{"topic", "partition", "offset", "metadata"}]}` read last; returns the next offsets."""
    found: dict[Partition, CommittedOffset] = {}
    for entry in _entries(body, "offsets", ("topic", "partition", "offset", "metadata")):
        topic, partition = _partition(entry)
        metadata = entry.get("metadata")
        if metadata is None:
            metadata = ""
        if not isinstance(metadata, str) or len(metadata) > MAX_METADATA_CHARACTERS or "\0" in metadata:
            raise ApiError(
                422, 422, f"metadata must be a text of at most {MAX_METADATA_CHARACTERS} characters"
            )
        offset = _number(entry, "offset", _MAX_OFFSET) + 1
        found[topic, partition] = CommittedOffset(topic, partition, offset, metadata)
    return list(found.values())


def _list(body: Mapping[str, Any], field: str) -> list[Any]:
    found = body.get(field)
    if found is None:
        found = []
    if not isinstance(found, list):
        raise ApiError(422, 422, f"{field} must be an array")
    if len(found) > MAX_ENTRIES:
        raise ApiError(422, 422, f"{field} may have {MAX_ENTRIES} entries at most")
    return found


def _entries(body: Mapping[str, Any], field: str, known: tuple[str, ...]) -> list[dict[str, Any]]:
    found = _list(body, field)
    for entry in found:
        if not isinstance(entry, dict):
            raise ApiError(422, 422, f"{field} must have objects alone")
        _only(entry, known)
    return found


def _only(found: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for field in found:
        if field not in known:
            raise ApiError(422, 422, f"Unrecognized field: {field[:MAX_SHOWN]}")


def _topic(value: Any) -> str:
    if not isinstance(value, str) or not _TOPIC.fullmatch(value):
        raise ApiError(422, 422, "a topic's name has 1 to 249 characters: letters, digits, '.', '_' and '-'")
    return value


def _partition(entry: Mapping[str, Any]) -> Partition:
    return _topic(entry.get("topic")), _number(entry, "partition", _MAX_PARTITION)


def _number(entry: Mapping[str, Any], field: str, most: int) -> int:
    value = entry.get(field)
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise ApiError(422, 422, f"{field} must be a whole number from 0 to {most}")
    return value


def _time(entry: Mapping[str, Any]) -> int:
    value = entry.get("timestamp")
    if not isinstance(value, str) or _NUMBER.fullmatch(value):
        return _number(entry, "timestamp", _MAX_OFFSET)
    try:
        at = datetime.datetime.fromisoformat(value)
        if at.tzinfo is None:
            at = at.replace(tzinfo=datetime.UTC)
        since = at - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    except (ValueError, OverflowError):
        raise ApiError(422, 422, "timestamp must be a time as ISO 8601 writes it") from None
    if since < datetime.timedelta(0):
        raise ApiError(422, 422, "timestamp must not be before 1970")
    return since // datetime.timedelta(milliseconds=1)
