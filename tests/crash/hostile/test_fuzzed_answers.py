"""Answers that no leader should give: a follower says so in its log, tries again, and appends no nonsense.

The leader of a partition, and below that of the metadata quorum, is this test. A node of both roles follows
a partition of a broker that registers with it, says which APIs it serves, and then answers fetches with
whatever hypothesis draws, damaged or not. A voter follows a leader that does the same.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ottla.broker.broker import Broker
from ottla.broker.config import BrokerConfig
from ottla.broker.peers import peers
from ottla.protocol.apis import ApiKey, response_class
from ottla.protocol.headers import decode_request_header, encode_response
from ottla.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from ottla.protocol.messages.begin_quorum_epoch_request import (
    BeginQuorumEpochRequest,
)
from ottla.protocol.messages.begin_quorum_epoch_request import (
    PartitionData as BeginPartition,
)
from ottla.protocol.messages.begin_quorum_epoch_request import (
    TopicData as BeginTopic,
)
from ottla.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ottla.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from ottla.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from ottla.protocol.messages.fetch_response import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
    SnapshotId,
)
from ottla.protocol.record_batch import decode_records, iterate_headers
from ottla.protocol.schema import Message
from support.exploration import examples
from support.nodes.in_process import RawClient
from support.protocol.fuzzing import Maker, World, damaged, produced_records
from support.servers.cluster import free_port

LEADER = 2
WAIT_S = 20
TOPIC = "followed"
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "controller.listener.names": "CONTROLLER",
    "replica.fetch.backoff.ms": "1",
    "broker.session.timeout.ms": "600000",
}
SERVED = {
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.FETCH: (4, 17),
    ApiKey.LIST_OFFSETS: (1, 10),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
}
NUMBERS = (0, 0, 0, 1, 2, -1, 5, 1 << 31, (1 << 63) - 1, -(1 << 63))
CODES = (0, 0, 0, 0, 0, 0, 1, 3, 6, 56, 70, 71, 74, 75, 100, -1, 9999, -32768)

#: Makes an answer's bytes from (API, version, correlation id).
Answerer = Callable[[int, int, int], bytes | None]


class HostileLeader:
    """A broker's listener: one answer for each request, as `answerer` makes it."""

    def __init__(self, served: Mapping[ApiKey, tuple[int, int]]) -> None:
        self.answerer: Answerer = lambda *_: None
        self.served = served
        self.answered = asyncio.Queue[int]()
        self.server: asyncio.Server
        self.port = 0

    async def start(self) -> None:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]

    async def answered_twice(self) -> None:
        """Wait for two more answers: the follower has handled the first before it asks for the second."""
        while not self.answered.empty():
            self.answered.get_nowait()
        async with asyncio.timeout(WAIT_S):
            for _ in range(2):
                await self.answered.get()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                header, _ = decode_request_header(await reader.readexactly(size))
                key, version, correlation_id = header.api_key, header.api_version, header.correlation_id
                if key == ApiKey.API_VERSIONS:
                    keys = [
                        ApiVersion(api_key=each, min_version=low, max_version=high)
                        for each, (low, high) in self.served.items()
                    ]
                    answer: bytes | None = encode_response(
                        key, version, correlation_id, ApiVersionsResponse(api_keys=keys)
                    )
                else:
                    answer = self.answerer(key, version, correlation_id)
                    self.answered.put_nowait(key)
                if answer is None:
                    break
                writer.write(len(answer).to_bytes(4, "big") + answer)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()


async def call(client: RawClient, key: ApiKey, version: int, request: Message) -> Any:
    return await client.call(key, version, request)


async def join(node: Broker, leader: HostileLeader) -> uuid.UUID:
    """Register the hostile broker and give it a partition to lead; the topic's id."""
    client = RawClient(*await asyncio.open_connection("127.0.0.1", node.ports["CONTROLLER"]))
    registration = BrokerRegistrationRequest(
        broker_id=LEADER,
        cluster_id=node.cluster_id,
        incarnation_id=uuid.uuid4(),
        listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=leader.port)],
        features=[
            Feature(name=name, min_supported_version=level, max_supported_version=level)
            for name, level in node.image.features.items()
        ],
        log_dirs=[uuid.uuid4()],
    )
    registered = await call(client, ApiKey.BROKER_REGISTRATION, 4, registration)
    assert registered.error_code == 0
    alive = BrokerHeartbeatRequest(
        broker_id=LEADER, broker_epoch=registered.broker_epoch, current_metadata_offset=1 << 40
    )
    async with asyncio.timeout(WAIT_S):
        while (await call(client, ApiKey.BROKER_HEARTBEAT, 1, alive)).is_fenced:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=[LEADER, 1])
    topic = CreatableTopic(name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=[assignment])
    created = await call(
        client, ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic], timeout_ms=9000)
    )
    assert created.topics[0].error_code == 0, created
    client.close()
    found: uuid.UUID = created.topics[0].topic_id
    return found


def generated(count: int) -> settings:
    """So many examples, the same ones each time, as an answer depends on earlier ones."""
    return settings(
        max_examples=examples(count),
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )


def following(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    story: Callable[[Broker, HostileLeader, uuid.UUID], Awaitable[None]],
    served: Mapping[ApiKey, tuple[int, int]] = SERVED,
) -> None:
    failures: list[str] = []

    async def run() -> None:
        leader = HostileLeader(served)
        await leader.start()
        config = BrokerConfig.from_mapping({**SETTINGS, "log.dirs": str(tmp_path / "data")})
        node = await Broker.start(config, on_failure=lambda: failures.append("a part died"))
        try:
            await story(node, leader, await join(node, leader))
            assert not failures
        finally:
            leader.server.close()
            await node.stop()
        # the appended records can be read again
        again = await Broker.start(config, on_failure=lambda: failures.append("a part died"))
        await again.stop()

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert not failures
    assert not [each for each in caplog.records if each.exc_info and each.name.startswith("ottla")]


@st.composite
def fetch_answers(draw: Callable[[st.SearchStrategy[Any]], Any], topic_id: uuid.UUID) -> FetchResponse:
    """An answer for the partition that is followed, wrong in some way."""

    def number() -> int:
        return int(draw(st.sampled_from(NUMBERS)))

    records = draw(produced_records()) or b""
    data = PartitionData(
        partition_index=draw(st.sampled_from((0, 0, 0, 0, 0, 1, -1))),
        error_code=draw(st.sampled_from(CODES)),
        high_watermark=number(),
        last_stable_offset=number(),
        log_start_offset=number(),
        records=records * draw(st.sampled_from((1, 1, 2))),
    )
    if draw(st.integers(0, 9)) == 9:
        data.diverging_epoch = EpochEndOffset(
            epoch=draw(st.sampled_from((0, 1, -1, 99))), end_offset=number()
        )
    if draw(st.integers(0, 9)) == 9:
        data.current_leader = LeaderIdAndEpoch(leader_id=draw(st.sampled_from((1, 2, 99))), leader_epoch=3)
    return FetchResponse(
        error_code=draw(st.sampled_from(CODES)) if draw(st.integers(0, 9)) == 9 else 0,
        session_id=draw(st.sampled_from((0, 1, (1 << 31) - 1, -1))),
        responses=[FetchableTopicResponse(topic_id=topic_id, partitions=[data] * draw(st.integers(1, 2)))],
    )


def test_a_follower_outlives_whatever_its_leader_answers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(node: Broker, leader: HostileLeader, topic_id: uuid.UUID) -> None:
        loop = asyncio.get_running_loop()
        told: list[str] = []

        @generated(150)
        @given(st.data())
        def tell(data: st.DataObject) -> None:
            fetch = data.draw(fetch_answers(topic_id))
            frame_damage = data.draw(st.integers(0, 9)) >= 8
            other = Maker(data.draw, World(), 10, True).message(response_class(ApiKey.LIST_OFFSETS))

            def answer(key: int, version: int, correlation_id: int) -> bytes | None:
                message = fetch if key == ApiKey.FETCH else other
                try:
                    return encode_response(key, version, correlation_id, message)
                except ValueError:
                    return None

            sample = answer(ApiKey.FETCH, 17, 0)
            if frame_damage and sample is not None:
                spoiled = data.draw(damaged(sample, 4))
                leader.answerer = lambda key, _, number: number.to_bytes(4, "big") + spoiled[4:]
            else:
                leader.answerer = answer
            told.append(f"{fetch!r:.500} damaged={frame_damage}")
            asyncio.run_coroutine_threadsafe(survived(), loop).result(WAIT_S)

        async def survived() -> None:
            await leader.answered_twice()
            problems = [each.getMessage() for each in caplog.records if each.exc_info]
            assert not problems, (problems, told[-3:])

        await asyncio.to_thread(tell)
        # the result is a log: offsets rise, and every batch can be read
        log = node.partitions.replica(TOPIC, 0).log
        stored = log.read(
            log.log_start_offset, 1 << 26, upper_offset=log.log_end_offset, at_least_one_batch=True
        ).read()
        ends = [0]
        for position, header in iterate_headers(stored):
            assert header.base_offset >= ends[-1]
            ends.append(header.next_offset)
            if header.is_control:
                decode_records(stored, position)

    following(tmp_path, caplog, story)


def test_a_leader_that_speaks_only_old_versions_is_one_that_cannot_be_reached(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(node: Broker, leader: HostileLeader, topic_id: uuid.UUID) -> None:
        async with asyncio.timeout(WAIT_S):
            while "can't be said in version 6" not in caplog.text:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    following(tmp_path, caplog, story, served={**SERVED, ApiKey.FETCH: (4, 6)})


# -- the metadata quorum ----------------------------------------------------------------------------

QUORUM_SERVED = {
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.FETCH: (4, 17),
    ApiKey.VOTE: (0, 2),
    ApiKey.BEGIN_QUORUM_EPOCH: (0, 1),
    ApiKey.END_QUORUM_EPOCH: (0, 1),
    ApiKey.FETCH_SNAPSHOT: (0, 1),
}
METADATA_TOPIC_ID = uuid.UUID(int=1)
LEADER_EPOCH = 5


@st.composite
def quorum_fetch_answers(draw: Callable[[st.SearchStrategy[Any]], Any]) -> FetchResponse:
    """An answer of a leader of the metadata log, in which no record is committed."""

    def number() -> int:
        return int(draw(st.sampled_from(NUMBERS)))

    data = PartitionData(
        partition_index=draw(st.sampled_from((0, 0, 0, 1))),
        error_code=draw(st.sampled_from(CODES)),
        high_watermark=draw(st.sampled_from((0, -1, -(1 << 63)))),
        log_start_offset=number(),
        records=draw(produced_records()) or b"",
        current_leader=LeaderIdAndEpoch(
            leader_id=draw(st.sampled_from((LEADER, LEADER, -1, 99))), leader_epoch=LEADER_EPOCH
        ),
    )
    if draw(st.integers(0, 9)) == 9:
        epoch = draw(st.sampled_from((0, 1, -1, 99)))
        data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=number())
    if draw(st.integers(0, 9)) == 9:
        data.snapshot_id = SnapshotId(end_offset=number(), epoch=draw(st.sampled_from((0, 5, -1, 99))))
    topic_id = draw(st.sampled_from((METADATA_TOPIC_ID, METADATA_TOPIC_ID, uuid.UUID(int=9))))
    return FetchResponse(
        error_code=draw(st.sampled_from(CODES)) if draw(st.integers(0, 9)) == 9 else 0,
        responses=[FetchableTopicResponse(topic_id=topic_id, partitions=[data])],
    )


def test_a_voter_outlives_whatever_its_leader_answers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "LAST_BACKOFF_SECONDS", 0.01)
    failures: list[str] = []

    async def run() -> None:
        leader = HostileLeader(QUORUM_SERVED)
        await leader.start()
        port = free_port()
        config = BrokerConfig.from_mapping(
            {
                "process.roles": "controller",
                "node.id": "1",
                "listeners": f"CONTROLLER://127.0.0.1:{port}",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": f"1@127.0.0.1:{port},{LEADER}@127.0.0.1:{leader.port}",
                "controller.quorum.fetch.timeout.ms": "600000",
                "controller.quorum.election.timeout.ms": "600000",
                "controller.quorum.retry.backoff.ms": "1",  # so it fails more often than it ever would
                "log.dirs": str(tmp_path / "data"),
            }
        )
        node = await Broker.start(
            config, on_failure=lambda: failures.append("a part died"), cluster_id="AAAAAAAAAAAAAAAAAAAAAA"
        )
        try:
            client = RawClient(*await asyncio.open_connection("127.0.0.1", port))
            begin = BeginQuorumEpochRequest(
                cluster_id=node.cluster_id,
                voter_id=1,
                topics=[
                    BeginTopic(
                        topic_name="__cluster_metadata",
                        partitions=[
                            BeginPartition(partition_index=0, leader_id=LEADER, leader_epoch=LEADER_EPOCH)
                        ],
                    )
                ],
            )
            begun: Any = await client.call(ApiKey.BEGIN_QUORUM_EPOCH, 0, begin)
            assert begun.error_code == 0
            client.close()
            await asyncio.to_thread(tell, leader, asyncio.get_running_loop())
            assert not failures
        finally:
            leader.server.close()
            await node.stop()

    def tell(leader: HostileLeader, loop: asyncio.AbstractEventLoop) -> None:
        @generated(12)
        @given(st.data())
        def each(data: st.DataObject) -> None:
            fetch = data.draw(quorum_fetch_answers())
            others = {
                int(key): Maker(data.draw, World(), version, True).message(response_class(key))
                for key, (_, version) in QUORUM_SERVED.items()
                if key not in (ApiKey.FETCH, ApiKey.API_VERSIONS)
            }
            spoiled = data.draw(damaged(encode_response(ApiKey.FETCH, 17, 0, fetch), 4))
            is_spoiled = data.draw(st.integers(0, 9)) >= 8

            def answer(key: int, version: int, correlation_id: int) -> bytes | None:
                if key == ApiKey.FETCH and is_spoiled:
                    return correlation_id.to_bytes(4, "big") + spoiled[4:]
                try:
                    return encode_response(key, version, correlation_id, others.get(key, fetch))
                except ValueError:
                    return None

            leader.answerer = answer
            asyncio.run_coroutine_threadsafe(leader.answered_twice(), loop).result(WAIT_S + 5)
            assert not failures, f"{fetch!r:.800}"

        each()

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert not failures
    assert not [each for each in caplog.records if each.exc_info and each.name.startswith("ottla")]
    told = [each.getMessage() for each in caplog.records if "metadata not appended" in each.getMessage()]
    assert told
    assert not [line for line, following_line in pairwise(told) if line == following_line]
