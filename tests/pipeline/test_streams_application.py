"""Applications of the DSL on a broker: their output, restarts, poison records, starts that are refused."""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import functions as F

from ottla.client.cluster import KafkaCluster, Topic
from ottla.pipeline.spark.session import SparkPipelineSession
from ottla.streams import PythonRecord, Streams, StreamsError, StreamsSettings, python, tumbling
from ottla.streams.run import internal_topics
from support.servers.cluster import Cluster

pytestmark = pytest.mark.spark


@dataclass(frozen=True, slots=True)
class Running:
    """A broker's topics, and the session and settings of one test's applications."""

    name: str
    kafka: KafkaCluster
    session: SparkPipelineSession
    bootstrap: str
    state: Path

    def topic(self, role: str, partitions: int = 2) -> str:
        """A topic of the test's own."""
        name = f"{self.name}-{role}"
        self.kafka.ensure_topics([Topic(name, partitions)])
        return name

    def produce(self, topic: str, *records: tuple[bytes | None, bytes | None], at_ms: int = 0) -> None:
        """Records of the time `at_ms`; 0: of now."""
        producer = Producer(self.kafka.producer_options())
        for key, value in records:
            producer.produce(topic, value, key, timestamp=at_ms)
        assert producer.flush(30) == 0

    def catch_up(self, app: Streams, **changes: object) -> int:
        """Run the application until all that is there now is done; how many dead letters it has counted."""
        from ottla.streams.run.application import start

        given = {"partitions": 2, "until_caught_up": True, **changes}
        settings = StreamsSettings(self.bootstrap, self.state, **given)  # type: ignore[arg-type]
        with start(app.topology(), settings, session=self.session) as running:
            assert running.await_end(0)
            return sum(query.dead_letters for query in running.queries)

    def read(self, topic: str) -> list[tuple[bytes | None, bytes | None]]:
        """The records that a read_committed consumer finds."""
        return [(message.key(), message.value()) for message in self.kafka.read(topic)]

    def table(self, topic: str) -> dict[bytes | None, bytes | None]:
        return dict(self.read(topic))


@pytest.fixture
def running(
    cluster: Cluster, spark_session: SparkPipelineSession, unique_name: str, tmp_path: Path
) -> Running:
    kafka = KafkaCluster(cluster.bootstrap)
    return Running(unique_name, kafka, spark_session, cluster.bootstrap, tmp_path / "state")


def number(value: int) -> bytes:
    return struct.pack(">q", value)


def word_count(running: Running, lines: str, counts: str) -> Streams:
    app = Streams(f"{running.name}-words")
    words = app.stream(lines, value=str).flat_map_values(lambda r: F.split(r.value, " "))
    words.group_by(lambda r: r.value).count(name="count").to(counts, key=str, value=int)
    return app


def test_a_word_count_goes_on_where_it_stopped(running: Running) -> None:
    lines, counts = running.topic("lines"), running.topic("counts")
    running.produce(lines, (None, b"a b a"), (None, b"c"))
    app = word_count(running, lines, counts)

    running.catch_up(app)
    first = running.table(counts)
    running.produce(lines, (None, b"a c"))
    running.catch_up(word_count(running, lines, counts))

    assert first == {b"a": number(2), b"b": number(1), b"c": number(1)}
    assert running.table(counts) == {b"a": number(3), b"b": number(1), b"c": number(2)}
    # b was not counted again: nothing was written of it.
    assert [key for key, _ in running.read(counts)].count(b"b") == 1


def test_poison_records_go_to_the_dead_letters_once_with_their_bytes(running: Running) -> None:
    orders, good, counts, dead = (running.topic(role) for role in ("orders", "good", "counts", "dead"))
    running.produce(orders, (b"1", b'{"item": "pen", "count": 2}'), (b"2", b"no json"), (b"3", None))

    @dataclass
    class Order:
        item: str
        count: int

    def half(record: PythonRecord) -> int:
        return int(6 / (record.value["count"] - 2))

    app = Streams(f"{running.name}-orders")
    read = app.stream(orders, key=bytes, value=Order, name="orders")
    present = read.filter(lambda r: r.value.isNotNull())
    present.map_values(lambda r: F.upper(r.value["item"])).to(good, value=str)
    halves = present.map_values(python(half, returns=int), name="half")
    halves.group_by(lambda r: F.lit("all")).count(name="count").to(counts, key=str, value=int)
    counted = running.catch_up(app, dead_letters=dead)

    letters = {
        (message.key(), message.value()): dict(message.headers() or [])
        for message in running.kafka.read(dead)
    }
    assert running.read(good) == [(b"1", b"PEN")]
    assert running.read(counts) == []
    assert set(letters) == {(b"2", b"no json"), (b"1", b'{"item": "pen", "count": 2}')}
    assert (len(running.read(dead)), counted) == (2, 2)
    unreadable, failed = letters[b"2", b"no json"], letters[b"1", b'{"item": "pen", "count": 2}']
    assert unreadable["__connect.errors.topic"] == orders.encode()
    assert unreadable["__connect.errors.stage"] == b"VALUE_CONVERTER"
    assert unreadable["__connect.errors.exception.class.name"] == b"ottla.DecodeError"
    assert unreadable["__ottla.node"] == b"orders"
    assert failed["__connect.errors.stage"] == b"TRANSFORMATION"
    assert failed["__ottla.node"] == b"half"
    assert failed["__connect.errors.exception.class.name"] == b"ZeroDivisionError"
    assert b"def half" in failed["__connect.errors.exception.stacktrace"] or (
        b"in half" in failed["__connect.errors.exception.stacktrace"]
    )


def test_without_dead_letters_a_poison_record_ends_the_application_with_its_place(running: Running) -> None:
    source, sink = running.topic("in", 1), running.topic("out")
    running.produce(source, (b"k", b"fine"), (b"k", b"\xff\xfe"))
    app = Streams(f"{running.name}-strict")
    app.stream(source, value=str, name="texts").map_values(lambda r: F.upper(r.value)).to(sink, value=str)

    with pytest.raises(StreamsError, match=rf"texts: the value of {source}-0 at offset 1 can't be read"):
        running.catch_up(app)

    assert running.read(sink) == []


def test_joins_and_regrouped_tables_run_over_internal_topics(running: Running) -> None:
    views, users, enriched, regions = (
        running.topic(role) for role in ("views", "users", "enriched", "regions")
    )
    running.produce(users, (b"ann", b"north"), (b"bob", b"south"), (b"cid", b"north"))
    app = Streams(f"{running.name}-shop")
    table = app.table(users, key=str, value=str, name="users")
    table.group_by(lambda r: r.value, name="by-region").count(name="users-by-region").to(
        regions, key=str, value=int
    )
    app.stream(views, key=str, value=str, name="views").join_table(
        table, lambda page, region: F.concat_ws("@", page, region), name="enrich"
    ).to(enriched, key=str, value=str)

    running.catch_up(app)
    running.produce(users, (b"cid", b"south"), (b"bob", None))
    running.produce(views, (b"ann", b"home"), (b"bob", b"home"), (b"dan", b"home"))
    running.catch_up(app)

    assert running.table(regions) == {b"north": number(1), b"south": number(1)}
    enriched_rows = running.table(enriched)
    assert enriched_rows[b"ann"] == b"home@north"
    # Both of bob's records come in one batch: which is first is told by their times.
    assert set(enriched_rows) <= {b"ann", b"bob"}


@pytest.mark.long
def test_internal_topics_lose_records_that_were_read_and_windows_behind_their_retention(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records of 1970, which a broker that compares them with its clock would delete before they are read."""
    monkeypatch.setattr(internal_topics, "RETENTION_SLACK_MS", 0)
    users, teams, joined, clicks, minutes = (
        running.topic(role) for role in ("users", "teams", "joined", "clicks", "minutes")
    )
    running.produce(users, (b"ann", b"red"), (b"bob", b"blue"))
    running.produce(teams, (b"red", b"R"), (b"blue", b"B"))
    running.produce(clicks, (b"a", b"1"), at_ms=1)
    running.produce(clicks, (b"b", b"1"), at_ms=86_400_000)
    app = Streams(f"{running.name}-kept")
    left, right = app.table(users, key=str, value=str), app.table(teams, key=str, value=str)
    pairs = left.join_foreign(
        right, lambda row: row.value, lambda user, team: F.concat(user, team), name="fk"
    )
    pairs.to(joined, key=str, value=str)
    counted = app.stream(clicks, key=str).group_by_key().windowed_by(tumbling(timedelta(minutes=1)))
    table = counted.count(name="clicks").materialize("clicks")
    table.to_stream(key=lambda row: row.key.key).to(minutes, key=str, value=int)
    kafka, changelog = running.kafka, f"{app.name}-clicks-changelog"

    running.catch_up(app)

    for name in ("fk-subscriptions", "fk-matches"):
        topic = f"{app.name}-{name}-repartition"
        assert kafka.start_positions(topic) == kafka.end_positions(topic) != {0: 0, 1: 0}
    assert sorted(message.timestamp()[1] for message in kafka.read(changelog)) == [1, 86_400_000]

    # More than all windows are open for after the clock, which marks transactions: both are behind then.
    soon_ms = int(time.time() * 1000) + 1_800_000
    running.produce(clicks, (b"c", b"1"), at_ms=soon_ms)
    running.produce(teams, (b"red", b"RR"))
    running.catch_up(app)

    assert [message.timestamp()[1] for message in kafka.read(changelog)] == [soon_ms]
    assert running.table(minutes) == {b"a": number(1), b"b": number(1), b"c": number(1)}
    # The deleted records were read: the join goes on from its state.
    assert running.table(joined) == {b"ann": b"redRR", b"bob": b"blueB"}


def test_changed_windows_are_refused_over_old_state(running: Running) -> None:
    source, sink = running.topic("in"), running.topic("out")
    running.produce(source, (b"k", b"v"))

    def app(size: timedelta) -> Streams:
        built = Streams(f"{running.name}-windows")
        counted = built.stream(source, key=str).group_by_key().windowed_by(tumbling(size)).count(name="count")
        counted.to_stream(key=lambda r: r.key.key).to(sink, key=str, value=int)
        return built

    running.catch_up(app(timedelta(minutes=1)))

    with pytest.raises(
        StreamsError, match=r"the state of count does not fit .* windows was .*60000.* is .*5000"
    ):
        running.catch_up(app(timedelta(seconds=5)))
    running.catch_up(app(timedelta(minutes=1)))


def test_a_lost_checkpoint_stops_the_start(running: Running) -> None:
    source, sink = running.topic("in"), running.topic("out")
    running.produce(source, (b"k", b"v"))

    def app() -> Streams:
        built = Streams(f"{running.name}-lost")
        built.stream(source).to(sink, name="copy")
        return built

    running.catch_up(app())
    checkpoint = running.session.checkpoints / f"{running.name}-lost-copy"
    checkpoint.rename(checkpoint.with_name(f"{checkpoint.name}-gone"))

    with pytest.raises(StreamsError, match=r"its checkpoint .* is gone"):
        running.catch_up(app())
    assert len(running.read(sink)) == 1


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("in", "topic .*-in does not exist"),
        ("out", "topic .*-out does not exist"),
        ("dead", "-dead does not"),
    ],
)
def test_topics_that_do_not_exist_stop_the_start(running: Running, missing: str, message: str) -> None:
    names: Mapping[str, str] = {
        role: f"{running.name}-{role}" if role == missing else running.topic(role)
        for role in ("in", "out", "dead")
    }
    app = Streams(f"{running.name}-app")
    app.stream(names["in"]).to(names["out"])

    with pytest.raises(StreamsError, match=message):
        running.catch_up(app, dead_letters=names["dead"])
    # Looking did not make it.
    assert running.kafka.missing_topics([names[missing]]) == [names[missing]]


def test_one_way_out_and_back_from_one_topic(running: Running) -> None:
    """Branches of a topic that are merged again: the topic is read twice, each record written once."""
    source, sink = running.topic("in"), running.topic("out")
    running.produce(source, *((str(n).encode(), str(n).encode()) for n in range(50)))
    app = Streams(f"{running.name}-diamond")
    numbers = app.stream(source, key=str, value=str)
    branches = numbers.branch(
        even=lambda r: r.value.cast("int") % 2 == 0, odd=lambda r: r.value.cast("int") % 2 == 1
    )
    even = branches["even"].map_values(lambda r: F.concat(r.value, F.lit(" even")))
    even.merge(branches["odd"]).to(sink, key=str, value=str)

    running.catch_up(app)
    running.produce(source, (b"50", b"50"))
    running.catch_up(app)

    expected = {str(n).encode(): f"{n}{' even' if n % 2 == 0 else ''}".encode() for n in range(51)}
    assert running.table(sink) == expected
    assert len(running.read(sink)) == 51
