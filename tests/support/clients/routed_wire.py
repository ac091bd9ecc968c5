"""A client of a cluster that speaks one request at a time, each to the broker that serves it."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ottla.core.share.keys import SharePartitionKey
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.schema import Message
from support.clients.named_states import GROUP, SHARE, TRANSACTION
from support.clients.wire import ConnectionClosed, WireClient, wait_for

PASSING = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
"""What a producer is told while leaders and coordinators move."""


@dataclass(slots=True)
class RoutedClient:
    """Asks the coordinator or the leader that a request is for, through any broker that it draws.

    bootstraps: the addresses of the brokers that run now. Errors that pass come back to the caller, but for
    those of Produce: they are waited out.
    """

    rng: random.Random
    bootstraps: Callable[[], Sequence[str]]

    def call(self, request: Message, version: int | None = None) -> Any:
        """Send a request to the broker that serves it, and return its response."""
        answers: list[Any] = []

        def answered() -> bool:
            try:
                with self._server_of(request) as client:
                    answers[:] = [client.call(request, version)]
            except (ConnectionClosed, OSError):  # it has just stopped
                return False
            if request.API_KEY != ApiKey.PRODUCE:
                return True
            return answers[0].responses[0].partition_responses[0].error_code not in PASSING

        wait_for(answered)
        return answers[0]

    def create_topic(self, topic: str, partitions: int = 1) -> uuid.UUID:
        """Create a topic, wait until it has leaders, and return its id."""
        new = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=-1)
        created = self.call(CreateTopicsRequest(topics=[new])).topics[0]
        assert created.error_code == ErrorCode.NONE, created
        for index in range(partitions):
            wait_for(lambda index=index: self._leader_of(topic, index) is not None)  # type: ignore[misc]
        topic_id: uuid.UUID = created.topic_id
        return topic_id

    def fetch(self, topic: str, partitions: Sequence[int]) -> dict[int, Any]:
        """Fetch partitions from offset 0; the answers by partition."""
        found: dict[int, Any] = {}
        for index in partitions:
            with self._connected(self._leader_of(topic, index)) as client:
                found |= client.fetch(topic, [index])
        return found

    # --- who serves what ----------------------------------------------------------------------------------

    @contextmanager
    def _server_of(self, request: Any) -> Iterator[WireClient]:
        """A connection to the broker that a request is for."""
        match request.API_KEY:
            case ApiKey.OFFSET_COMMIT | ApiKey.TXN_OFFSET_COMMIT:
                address = self._coordinator_of(GROUP, request.group_id)
            case ApiKey.OFFSET_FETCH:
                address = self._coordinator_of(GROUP, request.groups[0].group_id)
            case ApiKey.INIT_PRODUCER_ID | ApiKey.END_TXN:
                address = self._coordinator_of(TRANSACTION, request.transactional_id)
            case ApiKey.DESCRIBE_TRANSACTIONS:
                address = self._coordinator_of(TRANSACTION, request.transactional_ids[0])
            case (
                ApiKey.INITIALIZE_SHARE_GROUP_STATE
                | ApiKey.READ_SHARE_GROUP_STATE
                | ApiKey.WRITE_SHARE_GROUP_STATE
            ):
                topic = request.topics[0]
                key = SharePartitionKey(request.group_id, topic.topic_id, topic.partitions[0].partition)
                address = self._coordinator_of(SHARE, key.coordinator_key)
            case ApiKey.PRODUCE:
                data = request.topic_data[0]
                address = self._leader_of(data.name, data.partition_data[0].index)
            case _:
                address = self._any()
        with self._connected(address) as client:
            yield client

    @contextmanager
    def _connected(self, address: str | None) -> Iterator[WireClient]:
        if address is None:
            raise ConnectionClosed("nobody serves it yet")
        with WireClient.connect(address) as client:
            yield client

    def _any(self) -> str:
        return self.rng.choice(list(self.bootstraps()))

    def _coordinator_of(self, key_type: int, key: str) -> str | None:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        with WireClient.connect(self._any()) as client:
            found = client.call(request).coordinators[0]
        return None if found.error_code else f"{found.host}:{found.port}"

    def _leader_of(self, topic: str, index: int) -> str | None:
        with WireClient.connect(self._any()) as client:
            told = client.topic_metadata(topic)
        brokers = {each.node_id: f"{each.host}:{each.port}" for each in told.brokers}
        leaders = {each.partition_index: each.leader_id for each in told.topics[0].partitions}
        return brokers.get(leaders.get(index, -1))
