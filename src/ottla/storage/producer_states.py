"""The last batches of each idempotent producer in a log: duplicates, gaps, fencing, open transactions.

For every producer id: the epoch, the last five batches (sequences, offsets, timestamps), the first offset of
an open transaction, and the epoch of the coordinator that ended the last one. `check` judges a client's batch
before its append, `check_marker` the end of a transaction; `update` takes an appended batch. Only `update`
changes the state, so a replay of the log's batches gives the same one.

Rules (KIP-98, KIP-360, KIP-447, KIP-890, KIP-1228, as in Apache Kafka):
- the exact sequence range of one of the last five batches of this epoch is a duplicate: answered with the
  offset it got the first time;
- an older epoch is fenced; a newer one must begin with sequence 0;
- otherwise the first sequence follows the last one; 0 follows 2^31-1;
- a producer that the log does not know (any more) may begin with any sequence;
- within a transaction, batches that are not transactional are refused;
- a batch that begins a transaction here must bring a `Verification`, made before the coordinator was asked
  and void once any transactional batch or marker of the producer was appended; nothing below the lowest
  sequence seen meanwhile may be skipped; in transactions v2 a producer without batches begins with 0;
- a marker has at least the producer's epoch, in transactions v2 a newer one, unless it only repeats the end
  of a transaction; and at least the epoch of the coordinator that wrote the last one.

Snapshots are Kafka's `<offset>.snapshot` files: the state before that offset. One is written whenever a
segment is rolled and when the log is closed; they only save replaying, so a damaged one is dropped and an
older one used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from ottla.protocol.crc import crc32c
from ottla.protocol.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from ottla.protocol.record_batch import (
    CONTROL,
    TRANSACTIONAL,
    BatchHeader,
    decrement_sequence,
    increment_sequence,
)
from ottla.storage.directory_files import DirectoryFiles
from ottla.storage.errors import StorageError
from ottla.storage.file_names import offset_file_name

SNAPSHOT_SUFFIX = ".snapshot"
BATCHES_KEPT = 5
NO_EPOCH = -1
NO_SEQUENCE = -1
LAST_EPOCH = 2**15 - 1
TRANSACTIONS_V2 = 2

_SNAPSHOT_VERSION = 1
_SNAPSHOT_START = Struct(">hIi")  # version, CRC-32C of all bytes after it, number of entries
_SNAPSHOT_CRC_END = 6
# producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, txn first offset
_SNAPSHOT_ENTRY = Struct(">qhiqiqiq")


class ProducedBatch(NamedTuple):
    """One of the last batches of a producer."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def base_sequence(self) -> int:
        return decrement_sequence(self.last_sequence, self.offset_delta)


@dataclass(slots=True)
class ProducerState:
    """One producer's state in one log. -1 means none."""

    producer_id: int
    epoch: int = NO_EPOCH
    coordinator_epoch: int = -1
    last_timestamp: int = -1
    current_txn_first_offset: int = -1
    batches: deque[ProducedBatch] = field(default_factory=lambda: deque(maxlen=BATCHES_KEPT))

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


@dataclass(slots=True, eq=False)
class Verification:
    """A request to the coordinator under way: whether a producer's transaction includes this partition.

    Only this very object lets a batch begin the transaction; `started_ms` is for its expiry.
    """

    epoch: int
    lowest_sequence: int
    started_ms: int
    transactions_v2: bool
    confirmed: bool = False
    """Set by the caller if it cannot pass the object along with the batch, see `confirmed_verification`."""

    def seen(self, epoch: int, sequence: int) -> None:
        """Another batch of the producer asks while the first one waits."""
        if epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


class TransactionMarker(NamedTuple):
    """The record of a control batch that ends a transaction."""

    committed: bool
    coordinator_epoch: int


class CompletedTransaction(NamedTuple):
    """A transaction that a marker at `last_offset` ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool
    last_stable_offset: int


class ProducerStates:
    """All producers of one log."""

    __slots__ = ("_expiration_ms", "_ongoing", "_producers", "_unreplicated", "_verifications")

    def __init__(self, expiration_ms: int) -> None:
        self._expiration_ms = expiration_ms
        self._producers: dict[int, ProducerState] = {}
        self._ongoing: dict[int, int] = {}  # first offset of an open transaction -> producer id, in log order
        self._verifications: dict[int, Verification] = {}
        self._unreplicated: dict[int, int] = {}  # first offset of an ended one -> offset of its marker

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[ProducerState]:
        return iter(self._producers.values())

    def get(self, producer_id: int) -> ProducerState | None:
        return self._producers.get(producer_id)

    def set_expiration(self, expiration_ms: int) -> None:
        self._expiration_ms = expiration_ms

    # --- a client's batch -----------------------------------------------------------------------------

    def check(
        self, header: BatchHeader, verification: Verification | None = None, *, must_verify: bool = False
    ) -> ProducedBatch | None:
        """Check a client's batch: None if it may be appended, or the batch that it duplicates.

        `must_verify`: a batch that begins a transaction needs the `verification` that is under way. Raises
        InvalidProducerEpoch, OutOfOrderSequenceNumber or InvalidTxnState. Batches without a producer id or
        with control records pass.
        """
        state = self._producers.get(header.producer_id)
        attributes = header.attributes
        if attributes & CONTROL:
            return None
        epoch = header.producer_epoch
        sequence = header.base_sequence
        if state is not None and epoch == state.epoch:
            last_sequence = header.last_sequence
            for batch in state.batches:
                if batch.last_sequence == last_sequence and batch.base_sequence == sequence:
                    return batch
        if attributes & TRANSACTIONAL:
            self._check_verified(header, state, verification, must_verify)
        if state is None:
            return None
        if epoch == state.epoch:
            expected = increment_sequence(state.last_sequence, 1)
            if sequence != expected and sequence != NO_SEQUENCE:
                raise OutOfOrderSequenceNumber(
                    f"producer {state.producer_id}, epoch {epoch}: sequence {sequence}, expected {expected}"
                )
        elif epoch < state.epoch:
            raise InvalidProducerEpoch(
                f"producer {header.producer_id}: epoch {epoch} is older than {state.epoch}"
            )
        elif sequence > 0 and state.epoch != NO_EPOCH:
            raise OutOfOrderSequenceNumber(
                f"producer {state.producer_id}: sequence {sequence}, but new epoch {epoch} begins with 0"
            )
        if state.current_txn_first_offset >= 0 and not header.is_transactional:
            raise InvalidTxnState(
                f"producer {header.producer_id} has an open transaction and sent a batch outside of it"
            )
        return None

    def _check_verified(
        self,
        header: BatchHeader,
        state: ProducerState | None,
        verification: Verification | None,
        must_verify: bool,
    ) -> None:
        if state is not None:
            if header.producer_epoch < state.epoch:
                return  # which is then refused
            if state.current_txn_first_offset >= 0 and state.epoch == header.producer_epoch:
                return
        producer_id = header.producer_id
        current = self._verifications.get(producer_id)
        if must_verify and (current is None or current is not verification):
            raise InvalidTxnState(f"producer {producer_id} has no transaction that includes the partition")
        sequence = header.base_sequence
        if current is None or sequence == NO_SEQUENCE:
            return
        if current.transactions_v2 and sequence != 0 and (state is None or not state.batches):
            raise OutOfOrderSequenceNumber(
                f"producer {producer_id}: sequence {sequence}, but nothing is known of it: expected 0"
            )
        if sequence > current.lowest_sequence:
            raise OutOfOrderSequenceNumber(
                f"producer {producer_id}: sequence {sequence}, but {current.lowest_sequence} was seen before"
            )

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, *, now_ms: int, transactions_v2: bool
    ) -> Verification | None:
        """Begin the verification of a transactional batch; None if its transaction is open in this log
        already.

        Otherwise the caller asks the coordinator, and passes the result of this method to `check`. Raises
        InvalidProducerEpoch.
        """
        state = self._producers.get(producer_id)
        if state is not None:
            if epoch < state.epoch:
                raise InvalidProducerEpoch(
                    f"producer {producer_id}: epoch {epoch} is older than {state.epoch}"
                )
            if state.current_txn_first_offset >= 0 and state.epoch == epoch:
                return None
        current = self._verifications.get(producer_id)
        if current is None:
            current = Verification(epoch, sequence, now_ms, transactions_v2)
            self._verifications[producer_id] = current
        else:
            current.seen(epoch, sequence)
        return current

    def confirmed_verification(self, producer_id: int) -> Verification | None:
        """The producer's verification if it is confirmed and still valid, or None."""
        current = self._verifications.get(producer_id)
        return current if current is not None and current.confirmed else None

    def check_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> None:
        """Check that a coordinator may end a transaction. Raises InvalidProducerEpoch (for the producer's
        epoch) or TransactionCoordinatorFenced (for an older coordinator).
        """
        state = self._producers.get(producer_id)
        if state is None:
            return
        is_open = state.current_txn_first_offset >= 0
        stale = epoch < state.epoch
        if transaction_version >= TRANSACTIONS_V2 and epoch == state.epoch:
            stale = is_open and epoch != LAST_EPOCH
        if stale:
            raise InvalidProducerEpoch(
                f"a marker of producer {producer_id} has epoch {epoch}, the producer {state.epoch}"
            )
        if coordinator_epoch < state.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"a marker of producer {producer_id} is of coordinator epoch {coordinator_epoch}, "
                f"the last one was of {state.coordinator_epoch}"
            )

    # --- appended batches -----------------------------------------------------------------------------

    def update(
        self, header: BatchHeader, marker: TransactionMarker | None = None
    ) -> CompletedTransaction | None:
        """Take an appended batch with a producer id; `marker` is its record if it is a control batch.

        Returns the transaction that it ended, or None.
        """
        producer_id = header.producer_id
        if header.attributes & (TRANSACTIONAL | CONTROL):
            self._verifications.pop(producer_id, None)
            if marker is None and header.is_control:
                return None  # compaction has emptied the control batch
        state = self._producers.get(producer_id)
        if state is None:
            state = self._producers[producer_id] = ProducerState(producer_id)
        if state.epoch != header.producer_epoch:
            state.epoch = header.producer_epoch
            state.batches.clear()
        state.last_timestamp = header.max_timestamp
        if marker is not None:
            return self._end_transaction(state, header, marker)
        last_offset = header.base_offset + header.last_offset_delta
        state.batches.append(
            ProducedBatch(header.last_sequence, last_offset, header.last_offset_delta, header.max_timestamp)
        )
        if header.is_transactional and state.current_txn_first_offset < 0:
            state.current_txn_first_offset = header.base_offset
            self._ongoing[header.base_offset] = producer_id
        return None

    def _end_transaction(
        self, state: ProducerState, header: BatchHeader, marker: TransactionMarker
    ) -> CompletedTransaction | None:
        state.coordinator_epoch = marker.coordinator_epoch
        first_offset = state.current_txn_first_offset
        state.current_txn_first_offset = -1
        if first_offset < 0:
            return None
        self._ongoing.pop(first_offset, None)
        self._unreplicated[first_offset] = header.base_offset
        stable = next(iter(self._ongoing), header.base_offset + 1)
        return CompletedTransaction(
            state.producer_id, first_offset, header.base_offset, not marker.committed, stable
        )

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of a transaction that is open, or whose marker is not replicated yet; or None."""
        ongoing = next(iter(self._ongoing)) if self._ongoing else None
        if not self._unreplicated:
            return ongoing
        unreplicated = min(self._unreplicated)
        return unreplicated if ongoing is None else min(ongoing, unreplicated)

    def on_high_watermark(self, high_watermark: int) -> None:
        """Forget the ended transactions whose marker is below the high watermark: they are stable."""
        if self._unreplicated:
            done = [first for first, marker in self._unreplicated.items() if marker < high_watermark]
            for first in done:
                del self._unreplicated[first]

    def expire(self, now_ms: int) -> int:
        """Forget the producers without batches for a long time and without an open transaction. Returns their
        number.

        Verifications that were not followed by a batch expire as well.
        """
        limit = now_ms - self._expiration_ms
        expired = [
            state.producer_id
            for state in self._producers.values()
            if state.last_timestamp <= limit and state.current_txn_first_offset < 0
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        for producer_id in [
            each for each, verification in self._verifications.items() if verification.started_ms <= limit
        ]:
            del self._verifications[producer_id]
        return len(expired)

    def clear(self) -> None:
        self._producers.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self._verifications.clear()

    # --- snapshots ------------------------------------------------------------------------------------

    def encode(self) -> bytes:
        """The content of a snapshot file."""
        data = bytearray(_SNAPSHOT_START.size)
        for state in self._producers.values():
            last = state.batches[-1] if state.batches else ProducedBatch(NO_SEQUENCE, -1, 0, -1)
            data += _SNAPSHOT_ENTRY.pack(
                state.producer_id,
                state.epoch,
                last.last_sequence,
                last.last_offset,
                last.offset_delta,
                state.last_timestamp,
                state.coordinator_epoch,
                state.current_txn_first_offset,
            )
        _SNAPSHOT_START.pack_into(data, 0, _SNAPSHOT_VERSION, 0, len(self._producers))
        crc = crc32c(memoryview(data)[_SNAPSHOT_CRC_END:])
        _SNAPSHOT_START.pack_into(data, 0, _SNAPSHOT_VERSION, crc, len(self._producers))
        return bytes(data)

    def load(self, data: bytes, now_ms: int) -> None:
        """Replace the state by a snapshot's, without what has expired. Raises StorageError if damaged."""
        if len(data) < _SNAPSHOT_START.size:
            raise StorageError(f"{len(data)} bytes are too few for a snapshot")
        version, crc, count = _SNAPSHOT_START.unpack_from(data)
        if version != _SNAPSHOT_VERSION:
            raise StorageError(f"version {version} where {_SNAPSHOT_VERSION} was expected")
        if crc32c(memoryview(data)[_SNAPSHOT_CRC_END:]) != crc:
            raise StorageError("the CRC is wrong")
        if count < 0 or len(data) != _SNAPSHOT_START.size + count * _SNAPSHOT_ENTRY.size:
            raise StorageError(f"{len(data)} bytes do not hold {count} entries")
        self.clear()
        for fields in _SNAPSHOT_ENTRY.iter_unpack(memoryview(data)[_SNAPSHOT_START.size :]):
            producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, first = (
                fields
            )
            state = ProducerState(producer_id, epoch, coordinator_epoch, timestamp, max(first, -1))
            if last_offset >= 0:
                state.batches.append(ProducedBatch(last_sequence, last_offset, delta, timestamp))
            self._producers[producer_id] = state
        self._ongoing.update(
            sorted(
                (state.current_txn_first_offset, state.producer_id)
                for state in self._producers.values()
                if state.current_txn_first_offset >= 0
            )
        )
        self.expire(now_ms)


class ProducerSnapshots:
    """The snapshot files in a partition's directory."""

    __slots__ = ("_files", "offsets")

    def __init__(self, files: DirectoryFiles, offsets: list[int]) -> None:
        self._files = files
        self.offsets = sorted(offsets)

    @staticmethod
    def name(offset: int) -> str:
        """The name of the snapshot of the state before `offset`."""
        return offset_file_name(offset, SNAPSHOT_SUFFIX)

    def path(self, offset: int) -> Path:
        return self._files.path / self.name(offset)

    def write(self, offset: int, states: ProducerStates, *, sync: bool) -> None:
        """Save the state before `offset`, unless it is saved already."""
        if offset in self.offsets:
            return
        self._files.replace(self.name(offset), states.encode(), sync=sync)
        self.offsets.append(offset)
        self.offsets.sort()

    def load_newest(self, states: ProducerStates, at_most: int, now_ms: int) -> int | None:
        """Load the newest snapshot not above `at_most`, remove damaged ones. Its offset, None without one."""
        for offset in reversed([offset for offset in self.offsets if offset <= at_most]):
            try:
                states.load(self.path(offset).read_bytes(), now_ms)
            except (StorageError, FileNotFoundError):
                self.remove(offset)
                continue
            return offset
        states.clear()
        return None

    def remove(self, offset: int) -> None:
        if offset in self.offsets:
            self.offsets.remove(offset)
        self._files.remove(self.name(offset))

    def remove_strays(self, base_offsets: set[int], log_end_offset: int) -> None:
        """Remove snapshots without a segment, but for the newest one up to the log's end."""
        for offset in sorted(self.offsets, reverse=True):
            newest = offset == self.offsets[-1] and offset <= log_end_offset
            if offset > log_end_offset or (offset not in base_offsets and not newest):
                self.remove(offset)

    def rename_for_deletion(self, offset: int) -> list[str]:
        """Give the snapshot of a deleted segment the suffix `.deleted`. Returns the new names."""
        if offset not in self.offsets:
            return []
        self.offsets.remove(offset)
        target = f"{self.name(offset)}.deleted"
        try:
            self._files.rename(self.name(offset), target)
        except FileNotFoundError:
            return []
        return [target]
