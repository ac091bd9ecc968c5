"""The control packets of MQTT, 3.1.1 and 5, as values.

What 3.1.1 does not have (properties, most reason codes) is at its default there. A reason code of CONNACK is
that of MQTT 5 in both; the codec translates.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Final

from ottla.mqtt.core.properties import Properties, no_properties
from ottla.mqtt.core.reason_codes import ReasonCode


class Version(enum.IntEnum):
    """The protocol's versions, by their numbers in CONNECT."""

    V3_1_1 = 4
    V5 = 5


@dataclass(frozen=True, slots=True)
class Will:
    """What is published for a client that is lost."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = field(default_factory=no_properties)


@dataclass(frozen=True, slots=True)
class Connect:
    """A client's first packet. clean_start: Clean Session in 3.1.1."""

    version: Version
    client_id: str
    clean_start: bool = True
    keep_alive_seconds: int = 0
    user_name: str | None = None
    password: bytes | None = None
    will: Will | None = None
    properties: Properties = field(default_factory=no_properties)


@dataclass(frozen=True, slots=True)
class Connack:
    """The answer to CONNECT."""

    reason: ReasonCode
    session_present: bool = False
    properties: Properties = field(default_factory=no_properties)


@dataclass(frozen=True, slots=True)
class Publish:
    """A message. packet_id: None with QoS 0."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    duplicate: bool = False
    packet_id: int | None = None
    properties: Properties = field(default_factory=no_properties)


@dataclass(frozen=True, slots=True)
class Puback:
    """A message of QoS 1 is taken over, or refused."""

    packet_id: int
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = field(default_factory=no_properties)


@dataclass(frozen=True, slots=True)
class Pubrec:
    """A message of QoS 2 is received, or refused."""

    packet_id: int
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = field(default_factory=no_properties)


@dataclass(frozen=True, slots=True)
class Pubrel:
    """The sender of a message of QoS 2 has let go of it."""

    packet_id: int
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = field(default_factory=no_properties)


@dataclass(frozen=True, slots=True)
class Pubcomp:
    """The identifier of a message of QoS 2 is free again."""

    packet_id: int
    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = field(default_factory=no_properties)


class RetainHandling(enum.IntEnum):
    """Which retained messages a subscription is sent at its begin."""

    SEND = 0
    SEND_IF_NEW = 1
    DO_NOT_SEND = 2


@dataclass(frozen=True, slots=True)
class SubscriptionRequest:
    """One filter of a SUBSCRIBE, with its options; 3.1.1 has only the QoS."""

    filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: RetainHandling = RetainHandling.SEND


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Subscriptions to begin, at least one."""

    packet_id: int
    requests: tuple[SubscriptionRequest, ...]
    properties: Properties = field(default_factory=no_properties)


@dataclass(frozen=True, slots=True)
class Suback:
    """The answer to each request of a SUBSCRIBE, in their order."""

    packet_id: int
    reasons: tuple[ReasonCode, ...]
    properties: Properties = field(default_factory=no_properties)


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """Subscriptions to end, at least one."""

    packet_id: int
    filters: tuple[str, ...]
    properties: Properties = field(default_factory=no_properties)


@dataclass(frozen=True, slots=True)
class Unsuback:
    """The answer to each filter of an UNSUBSCRIBE, in their order; without codes in 3.1.1."""

    packet_id: int
    reasons: tuple[ReasonCode, ...] = ()
    properties: Properties = field(default_factory=no_properties)


@dataclass(frozen=True, slots=True)
class Pingreq:
    """A sign of life."""


@dataclass(frozen=True, slots=True)
class Pingresp:
    """The answer to it."""


@dataclass(frozen=True, slots=True)
class Disconnect:
    """The last packet of a connection, and its reason. 3.1.1 has it from clients alone, and without one."""

    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = field(default_factory=no_properties)


@dataclass(frozen=True, slots=True)
class Auth:
    """A step of an authentication of several steps; not in 3.1.1."""

    reason: ReasonCode = ReasonCode.SUCCESS
    properties: Properties = field(default_factory=no_properties)


Packet = (
    Connect
    | Connack
    | Publish
    | Puback
    | Pubrec
    | Pubrel
    | Pubcomp
    | Subscribe
    | Suback
    | Unsubscribe
    | Unsuback
    | Pingreq
    | Pingresp
    | Disconnect
    | Auth
)
PINGRESP: Final = Pingresp()
