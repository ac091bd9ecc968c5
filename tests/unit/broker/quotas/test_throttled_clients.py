"""Clients above their quota: answered first, then muted; throttled fetches are empty and lose nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from ottla.broker.broker import Broker
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import decode_response, encode_request
from ottla.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from ottla.protocol.messages.api_versions_request import ApiVersionsRequest
from ottla.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ReplicaState,
)
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.record_batch import NewRecord, encode_batch
from ottla.protocol.schema import Message
from support.nodes import share_member
from support.nodes.in_process import connect, create_topic, running_broker
from support.nodes.in_process_cluster import BROKER, CONTROLLER, nodes

Story = Callable[[Broker, UUID], Awaitable[None]]
PRODUCE, CONSUME = "producer_byte_rate", "consumer_byte_rate"
LATEST_PRODUCE, LATEST_FETCH = 13, 17
ANSWER_S = 10.0


class Client:
    """A connection with a client id; answers are taken in the order in which they come."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str) -> None:
        self.reader, self.writer, self.client_id = reader, writer, client_id
        self.session = (0, 0)

    @classmethod
    async def connect(cls, broker: Broker, client_id: str) -> Client:
        return cls(*await asyncio.open_connection("127.0.0.1", broker.port), client_id)

    def send(self, key: ApiKey, version: int, request: Message) -> None:
        payload = encode_request(key, version, 1, self.client_id, request)
        self.writer.write(len(payload).to_bytes(4, "big") + payload)

    async def receive(self, key: ApiKey, version: int) -> Any:
        async with asyncio.timeout(ANSWER_S):
            size = int.from_bytes(await self.reader.readexactly(4), "big")
            return decode_response(key, version, await self.reader.readexactly(size))[1]

    async def call(self, key: ApiKey, version: int, request: Message) -> Any:
        self.send(key, version, request)
        return await self.receive(key, version)

    async def hear(self) -> None:
        """One turn through the broker: it has handled what came before."""
        await self.call(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())

    async def produce(self, topic: UUID, size: int, *, partitions: int = 1, acks: int = 1) -> Any:
        self.send(ApiKey.PRODUCE, LATEST_PRODUCE, produce(topic, size, partitions=partitions, acks=acks))
        return await self.receive(ApiKey.PRODUCE, LATEST_PRODUCE) if acks else None

    async def fetch(self, topic: UUID, offsets: dict[int, int], **fields: Any) -> Any:
        """A fetch within this client's session, which names the partitions of `offsets`."""
        session_id, epoch = self.session
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=session_id,
            session_epoch=epoch,
            topics=[
                FetchTopic(
                    topic_id=topic,
                    partitions=[
                        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
                        for index, offset in offsets.items()
                    ],
                )
            ]
            if offsets
            else [],
            **fields,
        )
        answer = await self.call(ApiKey.FETCH, LATEST_FETCH, request)
        assert answer.error_code == 0
        self.session = (answer.session_id, epoch + 1 if answer.session_id else 0)
        return answer


def produce(topic: UUID, size: int, *, partitions: int = 1, acks: int = 1) -> ProduceRequest:
    records = encode_batch([NewRecord(None, bytes(size), 0)])
    data = [PartitionProduceData(index=index, records=records) for index in range(partitions)]
    return ProduceRequest(
        acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(topic_id=topic, partition_data=data)]
    )


def fetched(answer: Any) -> dict[int, int]:
    """The bytes of records of each partition in an answer."""
    return {part.partition_index: len(part.records) for each in answer.responses for part in each.partitions}


async def limit(
    client: Client, key: str, value: float | None, name: str | None, kind: str = "client-id"
) -> None:
    entry = EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name)],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None)],
    )
    answer = await client.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, AlterClientQuotasRequest(entries=[entry]))
    assert [each.error_code for each in answer.entries] == [0]


def play(data: Path, story: Story) -> None:
    async def run() -> None:
        async with running_broker(data) as broker:
            await create_topic(broker, "orders", 2)
            await story(broker, broker.image.topics["orders"].topic_id)

    asyncio.run(run())


@pytest.mark.parametrize("partitions", [1, 2])  # one partition is answered by hand
def test_a_greedy_producer_is_answered_then_waits_and_others_do_not(tmp_path: Path, partitions: int) -> None:
    async def story(broker: Broker, topic: UUID) -> None:
        greedy, other = await Client.connect(broker, "greedy"), await Client.connect(broker, "other")
        await limit(other, PRODUCE, 1000, "greedy")
        first = await greedy.produce(topic, 50_000, partitions=partitions)
        assert first.throttle_time_ms > 30_000
        assert [each.error_code for each in first.responses[0].partition_responses] == [0] * partitions
        greedy.send(ApiKey.PRODUCE, LATEST_PRODUCE, produce(topic, 10))
        answer = await other.produce(topic, 50_000, partitions=partitions)
        assert answer.throttle_time_ms == 0
        await other.hear()
        assert broker.partitions.partition("orders", 0).log.log_end_offset == 2
        greedy.writer.close()
        other.writer.close()

    play(tmp_path, story)


def test_a_producer_without_answers_is_muted_too(tmp_path: Path) -> None:
    async def story(broker: Broker, topic: UUID) -> None:
        greedy, other = await Client.connect(broker, "greedy"), await Client.connect(broker, "other")
        await limit(other, PRODUCE, 1000, "greedy")
        for _ in range(3):
            await greedy.produce(topic, 50_000, acks=0)
        async with asyncio.timeout(ANSWER_S):
            while not broker.partitions.partition("orders", 0).log.log_end_offset:
                await other.hear()
        for _ in range(20):
            await other.hear()
        assert broker.partitions.partition("orders", 0).log.log_end_offset == 1
        greedy.writer.close()
        other.writer.close()

    play(tmp_path, story)


def test_a_throttled_producer_goes_on_when_its_time_is_over(tmp_path: Path) -> None:
    async def story(broker: Broker, topic: UUID) -> None:
        client = await Client.connect(broker, "app")
        await limit(client, PRODUCE, 100_000, "app")
        first = await client.produce(topic, 1_020_000 - 10)  # 200 ms more than ten seconds of quota
        assert 0 < first.throttle_time_ms < 1000
        second = await client.produce(topic, 10)
        assert second.responses[0].partition_responses[0].error_code == 0
        client.writer.close()

    play(tmp_path, story)


def test_a_throttled_fetch_is_empty_and_its_session_stays_as_it_was(tmp_path: Path) -> None:
    async def story(broker: Broker, topic: UUID) -> None:
        reader, other = await Client.connect(broker, "reader"), await Client.connect(broker, "other")
        await reader.fetch(topic, {0: 0, 1: 0})
        await other.produce(topic, 4000, partitions=2)
        # given: what one fetch has used up, another gets no more of
        await limit(other, CONSUME, 410, "reader")
        twin = await Client.connect(broker, "reader")
        assert fetched(await twin.fetch(topic, {0: 0})) == {0: pytest.approx(4070, abs=60)}
        # when
        throttled = await reader.fetch(topic, {1: 1})
        # then
        assert throttled.throttle_time_ms > 0 and throttled.responses == []
        assert throttled.session_id == reader.session[0] != 0
        # when: the quota is gone; the client waits for its time all the same
        await limit(other, CONSUME, None, "reader")
        unmute(broker)
        again = await reader.fetch(topic, {})
        # then: the records come, and the offsets of the partition that has none for this reader
        assert again.throttle_time_ms == 0
        assert fetched(again) == {0: pytest.approx(4070, abs=60), 1: 0}
        for each in (reader, twin, other):
            each.writer.close()

    play(tmp_path, story)


def unmute(broker: Broker) -> None:
    """End the waiting of all connections, as their timers would."""
    for connection in [*broker.server._clients.connections]:
        connection.unmute()


def test_a_throttled_first_fetch_begins_no_session(tmp_path: Path) -> None:
    async def story(broker: Broker, topic: UUID) -> None:
        reader, other = await Client.connect(broker, "reader"), await Client.connect(broker, "other")
        await other.produce(topic, 4000)
        await limit(other, CONSUME, 410, "reader")
        twin = await Client.connect(broker, "reader")
        await twin.fetch(topic, {0: 0}, rack_id="")
        sessions = len(broker.fetch_sessions)
        throttled = await reader.fetch(topic, {0: 0})
        assert throttled.throttle_time_ms > 0 and throttled.responses == [] and throttled.session_id == 0
        assert len(broker.fetch_sessions) == sessions
        for each in (reader, twin, other):
            each.writer.close()

    play(tmp_path, story)


def test_a_batch_that_is_larger_than_the_quota_of_all_windows_is_fetched_all_the_same(
    tmp_path: Path,
) -> None:
    """Apache Kafka throttles it for ever: it counts nothing that it has not sent."""

    async def story(broker: Broker, topic: UUID) -> None:
        reader, other = await Client.connect(broker, "reader"), await Client.connect(broker, "other")
        await other.produce(topic, 50_000)
        await other.produce(topic, 50_000)
        await limit(other, CONSUME, 100, "reader")
        first = await reader.fetch(topic, {0: 0})
        assert fetched(first)[0] > 50_000  # the one batch that it can't do without, not both
        assert fetched(first)[0] < 60_000
        assert first.throttle_time_ms > 400_000
        unmute(broker)
        second = await reader.fetch(topic, {0: 1})
        assert second.responses == [] and second.throttle_time_ms > 400_000
        for each in (reader, other):
            each.writer.close()

    play(tmp_path, story)


def test_followers_are_not_held_to_the_quotas_of_clients(tmp_path: Path) -> None:
    async def story(broker: Broker, topic: UUID) -> None:
        follower = await Client.connect(broker, "broker-2-fetcher-0")
        await follower.produce(topic, 4000)
        await limit(follower, CONSUME, 1, None)
        for _ in range(3):
            answer = await follower.fetch(topic, {0: 0}, replica_state=ReplicaState(replica_id=2))
            assert answer.throttle_time_ms == 0
        follower.writer.close()

    play(tmp_path, story)


def test_quotas_hold_after_a_restart(tmp_path: Path) -> None:
    async def story(broker: Broker, topic: UUID) -> None:
        client = await Client.connect(broker, "app")
        assert not broker.client_quotas.limits_produce
        await limit(client, PRODUCE, 1000, "app")
        client.writer.close()

    play(tmp_path, story)

    async def later() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker, "app")
            answer = await client.produce(broker.image.topics["orders"].topic_id, 50_000)
            assert answer.throttle_time_ms > 30_000
            client.writer.close()

    asyncio.run(later())


TIME, CONNECTIONS = "request_percentage", "connection_creation_rate"


def test_what_a_listener_does_with_requests_stays_while_they_are_measured(tmp_path: Path) -> None:
    """A listener may have put a step of its own before the dispatcher, such as authentication."""

    async def story(broker: Broker, topic: UUID) -> None:
        seen: list[int] = []
        (name,) = broker.server._dispatches
        inner = broker.server._dispatches[name]

        def guarded(connection: Any, frame: memoryview) -> Any:
            seen.append(len(frame))
            return inner(connection, frame)

        broker.server._dispatches[name] = guarded
        client = await Client.connect(broker, "app")
        for percentage in (50.0, None):
            await limit(client, TIME, percentage, "other")
            another = await Client.connect(broker, "app")
            for each in (client, another):
                before = len(seen)
                await each.hear()
                assert len(seen) == before + 1
            another.writer.close()
        client.writer.close()

    play(tmp_path, story)


def test_a_client_that_takes_too_much_of_the_loop_waits_and_others_do_not(tmp_path: Path) -> None:
    async def story(broker: Broker, topic: UUID) -> None:
        greedy, other = await Client.connect(broker, "greedy"), await Client.connect(broker, "other")
        await other.produce(topic, 100)
        await limit(other, TIME, 1e-9, "greedy")  # connections that were there before are measured too
        await greedy.hear()
        throttled = await greedy.produce(topic, 100)
        assert throttled.throttle_time_ms == 1000  # one window
        assert throttled.responses[0].partition_responses[0].error_code == 0
        greedy.send(ApiKey.PRODUCE, LATEST_PRODUCE, produce(topic, 100))
        assert (await other.produce(topic, 100)).throttle_time_ms == 0
        await other.hear()
        assert broker.partitions.partition("orders", 0).log.log_end_offset == 3
        unmute(broker)
        assert (await greedy.receive(ApiKey.PRODUCE, LATEST_PRODUCE)).throttle_time_ms == 1000
        unmute(broker)
        fetch = await greedy.fetch(topic, {0: 0})
        assert fetch.throttle_time_ms == 1000 and fetch.responses == [] and fetch.session_id == 0
        unmute(broker)
        follower = await greedy.fetch(topic, {0: 0}, replica_state=ReplicaState(replica_id=2))
        assert follower.throttle_time_ms == 0
        # when no client has such a quota any more, nothing is measured
        await limit(other, TIME, None, "greedy")
        assert (await greedy.produce(topic, 100)).throttle_time_ms == 0
        greedy.writer.close()
        other.writer.close()

    play(tmp_path, story)


MUTATIONS = "controller_mutation_rate"
REFUSED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


def new_topics(*names_and_counts: tuple[str, int]) -> CreateTopicsRequest:
    topics = [
        CreatableTopic(name=name, num_partitions=n, replication_factor=1) for name, n in names_and_counts
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=5000)


def test_changes_of_the_metadata_beyond_the_quota_are_refused_and_tell_how_long(tmp_path: Path) -> None:
    async def story(broker: Broker, topic: UUID) -> None:
        greedy, other = await Client.connect(broker, "greedy"), await Client.connect(broker, "other")
        await limit(other, MUTATIONS, 1, "greedy")
        # when: 11 are free, and one request may go beyond
        first = await greedy.call(ApiKey.CREATE_TOPICS, 7, new_topics(("a", 10), ("b", 30), ("c", 1)))
        # then
        assert {each.name: each.error_code for each in first.topics} == {"a": 0, "b": 0, "c": REFUSED}
        assert 25_000 < first.throttle_time_ms <= 29_000
        assert "c" not in broker.image.topics
        # and other connections of this client id are told the same
        twin = await Client.connect(broker, "greedy")
        deleted = await twin.call(
            ApiKey.DELETE_TOPICS, 6, DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], timeout_ms=5000)
        )
        assert deleted.responses[0].error_code == REFUSED and deleted.throttle_time_ms > 25_000
        unmute(broker)
        grown = await twin.call(
            ApiKey.CREATE_PARTITIONS,
            3,
            CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="a", count=11, assignments=None)]),
        )
        assert grown.results[0].error_code == REFUSED and grown.throttle_time_ms > 25_000
        assert (await other.call(ApiKey.CREATE_TOPICS, 7, new_topics(("e", 30)))).throttle_time_ms == 0
        for each in (greedy, twin, other):
            each.writer.close()

    play(tmp_path, story)


def test_an_old_client_changes_the_metadata_and_is_throttled(tmp_path: Path) -> None:
    async def story(broker: Broker, topic: UUID) -> None:
        client = await Client.connect(broker, "old")
        await limit(client, MUTATIONS, 1, "old")
        answer = await client.call(ApiKey.CREATE_TOPICS, 5, new_topics(("a", 10), ("b", 30), ("c", 1)))
        assert [each.error_code for each in answer.topics] == [0, 0, 0]
        assert 25_000 < answer.throttle_time_ms <= 30_000
        client.writer.close()

    play(tmp_path, story)


def test_topics_that_the_broker_makes_for_itself_are_nobodys_changes(tmp_path: Path) -> None:
    async def story(broker: Broker, topic: UUID) -> None:
        client = await Client.connect(broker, "app")
        await limit(client, MUTATIONS, 1, None)
        for name in ("one", "two", "three"):
            await create_topic(broker, name, 50)
        client.writer.close()

    play(tmp_path, story)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_address_that_connects_too_often_is_cut_off_for_a_while(tmp_path: Path, host: str) -> None:
    async def story(broker: Broker, topic: UUID) -> None:
        client = await Client.connect(broker, "app")
        await limit(client, CONNECTIONS, 1, host, kind="ip")
        assert broker._address_quotas is not None
        if broker._address_quotas._looking_up is not None:
            await broker._address_quotas._looking_up
        for _ in range(10):  # a second's worth for each of ten seconds
            another = await Client.connect(broker, "app")
            await another.hear()
            another.writer.close()
        early = await Client.connect(broker, "app")
        early.send(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
        async with asyncio.timeout(ANSWER_S):
            with contextlib.suppress(ConnectionResetError):
                assert await early.reader.read() == b""
        await client.hear()  # connections that are there stay
        early.writer.close()
        client.writer.close()

    play(tmp_path, story)


def test_a_share_fetch_delivers_its_records_and_throttles(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, share_member.SETTINGS) as broker:
            await share_member.prepare(broker, records=40)
            other = await Client.connect(broker, "other")
            await limit(other, CONSUME, 10, "test")  # 100 bytes in ten seconds, and a batch has about 70
            member = await connect(broker)
            delivered = await share_member.fetch(member, broker, 0)
            assert share_member.offsets(delivered) == [(0, 0)]
            assert share_member.offsets(await share_member.fetch(member, broker, 1)) == [(1, 1)]
            assert [each._unmuting is not None for each in broker.server._clients.connections].count(
                True
            ) == 1
            member.close()
            other.writer.close()

    asyncio.run(scenario())


def test_a_broker_mutes_the_client_whose_changes_the_controller_elsewhere_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with nodes(tmp_path, {1: CONTROLLER, 2: BROKER}) as cluster:
            await cluster.start(1, 2)
            broker = cluster.running[2]
            greedy, other = await Client.connect(broker, "greedy"), await Client.connect(broker, "other")
            await limit(other, MUTATIONS, 1, "greedy")
            first = await greedy.call(ApiKey.CREATE_TOPICS, 7, new_topics(("a", 30)))
            assert first.topics[0].error_code == 0 and first.throttle_time_ms == 0
            second = await greedy.call(ApiKey.CREATE_TOPICS, 7, new_topics(("b", 1)))
            assert second.topics[0].error_code == REFUSED
            assert second.throttle_time_ms > 10_000
            third = await other.call(ApiKey.CREATE_TOPICS, 7, new_topics(("c", 1)))
            assert third.topics[0].error_code == 0 and third.throttle_time_ms == 0
            muted = [each._unmuting is not None for each in broker.server._clients.connections]
            assert muted.count(True) == 1
            greedy.writer.close()
            other.writer.close()

    asyncio.run(scenario())
