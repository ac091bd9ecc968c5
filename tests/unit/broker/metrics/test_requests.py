"""The meters around handlers: every request counted, errors found, times split and sampled."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Iterator
from random import Random
from typing import Any

import pytest

from ottla.broker.metrics.error_counts import ErrorCodes
from ottla.broker.metrics.requests import MeteredHandlers, RequestMeters
from ottla.broker.network.context import RequestContext, Session
from ottla.metrics.exposition import Exposition
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import KafkaError, UnknownTopicOrPartition
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.heartbeat_response import HeartbeatResponse
from ottla.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.schema import Message
from support.clients.scrapes import Scrape

SESSION = Session("127.0.0.1", "PLAINTEXT")
SESSION.request_bytes = 40
BYTES = "kafka_network_requestmetrics_requestbytes"


@pytest.fixture(autouse=True)
def of_a_known_size() -> Iterator[None]:
    """Requests are 40 bytes long where a test says no other size."""
    yield
    SESSION.request_bytes = 40


def context(key: ApiKey, version: int = 3, client_id: str = "c") -> RequestContext:
    return RequestContext(key, version, 1, client_id, SESSION)


def scrape(meters: RequestMeters) -> Scrape:
    return Scrape.of_text(Exposition([meters.read]).text())


class Table:
    """A table of two handlers, loaded as they are asked for."""

    def __init__(self, handlers: dict[int, Any], raw: dict[int, Any]) -> None:
        self._handlers, self._raw = handlers, raw
        self.loaded: dict[int, Any] = {}
        self.loaded_raw: dict[int, Any] = {}
        self.apis = [ApiKey(key) for key in (*handlers, *raw)]

    def load(self, key: int) -> None:
        if key in self._raw:
            self.loaded_raw[key] = self._raw[key]
        else:
            self.loaded[key] = self._handlers[key]

    def handler(self, key: int) -> Any:
        self.load(key)
        return self.loaded[key]


def test_the_errors_of_an_answer_are_found_wherever_they_stand() -> None:
    partitions = [
        MetadataResponsePartition(
            error_code=code, partition_index=0, leader_id=1, replica_nodes=[], isr_nodes=[]
        )
        for code in (5, 0, 5)
    ]
    topics = [
        MetadataResponseTopic(error_code=3, name="a", partitions=partitions),
        MetadataResponseTopic(error_code=0, name="b", partitions=[]),
    ]
    response = MetadataResponse(brokers=[], controller_id=1, topics=topics)
    codes = ErrorCodes()
    for _ in range(2):
        assert Counter(codes.of(response)) == {5: 2, 3: 1}
    assert list(codes.of(HeartbeatResponse(error_code=0))) == []


def test_requests_errors_and_times_of_decoded_handlers() -> None:
    answers: list[int] = [0, 27, 0]

    def heartbeat(node: object, context: RequestContext, request: object) -> Message:
        return HeartbeatResponse(error_code=answers.pop())

    async def metadata(node: object, context: RequestContext, request: object) -> Message:
        await asyncio.sleep(0.02)
        raise UnknownTopicOrPartition()

    async def scenario() -> None:
        meters = RequestMeters(asyncio.get_running_loop())
        table = MeteredHandlers(Table({ApiKey.HEARTBEAT: heartbeat, ApiKey.METADATA: metadata}, {}), meters)
        for _ in range(3):
            table.handler(ApiKey.HEARTBEAT)(None, context(ApiKey.HEARTBEAT), None)
        answer = table.handler(ApiKey.METADATA)(None, context(ApiKey.METADATA, 12), None)
        assert not isinstance(answer, Message)
        with pytest.raises(KafkaError):
            await answer
        await asyncio.sleep(0)
        found = scrape(meters)
        requests = "kafka_network_requestmetrics_requests_total"
        assert found.value(requests, request="Heartbeat", version=3) == 3
        assert found.value(requests, request="Metadata", version=12) == 1
        errors = "kafka_network_requestmetrics_errors_total"
        assert found.value(errors, request="Heartbeat", error="REBALANCE_IN_PROGRESS") == 1
        assert found.value(errors, request="Metadata", error="UNKNOWN_TOPIC_OR_PARTITION") == 1
        assert not any(labels["error"] == "NONE" for labels, _ in found.of(errors))

    asyncio.run(scenario())


def test_the_wait_of_a_handler_is_remote_and_its_steps_are_local() -> None:
    async def joined(node: object, context: RequestContext, request: object) -> Message:
        await asyncio.sleep(0.05)
        return HeartbeatResponse(error_code=0)

    async def scenario() -> None:
        meters = RequestMeters(asyncio.get_running_loop())
        handler = meters.metered(ApiKey.JOIN_GROUP, joined)
        answer = handler(None, context(ApiKey.JOIN_GROUP), None)
        assert not isinstance(answer, Message)
        await answer
        await asyncio.sleep(0)
        times = meters.meter(ApiKey.JOIN_GROUP).measured
        assert times.remote.sum >= 49_000
        assert times.local.sum < times.remote.sum
        assert times.total.sum >= times.local.sum + times.remote.sum

    asyncio.run(scenario())


def test_hot_requests_are_all_counted_and_some_are_timed() -> None:
    reply = (b"answer",)

    def produce(node: object, context: RequestContext, body: memoryview) -> tuple[bytes]:
        return reply

    async def scenario() -> None:
        meters = RequestMeters(asyncio.get_running_loop())
        table = MeteredHandlers(Table({}, {ApiKey.PRODUCE: produce}), meters)
        table.load(ApiKey.PRODUCE)
        handler = table.loaded_raw[ApiKey.PRODUCE]
        meter = meters.meter(ApiKey.PRODUCE)
        body = memoryview(b"")
        assert handler(None, context(ApiKey.PRODUCE, 12), body) is reply
        await asyncio.sleep(0)
        assert meter.measured.local.count == 1, "the first one is timed"
        for _ in range(10_000):
            handler(None, context(ApiKey.PRODUCE, 12), body)
        await asyncio.sleep(0)
        assert 1 < meter.measured.local.count <= 10_000 // 100, (
            "requests that follow each other fast are timed seldom"
        )
        meter.tick()
        timed = meter.measured.local.count
        meter.tick()
        for _ in range(10_000):
            handler(None, context(ApiKey.PRODUCE, 13), body)
        await asyncio.sleep(0)
        assert meter.measured.local.count > timed, "after a tick without any the next one is timed"
        found = scrape(meters)
        counts = {
            labels["version"]: value
            for labels, value in found.of("kafka_network_requestmetrics_requests_total")
        }
        assert counts == {"12": 10_001, "13": 10_000}
        for part in ("totaltimems", "localtimems", "requestqueuetimems"):
            assert found.value(f"kafka_network_requestmetrics_{part}_count", request="Produce") == 20_001

    asyncio.run(scenario())


def test_a_waiting_hot_request_is_timed_until_its_future_ends() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        meters = RequestMeters(loop)
        waiting: asyncio.Future[Any] = loop.create_future()
        given_up: asyncio.Future[Any] = loop.create_future()
        futures = [given_up, waiting]

        def fetch(node: object, context: RequestContext, body: memoryview) -> Awaitable[Any]:
            return futures.pop()

        handler = meters.metered_raw(ApiKey.FETCH, fetch)
        for _ in range(2):
            handler(None, context(ApiKey.FETCH, 12), memoryview(b""))
        loop.call_later(0.03, waiting.set_result, (b"",))
        given_up.cancel()
        await waiting
        await asyncio.sleep(0.01)
        meter = meters.meter(ApiKey.FETCH)
        assert meter.measured.remote.count == meter.of_consumers.remote.count == 1
        assert meter.measured.remote.sum >= 29_000
        assert meter.of_followers.remote.count == 0

    asyncio.run(scenario())


def test_the_sizes_of_all_decoded_requests_are_counted() -> None:
    async def scenario() -> None:
        meters = RequestMeters(asyncio.get_running_loop())
        handler = meters.metered(ApiKey.HEARTBEAT, lambda *_: HeartbeatResponse(error_code=0))
        drawn = Random(21)
        sizes = [drawn.randrange(1, 5_000) for _ in range(200)]
        for size in sizes:
            SESSION.request_bytes = size
            handler(None, context(ApiKey.HEARTBEAT), None)
        await asyncio.sleep(0)
        found = scrape(meters)
        assert found.value(f"{BYTES}_count", request="Heartbeat") == len(sizes)
        assert found.value(f"{BYTES}_sum", request="Heartbeat") == sum(sizes)
        median = found.value(BYTES, request="Heartbeat", quantile="0.5")
        assert median == pytest.approx(sorted(sizes)[100], rel=0.05)

    asyncio.run(scenario())


def test_a_request_that_came_by_no_connection_has_the_size_that_it_would_have_there() -> None:
    async def scenario() -> None:
        meters = RequestMeters(asyncio.get_running_loop())
        handler = meters.metered(ApiKey.HEARTBEAT, lambda *_: HeartbeatResponse(error_code=0))
        own = Session("127.0.0.1", "", of_this_node=True)
        request = HeartbeatRequest(group_id="readers", generation_id=1, member_id="m")
        handler(None, RequestContext(ApiKey.HEARTBEAT, 4, 1, None, own), request)
        # What is only handed over within the node may have no form on the wire.
        unwritable = HeartbeatRequest(group_id="readers", generation_id=1 << 40, member_id="m")
        handler(None, RequestContext(ApiKey.HEARTBEAT, 4, 1, None, own), unwritable)
        await asyncio.sleep(0)
        assert scrape(meters).value(f"{BYTES}_sum", request="Heartbeat") == len(request.encode(4))

    asyncio.run(scenario())


def test_the_sizes_of_hot_requests_are_counted_where_they_are_timed() -> None:
    async def scenario() -> None:
        meters = RequestMeters(asyncio.get_running_loop())
        handler = meters.metered_raw(ApiKey.FETCH, lambda *_: (b"answer",))
        for _ in range(5_000):
            handler(None, context(ApiKey.FETCH, 12), memoryview(bytes(321)))
        await asyncio.sleep(0)
        meter = meters.meter(ApiKey.FETCH)
        assert 1 <= meter.measured.request_bytes.count < 500
        assert meter.of_consumers.request_bytes.counts == meter.measured.request_bytes.counts
        found = scrape(meters)
        assert found.value(f"{BYTES}_count", request="Fetch") == 5_000
        assert found.value(f"{BYTES}_sum", request="Fetch") == 5_000 * 321
        assert found.value(BYTES, request="Fetch", quantile="0.999") == pytest.approx(321, rel=0.05)

    asyncio.run(scenario())


def test_the_names_of_requests_are_kafkas() -> None:
    names = {
        key: RequestMeters(asyncio.new_event_loop()).meter(key).name
        for key in (
            ApiKey.PRODUCE,
            ApiKey.INIT_PRODUCER_ID,
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            ApiKey.API_VERSIONS,
        )
    }
    assert list(names.values()) == ["Produce", "InitProducerId", "OffsetForLeaderEpoch", "ApiVersions"]


def test_clients_over_the_cap_share_a_series() -> None:
    async def scenario() -> None:
        meters = RequestMeters(asyncio.get_running_loop(), 2)
        handler = meters.of_clients(lambda node, context, request: None)
        for name in ("a", "b", "c", "d", "a"):
            handler(None, context(ApiKey.METADATA, client_id=name), None)
        found = scrape(meters)
        metric = "ottla_client_requests_total"
        assert found.value(metric, principal="User:ANONYMOUS", client_id="a") == 2
        assert found.value(metric, principal="User:ANONYMOUS", client_id="b") == 1
        assert found.value(metric, principal="other", client_id="other") == 2
        assert len(list(found.of(metric))) == 3

    asyncio.run(scenario())


def test_an_unknown_code_is_told_as_kafka_names_it() -> None:
    async def scenario() -> None:
        meters = RequestMeters(asyncio.get_running_loop())
        meters.metered(ApiKey.HEARTBEAT, lambda *_: HeartbeatResponse(error_code=12_345))(
            None, context(ApiKey.HEARTBEAT), None
        )
        name = "kafka_network_requestmetrics_errors_total"
        assert scrape(meters).value(name, request="Heartbeat", error="UNKNOWN_SERVER_ERROR") == 1

    asyncio.run(scenario())
