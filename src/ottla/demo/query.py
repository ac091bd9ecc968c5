"""The demo's two Spark queries: score each tweet and land it; count sentiments by window of event time.

    tweets --(scoring)--> tweets.scored, document store, search index
    tweets.scored --(counting)--> tweets.sentiment.counts

Scoring runs VADER in a pandas UDF: Arrow batches go to Python workers and come back with a score each. A
batch then lands by `LandBatch`, in this order: topic, document store, search index. Spark writes the batch
into its checkpoint after that, so after any kill the batch is repeated with the same tweets and ends up in
every place once: the topic by `TopicOutput`, the document store by one transaction with the documents and the
batch's row, the index by replacing documents of the same id. All of this happens in this process: when it
dies, no part of the batch goes on in Spark.

Counting is Spark's own: a watermark, a tumbling window, state in RocksDB, update mode. Its sink writes at
least once, which is enough because the last record of a key (window and sentiment) is the count, and a
repeated batch writes the same counts. For exact counts over restarts, no tweet may come later than the
watermark allows: a run produces new tweets only when those of earlier runs are counted (run), and within a
run WATERMARK is far longer than any batch.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.client.cluster import KafkaCluster
from ottla.demo.messages import (
    COUNTS,
    SCORED,
    SCORED_COLUMNS,
    SIDE_THRESHOLD,
    TWEET_COLUMNS,
    TWEETS,
    ScoredTweet,
)
from ottla.pipeline.query.progress import ProgressPublisher
from ottla.pipeline.query.topics import stream_from, stream_to
from ottla.pipeline.sink.topic_output import KeyedRecord, TopicOutput
from ottla.pipeline.stores import Document, DocumentStore, SearchIndex

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SCORING_GROUP = "ottla-demo-scoring"
COUNTING_GROUP = "ottla-demo-counting"
WINDOW_SECONDS = 10
WATERMARK = "1 hour"
MAX_TWEETS_PER_BATCH = 5000


def scored(tweets: DataFrame) -> DataFrame:
    """Spark's Kafka columns of `tweets` -> a scored tweet's columns, without records that are not tweets."""
    from pyspark.sql import functions as F

    from ottla.demo.scoring import vader

    parsed = tweets.select(F.from_json(F.col("value").cast("string"), TWEET_COLUMNS).alias("tweet")).select(
        "tweet.*"
    )
    compound = vader()(F.col("text"))
    return parsed.dropna().withColumn("compound", compound).withColumn("sentiment", _side(F.col("compound")))


def counts_by_window(scored_records: DataFrame) -> DataFrame:
    """Spark's Kafka columns of `tweets.scored` -> key and value of `tweets.sentiment.counts`."""
    from pyspark.sql import functions as F

    counts = (
        scored_records.select(F.from_json(F.col("value").cast("string"), SCORED_COLUMNS).alias("tweet"))
        .select("tweet.sentiment", F.timestamp_millis(F.col("tweet.posted_at_ms")).alias("posted_at"))
        .where(F.col("sentiment").isNotNull() & F.col("posted_at").isNotNull())
        .withWatermark("posted_at", WATERMARK)
        .groupBy(F.window("posted_at", f"{WINDOW_SECONDS} seconds"), "sentiment")
        .count()
        .withColumn("window_start_ms", F.unix_millis(F.col("window.start")))
    )
    key = F.concat_ws("|", F.col("window_start_ms").cast("string"), F.col("sentiment"))
    value = F.to_json(F.struct("window_start_ms", "sentiment", "count"))
    return counts.select(key.alias("key"), value.alias("value"))


def _side(compound: Column) -> Column:
    from pyspark.sql import functions as F

    return (
        F.when(compound >= SIDE_THRESHOLD, "positive")
        .when(compound <= -SIDE_THRESHOLD, "negative")
        .otherwise("neutral")
    )


@dataclass(frozen=True, slots=True)
class Landed:
    """The numbers of tweets that this process has landed so far."""

    tweets: int
    batches: int


class LandBatch:
    """The function for `foreachBatch`: puts one batch of scored tweets into the topic and both stores."""

    def __init__(
        self,
        cluster: KafkaCluster,
        documents: DocumentStore,
        index: SearchIndex,
        checkpoint: Path,
    ) -> None:
        self._output = TopicOutput(cluster, SCORED)
        self._documents = documents
        self._index = index
        self._checkpoint = checkpoint
        self._lock = threading.Lock()
        self._landed: Counter[str] = Counter()

    @property
    def landed(self) -> Landed:
        with self._lock:
            return Landed(self._landed["tweets"], self._landed["batches"])

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        # A batch is bounded by MAX_TWEETS_PER_BATCH, so the driver can hold it.
        tweets = [ScoredTweet(**row) for row in frame.toArrow().to_pylist()]
        self.land(batch_id, tweets)

    def land(self, batch_id: int, tweets: list[ScoredTweet]) -> None:
        """Land one batch. Calling it again with the same batch changes nothing."""
        query = _query_id(self._checkpoint)
        before = self._documents.outputs_before(query, batch_id).get(SCORED, {})
        records = [KeyedRecord(tweet.id.encode(), tweet.to_json(), tweet.posted_at_ms) for tweet in tweets]
        positions = self._output.write(records, before)
        documents = [Document(tweet.id, tweet.fields()) for tweet in tweets]
        self._documents.write_batch(query, batch_id, documents, {SCORED: positions})
        self._index.write_batch(documents)
        with self._lock:
            self._landed.update(tweets=len(tweets), batches=1)


def _query_id(checkpoint: Path) -> str:
    """The id that Spark gave the query when it made the checkpoint."""
    return str(json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"])


def checkpoint_name(parts: Mapping[str, str]) -> str:
    """A directory name for the checkpoints of exactly these sources and sinks.

    A checkpoint says how far the source was read, and implies that this is in the sinks. With another
    cluster, another topic of the same name or another store that is no longer true. A new checkpoint then
    starts from the beginning, and tweets that are in its sinks already are not written twice.
    """
    text = json.dumps(dict(sorted(parts.items())))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Queries:
    """The two running queries."""

    scoring: StreamingQuery
    counting: StreamingQuery
    landing: LandBatch

    def failure(self) -> str | None:
        """Why one of the queries has ended; None while both run."""
        for query in (self.scoring, self.counting):
            if not query.isActive:
                error = query.exception()
                return f"query {query.name} ended: {_reason(str(error)) if error else 'it was stopped'}"
        return None

    def stop(self) -> None:
        """Stop both queries."""
        for query in (self.scoring, self.counting):
            query.stop()


def start_queries(
    spark: SparkSession,
    cluster: KafkaCluster,
    documents: DocumentStore,
    index: SearchIndex,
    checkpoints: Path,
    trigger_seconds: float | None,
) -> Queries:
    """Start both queries under `checkpoints`; SCORING_GROUP and COUNTING_GROUP show their progress.

    trigger_seconds: the time between the starts of batches, None for a batch as soon as there are records.
    """
    publisher = ProgressPublisher(cluster)
    scoring_checkpoint, counting_checkpoint = checkpoints / "scoring", checkpoints / "counting"
    publisher.follow("scoring", SCORING_GROUP, [TWEETS], scoring_checkpoint)
    publisher.follow("counting", COUNTING_GROUP, [SCORED], counting_checkpoint)
    spark.streams.addListener(publisher.listener())
    landing = LandBatch(cluster, documents, index, scoring_checkpoint)
    tweets = stream_from(spark, cluster.bootstrap, TWEETS, max_offsets_per_trigger=MAX_TWEETS_PER_BATCH)
    trigger = f"{int((trigger_seconds or 0) * 1000)} milliseconds"
    scoring = (
        scored(tweets)
        .writeStream.queryName("scoring")
        .option("checkpointLocation", scoring_checkpoint.as_uri())
        .trigger(processingTime=trigger)
        .foreachBatch(landing)
        .start()
    )
    scored_records = stream_from(spark, cluster.bootstrap, SCORED)
    counting = (
        stream_to(counts_by_window(scored_records), cluster.bootstrap, COUNTS)
        .queryName("counting")
        .outputMode("update")
        .option("checkpointLocation", counting_checkpoint.as_uri())
        .trigger(processingTime=trigger)
        .start()
    )
    return Queries(scoring, counting, landing)


def _reason(text: str) -> str:
    """The most useful line of a Spark error: the last line of a Python error, else the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("ottla.") or "Error: " in line]
    return (ours[-1:] or lines[:1] or ["no reason given"])[0]
