"""Nodes without state: filters, maps, merges, as columns of one frame. Poison records are passed by."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.streams.compile.expressions import RESULT, evaluate, has_result, record_of, without_result
from ottla.streams.compile.given import Given, Made
from ottla.streams.compile.poison import ERROR, PATH, or_poison
from ottla.streams.plan.node import TopologyError
from ottla.streams.plan.nodes.stateless import Becomes, Filter, FlatMap, Map, Merge, Peek
from ottla.streams.plan.records import PythonRecord

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType


def merged(node: Merge, given: Given) -> Made:
    """The records of all inputs, each way to a topic with a mark of its own."""
    from pyspark.sql import functions as F

    marked = []
    for number, frame in enumerate(given.frames):
        before = F.col(PATH) if PATH in frame.columns else F.lit("")
        marked.append(frame.withColumn(PATH, F.concat(before, F.lit(f"@{number}"))))
    return Made(functools.reduce(lambda one, other: one.unionByName(other), marked))


def filtered(node: Filter, given: Given) -> Made:
    """The records for which the predicate holds; a table's others as tombstones."""
    from pyspark.sql import functions as F

    frame, predicate = evaluate(given.frames[0], node.predicate, node)
    holds = F.coalesce(predicate, F.lit(False))
    kept = ~holds if node.negated else holds
    if node.table and not node.drops:
        kept_value = F.when(kept & F.col("value").isNotNull(), F.col("value"))
        return Made(without_result(frame.withColumn("value", kept_value), node.predicate))
    return Made(without_result(frame.where(or_poison(frame, kept)), node.predicate))


def mapped(node: Map, given: Given) -> Made:
    """The records with what the node makes anew."""
    from pyspark.sql import functions as F

    (frame,), new = given.frames, node.new
    if new.both is not None:
        frame, both = evaluate(frame, new.both, node)
        changed = {"key": both.getField("key"), "value": both.getField("value")}
        return Made(without_result(frame.withColumns(changed), new.both))
    if node.becomes is Becomes.TABLE:
        return Made(frame.where(or_poison(frame, F.col("key").isNotNull())))
    # All expressions see the record as it came, so the new columns are put in their places together.
    changes: dict[str, Column] = {}
    temporary: list[str] = []
    for name, expression in (("key", new.key), ("value", new.value), ("headers", new.headers)):
        if expression is None:
            continue
        frame, column = evaluate(frame, expression, node)
        if name == "value" and node.table:
            column = F.when(F.col("value").isNotNull(), column)
        if has_result(expression):
            frame = without_result(frame.withColumn(f"_new_{name}", column), expression)
            column = F.col(f"_new_{name}")
            temporary.append(f"_new_{name}")
        changes[name] = column
    frame = frame.withColumns(changes) if changes else frame
    return Made(frame.drop(*temporary) if temporary else frame)


def flat_mapped(node: FlatMap, given: Given) -> Made:
    """A record for each element of the array that the node's expression gives."""
    from pyspark.sql import functions as F

    frame, records = evaluate(given.frames[0], node.records, node)
    if ERROR in frame.columns:
        frame = frame.withColumn("_records", records)
        nothing = F.array(F.lit(None).cast(_element_of(frame, "_records", node)))
        records = F.when(F.col(ERROR).isNotNull(), nothing).otherwise(F.col("_records"))
    frame = frame.withColumn("_one", F.explode(records))
    if node.with_keys:
        frame = frame.withColumns({"key": F.col("_one.key"), "value": F.col("_one.value")})
    else:
        frame = frame.withColumn("value", F.col("_one"))
    return Made(frame.drop(RESULT, "_records", "_one"))


def _element_of(frame: DataFrame, column: str, node: FlatMap) -> DataType:
    from pyspark.sql.types import ArrayType

    found = frame.schema[column].dataType
    if not isinstance(found, ArrayType):
        raise TopologyError(f"{node.name}: the expression gives {found.simpleString()}, not an array")
    return found.elementType


def peeked(node: Peek, given: Given) -> Made:
    """The same records, each of which the node's action sees."""
    from pyspark.sql import functions as F

    seen = F.udf(functools.partial(_seen, node.action), "BOOLEAN", useArrow=True).asNondeterministic()
    (frame,) = given.frames
    record = F.struct(*PythonRecord._fields)
    return Made(frame.where(or_poison(frame, seen(record))))


def _seen(action: Callable[[Any], None], row: Any) -> bool:
    action(record_of(row))
    return True
