"""Every API at every version of both kinds of listener, with requests that no client should send.

One node of both roles runs in this process. Requests come from hypothesis (`support/protocol/fuzzing.py`),
first each version by itself, then stories of several requests that build on the answers before. Whatever
comes, each is answered in its version with an error code that exists and says something, or the connection is
closed with one line in the log. At the end what belongs to others is unharmed: records, offsets, a
transaction that was open all the time; and the next start reads all that the requests left on the disk.
OTTLA_EXPLORE=deep asks for more.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import tempfile
import traceback
import uuid
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from ottla.broker.broker import Broker
from ottla.broker.config import BrokerConfig
from ottla.broker.handlers.apis import CONTROLLER_FAMILIES, FAMILIES
from ottla.broker.network.flood_log import FloodLog
from ottla.core.image.image import MetadataImage
from ottla.protocol.apis import ApiKey, advertised_versions, request_class
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import decode_response
from ottla.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.protocol.messages.end_txn_request import EndTxnRequest
from ottla.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.record_batch import NewRecord, encode_batch, iterate_headers
from support.exploration import DEEP, examples
from support.nodes.in_process import ANSWER_TIMEOUT_S, RawClient, create_topic
from support.protocol.fuzzing import Fuzzed, World, requests, strange_codes

pytestmark = pytest.mark.slow

BROKER, CONTROLLER = "PLAINTEXT", "CONTROLLER"
#: It does what it says, to the only broker.
LEFT_OUT = {ApiKey.UNREGISTER_BROKER}
SERVED = [
    (listener, key)
    for listener, families in ((BROKER, FAMILIES), (CONTROLLER, CONTROLLER_FAMILIES))
    for key in families
    if key not in LEFT_OUT
]
SEED = int(os.environ.get("OTTLA_SEED", "1"))
"""Printed when a test fails; another one explores other requests."""
ANSWER_WITHIN_S = 0.1
"""A request that has no answer by then waits for something, and is left to its connection."""
WAITING_CONNECTIONS = 8
STORY_REQUESTS = 8
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": f"{BROKER}://127.0.0.1:0,{CONTROLLER}://127.0.0.1:0",
    "controller.listener.names": CONTROLLER,
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    # all that goes on in the background meets what the requests have left
    "log.initial.task.delay.ms": "100",
    "log.cleaner.backoff.ms": "300",
    "log.cleaner.min.cleanable.ratio": "0",
    "log.retention.check.interval.ms": "500",
    "offsets.retention.check.interval.ms": "500",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
}
WITNESS, WITNESS_GROUP, WITNESS_TRANSACTION = "witness", "witnesses", "the-witness"
FORESEEN = "damaged record"
"""Said at a start, of what the client id of Kafka's admin tools may write to internal topics."""
LOADING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
RECORDS = [NewRecord(b"key-%d" % number, b"value", 1_700_000_000_000 + number) for number in range(10)]


class Complaints(logging.Handler):
    """The log's lines that no request may cause, and the lines about closed connections."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.closed = 0
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record)
        if (record.levelno >= logging.ERROR and FORESEEN not in line) or record.exc_info:
            self.lines.append(line)

    def warn(self, kind: str, text: str, failure: BaseException | None = None) -> None:
        """In place of the log that counts what comes in floods: here each line counts."""
        if failure is not None:
            self.lines.append(f"{kind}: {text}\n{''.join(traceback.format_exception(failure))}")
        self.closed += text.startswith("connection closed")

    def loop_handler(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        problem = context.get("exception")
        if not isinstance(problem, ConnectionError):
            self.lines.append(f"{context.get('message')}: {problem!r}")


@dataclass(slots=True)
class FuzzedNode:
    """A node, a client's knowledge of it, and the client's connections."""

    directory: Path
    runner: asyncio.Runner
    world: World = field(default_factory=World)
    complaints: Complaints = field(default_factory=Complaints)
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    latest: deque[str] = field(default_factory=lambda: deque(maxlen=STORY_REQUESTS))
    connections: dict[str, RawClient] = field(default_factory=dict)
    waiting: deque[RawClient] = field(default_factory=deque)
    running: Broker | None = None
    producer: tuple[int, int] = (0, 0)

    @property
    def broker(self) -> Broker:
        assert self.running is not None
        return self.running

    async def start(self) -> None:
        values = {**SETTINGS, "log.dirs": str(self.directory)}
        config = BrokerConfig.from_mapping(values)
        self.running = await Broker.start(config, on_failure=lambda: self.failures.append("a part died"))

    async def connect(self, listener: str = BROKER) -> RawClient:
        return RawClient(*await asyncio.open_connection("127.0.0.1", self.broker.ports[listener]))

    async def stop(self) -> None:
        for client in (*self.connections.values(), *self.waiting):
            client.close()
        self.connections.clear()
        self.waiting.clear()
        await self.broker.stop()
        self.running = None

    # -- one request --------------------------------------------------------------------------------

    def judge(self, listener: str, key: ApiKey, fuzzed: Fuzzed | None) -> None:
        """Send a request and look at what comes of it."""
        if fuzzed is None:
            return
        self.complaints.lines.clear()
        self.latest.append(f"{key.name} v{fuzzed.version} {fuzzed.message!r:.600} {fuzzed.frame[:300].hex()}")
        self.outcomes[self.runner.run(self._ask(listener, key, fuzzed))] += 1
        story = "\n".join(self.latest)
        assert not self.complaints.lines, f"seed {SEED}: {self.complaints.lines[0]}\nafter\n{story}"
        assert not self.failures, f"seed {SEED}: {self.failures}\nafter\n{story}"

    async def _ask(self, listener: str, key: ApiKey, fuzzed: Fuzzed) -> str:
        client = self.connections.get(listener)
        if client is None:
            client = self.connections[listener] = await self.connect(listener)
        closed_before = self.complaints.closed
        try:
            await client.send(len(fuzzed.frame).to_bytes(4, "big") + fuzzed.frame)
            answer = await asyncio.wait_for(client.receive(), ANSWER_WITHIN_S)
        except TimeoutError:
            self.waiting.append(self.connections.pop(listener))
            if len(self.waiting) > WAITING_CONNECTIONS:
                self.waiting.popleft().close()
            return "waits"
        except (asyncio.IncompleteReadError, ConnectionError):
            self.connections.pop(listener).close()
            assert self.complaints.closed == closed_before + 1, "a connection was closed without one line"
            return "closed"
        if key is not ApiKey.API_VERSIONS:  # that of an unknown version is answered in version 0
            _, response = decode_response(key, fuzzed.version, answer)
            self.world.learn(response)
            strange = strange_codes(response)
            assert not strange, f"error codes {strange} in {response}"
        return "answered"

    # -- what belongs to others ---------------------------------------------------------------------

    async def prepare(self) -> None:
        """Topics for the requests, and a witness: records, offsets of a group, an open transaction."""
        await create_topic(self.broker, "victim", 3)
        await create_topic(self.broker, "victim-2")
        await create_topic(self.broker, "compacted", 1, {"cleanup.policy": "compact"})
        await create_topic(self.broker, "bounded", 1, {"message.timestamp.before.max.ms": "1000000"})
        await create_topic(self.broker, WITNESS, 1, {"retention.ms": "-1", "retention.bytes": "-1"})
        image: MetadataImage = self.broker.image
        known = self.world.known
        known["topic_id"] = [image.topics[name].topic_id for name in ("victim", "victim-2", "compacted")]
        known["topic_id"].append(uuid.UUID(int=0))
        known["cluster_id"] = [self.broker.cluster_id]
        known["directory_id"] = [self.broker.log_directory.directory_id]
        client = await self.connect()
        await self._produce(client, encode_batch(RECORDS))
        await self._commit_offset(client)
        await self._begin_transaction(client)
        client.close()

    async def _produce(self, client: RawClient, batch: bytes, transactional_id: str | None = None) -> None:
        data = TopicProduceData(name=WITNESS, partition_data=[PartitionProduceData(index=0, records=batch)])
        request = ProduceRequest(
            acks=-1, timeout_ms=10_000, topic_data=[data], transactional_id=transactional_id
        )
        answer: Any = await client.call(ApiKey.PRODUCE, 11, request)
        assert answer.responses[0].partition_responses[0].error_code == 0

    async def _coordinator(self, client: RawClient, kind: int, key: str) -> None:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            while True:
                request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
                answer: Any = await client.call(ApiKey.FIND_COORDINATOR, 4, request)
                if answer.coordinators[0].error_code == 0:
                    return
                await asyncio.sleep(0.02)

    async def _commit_offset(self, client: RawClient) -> None:
        await self._coordinator(client, 0, WITNESS_GROUP)
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=7, committed_metadata="!"
        )
        topic = OffsetCommitRequestTopic(name=WITNESS, partitions=[partition])
        request = OffsetCommitRequest(group_id=WITNESS_GROUP, topics=[topic])
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            while True:
                answer: Any = await client.call(ApiKey.OFFSET_COMMIT, 8, request)
                if answer.topics[0].partitions[0].error_code == 0:
                    return
                await asyncio.sleep(0.02)

    async def _begin_transaction(self, client: RawClient) -> None:
        await self._coordinator(client, 1, WITNESS_TRANSACTION)
        request = InitProducerIdRequest(
            transactional_id=WITNESS_TRANSACTION, transaction_timeout_ms=900_000, producer_id=-1
        )
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            while True:
                answer: Any = await client.call(ApiKey.INIT_PRODUCER_ID, 4, request)
                if answer.error_code == 0:
                    break
                await asyncio.sleep(0.02)
        self.producer = answer.producer_id, answer.producer_epoch
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=WITNESS_TRANSACTION,
            v3_and_below_producer_id=answer.producer_id,
            v3_and_below_producer_epoch=answer.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=WITNESS, partitions=[0])],
        )
        added: Any = await client.call(ApiKey.ADD_PARTITIONS_TO_TXN, 3, add)
        partition = added.results_by_topic_v3_and_below[0].results_by_partition[0]
        assert partition.partition_error_code == 0
        batch = encode_batch(
            RECORDS[:1],
            producer_id=answer.producer_id,
            producer_epoch=answer.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        await self._produce(client, batch, WITNESS_TRANSACTION)

    async def check_witness(self) -> None:
        """The witness' records, offset and transaction are as they were left; others can write."""
        client = await self.connect()
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_bytes=1 << 20, topics=[FetchTopic(topic=WITNESS, partitions=[partition])], isolation_level=1
        )
        fetched: Any = await client.call(ApiKey.FETCH, 12, request)
        (data,) = fetched.responses[0].partitions
        headers = [header for _, header in iterate_headers(data.records)]
        assert (data.error_code, data.last_stable_offset) == (0, len(RECORDS))
        assert [header.last_offset for header in headers] == [len(RECORDS) - 1]
        group = OffsetFetchRequestGroup(group_id=WITNESS_GROUP, topics=None)
        offsets: Any = await client.call(ApiKey.OFFSET_FETCH, 8, OffsetFetchRequest(groups=[group]))
        (committed,) = offsets.groups[0].topics[0].partitions
        assert (committed.committed_offset, committed.metadata) == (7, "!")
        client.close()

    async def end_transaction(self) -> None:
        """The witness' transaction can still be committed."""
        client = await self.connect()
        await self._coordinator(client, 1, WITNESS_TRANSACTION)
        producer_id, epoch = self.producer
        request = EndTxnRequest(
            transactional_id=WITNESS_TRANSACTION,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=True,
        )
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            while True:
                answer: Any = await client.call(ApiKey.END_TXN, 3, request)
                if answer.error_code not in (
                    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                    ErrorCode.NOT_COORDINATOR,
                ):
                    break
                await asyncio.sleep(0.02)
        assert answer.error_code == 0
        client.close()

    async def until_loaded(self) -> None:
        """Every coordinator has read its partitions, or the time is up."""
        client = await self.connect()
        for kind, key in ((0, "group-a"), (0, "group-b"), (0, WITNESS_GROUP), (1, "txn-a"), (1, "txn-b")):
            await self._coordinator(client, kind, key)
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            for name in (WITNESS_GROUP, "group-a", "group-b", "group-c"):
                while True:
                    group = OffsetFetchRequestGroup(group_id=name, topics=None)
                    answer: Any = await client.call(
                        ApiKey.OFFSET_FETCH, 8, OffsetFetchRequest(groups=[group])
                    )
                    if answer.groups[0].error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                        break
                    await asyncio.sleep(0.02)
        client.close()


@pytest.fixture(scope="module")
def node() -> Iterator[FuzzedNode]:
    """One node for all that comes; at the end it must stop, and start again with what came.

    Its files are in memory where that is possible: every second request is synced.
    """
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as directory,
        asyncio.Runner() as runner,
        pytest.MonkeyPatch.context() as patch,
    ):
        fuzzed = FuzzedNode(Path(directory) / "data", runner)
        runner.get_loop().set_exception_handler(fuzzed.complaints.loop_handler)
        logging.getLogger().addHandler(fuzzed.complaints)
        patch.setattr(FloodLog, "warn", lambda _, *event: fuzzed.complaints.warn(*event))
        try:
            runner.run(fuzzed.start())
            runner.run(fuzzed.prepare())
            yield fuzzed
        finally:
            if fuzzed.running is not None:
                runner.run(fuzzed.stop())
            logging.getLogger().removeHandler(fuzzed.complaints)


def explored(number: int) -> settings:
    return settings(
        max_examples=examples(number),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )


def ask_version(node: FuzzedNode, listener: str, key: ApiKey, version: int) -> None:
    @seeded(SEED)
    @explored(3)
    @given(requests(key, (version, version), node.world))
    def ask(fuzzed: Fuzzed | None) -> None:
        node.judge(listener, key, fuzzed)

    ask()


def test_every_version_of_every_api(node: FuzzedNode) -> None:
    order = list(SERVED)
    random.Random(SEED).shuffle(order)
    for listener, key in order:
        first, last = advertised_versions(key)
        # Produce is advertised from 0 on and has no message for that
        for version in range(max(first, request_class(key).MIN_VERSION), last + 1):
            ask_version(node, listener, key, version)
    assert node.outcomes["answered"] > 3 * node.outcomes["closed"]
    node.runner.run(node.check_witness())


@pytest.mark.long
def test_stories_of_several_requests(node: FuzzedNode) -> None:
    strategies = [
        (listener, key, requests(key, advertised_versions(key), node.world)) for listener, key in SERVED
    ]

    @seeded(SEED)
    @explored(150)
    @given(st.data())
    def tell(data: st.DataObject) -> None:
        for _ in range(STORY_REQUESTS):
            listener, key, strategy = strategies[data.draw(st.integers(0, len(strategies) - 1))]
            node.judge(listener, key, data.draw(strategy))

    tell()
    node.runner.run(node.check_witness())


@pytest.mark.long
def test_what_the_requests_have_left_can_be_read_again(node: FuzzedNode) -> None:
    # given
    node.complaints.lines.clear()
    node.runner.run(node.stop())

    # when
    node.runner.run(node.start())
    node.runner.run(node.until_loaded())

    # then
    node.runner.run(node.check_witness())
    node.runner.run(node.end_transaction())
    assert not node.complaints.lines
    assert not node.failures
    assert DEEP or sum(node.outcomes.values()) > 2_000
