"""Reads the records of some partitions: to the ends that they have now, or until enough have come."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.record_batch import (
    ControlRecordType,
    control_record_type,
    decode_records,
    iterate_headers,
)
from ottla.testing.errors import KafkaTestError
from ottla.testing.wire import Deadline, NotYet, Wire, insist, require

FETCH_BYTES: Final = 8 * 1024 * 1024
WAIT_MS: Final = 100
PAUSE_SECONDS: Final = 0.005
SHORTEST_ROUND_SECONDS: Final = 0.01
TOLD_RECORDS: Final = 20
"""How many records the message tells when too few have come."""
_EARLIEST, _LATEST = -2, -1


@dataclass(frozen=True, slots=True)
class ConsumedRecord:
    """A record as it was read; `text` and `key_text` are value and key as UTF-8."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def text(self) -> str | None:
        """The value, decoded."""
        return None if self.value is None else self.value.decode()

    @property
    def key_text(self) -> str | None:
        """The key, decoded."""
        return None if self.key is None else self.key.decode()


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition and where its leader listens."""

    index: int
    address: tuple[str, int]


class Reading:
    """One reading of a topic, within a deadline. Partitions are found again when a leader has moved."""

    def __init__(
        self,
        wire: Wire,
        topic: str,
        partitions: Callable[[], Sequence[Partition]],
        committed: bool,
        deadline: Deadline,
    ) -> None:
        """`partitions` asks which partitions to read; it raises NotYet while one has no leader."""
        self._wire = wire
        self._topic = topic
        self._partitions = partitions
        self._committed = committed
        self._deadline = deadline
        self._wanted = f"read {topic}"
        self._records: list[ConsumedRecord] = []
        self._positions: dict[int, int] = {}

    def up_to_now(self, offset: int | None) -> list[ConsumedRecord]:
        """The records that are there now. Raises KafkaTestError."""
        self._begin(offset)
        ends = insist(lambda: self._offsets(_LATEST), self._wanted, self._deadline)
        for index, end in ends.items():
            if self._positions[index] > end:
                raise self._no_offset(index)
        while any(self._positions[index] < end for index, end in ends.items()):
            if not self._deadline.left_seconds():
                raise KafkaTestError(f"could not {self._wanted} within {self._deadline.seconds:g} s")
            insist(lambda: self._fetch(ends), self._wanted, self._deadline)
        return [each for each in self._records if each.offset < ends[each.partition]]

    def up_to_count(self, count: int, offset: int | None) -> list[ConsumedRecord]:
        """The first `count` records, waited for. Raises KafkaTestError with those that have come."""
        self._begin(offset)
        problem = ""
        while len(self._records) < count:
            if self._deadline.left_seconds() < SHORTEST_ROUND_SECONDS:
                raise KafkaTestError(self._too_few(count) + problem)
            try:
                self._fetch(None)
                problem = ""
            except NotYet as not_yet:
                problem = f"\n  at last: {not_yet}"
                time.sleep(PAUSE_SECONDS)
        return self._records[:count]

    def _begin(self, offset: int | None) -> None:
        starts = insist(lambda: self._offsets(_EARLIEST), self._wanted, self._deadline)
        self._positions = starts if offset is None else dict.fromkeys(starts, offset)

    def _offsets(self, timestamp: int) -> dict[int, int]:
        """The partitions' first offsets, or the ends that a consumer of this isolation sees."""
        found = {}
        for partition in self._partitions():
            asked = ListOffsetsPartition(partition_index=partition.index, timestamp=timestamp)
            request = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=int(self._committed),
                topics=[ListOffsetsTopic(name=self._topic, partitions=[asked])],
            )
            answer = self._wire.ask(partition.address, request, self._deadline)
            (told,) = answer.topics[0].partitions
            require(told.error_code, self._wanted)
            found[partition.index] = told.offset
        return found

    def _fetch(self, ends: dict[int, int] | None) -> None:
        """One round of fetches, to each leader one; waits a little for records when `ends` is None."""
        by_leader: dict[tuple[str, int], list[int]] = {}
        for partition in self._partitions():
            if ends is None or self._positions[partition.index] < ends[partition.index]:
                by_leader.setdefault(partition.address, []).append(partition.index)
        for address, indexes in by_leader.items():
            # Half of what is left at most: an answer without records must come before the deadline.
            wait_ms = min(WAIT_MS, int(self._deadline.left_seconds() * 500)) if ends is None else 0
            request = self._request(indexes, wait_ms)
            answer = self._wire.ask(address, request, self._deadline)
            require(answer.error_code, self._wanted)
            for told in answer.responses[0].partitions if answer.responses else ():
                self._take(told)

    def _request(self, indexes: Sequence[int], wait_ms: int) -> FetchRequest:
        partitions = [
            FetchPartition(
                partition=index, fetch_offset=self._positions[index], partition_max_bytes=FETCH_BYTES
            )
            for index in indexes
        ]
        return FetchRequest(
            replica_id=-1,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=int(self._committed),
            topics=[FetchTopic(topic=self._topic, partitions=partitions)],
        )

    def _take(self, told: Any) -> None:
        """Add the records of a partition's part of a Fetch response, and move the position behind them."""
        index = told.partition_index
        if told.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise self._no_offset(index)
        require(told.error_code, self._wanted)
        data = memoryview(told.records or b"")
        begun = sorted((each.first_offset, each.producer_id) for each in told.aborted_transactions or ())
        aborted: set[int] = set()
        for position, header in iterate_headers(data):
            while begun and begun[0][0] <= header.next_offset - 1:
                aborted.add(begun.pop(0)[1])
            records = decode_records(data, position)
            if header.is_control:
                if records and control_record_type(records[0]) is ControlRecordType.ABORT:
                    aborted.discard(header.producer_id)
            elif not (self._committed and header.is_transactional and header.producer_id in aborted):
                self._records += [
                    ConsumedRecord(
                        self._topic, index, each.offset, each.timestamp, each.key, each.value, each.headers
                    )
                    for each in records
                    if each.offset >= self._positions[index]
                ]
            self._positions[index] = max(self._positions[index], header.next_offset)

    def _no_offset(self, index: int) -> KafkaTestError:
        return KafkaTestError(
            f"could not {self._wanted}: partition {index} does not hold offset {self._positions[index]}"
        )

    def _too_few(self, count: int) -> str:
        found = len(self._records)
        lines = [
            f"topic {self._topic} has {found} of the {count} records that were waited for, after "
            f"{self._deadline.seconds:g} s",
            *(
                f"  partition {each.partition}, offset {each.offset}: key {each.key!r}, value {each.value!r}"
                for each in self._records[:TOLD_RECORDS]
            ),
        ]
        if found > TOLD_RECORDS:
            lines.append(f"  and {found - TOLD_RECORDS} more")
        return "\n".join(lines)
