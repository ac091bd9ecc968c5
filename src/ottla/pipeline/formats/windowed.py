"""Windowed keys as Kafka Streams writes them: the inner key's bytes, then the window's times.

A time window is the inner key and 8 bytes for its start; its end is the start plus the size, which the
reader has to know. A session is the inner key, 8 bytes for its end and 8 for its start; in Kafka Streams a
session's end is the time of its last record, not the moment after.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self

from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType, TimestampType

from ottla.pipeline.formats.format import ERROR, VALUE, Format, FormatError, decoded
from ottla.pipeline.formats.primitives import number_bytes, number_from

if TYPE_CHECKING:
    from pyspark.sql import Column

_TIME_BYTES: Final = 8
MAX_TIME_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999, the latest time that Spark can print."""


@dataclass(frozen=True, slots=True)
class WindowedFormat:
    """Keys of windows: STRUCT<key, start, end>. `window_size_ms` is None for sessions."""

    inner: Format
    window_size_ms: int | None

    def __post_init__(self) -> None:
        if self.window_size_ms is not None and self.window_size_ms <= 0:
            raise FormatError(
                f"a window's size is a number of milliseconds over 0, not {self.window_size_ms}"
            )

    @property
    def native(self) -> bool:
        return self.inner.native

    def bind(self, topic: str | None, is_key: bool) -> Self:
        return replace(self, inner=self.inner.bind(topic, is_key))

    def data_type(self) -> DataType:
        return StructType(
            [
                StructField("key", self.inner.data_type()),
                StructField("start", TimestampType()),
                StructField("end", TimestampType()),
            ]
        )

    def describe(self) -> str:
        kind = "session" if self.window_size_ms is None else f"windows of {self.window_size_ms} ms"
        return f"{self.inner.describe()} ({kind})"

    def decode(self, column: Column, topic: Column | str, is_key: bool) -> Column:
        suffix_bytes = 2 * _TIME_BYTES if self.window_size_ms is None else _TIME_BYTES
        length = F.octet_length(column)
        long_enough = F.when(length >= suffix_bytes, column)
        key_bytes = F.substring(long_enough, F.lit(1), length - suffix_bytes)
        inner = self.inner.decode(key_bytes, topic, is_key)
        start = number_from(F.substring(long_enough, -_TIME_BYTES, _TIME_BYTES), 8)
        if self.window_size_ms is None:
            end = number_from(F.substring(long_enough, -2 * _TIME_BYTES, _TIME_BYTES), 8)
        else:
            # bounded before the addition: an overflow would raise an exception
            end = F.when(start <= MAX_TIME_MS, start + self.window_size_ms)
        out_of_range = (start < 0) | (start > MAX_TIME_MS) | (end < start) | (end > MAX_TIME_MS)
        error = F.coalesce(
            F.when(
                length < suffix_bytes, F.lit(f"a windowed key has at least {suffix_bytes} bytes of times")
            ),
            F.when(out_of_range, F.lit("the window's times are out of range")),
            inner.getField(ERROR),
        )
        bounded_start = F.when(~out_of_range, start)
        bounded_end = F.when(~out_of_range, end)
        value = F.struct(
            inner.getField(VALUE).alias("key"),
            F.timestamp_millis(bounded_start).alias("start"),
            F.timestamp_millis(bounded_end).alias("end"),
        )
        return decoded(F.when(column.isNotNull(), value), error)

    def encode(self, column: Column, topic: str, is_key: bool) -> Column:
        inner = self.inner.encode(column.getField("key"), topic, is_key)
        start = number_bytes(F.unix_millis(column.getField("start")), 8)
        if self.window_size_ms is not None:
            return F.concat(inner, start)
        return F.concat(inner, number_bytes(F.unix_millis(column.getField("end")), 8), start)
