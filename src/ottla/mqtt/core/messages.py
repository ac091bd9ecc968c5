"""A message on its way between MQTT and Kafka: the record that it is, and back.

The record's value is the payload. Its first header is `mqtt.topic`, so that a reader finds the topic whatever
the key is; then come those of MQTT that the message has, and behind them the user properties by their own
names. A user property that is called as one of the former is therefore never taken for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ottla.mqtt.core.packets import Publish, Will
from ottla.mqtt.core.properties import Properties, Property, no_properties

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


_NUMBERS: Final = (
    (Property.PAYLOAD_FORMAT_INDICATOR, PAYLOAD_FORMAT),
    (Property.MESSAGE_EXPIRY_INTERVAL, MESSAGE_EXPIRY),
)
_TEXTS: Final = ((Property.CONTENT_TYPE, CONTENT_TYPE), (Property.RESPONSE_TOPIC, RESPONSE_TOPIC))
