"""A source connector as one streaming query: from any of Spark's formats to a topic, exactly once.

Where it goes on is in Spark's checkpoint, which the connector's setting names: for these sources nothing else
can say it, since only Spark reads their offsets. Each generation of the connector's offsets has a checkpoint
of its own, so that a reset begins anew, and one that was altered at that offset (source_checkpoint.py). The
connector's offsets in Connect's topic are a copy for those who ask (query_offsets.py).

    1. Spark writes what batch N reads into the checkpoint
    2. the batch's records and the number N are written in one transaction (pipeline/sink/exactly_once)
    3. Spark writes into the checkpoint that N is done

After a kill the batch is read again as 1 says, and left out if 2 was done. All records of a batch are one
unit of the sink, whatever tasks have read them: which of them reads what may differ in the repetition.
"""

from __future__ import annotations

import functools
import json
import logging
from typing import TYPE_CHECKING, Final, Protocol

from ottla.client.cluster import KafkaCluster, Topic
from ottla.config.errors import ConfigError
from ottla.connect.host.clients import access, admin_access
from ottla.connect.host.conversion import ChosenConverter, choose_converter
from ottla.connect.host.errors import TOLERANCE_EXCEEDED
from ottla.connect.host.messages import Start
from ottla.connect.host.settings import Tolerance, connector_settings, error_settings
from ottla.connect.host.topic_creation import TopicCreation, creation_groups
from ottla.connect.plugins.catalog import installed_plugins
from ottla.connect.spark.engine import Engine
from ottla.connect.spark.files.manifest import Place
from ottla.connect.spark.files.places import place_of
from ottla.connect.spark.ledger import Owner
from ottla.connect.spark.query_offsets import TellingOffsets, json_of_offset, offset_in_log, offset_of_json
from ottla.connect.spark.rows import FAILED, RowSettings
from ottla.connect.spark.source_checkpoint import OFFSETS, begin_at, newest_batch
from ottla.connect.spark.source_rows import OUTGOING, produce_batches
from ottla.connect.transforms.chain import TransformChain
from ottla.pipeline.formats.connect_json import ConnectJsonFormat
from ottla.pipeline.query.failures import failure_of
from ottla.pipeline.query.query import PipelineQuery
from ottla.pipeline.query.query_spec import LostCheckpoint, ProcessingTime, QuerySpec
from ottla.pipeline.sink.exactly_once import (
    Identity,
    check_sink,
    remove_sink,
    write_batch_exactly_once,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

GENERATION: Final = "ottla.generation"
MAX_METADATA_BYTES: Final = 1 << 20
MAX_OFFSETS_BYTES: Final = 16 << 20
MAX_LOGGED: Final = 20
MAX_TOPICS: Final = 10_000
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
_BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"

_log = logging.getLogger(__name__)


class SourceFailed(Exception):
    """A batch could not be written; the message is one line."""


class Reading(Protocol):
    """What is read: the connector's class."""

    topic: str
    checkpoint: str
    interval_ms: int

    def read(self, spark: SparkSession) -> DataFrame:
        """The rows as a stream. Raises ConfigError."""

    def key(self) -> Column | None:
        """The records' key, None for none."""

    def value(self, frame: DataFrame) -> Column:
        """The records' value."""


class SourceQuery:
    """One run of a source connector. `begin` once, then `stop` of the query that it returns."""

    def __init__(self, start: Start, reading: Reading) -> None:
        """Raises ConfigError."""
        self.start = start
        self.failed_records = 0
        self._reading = reading
        catalog = installed_plugins()
        settings = connector_settings(start)
        self._errors = error_settings(settings)
        self._groups = creation_groups(start.config, settings)
        self._key = choose_converter(catalog, "key.converter", start.config, start.worker)
        self._value = choose_converter(catalog, "value.converter", start.config, start.worker)
        self._has_transforms = bool(TransformChain.of(start.config, catalog))
        text = start.worker.get(GENERATION, "0").strip()
        if not text.isdecimal():
            raise ConfigError(f"{GENERATION}={text}: it is no number")
        self._generation = int(text)
        self._access = access(start.worker, start.config, "producer")
        self._telling = TellingOffsets(start)
        self._topics: set[str] = set()
        """Those that are known to be there."""
        self._query_name = ""
        self._query_id = ""
        self._directory = ""

    def begin(self, engine: Engine) -> PipelineQuery:
        """Look at what is there, and start the query. Raises UserError."""
        spark = engine.session.spark
        frame = self._reading.read(spark)
        where = admin_access(self.start)
        cluster = KafkaCluster(where.bootstrap, dict(where.properties))
        owner = Owner(cluster.cluster_id(), self.start.run.connector)
        root = f"{self._reading.checkpoint}/{owner.slug}"
        self._directory = f"{root}/g{self._generation}"
        self._query_name = f"connect-{owner.slug}-g{self._generation}"
        place = place_of(spark, root)
        self._begin_checkpoint(place)
        self._forget_older(place, f"connect-{owner.slug}")
        self._make_topic(self._reading.topic)
        check_sink(
            self._access.bootstrap,
            self._query_name,
            self._id_in_checkpoint(spark),
            client_options=dict(self._access.properties),
        )
        spec = QuerySpec(
            name=f"{self.start.run.connector}-{self.start.run.run}",
            checkpoint=self._directory,
            sources=[],
            trigger=ProcessingTime(self._reading.interval_ms),
            on_lost_checkpoint=LostCheckpoint.FROM_BEGINNING,
        )
        admission = engine.queries.admit(spec)
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", owner.slug)
        return engine.queries.start(admission, frame.writeStream.foreachBatch(self._write))

    def _make_topic(self, topic: str) -> None:
        """The topic is there: by the settings topic.creation.*, or as the cluster makes topics."""
        if topic in self._topics:
            return
        where = admin_access(self.start)
        cluster = KafkaCluster(where.bootstrap, dict(where.properties))
        if self._groups:
            TopicCreation(self._groups, lambda: cluster).require(topic)
        elif cluster.missing_topics([topic]):
            cluster.ensure_topics([Topic(topic, -1, -1)])
        self._topics.add(topic)

    def _begin_checkpoint(self, place: Place) -> None:
        """Begin at the offset that was altered, if it was; else tell the one of the last finished batch."""
        name = f"g{self._generation}"
        done = newest_batch(place, f"{name}/commits")
        if done is not None:
            self._tell(place, f"{name}/{OFFSETS}/{done}")
        elif self._generation and self._telling.given is not None:
            older = self._older(place)
            former = f"g{max(older)}" if older else None
            begin_at(place, former, name, json_of_offset(self._telling.given))

    def _older(self, place: Place) -> list[int]:
        numbers = (each.removeprefix("g") for each in place.names("") if each.startswith("g"))
        return [int(each) for each in numbers if each.isdecimal() and int(each) < self._generation]

    def _forget_older(self, place: Place, query: str) -> None:
        """Remove the checkpoints and ledgers of older generations: they have no meaning any more."""
        for number in self._older(place):
            remove_sink(self._access.bootstrap, f"{query}-g{number}", dict(self._access.properties))
            place.remove(f"g{number}")

    def _tell(self, place: Place, path: str) -> None:
        offset = offset_in_log(place.read(path, MAX_OFFSETS_BYTES))
        if offset is not None:
            self._telling.tell(offset_of_json(offset))

    def _id_in_checkpoint(self, spark: SparkSession) -> str | None:
        place = place_of(spark, self._directory)
        if "metadata" not in place.names(""):
            return None
        return str(json.loads(place.read("metadata", MAX_METADATA_BYTES))["id"])

    def _write(self, frame: DataFrame, batch_id: int) -> None:
        """Write a batch. Spark calls it for one batch after another."""
        try:
            if not self._query_id:
                self._query_id = self._id_in_checkpoint(frame.sparkSession) or ""
            self._send_batch(frame, batch_id)
            self._tell(place_of(frame.sparkSession, self._directory), f"{OFFSETS}/{batch_id}")
        except Exception as error:
            raise SourceFailed(str(failure_of(error))) from error

    def _send_batch(self, frame: DataFrame, batch_id: int) -> None:
        rows = self._rows(frame)
        is_strict = self._errors.tolerance is Tolerance.NONE
        if is_strict and not self._has_transforms:
            self._send(self._all_good(rows), batch_id)
            return
        rows = rows.persist()  # what has failed, and the topics, are looked for first
        try:
            failed = 0 if is_strict else self._told(rows)
            good = rows.where(f"{FAILED} IS NULL")
            for row in good.select("topic").distinct().limit(MAX_TOPICS).collect():
                self._make_topic(row["topic"])
            self._send(self._all_good(rows) if is_strict else good.drop(FAILED), batch_id)
        finally:
            rows.unpersist()
        self.failed_records += failed

    def _rows(self, frame: DataFrame) -> DataFrame:
        """A batch as records: topic, key, value, headers, and FAILED for those that are refused."""
        from pyspark.sql import functions as F

        value = self._reading.value(frame).alias("value")
        key = self._reading.key()
        given = frame.select(
            F.lit(None).cast("string").alias("key") if key is None else key.alias("key"), value
        )
        native = None if self._has_transforms else self._natively(given, key is not None)
        if native is not None:
            return native
        for side in ("key", "value"):
            made = ConnectJsonFormat.of(given.schema[side].dataType)
            text = F.when(F.col(side).isNotNull(), made.encode(F.col(side), "", side == "key"))
            given = given.withColumn(side, text)
        rows = given.withColumn("topic", F.lit(self._reading.topic))
        settings = RowSettings(dict(self.start.config), dict(self.start.worker), self._errors)
        return rows.mapInArrow(functools.partial(produce_batches, settings), OUTGOING)

    def _natively(self, frame: DataFrame, has_key: bool) -> DataFrame | None:
        """The records by expressions alone, None for converters that need Python."""
        from pyspark.sql import functions as F

        from ottla.pipeline.sink.dead_letters import ERROR_TYPE

        key: Column | None = F.lit(None).cast("binary")
        if has_key:
            key = _encoded(frame, "key", self._key)
        value = _encoded(frame, "value", self._value)
        if key is None or value is None:
            return None
        failed = F.lit(None).cast(ERROR_TYPE).alias(FAILED)
        topic = F.lit(self._reading.topic).alias("topic")
        return frame.select(topic, key.alias("key"), value.alias("value"), failed)

    def _all_good(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        failed = F.col(FAILED)
        told = F.format_string(
            f"{TOLERANCE_EXCEEDED}: %s with class %s failed: %s: %s",
            *(failed.getField(name) for name in ("stage", "node", "exception", "message")),
        )
        value = F.when(failed.isNull(), F.col("value")).otherwise(F.raise_error(told).cast("binary"))
        return rows.withColumn("value", value).drop(FAILED)

    def _told(self, rows: DataFrame) -> int:
        """How many records are refused; the log tells of some."""
        failed = rows.where(f"{FAILED} IS NOT NULL")
        count = failed.count()
        if count and self._errors.log:
            for row in failed.limit(MAX_LOGGED).collect():
                problem = row[FAILED]
                _log.error("%s with class %s: %s", problem["stage"], problem["node"], problem["message"])
        return count

    def _send(self, rows: DataFrame, batch_id: int) -> None:
        # one task writes: read in order by it alone, or side by side where the connector may have more tasks
        tasks = self.start.config.get("tasks.max", "1").strip()
        one = rows.coalesce(1) if tasks == "1" else rows.repartition(1)
        write_batch_exactly_once(
            one,
            bootstrap=self._access.bootstrap,
            query_name=self._query_name,
            batch_id=batch_id,
            query_id=self._query_id,
            identity=Identity.TASK,
            topic=self._reading.topic,
            client_options=dict(self._access.properties),
        )


def _encoded(frame: DataFrame, side: str, chosen: ChosenConverter) -> Column | None:
    """A side's bytes by an expression, None if there is none for its converter."""
    from pyspark.sql import functions as F

    names, column = chosen.plugin.names, F.col(side)
    kind = frame.schema[side].dataType
    properties = {name: text.strip().lower() for name, text in chosen.properties.items()}
    if _JSON in names:
        made = ConnectJsonFormat.of(
            kind,
            numeric_decimals=properties.get("decimal.format") == "numeric",
            has_schema=properties.get("schemas.enable", "true") == "true",
        )
        return made.encode(column, "", side == "key")
    if _STRING in names and kind.typeName() == "string" and "encoding" not in properties:
        return F.encode(column, "utf-8")
    if _BYTES in names and kind.typeName() == "binary":
        return column
    return None
