"""The properties of MQTT 5: one table says the type of each and the packets that may have it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ottla.mqtt.core.fields import (
    Fields,
    Malformed,
    binary_bytes,
    four_bytes,
    length_bytes,
    text_bytes,
    two_bytes,
)
from ottla.mqtt.core.reason_codes import ReasonCode


class Place(enum.Enum):
    """What has properties: the packets, and the will of a CONNECT."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    DISCONNECT = 14
    AUTH = 15
    WILL = 0


class Property(enum.IntEnum):
    """The properties, by their identifiers."""

    PAYLOAD_FORMAT_INDICATOR = 0x01
    MESSAGE_EXPIRY_INTERVAL = 0x02
    CONTENT_TYPE = 0x03
    RESPONSE_TOPIC = 0x08
    CORRELATION_DATA = 0x09
    SUBSCRIPTION_IDENTIFIER = 0x0B
    SESSION_EXPIRY_INTERVAL = 0x11
    ASSIGNED_CLIENT_IDENTIFIER = 0x12
    SERVER_KEEP_ALIVE = 0x13
    AUTHENTICATION_METHOD = 0x15
    AUTHENTICATION_DATA = 0x16
    REQUEST_PROBLEM_INFORMATION = 0x17
    WILL_DELAY_INTERVAL = 0x18
    REQUEST_RESPONSE_INFORMATION = 0x19
    RESPONSE_INFORMATION = 0x1A
    SERVER_REFERENCE = 0x1C
    REASON_STRING = 0x1F
    RECEIVE_MAXIMUM = 0x21
    TOPIC_ALIAS_MAXIMUM = 0x22
    TOPIC_ALIAS = 0x23
    MAXIMUM_QOS = 0x24
    RETAIN_AVAILABLE = 0x25
    USER_PROPERTY = 0x26
    MAXIMUM_PACKET_SIZE = 0x27
    WILDCARD_SUBSCRIPTION_AVAILABLE = 0x28
    SUBSCRIPTION_IDENTIFIER_AVAILABLE = 0x29
    SHARED_SUBSCRIPTION_AVAILABLE = 0x2A


Properties = Mapping[Property, Any]
"""The values by property. USER_PROPERTY has a tuple of pairs, SUBSCRIPTION_IDENTIFIER a tuple of numbers."""
NO_PROPERTIES: Final[Properties] = MappingProxyType({})


def no_properties() -> Properties:
    """None."""
    return NO_PROPERTIES


Read = Callable[[Fields], Any]
Write = Callable[[Any], bytes]


class Kind(NamedTuple):
    """A type of values."""

    read: Read
    write: Write


class Rule(NamedTuple):
    """Of one property: its type, what may have it, and whether more than once there."""

    kind: Kind
    places: frozenset[Place]
    repeats: bool = False


def _one_byte(value: int) -> bytes:
    return bytes((value,))


def _pair_bytes(value: tuple[str, str]) -> bytes:
    return text_bytes(value[0]) + text_bytes(value[1])


def _not_zero(read: Read) -> Read:
    def checked(fields: Fields) -> Any:
        value = read(fields)
        if value == 0:
            raise Malformed("a property is 0, which it may not be", ReasonCode.PROTOCOL_ERROR)
        return value

    return checked


_FLAG: Final = Kind(Fields.flag, _one_byte)
_TWO: Final = Kind(Fields.two, two_bytes)
_TWO_NOT_ZERO: Final = Kind(_not_zero(Fields.two), two_bytes)
_FOUR: Final = Kind(Fields.four, four_bytes)
_FOUR_NOT_ZERO: Final = Kind(_not_zero(Fields.four), four_bytes)
_LENGTH_NOT_ZERO: Final = Kind(_not_zero(Fields.length), length_bytes)
_TEXT: Final = Kind(Fields.text, text_bytes)
_BINARY: Final = Kind(Fields.binary, binary_bytes)
_PAIR: Final = Kind(Fields.pair, _pair_bytes)

_P: Final = Place
_MESSAGE: Final = frozenset({_P.PUBLISH, _P.WILL})
_BOTH_ENDS: Final = frozenset({_P.CONNECT, _P.CONNACK})
_ANSWERS: Final = frozenset(
    {
        _P.CONNACK,
        _P.PUBACK,
        _P.PUBREC,
        _P.PUBREL,
        _P.PUBCOMP,
        _P.SUBACK,
        _P.UNSUBACK,
        _P.DISCONNECT,
        _P.AUTH,
    }
)
_AUTHENTICATION: Final = frozenset({_P.CONNECT, _P.CONNACK, _P.AUTH})
_CONNECT: Final = frozenset({_P.CONNECT})
_CONNACK: Final = frozenset({_P.CONNACK})

RULES: Final[Mapping[int, Rule]] = {
    Property.PAYLOAD_FORMAT_INDICATOR: Rule(_FLAG, _MESSAGE),
    Property.MESSAGE_EXPIRY_INTERVAL: Rule(_FOUR, _MESSAGE),
    Property.CONTENT_TYPE: Rule(_TEXT, _MESSAGE),
    Property.RESPONSE_TOPIC: Rule(_TEXT, _MESSAGE),
    Property.CORRELATION_DATA: Rule(_BINARY, _MESSAGE),
    Property.SUBSCRIPTION_IDENTIFIER: Rule(
        _LENGTH_NOT_ZERO, frozenset({_P.PUBLISH, _P.SUBSCRIBE}), repeats=True
    ),
    Property.SESSION_EXPIRY_INTERVAL: Rule(_FOUR, frozenset({_P.CONNECT, _P.CONNACK, _P.DISCONNECT})),
    Property.ASSIGNED_CLIENT_IDENTIFIER: Rule(_TEXT, _CONNACK),
    Property.SERVER_KEEP_ALIVE: Rule(_TWO, _CONNACK),
    Property.AUTHENTICATION_METHOD: Rule(_TEXT, _AUTHENTICATION),
    Property.AUTHENTICATION_DATA: Rule(_BINARY, _AUTHENTICATION),
    Property.REQUEST_PROBLEM_INFORMATION: Rule(_FLAG, _CONNECT),
    Property.WILL_DELAY_INTERVAL: Rule(_FOUR, frozenset({_P.WILL})),
    Property.REQUEST_RESPONSE_INFORMATION: Rule(_FLAG, _CONNECT),
    Property.RESPONSE_INFORMATION: Rule(_TEXT, _CONNACK),
    Property.SERVER_REFERENCE: Rule(_TEXT, frozenset({_P.CONNACK, _P.DISCONNECT})),
    Property.REASON_STRING: Rule(_TEXT, _ANSWERS),
    Property.RECEIVE_MAXIMUM: Rule(_TWO_NOT_ZERO, _BOTH_ENDS),
    Property.TOPIC_ALIAS_MAXIMUM: Rule(_TWO, _BOTH_ENDS),
    Property.TOPIC_ALIAS: Rule(_TWO, frozenset({_P.PUBLISH})),
    Property.MAXIMUM_QOS: Rule(_FLAG, _CONNACK),
    Property.RETAIN_AVAILABLE: Rule(_FLAG, _CONNACK),
    Property.USER_PROPERTY: Rule(_PAIR, frozenset(Place), repeats=True),
    Property.MAXIMUM_PACKET_SIZE: Rule(_FOUR_NOT_ZERO, _BOTH_ENDS),
    Property.WILDCARD_SUBSCRIPTION_AVAILABLE: Rule(_FLAG, _CONNACK),
    Property.SUBSCRIPTION_IDENTIFIER_AVAILABLE: Rule(_FLAG, _CONNACK),
    Property.SHARED_SUBSCRIPTION_AVAILABLE: Rule(_FLAG, _CONNACK),
}
_BY_NUMBER: Final[Mapping[int, Property]] = {int(each): each for each in Property}


def read_properties(fields: Fields, place: Place) -> Properties:
    """The properties that stand next. Raises Malformed."""
    count = fields.length()
    if not count:
        return NO_PROPERTIES
    within = fields.within(count)
    found: dict[Property, Any] = {}
    while within.left:
        number = within.length()
        name = _BY_NUMBER.get(number)
        if name is None:
            raise Malformed(f"there is no property {number:#04x}")
        rule = RULES[name]
        if place not in rule.places:
            raise Malformed(f"{place.name} may not have the property {name.name}")
        value = rule.kind.read(within)
        if rule.repeats:
            found.setdefault(name, []).append(value)
        elif name in found:
            raise Malformed(f"{place.name} has the property {name.name} twice", ReasonCode.PROTOCOL_ERROR)
        else:
            found[name] = value
    for name, value in found.items():
        if isinstance(value, list):
            found[name] = tuple(value)
    if place is Place.SUBSCRIBE and len(found.get(Property.SUBSCRIPTION_IDENTIFIER, ())) > 1:
        raise Malformed("SUBSCRIBE has two subscription identifiers", ReasonCode.PROTOCOL_ERROR)
    if Property.AUTHENTICATION_DATA in found and Property.AUTHENTICATION_METHOD not in found:
        raise Malformed("authentication data without a method", ReasonCode.PROTOCOL_ERROR)
    return found


def properties_bytes(properties: Properties) -> bytes:
    """The properties behind their length."""
    if not properties:
        return b"\0"
    parts: list[bytes] = []
    for name, value in properties.items():
        rule = RULES[name]
        number = _one_byte(name)
        for each in value if rule.repeats else (value,):
            parts.append(number)
            parts.append(rule.kind.write(each))
    joined = b"".join(parts)
    return length_bytes(len(joined)) + joined
