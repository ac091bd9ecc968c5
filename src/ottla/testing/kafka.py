"""A cluster as a test sees it: topics with names of their own, records written and read in one call each.

The helpers speak Kafka's protocol themselves, so a test needs no client library for them, and none of a
client's caches, retries or threads stands between the test and the broker.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.record_batch import NewRecord, encode_batch
from ottla.testing.errors import KafkaTestError
from ottla.testing.partitioning import partition_of
from ottla.testing.reading import ConsumedRecord, Partition, Reading
from ottla.testing.wire import Deadline, NotYet, Wire, insist, require

__all__ = ["ConsumedRecord", "Kafka", "ProducedRecord", "Text"]

TIMEOUT_SECONDS: Final = 15.0
_UNIQUE_LENGTH: Final = 8

Text = str | bytes | None
"""A key or a value: text is written as UTF-8, None is a null."""


@dataclass(frozen=True, slots=True)
class ProducedRecord:
    """The place of a record that was written."""

    topic: str
    partition: int
    offset: int


class Kafka:
    """A cluster of any make at a bootstrap address. Every call ends within its `timeout_seconds`."""

    def __init__(self, bootstrap: str) -> None:
        """`bootstrap`: HOST:PORT,…"""
        self.bootstrap = bootstrap
        """The servers that a client is given as `bootstrap.servers`."""
        self._wire = Wire(bootstrap)
        self._keyless = itertools.count()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.bootstrap!r})"

    def close(self) -> None:
        """Close the connections of the helpers."""
        self._wire.close()

    # -- topics -----------------------------------------------------------------------------------------

    def topic(
        self,
        name: str = "topic",
        *,
        partitions: int = 1,
        replication_factor: int = -1,
        config: Mapping[str, object] | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> str:
        """Create a topic whose name no other test has, `name` and a random end; its whole name."""
        unique = f"{name}-{uuid.uuid4().hex[:_UNIQUE_LENGTH]}"
        return self.create_topic(
            unique,
            partitions=partitions,
            replication_factor=replication_factor,
            config=config,
            timeout_seconds=timeout_seconds,
        )

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int = -1,
        config: Mapping[str, object] | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> str:
        """Create a topic of this name, wait until its partitions have leaders; the name.

        replication_factor: -1 for the cluster's default. Raises KafkaTestError, for a name that exists too.
        """
        deadline, wanted = Deadline(timeout_seconds), f"create topic {name}"
        configs = [
            CreatableTopicConfig(name=key, value=_config_text(value)) for key, value in (config or {}).items()
        ]
        new = CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=replication_factor, configs=configs
        )
        attempts = itertools.count()

        def create() -> None:
            request = CreateTopicsRequest(topics=[new], timeout_ms=int(deadline.left_seconds() * 1000))
            retry = next(attempts) > 0
            (answer,) = self._wire.ask_any(request, deadline).topics
            if retry and answer.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
                return  # made by the attempt whose answer was lost
            require(answer.error_code, wanted, answer.error_message)

        def led() -> None:
            found = self._partitions(name, deadline, wanted)
            if len(found) != partitions:
                raise NotYet(f"{len(found)} of its partitions are known")

        insist(create, wanted, deadline)
        insist(led, wanted, deadline)
        return name

    # -- records ----------------------------------------------------------------------------------------

    def produce(
        self,
        topic: str,
        *values: Text,
        key: Text = None,
        headers: Mapping[str, Text] | Iterable[tuple[str, Text]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> list[ProducedRecord]:
        """Write records with acks=all, all with the same key and headers, in one batch; their places.

        Without `partition` a key decides as with Java's clients; records without a key go to one partition
        after the other, call by call. An answer that is lost means that the records are written again.
        """
        if not values:
            raise ValueError("produce needs at least one value")
        deadline, wanted = Deadline(timeout_seconds), f"produce to {topic}"
        now = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        encoded_headers = tuple((name, _bytes(value)) for name, value in pairs)
        encoded_key = _bytes(key)
        records = [NewRecord(encoded_key, _bytes(value), now, encoded_headers) for value in values]
        batch = encode_batch(records)
        turn = next(self._keyless) if encoded_key is None else 0

        def write() -> list[ProducedRecord]:
            found = self._partitions(topic, deadline, wanted)
            if partition is not None:
                chosen = partition
            elif encoded_key is not None:
                chosen = partition_of(encoded_key, len(found))
            else:
                chosen = turn % len(found)
            if chosen not in found:
                raise _no_partition(wanted, chosen, found)
            request = _produce_request(topic, chosen, batch, deadline)
            answer = self._wire.ask(found[chosen].address, request, deadline)
            (told,) = answer.responses[0].partition_responses
            require(told.error_code, wanted, told.error_message)
            return [ProducedRecord(topic, chosen, told.base_offset + at) for at in range(len(values))]

        return insist(write, wanted, deadline)

    def consume(
        self,
        topic: str,
        count: int | None = None,
        *,
        partition: int | None = None,
        offset: int | None = None,
        committed: bool = True,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> list[ConsumedRecord]:
        """Read a topic from its start, without a group; each partition's records in their order.

        count: so many records are waited for, and no more are returned; without it, those are returned that
        are there at the call. partition, offset: only this partition, from this offset on. committed: leave
        out records of open and aborted transactions (read_committed). Raises KafkaTestError, which tells the
        records that came, if fewer than `count` come in time.
        """
        if offset is not None and partition is None:
            raise ValueError("an offset is one of a partition: give partition, too")
        deadline, wanted = Deadline(timeout_seconds), f"read {topic}"

        def chosen() -> Sequence[Partition]:
            found = self._partitions(topic, deadline, wanted)
            if partition is None:
                return list(found.values())
            if partition not in found:
                raise _no_partition(wanted, partition, found)
            return [found[partition]]

        reading = Reading(self._wire, topic, chosen, committed, deadline)
        if count is None:
            return reading.up_to_now(offset)
        return reading.up_to_count(count, offset)

    def _partitions(self, topic: str, deadline: Deadline, wanted: str) -> dict[int, Partition]:
        """The partitions and their leaders. Raises NotYet unless all have one, KafkaTestError."""
        answer = self._wire.metadata([topic], deadline)
        (told,) = answer.topics
        require(told.error_code, wanted)
        brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        found: dict[int, Partition] = {}
        for each in sorted(told.partitions, key=_index):
            if each.leader_id not in brokers:
                raise NotYet(f"partition {each.partition_index} has no leader")
            found[each.partition_index] = Partition(each.partition_index, brokers[each.leader_id])
        return found


def _no_partition(wanted: str, partition: int, found: Mapping[int, Partition]) -> KafkaTestError:
    return KafkaTestError(f"could not {wanted}: it has {len(found)} partitions, none is {partition}")


def _index(partition: Any) -> int:
    index: int = partition.partition_index
    return index


def _produce_request(topic: str, partition: int, batch: bytes, deadline: Deadline) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=batch)
    return ProduceRequest(
        acks=-1,
        timeout_ms=max(1, int(deadline.left_seconds() * 1000)),
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )


def _bytes(text: Text) -> bytes | None:
    return text.encode() if isinstance(text, str) else text


def _config_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
