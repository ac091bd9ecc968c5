"""A message on its way between MQTT and Kafka: the record that it is, and back.

The record's value is the payload. Its first header is `mqtt.topic`, so that a reader finds the topic whatever
the key is; then come those of MQTT that the message has, and behind them the user properties by their own
names. A user property that is called as one of the former is therefore never taken for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.mqtt.core.fields import LONGEST_FIELD
from ottla.mqtt.core.packets import Publish, Will
from ottla.mqtt.core.properties import Properties, Property, no_properties
from ottla.mqtt.core.topics import is_name

SYS: Final = "$SYS/"
"""Topics that begin so are the proxy's own: no record, and no message of a client."""
TOPIC: Final = "mqtt.topic"
CLIENT_ID: Final = "mqtt.client.id"
QOS: Final = "mqtt.qos"
RETAIN: Final = "mqtt.retain"
PAYLOAD_FORMAT: Final = "mqtt.payload.format"
MESSAGE_EXPIRY: Final = "mqtt.message.expiry"
CONTENT_TYPE: Final = "mqtt.content.type"
RESPONSE_TOPIC: Final = "mqtt.response.topic"
CORRELATION_DATA: Final = "mqtt.correlation.data"

Header = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class Message:
    """What a client has published, or left as its will."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = field(default_factory=no_properties)

    @classmethod
    def of(cls, source: Publish | Will) -> Message:
        """That of a packet, or of a will."""
        return cls(source.topic, source.payload, source.qos, source.retain, source.properties)

    @property
    def size_bytes(self) -> int:
        """About what it takes in memory, beside its properties."""
        return len(self.payload) + len(self.topic)


def headers(message: Message, client_id: str) -> list[Header]:
    """The headers of the record."""
    found: list[Header] = [
        (TOPIC, message.topic.encode()),
        (CLIENT_ID, client_id.encode()),
        (QOS, b"%d" % message.qos),
    ]
    if message.retain:
        found.append((RETAIN, b"1"))
    properties = message.properties
    if not properties:
        return found
    for name, header in _NUMBERS:
        if name in properties:
            found.append((header, b"%d" % properties[name]))
    for name, header in _TEXTS:
        if name in properties:
            found.append((header, properties[name].encode()))
    if Property.CORRELATION_DATA in properties:
        found.append((CORRELATION_DATA, properties[Property.CORRELATION_DATA]))
    for user_name, value in properties.get(Property.USER_PROPERTY, ()):
        found.append((user_name, value.encode()))
    return found


def message_of(
    key: bytes | None, value: bytes | None, given: Sequence[tuple[str, bytes | None]]
) -> tuple[Message, str] | None:
    """The message that a record is, and the client that published it; None for a record that is none.

    A record that another client of Kafka wrote has no `mqtt.topic`: its key is the topic then, if it can be.
    It has no `mqtt.qos` either: it has the QoS that its subscribers ask for.
    """
    topic = next((each for name, each in given if name == TOPIC), key)
    try:
        name = (topic or b"").decode()
    except UnicodeDecodeError:
        return None
    if value is None or not is_name(name) or name.startswith(SYS) or len(topic or b"") > LONGEST_FIELD:
        return None
    properties: dict[Property, Any] = {}
    publisher = ""
    retain = False
    qos = 2
    pairs: list[tuple[str, str]] = []
    seen: set[str] = set()
    for header, data in given:
        if data is None or len(data) > LONGEST_FIELD:
            continue
        if header in _OWN and header not in seen:
            seen.add(header)
            if header == CLIENT_ID:
                publisher = data.decode("utf-8", "replace")
            elif header == RETAIN:
                retain = data == b"1"
            elif header == QOS:
                qos = int(data) if data in (b"0", b"1") else 2
            elif header in _READ:
                found = _READ[header](data)
                if found is not None:
                    properties[found[0]] = found[1]
        elif (
            (text := _text(data)) is not None and len(header.encode()) <= LONGEST_FIELD and "\0" not in header
        ):
            pairs.append((header, text))
    if pairs:
        properties[Property.USER_PROPERTY] = tuple(pairs)
    return Message(name, value, qos, retain=retain, properties=properties), publisher


def _text(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _read_number(name: Property, most: int) -> Callable[[bytes], tuple[Property, Any] | None]:
    def read(data: bytes) -> tuple[Property, Any] | None:
        if not data.isdigit() or len(data) > 10 or int(data) > most:
            return None
        return name, int(data)

    return read


def _read_text(name: Property) -> Callable[[bytes], tuple[Property, Any] | None]:
    def read(data: bytes) -> tuple[Property, Any] | None:
        text = _text(data)
        if text is None or (name is Property.RESPONSE_TOPIC and not is_name(text)):
            return None
        return name, text

    return read


_OWN: Final = frozenset(
    {
        TOPIC,
        CLIENT_ID,
        QOS,
        RETAIN,
        PAYLOAD_FORMAT,
        MESSAGE_EXPIRY,
        CONTENT_TYPE,
        RESPONSE_TOPIC,
        CORRELATION_DATA,
    }
)
_READ: Final[Mapping[str, Callable[[bytes], tuple[Property, Any] | None]]] = {
    PAYLOAD_FORMAT: _read_number(Property.PAYLOAD_FORMAT_INDICATOR, 1),
    MESSAGE_EXPIRY: _read_number(Property.MESSAGE_EXPIRY_INTERVAL, 0xFFFFFFFF),
    CONTENT_TYPE: _read_text(Property.CONTENT_TYPE),
    RESPONSE_TOPIC: _read_text(Property.RESPONSE_TOPIC),
    CORRELATION_DATA: lambda data: (Property.CORRELATION_DATA, data),
}
_NUMBERS: Final = (
    (Property.PAYLOAD_FORMAT_INDICATOR, PAYLOAD_FORMAT),
    (Property.MESSAGE_EXPIRY_INTERVAL, MESSAGE_EXPIRY),
)
_TEXTS: Final = ((Property.CONTENT_TYPE, CONTENT_TYPE), (Property.RESPONSE_TOPIC, RESPONSE_TOPIC))
