"""The counters of partitions and topics: exact, and never going back while Prometheus watches."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.metrics.topics import TopicMetrics
from ottla.broker.replication.partition import Partition, Traffic
from ottla.broker.replication.partitions import Partitions
from ottla.core.image.image import MetadataImage
from ottla.core.replica.follower import PartitionFollower
from ottla.core.replica.leader import PartitionLeader
from ottla.metrics.exposition import Exposition
from ottla.protocol.record_batch import iterate_headers
from ottla.storage.log import Log, LogConfig
from support.clients.scrapes import Scrape
from support.clients.wire import batch

TOPICS = {"orders": uuid.UUID(int=1), "payments": uuid.UUID(int=2)}
PREFIX = "kafka_server_brokertopicmetrics"
NOW_MS = 1_700_000_000_000


class Cluster:
    """The node as the partitions see it: its metadata has the topics."""

    def __init__(self) -> None:
        self.image = MetadataImage()
        self.node_id = 1
        self.config: Any = None


class Node:
    """Partitions that come, lead, follow and go; and a count of what was done to them."""

    def __init__(self, directory: Path) -> None:
        self.loop = asyncio.new_event_loop()
        self.partitions = Partitions(Cluster())
        self.held: dict[tuple[str, int], Partition] = {}
        self.expected = dict.fromkeys(TOPICS, Traffic())
        self._directory = directory
        self._epochs = itertools.count(1)
        self._numbers = itertools.count()

    def open(self, topic: str, index: int) -> None:
        if (topic, index) not in self.held:
            path = self._directory / str(next(self._numbers)) / f"{topic}-{index}"
            path.parent.mkdir()
            stored = Log.open(path, LogConfig(segment_bytes=400), now_ms=NOW_MS, topic_id=TOPICS[topic])
            role = PartitionFollower(leader_id=2, leader_epoch=0, log=stored, high_watermark=0)
            partition = Partition(self.loop, topic, index, TOPICS[topic], stored, role)
            self.held[topic, index] = partition
            self.partitions.add(partition)

    def lead(self, topic: str, index: int) -> None:
        partition = self.held.get((topic, index))
        if partition is not None:
            end, epoch = partition.log.log_end_offset, next(self._epochs)
            partition.log.assign_epoch(epoch)
            partition.lead(
                PartitionLeader(
                    local_id=1, leader_epoch=epoch, isr=[1], log_end_offset=end, high_watermark=end
                )
            )
            self.partitions.lead(partition)

    def follow(self, topic: str, index: int) -> None:
        partition = self.held.get((topic, index))
        if partition is not None:
            self.partitions.resign(partition)
            epoch, stored = next(self._epochs), partition.log
            partition.follow(PartitionFollower(leader_id=2, leader_epoch=epoch, log=stored, high_watermark=0))

    def append(self, topic: str, index: int, count: int) -> None:
        """As the leader, a batch of a producer; as a follower, one that was fetched."""
        partition = self.held.get((topic, index))
        if partition is None:
            return
        records = memoryview(bytearray(batch(count)))
        headers = [header for _, header in iterate_headers(records)]
        if partition.is_leader:
            partition.append(records, headers, NOW_MS)
            added = Traffic(messages_in=count, bytes_in=len(records), appends=1)
            self.expected[topic] = self.expected[topic].plus(added)
        else:
            end = partition.log.log_end_offset
            copied = memoryview(bytearray(batch(count, base_offset=end)))
            partition.log.append(copied, [header for _, header in iterate_headers(copied)], now_ms=NOW_MS)

    def truncate(self, topic: str, index: int) -> None:
        """A follower's log is cut."""
        partition = self.held.get((topic, index))
        if partition is not None and not partition.is_leader:
            partition.log.truncate_to(partition.log.log_end_offset // 2, now_ms=NOW_MS)
            partition.on_truncated()

    def remove(self, topic: str, index: int) -> None:
        partition = self.held.pop((topic, index), None)
        if partition is not None:
            self.partitions.resign(partition)
            self.partitions.remove(partition)
            partition.let_go()

    def scrape(self) -> Scrape:
        return Scrape.of_text(Exposition([TopicMetrics(self.partitions).read]).text())


PLACES = [("orders", 0), ("orders", 1), ("payments", 0)]
place = st.sampled_from(PLACES)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), place, st.tuples(st.integers(1, 5))),
        st.tuples(st.sampled_from(["open", "lead", "follow", "truncate", "remove"]), place, st.just(())),
    ),
    min_size=10,
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(steps)
def test_topics_count_what_was_appended_here_and_never_go_back(
    done: list[tuple[str, tuple[str, int], tuple[int, ...]]],
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        node = Node(Path(directory))
        before = node.scrape()
        for topic, index in PLACES:
            node.open(topic, index)
            node.lead(topic, index)
        try:
            for name, at, more in done:
                getattr(node, name)(*at, *more)
                now = node.scrape()
                for topic, expected in node.expected.items():
                    assert now.value(f"{PREFIX}_messagesin_total", topic=topic) == expected.messages_in
                    assert now.value(f"{PREFIX}_bytesin_total", topic=topic) == expected.bytes_in
                    assert now.value(f"{PREFIX}_totalproducerequests_total", topic=topic) == expected.appends
                for (series, labels), value in before.samples.items():
                    if series.endswith("_total") and series.startswith(PREFIX):
                        assert now.samples[series, labels] >= value
                before = now
        finally:
            for each in list(node.held.values()):
                each.log.close()
            node.loop.close()


def test_the_walk_over_partitions_breathes(tmp_path: Path) -> None:
    node = Node(tmp_path)
    try:
        for index in range(120):
            node.open("orders", index)
        steps = list(_steps(node))
        assert steps.count(None) == 2
    finally:
        for each in node.held.values():
            each.log.close()
        node.loop.close()


def _steps(node: Node) -> Iterator[object]:
    return TopicMetrics(node.partitions).read()
