"""Leaders and followers in real brokers: copies, in-sync sets, truncation, waiting producers and readers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.core.image.image import MetadataDelta
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.record_batch import NewRecord, encode_batch
from support.nodes.in_process import connect
from support.nodes.replicated_brokers import TOPIC, TOPIC_ID, ReplicatedBrokers, replicated_brokers

Scene = Callable[[ReplicatedBrokers], Awaitable[None]]

FAST = {"replica.fetch.backoff.ms": "50", "replica.fetch.wait.max.ms": "100"}


def play(tmp_path: Path, scene: Scene, **settings: str) -> None:
    values = {**FAST, **{name.replace("_", "."): value for name, value in settings.items()}}

    async def run() -> None:
        async with replicated_brokers(tmp_path, settings=values) as cluster:
            await scene(cluster)

    asyncio.run(run())


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  the product has no event for a test to wait on
            await asyncio.sleep(0.005)


async def produce(
    cluster: ReplicatedBrokers, node_id: int, value: bytes = b"v", acks: int = -1, timeout_ms: int = 5_000
) -> Any:
    client = await connect(cluster.brokers[node_id])
    batch = encode_batch([NewRecord(b"k", value, 1_000)])
    data = TopicProduceData(topic_id=TOPIC_ID, partition_data=[PartitionProduceData(index=0, records=batch)])
    request = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[data])
    answer: Any = await client.call(ApiKey.PRODUCE, 13, request)
    client.close()
    return answer.responses[0].partition_responses[0]


async def fetch(
    cluster: ReplicatedBrokers,
    node_id: int,
    offset: int,
    *,
    rack: str = "",
    replica: tuple[int, int] = (-1, -1),
    leader_epoch: int = -1,
    last_epoch: int = -1,
) -> Any:
    client = await connect(cluster.brokers[node_id])
    wanted = FetchPartition(
        partition=0,
        fetch_offset=offset,
        partition_max_bytes=1_000_000,
        current_leader_epoch=leader_epoch,
        last_fetched_epoch=last_epoch,
        log_start_offset=0,
    )
    request = FetchRequest(
        max_bytes=1_000_000,
        rack_id=rack,
        topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[wanted])],
        replica_state=ReplicaState(replica_id=replica[0], replica_epoch=replica[1]),
    )
    answer: Any = await client.call(ApiKey.FETCH, 17, request)
    client.close()
    return answer.responses[0].partitions[0]


def ends(cluster: ReplicatedBrokers) -> list[int]:
    return [cluster.held(node_id).log.log_end_offset for node_id in cluster.brokers]


def contents(cluster: ReplicatedBrokers, node_id: int) -> list[tuple[int, int, bytes]]:
    log = cluster.held(node_id).log
    return [
        (header.base_offset, header.partition_leader_epoch, bytes(data))
        for header, data in log.iterate_batches(log.log_start_offset)
    ]


def cut_off(cluster: ReplicatedBrokers, node_id: int) -> None:
    """Let a follower fetch no more."""
    cluster.brokers[node_id].replication.fetchers.leave(cluster.held(node_id))


def test_acks_all_is_answered_when_every_replica_has_the_batch(tmp_path: Path) -> None:
    async def scene(cluster: ReplicatedBrokers) -> None:
        # when
        answer = await produce(cluster, 1)
        # then
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
        assert ends(cluster) == [1, 1, 1]
        assert contents(cluster, 1) == contents(cluster, 2) == contents(cluster, 3)
        await until(lambda: all(cluster.held(each).high_watermark == 1 for each in (1, 2, 3)))

    play(tmp_path, scene)


def test_acks_all_waits_for_replicas_in_sync_only_so_long(tmp_path: Path) -> None:
    async def scene(cluster: ReplicatedBrokers) -> None:
        cut_off(cluster, 3)
        late = await produce(cluster, 1, timeout_ms=50)
        assert late.error_code == ErrorCode.REQUEST_TIMED_OUT
        leader_only = await produce(cluster, 1, acks=1)
        assert (leader_only.error_code, leader_only.base_offset) == (ErrorCode.NONE, 1)
        assert cluster.held(1).high_watermark == 0

    play(tmp_path, scene)


def test_a_laggard_leaves_the_in_sync_set_and_comes_back(tmp_path: Path) -> None:
    async def scene(cluster: ReplicatedBrokers) -> None:
        cut_off(cluster, 3)
        # when: acks=all waits until the laggard is out
        answer = await produce(cluster, 1)
        # then
        assert answer.error_code == ErrorCode.NONE
        assert sorted(cluster.partition.isr) == [1, 2]
        # when it fetches again
        third = cluster.brokers[3].replication
        third.fetchers.follow(cluster.held(3))
        # then
        await until(lambda: sorted(cluster.partition.isr) == [1, 2, 3])
        assert ends(cluster) == [1, 1, 1]

    play(tmp_path, scene, replica_lag_time_max_ms="300")


def test_too_few_in_sync_refuse_acks_all(tmp_path: Path) -> None:
    async def scene(cluster: ReplicatedBrokers) -> None:
        cluster.publish(configs={"min.insync.replicas": "2"})
        for node_id in (2, 3):
            cut_off(cluster, node_id)
        cluster.change(isr=(1,))
        refused = await produce(cluster, 1)
        assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert ends(cluster) == [0, 0, 0]
        taken = await produce(cluster, 1, acks=1)
        assert taken.error_code == ErrorCode.NONE
        # nothing is committed with fewer than min.insync.replicas
        assert cluster.held(1).high_watermark == 0

    play(tmp_path, scene)


def test_a_producer_that_waits_hears_that_the_leader_has_changed(tmp_path: Path) -> None:
    async def scene(cluster: ReplicatedBrokers) -> None:
        cut_off(cluster, 2)
        cut_off(cluster, 3)
        waiting = asyncio.ensure_future(produce(cluster, 1))
        await until(lambda: ends(cluster)[0] == 1)
        # when
        cluster.elect(2, isr=(2, 3))
        # then
        answer = await waiting
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    play(tmp_path, scene)


def test_a_former_leader_drops_what_the_new_one_does_not_have(tmp_path: Path) -> None:
    async def scene(cluster: ReplicatedBrokers) -> None:
        await produce(cluster, 1, b"kept")
        for node_id in (2, 3):
            cut_off(cluster, node_id)
        for _ in range(3):
            await produce(cluster, 1, b"lost", acks=1)
        cluster.unheard = {1}
        cluster.elect(2, isr=(2, 3))
        answer = await produce(cluster, 2, b"other")
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 1)
        assert ends(cluster) == [4, 2, 2]
        # when
        cluster.unheard = set()
        cluster.publish()
        # then
        await until(lambda: ends(cluster) == [2, 2, 2])
        await until(lambda: contents(cluster, 1) == contents(cluster, 2))
        await until(lambda: sorted(cluster.partition.isr) == [1, 2, 3])
        assert cluster.held(1).log.leader_epochs == cluster.held(2).log.leader_epochs

    play(tmp_path, scene)


def test_epochs_without_records_do_not_stop_a_follower(tmp_path: Path) -> None:
    async def scene(cluster: ReplicatedBrokers) -> None:
        await produce(cluster, 1)
        for leader in (2, 3, 1, 2):  # each notes its epoch, none of them writes
            others = [each for each in (1, 2, 3) if each != leader]
            cluster.unheard = {others[0]}
            cluster.elect(leader, isr=(1, 2, 3))
        cluster.unheard = set()
        cluster.publish()
        answer = await produce(cluster, 2)
        assert answer.error_code == ErrorCode.NONE
        assert ends(cluster) == [2, 2, 2]

    play(tmp_path, scene)


def test_a_follower_that_was_away_while_records_were_deleted_starts_over(tmp_path: Path) -> None:
    async def scene(cluster: ReplicatedBrokers) -> None:
        await produce(cluster, 1)
        cut_off(cluster, 3)
        cluster.change(isr=(1, 2))
        for _ in range(4):
            await produce(cluster, 1, acks=1)
        await until(lambda: cluster.held(1).high_watermark == 5)
        leader = cluster.held(1)
        leader.log.advance_log_start_offset(4)
        # when
        cluster.brokers[3].replication.fetchers.follow(cluster.held(3))
        # then
        await until(lambda: ends(cluster) == [5, 5, 5])
        assert cluster.held(3).log.log_start_offset == 4
        await until(lambda: sorted(cluster.partition.isr) == [1, 2, 3])

    play(tmp_path, scene, replica_lag_time_max_ms="200")


def test_deleted_records_are_deleted_everywhere_before_the_answer(tmp_path: Path) -> None:
    async def scene(cluster: ReplicatedBrokers) -> None:
        for _ in range(3):
            await produce(cluster, 1)
        client = await connect(cluster.brokers[1])
        topic = DeleteRecordsTopic(
            name=TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=2)]
        )
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=5_000)
        answer: Any = await client.call(ApiKey.DELETE_RECORDS, 2, request)
        client.close()
        result = answer.topics[0].partitions[0]
        assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 2)
        assert [cluster.held(each).log.log_start_offset for each in (1, 2, 3)] == [2, 2, 2]

    play(tmp_path, scene)


def test_a_new_leader_does_not_say_where_the_log_ends_before_it_knows(tmp_path: Path) -> None:
    async def latest(cluster: ReplicatedBrokers, version: int) -> Any:
        client = await connect(cluster.brokers[2])
        topic = ListOffsetsTopic(
            name=TOPIC, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)]
        )
        request = ListOffsetsRequest(replica_id=-1, topics=[topic])
        answer: Any = await client.call(ApiKey.LIST_OFFSETS, version, request)
        client.close()
        return answer.topics[0].partitions[0]

    async def scene(cluster: ReplicatedBrokers) -> None:
        cut_off(cluster, 3)
        await produce(cluster, 1, acks=1)
        await until(lambda: ends(cluster) == [1, 1, 0])
        # when: the new leader has what was not committed, and a replica that does not fetch
        cluster.unheard = {1, 3}
        cluster.elect(2, isr=(2, 3))
        # then
        assert (await latest(cluster, 7)).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        assert (await latest(cluster, 4)).error_code == ErrorCode.LEADER_NOT_AVAILABLE
        cluster.unheard = set()
        cluster.publish()
        await until(lambda: cluster.held(2).high_watermark == 1)
        assert ((await latest(cluster, 7)).error_code, (await latest(cluster, 7)).offset) == (0, 1)

    play(tmp_path, scene)


def test_consumers_read_from_any_replica_below_its_high_watermark(tmp_path: Path) -> None:
    async def scene(cluster: ReplicatedBrokers) -> None:
        await produce(cluster, 1)
        await until(lambda: cluster.held(3).high_watermark == 1)
        near = await fetch(cluster, 3, 0)
        assert (near.error_code, near.high_watermark) == (ErrorCode.NONE, 1)
        assert near.records == (await fetch(cluster, 1, 0)).records

    play(tmp_path, scene)


def test_the_leader_names_a_replica_in_the_consumers_rack(tmp_path: Path) -> None:
    async def scene(cluster: ReplicatedBrokers) -> None:
        await produce(cluster, 1)
        await until(lambda: cluster.held(3).high_watermark == 1)
        sent_on = await fetch(cluster, 1, 0, rack="rack3")
        assert (sent_on.error_code, sent_on.preferred_read_replica, bytes(sent_on.records)) == (0, 3, b"")
        at_home = await fetch(cluster, 1, 0, rack="rack1")
        assert (at_home.preferred_read_replica, bool(at_home.records)) == (-1, True)
        elsewhere = await fetch(cluster, 1, 0, rack="rack9")
        assert (elsewhere.preferred_read_replica, bool(elsewhere.records)) == (-1, True)

    play(
        tmp_path,
        scene,
        replica_selector_class="org.apache.kafka.common.replica.RackAwareReplicaSelector",
    )


@pytest.mark.parametrize(
    ("replica", "leader_epoch", "code"),
    [
        ((9, 1), -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ((9, 1), 0, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ((2, 1), 7, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_strangers_and_followers_of_other_epochs_are_refused(
    tmp_path: Path, replica: tuple[int, int], leader_epoch: int, code: ErrorCode
) -> None:
    async def scene(cluster: ReplicatedBrokers) -> None:
        answer = await fetch(cluster, 1, 0, replica=replica, leader_epoch=leader_epoch)
        assert answer.error_code == code

    play(tmp_path, scene)


def test_a_diverging_follower_is_told_and_counts_nothing(tmp_path: Path) -> None:
    async def scene(cluster: ReplicatedBrokers) -> None:
        for node_id in (2, 3):
            cut_off(cluster, node_id)
        cluster.change(isr=(1, 2))
        await produce(cluster, 1, acks=1)
        cluster.elect(1, isr=(1, 2))
        await produce(cluster, 1, acks=1)
        for node_id in (2, 3):
            cut_off(cluster, node_id)
        epoch = cluster.brokers[2].lifecycle.broker_epoch
        answer = await fetch(cluster, 1, 2, replica=(2, epoch), leader_epoch=1, last_epoch=0)
        assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 1)
        state = cluster.held(1).leader.follower(2)
        assert state is not None and state.log_end_offset < 2
        # an epoch that the leader knows nothing of
        unknown = await fetch(cluster, 1, 2, replica=(2, epoch), leader_epoch=1, last_epoch=5)
        assert unknown.error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    play(tmp_path, scene)


def test_a_removed_replica_is_deleted(tmp_path: Path) -> None:
    async def scene(cluster: ReplicatedBrokers) -> None:
        await produce(cluster, 1)
        directory = cluster.held(3).log.directory
        cluster.change(replicas=(1, 2), isr=(1, 2))
        assert not directory.exists()
        answer = await fetch(cluster, 3, 0)
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        # and made again when it comes back
        cluster.change(replicas=(1, 2, 3))
        await until(lambda: sorted(cluster.partition.isr) == [1, 2, 3])
        assert ends(cluster) == [1, 1, 1]

    play(tmp_path, scene)


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttled_copy_waits_and_replicas_in_sync_do_not(tmp_path: Path, side: str) -> None:
    async def scene(cluster: ReplicatedBrokers) -> None:
        cut_off(cluster, 3)
        cluster.refuse = ErrorCode.INELIGIBLE_REPLICA  # it stays out
        cluster.change(isr=(1, 2))
        for broker in cluster.brokers.values():
            broker.image.configs[4, ""] = {f"{side}.replication.throttled.rate": "100"}
            broker.config.follow(broker.image)
            broker.roles.on_metadata(MetadataDelta(broker_configs_changed=True))
        cluster.publish(configs={f"{side}.replication.throttled.replicas": "*"})
        await until(lambda: cluster.held(2).leader_epoch == 0)
        for _ in range(3):
            await produce(cluster, 1, bytes(2_000), acks=1)
        await until(lambda: cluster.held(1).high_watermark == 3)  # who is in sync is not held back
        # when a copy begins, a batch a fetch, with room for one in 20 seconds
        cluster.brokers[3].replication.fetchers.follow(cluster.held(3))
        await until(lambda: ends(cluster)[2] > 0)
        throttle = getattr(cluster.brokers[1 if side == "leader" else 3].replication.quotas, side)
        assert throttle.is_exceeded()
        await produce(cluster, 1, acks=1)
        await until(lambda: ends(cluster)[1] == 4)
        assert ends(cluster)[2] < 4
        # when the throttle is taken away
        cluster.publish(configs={})
        await until(lambda: ends(cluster) == [4, 4, 4])

    play(tmp_path, scene, replica_fetch_max_bytes="1", replica_lag_time_max_ms="400")
