"""Queries of a few records without the code that Spark generates: compiling it takes longer than they do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pyspark.sql import SparkSession

_SETTINGS = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@contextlib.contextmanager
def without_generated_code(spark: SparkSession) -> Iterator[None]:
    """Queries that are started meanwhile are interpreted, for as long as they run."""
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in _SETTINGS:
            spark.conf.unset(name)
