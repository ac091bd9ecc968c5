"""Offsets in transactions count when the transaction commits, and only then.

A shard with plain commits, commits of several producers' transactions, markers, deletions, expiry, failing
appends, new coordinators and a cleaned log is compared after every step with the content of the whole log:
the last record of a partition that counts is its offset.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.core.coordination.api import ProducerStamp
from ottla.core.groups.settings import GroupSettings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ottla.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.records.offset_commit_key import OffsetCommitKey
from support.core.durable_state import classic_state
from support.core.group_shard import LogEntry, LoggedRecord, ShardDriver, TransactionEnd
from support.exploration import examples

GROUPS = ("g1", "g2")
TOPICS = ("t", "u")
PRODUCERS = tuple(ProducerStamp(producer_id, 0) for producer_id in (1, 2, 3))
RETENTION_MS = 60_000
APPEND_ERRORS = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.INVALID_PRODUCER_EPOCH)

Key = tuple[str, str, int]

group_ids = st.sampled_from(GROUPS)
topics = st.sampled_from(TOPICS)
partitions = st.integers(0, 1)
producers = st.sampled_from(PRODUCERS)


class LogContent:
    """The offsets of a log, found by reading it as a whole."""

    def __init__(self, entries: list[LogEntry]) -> None:
        self.first_undecided = len(entries)
        self.counts = [self._counts(entries, position) for position in range(len(entries))]
        self.committed: dict[Key, int] = {}
        self.waiting: dict[int, set[Key]] = {}
        for position, entry in enumerate(entries):
            if not isinstance(entry, LoggedRecord) or not isinstance(entry.record.key, OffsetCommitKey):
                continue
            key, value = key_of(entry.record.key), entry.record.value
            if value is None:
                self.committed.pop(key, None)
                for held in self.waiting.values():
                    held.discard(key)
            elif self.counts[position]:
                self.committed[key] = value.offset
            elif self.counts[position] is None and entry.producer is not None:
                self.waiting.setdefault(entry.producer.producer_id, set()).add(key)
                self.first_undecided = min(self.first_undecided, position)

    @staticmethod
    def _counts(entries: list[LogEntry], position: int) -> bool | None:
        """Whether a record's transaction was committed or aborted; None while that is open."""
        entry = entries[position]
        if isinstance(entry, TransactionEnd) or entry.producer is None:
            return True
        for later in entries[position:]:
            if isinstance(later, TransactionEnd) and later.producer == entry.producer:
                return later.committed
        return None

    def cleaned(self, entries: list[LogEntry], end: int) -> list[LogEntry]:
        """The log after a cleaner's pass over the part below `end` and below the first open transaction."""
        end = min(end, self.first_undecided)
        last = {
            repr(entry.record.key): position
            for position, entry in enumerate(entries[:end])
            if isinstance(entry, LoggedRecord) and self.counts[position]
        }
        return [
            entry
            for position, entry in enumerate(entries)
            if position >= end
            or isinstance(entry, TransactionEnd)
            or last.get(repr(entry.record.key)) == position
        ]


def key_of(key: OffsetCommitKey) -> Key:
    return key.group, key.topic, key.partition


class Transactions(RuleBasedStateMachine):
    @initialize(appends_take_time=st.booleans())
    def start(self, appends_take_time: bool) -> None:
        self.driver = ShardDriver(
            GroupSettings(
                offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=RETENTION_MS // 4
            )
        )
        self.driver.hold_appends = appends_take_time
        self.next_offset = 0

    # Clients

    @rule(group_id=group_ids, topic=topics, partition=partitions)
    def commit(self, group_id: str, topic: str, partition: int) -> None:
        self.next_offset += 1
        one = OffsetCommitRequestPartition(partition_index=partition, committed_offset=self.next_offset)
        asked = [OffsetCommitRequestTopic(name=topic, partitions=[one])]
        self.driver.send(OffsetCommitRequest(group_id=group_id, topics=asked), 9)

    @rule(producer=producers, group_id=group_ids, topic=topics, both=st.booleans())
    def commit_in_transaction(self, producer: ProducerStamp, group_id: str, topic: str, both: bool) -> None:
        self.next_offset += 1
        some = [
            TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=self.next_offset)
            for index in range(2 if both else 1)
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=f"tx{producer.producer_id}",
            group_id=group_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=some)],
        )
        self.driver.send(request, 5)

    @rule(producer=producers, committed=st.booleans())
    def transaction_ends(self, producer: ProducerStamp, committed: bool) -> None:
        # A marker is written when the coordinator has every answer, or the producer has died.
        self.driver.transaction_ends(producer, committed)

    @rule(order=st.permutations(PRODUCERS), commits=st.tuples(*[st.booleans()] * 3))
    def transactions_about_one_partition(
        self, order: list[ProducerStamp], commits: tuple[bool, bool, bool]
    ) -> None:
        """Three transactions commit one after the other, and end in any order."""
        for producer in PRODUCERS:
            self.commit_in_transaction(producer, "g1", "t", both=False)
        for producer, committed in zip(order, commits, strict=True):
            self.driver.transaction_ends(producer, committed)

    @rule(group_id=group_ids, topic=topics, partition=partitions)
    def offset_is_deleted(self, group_id: str, topic: str, partition: int) -> None:
        one = OffsetDeleteRequestPartition(partition_index=partition)
        asked = [OffsetDeleteRequestTopic(name=topic, partitions=[one])]
        self.driver.send(OffsetDeleteRequest(group_id=group_id, topics=asked), 0)

    @rule(groups=st.lists(group_ids, min_size=1, max_size=2, unique=True))
    def groups_are_deleted(self, groups: list[str]) -> None:
        self.driver.send(DeleteGroupsRequest(groups_names=groups), 2)

    @rule(topic=topics)
    def topic_is_deleted(self, topic: str) -> None:
        self.driver.topic_deleted(topic)

    # The environment

    @rule(milliseconds=st.sampled_from([1, 5_000, RETENTION_MS // 4, RETENTION_MS]))
    def time_passes(self, milliseconds: int) -> None:
        self.driver.advance(milliseconds)

    @precondition(lambda self: self.driver.held)
    @rule()
    def append_succeeds(self) -> None:
        self.driver.append_done()

    @precondition(lambda self: self.driver.held)
    @rule(error=st.sampled_from(APPEND_ERRORS))
    def append_fails(self, error: ErrorCode) -> None:
        self.driver.append_failed(error)

    @rule(rarely=st.integers(0, 2))
    def coordinator_changes(self, rarely: int) -> None:
        if not rarely:
            self.driver.reload()

    @rule(upto=st.floats(0, 1))
    def log_is_cleaned(self, upto: float) -> None:
        entries = self.driver.entries
        cleaned = LogContent(entries).cleaned(entries, int(len(entries) * upto))
        assert classic_state(self.driver.reloaded_copy(cleaned)) == classic_state(self.driver.shard)
        self.driver.entries = cleaned

    # Invariants

    @invariant()
    def the_log_says_what_the_shard_believes(self) -> None:
        if hasattr(self, "driver"):
            assert classic_state(self.driver.reloaded_copy()) == classic_state(self.driver.shard)

    @invariant()
    def what_counts_is_committed_and_nothing_else(self) -> None:
        if hasattr(self, "driver"):
            _, held, waiting = classic_state(self.driver.shard)
            says = LogContent(self.driver.entries)
            assert {
                (group_id, topic, partition): offset.offset
                for group_id, by_topic in held.items()
                for topic, by_partition in by_topic.items()
                for partition, offset in by_partition.items()
            } == says.committed
            assert {producer_id: set(keys) for producer_id, keys in waiting.items()} == {
                producer_id: keys for producer_id, keys in says.waiting.items() if keys
            }

    @invariant()
    def what_an_open_transaction_may_change_is_not_stable(self) -> None:
        if not hasattr(self, "driver") or self.driver.held:
            return
        says = LogContent(self.driver.entries)
        changing = set().union(*says.waiting.values())
        for group_id in GROUPS:
            wanted = [OffsetFetchRequestTopics(name=topic, partition_indexes=[0, 1]) for topic in TOPICS]
            request = OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup(group_id=group_id, topics=wanted)], require_stable=True
            )
            reply = self.driver.replies[self.driver.send(request, 9)]
            for topic in reply.groups[0].topics:
                for partition in topic.partitions:
                    key = group_id, topic.name, partition.partition_index
                    if key in changing:
                        assert partition.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
                    else:
                        assert partition.committed_offset == says.committed.get(key, -1)

    @invariant()
    def every_group_with_offsets_exists(self) -> None:
        """Offsets without a group would stay for ever."""
        if hasattr(self, "driver"):
            _, held, waiting = classic_state(self.driver.shard)
            wanted = set(held) | {key[0] for keys in waiting.values() for key in keys}
            assert wanted <= set(self.driver.shard.groups)

    def teardown(self) -> None:
        if not hasattr(self, "driver"):
            return
        driver = self.driver
        driver.hold_appends = False
        while driver.held:
            driver.append_done()
        for producer in PRODUCERS:
            driver.transaction_ends(producer, committed=False)
        driver.advance(3 * RETENTION_MS)
        assert driver.waiting() == []
        assert classic_state(driver.shard) == ({}, {}, {}), "what nobody needs is gone at last"
        assert not driver.shard.groups


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=examples(60), stateful_step_count=50, deadline=None)
