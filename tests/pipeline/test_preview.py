"""Previews of a stream, a table or an application, with given data or with a cluster's records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ottla.client.cluster import KafkaCluster, Topic
from ottla.streams import Emit, Streams, tumbling
from ottla.streams.kit.kit_environment import KitError
from ottla.streams.kit.preview import Preview, preview, preview_application
from ottla.streams.kit.results import OutputRecord
from support.servers.cluster import Cluster

pytestmark = pytest.mark.spark

NOON = datetime(2025, 6, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Click:
    """Where somebody, the key, has clicked."""

    page: str


def test_a_stream_over_data_of_ones_own(spark: SparkSession) -> None:
    assert SparkSession.getActiveSession() is not None, "what is used where no session is given"
    app = Streams("words")
    lines = app.stream("lines", value=str)
    words = lines.flat_map_values(lambda r: F.split(r.value, " "), name="words")

    shown = words.preview({"lines": ["the <cat>", "and", None]})

    assert [record.value for record in shown.records] == ["the", "<cat>", "and"]
    assert list(shown.frame.columns) == ["key", "value", "timestamp", "headers"]
    assert list(shown.frame["value"]) == ["the", "<cat>", "and"]
    assert shown._repr_html_().count("<tr>") == 4
    assert "&lt;cat&gt;" in shown._repr_html_() and "<cat>" not in shown._repr_html_()
    assert repr(shown).splitlines()[0] == "words: 3 records"


def test_windows_are_closed_at_the_end_and_poison_is_shown(spark: SparkSession) -> None:
    app = Streams("clicks")
    clicks = app.stream("clicks", key=str, value=Click)
    counts = clicks.group_by_key().windowed_by(tumbling(timedelta(minutes=1))).count(emit=Emit.WINDOW_CLOSE)
    counts.to_stream(key=lambda r: r.key.key).to("counts", key=str, value=int)
    data = {"clicks": [("anna", Click("home"), NOON), ("anna", Click("shop"), NOON)]}

    table = preview(counts, data, spark=spark)
    whole = preview_application(app, data, spark=spark)
    assert app.preview(data)["counts"].records == whole["counts"].records
    assert "<svg" in app._repr_html_() and "writes nowhere" in Streams("empty")._repr_html_()
    still_open = preview(counts, data, close_windows=False, spark=spark)

    noon = NOON.replace(tzinfo=None)
    assert [(each.key, each.value) for each in table.records] == [
        (("anna", noon, noon + timedelta(minutes=1)), 2)
    ]
    assert len(still_open) == 0
    assert [(each.key, each.value) for each in whole["counts"].records] == [("anna", 2)]
    assert "counts: 1 records" in repr(whole)


def test_a_sample_of_a_clusters_topic(spark: SparkSession, cluster: Cluster, unique_name: str) -> None:
    kafka = KafkaCluster(cluster.bootstrap)
    kafka.ensure_topics([Topic(unique_name, partitions=2)])
    producer = Producer(kafka.producer_options())
    for number in range(10):
        producer.produce(
            unique_name,
            b'{"page": "p%d"}' % number if number != 8 else b"poison",
            b"anna",
            partition=number % 2,
            timestamp=1_000 * (number + 1),
            headers=[("n", b"%d" % number)],
        )
    assert producer.flush(30) == 0
    app = Streams("clicks")
    pages = app.stream(unique_name, key=str, value=Click).map_values(lambda r: r.value.page)

    last = preview(pages, bootstrap=cluster.bootstrap, records=3, spark=spark)
    first = preview(pages, bootstrap=cluster.bootstrap, records=3, first=True, spark=spark)

    assert sorted(record.value for record in last.records) == ["p7", "p9"]
    assert dict(last.records[0].headers) == {"n": b"7"}
    (dead,) = last.dead_letters
    assert (dead.topic, dead.partition, dead.offset, dead.value) == (unique_name, 0, 4, b"poison")
    assert list(last.dead_letter_frame["offset"]) == [4]
    assert "not processed: 1" in last._repr_html_()
    assert sorted(record.value for record in first.records) == ["p0", "p1", "p2"]
    assert kafka.groups(prefix="clicks") == []


def test_what_a_preview_cannot_do_is_told(spark: SparkSession, cluster: Cluster, unique_name: str) -> None:
    app = Streams("nothing")
    lines = app.stream(unique_name, value=str)

    with pytest.raises(KitError, match="one of both"):
        preview(lines, spark=spark)
    with pytest.raises(KitError, match="records must be 1 to 100000, not 0"):
        preview(lines, bootstrap=cluster.bootstrap, records=0, spark=spark)
    with pytest.raises(KitError, match=f"topic {unique_name} does not exist on {cluster.bootstrap}"):
        preview(lines, bootstrap=cluster.bootstrap, spark=spark)
    with pytest.raises(KitError, match="does not read the topic 'lines'"):
        preview(lines, {"lines": []}, spark=spark)


def test_long_previews_are_cut_where_they_are_shown() -> None:
    records = [
        OutputRecord(number, "x" * 1_000, datetime(2025, 1, 1, tzinfo=UTC), {}, "t", 0, number)
        for number in range(150)
    ]

    shown = Preview("many", records, ())

    assert repr(shown).splitlines()[0] == "many: 150 records, the first 100 shown"
    assert len(shown._repr_html_()) < 60_000
    assert len(shown.frame) == 150
