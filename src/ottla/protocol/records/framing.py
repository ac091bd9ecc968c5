"""Frames metadata records and the coordinators' keys and values: the type and version before a message.

A metadata record is the value of a record in `__cluster_metadata`: frame version 1, the record's type, its
version (unsigned varints), the message. A key of `__consumer_offsets`, `__transaction_state` or
`__share_group_state` is its type (int16) and the message; a value its version (int16) and the message. A
value's type is that of its key; the three topics number their types separately, hence `Coordinator`.

An unknown type or version raises UnsupportedApiVersion: it comes from a newer writer and is not damage.
Damage raises MalformedMessage.
"""

from __future__ import annotations

import enum
import functools
import importlib
import struct
from typing import TYPE_CHECKING, Final, cast

from ottla.protocol.apis import snake_case
from ottla.protocol.errors import MalformedMessage, UnsupportedApiVersion
from ottla.protocol.wire import read_unsigned_varint, write_unsigned_varint

if TYPE_CHECKING:
    from ottla.protocol.schema import Buffer, Message

METADATA_FRAME_VERSION: Final = 1

_INT16: Final = struct.Struct(">h")

METADATA_RECORDS: Final = {
    0: "RegisterBrokerRecord",
    1: "UnregisterBrokerRecord",
    2: "TopicRecord",
    3: "PartitionRecord",
    4: "ConfigRecord",
    5: "PartitionChangeRecord",
    7: "FenceBrokerRecord",
    8: "UnfenceBrokerRecord",
    9: "RemoveTopicRecord",
    10: "DelegationTokenRecord",
    11: "UserScramCredentialRecord",
    12: "FeatureLevelRecord",
    14: "ClientQuotaRecord",
    15: "ProducerIdsRecord",
    17: "BrokerRegistrationChangeRecord",
    18: "AccessControlEntryRecord",
    19: "RemoveAccessControlEntryRecord",
    20: "NoOpRecord",
    21: "ZkMigrationStateRecord",
    22: "RemoveUserScramCredentialRecord",
    23: "BeginTransactionRecord",
    24: "EndTransactionRecord",
    25: "AbortTransactionRecord",
    26: "RemoveDelegationTokenRecord",
    27: "RegisterControllerRecord",
    28: "ClearElrRecord",
    29: "UnregisterControllerRecord",
}
"""The names of the metadata records by type."""


class Coordinator(enum.Enum):
    """The coordinator of a key or value: each has its own topic and its own numbers."""

    GROUP = "__consumer_offsets"
    TRANSACTION = "__transaction_state"
    SHARE = "__share_group_state"


COORDINATOR_RECORDS: Final = {
    Coordinator.GROUP: {
        0: "LegacyOffsetCommit",
        1: "OffsetCommit",
        2: "GroupMetadata",
        3: "ConsumerGroupMetadata",
        4: "ConsumerGroupPartitionMetadata",
        5: "ConsumerGroupMemberMetadata",
        6: "ConsumerGroupTargetAssignmentMetadata",
        7: "ConsumerGroupTargetAssignmentMember",
        8: "ConsumerGroupCurrentMemberAssignment",
        10: "ShareGroupMemberMetadata",
        11: "ShareGroupMetadata",
        12: "ShareGroupTargetAssignmentMetadata",
        13: "ShareGroupTargetAssignmentMember",
        14: "ShareGroupCurrentMemberAssignment",
        15: "ShareGroupStatePartitionMetadata",
        16: "ConsumerGroupRegularExpression",
        17: "StreamsGroupMetadata",
        19: "StreamsGroupMemberMetadata",
        20: "StreamsGroupTargetAssignmentMetadata",
        21: "StreamsGroupTargetAssignmentMember",
        22: "StreamsGroupCurrentMemberAssignment",
        23: "StreamsGroupTopology",
    },
    Coordinator.TRANSACTION: {0: "TransactionLog"},
    Coordinator.SHARE: {0: "ShareSnapshot", 1: "ShareUpdate"},
}
"""The names of the coordinators' records by type, without "Key" or "Value"."""


@functools.cache
def metadata_record_class(kind: int) -> type[Message]:
    """The message class of a type of metadata record. Raises UnsupportedApiVersion for an unknown type."""
    name = METADATA_RECORDS.get(kind)
    if name is None:
        raise UnsupportedApiVersion(f"metadata record type {kind}", 0, f"no metadata record has type {kind}")
    return _record_class(name)


@functools.cache
def coordinator_key_class(coordinator: Coordinator, kind: int) -> type[Message]:
    """The message class of a type of key. Raises UnsupportedApiVersion for an unknown type."""
    return _record_class(_coordinator_record(coordinator, kind) + "Key")


@functools.cache
def coordinator_value_class(coordinator: Coordinator, kind: int) -> type[Message]:
    """The message class of the values under a type of key. Raises UnsupportedApiVersion for an unknown type."""
    return _record_class(_coordinator_record(coordinator, kind) + "Value")


def encode_metadata_record(record: Message, version: int) -> bytes:
    """A metadata record with its frame. Raises as `Message.encode`."""
    kind = record.API_KEY
    if record.KIND != "metadata" or kind is None or METADATA_RECORDS.get(kind) != record.NAME:
        raise ValueError(f"{record.NAME} is not a metadata record")
    frame = (METADATA_FRAME_VERSION, kind, version)
    return b"".join((*map(write_unsigned_varint, frame), *record.encode_parts(version)))


def decode_metadata_record(data: Buffer) -> Message:
    """The metadata record in a frame. Raises MalformedMessage or UnsupportedApiVersion."""
    try:
        frame_version, position = read_unsigned_varint(data, 0)
        if frame_version != METADATA_FRAME_VERSION:
            raise UnsupportedApiVersion("the frame of metadata records", frame_version)
        kind, position = read_unsigned_varint(data, position)
        version, position = read_unsigned_varint(data, position)
    except IndexError as error:
        raise MalformedMessage("a metadata record ends in its frame") from error
    return metadata_record_class(kind).decode(data, version, position)


def encode_coordinator_key(key: Message) -> bytes:
    """A key with its type in front. Keys have one version, 0. Raises as `Message.encode`."""
    if key.KIND != "coordinator-key" or key.API_KEY is None:
        raise ValueError(f"{key.NAME} is not a key of a coordinator's record")
    return _INT16.pack(key.API_KEY) + key.encode(0)


def encode_coordinator_value(value: Message, version: int) -> bytes:
    """A value with its version in front. Raises as `Message.encode`."""
    if value.KIND != "coordinator-value":
        raise ValueError(f"{value.NAME} is not a value of a coordinator's record")
    return _INT16.pack(version) + value.encode(version)


def decode_coordinator_key(coordinator: Coordinator, data: Buffer) -> Message:
    """The key in a coordinator's record. Raises MalformedMessage, or UnsupportedApiVersion for an unknown type."""
    return coordinator_key_class(coordinator, _prefix(data)).decode(data, 0, _INT16.size)


def decode_coordinator_value(coordinator: Coordinator, key: Message, data: Buffer) -> Message:
    """The value under a key. Raises MalformedMessage, or UnsupportedApiVersion for an unknown version."""
    if key.KIND != "coordinator-key" or key.API_KEY is None:
        raise ValueError(f"{key.NAME} is not a key of a coordinator's record")
    return coordinator_value_class(coordinator, key.API_KEY).decode(data, _prefix(data), _INT16.size)


def _prefix(data: Buffer) -> int:
    if len(data) < _INT16.size:
        raise MalformedMessage("a coordinator's record is shorter than its type or version")
    return cast(int, _INT16.unpack_from(data)[0])


def _coordinator_record(coordinator: Coordinator, kind: int) -> str:
    name = COORDINATOR_RECORDS[coordinator].get(kind)
    if name is None:
        name = f"record type {kind} in {coordinator.value}"
        raise UnsupportedApiVersion(name, 0, f"no {name} is known")
    return name


def _record_class(name: str) -> type[Message]:
    module = importlib.import_module(f"ottla.protocol.records.{snake_case(name)}")
    return cast("type[Message]", getattr(module, name))
