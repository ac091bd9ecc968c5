"""Counts fetched batches: which are visible, which are damaged, by record or by header."""

from __future__ import annotations

import logging

from ottla.audit.core.counting import PartitionCounter
from ottla.client.records.reader import FetchedPart
from ottla.client.records.visibility import Visibility
from ottla.protocol.errors import CorruptBatch
from ottla.protocol.record_batch import check_crc, records_payload

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
                counter.count_payload(header, records_payload(part.data, position, header), now_ms)
            except CorruptBatch as problem:
                where = f"{part.partition} at offset {header.base_offset}"
                _log.warning("a batch of %s is damaged, its records are unknown: %s", where, problem)
                counter.skip_to(header.next_offset, header.max_timestamp)
