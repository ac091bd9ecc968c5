"""What members of the classic protocol say and are told in the bytes of JoinGroup and SyncGroup.

The "consumer" embedded protocol: a version in two bytes, then a ConsumerProtocolSubscription or a
ConsumerProtocolAssignment. A version from the future reads as the newest known one, as they only add fields.
"""

from __future__ import annotations

from ottla.protocol.errors import ProtocolError
from ottla.protocol.records.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.protocol.records.consumer_protocol_subscription import ConsumerProtocolSubscription

NEWEST_VERSION = 3
VERSION_BYTES = 2


class MalformedEmbedded(ValueError):
    """The bytes are no such message."""


def parse_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """What a member wants. Raises MalformedEmbedded."""
    try:
        return ConsumerProtocolSubscription.decode_prefix(metadata, version_of(metadata), VERSION_BYTES)[0]
    except ProtocolError as problem:
        raise MalformedEmbedded(str(problem)) from problem


def parse_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """What a member was told by its leader. Raises MalformedEmbedded."""
    try:
        return ConsumerProtocolAssignment.decode_prefix(assignment, version_of(assignment), VERSION_BYTES)[0]
    except ProtocolError as problem:
        raise MalformedEmbedded(str(problem)) from problem


def version_of(data: bytes) -> int:
    """The version to read these bytes in. Raises MalformedEmbedded."""
    version = int.from_bytes(data[:VERSION_BYTES], "big", signed=True)
    if len(data) < VERSION_BYTES or version < 0:
        raise MalformedEmbedded("no version")
    return min(version, NEWEST_VERSION)
