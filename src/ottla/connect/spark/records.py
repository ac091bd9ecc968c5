"""A batch's records from bytes to columns, and what becomes of those that can't be converted or transformed.

errors.tolerance=none: the first such record ends the batch, and is named. all: they are left out; with a dead
letter topic they are in it before the batch is committed, once more if the batch is repeated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ottla.client.access import ClusterAccess
from ottla.connect.host.errors import TOLERANCE_EXCEEDED, Stage
from ottla.connect.host.settings import ErrorSettings, Tolerance
from ottla.connect.spark.rows import FAILED
from ottla.connect.spark.sink import KEY, OFFSET, ORIGIN_TOPIC, PARTITION, TIMESTAMP, TOPIC, VALUE
from ottla.connect.spark.transforms import DATA_EXCEPTION, Transforms
from ottla.connect.spark.values import Values, decoded_side
from ottla.pipeline.formats.format import ERROR
from ottla.pipeline.formats.format import VALUE as CONVERTED
from ottla.pipeline.sink.dead_letters import CONNECT, ERROR_TYPE, dead_letter_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_ORIGIN: Final = "origin"
_FAILURE: Final = "failure"
_PLACE: Final = (TOPIC, PARTITION, OFFSET, TIMESTAMP)


@dataclass(frozen=True, slots=True)
class Conversion:
    """How a connector's batches are converted. key: None where nobody has a use for keys.

    dead_letters: the cluster of the dead letter topic. transforms: None if there are none.
    """

    connector: str
    value: Values
    key: Values | None
    errors: ErrorSettings
    dead_letters: ClusterAccess
    transforms: Transforms | None = None

    @contextmanager
    def records(
        self, frame: DataFrame, wish: DataType | None, topics: Collection[str]
    ) -> Iterator[tuple[DataFrame, int]]:
        """The converted records of a batch, and how many could not be. Raises FormatError, RegistryError.

        frame: Kafka's columns. topics: those of the batch.
        """
        from pyspark.sql import functions as F

        is_tolerant = self.errors.tolerance is not Tolerance.NONE
        others = [_ORIGIN] if is_tolerant else []
        frame = frame.withColumn(ORIGIN_TOPIC, _column(TOPIC))
        if is_tolerant:
            frame = frame.withColumn(_ORIGIN, F.struct("key", "value", "headers", *_PLACE))
        with self._converted(frame, wish, topics, others) as converted:
            if not is_tolerant:
                yield self._all_good(converted), 0
                return
            converted = converted.persist()
            try:
                failed = converted.where(self._failure(converted).isNotNull())
                good = converted.where(self._failure(converted).isNull())
                yield self._good(good), self._report(failed, self._failure(converted))
            finally:
                converted.unpersist()

    @contextmanager
    def _converted(
        self, frame: DataFrame, wish: DataType | None, topics: Collection[str], others: Collection[str]
    ) -> Iterator[DataFrame]:
        if self.transforms is not None:
            with self.transforms.applied(frame, wish, topics, others) as converted:
                yield converted
            return
        topic = next(iter(topics)) if len(topics) == 1 else None
        converted = frame.select(*_PLACE, ORIGIN_TOPIC, *(side for side, _, _ in self._sides()), *others)
        for side, _, values in self._sides():
            wished = wish if side == VALUE else None
            made = values.format_of(frame, wished, topic).bind(topic, values.is_key)
            converted = decoded_side(converted, side, made)
        yield converted

    def _sides(self) -> tuple[tuple[str, Stage, Values], ...]:
        value = (VALUE, Stage.VALUE_CONVERTER, self.value)
        return (value,) if self.key is None else ((KEY, Stage.KEY_CONVERTER, self.key), value)

    def _failure(self, frame: DataFrame) -> Column:
        """Why a record failed (ERROR_TYPE), null for one that has not."""
        from pyspark.sql import functions as F

        found = [_column(FAILED)] if FAILED in frame.columns else []
        for side, stage, values in self._sides():
            message = _column(side).getField(ERROR)
            told = F.struct(
                F.lit(values.class_name).alias("node"),
                F.lit(stage.value).alias("stage"),
                F.lit(DATA_EXCEPTION).alias("exception"),
                message.alias("message"),
                F.lit(None).cast("string").alias("trace"),
            )
            found.append(F.when(message.isNotNull(), told.cast(ERROR_TYPE)))
        return F.coalesce(*found)

    def _good(self, frame: DataFrame) -> DataFrame:
        converted = [_column(side).getField(CONVERTED).alias(side) for side, _, _ in self._sides()]
        return frame.select(*_PLACE, ORIGIN_TOPIC, *converted)

    def _all_good(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        columns: list[Column | str] = [*_PLACE, ORIGIN_TOPIC]
        at = F.format_string(
            " failed at topic=%s, partition=%d, offset=%d: ", *(ORIGIN_TOPIC, PARTITION, OFFSET)
        )
        for side, stage, values in self._sides():
            error = _column(side).getField(ERROR)
            by = F.lit(f"{TOLERANCE_EXCEEDED}: {stage} with class {values.class_name}")
            good = F.when(error.isNull(), _column(side).getField(CONVERTED))
            made = good.otherwise(F.raise_error(F.concat(by, at, error)))
            if FAILED in frame.columns:
                failed = _column(FAILED)
                by = F.format_string(
                    f"{TOLERANCE_EXCEEDED}: %s with class %s",
                    failed.getField("stage"),
                    failed.getField("node"),
                )
                told = F.concat(by, at, failed.getField("exception"), F.lit(": "), failed.getField("message"))
                made = F.when(failed.isNull(), made).otherwise(F.raise_error(told))
            # Not deterministic to Spark, which so does not copy all of it into the filters and fields behind.
            columns.append(F.when(F.monotonically_increasing_id() >= 0, made).alias(side))
        return frame.select(*columns)

    def _report(self, failed: DataFrame, failure: Column) -> int:
        """Write the dead letters. Returns how many records failed."""
        from pyspark.sql import functions as F

        count = failed.count()
        if not count or not self.errors.dead_letter_topic:
            return count
        letters = failed.select(_ORIGIN, failure.alias(_FAILURE))
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


def _column(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.col(name)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
