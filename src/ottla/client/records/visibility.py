"""Which of the fetched batches a reader may see: control batches and aborted transactions are left out.

A fetch with read_committed names the aborted transactions within its range, each by its producer and first
offset (KIP-98). From that batch on, the producer's transactional batches are invisible, up to the abort
marker in the log. One `Visibility` follows one partition; it is fed its batches in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.protocol.record_batch import (
    BatchHeader,
    ControlRecordType,
    control_record_type,
    decode_records,
)
from ottla.protocol.schema import Buffer


class Visibility:
    """Decides, for one partition, which batches are visible to read_committed."""

    def __init__(self) -> None:
        self._aborted: set[int] = set()

    def visible(
        self, data: Buffer, batches: Sequence[tuple[int, BatchHeader]], aborted: Iterable[tuple[int, int]]
    ) -> list[tuple[int, BatchHeader]]:
        """The batches, of those at these positions of `data`, that do not belong to an aborted transaction.

        aborted: (first offset, producer id) of the transactions that the fetch names. Control batches are
        kept: the caller leaves them out, or shows them. Raises CorruptBatch.
        """
        coming = sorted(aborted)
        if not coming and not self._aborted:
            return list(batches)
        found = []
        at = 0
        for position, header in batches:
            while at < len(coming) and coming[at][0] <= header.last_offset:
                self._aborted.add(coming[at][1])
                at += 1
            if header.is_control:
                if header.producer_id in self._aborted and _is_abort(data, position):
                    self._aborted.discard(header.producer_id)
            elif header.is_transactional and header.producer_id in self._aborted:
                continue
            found.append((position, header))
        return found


def _is_abort(data: Buffer, position: int) -> bool:
    records = decode_records(data, position)
    return any(control_record_type(record) is ControlRecordType.ABORT for record in records)
