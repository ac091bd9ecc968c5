"""The audit log as a running broker has it."""

from __future__ import annotations

import json
from typing import Any

from ottla.broker.broker import Broker
from ottla.protocol.record_batch import decode_records
from ottla.security.audit_chain import AUDIT_TOPIC
from ottla.security.audit_verification import AuditVerifier

AUDIT_ON = {"ottla.audit.log.enable": "true"}


def values_of(broker: Broker) -> list[tuple[int, bytes, bytes]]:
    """Offset, key and value of every committed record in this broker's replica."""
    partition = next((each for each in broker.partitions if each.topic == AUDIT_TOPIC), None)
    if partition is None:
        return []
    return [
        (record.offset, record.key or b"", record.value or b"")
        for header, batch in partition.log.iterate_batches(partition.log.log_start_offset)
        for record in decode_records(batch)
        if header.base_offset < partition.high_watermark
    ]


def records_of(broker: Broker) -> list[dict[str, Any]]:
    """The records' fields."""
    return [json.loads(value) for _, _, value in values_of(broker)]


def verified(broker: Broker, *keys: bytes) -> AuditVerifier:
    """The outcome of a verification."""
    verifier = AuditVerifier(keys, log_start_offset=0)
    for offset, key, value in values_of(broker):
        verifier.add(key, value, offset)
    verifier.finish()
    return verifier
