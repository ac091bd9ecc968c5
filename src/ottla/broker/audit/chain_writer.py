"""Writes a node's chain: finds its end, continues it, and never writes a record twice or past a lost one.

One batch is under way at a time, by an idempotent producer: a batch whose outcome is not known is sent again
as it is, to whichever broker leads by then, until it is known. So a chain has no forks of its own making.

A run finds the chain's end in the log. The batches of the run before may still be on their way then, if that
was killed. So the run writes with the epoch after that run's: from its first record on the leader refuses
what is older. What came between the reading and that record is read again; records found there are named by a
second record (security/audit_verification.py).

The file `ottla-audit-chain` in the data directory has the producer's id and epoch, synced before a batch goes
out with them, and the end that this node knows, written after each batch that is committed. From there on the
log is searched, and if the log ends earlier, or lacks that record, somebody has removed records. The chain is
then continued behind the end that is known, so that the gap stays visible. The end may be behind after a
kill. A file that is lost is made up for by a search from the log's end.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.protocol.errors import (
    InvalidProducerEpoch,
    MessageTooLarge,
    OutOfOrderSequenceNumber,
    RecordListTooLarge,
    UnknownProducerId,
)
from ottla.protocol.record_batch import (
    NO_PRODUCER_ID,
    BatchHeader,
    NewRecord,
    encode_batch,
)
from ottla.security.audit_chain import (
    CHAIN_ENDED,
    CHAIN_RESUMED,
    CHAIN_STARTED,
    EVENTS_LOST,
    UNKNOWN,
    AuditEvent,
    ChainEnd,
    Json,
    NotAuditRecord,
    SealedRecord,
    TimedEvent,
    read_record,
    seal,
)
from ottla.storage.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from uuid import UUID

    from ottla.broker.audit.audit_partition import AuditPartition

log = logging.getLogger("ottla.broker")

END_FILE: Final = "ottla-audit-chain"
#: A batch is sealed in one turn of the event loop.
MOST_RECORDS: Final = 200
#: The records that are searched first from the log's end; four times as many before them, and so on.
FIRST_WINDOW: Final = 10_000
LAST_EPOCH: Final = 2**15 - 1
#: The runs before this one of which only the first record may be there.
MOST_SHORT_RUNS: Final = 100
MAX_FILE_BYTES: Final = 4_096


class TooLarge(Exception):
    """The topic takes no record as large as the first one of those to be written."""


class _Known(NamedTuple):
    """The end of the chain as it was found, and the batch's producer."""

    end: ChainEnd
    record: SealedRecord
    producer: _ProducerEpoch | None


class _ProducerEpoch(NamedTuple):
    """A producer's id and epoch."""

    id: int
    epoch: int


class EndFile(NamedTuple):
    """The content of the file, as far as it can be read."""

    end: ChainEnd | None = None
    producer: _ProducerEpoch | None = None
    untold: int = 0
    """Events that the run before could not write."""


@dataclass(slots=True)
class _Producer:
    """This run's producer."""

    id: int
    epoch: int
    next_sequence: int = 0


@dataclass(frozen=True, slots=True)
class _Sent:
    """A batch whose outcome is not known. count: its records; own: whether they tell of the chain itself."""

    batch: bytes
    end: ChainEnd
    count: int
    own: bool


class ChainWriter:
    """See the module's text. Calls raise as those of `AuditPartition`, and are repeated then."""

    def __init__(
        self,
        partition: AuditPartition,
        node_id: int,
        run: str,
        directory: Path,
        now_ms: Callable[[], int],
    ) -> None:
        """run: names this run of the node."""
        self._partition = partition
        self._node_id = node_id
        self._run = run
        self._file = directory / END_FILE
        self._now_ms = now_ms
        self.key: bytes | None = None
        """Signs the records; None: they are not signed."""
        self._end: ChainEnd | None = None
        self._has_begun = False
        self._producer: _Producer | None = None
        self._takes_new_id = False
        self._topic_id: UUID | None = None
        self._sent: _Sent | None = None
        # Records about the chain itself, which go before others.
        self._own: list[TimedEvent] = []
        # The records from this offset on, up to the run's first one, have not been read.
        self._unread_from: int | None = None
        self._most = MOST_RECORDS
        # Whether the file has the end.
        self._is_kept = True

    @property
    def is_idle(self) -> bool:
        """Whether it has nothing to write of its own, and knows where to go on."""
        return (
            self._producer is not None
            and self._sent is None
            and not self._own
            and self._unread_from is None
            and self._is_kept
        )

    def finish(self) -> None:
        """Have a record written that says that the run ends."""
        self._own.append(self._told(CHAIN_ENDED))

    async def write(self, events: Sequence[TimedEvent]) -> int:
        """Take one step: write some of the events, or what comes before them.

        Returns the number of events that are written now. Raises TooLarge for the first of them.
        """
        if self._producer is None or self._partition.topic_id != self._topic_id:
            landed = await self._resume()
            if landed is not None:
                return landed
        if not self._is_kept:
            await self._keep_end()
        if self._sent is None and self._unread_from is not None and not self._own:
            await self._look_for_late_records()
        if self._sent is None:
            self._seal((self._own or events)[: self._most], own=bool(self._own))
        return await self._send()

    def _seal(self, events: Sequence[TimedEvent], *, own: bool) -> None:
        assert self._producer is not None
        if not events:
            return
        values, end = seal(events, self._node_id, self._run, self._end, self.key)
        assert end is not None
        records = [
            NewRecord(str(self._node_id).encode(), value, each.time_ms)
            for each, value in zip(events, values, strict=True)
        ]
        batch = encode_batch(
            records,
            producer_id=self._producer.id,
            producer_epoch=self._producer.epoch,
            base_sequence=self._producer.next_sequence,
        )
        self._sent = _Sent(batch, end, len(records), own)

    async def _send(self) -> int:
        sent, producer = self._sent, self._producer
        if sent is None:
            return 0
        assert producer is not None
        try:
            base_offset = await self._partition.produce(sent.batch)
        except (OutOfOrderSequenceNumber, InvalidProducerEpoch, UnknownProducerId):
            # The log is not the one that this producer wrote to, or another producer has its id.
            self._producer, self._takes_new_id = None, True
            raise
        except (MessageTooLarge, RecordListTooLarge) as problem:
            self._sent = None
            if sent.count == 1:
                if sent.own:
                    raise
                raise TooLarge(str(problem)) from None
            self._most = max(1, sent.count // 2)
            return 0
        self._most = MOST_RECORDS
        producer.next_sequence += sent.count
        if sent.own:
            del self._own[: sent.count]
            self._has_begun = True
        # Nothing may fail from here on: what has landed is told as written.
        self._sent = None
        self._end = sent.end._replace(offset=base_offset + sent.count - 1)
        self._is_kept = False
        return 0 if sent.own else sent.count

    def keep_untold(self, count: int) -> None:
        """Keep the number of events that this run could not write. Raises nothing."""
        try:
            replace_file(self._file, _file_content(self._end, self._producer, count), sync=False)
        except OSError as problem:
            log.error("the number of events that are not in the audit log is not kept: %s", problem)

    def _told(self, event: str, details: dict[str, Json] | None = None) -> TimedEvent:
        return TimedEvent(AuditEvent(event, details=tuple((details or {}).items())), self._now_ms())

    # -- finding the end --------------------------------------------------------------------------------

    async def _resume(self) -> int | None:
        """Find the chain's end, and prepare the record that continues it.

        Returns the number of events that turn out to be written already, None if that is not the case.
        """
        partition = self._partition
        if partition.topic_id is None:
            await partition.make_topic()
        topic_id = partition.topic_id
        kept = await asyncio.to_thread(read_end, self._file)
        known = self._end or kept.end
        start_offset, end_offset = await partition.offsets()
        found = await self._find_end(start_offset, end_offset, known)
        producer = await self._next_producer(kept.producer or (None if found is None else found.producer))
        unread_from = min(
            end_offset if self._unread_from is None else self._unread_from,
            await self._unexplained_from(found, start_offset, end_offset),
        )
        sent = self._sent
        if sent is not None and found is not None and found.end.hash == sent.end.hash:
            # The batch whose outcome was not known has landed.
            known = sent.end
        is_lost = known is not None and _is_lost(known, found, start_offset)
        end = known if found is None or is_lost else found.end
        content = _file_content(end, producer, kept.untold)
        await asyncio.to_thread(replace_file, self._file, content, sync=True)
        # Nothing may fail from here on: what was found counts as a whole.
        self._end, self._producer, self._sent = end, producer, None
        self._topic_id, self._takes_new_id, self._unread_from = topic_id, False, unread_from
        self._own = [each for each in self._own if each.event.event == CHAIN_ENDED]
        if kept.untold:  # until the next end is written, each attempt reads the number again
            self._own.insert(0, TimedEvent(AuditEvent(EVENTS_LOST, UNKNOWN), self._now_ms(), kept.untold))
        self._own.insert(0, self._first_record(found, is_lost=is_lost))
        if sent is None or found is None or found.end.hash != sent.end.hash:
            return None
        if found.record.event == CHAIN_ENDED and self._own[1:]:
            self._own.pop()  # the record of the run's end has landed
        return 0 if sent.own else sent.count

    def _first_record(self, found: _Known | None, *, is_lost: bool) -> TimedEvent:
        if self._end is None:
            return self._told(CHAIN_STARTED, {"signed": self.key is not None})
        if is_lost:
            after = "loss"
            log.error(
                "records of the audit log are missing node=%d last_written=%d last_found=%s",
                self._node_id,
                self._end.sequence,
                None if found is None else found.end.sequence,
            )
        elif self._has_begun:
            after = "interruption"
        else:
            after = "stop" if found is not None and found.record.event == CHAIN_ENDED else "crash"
        last = None if found is None else found.end.sequence
        details = {"after": after, "last_found": last, "signed": self.key is not None}
        return self._told(CHAIN_RESUMED, details)

    async def _next_producer(self, last: _ProducerEpoch | None) -> _Producer:
        """A producer whose batches shut out those of the last one, which may be on their way."""
        if last is None or self._takes_new_id or not 0 <= last.epoch < LAST_EPOCH:
            return _Producer(await self._partition.new_producer_id(), 0)
        return _Producer(last.id, last.epoch + 1)

    async def _find_end(self, start_offset: int, end_offset: int, known: ChainEnd | None) -> _Known | None:
        """The chain's last record in the log."""
        upper = end_offset
        if known is not None and known.offset is not None and start_offset <= known.offset < upper:
            found = await self._last_in(known.offset, upper)
            if found is not None:
                return found
            upper = known.offset
        window = FIRST_WINDOW
        while upper > start_offset:
            lower = max(start_offset, upper - window)
            found = await self._last_in(lower, upper)
            if found is not None:
                return found
            upper, window = lower, 4 * window
        return None

    async def _last_in(self, start_offset: int, end_offset: int) -> _Known | None:
        """The chain's last record between two offsets."""
        last = None
        async for record, offset, header in self._own_records(start_offset, end_offset):
            end = ChainEnd(record.sequence, record.hash, offset)
            producer = None
            if header.producer_id != NO_PRODUCER_ID:
                producer = _ProducerEpoch(header.producer_id, header.producer_epoch)
            last = _Known(end, record, producer)
        return last

    async def _own_records(
        self, start_offset: int, end_offset: int
    ) -> AsyncIterator[tuple[SealedRecord, int, BatchHeader]]:
        """The chain's sound records between two offsets, with their offsets and batches."""
        key = str(self._node_id).encode()
        async for header, records in self._partition.batches(start_offset, end_offset):
            for record in records:
                if record.key == key and start_offset <= record.offset < end_offset:
                    with contextlib.suppress(NotAuditRecord):
                        sealed = read_record(record.value or b"")
                        if sealed.node == self._node_id:
                            yield sealed, record.offset, header

    async def _unexplained_from(self, found: _Known | None, start_offset: int, end_offset: int) -> int:
        """The offset from which the log may have late records that no record names: runs before this one may
        have been killed behind their first record.
        """
        offset, record = end_offset, None if found is None else found.record
        for _ in range(MOST_SHORT_RUNS):
            if (
                record is None
                or record.event not in (CHAIN_STARTED, CHAIN_RESUMED)
                or "late" in record.details
            ):
                break
            before = record.previous_offset
            if before is None or before < start_offset:
                return start_offset
            offset = before
            former = await self._last_in(before, before + 1)
            record = None if former is None else former.record
        return offset

    async def _look_for_late_records(self) -> None:
        """Name the records that came between the reading of the log and the run's first record."""
        assert self._unread_from is not None and self._end is not None and self._end.offset is not None
        late: list[SealedRecord] = []
        expected = self._end.hash
        records = [each async for each in self._own_records(self._unread_from, self._end.offset + 1)]
        for record, _, _ in reversed(records):
            if record.hash == expected:
                expected = record.previous_hash
            else:
                late.append(record)
        self._unread_from = None
        continued = {each.previous_hash for each in late}
        ends = [[each.sequence, each.hash] for each in late if each.hash not in continued]
        if ends:
            self._own.insert(0, self._told(CHAIN_RESUMED, {"late": ends}))

    # -- the file ---------------------------------------------------------------------------------------

    async def _keep_end(self) -> None:
        """Not synced: after a power loss or a failure the log is searched from an earlier end on."""
        try:
            await asyncio.to_thread(
                replace_file, self._file, _file_content(self._end, self._producer), sync=False
            )
        except OSError as problem:
            log.warning("the end of the audit log's chain is not kept: %s", problem)
        self._is_kept = True


def _file_content(end: ChainEnd | None, producer: _Producer | None, untold: int = 0) -> bytes:
    fields: dict[str, Json] = {"untold": untold}
    if end is not None and end.offset is not None:
        fields |= end._asdict()
    if producer is not None:
        fields |= {"producer_id": producer.id, "producer_epoch": producer.epoch}
    return json.dumps(fields).encode()


def read_end(path: Path) -> EndFile:
    """The content of the file; nothing if there is none, or if it can't be read."""
    try:
        with path.open("rb") as file:
            fields = json.loads(file.read(MAX_FILE_BYTES))
        end = producer = None
        if "sequence" in fields:
            end = ChainEnd(int(fields["sequence"]), str(fields["hash"]), int(fields["offset"]))
        if "producer_id" in fields:
            producer = _ProducerEpoch(int(fields["producer_id"]), int(fields["producer_epoch"]))
        return EndFile(end, producer, int(fields["untold"]))
    except FileNotFoundError:
        return EndFile()
    except (OSError, ValueError, KeyError, TypeError):
        log.warning("the end of the audit log's chain is searched in the log: %s can't be read", path)
        return EndFile()


def _is_lost(known: ChainEnd, found: _Known | None, start_offset: int) -> bool:
    """Whether records that were written are in the log no more, and have not expired."""
    if found is not None and found.end.sequence >= known.sequence:
        return False
    return known.offset is None or known.offset >= start_offset
