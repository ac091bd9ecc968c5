"""A connector's transforms on batches: as columns where Spark can do them so, else record by record.

Columns need the schemas of keys and values beforehand: those of simple converters, of `value.schema`, or of a
batch of JSON with one schema in all its records. Then the chain is an expression, and no record meets Python.
Everything else (values without a schema, headers, patterns of dates, Debezium's, those of other packages)
runs through the row path, which is that of connectors in Python: the records become JSON with its schema,
which is then read as columns.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ottla.connect.data.schema import DataError
from ottla.connect.host.errors import Stage, java_class_name, stack_trace
from ottla.connect.spark.rows import FAILED, RowSettings, convert_batches
from ottla.connect.spark.sink import KEY, OFFSET, ORIGIN_TOPIC, PARTITION, TIMESTAMP, TOPIC, VALUE
from ottla.connect.spark.values import Known, Values, connect_json_of, written_type
from ottla.connect.transforms.chain import TransformChain
from ottla.connect.transforms.columns import BARE_KEY, BARE_VALUE, KEPT, REFUSED, ColumnChain, compiled
from ottla.pipeline.formats.connect_json import ConnectJsonFormat
from ottla.pipeline.formats.format import ERROR, decoded
from ottla.pipeline.formats.format import VALUE as CONVERTED
from ottla.pipeline.sink.dead_letters import ERROR_TYPE, MAX_TRACE_CHARACTERS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_SIDES: Final = (KEY, VALUE)
_BARE: Final = {KEY: BARE_KEY, VALUE: BARE_VALUE}
_STAGES: Final = {KEY: Stage.KEY_CONVERTER, VALUE: Stage.VALUE_CONVERTER}
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
DATA_EXCEPTION: Final = "org.apache.kafka.connect.errors.DataException"


@dataclass(frozen=True, slots=True)
class Transforms:
    """The chain of a connector, and what its records are converted by."""

    chain: TransformChain
    rows: RowSettings
    key: Values
    value: Values

    @contextmanager
    def applied(
        self, frame: DataFrame, wish: DataType | None, topics: Collection[str], others: Collection[str]
    ) -> Iterator[DataFrame]:
        """A batch's records behind the chain: TOPIC as it is then, KEY and VALUE, OFFSET and so on, FAILED.

        frame: Kafka's columns and ORIGIN_TOPIC. topics: of the batch. others: columns that stay. KEY and
        VALUE are STRUCT<value, error>, and null in records with FAILED (ERROR_TYPE).
        """
        key, value = self.key.known(frame), self.value.known(frame)
        columns = None if key is None or value is None else self._columns(key, value, topics)
        if columns is not None and key is not None and value is not None:
            yield self._as_columns(frame, columns, {KEY: key, VALUE: value}, others)
            return
        rows = self._as_rows(frame, others).persist()  # the types are looked for first, then all are read
        try:
            yield _typed(rows, wish)
        finally:
            rows.unpersist()

    def _columns(self, key: Known, value: Known, topics: Collection[str]) -> ColumnChain | None:
        try:
            return compiled(self.chain, key.schema, value.schema, topics)
        except DataError:
            return None  # the row path tells it of each record

    def _as_columns(
        self, frame: DataFrame, columns: ColumnChain, known: Mapping[str, Known], others: Collection[str]
    ) -> DataFrame:
        from pyspark.sql import functions as F

        for side in _SIDES:
            bare = _column(side).isNull() if known[side].is_json else F.lit(False)
            frame = frame.withColumn(_BARE[side], bare)
        for side in _SIDES:
            frame = known[side].decoded(frame, side)
        failed = F.coalesce(*(self._unconverted(side) for side in _SIDES))
        frame = frame.withColumn(FAILED, failed)
        for side in _SIDES:
            frame = frame.withColumn(side, _column(side).getField(CONVERTED))
        stay = (*others, ORIGIN_TOPIC)
        made = columns.judged(frame, (*stay, FAILED, BARE_KEY, BARE_VALUE))
        refused = F.lit(None).cast(ERROR_TYPE)
        for number, refusal in enumerate(columns.refusals):
            told = _told(
                refusal.class_name,
                Stage.TRANSFORMATION,
                java_class_name(refusal.problem),
                F.lit(str(refusal.problem)),
                stack_trace(refusal.problem)[:MAX_TRACE_CHARACTERS],
            )
            refused = F.when(_column(REFUSED) == number, told).otherwise(refused)
        # one that is not converted meets no transform, and one that is refused none behind that
        kept = _column(FAILED).isNotNull() | _column(REFUSED).isNotNull() | _column(KEPT)
        made = made.where(kept).withColumn(FAILED, F.coalesce(_column(FAILED), refused))
        no_error, is_good = F.lit(None).cast("string"), _column(FAILED).isNull()
        sides = [decoded(F.when(is_good, _column(each)), no_error).alias(each) for each in _SIDES]
        return made.select(TOPIC, PARTITION, OFFSET, TIMESTAMP, *stay, FAILED, *sides)

    def _unconverted(self, side: str) -> Column:
        from pyspark.sql import functions as F

        error = _column(side).getField(ERROR)
        class_name = self.key.class_name if side == KEY else self.value.class_name
        return F.when(error.isNotNull(), _told(class_name, _STAGES[side], DATA_EXCEPTION, error, None))

    def _as_rows(self, frame: DataFrame, others: Collection[str]) -> DataFrame:
        """The records behind the row path, with keys and values as JSON with its schema."""
        from pyspark.sql import functions as F

        config = dict(self.rows.config)
        frame = frame.withColumn(FAILED, F.lit(None).cast(ERROR_TYPE))
        for side in _SIDES:
            values = self.key if side == KEY else self.value
            if values.given is None:
                continue
            # the values have the types that were given for them, with which they go through the chain
            made = values.format_of(frame, None, None)
            kept = {each: _column(each) for each in frame.columns}
            frame = frame.withColumn("__ottla_read", made.decode(_column(side), _column(TOPIC), side == KEY))
            read = _column("__ottla_read")
            error = F.when(
                read.getField(ERROR).isNotNull(),
                _told(values.class_name, _STAGES[side], DATA_EXCEPTION, read.getField(ERROR), None),
            )
            text = ConnectJsonFormat.of(values.given).encode(read.getField(CONVERTED), "", side == KEY)
            kept[side] = F.when(_column(side).isNotNull() & read.getField(ERROR).isNull(), text)
            kept[FAILED] = F.coalesce(_column(FAILED), error.cast(ERROR_TYPE))
            frame = frame.select(*(column.alias(name) for name, column in kept.items()))
            config |= {f"{side}.converter": _JSON, f"{side}.converter.schemas.enable": "true"}
        names = (TOPIC, PARTITION, OFFSET, TIMESTAMP, KEY, VALUE, "headers", ORIGIN_TOPIC, *others, FAILED)
        frame = frame.select(*dict.fromkeys(names))
        function = functools.partial(convert_batches, dataclasses.replace(self.rows, config=config))
        return frame.mapInArrow(function, _nullable(frame))


def _nullable(frame: DataFrame) -> str:
    from ottla.connect.spark.columns import quoted, type_text

    return ", ".join(f"{quoted(each.name)} {type_text(each.dataType)}" for each in frame.schema.fields)


def _typed(rows: DataFrame, wish: DataType | None) -> DataFrame:
    """The records of the row path with their JSON as columns."""
    from pyspark.sql import functions as F

    good = rows.where(_column(FAILED).isNull())
    types = {side: written_type(good, side, wish if side == VALUE else None) for side in _SIDES}
    columns = {name: _column(name) for name in rows.columns if name not in (*_SIDES, "headers")}
    for side in _SIDES:
        data = F.when(_column(FAILED).isNull(), _column(side))
        columns[side] = connect_json_of(types[side]).decode(data, _column(TOPIC), side == KEY)
    return rows.select(*(column.alias(name) for name, column in columns.items()))


def _told(class_name: str, stage: Stage, exception: str, message: Column, trace: str | None) -> Column:
    from pyspark.sql import functions as F

    return F.struct(
        F.lit(class_name).alias("node"),
        F.lit(stage.value).alias("stage"),
        F.lit(exception).alias("exception"),
        message.alias("message"),
        F.lit(trace).cast("string").alias("trace"),
    ).cast(ERROR_TYPE)


def _column(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.col(name)
