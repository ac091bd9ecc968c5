"""Decodes the records of Kafka's internal topics, and control records, into names and JSON values.

A topic's name says how its keys and values are framed (`records/framing.py`). A record of a newer writer has
no name; damaged ones raise MalformedMessage.
"""

from __future__ import annotations

import enum
import importlib
import struct
from dataclasses import dataclass
from typing import Any, Final, cast

from ottla.protocol.apis import snake_case
from ottla.protocol.errors import MalformedMessage, ProtocolError, UnsupportedApiVersion
from ottla.protocol.message_json import message_json
from ottla.protocol.record_batch import (
    ControlRecordType,
    Record,
    control_record_type,
    end_transaction_coordinator_epoch,
)
from ottla.protocol.records.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.protocol.records.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.protocol.records.framing import (
    METADATA_FRAME_VERSION,
    Coordinator,
    decode_coordinator_key,
    decode_coordinator_value,
    metadata_record_class,
)
from ottla.protocol.records.group_metadata_value import GroupMetadataValue
from ottla.protocol.schema import Message
from ottla.protocol.wire import read_unsigned_varint


class RecordFormat(enum.Enum):
    """The format of a topic's records; the values are the words for it on a command line."""

    BYTES = "bytes"
    OFFSETS = "offsets"
    TRANSACTIONS = "transactions"
    SHARE_STATE = "share-state"
    METADATA = "metadata"
    REMOTE_LOG = "remote-log"


FORMATS: Final = {
    "__consumer_offsets": RecordFormat.OFFSETS,
    "__transaction_state": RecordFormat.TRANSACTIONS,
    "__share_group_state": RecordFormat.SHARE_STATE,
    "__cluster_metadata": RecordFormat.METADATA,
    "__remote_log_metadata": RecordFormat.REMOTE_LOG,
}
"""The formats of the internal topics; every other topic has RecordFormat.BYTES."""

_COORDINATORS: Final = {
    RecordFormat.OFFSETS: Coordinator.GROUP,
    RecordFormat.TRANSACTIONS: Coordinator.TRANSACTION,
    RecordFormat.SHARE_STATE: Coordinator.SHARE,
}
_REMOTE_LOG_RECORDS: Final = (
    "RemoteLogSegmentMetadataRecord",
    "RemoteLogSegmentMetadataUpdateRecord",
    "RemotePartitionDeleteMetadataRecord",
    "RemoteLogSegmentMetadataSnapshotRecord",
)
_CONTROL_VALUES: Final = {
    ControlRecordType.LEADER_CHANGE: "LeaderChangeMessage",
    ControlRecordType.SNAPSHOT_HEADER: "SnapshotHeaderRecord",
    ControlRecordType.SNAPSHOT_FOOTER: "SnapshotFooterRecord",
    ControlRecordType.KRAFT_VERSION: "KRaftVersionRecord",
    ControlRecordType.KRAFT_VOTERS: "VotersRecord",
}
CONSUMER_PROTOCOL: Final = "consumer"
_EMBEDDED: Final[dict[str, type[Message]]] = {
    "subscription": ConsumerProtocolSubscription,
    "assignment": ConsumerProtocolAssignment,
}
_INT16: Final = struct.Struct(">h")


@dataclass(frozen=True, slots=True)
class DecodedRecord:
    """A record of an internal topic. `name` is its type's, None for one of a newer writer.

    key and value are those of Kafka's JSON. value is None for a tombstone, key in formats without keys.
    version: the value's, None without a value.
    """

    name: str | None
    key: dict[str, Any] | None
    value: dict[str, Any] | None
    version: int | None


def format_of(topic: str) -> RecordFormat:
    """The format of a topic's records."""
    return FORMATS.get(topic, RecordFormat.BYTES)


def decode_internal(record_format: RecordFormat, record: Record) -> DecodedRecord:
    """The key and value of a record in an internal topic. Raises MalformedMessage for damage.

    RecordFormat.BYTES has nothing to decode: ValueError.
    """
    try:
        match record_format:
            case RecordFormat.METADATA | RecordFormat.REMOTE_LOG:
                return _framed(record_format, record)
            case RecordFormat.BYTES:
                raise ValueError("records of plain bytes have no types")
            case _:
                return _of_coordinator(_COORDINATORS[record_format], record)
    except UnsupportedApiVersion:
        return DecodedRecord(None, None, None, None)


def decode_control(record: Record) -> DecodedRecord:
    """A control record's type and value. Raises MalformedMessage or CorruptBatch for damaged bytes."""
    kind = control_record_type(record)
    if kind is None:
        return DecodedRecord(None, None, None, None)
    if kind in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        epoch = end_transaction_coordinator_epoch(record)
        return DecodedRecord(kind.name, None, {"coordinatorEpoch": epoch}, 0)
    version = _version(record.value)
    name = _CONTROL_VALUES[kind]
    try:
        message = _class_of(name).decode(record.value or b"", version)
    except UnsupportedApiVersion:
        return DecodedRecord(kind.name, None, None, version)
    return DecodedRecord(kind.name, None, message_json(message, version), version)


def _of_coordinator(coordinator: Coordinator, record: Record) -> DecodedRecord:
    if record.key is None:
        raise MalformedMessage("a coordinator's record has no key")
    key = decode_coordinator_key(coordinator, record.key)
    name = key.NAME.removesuffix("Key")
    shown = message_json(key, 0)
    if record.value is None:
        return DecodedRecord(name, shown, None, None)
    version = _version(record.value)
    value = decode_coordinator_value(coordinator, key, record.value)
    content = message_json(value, version)
    if isinstance(value, GroupMetadataValue) and value.protocol_type == CONSUMER_PROTOCOL:
        for member, member_shown in zip(value.members, content["members"], strict=True):
            for field, embedded in _EMBEDDED.items():
                _decode_embedded(member_shown, field, getattr(member, field), embedded)
    return DecodedRecord(name, shown, content, version)


def _decode_embedded(shown: dict[str, Any], field: str, data: bytes, embedded: type[Message]) -> None:
    """Show a member's own bytes decoded, if they are in the protocol of consumers; else leave them."""
    try:
        version = min(_version(data), embedded.MAX_VERSION)
        message, _ = embedded.decode_prefix(data, version, _INT16.size)
    except ProtocolError:
        return
    shown[field] = message_json(message, version)


def _framed(record_format: RecordFormat, record: Record) -> DecodedRecord:
    data = record.value
    if data is None:
        raise MalformedMessage("a metadata record has no value")
    try:
        frame_version, position = read_unsigned_varint(data, 0)
        kind, position = read_unsigned_varint(data, position)
        version, position = read_unsigned_varint(data, position)
    except (IndexError, ProtocolError) as problem:
        raise MalformedMessage(f"a metadata record ends in its frame: {problem}") from None
    if frame_version != METADATA_FRAME_VERSION:
        raise UnsupportedApiVersion("the frame of metadata records", frame_version)
    if record_format is RecordFormat.METADATA:
        message_class = metadata_record_class(kind)
    elif kind < len(_REMOTE_LOG_RECORDS):
        message_class = _class_of(_REMOTE_LOG_RECORDS[kind])
    else:
        raise UnsupportedApiVersion(f"remote log record type {kind}", 0)
    message = message_class.decode(data, version, position)
    return DecodedRecord(message.NAME, None, message_json(message, version), version)


def _version(data: bytes | None) -> int:
    if data is None or len(data) < _INT16.size:
        raise MalformedMessage("a value is shorter than its version")
    return cast(int, _INT16.unpack_from(data)[0])


def _class_of(name: str) -> type[Message]:
    module = importlib.import_module(f"ottla.protocol.records.{snake_case(name)}")
    return cast("type[Message]", getattr(module, name))
