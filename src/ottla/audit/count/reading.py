"""Counts fetched batches: which are visible, which are damaged, by record or by header."""

from __future__ import annotations

import logging
from typing import Final

from ottla.audit.core.counting import PartitionCounter
from ottla.client.records.reader import FetchedPart
from ottla.client.records.visibility import Visibility
from ottla.protocol.errors import CorruptBatch
from ottla.protocol.record_batch import check_crc, records_payload

MARGIN: Final = 1.3
"""Of the memory for a batch that unfolds to a little more than the one before."""

_log = logging.getLogger("ottla.audit")


def count_part(
    counter: PartitionCounter, part: FetchedPart, visibility: Visibility, now_ms: int, *, by_header: bool
) -> None:
    """Count the batches of one answer; a damaged batch is passed as if its records were gone."""
    visible = {
        position
        for position, header in visibility.visible(part.data, part.batches, part.aborted)
        if not header.is_control
    }
    if part.start > counter.position:  # retention was faster; its first batch may begin in front of the log
        counter.skip_to(part.start, part.batches[0][1].max_timestamp)
    unfolds: float | None = None  # how much the batch before did: this one is like it
    for position, header in part.batches:
        if part.stop is not None and header.base_offset >= part.stop:
            return
        if position not in visible:
            counter.skip_batch(header)
        elif by_header:
            counter.count_header(header, now_ms)
        else:
            try:
                check_crc(part.data, position, header)
                expected = None if unfolds is None else int(header.size_bytes * unfolds * MARGIN)
                payload = records_payload(part.data, position, header, expected_bytes=expected)
                unfolds = len(payload) / header.size_bytes
                counter.count_payload(header, payload, now_ms)
            except CorruptBatch as problem:
                where = f"{part.partition} at offset {header.base_offset}"
                _log.warning("a batch of %s is damaged, its records are unknown: %s", where, problem)
                counter.skip_to(header.next_offset, header.max_timestamp)
