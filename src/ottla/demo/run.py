"""The demo from start to end: starts its parts in order, watches them, and stops them.

Order of the start: the tweets, the broker, the topics, Spark, the stores, the queries, then the producer.
The queries first finish the tweets that earlier runs have left in the topics (query.py says why); only then
are new tweets produced.

With `--once` the demo ends when every tweet is acknowledged and neither group has a lag; then all topics and
stores are read back. If no figure changes for `stall_seconds`, it gives up and says what is missing. Without
`--once` it runs until Ctrl-C or SIGTERM: then it produces no more tweets, drains both groups, stops the
queries, and waits for Spark's JVM and the broker.

Every file of a run is under its directory: `broker/`, `spark/`, `documents.sqlite`, `search/`, `logs/`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.live import Live

from ottla.client.cluster import KafkaCluster, Topic
from ottla.client.errors import ClusterError
from ottla.demo.broker import OwnBroker
from ottla.demo.messages import COUNTS, SCORED, TWEETS
from ottla.demo.metering import DemoMetrics, addresses
from ottla.demo.monitor import Monitor
from ottla.demo.output import Output
from ottla.demo.page import Picture, Rate, page, plain_line
from ottla.demo.producer import TweetProducer, missing_tweets, tweets_in_topic
from ottla.demo.query import COUNTING_GROUP, SCORING_GROUP, Queries, checkpoint_name, start_queries
from ottla.demo.signals import StopSignals
from ottla.demo.stage import DemoError, DemoOptions, Stage, Stopped, run_directory
from ottla.demo.tweets import Tweet
from ottla.demo.verify import Verification, verify
from ottla.metrics.settings import EndpointOptions
from ottla.pipeline.spark.session import SparkPipelineSession, SparkSettings, start_session
from ottla.pipeline.stores import DocumentStore, SearchIndex
from ottla.pipeline.stores.elasticsearch import ElasticsearchIndex
from ottla.pipeline.stores.postgres import PostgresDocuments
from ottla.pipeline.stores.sqlite import SqliteDocuments
from ottla.pipeline.stores.tantivy_index import TantivyIndex

LIVE_RATE = 25.0
"""Tweets a second without `--once`: all of them take a little under three minutes."""
TOPICS = (
    Topic(TWEETS, partitions=3),
    Topic(SCORED, partitions=3),
    Topic(COUNTS, partitions=1, config={"cleanup.policy": "compact"}),
)
DRAIN_TIMEOUT_SECONDS = 20.0
PAGE_SECONDS = 0.25
LINE_SECONDS = 2.0

log = logging.getLogger("ottla.pipeline")


def run_demo(options: DemoOptions) -> int:
    """Run the demo and return its exit code: 0 for success. Raises UserError."""
    # With --once the standard output is for the one line of JSON alone.
    output = Output(sys.stderr if options.once else sys.stdout)
    with StopSignals() as signals, contextlib.ExitStack() as stack:
        try:
            directory = run_directory(options, stack)
            if options.connect:
                from ottla.demo.connect.second_act import SecondAct

                return SecondAct(Stage(options, output, signals, directory, stack)).run()
            return Demo(options, output, signals, directory, stack).run()
        except Stopped:
            output.line("stopped")
            return 0 if not options.once else 1


class Demo:
    """One run. Each part is handed to `stack` as soon as it is made, which stops them in reverse order."""

    def __init__(
        self,
        options: DemoOptions,
        output: Output,
        signals: StopSignals,
        directory: Path,
        stack: contextlib.ExitStack,
    ) -> None:
        self._stage = Stage(options, output, signals, directory, stack)
        self._options = options
        self._output = output
        self._signals = signals
        self._directory = directory
        self._stack = stack
        self._started = time.monotonic()
        self._metered = DemoMetrics()

    def run(self) -> int:
        self._say_what_comes()
        broker_metrics = self._serve_metrics()
        tweets = self._stage.tweets()
        cluster = self._stage.cluster(broker_metrics)
        topic_ids = cluster.ensure_topics(TOPICS)
        session = self._spark()
        self._metered.begin(session)
        documents, index = self._stores()
        with self._stage.step("queries", "starting two Structured Streaming queries") as done:
            parts = {
                "cluster": cluster.cluster_id(),
                "documents": documents.identity,
                "index": index.identity,
            }
            checkpoints = session.checkpoints / checkpoint_name(parts | topic_ids)
            trigger_seconds = None if self._options.once else 0.5
            queries = start_queries(session.spark, cluster, documents, index, checkpoints, trigger_seconds)
            self._metered.started(queries)
            done("score and land each tweet; count sentiments by window")
        monitor = Monitor(cluster)
        self._stack.callback(monitor.stop)
        monitor.start()
        pipeline = Pipeline(cluster, session, documents, index, queries, monitor, self._stage.broker)
        watch = Watch(self._options, self._output, self._signals, pipeline, tweets)
        self._stack.callback(watch.close)
        try:
            watch.run(self._started)
            watch.drain()
            queries.stop()
        except BaseException:
            session.close(kill=True)  # first: Spark must not go on writing while the other parts are closed
            raise
        return self._result(pipeline, tweets)

    def _result(self, pipeline: Pipeline, tweets: list[Tweet]) -> int:
        """The exit code; with --once, after all topics and stores are read back and reported as JSON."""
        if not self._options.once:
            self._output.line("stopped; every tweet produced so far is in every store")
            return 0
        if self._signals.requested:
            raise Stopped
        with self._stage.step("verify", "reading every topic and store back") as done:
            found = verify(
                pipeline.cluster, pipeline.documents, pipeline.index, [tweet.id for tweet in tweets]
            )
            done(
                "every tweet is in every store exactly once" if found.exactly_once else "not as it should be"
            )
        for problem in found.problems:
            print(f"ottla demo: {problem}", file=sys.stderr)
        print(self._json(pipeline, found), flush=True)
        return 0 if found.exactly_once else 1

    def _json(self, pipeline: Pipeline, found: Verification) -> str:
        report = {
            "tweets": found.tweets,
            "read": found.read,
            "scored": found.scored,
            "stored": found.stored,
            "indexed": found.indexed,
            "counted": found.counted,
            "exactly_once": found.exactly_once,
            "sentiment": found.sentiments,
            "agreement": {
                "sign_percent": _rounded(found.sign_percent, 2),
                "pearson_r": _rounded(found.pearson_r, 4),
            },
            "document_store": pipeline.documents.name,
            "search_index": pipeline.index.name,
            "seconds": round(time.monotonic() - self._started, 1),
        }
        return json.dumps(report)

    def _say_what_comes(self) -> None:
        kept = "" if self._options.data is not None else " (removed at the end; --data DIR keeps one)"
        self._output.line("ottla demo: real tweets through a broker and Spark")
        self._output.fact("data", f"{self._directory}{kept}")

    def _serve_metrics(self) -> str | None:
        """Serve those of the queries, from the first moment on; the place of the broker's."""
        if self._options.metrics is None:
            return None
        of_broker, of_queries = addresses(self._options.metrics)
        served = self._metered.metrics.serve(options=EndpointOptions(of_queries))
        place = self._stack.enter_context(served)
        self._output.fact("metrics", f"{place.url}/metrics; of the broker {of_broker.url}/metrics")
        return of_broker.setting

    def _spark(self) -> SparkPipelineSession:
        import pyspark

        settings = SparkSettings(
            "ottla demo",
            self._directory / "spark",
            self._options.master,
            quick_start=True,
            # Batches without data would only drop old windows from the state.
            properties={"spark.sql.streaming.noDataMicroBatches.enabled": "false"},
        )
        with self._output.downloads() as downloads:
            from ottla.pipeline.spark.spark_jars import kafka_connector_jars

            kafka_connector_jars(pyspark.__version__, downloads)
        doing = f"starting PySpark {pyspark.__version__} on {self._options.master}"
        with self._stage.step("spark", doing) as done:
            session = start_session(settings)
            self._stack.callback(session.close)
            java = session.runtime
            done(f"PySpark {pyspark.__version__} on {self._options.master}, {java}")
        return session

    def _stores(self) -> tuple[DocumentStore, SearchIndex]:
        options = self._options
        documents: DocumentStore
        index: SearchIndex
        if options.postgres is not None:
            documents = PostgresDocuments(options.postgres)
        else:
            documents = SqliteDocuments(self._directory / "documents.sqlite")
        self._stack.callback(documents.close)
        if options.elasticsearch is not None:
            index = ElasticsearchIndex(options.elasticsearch)
        else:
            index = TantivyIndex(self._directory / "search")
        self._stack.callback(index.close)
        self._output.fact("stores", f"documents in {documents.name}, search in {index.name}")
        return documents, index


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The running parts, for `Watch`."""

    cluster: KafkaCluster
    session: SparkPipelineSession
    documents: DocumentStore
    index: SearchIndex
    queries: Queries
    monitor: Monitor
    broker: OwnBroker | None

    def failure(self) -> str | None:
        """Why the pipeline can't go on; None if it can."""
        if self.broker is not None and (ended := self.broker.ended()) is not None:
            return f"{ended}. Run the same command again: it goes on where this one stopped."
        if not self.session.alive:
            return (
                f"Spark's JVM has ended (log: {self.session.directory / 'logs'}). Run the same command again."
            )
        return self.queries.failure()

    def drained(self) -> bool:
        """Whether the queries have finished all records of the topics.

        The order of the requests matters: scored tweets are in the second topic before the first lag is 0.
        False if the broker does not answer; the caller asks again, for a bounded time.
        """
        try:
            scoring_lag = self.cluster.lag(SCORING_GROUP, TWEETS)
            return scoring_lag == 0 and self.cluster.lag(COUNTING_GROUP, SCORED) == 0
        except ClusterError as error:
            log.warning("lag not known: %s", error)
            return False


class Watch:
    """Produces the tweets, shows the pipeline's figures, and notices the end."""

    def __init__(
        self,
        options: DemoOptions,
        output: Output,
        signals: StopSignals,
        pipeline: Pipeline,
        tweets: list[Tweet],
    ) -> None:
        self._options = options
        self._output = output
        self._signals = signals
        self._pipeline = pipeline
        self._tweets = tweets
        present = tweets_in_topic(pipeline.cluster)
        self._missing = missing_tweets(tweets, present)
        self._already = len(present.ids)
        self._producer: TweetProducer | None = None
        self._produced_rate, self._scored_rate = Rate(), Rate()
        self._verdict: str | None = None
        self._moved: tuple[object, ...] = ()
        self._moved_at = time.monotonic()

    def run(self, started: float) -> None:
        """Return when the user asks for a stop, or with --once when all tweets have arrived."""
        picture = self._picture(started)
        if not self._output.live:
            self._loop(started, lambda shown: self._output.line(plain_line(shown)), LINE_SECONDS)
            return
        with Live(page(picture), console=self._output.console, auto_refresh=False, screen=False) as live:
            self._loop(started, lambda shown: live.update(page(shown), refresh=True), PAGE_SECONDS)

    def _loop(self, started: float, show: Callable[[Picture], None], every_seconds: float) -> None:
        shown_at = 0.0
        while True:
            self._go_on()
            over = self._over()
            picture = self._picture(started)
            if over or time.monotonic() - shown_at >= every_seconds:
                show(picture)
                shown_at = time.monotonic()
            if over:
                return
            self._check_movement(picture)
            self._signals.wait(PAGE_SECONDS)

    def _go_on(self) -> None:
        """Start to produce once the tweets of earlier runs are finished; raise DemoError if a part failed."""
        failure = self._pipeline.failure()
        if failure is None and self._producer is not None:
            failure = self._producer.failure
        if failure is not None:
            raise DemoError(failure)
        if self._producer is None and (self._already == 0 or self._pipeline.drained()):
            rate = self._options.rate
            if rate is None and not self._options.once:
                rate = LIVE_RATE
            self._producer = TweetProducer(self._pipeline.cluster, self._missing, rate)
            self._producer.start()

    def _over(self) -> bool:
        if self._signals.requested:
            return True
        if self._verdict is not None or self._producer is None or not self._producer.done:
            return False
        if not self._pipeline.drained():
            return False
        if self._options.once:
            return True
        pipeline = self._pipeline
        found = verify(
            pipeline.cluster, pipeline.documents, pipeline.index, [tweet.id for tweet in self._tweets]
        )
        if not found.exactly_once:
            raise DemoError("; ".join(found.problems))
        self._verdict = f"All {found.tweets:,} tweets are in every topic and store, each exactly once."
        return False

    def _check_movement(self, picture: Picture) -> None:
        """With --once: give up if no figure has changed for too long."""
        seen = picture.seen
        moved = (
            picture.produced,
            seen.scored,
            picture.stored,
            picture.indexed,
            seen.scoring_lag,
            seen.counting_lag,
        )
        if moved != self._moved or not self._options.once:
            self._moved, self._moved_at = moved, time.monotonic()
        elif time.monotonic() - self._moved_at > self._options.stall_seconds:
            raise DemoError(
                f"nothing has moved for {self._options.stall_seconds:.0f} s. {plain_line(picture).strip()}"
            )

    def drain(self) -> None:
        """Produce no more and wait, for a bounded time, until the queries have read the topics to the end."""
        self.close()
        deadline = time.monotonic() + DRAIN_TIMEOUT_SECONDS
        while not self._pipeline.drained():
            failure = self._pipeline.failure()
            if failure is not None:
                raise DemoError(failure)
            if time.monotonic() > deadline:
                raise DemoError(
                    f"the queries did not finish within {DRAIN_TIMEOUT_SECONDS:.0f} s. "
                    "Nothing is lost: the same command goes on where this one stopped."
                )
            time.sleep(PAGE_SECONDS)

    def close(self) -> None:
        """Produce no more. Safe to call twice."""
        if self._producer is not None:
            self._producer.stop(DRAIN_TIMEOUT_SECONDS)

    def _picture(self, started: float) -> Picture:
        pipeline, seen = self._pipeline, self._pipeline.monitor.seen()
        produced = self._already + (self._producer.acknowledged if self._producer is not None else 0)
        phase = "finishing what earlier runs left"
        if self._verdict is not None:
            phase = "everything has arrived"
        elif self._producer is not None:
            phase = "waiting for the last tweets" if self._producer.done else "tweets are flowing"
        return Picture(
            time.monotonic() - started,
            pipeline.cluster.bootstrap,
            pipeline.documents.name,
            pipeline.index.name,
            phase,
            produced,
            self._already + len(self._missing),
            self._produced_rate.update(produced),
            self._scored_rate.update(seen.scored),
            pipeline.documents.count(),
            pipeline.index.count(),
            seen,
            self._verdict,
        )


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
