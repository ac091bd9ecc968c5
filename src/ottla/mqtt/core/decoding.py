"""Bytes to packets: the body of each packet, held against the rules of its version.

A body that breaks a rule raises `Malformed` with the reason code that its sender is told. Nothing else is
raised, whatever the bytes are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ottla.mqtt.core.fields import Fields, Malformed
from ottla.mqtt.core.packets import (
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    RetainHandling,
    Suback,
    Subscribe,
    SubscriptionRequest,
    Unsuback,
    Unsubscribe,
    Version,
    Will,
)
from ottla.mqtt.core.properties import NO_PROPERTIES, Place, Properties, Property, read_properties
from ottla.mqtt.core.reason_codes import REASON_CODES, ReasonCode, return_code
from ottla.mqtt.core.topics import is_filter, is_name

PROTOCOL_NAME: Final = "MQTT"
_OLD_NAME: Final = "MQIsdp"

_V5: Final = Version.V5
_PUBLISH: Final = Place.PUBLISH.value
_AUTH: Final = Place.AUTH.value
_RETURN_CODES: Final[Mapping[int, ReasonCode]] = {
    0: ReasonCode.SUCCESS,
    1: ReasonCode.UNSUPPORTED_PROTOCOL_VERSION,
    2: ReasonCode.CLIENT_IDENTIFIER_NOT_VALID,
    3: ReasonCode.SERVER_UNAVAILABLE,
    4: ReasonCode.BAD_USER_NAME_OR_PASSWORD,
    5: ReasonCode.NOT_AUTHORIZED,
}
_R: Final = ReasonCode
_PUBLISH_ANSWERS: Final = frozenset(
    {
        _R.SUCCESS,
        _R.NO_MATCHING_SUBSCRIBERS,
        _R.UNSPECIFIED_ERROR,
        _R.IMPLEMENTATION_SPECIFIC_ERROR,
        _R.NOT_AUTHORIZED,
        _R.TOPIC_NAME_INVALID,
        _R.PACKET_IDENTIFIER_IN_USE,
        _R.QUOTA_EXCEEDED,
        _R.PAYLOAD_FORMAT_INVALID,
    }
)
_RELEASES: Final = frozenset({_R.SUCCESS, _R.PACKET_IDENTIFIER_NOT_FOUND})
_SUBSCRIBE_ANSWERS: Final = frozenset(
    {
        _R.SUCCESS,
        _R.GRANTED_QOS_1,
        _R.GRANTED_QOS_2,
        _R.UNSPECIFIED_ERROR,
        _R.IMPLEMENTATION_SPECIFIC_ERROR,
        _R.NOT_AUTHORIZED,
        _R.TOPIC_FILTER_INVALID,
        _R.PACKET_IDENTIFIER_IN_USE,
        _R.QUOTA_EXCEEDED,
        _R.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED,
        _R.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED,
        _R.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED,
    }
)
_UNSUBSCRIBE_ANSWERS: Final = frozenset(
    {
        _R.SUCCESS,
        _R.NO_SUBSCRIPTION_EXISTED,
        _R.UNSPECIFIED_ERROR,
        _R.IMPLEMENTATION_SPECIFIC_ERROR,
        _R.NOT_AUTHORIZED,
        _R.TOPIC_FILTER_INVALID,
        _R.PACKET_IDENTIFIER_IN_USE,
    }
)
_AUTH_STEPS: Final = frozenset({_R.SUCCESS, _R.CONTINUE_AUTHENTICATION, _R.RE_AUTHENTICATE})
_OF_CONNACK_ALONE: Final = frozenset(
    {
        _R.UNSUPPORTED_PROTOCOL_VERSION,
        _R.CLIENT_IDENTIFIER_NOT_VALID,
        _R.BAD_USER_NAME_OR_PASSWORD,
        _R.SERVER_UNAVAILABLE,
        _R.BANNED,
    }
)
_OF_ANSWERS_ALONE: Final = frozenset({_R.PACKET_IDENTIFIER_IN_USE, _R.PACKET_IDENTIFIER_NOT_FOUND})
_DISCONNECTS: Final = (
    frozenset({_R.SUCCESS, _R.DISCONNECT_WITH_WILL} | {each for each in ReasonCode if each.is_failure})
    - _OF_CONNACK_ALONE
    - _OF_ANSWERS_ALONE
)
_OF_DISCONNECT_ALONE: Final = frozenset(
    {
        _R.SERVER_SHUTTING_DOWN,
        _R.KEEP_ALIVE_TIMEOUT,
        _R.SESSION_TAKEN_OVER,
        _R.TOPIC_FILTER_INVALID,
        _R.RECEIVE_MAXIMUM_EXCEEDED,
        _R.TOPIC_ALIAS_INVALID,
        _R.MESSAGE_RATE_TOO_HIGH,
        _R.ADMINISTRATIVE_ACTION,
        _R.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED,
        _R.MAXIMUM_CONNECT_TIME,
        _R.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED,
        _R.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED,
    }
)
_CONNACKS: Final = (
    frozenset({_R.SUCCESS} | {each for each in ReasonCode if each.is_failure})
    - _OF_DISCONNECT_ALONE
    - _OF_ANSWERS_ALONE
)


class UnsupportedVersion(Malformed):
    """A CONNECT of another version of the protocol."""

    def __init__(self, text: str) -> None:
        super().__init__(text, ReasonCode.UNSUPPORTED_PROTOCOL_VERSION)


def decode(first_byte: int, body: bytes, version: Version) -> Packet:
    """The packet of a fixed header's first byte and what follows its length. Raises Malformed.

    version: of the connection; of CONNECT it is the packet's own.
    """
    kind, flags = first_byte >> 4, first_byte & 0x0F
    if kind == _PUBLISH:
        return _publish(flags, body, version)
    reader = _READERS.get(kind)
    if reader is None or (kind == _AUTH and version is not _V5):
        raise Malformed(f"there is no packet of type {kind}")
    if flags != _FLAGS.get(kind, 0):
        raise Malformed(f"a packet of type {kind} has the flags {flags:#03x}")
    fields = Fields(body)
    packet = reader(fields, version)
    fields.require_end()
    return packet


def _publish(flags: int, body: bytes, version: Version) -> Publish:
    qos = flags >> 1 & 3
    if qos == 3:
        raise Malformed("PUBLISH has both bits of QoS")
    duplicate = bool(flags & 8)
    if duplicate and not qos:
        raise Malformed("PUBLISH of QoS 0 says that it is sent again")
    fields = Fields(body)
    topic = fields.text()
    packet_id = _packet_id(fields) if qos else None
    properties = read_properties(fields, Place.PUBLISH) if version is _V5 else NO_PROPERTIES
    if topic:
        if not is_name(topic):
            raise Malformed("the topic of PUBLISH has a wildcard", ReasonCode.TOPIC_NAME_INVALID)
    elif Property.TOPIC_ALIAS not in properties:
        raise Malformed("PUBLISH has no topic", ReasonCode.PROTOCOL_ERROR)
    _require_response_topic(properties)
    return Publish(topic, fields.rest(), qos, bool(flags & 1), duplicate, packet_id, properties)


def _require_response_topic(properties: Properties) -> None:
    response = properties.get(Property.RESPONSE_TOPIC)
    if response is not None and not is_name(response):
        raise Malformed("the response topic is no topic's name", ReasonCode.PROTOCOL_ERROR)


def _packet_id(fields: Fields) -> int:
    found = fields.two()
    if not found:
        raise Malformed("the packet identifier is 0", ReasonCode.PROTOCOL_ERROR)
    return found


def _connect(fields: Fields, _version: Version) -> Connect:
    name = fields.text()
    if name == _OLD_NAME:
        raise UnsupportedVersion("MQTT 3.1 is not spoken here, 3.1.1 and 5 are")
    if name != PROTOCOL_NAME:
        raise Malformed("the protocol is not MQTT")
    number = fields.byte()
    if number not in (Version.V3_1_1, Version.V5):
        raise UnsupportedVersion(f"version {number} of the protocol is not spoken here, 4 and 5 are")
    version = Version(number)
    flags = fields.byte()
    if flags & 1:
        raise Malformed("CONNECT has the reserved flag")
    has_will, will_qos, will_retain = bool(flags & 4), flags >> 3 & 3, bool(flags & 0x20)
    if will_qos == 3 or (not has_will and (will_qos or will_retain)):
        raise Malformed("the flags of the will contradict each other")
    has_password, has_user_name = bool(flags & 0x40), bool(flags & 0x80)
    if has_password and not has_user_name and version is not _V5:
        raise Malformed("CONNECT has a password and no user name")
    keep_alive = fields.two()
    properties = read_properties(fields, Place.CONNECT) if version is _V5 else NO_PROPERTIES
    client_id = fields.text()
    will = _will(fields, version, will_qos, will_retain) if has_will else None
    user_name = fields.text() if has_user_name else None
    password = fields.binary() if has_password else None
    clean_start = bool(flags & 2)
    return Connect(version, client_id, clean_start, keep_alive, user_name, password, will, properties)


def _will(fields: Fields, version: Version, qos: int, retain: bool) -> Will:
    properties = read_properties(fields, Place.WILL) if version is _V5 else NO_PROPERTIES
    topic = fields.text()
    if not is_name(topic):
        raise Malformed("the topic of the will is no topic's name", ReasonCode.TOPIC_NAME_INVALID)
    _require_response_topic(properties)
    return Will(topic, fields.binary(), qos, retain, properties)


def _connack(fields: Fields, version: Version) -> Connack:
    flags = fields.byte()
    if flags > 1:
        raise Malformed("CONNACK has reserved flags")
    code = fields.byte()
    if version is not _V5:
        if code not in _RETURN_CODES:
            raise Malformed(f"CONNACK has the return code {code}")
        return Connack(_RETURN_CODES[code], bool(flags))
    reason = REASON_CODES.get(code)
    if reason not in _CONNACKS or reason is None:
        raise Malformed(f"CONNACK has the reason {code:#04x}")
    return Connack(reason, bool(flags), read_properties(fields, Place.CONNACK))


def _ending(
    fields: Fields, version: Version, place: Place, known: frozenset[ReasonCode]
) -> tuple[ReasonCode, Properties]:
    """A reason and properties, both of which may be left out."""
    if not fields.left or version is not _V5:
        return ReasonCode.SUCCESS, NO_PROPERTIES
    reason = _known(fields.byte(), place, known)
    return reason, read_properties(fields, place) if fields.left else NO_PROPERTIES


def _known(code: int, place: Place, known: frozenset[ReasonCode]) -> ReasonCode:
    reason = REASON_CODES.get(code)
    if reason is None or reason not in known:
        raise Malformed(f"{place.name} has the reason {code:#04x}", ReasonCode.PROTOCOL_ERROR)
    return reason


def _puback(fields: Fields, version: Version) -> Puback:
    return Puback(_packet_id(fields), *_ending(fields, version, Place.PUBACK, _PUBLISH_ANSWERS))


def _pubrec(fields: Fields, version: Version) -> Pubrec:
    return Pubrec(_packet_id(fields), *_ending(fields, version, Place.PUBREC, _PUBLISH_ANSWERS))


def _pubrel(fields: Fields, version: Version) -> Pubrel:
    return Pubrel(_packet_id(fields), *_ending(fields, version, Place.PUBREL, _RELEASES))


def _pubcomp(fields: Fields, version: Version) -> Pubcomp:
    return Pubcomp(_packet_id(fields), *_ending(fields, version, Place.PUBCOMP, _RELEASES))


def _subscribe(fields: Fields, version: Version) -> Subscribe:
    packet_id = _packet_id(fields)
    properties = read_properties(fields, Place.SUBSCRIBE) if version is _V5 else NO_PROPERTIES
    requests: list[SubscriptionRequest] = []
    while fields.left:
        filter_ = fields.text()
        if not is_filter(filter_):
            raise Malformed("SUBSCRIBE has a filter that is none", ReasonCode.TOPIC_FILTER_INVALID)
        requests.append(_request(filter_, fields.byte(), version))
    if not requests:
        raise Malformed("SUBSCRIBE has no filter", ReasonCode.PROTOCOL_ERROR)
    return Subscribe(packet_id, tuple(requests), properties)


def _request(filter_: str, options: int, version: Version) -> SubscriptionRequest:
    qos = options & 3
    if qos == 3 or options & (0xC0 if version is _V5 else 0xFC):
        raise Malformed("SUBSCRIBE has options that are reserved")
    if version is not _V5:
        return SubscriptionRequest(filter_, qos)
    handling = options >> 4 & 3
    if handling == 3:
        raise Malformed("SUBSCRIBE has a retain handling of 3", ReasonCode.PROTOCOL_ERROR)
    no_local = bool(options & 4)
    if no_local and filter_.startswith("$share/"):
        raise Malformed("a shared subscription with No Local", ReasonCode.PROTOCOL_ERROR)
    return SubscriptionRequest(filter_, qos, no_local, bool(options & 8), RetainHandling(handling))


def _suback(fields: Fields, version: Version) -> Suback:
    packet_id = _packet_id(fields)
    if version is _V5:
        properties = read_properties(fields, Place.SUBACK)
        codes = (_known(code, Place.SUBACK, _SUBSCRIBE_ANSWERS) for code in fields.rest())
        return Suback(packet_id, tuple(codes), properties)
    known = frozenset({_R.SUCCESS, _R.GRANTED_QOS_1, _R.GRANTED_QOS_2, _R.UNSPECIFIED_ERROR})
    return Suback(packet_id, tuple(_known(code, Place.SUBACK, known) for code in fields.rest()))


def _unsubscribe(fields: Fields, version: Version) -> Unsubscribe:
    packet_id = _packet_id(fields)
    properties = read_properties(fields, Place.UNSUBSCRIBE) if version is _V5 else NO_PROPERTIES
    filters: list[str] = []
    while fields.left:
        filters.append(fields.text())
        if not is_filter(filters[-1]):
            raise Malformed("UNSUBSCRIBE has a filter that is none", ReasonCode.TOPIC_FILTER_INVALID)
    if not filters:
        raise Malformed("UNSUBSCRIBE has no filter", ReasonCode.PROTOCOL_ERROR)
    return Unsubscribe(packet_id, tuple(filters), properties)


def _unsuback(fields: Fields, version: Version) -> Unsuback:
    packet_id = _packet_id(fields)
    if version is not _V5:
        return Unsuback(packet_id)
    properties = read_properties(fields, Place.UNSUBACK)
    codes = (_known(code, Place.UNSUBACK, _UNSUBSCRIBE_ANSWERS) for code in fields.rest())
    return Unsuback(packet_id, tuple(codes), properties)


def _disconnect(fields: Fields, version: Version) -> Disconnect:
    return Disconnect(*_ending(fields, version, Place.DISCONNECT, _DISCONNECTS))


def _auth(fields: Fields, version: Version) -> Auth:
    reason, properties = _ending(fields, version, Place.AUTH, _AUTH_STEPS)
    if Property.AUTHENTICATION_METHOD not in properties:
        raise Malformed("AUTH has no authentication method", ReasonCode.PROTOCOL_ERROR)
    return Auth(reason, properties)


_FLAGS: Final[Mapping[int, int]] = {
    Place.PUBREL.value: 2,
    Place.SUBSCRIBE.value: 2,
    Place.UNSUBSCRIBE.value: 2,
}
_READERS: Final[Mapping[int, Callable[[Fields, Version], Packet]]] = {
    Place.CONNECT.value: _connect,
    Place.CONNACK.value: _connack,
    Place.PUBACK.value: _puback,
    Place.PUBREC.value: _pubrec,
    Place.PUBREL.value: _pubrel,
    Place.PUBCOMP.value: _pubcomp,
    Place.SUBSCRIBE.value: _subscribe,
    Place.SUBACK.value: _suback,
    Place.UNSUBSCRIBE.value: _unsubscribe,
    Place.UNSUBACK.value: _unsuback,
    12: lambda _fields, _version: Pingreq(),
    13: lambda _fields, _version: Pingresp(),
    Place.DISCONNECT.value: _disconnect,
    Place.AUTH.value: _auth,
}
assert all(return_code(reason) == code for code, reason in _RETURN_CODES.items())
