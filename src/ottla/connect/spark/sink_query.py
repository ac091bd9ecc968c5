"""A sink connector as one streaming query: from topics to a target, exactly once where it keeps a ledger.

Where reading starts. The target's ledger is the truth, if it is of this generation or a later one.
Otherwise (there is none yet, or offsets were altered since) the group's committed offsets hold, and the
ledger of the new generation is claimed in the target before the first record: whoever still wrote for an
older one is refused.

Each run has a checkpoint of its own, which is thrown away: Spark's offsets in it only say how far a batch
goes. After a batch the group gets the offsets, as a published copy for tools and for targets without a
ledger.

A batch that is repeated within a run (Spark starts a query again whose Python processes died) has the same
offsets as before, so the ledger tells whether it is there.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.client.access import ClusterAccess
from ottla.client.cluster import KafkaCluster
from ottla.config.errors import ConfigError
from ottla.config.settings import Settings
from ottla.config.sources import from_mapping
from ottla.connect.host.clients import access, admin_access, consumer_group
from ottla.connect.host.messages import Start
from ottla.connect.host.settings import connector_settings, error_settings, topics_of
from ottla.connect.plugins.catalog import installed_plugins
from ottla.connect.spark import settings as names
from ottla.connect.spark.engine import Engine
from ottla.connect.spark.ledger import Ledger, Offsets, Owner, begun
from ottla.connect.spark.records import Conversion
from ottla.connect.spark.rows import RowSettings
from ottla.connect.spark.sink import Batch, Context, Sink, Target
from ottla.connect.spark.transforms import Transforms
from ottla.connect.spark.values import values_of
from ottla.connect.transforms.chain import TransformChain
from ottla.pipeline.query.checkpoints import Checkpoint
from ottla.pipeline.query.failures import failure_of
from ottla.pipeline.query.query import PipelineQuery
from ottla.pipeline.query.query_spec import LostCheckpoint, ProcessingTime, QuerySpec
from ottla.pipeline.query.source import FromOffsets, KafkaSource, check_source, read_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GENERATION: Final = "ottla.generation"
RESET: Final = "auto.offset.reset"
MAX_POLL_MS: Final = 500
MIN_POLL_MS: Final = 50
_ISOLATION: Final = "isolation.level"
_NOT_SPARKS: Final = (
    RESET,
    _ISOLATION,
    "group.id",
    "group.instance.id",
    "group.protocol",
    "client.id",
    "enable.auto.commit",
    "max.poll.records",
    "partition.assignment.strategy",
)

_log = logging.getLogger(__name__)


class SinkFailed(Exception):
    """A batch could not be written; the message is one line."""


class SinkQuery:
    """One run of a sink connector. `begin` once, then `stop` of the query that it returns."""

    def __init__(self, start: Start, sink: Sink) -> None:
        """Raises ConfigError."""
        self.start = start
        self.failed_records = 0
        self.sent_records = 0
        self._sink = sink
        settings = Settings(sink.TABLE, from_mapping(start.config))
        self._settings = settings
        common = connector_settings(start)
        self._topics = topics_of(common)
        errors = error_settings(common)
        key = values_of("key", start.config, start.worker, settings[names.KEY_SCHEMA])
        value = values_of("value", start.config, start.worker, settings[names.VALUE_SCHEMA])
        chain = TransformChain.of(start.config, installed_plugins())
        rows = RowSettings(dict(start.config), dict(start.worker), errors)
        self._conversion = Conversion(
            start.run.connector,
            value,
            key if sink.uses_keys() or chain else None,
            errors,
            admin_access(start),
            Transforms(chain, rows, key, value) if chain else None,
        )
        given = access(start.worker, start.config, "consumer")
        properties = {name: value for name, value in given.properties.items() if name not in _NOT_SPARKS}
        self._access = ClusterAccess(given.bootstrap, properties)
        self._reset = given.properties.get(RESET, "earliest").strip().lower()
        # Connect's consumers read uncommitted records by default; an exactly-once sink should not
        self._committed = given.properties.get(_ISOLATION, "read_committed").strip() == "read_committed"
        self._group = consumer_group(start.run.connector, start.worker, start.config)
        generation = start.worker.get(GENERATION, "0").strip()
        if not generation.isdecimal():
            raise ConfigError(f"{GENERATION}={generation}: it is no number")
        self._generation = int(generation)
        self._target: Target
        self._ledger: Ledger
        self._checkpoint: Path
        self._firsts: Offsets = {}

    def begin(self, engine: Engine) -> PipelineQuery:
        """Open the target and start the query. Raises UserError."""
        cluster = KafkaCluster(self._access.bootstrap, self._access.properties)
        source = self._source({})
        topics = check_source(source, cluster)
        run = f"g{self._generation}-f{self.start.fence}-{uuid.uuid4().hex[:12]}"
        owner = Owner(cluster.cluster_id(), self.start.run.connector)
        self._target = self._sink.open(engine.session.spark, Context(owner, self._generation, run))
        begins = self._decide(cluster, topics)
        self._firsts = {topic: cluster.start_positions(topic) for topic in topics}
        self._make_dead_letter_topic()
        self._checkpoint = engine.checkpoint(owner.slug, run)
        source = self._source({topic: begins[topic] for topic in topics if topic in begins})
        interval_ms = self._sink.pace().interval_ms
        spec = QuerySpec(
            name=f"{self.start.run.connector}-{run}",
            checkpoint=self._checkpoint,
            sources=[source],
            trigger=ProcessingTime(max(MIN_POLL_MS, min(MAX_POLL_MS, interval_ms))),
            group=self._group,
            on_lost_checkpoint=LostCheckpoint.FROM_BEGINNING,
        )
        admission = engine.queries.admit(spec)
        # queries take their session's settings as they are now; each has its turn of the tasks
        engine.session.spark.sparkContext.setLocalProperty("spark.scheduler.pool", owner.slug)
        frame = read_stream(engine.session.spark, admission.sources[0], cluster)
        return engine.queries.start(admission, frame.writeStream.foreachBatch(self._write))

    def _source(self, begins: Mapping[str, Mapping[int, int]]) -> KafkaSource:
        options, pace = {}, self._sink.pace()
        if pace.interval_ms > 0:
            options["minOffsetsPerTrigger"] = str(min(pace.min_records, self._settings[names.MAX_RECORDS]))
            options["maxTriggerDelay"] = f"{pace.interval_ms}ms"
        pattern = self._topics.pattern if isinstance(self._topics, re.Pattern) else None
        return KafkaSource(
            self._access.bootstrap,
            topics=self._topics if isinstance(self._topics, tuple) else (),
            pattern=pattern,
            start=FromOffsets(begins),
            max_offsets_per_trigger=self._settings[names.MAX_RECORDS],
            min_partitions=self._sink.tasks(self._tasks_max()),
            read_committed=self._committed,
            fail_on_data_loss=self._settings[names.FAIL_ON_DATA_LOSS],
            client_options=self._access.properties,
            spark_options=options,
        )

    def _tasks_max(self) -> int:
        text = self.start.config.get("tasks.max", "1").strip()
        return int(text) if text.isdecimal() else 1

    def _decide(self, cluster: KafkaCluster, topics: list[str]) -> Offsets:
        """Where reading starts, of every partition that is known; claims a new generation in the target."""
        found = self._target.ledger()
        if found is not None and found.generation >= self._generation:
            begins = {topic: dict(partitions) for topic, partitions in found.ends.items()}
            self._ledger = found
            _log.info("goes on from the ledger generation=%d %s", found.generation, _brief(begins))
        else:
            begins = {
                topic: committed for topic in topics if (committed := cluster.committed(self._group, topic))
            }
            _log.info("goes on from the group %s %s", self._group, _brief(begins) or "which has no offsets")
        if self._reset == "latest":
            begins = {topic: cluster.end_positions(topic) | begins.get(topic, {}) for topic in topics}
        if found is None or found.generation < self._generation:
            self._ledger = begun(self._generation, begins, found)
            if found is not None:
                self._target.claim(self._ledger)
        return begins

    def _make_dead_letter_topic(self) -> None:
        from ottla.client.cluster import Topic

        errors, where = self._conversion.errors, self._conversion.dead_letters
        if errors.dead_letter_topic:
            cluster = KafkaCluster(where.bootstrap, dict(where.properties))
            if cluster.missing_topics([errors.dead_letter_topic]):
                cluster.ensure_topics([Topic(errors.dead_letter_topic, 1, errors.dead_letter_replicas)])

    def _write(self, frame: DataFrame, batch_id: int) -> None:
        """Write a batch. Spark calls it for one batch after another."""
        try:
            checkpoint = Checkpoint(self._checkpoint)
            ends = checkpoint.batch_positions(batch_id)
            if not ends:
                raise SinkFailed(f"the offsets of batch {batch_id} can't be read in {self._checkpoint}")
            begins = {
                topic: {p: self._begin(topic, p) for p in partitions} for topic, partitions in ends.items()
            }
            ledger = self._ledger.after(ends)
            wish = self._target.wish(frame.sparkSession)
            with self._conversion.records(frame, wish, tuple(ends)) as (records, failed):
                self._target.write(Batch(records, begins, ledger))
        except Exception as error:
            raise SinkFailed(str(failure_of(error))) from error
        self._ledger = ledger
        self.failed_records += failed

    def _begin(self, topic: str, partition: int) -> int:
        """The offset at which a batch begins."""
        first = self._firsts.get(topic, {}).get(partition, 0)
        return max(first, self._ledger.ends.get(topic, {}).get(partition, 0))


def _brief(offsets: Offsets) -> str:
    return ", ".join(f"{topic} at {sum(by.values())}" for topic, by in sorted(offsets.items()))
