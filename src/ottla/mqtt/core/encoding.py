"""Packets to bytes, by the rules of a version.

A reason of success and no properties are left out where the protocol allows it, so the commonest answers have
four bytes in both versions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.mqtt.core.decoding import PROTOCOL_NAME
from ottla.mqtt.core.fields import binary_bytes, length_bytes, text_bytes, two_bytes
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
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
    Version,
)
from ottla.mqtt.core.properties import Properties, properties_bytes
from ottla.mqtt.core.reason_codes import ReasonCode, return_code

_V5: Final = Version.V5


def encode(packet: Packet, version: Version) -> bytes:
    """The bytes of a packet. Raises ValueError for one that has none in this version."""
    if type(packet) is Puback and not packet.reason and not packet.properties:
        return b"\x40\x02" + packet.packet_id.to_bytes(2, "big")  # the commonest by far
    first_byte, body = _WRITERS[type(packet)](packet, version)
    return bytes((first_byte,)) + length_bytes(len(body)) + body


def _properties(properties: Properties, version: Version) -> bytes:
    return properties_bytes(properties) if version is _V5 else b""


def _connect(packet: Connect, _version: Version) -> tuple[int, bytes]:
    version, will = packet.version, packet.will
    flags = 2 * packet.clean_start
    payload = [text_bytes(packet.client_id)]
    if will is not None:
        flags |= 4 | will.qos << 3 | 0x20 * will.retain
        payload += [_properties(will.properties, version), text_bytes(will.topic), binary_bytes(will.payload)]
    if packet.user_name is not None:
        flags |= 0x80
        payload.append(text_bytes(packet.user_name))
    if packet.password is not None:
        flags |= 0x40
        payload.append(binary_bytes(packet.password))
    head = text_bytes(PROTOCOL_NAME) + bytes((version, flags)) + two_bytes(packet.keep_alive_seconds)
    return 0x10, head + _properties(packet.properties, version) + b"".join(payload)


def _connack(packet: Connack, version: Version) -> tuple[int, bytes]:
    code: int | None = packet.reason
    if version is not _V5:
        code = return_code(packet.reason)
        if code is None:
            raise ValueError(f"MQTT 3.1.1 has no CONNACK for {packet.reason!r}")
    assert code is not None
    return 0x20, bytes((packet.session_present, code)) + _properties(packet.properties, version)


def _publish(packet: Publish, version: Version) -> tuple[int, bytes]:
    flags = 8 * packet.duplicate | packet.qos << 1 | packet.retain
    packet_id = b"" if packet.packet_id is None else two_bytes(packet.packet_id)
    head = text_bytes(packet.topic) + packet_id + _properties(packet.properties, version)
    return 0x30 | flags, head + packet.payload


def _ending(reason: ReasonCode, properties: Properties, version: Version) -> bytes:
    if version is not _V5 or (not reason and not properties):
        return b""
    return bytes((reason,)) + (properties_bytes(properties) if properties else b"")


def _answer(first_byte: int) -> Callable[[Any, Version], tuple[int, bytes]]:
    def write(packet: Puback | Pubrec | Pubrel | Pubcomp, version: Version) -> tuple[int, bytes]:
        return first_byte, two_bytes(packet.packet_id) + _ending(packet.reason, packet.properties, version)

    return write


def _subscribe(packet: Subscribe, version: Version) -> tuple[int, bytes]:
    parts = [two_bytes(packet.packet_id), _properties(packet.properties, version)]
    for each in packet.requests:
        options = each.qos
        if version is _V5:
            options |= 4 * each.no_local | 8 * each.retain_as_published | each.retain_handling << 4
        parts += [text_bytes(each.filter), bytes((options,))]
    return 0x82, b"".join(parts)


def _suback(packet: Suback, version: Version) -> tuple[int, bytes]:
    codes: list[int] = list(packet.reasons)
    if version is not _V5:
        codes = [ReasonCode.UNSPECIFIED_ERROR if each.is_failure else int(each) for each in packet.reasons]
    return 0x90, two_bytes(packet.packet_id) + _properties(packet.properties, version) + bytes(codes)


def _unsubscribe(packet: Unsubscribe, version: Version) -> tuple[int, bytes]:
    head = two_bytes(packet.packet_id) + _properties(packet.properties, version)
    return 0xA2, head + b"".join(map(text_bytes, packet.filters))


def _unsuback(packet: Unsuback, version: Version) -> tuple[int, bytes]:
    if version is not _V5:
        return 0xB0, two_bytes(packet.packet_id)
    return 0xB0, two_bytes(packet.packet_id) + properties_bytes(packet.properties) + bytes(packet.reasons)


def _disconnect(packet: Disconnect, version: Version) -> tuple[int, bytes]:
    return 0xE0, _ending(packet.reason, packet.properties, version)


def _auth(packet: Auth, version: Version) -> tuple[int, bytes]:
    if version is not _V5:
        raise ValueError("MQTT 3.1.1 has no AUTH")
    return 0xF0, _ending(packet.reason, packet.properties, version)


_WRITERS: Final[Mapping[type, Callable[[Any, Version], tuple[int, bytes]]]] = {
    Connect: _connect,
    Connack: _connack,
    Publish: _publish,
    Puback: _answer(0x40),
    Pubrec: _answer(0x50),
    Pubrel: _answer(0x62),
    Pubcomp: _answer(0x70),
    Subscribe: _subscribe,
    Suback: _suback,
    Unsubscribe: _unsubscribe,
    Unsuback: _unsuback,
    Pingreq: lambda _packet, _version: (0xC0, b""),
    Pingresp: lambda _packet, _version: (0xD0, b""),
    Disconnect: _disconnect,
    Auth: _auth,
}
