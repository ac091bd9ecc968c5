"""Show the records that a stream, a table or a whole application makes of a few: for notebooks and trials.

    preview(words, {"lines": ["the cat", "and the hat"]})        # data of your own, no broker
    preview(words, bootstrap="127.0.0.1:9092", records=50)       # the last 50 records of each topic

It runs the nodes up to the stream over the sample, as one batch, on the test kit: nothing is written to the
cluster, no offset is committed. A topic's data is a list: values, pairs (key, value), triples (key, value,
timestamp), in the types of the topic's formats. A stateful part sees the sample and
nothing else, so a count is one of the sample. At the end event time goes on, so that windows close and are
seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ottla.streams.kit.kit_environment import KitError, RawRecord
from ottla.streams.kit.results import ApplicationPreview, Preview
from ottla.streams.kit.testing import HasTopology, TopologyTestDriver
from ottla.streams.plan.topology import Topology

if TYPE_CHECKING:
    from confluent_kafka import Message
    from pyspark.sql import SparkSession

    from ottla.client.cluster import KafkaCluster

DEFAULT_RECORDS = 20
MAX_RECORDS = 100_000


@runtime_checkable
class HasPreview(Protocol):
    """A stream or a table."""

    def _preview_topology(self) -> Topology:
        """The nodes up to it; it is the one that is materialized."""
        ...


def preview(
    of: HasPreview,
    data: Mapping[str, Iterable[Any]] | None = None,
    *,
    bootstrap: str | None = None,
    records: int = DEFAULT_RECORDS,
    first: bool = False,
    close_windows: bool = True,
    client_options: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
) -> Preview:
    """The records of a stream or a table after a sample: `data` by topic, or records of a cluster's topics.

    records: how many of each topic, the last ones, or the `first`. Raises KitError, TopologyError, and
    ClusterError for a cluster that does not answer.
    """
    if not isinstance(of, HasPreview):
        raise KitError("preview() shows a stream or a table, preview_application() a whole application")
    topology = of._preview_topology()
    (shown,) = topology.materialized
    with TopologyTestDriver._of(topology, spark) as driver:
        _feed(driver, _sample(driver, data, bootstrap, records, first, client_options))
        if close_windows:
            driver.close_windows()
        (sink,) = driver._tested.plan.materialized.values()
        found = driver._internal(sink.topic)
        return Preview(shown.node.name, found, driver.dead_letters())


def preview_application(
    app: HasTopology,
    data: Mapping[str, Iterable[Any]] | None = None,
    *,
    bootstrap: str | None = None,
    records: int = DEFAULT_RECORDS,
    first: bool = False,
    close_windows: bool = True,
    client_options: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
) -> ApplicationPreview:
    """The records that an application would write to topics for a sample; sinks of Spark's are left out."""
    whole = app.topology()
    written = [(sink, sink.facts.writes) for sink in whole.sinks]
    sinks = tuple(sink for sink, writes in written if writes is not None and writes.kafka)
    with TopologyTestDriver._of(Topology(whole.name, sinks, ()), spark) as driver:
        _feed(driver, _sample(driver, data, bootstrap, records, first, client_options))
        if close_windows:
            driver.close_windows()
        dead = driver.dead_letters()
        outputs: dict[str, Preview] = {}
        for writes in driver._tested.sinks:
            assert writes.formats is not None, "a topic of the user's has formats"
            for topic in [writes.topic] if writes.topic is not None else driver._chosen_topics():
                found = driver.output(topic, key=writes.formats.key, value=writes.formats.value).read_all()
                outputs.setdefault(topic, Preview(topic, found, ()))
        return ApplicationPreview(outputs, dead)


def _feed(driver: TopologyTestDriver, sample: Mapping[str, Any]) -> None:
    for topic, given in sample.items():
        formats = driver._tested.source_of(topic).formats
        assert formats is not None, "a topic of the user's has formats"
        typed = driver.input(topic, key=formats.key, value=formats.value)
        for each in given:
            if isinstance(each, RawRecord):
                driver._put_raw(each)
            else:
                typed.pipe_all([each])


def _sample(
    driver: TopologyTestDriver,
    data: Mapping[str, Iterable[Any]] | None,
    bootstrap: str | None,
    records: int,
    first: bool,
    client_options: Mapping[str, str] | None,
) -> Mapping[str, Any]:
    if (data is None) == (bootstrap is None):
        raise KitError('a preview needs data={"topic": [records]} or bootstrap="host:port", one of both')
    if data is not None:
        return data
    if not 0 < records <= MAX_RECORDS:
        raise KitError(f"records must be 1 to {MAX_RECORDS}, not {records}")
    from ottla.client.cluster import KafkaCluster

    assert bootstrap is not None
    cluster = KafkaCluster(bootstrap, client_options)
    return {topic: _read(cluster, topic, records, first) for topic in _topics_of(driver, cluster)}


def _topics_of(driver: TopologyTestDriver, cluster: KafkaCluster) -> list[str]:
    topics: dict[str, None] = {}
    for source in driver._tested.sources:
        found: Sequence[str] = source.topics.names
        if source.topics.pattern is not None:
            found = [name for name in cluster.topic_names() if source.topics.include(name)]
        topics.update(dict.fromkeys(found))
    written = {sink.topic for sink in driver._tested.sinks}
    missing = [name for name in cluster.missing_topics(list(topics)) if name not in written]
    if missing:
        raise KitError(f"topic {missing[0]} does not exist on {cluster.bootstrap}")
    return [topic for topic in topics if topic not in written]


def _read(cluster: KafkaCluster, topic: str, records: int, first: bool) -> list[RawRecord]:
    """The first or last records of a topic, in the order of their timestamps."""
    ends = cluster.end_positions(topic)
    since = {} if first else {partition: end - records for partition, end in ends.items()}
    taken: dict[int, int] = dict.fromkeys(ends, 0)
    found: list[RawRecord] = []
    reading = cluster.read(topic, since)
    try:
        for message in reading:
            partition, offset = message.partition(), message.offset()
            assert partition is not None and offset is not None, "a record that was read has a place"
            if taken[partition] < records:
                taken[partition] += 1
                found.append(
                    RawRecord(
                        _bytes(message.key()),
                        _bytes(message.value()),
                        topic,
                        partition,
                        offset,
                        message.timestamp()[1] * 1000,
                        tuple((name, _bytes(value)) for name, value in _headers(message)),
                    )
                )
            elif all(count >= records for count in taken.values()):
                break
    finally:
        reading.close()  # type: ignore[attr-defined]
    found.sort(key=lambda each: (each.timestamp_us, each.partition, each.offset))
    return found[:records] if first else found[-records:]


def _headers(message: Message) -> list[tuple[str, Any]]:
    return list(message.headers() or ())  # type: ignore[arg-type]


def _bytes(given: bytes | str | None) -> bytes | None:
    return given.encode() if isinstance(given, str) else given
