"""Kafka sources of one query whose batches end where a planner says, for all of them at once.

Spark asks one source after the other for the end of the next batch, each for itself: a table may be asked
before a record is written, and the stream that is joined with it afterwards. `PlannedSources` puts a small
class of the JVM (PlannedKafka.java) around Spark's Kafka sources. With the first question of a batch it asks
all of them, in the planner's order, and then the planner, in this process. All else is Spark's source.

The planner is called when there is something to read, and once more when that is done. It may wait a moment
for more, and may leave everything for the next question, which comes at once. (With Trigger.AvailableNow
there is none: a query ends that has nothing to read.)
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.pipeline.query.by_time import Place
from ottla.pipeline.sink.exactly_once_settings import CLASSES_PROPERTY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SOURCE: Final = "PlannedKafka.java"
_CLASS: Final = "ottla.pipeline.PlannedKafka"
_COMPILED: Final = "_ottla_planned_kafka"
# The oldest class files in which the static methods of interfaces can be called.
_CLASS_FILES_OF_JAVA: Final = 8

log = logging.getLogger("ottla.pipeline")

Offsets = dict[Place, int]


class BatchPlanner(Protocol):
    """Decides where the next batch of a query ends."""

    def starts(self) -> Sequence[Offsets] | None:
        """Where the sources of a query with a checkpoint go on; None where only Spark can tell."""
        ...

    def plan(self, starts: Sequence[Offsets], latest: Sequence[Offsets]) -> Sequence[Offsets]:
        """The end of the batch for each source, by its start and the latest end that it may have.

        All records before the starts are done. An end names the same partitions as the latest one.
        """
        ...


class PlannedSources:
    """The sources of one query. order: their numbers, in the order in which their ends are asked."""

    def __init__(self, spark: SparkSession, planner: BatchPlanner, order: Sequence[int]) -> None:
        from pyspark import SparkContext
        from pyspark.java_gateway import ensure_callback_server_started

        gateway: Any = SparkContext._gateway
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        self._spark = spark
        self._group = _planned_kafka(spark, gateway).group(_Callback(planner), ",".join(map(str, order)))

    def planned(self, frame: DataFrame, number: int) -> DataFrame:
        """A frame of Spark's Kafka source, as source `number`."""
        from pyspark.sql import DataFrame

        spark: Any = self._spark
        relation = self._group.planned(frame._jdf.queryExecution().analyzed(), number)
        dataset = spark._jvm.org.apache.spark.sql.classic.Dataset
        return DataFrame(dataset.ofRows(spark._jsparkSession, relation), spark)


def _planned_kafka(spark: SparkSession, gateway: Any) -> Any:
    """The JVM's class; where the session's jar lacks it, it is compiled once a JVM."""
    if spark.conf.get(CLASSES_PROPERTY, None) is not None:
        return gateway.jvm.ottla.pipeline.PlannedKafka()
    compiled = vars(gateway).get(_COMPILED)
    if compiled is None:
        source = resources.files(__package__).joinpath(_SOURCE).read_text(encoding="utf-8")
        compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setTargetVersion(_CLASS_FILES_OF_JAVA)
        compiler.setParentClassLoader(gateway.jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.cook(_SOURCE, gateway.jvm.java.io.StringReader(source))
        compiled = compiler.getClassLoader().loadClass(_CLASS).newInstance()
        setattr(gateway, _COMPILED, compiled)
    return compiled


class _Callback:
    """A planner as a function of the JVM, from lines of JSON to lines of JSON."""

    def __init__(self, planner: BatchPlanner) -> None:
        self._planner = planner

    def apply(self, question: str) -> str:
        """The ends of the batch; called by the JVM with the starts and the latest ends of all sources."""
        try:
            if not question:
                return "\n".join(_json(each) for each in self._planner.starts() or ())
            offsets = [_offsets(line) for line in question.splitlines()]
            half = len(offsets) // 2
            ends = self._planner.plan(offsets[:half], offsets[half:])
            return "\n".join(_json(each) for each in ends)
        except Exception:
            log.exception("a batch can't be planned")
            raise

    class Java:
        implements: Final = ["java.util.function.Function"]


def _offsets(text: str) -> Offsets:
    return {
        Place(topic, int(partition)): offset
        for topic, partitions in json.loads(text).items()
        for partition, offset in partitions.items()
    }


def _json(offsets: Offsets) -> str:
    topics: dict[str, dict[str, int]] = {}
    for place, offset in sorted(offsets.items()):
        topics.setdefault(place.topic, {})[str(place.partition)] = offset
    return json.dumps(topics)
