"""The "consumer" protocol within JoinGroup and SyncGroup: subscriptions and assignments as bytes.

The bytes are a version of two bytes, then a ConsumerProtocolSubscription or a ConsumerProtocolAssignment. An
unknown newer version is read as the newest known one, because versions only add fields.
"""

from __future__ import annotations

from ottla.protocol.errors import ProtocolError
from ottla.protocol.records.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.protocol.records.consumer_protocol_subscription import ConsumerProtocolSubscription

NEWEST_VERSION = 3
VERSION_BYTES = 2


class MalformedEmbedded(ValueError):
    """The bytes are not a message of the protocol."""


def parse_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """A member's subscription. Raises MalformedEmbedded."""
    try:
        return ConsumerProtocolSubscription.decode_prefix(metadata, version_of(metadata), VERSION_BYTES)[0]
    except ProtocolError as problem:
        raise MalformedEmbedded(str(problem)) from problem


def parse_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """A member's assignment, as its leader made it. Raises MalformedEmbedded."""
    try:
        return ConsumerProtocolAssignment.decode_prefix(assignment, version_of(assignment), VERSION_BYTES)[0]
    except ProtocolError as problem:
        raise MalformedEmbedded(str(problem)) from problem


def version_of(data: bytes) -> int:
    """The version in which to read these bytes. Raises MalformedEmbedded."""
    version = int.from_bytes(data[:VERSION_BYTES], "big", signed=True)
    if len(data) < VERSION_BYTES or version < 0:
        raise MalformedEmbedded("no version")
    return min(version, NEWEST_VERSION)
