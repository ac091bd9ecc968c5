"""The normative statements of MQTT 5 that bind a server, a row each: what is said, and what comes of it.

A row's bytes and packets come from one client; `opens` puts a CONNECT before them. Statements that bind
clients alone have no row; those about what this server tells its clients that it does not have (QoS 2,
shared subscriptions) have that of its refusal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ottla.mqtt.core.connection import Ended, FoundRetained, Limits, Refused, Rejected, Reread, Stored
from ottla.mqtt.core.encoding import encode
from ottla.mqtt.core.fields import length_bytes, text_bytes, two_bytes
from ottla.mqtt.core.messages import Message, headers
from ottla.mqtt.core.packets import (
    Auth,
    Connack,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Publish,
    Suback,
    Subscribe,
    SubscriptionRequest,
    Unsuback,
    Unsubscribe,
    Version,
    Will,
)
from ottla.mqtt.core.properties import Properties, Property
from ottla.mqtt.core.reason_codes import ReasonCode
from ottla.mqtt.core.subscriptions import Arrived
from support.mqtt.talk import LIMITS, Talk

V5, V3 = Version.V5, Version.V3_1_1
R = ReasonCode
P = Property


def connect(**given: Any) -> Connect:
    return Connect(**{"version": V5, "client_id": "c", **given})


def publish(topic: str = "t", packet_id: int | None = None, **given: Any) -> Publish:
    qos = 0 if packet_id is None else 1
    return Publish(**{"topic": topic, "payload": b"x", "qos": qos, "packet_id": packet_id, **given})


def subscribe(
    *filters: str,
    identifier: int | None = None,
    qos: int = 0,
    no_local: bool = False,
    as_published: bool = False,
) -> Subscribe:
    requests = tuple(SubscriptionRequest(each, qos, no_local, as_published) for each in filters)
    return Subscribe(9, requests, {} if identifier is None else {P.SUBSCRIPTION_IDENTIFIER: (identifier,)})


def arrived(
    topic: str,
    properties: Properties | None = None,
    publisher: str = "other",
    age_seconds: float = 0,
    at: int | None = None,
    **given: Any,
) -> Arrived:
    message = Message(topic, b"x", properties=properties or {}, **given)
    return Arrived(message, publisher, age_seconds, None if at is None else (("t", 0), at))


def three(qos: int = 1) -> tuple[Arrived, ...]:
    return tuple(arrived("a", qos=qos, at=offset) for offset in range(3))


def packet_ids(*expected: int) -> Callable[[Talk], bool]:
    return lambda talk: [each.packet_id for each in talk.sent if isinstance(each, Publish)] == [*expected]


def delivered(topic: str, properties: Properties | None = None) -> Callable[[Talk], bool]:
    return lambda talk: talk.last == Publish(topic, b"x", properties=properties or {})


def silent(talk: Talk) -> bool:
    return not any(isinstance(each, Publish) for each in talk.sent)


RETAINS_NOTHING = replace(LIMITS, retains=False)
WILL = Will("will", b"gone")


@dataclass(frozen=True, slots=True)
class Row:
    """told: the reason of the last packet (of CONNACK, DISCONNECT or PUBACK). holds: what is true besides."""

    statement: str
    says: tuple[Any, ...]
    told: ReasonCode | None = None
    ends: bool = False
    holds: Callable[[Talk], bool] | None = None
    opens: Connect | None = field(default_factory=connect)
    keeps: bool = False
    limits: Limits = LIMITS


def raw(first_byte: int, *parts: bytes) -> bytes:
    """A packet of any bytes, with their right length."""
    body = b"".join(parts)
    return bytes((first_byte,)) + length_bytes(len(body)) + body


def raw_connect(flags: int, *payload: bytes, name: str = "MQTT", version: int = 5) -> bytes:
    """A CONNECT of any flags and payload."""
    properties = b"\0" if version == 5 else b""
    return raw(0x10, text_bytes(name), bytes((version, flags)), two_bytes(60), properties, *payload)


def breaks(
    statement: str, data: bytes, because: str, told: ReasonCode | None = R.MALFORMED_PACKET, **given: Any
) -> Row:
    """Bytes that end a connection. because: a piece of what the log says."""
    return Row(statement, (data,), told, True, lambda talk: because in (talk.problem or ""), **given)


def no_connect(statement: str, data: bytes, because: str) -> Row:
    """Bytes that are no CONNECT: the connection ends without a word."""
    return breaks(statement, data, because, None, opens=None)


def sends(kind: type, **expected: Any) -> Callable[[Talk], bool]:
    def holds(talk: Talk) -> bool:
        return any(
            isinstance(each, kind) and all(getattr(each, name) == value for name, value in expected.items())
            for each in talk.sent
        )

    return holds


def granted(name: Property, value: Any) -> Callable[[Talk], bool]:
    return lambda talk: talk.sent[0].properties.get(name) == value  # type: ignore[union-attr]


FIRST = [
    Row("MQTT-3.1.0-1", (Pingreq(),), ends=True, opens=None, holds=lambda talk: not talk.sent),
    Row("MQTT-3.1.0-2", (connect(),), R.PROTOCOL_ERROR, ends=True),
    Row(
        "MQTT-3.1.2-4",
        (),
        R.SUCCESS,
        holds=lambda talk: talk.sent[0] == Connack(R.SUCCESS, False, talk.sent[0].properties),
    ),  # type: ignore[union-attr]
    Row(
        "MQTT-3.1.2-6",
        (),
        R.SUCCESS,
        opens=connect(clean_start=False),
        holds=sends(Connack, session_present=False),
    ),
    Row(
        "MQTT-3.1.2-8",
        (Ended.LOST,),
        ends=True,
        opens=connect(will=WILL),
        holds=lambda talk: talk.messages[0].topic == "will",
    ),
    Row(
        "MQTT-3.1.2-8",
        (Ended.SILENT,),
        ends=True,
        opens=connect(will=WILL),
        holds=lambda talk: len(talk.messages) == 1,
    ),
    Row(
        "MQTT-3.1.2-8",
        (Ended.TAKEN_OVER,),
        ends=True,
        opens=connect(will=WILL),
        holds=lambda talk: len(talk.messages) == 1,
    ),
    Row(
        "MQTT-3.1.2-8",
        (b"\x00\x00",),
        ends=True,
        opens=connect(will=WILL),
        holds=lambda talk: len(talk.messages) == 1,
    ),
    Row(
        "MQTT-3.1.2-10",
        (Disconnect(),),
        ends=True,
        opens=connect(will=WILL),
        holds=lambda talk: not talk.messages,
    ),
    Row(
        "MQTT-3.14.4-3",
        (Disconnect(R.DISCONNECT_WITH_WILL),),
        ends=True,
        opens=connect(will=WILL),
        holds=lambda talk: len(talk.messages) == 1,
    ),
    Row(
        "MQTT-3.1.2-21",
        (),
        R.SUCCESS,
        opens=connect(keep_alive_seconds=300),
        holds=granted(P.SERVER_KEEP_ALIVE, 100),
    ),
    Row(
        "MQTT-3.1.2-22",
        (),
        R.SUCCESS,
        opens=connect(keep_alive_seconds=10),
        holds=lambda talk: talk.silence_seconds == 15,
    ),
    Row("MQTT-3.1.2-22", (Ended.SILENT,), R.KEEP_ALIVE_TIMEOUT, ends=True),
    Row(
        "MQTT-3.1.2-24",
        (Pingreq(),),
        ends=True,
        opens=connect(properties={P.MAXIMUM_PACKET_SIZE: 10}),
        holds=lambda talk: not talk.sent,
    ),
    Row(
        "MQTT-3.1.2-25",
        (publish(), b"\x00\x00"),
        R.MALFORMED_PACKET,
        ends=True,
        opens=connect(properties={P.MAXIMUM_PACKET_SIZE: 60}),
        holds=lambda talk: len(encode(talk.last, V5)) <= 60,
    ),
    Row(
        "MQTT-3.1.2-29",
        (publish("refused", 1),),
        R.NOT_AUTHORIZED,
        opens=connect(properties={P.REQUEST_PROBLEM_INFORMATION: 0}),
        holds=lambda talk: not talk.last.properties,  # type: ignore[union-attr]
    ),
    Row(
        "MQTT-3.1.3-5",
        (),
        R.SUCCESS,
        opens=connect(client_id="0123456789abcdefghijABC"),
        holds=granted(P.ASSIGNED_CLIENT_IDENTIFIER, None),
    ),
    Row(
        "MQTT-3.1.3-6",
        (),
        R.SUCCESS,
        opens=connect(client_id=""),
        holds=lambda talk: talk.machine.client_id == "assigned",
    ),
    Row(
        "MQTT-3.1.3-7",
        (),
        R.SUCCESS,
        opens=connect(client_id=""),
        holds=granted(P.ASSIGNED_CLIENT_IDENTIFIER, "assigned"),
    ),
    Row("MQTT-3.1.4-3", (Ended.TAKEN_OVER,), R.SESSION_TAKEN_OVER, ends=True),
    Row("MQTT-3.1.4-5", (), R.SUCCESS),
    Row(
        "MQTT-3.2.0-2",
        (publish(packet_id=1), Pingreq()),
        holds=lambda talk: sum(isinstance(each, Connack) for each in talk.sent) == 1,
    ),
    Row("MQTT-3.2.2-2", (), R.SUCCESS, holds=sends(Connack, session_present=False)),
    Row("MQTT-3.2.2-9", (), R.SUCCESS, holds=granted(P.MAXIMUM_QOS, 1)),
    Row("MQTT-3.2.2-11", (publish(packet_id=1, qos=2),), R.QOS_NOT_SUPPORTED, ends=True),
    Row("MQTT-3.2.2-12", (), R.QOS_NOT_SUPPORTED, ends=True, opens=connect(will=Will("w", b"", 2))),
    Row(
        "MQTT-3.2.2-13",
        (),
        R.RETAIN_NOT_SUPPORTED,
        ends=True,
        opens=connect(will=Will("w", b"", 1, True)),
        limits=RETAINS_NOTHING,
    ),
    Row(
        "MQTT-3.2.2-14",
        (publish(retain=True),),
        R.RETAIN_NOT_SUPPORTED,
        ends=True,
        limits=RETAINS_NOTHING,
    ),
    Row("3.2.2.3.5", (), R.SUCCESS, holds=granted(P.RETAIN_AVAILABLE, 1)),
    Row("3.2.2.3.5", (), R.SUCCESS, holds=granted(P.RETAIN_AVAILABLE, 0), limits=RETAINS_NOTHING),
    Row("MQTT-3.2.2-15", (b"\x30\x91\x4e",), R.PACKET_TOO_LARGE, ends=True),
    Row("MQTT-3.2.2-17", (), R.SUCCESS, holds=granted(P.TOPIC_ALIAS_MAXIMUM, 5)),
]

ID = two_bytes(1)
C = text_bytes("c")
NONE = b"\0"
CONNECT_FORMAT = [
    no_connect("MQTT-3.1.2-1", raw_connect(2, C, name="MQTX"), "not MQTT"),
    Row(
        "MQTT-3.1.2-2",
        (raw_connect(2, C, version=6),),
        R.UNSUPPORTED_PROTOCOL_VERSION,
        ends=True,
        opens=None,
    ),
    no_connect("MQTT-3.1.2-3", raw_connect(3, C), "reserved flag"),
    no_connect("MQTT-3.1.2-9", raw_connect(2 | 4, C), "ends within a field"),
    no_connect("MQTT-3.1.2-11", raw_connect(2 | 8, C), "flags of the will"),
    no_connect("MQTT-3.1.2-12", raw_connect(2 | 4 | 0x18, C, NONE, C, C), "flags of the will"),
    no_connect("MQTT-3.1.2-13", raw_connect(2 | 0x20, C), "flags of the will"),
    no_connect("MQTT-3.1.2-16", raw_connect(2, C, C), "behind its end"),
    no_connect("MQTT-3.1.2-17", raw_connect(2 | 0x80, C), "ends within a field"),
    no_connect("MQTT-3.1.2-18", raw_connect(2 | 0x80, C, C, C), "behind its end"),
    no_connect("MQTT-3.1.2-19", raw_connect(2 | 0x40, C), "ends within a field"),
    no_connect("MQTT-3.1.3-3", raw_connect(2), "ends within a field"),
    no_connect("MQTT-3.1.3-4", raw_connect(2, two_bytes(1), b"\xff"), "not UTF-8"),
    no_connect("MQTT-3.1.3-11", raw_connect(2 | 4, C, NONE, text_bytes("a/#"), C), "no topic's name"),
]

FORMAT = [
    breaks("MQTT-1.5.4-1", raw(0x30, two_bytes(3), b"\xed\xa0\x80", NONE), "not UTF-8"),
    breaks("MQTT-1.5.4-2", raw(0x30, two_bytes(1), b"\0", NONE), "null character"),
    Row(
        "MQTT-1.5.4-3",
        (raw(0x30, two_bytes(4), b"\xef\xbb\xbfa", NONE),),
        holds=lambda talk: talk.messages[0].topic == "\ufeffa",
    ),
    breaks("MQTT-1.5.5-1", bytes((0x30, 0x84, 0x00)), "more bytes than it needs"),
    breaks("MQTT-1.5.5-1", bytes((0x30, 0xFF, 0xFF, 0xFF, 0xFF, 0x01)), "more than four bytes"),
    breaks("MQTT-2.1.3-1", raw(0xC1), "has the flags"),
    breaks("MQTT-2.2.1-3", raw(0x32, text_bytes("t"), two_bytes(0), NONE), "is 0", R.PROTOCOL_ERROR),
    breaks("MQTT-2.2.2-1", raw(0x30, text_bytes("t")), "ends within a field"),
    breaks("MQTT-2.2.2-2", raw(0x30, text_bytes("t"), b"\x02\x11\0"), "may not have the property"),
    breaks("MQTT-2.2.2-2", raw(0x30, text_bytes("t"), b"\x02\x7f\0"), "no property"),
    breaks("MQTT-3.3.1-2", raw(0x38, text_bytes("t"), NONE), "sent again"),
    breaks("MQTT-3.3.1-4", raw(0x36, text_bytes("t"), ID, NONE), "both bits"),
    breaks("MQTT-3.3.2-1", raw(0x30, two_bytes(9), b"t"), "ends within a field"),
    breaks("MQTT-3.3.2-2", raw(0x30, text_bytes("a/+"), NONE), "wildcard", R.TOPIC_NAME_INVALID),
    breaks("MQTT-3.6.1-1", raw(0x60, ID), "has the flags"),
    breaks("MQTT-3.8.1-1", raw(0x80, ID, NONE, text_bytes("t"), NONE), "has the flags"),
    breaks("MQTT-3.8.3-2", raw(0x82, ID, NONE), "no filter", R.PROTOCOL_ERROR),
    breaks(
        "MQTT-3.8.3-4",
        raw(0x82, ID, NONE, text_bytes("$share/g/t"), b"\x04"),
        "No Local",
        R.PROTOCOL_ERROR,
    ),
    breaks("MQTT-3.8.3-5", raw(0x82, ID, NONE, text_bytes("t"), b"\x40"), "reserved"),
    breaks("MQTT-3.10.1-1", raw(0xA0, ID, NONE, text_bytes("t")), "has the flags"),
    breaks("MQTT-3.10.3-2", raw(0xA2, ID, NONE), "no filter", R.PROTOCOL_ERROR),
    breaks("MQTT-3.14.1-1", raw(0xE1), "has the flags"),
    breaks("MQTT-3.15.1-1", raw(0xF1), "has the flags"),
    breaks("MQTT-4.7.0-1", raw(0x30, text_bytes("#"), NONE), "wildcard", R.TOPIC_NAME_INVALID),
    *(
        breaks(
            statement,
            raw(0x82, ID, NONE, text_bytes(filter_), NONE),
            "a filter that is none",
            R.TOPIC_FILTER_INVALID,
        )
        for statement, filter_ in (
            ("MQTT-4.7.1-1", "a#"),
            ("MQTT-4.7.1-1", "a/#/b"),
            ("MQTT-4.7.1-2", "a+"),
            ("MQTT-4.7.3-1", ""),
            ("MQTT-4.8.2-1", "$share//t"),
            ("MQTT-4.8.2-2", "$share/a+/t"),
            ("MQTT-4.8.2-2", "$share/a"),
        )
    ),
    breaks("MQTT-4.13.1-1", raw(0x00), "no packet of type"),
]

MESSAGES = [
    Row("MQTT-2.2.1-5", (publish(packet_id=7),), holds=lambda talk: talk.last == Puback(7)),
    Row(
        "MQTT-3.3.2-4",
        (publish("a", properties={P.PAYLOAD_FORMAT_INDICATOR: 1}),),
        holds=lambda talk: ("mqtt.payload.format", b"1") in headers(talk.messages[0], "c"),
    ),
    Row("MQTT-3.3.2-8", (publish(properties={P.TOPIC_ALIAS: 0}),), R.TOPIC_ALIAS_INVALID, ends=True),
    Row("MQTT-3.3.2-9", (publish(properties={P.TOPIC_ALIAS: 6}),), R.TOPIC_ALIAS_INVALID, ends=True),
    Row(
        "MQTT-3.3.2-12",
        (publish("long", properties={P.TOPIC_ALIAS: 5}), publish("", properties={P.TOPIC_ALIAS: 5})),
        holds=lambda talk: [each.topic for each in talk.messages] == ["long", "long"],
    ),
    Row(
        "MQTT-3.3.2-12",
        (
            publish("one", properties={P.TOPIC_ALIAS: 1}),
            publish("two", properties={P.TOPIC_ALIAS: 1}),
            publish("", properties={P.TOPIC_ALIAS: 1}),
        ),
        holds=lambda talk: [each.topic for each in talk.messages] == ["one", "two", "two"],
    ),
    Row("MQTT-3.3.2-7", (publish("", properties={P.TOPIC_ALIAS: 2}),), R.PROTOCOL_ERROR, ends=True),
    Row("MQTT-3.3.2-13", (publish("", properties={P.RESPONSE_TOPIC: "r"}),), R.PROTOCOL_ERROR, ends=True),
    Row("MQTT-3.3.2-14", (publish(properties={P.RESPONSE_TOPIC: "a/+"}),), R.PROTOCOL_ERROR, ends=True),
    Row(
        "MQTT-3.3.2-15",
        (publish(properties={P.RESPONSE_TOPIC: "r"}),),
        holds=lambda talk: ("mqtt.response.topic", b"r") in headers(talk.messages[0], "c"),
    ),
    Row(
        "MQTT-3.3.2-16",
        (publish(properties={P.CORRELATION_DATA: b"\0\1"}),),
        holds=lambda talk: ("mqtt.correlation.data", b"\0\1") in headers(talk.messages[0], "c"),
    ),
    Row(
        "MQTT-3.3.2-17",
        (publish(properties={P.USER_PROPERTY: (("b", "1"), ("a", "2"), ("b", "3"))}),),
        holds=lambda talk: headers(talk.messages[0], "c")[3:] == [("b", b"1"), ("a", b"2"), ("b", b"3")],
    ),
    Row(
        "MQTT-3.3.2-20",
        (publish(properties={P.CONTENT_TYPE: "text/plain"}),),
        holds=lambda talk: ("mqtt.content.type", b"text/plain") in headers(talk.messages[0], "c"),
    ),
    Row("MQTT-3.3.4-1", (publish(packet_id=1),), R.SUCCESS, holds=sends(Puback, packet_id=1)),
    Row(
        "MQTT-3.3.4-6", (publish(properties={P.SUBSCRIPTION_IDENTIFIER: (1,)}),), R.PROTOCOL_ERROR, ends=True
    ),
    Row(
        "MQTT-3.3.4-7",
        tuple(publish(packet_id=n) for n in range(1, 7)),
        keeps=True,
        holds=lambda talk: talk.machine.is_full and not talk.is_closed,
    ),
    Row(
        "MQTT-3.3.4-7",
        tuple(publish(packet_id=n) for n in range(1, 6)),
        keeps=True,
        holds=lambda talk: not talk.machine.is_full,
    ),
    Row(
        "MQTT-4.9.0-3",
        (*(publish(packet_id=n) for n in range(1, 4)), Pingreq()),
        keeps=True,
        holds=lambda talk: talk.last == Pingresp(),
    ),
    Row(
        "MQTT-4.9.0-1",
        (*(publish(packet_id=n) for n in range(1, 4)), Stored(2), publish(packet_id=2)),
        keeps=True,
        holds=lambda talk: talk.machine.under_way == 3 and not talk.is_closed,
    ),
    Row("MQTT-4.3.1-1", (publish(),), holds=lambda talk: len(talk.sent) == 1),
    Row("MQTT-4.3.2-4", (publish(packet_id=1),), keeps=True, holds=lambda talk: len(talk.sent) == 1),
    Row(
        "MQTT-4.3.2-4",
        (publish(packet_id=1), Stored(1)),
        R.SUCCESS,
        keeps=True,
        holds=sends(Puback, packet_id=1),
    ),
    Row(
        "MQTT-4.3.2-5",
        (publish(packet_id=1), publish(packet_id=1)),
        holds=lambda talk: len(talk.messages) == 2,
    ),
    Row(
        "MQTT-4.3.2-5", (publish(packet_id=1), publish(packet_id=1)), R.PROTOCOL_ERROR, ends=True, keeps=True
    ),
    Row("MQTT-4.7.3-4", (publish("/A//b/"),), holds=lambda talk: talk.messages[0].topic == "/A//b/"),
    Row("MQTT-4.5.0-1", (publish("refused", 1),), R.NOT_AUTHORIZED),
    Row(
        "MQTT-4.5.0-1",
        (publish(packet_id=1), Refused(1, R.SERVER_BUSY, "")),
        R.SERVER_BUSY,
        ends=True,
        keeps=True,
    ),
]

OTHERS = [
    Row("MQTT-3.12.4-1", (Pingreq(),), holds=lambda talk: talk.last == Pingresp()),
    Row(
        "MQTT-3.14.0-1",
        (Rejected(R.NOT_AUTHORIZED, "no"),),
        ends=True,
        opens=None,
        holds=lambda talk: not talk.sent,
    ),
    Row(
        "MQTT-3.14.2-2", (Disconnect(properties={P.SESSION_EXPIRY_INTERVAL: 5}),), R.PROTOCOL_ERROR, ends=True
    ),
    Row(
        "MQTT-3.14.4-1",
        (Ended.STOPPING, Pingreq()),
        R.SERVER_SHUTTING_DOWN,
        ends=True,
        opens=connect(will=WILL),
        holds=lambda talk: not talk.messages,
    ),
    Row("MQTT-3.14.4-2", (Disconnect(),), ends=True, holds=lambda talk: talk.problem is None),
    Row(
        "MQTT-4.1.0-2",
        (),
        R.SUCCESS,
        opens=connect(properties={P.SESSION_EXPIRY_INTERVAL: 99}),
        holds=granted(P.SESSION_EXPIRY_INTERVAL, 0),
    ),
    Row(
        "MQTT-4.12.0-1",
        (),
        R.BAD_AUTHENTICATION_METHOD,
        ends=True,
        opens=connect(properties={P.AUTHENTICATION_METHOD: "SCRAM"}),
    ),
    Row("MQTT-4.12.0-6", (Auth(properties={P.AUTHENTICATION_METHOD: "SCRAM"}),), R.PROTOCOL_ERROR, ends=True),
]

RECEIVES_TWO = connect(properties={P.RECEIVE_MAXIMUM: 2})
SENT = [
    Row("MQTT-2.2.1-4", (subscribe("a", qos=1), *three()), holds=packet_ids(1, 2, 3)),
    Row(
        "MQTT-4.3.2-1",
        (subscribe("a", qos=1), arrived("a", qos=1, at=0), Puback(1), arrived("a", qos=1, at=1)),
        holds=packet_ids(1, 2),
    ),
    Row("MQTT-3.3.4-9", (subscribe("a", qos=1), *three()), opens=RECEIVES_TWO, holds=packet_ids(1, 2)),
    Row(
        "MQTT-3.3.4-9 messages of QoS 0 are not counted",
        (subscribe("a", qos=1), *three(0)),
        opens=RECEIVES_TWO,
        holds=lambda talk: sum(isinstance(each, Publish) for each in talk.sent) == 3,
    ),
    Row(
        "MQTT-3.3.4-9 what follows comes from the log",
        (
            subscribe("a", qos=1),
            *three(),
            arrived("a", qos=1, at=3),
            Puback(1),
            Reread(arrived("a", qos=1, at=2)),
        ),
        opens=RECEIVES_TWO,
        holds=packet_ids(1, 2, 3),
    ),
    Row(
        "MQTT-3.4.0 of nothing that was sent",
        (Puback(3), Pingreq()),
        holds=lambda talk: isinstance(talk.last, Pingresp),
    ),
]

SUBSCRIPTIONS = [
    Row("MQTT-3.8.4-1", (subscribe("a"),), holds=sends(Suback, packet_id=9)),
    Row("MQTT-3.8.4-2", (subscribe("a"),), holds=sends(Suback, packet_id=9)),
    Row(
        "MQTT-3.8.4-3",
        (subscribe("a", identifier=1), subscribe("a", identifier=2), arrived("a")),
        holds=delivered("a", {P.SUBSCRIPTION_IDENTIFIER: (2,)}),
    ),
    Row("MQTT-3.8.4-5", (subscribe("a", "b"),), holds=sends(Suback, reasons=(R.SUCCESS, R.SUCCESS))),
    Row(
        "MQTT-3.8.4-6",
        (subscribe("a", "refused", "b"),),
        holds=sends(Suback, reasons=(R.SUCCESS, R.NOT_AUTHORIZED, R.SUCCESS)),
    ),
    Row("MQTT-3.8.4-7", (subscribe("a", qos=2),), holds=sends(Suback, reasons=(R.GRANTED_QOS_1,))),
    Row("MQTT-3.8.4-8", (subscribe("a"), arrived("a", qos=1)), holds=sends(Publish, qos=0)),
    Row(
        "MQTT-3.8.4-8",
        (subscribe("a", qos=1), arrived("a", qos=1, at=1)),
        holds=sends(Publish, qos=1, packet_id=1, duplicate=False),
    ),
    Row("MQTT-3.8.4-8", (subscribe("a", qos=1), arrived("a", at=1)), holds=sends(Publish, qos=0)),
    Row("MQTT-3.8.4-6", (subscribe("refused"), arrived("refused")), holds=silent),
    Row("MQTT-3.8.3-3", (subscribe("a", no_local=True), arrived("a", publisher="c")), holds=silent),
    Row("MQTT-3.8.3-3", (subscribe("a", no_local=True), arrived("a")), holds=delivered("a")),
    Row(
        "MQTT-3.3.4-2",
        (subscribe("a/#"), subscribe("a/+"), arrived("a/b")),
        holds=lambda talk: sum(isinstance(each, Publish) for each in talk.sent) == 1,
    ),
    Row(
        "MQTT-3.3.4-3",
        (subscribe("a", identifier=7), arrived("a")),
        holds=delivered("a", {P.SUBSCRIPTION_IDENTIFIER: (7,)}),
    ),
    Row(
        "MQTT-3.3.4-4",
        (subscribe("a", identifier=7), subscribe("+", identifier=8), arrived("a")),
        holds=delivered("a", {P.SUBSCRIPTION_IDENTIFIER: (7, 8)}),
    ),
    Row(
        "MQTT-3.3.2-5",
        (subscribe("a"), arrived("a", {P.MESSAGE_EXPIRY_INTERVAL: 10}, age_seconds=10.5)),
        holds=silent,
    ),
    Row(
        "MQTT-3.3.2-6",
        (subscribe("a"), arrived("a", {P.MESSAGE_EXPIRY_INTERVAL: 10}, age_seconds=4.2)),
        holds=delivered("a", {P.MESSAGE_EXPIRY_INTERVAL: 6}),
    ),
    Row(
        "MQTT-3.3.2-18",
        (subscribe("a"), arrived("a", {P.USER_PROPERTY: (("b", "1"), ("a", "2"))})),
        holds=delivered("a", {P.USER_PROPERTY: (("b", "1"), ("a", "2"))}),
    ),
    Row(
        "MQTT-3.1.2-25",
        (subscribe("a"), arrived("a", {P.CONTENT_TYPE: "x" * 200}), arrived("a", {P.CONTENT_TYPE: "x"})),
        opens=connect(properties={P.MAXIMUM_PACKET_SIZE: 60}),
        holds=delivered("a", {P.CONTENT_TYPE: "x"}),
    ),
    Row("MQTT-3.3.1-12", (subscribe("a"), arrived("a", retain=True)), holds=sends(Publish, retain=False)),
    Row(
        "MQTT-3.3.1-13",
        (subscribe("a", as_published=True), arrived("a", retain=True)),
        holds=sends(Publish, retain=True),
    ),
    Row(
        "MQTT-3.3.1-13",
        (subscribe("a", as_published=True), arrived("a")),
        holds=sends(Publish, retain=False),
    ),
    Row(
        "MQTT-3.3.1-8 retained",
        (subscribe("+", identifier=3), subscribe("a", identifier=4), FoundRetained("+", arrived("a"))),
        holds=lambda talk: (
            talk.last == Publish("a", b"x", retain=True, properties={P.SUBSCRIPTION_IDENTIFIER: (3,)})
        ),
    ),
    Row(
        "MQTT-3.8.3-3 retained",
        (subscribe("a", no_local=True), FoundRetained("a", arrived("a", publisher="c"))),
        holds=silent,
    ),
    Row(
        "MQTT-3.3.2-5 retained",
        (
            subscribe("a"),
            FoundRetained("a", arrived("a", {P.MESSAGE_EXPIRY_INTERVAL: 10}, age_seconds=10.5)),
        ),
        holds=silent,
    ),
    Row(
        "MQTT-3.3.1-12 retained",
        (subscribe("a"), Unsubscribe(9, ("a",)), FoundRetained("a", arrived("a"))),
        holds=silent,
    ),
    Row("MQTT-3.3.1-8", (subscribe("a"), arrived("a")), holds=sends(Publish, duplicate=False)),
    Row(
        "MQTT-3.10.4-1", (subscribe("a/+"), Unsubscribe(9, ("a/b",)), arrived("a/b")), holds=delivered("a/b")
    ),
    Row("MQTT-3.10.4-2", (subscribe("a"), Unsubscribe(9, ("a",)), arrived("a")), holds=silent),
    Row("MQTT-3.10.4-4", (Unsubscribe(9, ("a",)),), holds=sends(Unsuback, packet_id=9)),
    Row(
        "MQTT-3.10.4-5",
        (Unsubscribe(9, ("a",)),),
        holds=sends(Unsuback, reasons=(R.NO_SUBSCRIPTION_EXISTED,)),
    ),
    Row(
        "MQTT-3.10.4-6",
        (subscribe("a"), Unsubscribe(9, ("b", "a"))),
        holds=sends(Unsuback, reasons=(R.NO_SUBSCRIPTION_EXISTED, R.SUCCESS)),
    ),
    Row("MQTT-4.7.2-1", (subscribe("#", "+/a"), arrived("$SYS/a")), holds=silent),
    Row("MQTT-4.7.2-1", (subscribe("$SYS/#"), arrived("$SYS/a")), holds=delivered("$SYS/a")),
]

V3_ROWS = [
    Row(
        "3.1.1 MQTT-3.8.4-6",
        (subscribe("refused", "a"), arrived("a", {P.CONTENT_TYPE: "x"})),
        opens=connect(version=V3),
        holds=delivered("a"),
    ),
    no_connect("3.1.1 MQTT-3.1.2-22", raw_connect(2 | 0x40, C, C, version=4), "no user name"),
    Row(
        "3.1.1 MQIsdp",
        (raw_connect(2, C, name="MQIsdp", version=3),),
        R.UNSUPPORTED_PROTOCOL_VERSION,
        ends=True,
        opens=None,
    ),
    Row(
        "3.1.1 MQTT-3.1.3-8",
        (connect(version=V3, client_id="", clean_start=False),),
        R.CLIENT_IDENTIFIER_NOT_VALID,
        ends=True,
        opens=None,
    ),
    Row(
        "3.1.1 MQTT-3.3.5-2",
        (publish("refused", 1),),
        ends=True,
        opens=connect(version=V3),
        holds=lambda talk: len(talk.sent) == 1,
    ),
    Row(
        "3.1.1 MQTT-4.3.2-2",
        (publish(packet_id=1), publish(packet_id=1, duplicate=True), Stored(1)),
        keeps=True,
        opens=connect(version=V3),
        holds=lambda talk: len(talk.messages) == 1 and talk.last == Puback(1),
    ),
    Row(
        "3.1.1 no QoS 2",
        (publish(packet_id=1, qos=2),),
        ends=True,
        opens=connect(version=V3),
        holds=lambda talk: len(talk.sent) == 1,
    ),
    Row(
        "3.1.1 retain",
        (publish(packet_id=1, retain=True),),
        opens=connect(version=V3),
        holds=lambda talk: ("mqtt.retain", b"1") in headers(talk.messages[0], "c"),
    ),
    Row(
        "3.1.1 full",
        tuple(publish(packet_id=n) for n in range(1, 4)),
        opens=connect(version=V3),
        keeps=True,
        holds=lambda talk: talk.machine.is_full and not talk.is_closed,
    ),
    Row(
        "3.1.1 properties",
        (publish(packet_id=1),),
        opens=connect(version=V3),
        holds=lambda talk: not talk.sent[0].properties,
    ),  # type: ignore[union-attr]
    Row("3.1.1 no AUTH", (b"\xf0\x00",), ends=True, opens=connect(version=V3)),
]


@pytest.mark.parametrize(
    "row",
    [*FIRST, *CONNECT_FORMAT, *FORMAT, *MESSAGES, *OTHERS, *SENT, *SUBSCRIPTIONS, *V3_ROWS],
    ids=lambda row: row.statement.replace(" ", "_"),
)
def test_statement(row: Row) -> None:
    talk = Talk(row.limits, row.keeps, {"refused": R.NOT_AUTHORIZED})
    if row.opens is not None:
        talk.say(row.opens)
    talk.say(*row.says)
    assert talk.is_closed == row.ends, talk
    if row.told is not None:
        assert talk.last.reason is row.told, talk  # type: ignore[union-attr]
    if row.holds is not None:
        assert row.holds(talk), talk
