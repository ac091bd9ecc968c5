"""The reason codes of MQTT 5, and what a client of 3.1.1 is told in their place."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final


class ReasonCode(enum.IntEnum):
    """Why a packet was sent, from 0x80 on a failure. SUCCESS is also a normal disconnection, and QoS 0."""

    SUCCESS = 0x00
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE_AUTHENTICATION = 0x18
    RE_AUTHENTICATE = 0x19
    UNSPECIFIED_ERROR = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83
    UNSUPPORTED_PROTOCOL_VERSION = 0x84
    CLIENT_IDENTIFIER_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    BANNED = 0x8A
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_IDENTIFIER_IN_USE = 0x91
    PACKET_IDENTIFIER_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    MESSAGE_RATE_TOO_HIGH = 0x96
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99
    RETAIN_NOT_SUPPORTED = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    USE_ANOTHER_SERVER = 0x9C
    SERVER_MOVED = 0x9D
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E
    CONNECTION_RATE_EXCEEDED = 0x9F
    MAXIMUM_CONNECT_TIME = 0xA0
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xA1
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2

    @property
    def is_failure(self) -> bool:
        """Whether what was asked for was not done."""
        return self >= ReasonCode.UNSPECIFIED_ERROR


REASON_CODES: Final[Mapping[int, ReasonCode]] = {int(each): each for each in ReasonCode}

_RETURN_CODES: Final[Mapping[ReasonCode, int]] = {
    ReasonCode.SUCCESS: 0,
    ReasonCode.UNSUPPORTED_PROTOCOL_VERSION: 1,
    ReasonCode.CLIENT_IDENTIFIER_NOT_VALID: 2,
    ReasonCode.SERVER_UNAVAILABLE: 3,
    ReasonCode.SERVER_BUSY: 3,
    ReasonCode.SERVER_SHUTTING_DOWN: 3,
    ReasonCode.QUOTA_EXCEEDED: 3,
    ReasonCode.BAD_USER_NAME_OR_PASSWORD: 4,
    ReasonCode.NOT_AUTHORIZED: 5,
}


def return_code(reason: ReasonCode) -> int | None:
    """The code of CONNACK in 3.1.1; None where it has none, and the connection is closed without a word."""
    return _RETURN_CODES.get(reason)
