"""A batch's records from bytes to columns, and what becomes of those that can't be converted.

errors.tolerance=none: the first such record ends the batch, and is named. all: they are left out; with a dead
letter topic they are in it before the batch is committed, once more if the batch is repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ottla.client.access import ClusterAccess
from ottla.connect.host.errors import TOLERANCE_EXCEEDED, Stage
from ottla.connect.host.settings import ErrorSettings, Tolerance
from ottla.connect.spark.sink import KEY, OFFSET, PARTITION, TIMESTAMP, TOPIC, VALUE
from ottla.connect.spark.values import Values
from ottla.pipeline.formats.format import ERROR, Format
from ottla.pipeline.formats.format import VALUE as CONVERTED
from ottla.pipeline.formats.json_format import JsonFormat, decode_in_steps
from ottla.pipeline.sink.dead_letters import CONNECT, dead_letter_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_ORIGIN: Final = "origin"
_FAILURE: Final = "failure"
_DATA_EXCEPTION: Final = "org.apache.kafka.connect.errors.DataException"
_PLACE: Final = (TOPIC, PARTITION, OFFSET, TIMESTAMP)


@dataclass(frozen=True, slots=True)
class Conversion:
    """How a connector's batches are converted. key: None where the target has no use for keys.

    dead_letters: the cluster of the dead letter topic.
    """

    connector: str
    value: Values
    key: Values | None
    errors: ErrorSettings
    dead_letters: ClusterAccess

    @contextmanager
    def records(
        self, frame: DataFrame, wish: DataType | None, topic: str | None
    ) -> Iterator[tuple[DataFrame, int]]:
        """The converted records of a batch, and how many could not be. Raises FormatError, RegistryError.

        frame: Kafka's columns. topic: the batch's only one, if it has one.
        """
        from pyspark.sql import functions as F

        origin = F.struct("key", "value", "headers", *_PLACE).alias(_ORIGIN)
        is_tolerant = self.errors.tolerance is not Tolerance.NONE
        bytes_of = [_column(side) for side, _, _ in self._sides()]
        converted = frame.select(*_PLACE, *bytes_of, *([origin] if is_tolerant else []))
        for side, _, values in self._sides():
            wished = wish if side == VALUE else None
            made = values.format_of(frame, wished, topic).bind(topic, values.is_key)
            converted = _decoded(converted, side, made, values)
        if self.errors.tolerance is Tolerance.NONE:
            yield self._all_good(converted), 0
            return
        converted = converted.persist()
        try:
            failed = converted.where(self._any_error())
            yield self._good(converted.where(~self._any_error())), self._report(failed)
        finally:
            converted.unpersist()

    def _sides(self) -> tuple[tuple[str, Stage, Values], ...]:
        value = (VALUE, Stage.VALUE_CONVERTER, self.value)
        return (value,) if self.key is None else ((KEY, Stage.KEY_CONVERTER, self.key), value)

    def _any_error(self) -> Column:
        found = _column(VALUE).getField(ERROR).isNotNull()
        return found if self.key is None else found | _column(KEY).getField(ERROR).isNotNull()

    def _good(self, frame: DataFrame) -> DataFrame:
        converted = [_column(side).getField(CONVERTED).alias(side) for side, _, _ in self._sides()]
        return frame.select(*_PLACE, *converted)

    def _all_good(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        columns: list[Column | str] = [*_PLACE]
        for side, stage, values in self._sides():
            error = _column(side).getField(ERROR)
            told = F.concat(
                F.lit(f"{TOLERANCE_EXCEEDED}: {stage} with class {values.class_name} failed at "),
                F.format_string("topic=%s, partition=%d, offset=%d: ", *(TOPIC, PARTITION, OFFSET)),
                error,
            )
            good = F.when(error.isNull(), _column(side).getField(CONVERTED))
            columns.append(good.otherwise(F.raise_error(told)).alias(side))
        return frame.select(*columns)

    def _report(self, failed: DataFrame) -> int:
        """Write the dead letters. Returns how many records failed."""
        from pyspark.sql import functions as F

        count = failed.count()
        if not count or not self.errors.dead_letter_topic:
            return count
        error: Column | None = None
        for side, stage, values in self._sides():
            message = _column(side).getField(ERROR)
            told = F.struct(
                F.lit(values.class_name).alias("node"),
                F.lit(stage.value).alias("stage"),
                F.lit(_DATA_EXCEPTION).alias("exception"),
                message.alias("message"),
                F.lit(None).cast("string").alias("trace"),
            )
            found = F.when(message.isNotNull(), told)
            error = found if error is None else F.coalesce(error, found)
        assert error is not None
        letters = failed.select(_ORIGIN, error.alias(_FAILURE))
        topic = self.errors.dead_letter_topic
        columns = dict(dead_letter_columns(_ORIGIN, _FAILURE, topic))
        if self.errors.dead_letter_headers:
            own = ", ".join(
                f"named_struct('key', '{CONNECT}{name}', 'value', encode({text}, 'utf-8'))"
                for name, text in (
                    ("connector.name", _quoted(self.connector)),
                    ("task.id", "'0'"),
                    ("class.name", f"{_FAILURE}.node"),
                )
            )
            columns["headers"] = F.concat(
                columns["headers"], F.expr(f"CAST(array({own}) AS ARRAY<STRUCT<key: STRING, value: BINARY>>)")
            )
        else:
            columns["headers"] = _column(_ORIGIN).getField("headers")
        rows = letters.select(
            *(column.alias(name) for name, column in columns.items() if name != "timestamp")
        )
        rows.write.format("kafka").options(**self.dead_letters.spark()).save()
        return count


def _decoded(frame: DataFrame, side: str, made: Format, values: Values) -> DataFrame:
    """The frame with a side's bytes as STRUCT<value, error>."""
    if isinstance(made, JsonFormat) and made.type is not None:
        return decode_in_steps(frame, side, made.type)
    return frame.withColumn(side, made.decode(_column(side), _column(TOPIC), values.is_key))


def _column(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.col(name)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
