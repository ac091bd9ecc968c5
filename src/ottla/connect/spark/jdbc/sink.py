"""The JDBC sink on Spark: the rows of a batch by all tasks at once, and in the tables by one transaction.

The order of writes. A kill at any place between them leaves the offsets as they were, and what was done is
done again, by a run that reads its offsets first:

    1. tables are made and changed, as in the sink in Python
    2. an empty stage is made, whose name no other run has
    3. each task writes its rows into the stage, in a transaction of its own
    4. in one transaction: the locks of the partitions, the offsets, which must be those that this run knows,
       what the stage's rows say, the new offsets
    5. the stage is dropped; a run that begins drops those of killed runs

The ledger is that of the sink in Python, by the connector's name and generation: a connector can go from one
to the other. A row without a topic has the newest generation, so that a run of an older one is refused.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any, ClassVar, Final

import ottla
from ottla.config.errors import ConfigError
from ottla.config.setting import Table
from ottla.config.settings import Settings
from ottla.connect.connectors.jdbc import sink_settings as options
from ottla.connect.connectors.jdbc.address import System
from ottla.connect.connectors.jdbc.database import Database
from ottla.connect.connectors.jdbc.offset_rows import OffsetRows
from ottla.connect.connectors.jdbc.opening import (
    CONNECTION_URL,
    checked_address,
    checked_zone,
    open_database,
)
from ottla.connect.connectors.jdbc.sink_rules import Naming, check_keys, rules_of, table_rules
from ottla.connect.connectors.jdbc.sink_settings import InsertMode, KeyMode
from ottla.connect.connectors.jdbc.writing import Tables
from ottla.connect.data.record import TopicPartition
from ottla.connect.spark import settings as common
from ottla.connect.spark.jdbc.settings import TABLE, TRANSFORMS
from ottla.connect.spark.jdbc.systems import Stage, left_behind, stage_prefix
from ottla.connect.spark.ledger import Fenced, Ledger, Offsets
from ottla.connect.spark.sink import TOPIC, Batch, Context, Pace, Target
from ottla.pipeline.spark.lake_jars import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

MAX_TABLES: Final = 1_000
"""The most tables that the records of one batch may be for."""
_GENERATION: Final = TopicPartition("", 0)
_DIGEST_CHARACTERS: Final = 12

_log = logging.getLogger(__name__)


class JdbcSparkSink:
    """See Sink."""

    TABLE: ClassVar[Table] = TABLE
    VERSION: ClassVar[str] = ottla.__version__
    LAKES: ClassVar[frozenset[Lake]] = frozenset()

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.address = checked_address(settings)
        self.zone = checked_zone(settings)
        self.rules = table_rules(settings)
        check_keys(settings)
        if self.address.system is System.SQLITE:
            raise settings.refusal(
                CONNECTION_URL.name, "SQLite has one writer: use the JDBC sink without Spark"
            )
        if settings[options.INSERT_MODE] is InsertMode.UPDATE and settings[options.PK_MODE] is KeyMode.NONE:
            raise settings.refusal(options.PK_MODE.name, "an update by many tasks needs a primary key")

    def uses_s3(self) -> bool:
        """See Sink."""
        return False

    def uses_keys(self) -> bool:
        """See Sink."""
        return bool(self.settings[options.PK_MODE] is KeyMode.RECORD_KEY)

    def tasks(self, most: int) -> int | None:
        """See Sink."""
        return most

    def pace(self) -> Pace:
        """See Sink."""
        return Pace(self.settings[common.COMMIT_INTERVAL_MS], self.settings[common.MIN_RECORDS])

    def open(self, spark: SparkSession, context: Context) -> Target:
        """See Sink."""
        return JdbcTarget(self, context)

    def connected(self) -> Database:
        """A database of the driver's, to be closed."""
        return open_database(self.address, self.zone)


class JdbcTarget:
    """See Target."""

    def __init__(self, sink: JdbcSparkSink, context: Context) -> None:
        """Raises Fenced, RetriableError."""
        self._sink = sink
        self._name = context.owner.connector
        self._generation = context.generation
        owner = hashlib.sha256(context.owner.slug.encode()).hexdigest()[:_DIGEST_CHARACTERS]
        run = hashlib.sha256(context.run.encode()).hexdigest()[:_DIGEST_CHARACTERS]
        self._prefix = stage_prefix(owner)
        self._stage_name = f"{self._prefix}{run}"
        with closing(sink.connected()) as database:
            database.create_ledger()
            self._claim_generation(database)
            for each in left_behind(database, sink.address.system, self._prefix):
                database.run(f"DROP TABLE IF EXISTS {each}")
            self._known = self._rows(database).read()

    def ledger(self) -> Ledger | None:
        """See Target."""
        if not self._known:
            return None
        ends: Offsets = {}
        for place, offset in self._known.items():
            ends.setdefault(place.topic, {})[place.partition] = offset
        return Ledger(self._generation, 0, ends)

    def claim(self, ledger: Ledger) -> None:
        """See Target: the generation is claimed when the target is opened."""

    def wish(self, spark: SparkSession) -> StructType | None:
        """See Target."""
        return None

    def write(self, batch: Batch) -> None:
        """See Target. Raises DataError, Refused, RetriableError."""
        ends = {
            TopicPartition(topic, partition): batch.ledger.ends[topic][partition]
            for topic, partitions in batch.begins.items()
            for partition in partitions
        }
        with closing(self._sink.connected()) as database:
            rows = self._rows(database)
            if all(rows.read().get(place) == end for place, end in ends.items()):
                self._known.update(ends)  # this batch, which is repeated
                return
            stages: list[Stage] = []
            try:
                statements = []
                for number, (topic, frame) in enumerate(self._by_topic(batch).items()):
                    statements += self._staged(database, topic, frame, number, stages)
                self._commit(database, ends, statements)
            finally:
                for each in stages:
                    database.run(f"DROP TABLE IF EXISTS {each.name}")
        self._known.update(ends)

    # -- the ledger -----------------------------------------------------------------------------------

    def _rows(self, database: Database) -> OffsetRows:
        return OffsetRows(database, f"{self._name}-{self._generation}")

    def _claim_generation(self, database: Database) -> None:
        claims = OffsetRows(database, self._name)
        with database.transaction(claims.locks([_GENERATION])):
            self._check_generation(claims)
            claims.put({_GENERATION: self._generation})

    def _check_generation(self, claims: OffsetRows) -> None:
        newest = claims.read().get(_GENERATION, self._generation)
        if newest > self._generation:
            raise Fenced(
                f"{self._name}: a run with offsets of generation {newest} writes {self._sink.address.shown}, "
                f"this one has generation {self._generation}"
            )

    def _commit(self, database: Database, ends: Mapping[TopicPartition, int], statements: list[str]) -> None:
        claims, rows = OffsetRows(database, self._name), self._rows(database)
        with database.transaction([*claims.locks([_GENERATION]), *rows.locks(list(ends))]):
            self._check_generation(claims)
            now = rows.read()
            for place in ends:
                if now.get(place) != self._known.get(place):
                    raise Fenced(
                        f"{place.topic}-{place.partition}: another run has written up to {now.get(place)}"
                    )
            for each in statements:
                database.run(each)
            rows.put(ends)

    # -- rows -----------------------------------------------------------------------------------------

    def _by_topic(self, batch: Batch) -> dict[str, DataFrame]:
        """The records by the topics that they have behind the transforms, which name tables."""
        from pyspark.sql import functions as F

        topics = list(batch.begins)
        if self._sink.settings[TRANSFORMS].strip():
            found = batch.frame.select(TOPIC).distinct().limit(MAX_TABLES + 1).collect()
            topics = sorted(row[0] for row in found)
        if len(topics) > MAX_TABLES:
            raise ConfigError(f"the records of a batch have more than {MAX_TABLES} topics")
        if len(topics) < 2:
            return dict.fromkeys(topics, batch.frame)
        return {topic: batch.frame.where(F.col(TOPIC) == topic) for topic in topics}

    def _staged(
        self, database: Database, topic: str, frame: DataFrame, number: int, stages: list[Stage]
    ) -> list[str]:
        """Write a topic's records into a stage. Returns the statements that take them from there."""
        from ottla.connect.spark.jdbc.records import shaped
        from ottla.connect.spark.jdbc.staging import STAGED, StageWriter

        sink, naming = self._sink, Naming(self._sink.settings, database)
        made = shaped(frame, rules_of(sink.settings, naming), topic)
        if made is None:
            return []
        target = Tables(database, sink.rules).target(naming.table(topic), made.shape)
        if target.relation is None:
            return []  # there is no table to delete from
        stage = Stage(sink.address.system, f"{self._stage_name}_{number}", target.table, made.shape)
        database.run(f"DROP TABLE IF EXISTS {stage.name}")
        stages.append(stage)
        database.run(stage.creation(database))
        writer = StageWriter(sink.address, stage.name, stage.columns)
        lines = made.lines(sink.address.system, sink.zone.key)
        found: list[Any] = lines.mapInArrow(writer.write, STAGED).collect()
        if not found:
            return []
        _log.info(
            "%d rows for %s are staged by %d tasks", sum(r.staged for r in found), target.table, len(found)
        )
        return stage.taking(database, [each.attempt for each in found], any(each.deleted for each in found))
