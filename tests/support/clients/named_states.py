"""Groups, transactional ids and share states under random names, written by hand and looked for later."""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass, field
from typing import Any

from ottla.core.share.keys import SharePartitionKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import (
    initialize_share_group_state_request as initialize,
)
from ottla.protocol.messages import (
    read_share_group_state_request as read,
)
from ottla.protocol.messages import (
    write_share_group_state_request as write,
)
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from support.clients.transaction_wire import TRANSIENT, TransactionalProducer, coordinator_ready, settled
from support.clients.wire import Client, wait_for

TOPIC, PARTITIONS = "t", 3
GROUP, TRANSACTION, SHARE = range(3)
ALPHABET = "abcdefghijklmnopqrstuvwxyz-_.0123456789äß€漢😀"
OPEN_TIMEOUT_MS = 5_000
"""The timeout of transactions that are left open: long enough to outlast a restart."""
REFUSED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE)
"""The errors for a producer that tries to commit an aborted transaction."""
Offsets = dict[int, int]


def draw_name(rng: random.Random) -> str:
    return "".join(rng.choices(ALPHABET, k=rng.randint(1, 24)))


def plain_name() -> str:
    """A name for a test whose own words have no room for a seed: long enough for a hash of either sign."""
    return "".join(random.SystemRandom().choices("abcdefghijklmnopqrstuvwxyz-_.0123456789", k=12))


def seed_of_this_run() -> int:
    """A fresh seed, printed: pytest shows it when the test fails."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    return seed


@dataclass(slots=True)
class NamedStates:
    """The acknowledged states, by name."""

    rng: random.Random
    topic_id: uuid.UUID | None = None
    groups: dict[str, Offsets] = field(default_factory=dict)
    producers: list[TransactionalProducer] = field(default_factory=list)
    open_producers: list[TransactionalProducer] = field(default_factory=list)
    shares: dict[SharePartitionKey, int] = field(default_factory=dict)
    """Start offsets."""
    transactional_ids: set[str] = field(default_factory=set)

    def write_all(self, client: Client, count: int, *, leaves_open: bool) -> None:
        """Write `count` states of each kind and, with `leaves_open`, as many open transactions."""
        if self.topic_id is None:
            self.topic_id = client.create_topic(TOPIC, PARTITIONS)
        topic_id = self.topic_id
        for _ in range(count):
            self.commit(client, draw_name(self.rng))
            self.share(
                client, SharePartitionKey(draw_name(self.rng), topic_id, self.rng.randrange(PARTITIONS))
            )
            self.committed_producer(client)
        for group in self.rng.sample(sorted(self.groups), count // 2):
            # offsets that count because their transaction was committed
            producer = self.initialised(client)
            self.begin(producer)
            offset = self.rng.randrange(1_000_000)
            self.commit_in_transaction(producer, group, offset)
            producer.commit()
            producer.wait_for_state("CompleteCommit")
            self.producers.append(producer)
            self.groups[group][0] = offset
        if leaves_open:
            for group in self.rng.sample(sorted(self.groups), count // 2):
                producer = self.initialised(client, OPEN_TIMEOUT_MS)
                self.begin(producer)
                self.commit_in_transaction(producer, group, 7_777_777)
                self.open_producers.append(producer)

    # -- groups -------------------------------------------------------------------------------------

    def commit(self, client: Client, group: str) -> None:
        """Commit offsets of a group without members."""
        find(client, GROUP, group)
        offsets = {index: self.rng.randrange(1_000_000) for index in range(PARTITIONS)}
        partitions = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
            for index, offset in offsets.items()
        ]
        topic = OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)

        def committed() -> bool:
            answer = client.call(OffsetCommitRequest(group_id=group, topics=[topic]), 9)
            (error,) = {each.error_code for each in answer.topics[0].partitions}
            assert error in (ErrorCode.NONE, *TRANSIENT), ErrorCode(error)
            return not error

        wait_for(committed)
        self.groups[group] = offsets

    def committed(self, client: Client, group: str) -> Offsets:
        """The group's offsets, from its coordinator."""
        find(client, GROUP, group)
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
        found = settled(lambda: client.call(request, 9).groups[0])
        assert found.error_code == ErrorCode.NONE, found
        return {
            each.partition_index: each.committed_offset for topic in found.topics for each in topic.partitions
        }

    # -- transactions -------------------------------------------------------------------------------

    def committed_producer(self, client: Client, name: str | None = None) -> TransactionalProducer:
        """A producer that has committed a transaction; its name is drawn if it is not given."""
        producer = self.initialised(client, name=name)
        self.begin(producer)
        producer.commit()
        producer.wait_for_state("CompleteCommit")
        self.producers.append(producer)
        return producer

    def commit_everywhere(self, producer: TransactionalProducer) -> None:
        """Commit a transaction of all partitions."""
        for index in range(PARTITIONS):
            producer.sequence = 0  # each partition counts for itself
            assert producer.produce(TOPIC, b"x", index) is ErrorCode.NONE
        producer.commit()
        producer.wait_for_state("CompleteCommit")

    def initialised(
        self, client: Client, timeout_ms: int = 60_000, name: str | None = None
    ) -> TransactionalProducer:
        if name is None:
            name = draw_name(self.rng)
            while name in self.transactional_ids:  # short names are drawn twice now and then
                name = draw_name(self.rng)
        self.transactional_ids.add(name)
        producer = TransactionalProducer(client, name, v2=True)
        coordinator_ready(client, producer.name)
        assert producer.initialise(timeout_ms=timeout_ms) is ErrorCode.NONE
        return producer

    def begin(self, producer: TransactionalProducer) -> None:
        assert producer.produce(TOPIC, b"x", self.rng.randrange(PARTITIONS)) is ErrorCode.NONE

    def commit_in_transaction(self, producer: TransactionalProducer, group: str, offset: int) -> None:
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=producer.name,
            group_id=group,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
        )

        def committed() -> bool:
            answer = producer.client.call(request, 5)
            error = answer.topics[0].partitions[0].error_code
            assert error in (ErrorCode.NONE, *TRANSIENT), ErrorCode(error)
            return not error

        wait_for(committed)

    # -- share states -------------------------------------------------------------------------------

    def share(self, client: Client, key: SharePartitionKey) -> None:
        """Begin the state of a share partition and move its start offset a few times."""
        find(client, SHARE, key.coordinator_key)
        begun = initialize.InitializeStateData(
            topic_id=key.topic_id,
            partitions=[initialize.PartitionData(partition=key.partition, state_epoch=1, start_offset=0)],
        )
        request = initialize.InitializeShareGroupStateRequest(group_id=key.group_id, topics=[begun])
        settled(lambda: result_of(client.call(request)))
        for _ in range(3):
            offset = self.shares.get(key, 0) + self.rng.randint(1, 50)
            data = write.PartitionData(
                partition=key.partition, state_epoch=1, leader_epoch=0, start_offset=offset
            )
            changed = write.WriteShareGroupStateRequest(
                group_id=key.group_id, topics=[write.WriteStateData(topic_id=key.topic_id, partitions=[data])]
            )
            assert result_of(client.call(changed)).error_code == ErrorCode.NONE
            self.shares[key] = offset

    def shared(self, client: Client, key: SharePartitionKey) -> int:
        """The start offset, from the share coordinator."""
        find(client, SHARE, key.coordinator_key)
        data = read.PartitionData(partition=key.partition, leader_epoch=0)
        request = read.ReadShareGroupStateRequest(
            group_id=key.group_id, topics=[read.ReadStateData(topic_id=key.topic_id, partitions=[data])]
        )
        found = settled(lambda: result_of(client.call(request)))
        assert found.error_code == ErrorCode.NONE, (key, found)
        return int(found.start_offset)

    # -- afterwards ---------------------------------------------------------------------------------

    def check_all(self, client: Client) -> None:
        """No state is lost, and open transactions are ended, so that readers of committed records go on."""
        for group, offsets in self.groups.items():
            assert self.committed(client, group) == offsets, group
        for key, offset in self.shares.items():
            assert self.shared(client, key) == offset, key
        for producer in self.producers:
            producer.client = client
            coordinator_ready(client, producer.name)
            state = producer.described()
            assert state.transaction_state == "CompleteCommit", (producer.name, state)
            assert (state.producer_id, state.producer_epoch) == (producer.producer_id, producer.epoch)

    def check_ended(self, client: Client) -> None:
        """Open transactions are aborted, their producers can't commit them, the log is stable to its end."""
        for producer in self.open_producers:
            producer.client = client
            coordinator_ready(client, producer.name)
            producer.wait_for_state("CompleteAbort")
            assert producer.described().producer_id == producer.producer_id
            answer = settled(lambda producer=producer: producer.end(committed=True))  # type: ignore[misc]
            assert answer.error_code in REFUSED, answer

        def stable() -> bool:
            found = client.fetch(TOPIC, range(PARTITIONS)).values()
            return all(each.last_stable_offset == each.high_watermark for each in found)

        wait_for(stable)

    def go_on(self, client: Client) -> None:
        """Every producer goes on where it was."""
        for producer in self.producers:
            producer.client = client
            self.begin(producer)
            producer.commit()
            producer.wait_for_state("CompleteCommit")


def find(client: Client, key_type: int, key: str) -> None:
    """Wait until the key has a coordinator."""
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    wait_for(lambda: not client.call(request).coordinators[0].error_code)


def result_of(answer: Any) -> Any:
    """The one share partition's part of an answer."""
    return answer.results[0].partitions[0]
