"""The codec beside npm's mqtt-packet: what we write it reads, and what it writes of that we read as the same.

The bytes are the same too, but for answers whose reason or properties may be left out: it always has both.
Left out is what it can't read, or reads as less: `is_read_whole` says what.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.mqtt.core.decoding import decode
from ottla.mqtt.core.encoding import encode
from ottla.mqtt.core.framing import Framing
from ottla.mqtt.core.packets import (
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    Version,
)
from ottla.mqtt.core.properties import Property
from ottla.mqtt.core.reason_codes import ReasonCode
from support.mqtt.drawn_packets import packets
from support.mqtt.node_programs import LineProgram, line_program

pytestmark = [pytest.mark.system("npm"), pytest.mark.slow]


def is_read_whole(packet: Packet) -> bool:
    """Whether mqtt-packet 9.0.2 reads all of it.

    It groups user properties by their names, wants a client id with an old session, a user name with a
    password, and does not know 0x8C in DISCONNECT.
    """
    owners: list[Any] = [packet, packet.will] if isinstance(packet, Connect) else [packet]
    for owner in owners:
        pairs = getattr(owner, "properties", {}).get(Property.USER_PROPERTY, ())
        if len({name for name, _ in pairs}) < len(pairs):
            return False
    match packet:
        case Connect():
            known = packet.clean_start or bool(packet.client_id)
            return known and (packet.password is None or packet.user_name is not None)
        case Disconnect():
            return packet.reason is not ReasonCode.BAD_AUTHENTICATION_METHOD
        case _:
            return True


SHORTENED = (Puback, Pubrec, Pubrel, Pubcomp, Disconnect, Auth)


@pytest.fixture(scope="module")
def mqtt_packet() -> Iterator[LineProgram]:
    with line_program("mqtt_packets.mjs") as program:
        yield program


def one_packet(data: bytes, version: Version) -> Packet:
    framing = Framing(len(data))
    framing.feed(data)
    frame = framing.next()
    assert frame is not None and framing.held == 0
    return decode(*frame, version)


def hex_of(value: Any) -> Any:
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) and set(value) == {"hex"} else value


@pytest.mark.parametrize("version", Version)
def test_both_read_and_write_the_same(mqtt_packet: LineProgram, version: Version) -> None:
    @settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(st.lists(packets(version).filter(is_read_whole), min_size=1, max_size=10))
    def compared(drawn: list[Packet]) -> None:
        ours = [encode(each, version) for each in drawn]
        answers = mqtt_packet.ask([{"version": int(version), "hex": each.hex()} for each in ours])
        for packet, data, answer in zip(drawn, ours, answers, strict=True):
            assert "problem" not in answer, (packet, answer)
            theirs = bytes.fromhex(answer["hex"])
            assert one_packet(theirs, version) == packet
            if not isinstance(packet, SHORTENED):
                assert theirs == data, packet
            (read,) = answer["packets"]
            same_fields(packet, read)

    compared()


def same_fields(packet: Packet, read: dict[str, Any]) -> None:
    """What mqtt-packet read is what we meant, in its own words."""
    assert read["cmd"] == type(packet).__name__.lower()
    match packet:
        case Publish():
            assert read["topic"] == packet.topic
            assert (read["qos"], read["retain"], read["dup"]) == (
                packet.qos,
                packet.retain,
                packet.duplicate,
            )
            assert hex_of(read["payload"]) == packet.payload or read["payload"] == ""
            assert read.get("messageId") == packet.packet_id
        case Connect():
            assert (read["clientId"], read["clean"]) == (packet.client_id, packet.clean_start)
            assert read["keepalive"] == packet.keep_alive_seconds
            assert read.get("username") == packet.user_name
            assert (read.get("will") is None) == (packet.will is None)
        case Connack():
            assert read["sessionPresent"] == packet.session_present
        case Subscribe():
            assert [(each["topic"], each["qos"]) for each in read["subscriptions"]] == [
                (each.filter, each.qos) for each in packet.requests
            ]
        case Puback() | Pubrec() | Pubrel() | Pubcomp():
            assert read["messageId"] == packet.packet_id
        case _:
            pass
