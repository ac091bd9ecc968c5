"""The settings of a consumer instance: those that its creator gives, and those of its Kafka client.

An instance's client holds little by itself: QUEUE_KIB of records, and one fetch beyond that. Measured, 60
instances that read a megabyte each at the same time took 10 MiB each in all. An instance without reads holds
no records (group_consumer.py).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.access import ClusterAccess
from ottla.config.settings import Settings
from ottla.rest.settings import (
    CLIENT_PREFIX,
    CONSUMER_INSTANCE_TIMEOUT_MS,
    CONSUMER_PREFIX,
    CONSUMER_REQUEST_TIMEOUT_MS,
    FETCH_MIN_BYTES,
)
from ottla.web.errors import ApiError

QUEUE_KIB: Final = 1_024
"""KiB of records that a client fetches ahead of its reads."""
FETCH_BYTES: Final = 1 << 20
"""The size of a broker's answer; a larger record comes alone."""
PARTITION_FETCH_BYTES: Final = 1 << 19
MAX_READ_MS: Final = 300_000
"""The longest that any read waits, whatever its instance's timeout says."""
MAX_FETCH_MIN_BYTES: Final = 10_000_000
MAX_NAME_LENGTH: Final = 255
OF_CONFLUENTS_PROXY: Final = frozenset(
    {"consumer.threads", "consumer.iterator.timeout.ms", "consumer.iterator.backoff.ms"}
)
"""Settings of Confluent's proxy itself, not of its clients: a file that was written for it may have them."""
_MAX_INT: Final = 2**31 - 1


class DataFormat(enum.StrEnum):
    """How an instance's keys and values appear in JSON."""

    BINARY = "binary"
    JSON = "json"
    AVRO = "avro"
    JSON_SCHEMA = "jsonschema"
    PROTOBUF = "protobuf"

    @property
    def media_type(self) -> str:
        """The content type of this format's records."""
        return f"application/vnd.kafka.{self.value}.v2+json"


@dataclass(frozen=True, slots=True)
class InstanceSettings:
    """The settings that an instance's creator may give. `fetch_min_bytes` -1: a read takes all its time."""

    name: str | None
    data_format: DataFormat
    auto_offset_reset: str | None
    auto_commit: bool
    request_timeout_ms: int
    fetch_min_bytes: int

    @classmethod
    def parse(cls, body: Mapping[str, Any], settings: Settings) -> InstanceSettings:
        """From the request's JSON object. Raises ApiError (422: 422, 40001 and 42204)."""
        for field in body:
            if field not in _FIELDS:
                raise ApiError(422, 422, f"Unrecognized field: {field[:MAX_NAME_LENGTH]}")
        return cls(
            name=_name(body.get("name"), "name") or _name(body.get("id"), "id"),
            data_format=_data_format(body.get("format")),
            auto_offset_reset=_offset_reset(body.get("auto.offset.reset")),
            auto_commit=_boolean(body.get("auto.commit.enable"), "auto.commit.enable"),
            request_timeout_ms=_bounded(
                body,
                "consumer.request.timeout.ms",
                (1, _MAX_INT),
                settings[CONSUMER_REQUEST_TIMEOUT_MS],
            ),
            fetch_min_bytes=_bounded(
                body, "fetch.min.bytes", (-1, MAX_FETCH_MIN_BYTES), settings[FETCH_MIN_BYTES]
            ),
        )


_FIELDS: Final = frozenset(
    {
        "id",
        "name",
        "format",
        "auto.offset.reset",
        "auto.commit.enable",
        "fetch.min.bytes",
        "consumer.request.timeout.ms",
    }
)


def client_properties(
    settings: Settings, access: ClusterAccess, group: str, wanted: InstanceSettings
) -> dict[str, Any]:
    """librdkafka's properties: defaults, those of `client.` and `consumer.`, and those the API depends on."""
    given = {
        name: text
        for name, text in settings.with_prefix(CONSUMER_PREFIX).items()
        if CONSUMER_PREFIX + name not in OF_CONFLUENTS_PROXY
    }
    properties: dict[str, Any] = {
        "queued.max.messages.kbytes": QUEUE_KIB,
        # With a full queue librdkafka would fetch again only after a second.
        "fetch.queue.backoff.ms": 20,
        "fetch.max.bytes": FETCH_BYTES,
        "fetch.message.max.bytes": PARTITION_FETCH_BYTES,
        # A seek waits for the fetch that is under way.
        "fetch.wait.max.ms": 100,
        "socket.timeout.ms": 10_000,
        # An instance belongs to its group for as long as it lives, with or without reads.
        "max.poll.interval.ms": min(
            86_400_000, settings[CONSUMER_INSTANCE_TIMEOUT_MS] + wanted.request_timeout_ms + 60_000
        ),
        **settings.with_prefix(CLIENT_PREFIX),
        **given,
        "group.id": group,
        "enable.auto.commit": wanted.auto_commit,
        "enable.auto.offset.store": False,
        "enable.partition.eof": False,
    }
    if wanted.auto_offset_reset is not None:
        properties["auto.offset.reset"] = wanted.auto_offset_reset
    return access.librdkafka(properties)


def _name(value: Any, field: str) -> str | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > MAX_NAME_LENGTH or "/" in value or not value.isprintable():
        raise ApiError(
            422, 422, f"{field} must be at most {MAX_NAME_LENGTH} characters, none of them a slash"
        )
    return value


def _data_format(value: Any) -> DataFormat:
    if value is None:
        return DataFormat.BINARY
    try:
        return DataFormat(value.lower() if isinstance(value, str) else value)
    except ValueError:
        known = ", ".join(DataFormat)
        raise ApiError(422, 42204, f"Invalid consumer configuration: format must be one of {known}") from None


def _offset_reset(value: Any) -> str | None:
    """librdkafka's name of a policy of auto.offset.reset."""
    match value.lower() if isinstance(value, str) else value:
        case None:
            return None
        case "earliest" | "smallest":
            return "earliest"
        case "latest" | "largest":
            return "latest"
        case "none":
            return "error"
    raise ApiError(
        422, 42204, "Invalid consumer configuration: auto.offset.reset must be earliest, latest or none"
    )


def _boolean(value: Any, field: str) -> bool:
    match value.lower() if isinstance(value, str) else value:
        case None | True | "true":
            return True
        case False | "false":
            return False
    raise ApiError(422, 42204, f"Invalid consumer configuration: {field} must be true or false")


def _bounded(body: Mapping[str, Any], field: str, bounds: tuple[int, int], default: int) -> int:
    value = body.get(field)
    if value is None:
        return default
    if isinstance(value, str) and 0 < len(value) < 20:
        with_sign = value.removeprefix("-")
        value = int(value) if with_sign.isascii() and with_sign.isdecimal() else value
    if isinstance(value, bool) or not isinstance(value, int):
        raise ApiError(422, 42204, f"Invalid consumer configuration: {field} must be a whole number")
    if not bounds[0] <= value <= bounds[1]:
        raise ApiError(422, 40001, f"Invalid {field}: {value} is not between {bounds[0]:,} and {bounds[1]:,}")
    return value
