"""The demo's queries on a real Spark and broker: scores, counts, and batches that come again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

from ottla.client.cluster import KafkaCluster, Topic
from ottla.demo.messages import SCORED, ScoredTweet, tweet_to_json
from ottla.demo.query import LandBatch, counts_by_window, scored
from ottla.pipeline.stores import Document, Outputs, StoreError
from ottla.pipeline.stores.sqlite import SqliteDocuments
from ottla.pipeline.stores.tantivy_index import TantivyIndex
from support.servers.cluster import Cluster

TEXTS = {
    "1": "I love this, what a GREAT day!!! 🙂",
    "2": "worst. service. ever. I hate it",
    "3": "the train leaves at nine",
}


@pytest.mark.spark
def test_scores_are_vaders_own_and_other_records_are_left_out(spark: SparkSession) -> None:
    values = [tweet_to_json(key, text, 1.5, 1_000) for key, text in TEXTS.items()]
    values += [b"no json", b"{}", b'{"id":"4"}', b"\xff\xfe", b'{"id":"5","text":null,"human_score":1}']
    frame = spark.createDataFrame([(bytearray(value),) for value in values], "value BINARY")

    rows = {row["id"]: row for row in scored(frame).collect()}

    analyzer = SentimentIntensityAnalyzer()
    assert {key: row["compound"] for key, row in rows.items()} == {
        key: analyzer.polarity_scores(text)["compound"] for key, text in TEXTS.items()
    }
    assert [rows[key]["sentiment"] for key in "123"] == ["positive", "negative", "neutral"]
    assert (
        rows["1"].asDict()
        == ScoredTweet("1", TEXTS["1"], 1.5, 1_000, rows["1"]["compound"], "positive").fields()
    )


@pytest.mark.spark
def test_counts_are_by_window_of_event_time(spark: SparkSession, tmp_path: Path) -> None:
    posted = [
        (0, "positive"),
        (9_999, "positive"),
        (10_000, "positive"),
        (3, "negative"),
        (25_000, "neutral"),
    ]
    values = [
        ScoredTweet(str(n), "text", 0.0, at, 0.0, name).to_json().decode()
        for n, (at, name) in enumerate(posted)
    ]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "values.txt").write_text("\n".join([*values, "no json"]))

    query = (
        counts_by_window(spark.readStream.text(str(tmp_path / "in")))
        .writeStream.format("memory")
        .queryName("counts")
        .outputMode("update")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(90)

    counts = {row["key"]: json.loads(row["value"])["count"] for row in spark.table("counts").collect()}
    assert counts == {"0|positive": 2, "10000|positive": 1, "0|negative": 1, "20000|neutral": 1}


class Killed(Exception):
    """Stands for the death of the process."""


class DyingDocuments(SqliteDocuments):
    """Dies before or after its next transaction."""

    dies: str | None = None

    def write_batch(self, query: str, batch_id: int, documents: Sequence[Document], outputs: Outputs) -> None:
        if self.dies == "before the documents":
            raise Killed
        super().write_batch(query, batch_id, documents, outputs)
        if self.dies == "after the documents":
            raise Killed


class DyingIndex(TantivyIndex):
    """Dies after its next commit."""

    dies: str | None = None

    def write_batch(self, documents: Sequence[Document]) -> None:
        super().write_batch(documents)
        if self.dies == "after the index":
            raise Killed


class Landing:
    """The places of a pipeline, over several lives of its process."""

    def __init__(self, kafka: KafkaCluster, directory: Path) -> None:
        self.kafka = kafka
        self.directory = directory
        (directory / "metadata").write_text('{"id":"a-query"}')

    def live(self, batches: dict[int, list[ScoredTweet]], dies: str | None = None) -> None:
        """One life: land the batches in order, dying in the last of them at the place named."""
        documents = DyingDocuments(self.directory / "documents.sqlite")
        index = DyingIndex(self.directory / "search")
        landing = LandBatch(self.kafka, documents, index, self.directory)
        try:
            for batch_id, tweets in batches.items():
                last = batch_id == max(batches)
                documents.dies = index.dies = dies if last else None
                landing.land(batch_id, tweets)
        except Killed:
            pass
        finally:
            documents.close()
            index.close()

    def found(self) -> dict[str, Counter[str]]:
        """How often each tweet is in each place."""
        documents = SqliteDocuments(self.directory / "documents.sqlite")
        index = TantivyIndex(self.directory / "search")
        try:
            topic = Counter(message.key().decode() for message in self.kafka.read(SCORED))
            return {"topic": topic, "documents": Counter(documents.ids()), "index": Counter(index.ids())}
        finally:
            documents.close()
            index.close()


@pytest.fixture
def landing(
    cluster: Cluster, unique_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Landing]:
    kafka = KafkaCluster(cluster.bootstrap)
    monkeypatch.setattr("ottla.demo.query.SCORED", unique_name)
    monkeypatch.setitem(globals(), "SCORED", unique_name)
    kafka.ensure_topics([Topic(unique_name, partitions=3)])
    yield Landing(kafka, tmp_path)


def tweets(*ids: int) -> list[ScoredTweet]:
    return [ScoredTweet(str(number), f"tweet {number}", 0.5, 1_000, 0.25, "positive") for number in ids]


@pytest.mark.parametrize("dies", ["before the documents", "after the documents", "after the index", None])
@pytest.mark.parametrize("batch_id", [0, 1])
def test_a_batch_that_comes_again_is_everywhere_once(
    landing: Landing, dies: str | None, batch_id: int
) -> None:
    # given: batch 0, or 0 and then 1, and the process dies in the last one
    batches = {0: tweets(1, 2, 3), 1: tweets(4, 5, 6, 7)}
    landing.live({number: batches[number] for number in range(batch_id + 1)}, dies=dies)

    # when: Spark gives the last batch to the next process again, and goes on
    landing.live({number: batches[number] for number in range(batch_id, 2)} | {2: tweets(8)})

    # then
    once = Counter(str(number) for number in range(1, 9))
    assert landing.found() == {"topic": once, "documents": once, "index": once}


def test_a_new_document_store_is_filled_and_the_topic_is_left_as_it_is(landing: Landing) -> None:
    landing.live({0: tweets(1, 2), 1: tweets(3)})
    (landing.directory / "documents.sqlite").unlink()

    landing.live({0: tweets(1, 2, 3), 1: tweets(4)})

    once = Counter("1234")
    assert landing.found() == {"topic": once, "documents": once, "index": once}


def test_a_store_that_is_away_fails_the_batch_with_its_reason(landing: Landing) -> None:
    documents = SqliteDocuments(landing.directory / "documents.sqlite")
    index = TantivyIndex(landing.directory / "search")
    index.close()
    with pytest.raises(StoreError, match="closed"):
        LandBatch(landing.kafka, documents, index, landing.directory).land(0, tweets(1))
    documents.close()
