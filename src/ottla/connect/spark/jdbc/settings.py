"""The settings of the JDBC sink on Spark: those of the sink in Python, and Spark's."""

from __future__ import annotations

from typing import Final

from ottla.config.setting import Table, string
from ottla.config.unsupported import harmless, merged
from ottla.connect.connectors.common import GENERATION, NAME
from ottla.connect.connectors.jdbc import sink_settings as plain
from ottla.connect.spark.settings import COMMON

TRANSFORMS: Final = string(
    "transforms", "", "Whether records may change their topics on the way.", internal=True
)
_OF_SPARK: Final = (
    plain.BATCH_SIZE,
    plain.MAX_RETRIES,
    plain.RETRY_BACKOFF_MS,
    plain.REPLACE_NULL,
    NAME,
    GENERATION,
)
_NOT_HERE: Final = frozenset(each.name for each in _OF_SPARK)
TABLE: Final = Table(
    "the JDBC sink on Spark",
    {
        **{name: each for name, each in plain.TABLE.settings.items() if name not in _NOT_HERE},
        **COMMON,
        TRANSFORMS.name: TRANSFORMS,
    },
    unsupported=merged(
        [
            plain.TABLE.unsupported,
            harmless("a batch of Spark's is one transaction: ottla.batch.max.records", plain.BATCH_SIZE.name),
            harmless(
                "the worker starts the task again: ottla.task.restart.max",
                plain.MAX_RETRIES.name,
                plain.RETRY_BACKOFF_MS.name,
            ),
            harmless(
                "the converter decides: value.converter.replace.null.with.default", plain.REPLACE_NULL.name
            ),
        ]
    ),
)
