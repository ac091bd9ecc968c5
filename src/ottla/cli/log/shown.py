"""What `ottla log dump` tells of batches and records, as JSON objects and as lines for people."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from ottla.protocol.compression import Codec
from ottla.protocol.errors import ProtocolError
from ottla.protocol.internal_records import DecodedRecord, RecordFormat, decode_control, decode_internal
from ottla.protocol.record_batch import NO_SEQUENCE, BatchHeader, Record, increment_sequence

Shown = dict[str, Any]


def batch_object(position: int | None, header: BatchHeader, crc_valid: bool) -> Shown:
    """A batch by its header."""
    codec = header.codec_id
    return {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.record_count,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "leader_epoch": header.partition_leader_epoch,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "delete_horizon_ms": header.delete_horizon_ms,
        "position": position,
        "timestamp_type": header.timestamp_type.name,
        "max_timestamp": header.max_timestamp,
        "size_bytes": header.size_bytes,
        "magic": header.magic,
        "compression": Codec(codec).config_name if codec <= Codec.ZSTD else str(codec),
        "crc": header.crc,
        "valid": crc_valid,
    }


def record_object(
    header: BatchHeader, record: Record, record_format: RecordFormat, *, payload: bool
) -> Shown:
    """A record: decoded if it is of control or of an internal topic, else its key and value if `payload`."""
    sequence = header.base_sequence
    if sequence != NO_SEQUENCE:
        sequence = increment_sequence(sequence, record.offset - header.base_offset)
    shown: Shown = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key_size": -1 if record.key is None else len(record.key),
        "value_size": -1 if record.value is None else len(record.value),
        "sequence": sequence,
        "header_keys": [key for key, _ in record.headers],
    }
    try:
        if header.is_control:
            return shown | _decoded(decode_control(record))
        if record_format is not RecordFormat.BYTES:
            decoded = decode_internal(record_format, record)
            if decoded.name is not None:
                return shown | _decoded(decoded)
            payload = True
    except ProtocolError as problem:
        shown["problem"] = str(problem)
        payload = True
    if payload:
        shown["key"], shown["value"] = text_or_base64(record.key), text_or_base64(record.value)
        shown["headers"] = [[key, text_or_base64(value)] for key, value in record.headers]
    return shown


def _decoded(decoded: DecodedRecord) -> Shown:
    return {
        "type": decoded.name or "unknown",
        "version": decoded.version,
        "key": decoded.key,
        "value": decoded.value,
    }


def text_or_base64(data: bytes | None) -> str | dict[str, str] | None:
    """Bytes as in the JSON of `ottla consume`: text where they are UTF-8, else base64; null for none."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def line_of(shown: Mapping[str, Any], indent: str = "") -> str:
    """An object as one line for people: `name: value` pairs."""
    return indent + " ".join(f"{name}: {_text(value)}" for name, value in shown.items())


def _text(value: Any) -> str:
    match value:
        case dict() | list():
            return json.dumps(value, ensure_ascii=False)
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case _:
            return str(value)
