"""Move a query's event time on while its input pauses, so that windows close.

Event time stands still without records: the last windows before a pause would stay open until the next
record. A `Heartbeat` watches one query. When it has had no input for `idle_ms`, is not behind and not at
work, event time goes on with the clock: from the largest event time seen, by the time that has passed since
the last input.

    records ->|                                      |-> operator
              |-> union -> watermark -> (heartbeats) |
    topic  -->|                         (taken out)

**Through a topic.** Each query has a topic of heartbeats on its own cluster, one partition, and reads it as a
source beside the others (`heartbeats`); watermarks.py puts them into event time and takes them out. So they
are in Spark's offsets like records: a repeated batch sees the same ones, a restart goes on behind them, any
executor can read them, and the broker deletes them after an hour. A batch that is repeated after that does
without: heartbeats act on the batches behind their own, whose watermark is in the checkpoint by then. A query
without a checkpoint begins at the topic's end: heartbeats of an earlier life don't make old records late.

**How far.** A heartbeat's time is never more than `horizon_ms` past the youngest record: by then every window
that this record could hold open is closed, and no heartbeat is needed. A pause of days costs 100 batches.
Where one of several sources pauses, event time goes on to that of the others, without the clock.

**The price.** Records that were held up for longer than the pause and the grace are late when they come.
That is why heartbeats are asked for, and `idle_ms` should be more than the longest hold-up that is normal.

`HeartbeatClock` decides, without threads or Spark; `Heartbeat` is the thread that asks and sends.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from confluent_kafka import Producer

from ottla.client.cluster import KafkaCluster, Topic
from ottla.pipeline.query.source import LATEST, KafkaSource, read_stream
from ottla.streams.host.watermarks import watermark_of
from ottla.streams.plan.node import EventTime

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEND_TIMEOUT_SECONDS = 30.0
_CHECKS_PER_PAUSE = 4
_SHORTEST_CHECK_SECONDS = 0.05
_LONGEST_CHECK_SECONDS = 1.0
_MOST_STEPS = 100

log = logging.getLogger("ottla.streams")


def heartbeat_topic(application: str, query_name: str) -> Topic:
    """The topic of a query's heartbeats, and how it is created: small, and emptied by the hour."""
    return Topic(
        f"{application}-{query_name}-heartbeats",
        partitions=1,
        config={
            "cleanup.policy": "delete",
            "retention.ms": str(3_600_000),
            "segment.ms": str(600_000),
            "segment.bytes": str(1 << 20),
        },
    )


def heartbeats(
    spark: SparkSession, bootstrap: str, topic: str, client_options: Mapping[str, str] | None = None
) -> DataFrame:
    """A query's heartbeats as a stream of one column `timestamp`; the topic exists. Raises SourceError.

    The event time is in the value, as decimal milliseconds: a record's timestamp would let the broker delete
    heartbeats of old event times at once and refuse those of the future. A value that is no number is passed
    over.
    """
    from pyspark.sql import functions as F

    # Heartbeats that the broker has deleted while the query was down are no loss.
    source = KafkaSource(
        bootstrap, (topic,), start=LATEST, fail_on_data_loss=False, client_options=client_options or {}
    )
    event_time_ms = F.col("value").cast("STRING").try_cast("BIGINT")
    frame = read_stream(spark, source).select(F.timestamp_millis(event_time_ms).alias("timestamp"))
    return frame.where(F.col("timestamp").isNotNull())


class HeartbeatClock:
    """When a query needs a heartbeat, and for which time. Times are in milliseconds, `now_ms` of any one
    clock.

    idle_ms: the pause after which event time goes on. waits: how the query waits for event time.
    is_heartbeat: tells the heartbeats' source by its description in the query's progress.
    """

    def __init__(self, idle_ms: int, waits: EventTime, is_heartbeat: Callable[[str], bool]) -> None:
        if idle_ms <= 0:
            raise ValueError(f"idle_ms must be positive, not {idle_ms}")
        self._idle_ms = idle_ms
        self._waits = waits
        self._is_heartbeat = is_heartbeat
        self._last_input_ms: dict[str, int] = {}
        self._event_time_ms: int | None = None
        self._said_ms = -1

    @property
    def check_seconds(self) -> float:
        """How often to look whether a heartbeat is due."""
        check_seconds = self._idle_ms / 1000 / _CHECKS_PER_PAUSE
        return min(max(check_seconds, _SHORTEST_CHECK_SECONDS), _LONGEST_CHECK_SECONDS)

    @property
    def step_ms(self) -> int:
        """From one heartbeat to the next: a pause costs some 100 batches, however long windows are."""
        return max(self._idle_ms, (self._waits.horizon_ms or 0) // _MOST_STEPS)

    def saw(self, progress: Mapping[str, Any], now_ms: int) -> None:
        """Take in a progress of the query, as a mapping of its JSON; each is given once."""
        had_input = False
        for number, source in enumerate(progress.get("sources", ())):
            description = str(source.get("description"))
            if self._is_heartbeat(description):
                continue
            behind = (source.get("metrics") or {}).get("maxOffsetsBehindLatest")
            reads = bool(source.get("numInputRows")) or bool(behind and int(behind))
            had_input = had_input or reads
            name = f"{number} {description}"
            if reads or name not in self._last_input_ms:
                self._last_input_ms[name] = now_ms
        watermark = watermark_of(progress)
        if had_input and watermark.event_time_ms is not None:
            self._event_time_ms = max(self._event_time_ms or 0, watermark.event_time_ms)
        elif self._event_time_ms is None and watermark.watermark_ms is not None:
            # After a restart: what an earlier run has seen, records or heartbeats.
            self._event_time_ms = watermark.watermark_ms + self._waits.delay_ms

    def due(self, now_ms: int) -> int | None:
        """The event time that a heartbeat should say now, or None. Asked while the query is at rest."""
        if self._event_time_ms is None or not self._last_input_ms:
            return None
        pauses = [now_ms - last for last in self._last_input_ms.values()]
        if max(pauses) < self._idle_ms:
            return None
        event_time_ms = self._event_time_ms
        if min(pauses) >= self._idle_ms:
            passed = min(pauses)
            horizon_ms = self._waits.horizon_ms
            event_time_ms += passed if horizon_ms is None else min(passed, horizon_ms)
        return event_time_ms if event_time_ms > self._said_ms else None

    def said(self, event_time_ms: int) -> None:
        """A heartbeat was sent."""
        self._said_ms = event_time_ms


@dataclass(frozen=True, slots=True)
class HeartbeatSender:
    """Sends heartbeats to the topic that a query reads them from."""

    cluster: KafkaCluster
    topic: str

    def producer(self) -> Producer:
        """A producer for `send`."""
        return Producer(self.cluster.producer_options())

    def send(self, producer: Producer, event_time_ms: int) -> bool:
        """Send one; False for a cluster that is away, which the log tells."""
        errors: list[object] = []
        producer.produce(
            self.topic,
            str(event_time_ms).encode(),
            on_delivery=lambda error, _: errors.append(error) if error else None,
        )
        if producer.flush(SEND_TIMEOUT_SECONDS):
            producer.purge()
            producer.flush(1)
            errors.append("the cluster does not answer")
        if errors:
            log.warning("heartbeat not sent topic=%s: %s", self.topic, errors[0])
        return not errors


class WatchedQuery(Protocol):
    """The part of PySpark's StreamingQuery that a heartbeat asks for."""

    @property
    def isActive(self) -> bool: ...

    @property
    def lastProgress(self) -> Mapping[str, Any] | None: ...

    @property
    def status(self) -> Mapping[str, Any]: ...


class Heartbeat:
    """The thread that watches one query and sends its heartbeats; `stop` it before or after the query.

    It ends with its query. A cluster that is away is waited for; anything else that goes wrong ends the
    thread and is given to `failed`, for the owner to end the application.
    """

    def __init__(
        self,
        query: WatchedQuery,
        sender: HeartbeatSender,
        clock: HeartbeatClock,
        failed: Callable[[BaseException], None],
    ) -> None:
        self._query = query
        self._sender = sender
        self._clock = clock
        self._failed = failed
        self._stopping = threading.Event()
        name = f"heartbeat {sender.topic}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @classmethod
    def of(
        cls,
        query: WatchedQuery,
        cluster: KafkaCluster,
        topic: str,
        *,
        idle_ms: int,
        waits: EventTime,
        failed: Callable[[BaseException], None],
    ) -> Heartbeat:
        """The heartbeat of a query that reads heartbeats from `topic`."""
        clock = HeartbeatClock(idle_ms, waits, lambda description: topic in description)
        return cls(query, HeartbeatSender(cluster, topic), clock, failed)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self, timeout_seconds: float = SEND_TIMEOUT_SECONDS) -> None:
        """Say no more, and wait for the thread to end. Safe to call twice, and before `start`."""
        self._stopping.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        try:
            self._watch(self._sender.producer())
        except BaseException as error:
            if self._query_ended():  # asking a query that is being stopped may fail anyhow
                return
            log.exception("heartbeats of %s ended", self._sender.topic)
            self._failed(error)

    def _query_ended(self) -> bool:
        try:
            return self._stopping.is_set() or not self._query.isActive
        except Exception:  # the JVM is gone, which is told by others
            return True

    def _watch(self, producer: Producer) -> None:
        seen: tuple[object, ...] | None = None
        next_ms = -1
        while not self._stopping.wait(self._clock.check_seconds) and self._query.isActive:
            # Spark's own class is a dictionary of its JSON.
            progress: Mapping[str, Any] | None = self._query.lastProgress
            now_ms = time.monotonic_ns() // 1_000_000
            if progress is not None:
                this = (progress.get("runId"), progress.get("batchId"), progress.get("timestamp"))
                if this != seen:
                    seen = this
                    self._clock.saw(progress, now_ms)
            status = self._query.status
            if status["isTriggerActive"] or status["isDataAvailable"]:
                continue
            event_time_ms = self._clock.due(now_ms)
            if event_time_ms is None or now_ms < next_ms:
                continue
            if self._sender.send(producer, event_time_ms):
                self._clock.said(event_time_ms)
                next_ms = now_ms + self._clock.step_ms
