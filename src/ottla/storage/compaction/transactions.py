"""Batches of aborted transactions to drop, and markers that are no longer needed, in a pass over a log.

The pass begins at a batch that no open transaction precedes. A marker is dropped once a whole pass has met no
batch of its transaction; until then it stays, and so does the entry of an aborted transaction in the index
that read_committed consumers use.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.protocol.record_batch import TRANSACTIONAL, BatchHeader, ControlRecordType
from ottla.storage.transaction_index import AbortedTransaction


class CleanedTransactions:
    """The transactions of one pass over a log."""

    __slots__ = ("_aborting", "_committing", "_observed", "_pending", "kept")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        # The earliest is last, to be popped.
        self._pending = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        self._aborting: dict[int, AbortedTransaction] = {}
        self._observed: set[int] = set()
        self._committing: set[int] = set()
        #: The aborted transactions whose marker stays, in the order of the markers.
        self.kept: list[AbortedTransaction] = []

    def _begin_up_to(self, offset: int) -> None:
        pending = self._pending
        while pending and pending[-1].first_offset <= offset:
            entry = pending.pop()
            self._aborting.setdefault(entry.producer_id, entry)

    def on_batch(self, header: BatchHeader) -> bool:
        """Whether a batch of data belongs to an aborted transaction, and is dropped."""
        if self._pending:
            self._begin_up_to(header.last_offset)
        if not header.attributes & TRANSACTIONAL:
            return False
        if header.producer_id in self._aborting:
            self._observed.add(header.producer_id)
            return True
        self._committing.add(header.producer_id)
        return False

    def on_control_batch(self, header: BatchHeader, kind: ControlRecordType | None) -> bool:
        """Whether a control batch with a record of this type (None if it is empty) is dropped."""
        if self._pending:
            self._begin_up_to(header.last_offset)
        producer_id = header.producer_id
        match kind:
            case None:
                return True  # an earlier cleaning has emptied it
            case ControlRecordType.ABORT:
                entry = self._aborting.pop(producer_id, None)
                if entry is not None and producer_id in self._observed:
                    self._observed.discard(producer_id)
                    self.kept.append(entry)
                    return False
                self._observed.discard(producer_id)
                return True
            case ControlRecordType.COMMIT:
                if producer_id in self._committing:
                    self._committing.discard(producer_id)
                    return False
                return True
            case _:
                return False
