"""Records without a key or a value in every join and grouping, beside Kafka Streams 4.3.1 (KIP-962)."""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from confluent_kafka import Producer

from ottla.client.cluster import KafkaCluster, Topic
from ottla.streams import Streams, StreamsSettings
from ottla.streams.operators.windows import JoinWindows
from ottla.streams.run.application import start
from support.java.java_tools import compile_java, java_command
from support.java.streams_apps import STREAMS_FLAGS, streams_classpath
from support.servers.cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import Column

    from ottla.pipeline.spark.session import SparkPipelineSession
    from ottla.streams.dsl.streams_and_tables import Stream
    from ottla.streams.plan.records import Record

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

PROGRAM = Path(__file__).parents[2] / "support" / "java" / "NullKeys.java"
BEGIN_MS = 1_790_000_000_000
# A pair long after all others: by then nothing else is open. It is left out of the comparison.
LAST = "last"
INPUTS = ("left", "right", "table", "other", "global")
STREAMS = (
    "inner", "left", "outer", "rekeyed-left", "rekeyed-inner", "table", "left-table", "rekeyed-left-table",
    "global", "left-global",
)  # fmt: skip
TABLES = ("tables", "foreign", "left-foreign", "count", "group", "to-table")
Rows = dict[str, Counter[tuple[str | None, str | None]]]


class Sent(NamedTuple):
    """A record of an input."""

    role: str
    key: str | None
    value: str | None
    time_ms: int


def drawn(seed: int, count: int) -> list[Sent]:
    """Records in the order of time, a third of them without a key; some without a value."""
    rolls = random.Random(seed)
    keys = ["a", "b", "x", "y", None, None]
    sent = [Sent("global", key, f"{key}:global", BEGIN_MS) for key in ("a", "x")]
    time_ms = BEGIN_MS
    for number in range(count):
        time_ms += rolls.randint(1, 8)
        role = rolls.choice(INPUTS[:4])
        value = rolls.choice([f"x:{number}", f"y:{number}", f":{number}", f"q:{number}", None])
        sent.append(Sent(role, rolls.choice(keys), value, time_ms))
    return [*sent, *(Sent(role, LAST, f"{LAST}:", time_ms + 90_000) for role in ("left", "right"))]


def of_kafka_streams(sent: Sequence[Sent], directory: Path) -> tuple[Rows, dict[str, dict[str, str]]]:
    """The records of Kafka Streams' streams, and the rows of its tables."""
    lines = ["\t".join((f"in-{each.role}", each.key or "-", each.value or "-", str(each.time_ms)))
             for each in sent]  # fmt: skip
    ran = subprocess.run(
        java_command(
            "NullKeys",
            str(directory / "state"),
            flags=STREAMS_FLAGS,
            class_path=compile_java([PROGRAM], streams_classpath(), directory / "classes"),
        ),
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    records: Rows = {name: Counter() for name in STREAMS}
    tables: dict[str, dict[str, str]] = {name: {} for name in TABLES}
    for line in ran.stdout.splitlines():
        name, *words, _ = line.split("\t")
        key, value = (None if word == "-" else word for word in words)
        _take(records, tables, name, key, value)
    return records, tables


def _take(
    records: Rows, tables: dict[str, dict[str, str]], name: str, key: str | None, value: str | None
) -> None:
    if key == LAST:
        return
    if name in records:
        records[name][key, value] += 1
        return
    assert key is not None
    tables[name].pop(key, None)
    if value is not None:
        tables[name][key] = value


def application(name: str) -> Streams:
    """The application of NullKeys.java."""
    from pyspark.sql import functions as F

    def letter(record: Record) -> Column:
        return F.nullif(F.substring_index(record.value, ":", 1), F.lit(""))

    def key_of(record: Record) -> Column:
        return record.key

    def both(record: Record) -> Column:
        sides = (record.value.left, record.value.right)
        return F.concat_ws("|", *(F.coalesce(side, F.lit("-")) for side in sides))

    app = Streams(name)
    left, right = (app.stream(f"{name}-{role}", key=str, value=str) for role in INPUTS[:2])
    table, other = (app.table(f"{name}-{role}", key=str, value=str) for role in INPUTS[2:4])
    rows = app.global_table(f"{name}-global", key=str, value=str)
    rekeyed = left.select_key(key_of)
    near = JoinWindows(10, 10, 0)
    streams: dict[str, Stream] = {
        "inner": left.join(right, within=near),
        "left": left.left_join(right, within=near),
        "outer": left.outer_join(right, within=near),
        "rekeyed-left": rekeyed.left_join(right, within=near),
        "rekeyed-inner": rekeyed.join(right, within=near),
        "table": left.join_table(table),
        "left-table": left.left_join_table(table),
        "rekeyed-left-table": rekeyed.left_join_table(table),
        "global": left.join_global(rows, key_of),
        "left-global": left.left_join_global(rows, key_of),
    }
    for role, stream in streams.items():
        stream.map_values(both).to(f"{name}-out-{role}", key=str, value=str)
    tables = {
        "tables": table.outer_join(other).map_values(both),
        "foreign": table.join_foreign(other, letter).map_values(both),
        "left-foreign": table.left_join_foreign(other, letter).map_values(both),
        "count": left.group_by_key().count().map_values(lambda r: r.value.cast("string")),
        "group": left.group_by(letter).count().map_values(lambda r: r.value.cast("string")),
        "to-table": left.to_table(),
    }
    for role, each in tables.items():
        each.to(f"{name}-out-{role}", key=str, value=str)
    return app


@pytest.mark.parametrize(("seed", "batch_records"), [(1, 1_000_000), (2, 25), (3, 60)])
def test_null_keys_come_as_often_as_in_kafka_streams(
    cluster: Cluster,
    spark_session: SparkPipelineSession,
    unique_name: str,
    tmp_path: Path,
    seed: int,
    batch_records: int,
) -> None:
    kafka, sent = KafkaCluster(cluster.bootstrap), drawn(seed, 120)
    outputs = [f"out-{role}" for role in (*STREAMS, *TABLES)]
    kept = {"retention.ms": "-1"}  # the times are past
    kafka.ensure_topics([Topic(f"{unique_name}-{role}", 2, config=kept) for role in (*INPUTS, *outputs)])
    producer = Producer(kafka.producer_options())
    for each in sent:
        producer.produce(f"{unique_name}-{each.role}", each.value, each.key, timestamp=each.time_ms)
    assert producer.flush(30) == 0
    expected, expected_tables = of_kafka_streams(sent, tmp_path / "java")

    settings = StreamsSettings(
        kafka.bootstrap,
        tmp_path / "state",
        partitions=2,
        batch_records=batch_records,
        until_caught_up=True,
    )
    with start(application(unique_name).topology(), settings, session=spark_session):
        pass

    records: Rows = {name: Counter() for name in STREAMS}
    tables: dict[str, dict[str, str]] = {name: {} for name in TABLES}
    for name in (*STREAMS, *TABLES):
        for message in kafka.read(f"{unique_name}-out-{name}"):
            key, value = (
                None if part is None else part.decode() for part in (message.key(), message.value())
            )
            _take(records, tables, name, key, value)
    for name in STREAMS:
        assert records[name] == expected[name], name
    assert tables == expected_tables
