"""The settings that every connector on Spark has, beside Connect's own and those of its class."""

from __future__ import annotations

from typing import Final

from ottla.config.setting import Importance, Setting, boolean, by_name, integer, long, text_or_none
from ottla.config.validators import at_least

LOW: Final = Importance.LOW

COMMIT_INTERVAL_MS: Final = long(
    "ottla.commit.interval.ms",
    10_000,
    "How long records wait at most for a batch: fewer and larger files, but later ones.",
    at_least(0),
)
MIN_RECORDS: Final = integer(
    "ottla.batch.min.records", 100_000, "As many waiting records begin a batch before that time.", at_least(1)
)
MAX_RECORDS: Final = integer(
    "ottla.batch.max.records", 2_000_000, "The most records of a batch, over all partitions.", at_least(1)
)
FAIL_ON_DATA_LOSS: Final = boolean(
    "ottla.fail.on.data.loss",
    True,
    "Whether the task fails if records that it has not read are gone from the topic.",
)
VALUE_SCHEMA: Final = text_or_none(
    "value.schema",
    None,
    "The columns of JSON values without schemas, as Spark's DDL: `id BIGINT, name STRING`. Without it, each "
    "batch is read twice: first to find its columns. Transforms see values of these columns.",
)
KEY_SCHEMA: Final = text_or_none("key.schema", None, "The same for keys.", importance=LOW)
KEY_CONVERTER: Final = text_or_none(
    "key.converter", None, "The converter of keys; the worker's, if not given."
)
VALUE_CONVERTER: Final = text_or_none(
    "value.converter", None, "The converter of values; the worker's, if not given."
)

COMMON: Final[dict[str, Setting[object]]] = by_name(globals().values())
"""To be put into the table of each sink."""
