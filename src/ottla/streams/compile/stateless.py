"""What needs no state: reading and writing, filters, maps, merges, as columns of one frame.

**Poison records.** Where the application has a dead-letter topic, a frame carries two more columns from its
source on: `_origin`, the record as it was read, and `_error`, null as long as all is well. What can't be
decoded, or what a Python function raised on, sets `_error`; every later step passes such a row by; the sink
writes `_origin` to the dead-letter topic in place of a result. So one query, with one scan of its sources and
one transaction, writes both. In front of a stateful node the poison records are taken out; a query of their
own writes them. Without a dead-letter topic the first poison record fails the query.

**Where a row is from.** The exactly-once sink asks of rows without state which partition they were read from
(`source`). A merge of two ways from one topic reads it twice, so it marks the ways in the column `_path`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.pipeline.formats.primitives import PrimitiveFormat
from ottla.pipeline.formats.python_types import spark_type
from ottla.pipeline.query.query_progress import OBSERVATION_PREFIX
from ottla.pipeline.sink.dead_letters import (
    DECODE_ERROR,
    ERROR_FIELDS,
    ERROR_TYPE,
    FUNCTION_STAGE,
    KEY_STAGE,
    VALUE_STAGE,
    dead_letter_columns,
    failure_of,
)
from ottla.streams.plan.records import (
    RECORD_COLUMNS,
    Expression,
    PythonFunction,
    PythonRecord,
    record_of_columns,
)
from ottla.streams.plan.topology import (
    Boundary,
    Filter,
    FlatMap,
    Map,
    Merge,
    Node,
    Peek,
    Source,
    TopologyError,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from ottla.pipeline.formats.format import Format

ORIGIN = "_origin"
ERROR = "_error"
PATH = "_path"
COUNT = "dead_letters"
SINK_COLUMNS = ("topic", "key", "value", "timestamp", "headers", "partition")
_RESULT = "_result"


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Where a query's poison records go, and those of which nodes are its to report."""

    topic: str
    nodes: tuple[str, ...]


def read_source(
    source: Source | Boundary, raw: DataFrame, key: Format, value: Format, *, dead_letters: bool
) -> DataFrame:
    """Decode a source's bytes; `raw` has the columns of Spark's Kafka source."""
    from pyspark.sql import functions as F

    topic = _only_topic(source)
    key, value = key.bind(topic, True), value.bind(topic, False)
    plain = [F.col(name) for name in RECORD_COLUMNS if name not in ("key", "value")]
    decoded = raw.select(
        key.decode(_read_once("key", key), F.col("topic"), True).alias("_key"),
        value.decode(_read_once("value", value), F.col("topic"), False).alias("_value"),
        *plain,
        *([F.struct("key", "value", *plain).alias(ORIGIN)] if dead_letters else []),
    )
    wrong_key, wrong_value = F.col("_key.error"), F.col("_value.error")
    if dead_letters:
        error = F.when(wrong_key.isNotNull(), _error(source.name, KEY_STAGE, wrong_key))
        error = error.when(wrong_value.isNotNull(), _error(source.name, VALUE_STAGE, wrong_value))
        frame = decoded.select(
            F.col("_key.value").alias("key"),
            F.col("_value.value").alias("value"),
            *plain,
            F.col(ORIGIN),
            error.cast(ERROR_TYPE).alias(ERROR),
        )
    else:
        frame = decoded.select(
            or_fail(source.name, "key", F.col("_key"), F.col("topic")).alias("key"),
            or_fail(source.name, "value", F.col("_value"), F.col("topic")).alias("value"),
            *plain,
        )
    if isinstance(source, Source) and source.timestamp is not None:
        frame, column = evaluate(frame, source.timestamp, source)
        frame = frame.withColumn("timestamp", column.cast("TIMESTAMP"))
    if source.table:
        kept = F.col("key").isNotNull()
        frame = frame.where(kept | F.col(ERROR).isNotNull() if dead_letters else kept)
    return frame


def _read_once(column: str, format: Format) -> Column:
    """A column of bytes as a format reads it.

    Spark copies a filter's columns below the projection that makes them, and would parse a record once for
    the filter and once for the rest: twice the time for JSON. It leaves be what it can't repeat.
    """
    from pyspark.sql import functions as F

    if isinstance(format, PrimitiveFormat):
        return F.col(column)
    return F.when(F.spark_partition_id() >= 0, F.col(column))


def _only_topic(source: Source | Boundary) -> str | None:
    if isinstance(source, Boundary):
        return source.topic
    return source.topics[0] if len(source.topics) == 1 else None


def or_fail(name: str, part: str, decoded: Column, topic: Column | str) -> Column:
    """The value of what was decoded; where there is an error instead, evaluating it fails the query."""
    from pyspark.sql import functions as F

    place = [F.lit(topic) if isinstance(topic, str) else topic, F.lit("-"), F.col("partition")]
    text = F.concat_ws(
        "",
        F.lit(f"{name}: the {part} of "),
        *(each.cast("STRING") for each in place),
        F.lit(" at offset "),
        F.col("offset").cast("STRING"),
        F.lit(" can't be read: "),
        decoded.getField("error"),
    )
    wrong = decoded.getField("error").isNotNull()
    return F.when(wrong, F.raise_error(text)).otherwise(decoded.getField("value"))


def dead_letters_of(frame: DataFrame, dead_letters: DeadLetters, number_of_frame: int) -> DataFrame:
    """The poison records of one of a query's frames, as the exactly-once sink writes them; counted."""
    from pyspark.sql import functions as F

    dead = dead_letter_columns(ORIGIN, ERROR, dead_letters.topic)
    poison = frame.where(_reported(dead_letters))
    number = F.count(F.lit(1)).alias(COUNT)
    poison = poison.observe(f"{OBSERVATION_PREFIX}dead_letters_{number_of_frame}", number)
    return poison.select(*(dead[name].alias(name) for name in SINK_COLUMNS), _source(frame).alias("source"))


def _reported(dead_letters: DeadLetters) -> Column:
    from pyspark.sql import functions as F

    if not dead_letters.nodes:
        return F.lit(False)
    nodes = ", ".join(f"'{name}'" for name in dead_letters.nodes)  # letters, digits and . _ - alone
    return F.expr(f"coalesce({ERROR}.node IN ({nodes}), false)")


def _source(frame: DataFrame) -> Column:
    from pyspark.sql import functions as F

    topic = F.concat("topic", F.col(PATH)) if PATH in frame.columns else F.col("topic")
    return F.struct(topic.alias("topic"), F.col("partition").alias("partition"))


def with_no_errors(frame: DataFrame) -> DataFrame:
    """A frame behind a stateful node with ORIGIN and ERROR anew; its origin is itself, as JSON."""
    from pyspark.sql import functions as F

    def as_bytes(name: str) -> Column:
        return F.to_json(F.struct(name)).cast("BINARY").alias(name)

    plain = [F.col(name) for name in RECORD_COLUMNS if name not in ("key", "value")]
    origin = F.struct(as_bytes("key"), as_bytes("value"), *plain)
    return frame.withColumns({ORIGIN: origin, ERROR: F.lit(None).cast(ERROR_TYPE)})


def _error(node: str, stage: str, message: Column) -> Column:
    from pyspark.sql import functions as F

    return F.struct(
        F.lit(node).alias("node"),
        F.lit(stage).alias("stage"),
        F.lit(DECODE_ERROR).alias("exception"),
        message.alias("message"),
        F.lit(None).cast("STRING").alias("trace"),
    )


@contextmanager
def naming(node: Node) -> Iterator[None]:
    """Errors of the user's expressions, with the node's name."""
    from pyspark.errors import PySparkException

    try:
        yield
    except TopologyError:
        raise
    except PySparkException as error:
        text = str(error).split(" SQLSTATE")[0].splitlines()
        raise TopologyError(f"{node.name}: {text[0] if text else error}") from error
    except Exception as error:
        raise TopologyError(f"{node.name}: {type(error).__name__}: {error}") from error


def evaluate(frame: DataFrame, expression: Expression, node: Node) -> tuple[DataFrame, Column]:
    """The frame and the column of an expression's values in it; a Python function's errors are taken out."""
    from pyspark.sql import Column
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.functions import pandas_udf

    with naming(node):
        if not isinstance(expression, PythonFunction):
            column = expression(record_of_columns())
            if not isinstance(column, Column):
                raise TopologyError(
                    f"{node.name}: the expression gives {type(column).__name__}, not a column: use "
                    "F.lit() for a constant, python() for a Python function"
                )
            return frame, column
        if expression.vectorized:
            function = pandas_udf(expression.function, spark_type(expression.returns))  # type: ignore[call-overload]
            return frame, function(F.col("key"), F.col("value"))
        return _python_column(frame, expression, node)


def _python_column(frame: DataFrame, function: PythonFunction, node: Node) -> tuple[DataFrame, Column]:
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType, StructField, StructType

    returned = StructType(
        [
            StructField("value", spark_type(function.returns)),
            *(StructField(name, StringType()) for name in ERROR_FIELDS),
        ]
    )
    careful = ERROR in frame.columns
    called = F.udf(
        functools.partial(_call if careful else _call_plainly, function.function), returned, useArrow=True
    )
    record = F.struct(*PythonRecord._fields)
    if not careful:
        return frame.withColumn(_RESULT, called(record)), F.col(_RESULT).getField("value")
    frame = frame.withColumn(_RESULT, F.when(F.col(ERROR).isNull(), called(record)))
    failed = F.col(_RESULT).getField("exception").isNotNull()
    error = F.struct(
        F.lit(node.name).alias("node"), *(F.col(_RESULT).getField(name).alias(name) for name in ERROR_FIELDS)
    )
    return (
        frame.withColumn(ERROR, F.when(failed, error).otherwise(F.col(ERROR))),
        F.col(_RESULT).getField("value"),
    )


def _call(function: Callable[[PythonRecord], Any], row: Any) -> Any:
    try:
        return plain_value(function(_record(row))), None, None, None, None
    except Exception as error:
        failure = failure_of(error)
        return None, FUNCTION_STAGE, failure.class_name, failure.message, failure.stack_trace


def _call_plainly(function: Callable[[PythonRecord], Any], row: Any) -> Any:
    return plain_value(function(_record(row))), None, None, None, None


def _record(row: Any) -> PythonRecord:
    values = row.asDict(recursive=True)
    return PythonRecord(*(values[name] for name in PythonRecord._fields))


def plain_value(value: Any) -> Any:
    """A dataclass as the dictionary that Spark takes for a struct; all else as it is."""
    import dataclasses

    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, list):
        return [plain_value(each) for each in value]
    return value


def apply(node: Filter | Map | FlatMap | Merge | Peek, inputs: Sequence[DataFrame]) -> DataFrame:
    """The frame behind a stateless node."""
    match node:
        case Filter():
            return _filter(node, inputs[0])
        case Map():
            return _map(node, inputs[0])
        case FlatMap():
            return _flat_map(node, inputs[0])
        case Merge():
            with naming(node):
                return _merge(inputs)
        case Peek():
            return _peek(node, inputs[0])


def _merge(inputs: Sequence[DataFrame]) -> DataFrame:
    from pyspark.sql import functions as F

    marked = []
    for number, frame in enumerate(inputs):
        before = F.col(PATH) if PATH in frame.columns else F.lit("")
        marked.append(frame.withColumn(PATH, F.concat(before, F.lit(f"@{number}"))))
    return functools.reduce(lambda one, other: one.unionByName(other), marked)


def _spared(frame: DataFrame, condition: Column) -> Column:
    """`condition`, or the row is a poison record, which goes on to the sink."""
    from pyspark.sql import functions as F

    return condition | F.col(ERROR).isNotNull() if ERROR in frame.columns else condition


def _filter(node: Filter, frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    frame, predicate = evaluate(frame, node.predicate, node)
    with naming(node):
        holds = F.coalesce(predicate, F.lit(False))
        kept = ~holds if node.negated else holds
        if node.table and not node.drops:
            kept_value = F.when(kept & F.col("value").isNotNull(), F.col("value"))
            return frame.withColumn("value", kept_value).drop(_RESULT)
        return frame.where(_spared(frame, kept)).drop(_RESULT)


def _map(node: Map, frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    if node.both is not None:
        frame, both = evaluate(frame, node.both, node)
        with naming(node):
            changed = {"key": both.getField("key"), "value": both.getField("value")}
            return frame.withColumns(changed).drop(_RESULT)
    if node.makes_table:
        return frame.where(_spared(frame, F.col("key").isNotNull()))
    # All expressions see the record as it came, so the new columns are put in their places together.
    changes: dict[str, Column] = {}
    temporary: list[str] = []
    for name, expression in (("key", node.key), ("value", node.value), ("headers", node.headers)):
        if expression is None:
            continue
        frame, column = evaluate(frame, expression, node)
        with naming(node):
            if name == "value" and node.table:
                column = F.when(F.col("value").isNotNull(), column)
            frame = frame.withColumn(f"_new_{name}", column).drop(_RESULT)
        changes[name] = F.col(f"_new_{name}")
        temporary.append(f"_new_{name}")
    return frame.withColumns(changes).drop(*temporary) if changes else frame


def _flat_map(node: FlatMap, frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    frame, records = evaluate(frame, node.records, node)
    with naming(node):
        if ERROR in frame.columns:
            frame = frame.withColumn("_records", records)
            nothing = F.array(F.lit(None).cast(_element_of(frame, "_records")))
            records = F.when(F.col(ERROR).isNotNull(), nothing).otherwise(F.col("_records"))
        frame = frame.withColumn("_one", F.explode(records)).drop(_RESULT, "_records")
        if node.with_keys:
            frame = frame.withColumns({"key": F.col("_one.key"), "value": F.col("_one.value")})
        else:
            frame = frame.withColumn("value", F.col("_one"))
        return frame.drop("_one")


def _element_of(frame: DataFrame, column: str) -> DataType:
    from pyspark.sql.types import ArrayType

    found = frame.schema[column].dataType
    if not isinstance(found, ArrayType):
        raise TopologyError(f"the expression gives {found.simpleString()}, not an array")
    return found.elementType


def _peek(node: Peek, frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    seen = F.udf(functools.partial(_seen, node.action), "BOOLEAN", useArrow=True).asNondeterministic()
    record = F.struct(*PythonRecord._fields)
    return frame.where(_spared(frame, seen(record)))


def _seen(action: Callable[[Any], None], row: Any) -> bool:
    action(_record(row))
    return True


def check_fits(what: str, found: DataType, wanted: DataType) -> None:
    """Raise TopologyError where values can't be written as another type: Spark would make nulls of some."""
    from pyspark.sql import types as T

    numbers = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
    fits = type(found) is type(wanted) or isinstance(found, T.NullType)
    match found, wanted:
        case _, T.NullType() | T.VariantType():
            fits = True
        case T.StructType(), T.StructType():
            for field in wanted.fields:
                if field.name in found.names:
                    check_fits(f"{what}.{field.name}", found[field.name].dataType, field.dataType)
                elif not field.nullable:
                    raise TopologyError(f"{what} has no field {field.name}, which its format needs")
        case T.ArrayType(), T.ArrayType():
            check_fits(f"{what}[]", found.elementType, wanted.elementType)
        case T.MapType(), T.MapType():
            check_fits(f"{what}'s keys", found.keyType, wanted.keyType)
            check_fits(f"{what}'s values", found.valueType, wanted.valueType)
        case _, T.DoubleType():
            fits |= isinstance(found, T.FloatType | T.ByteType | T.ShortType | T.IntegerType)
        case _ if isinstance(found, numbers) and isinstance(wanted, numbers):
            fits = numbers.index(type(found)) <= numbers.index(type(wanted))
    if not fits:
        given, taken = found.simpleString().upper(), wanted.simpleString().upper()
        raise TopologyError(f"{what} is {given}, its format takes {taken}: cast it, or give another format")


def to_topic(
    frame: DataFrame,
    node: Node,
    topic: str | Expression,
    key: Format,
    value: Format,
    partition: Expression | None,
    dead_letters: DeadLetters | None,
    with_source: bool,
) -> DataFrame:
    """The rows that a sink writes: SINK_COLUMNS, poison records among them; `source` where rows have one."""
    from pyspark.sql import functions as F

    if isinstance(topic, str):
        target, name = F.lit(topic), topic
    else:
        frame, target = evaluate(frame, topic, node)
        frame = frame.withColumn("_topic", target).drop(_RESULT)
        target, name = F.col("_topic"), ""
        text = f"{node.name}: the topic of a record is null"
        target = F.when(target.isNull(), F.raise_error(F.lit(text))).otherwise(target)
    place = F.lit(None).cast("INT")
    if partition is not None:
        frame, place = evaluate(frame, partition, node)
        frame = frame.withColumn("_partition", place).drop(_RESULT)
        place = F.col("_partition").cast("INT")
    with naming(node):
        bound = name or None
        key, value = key.bind(bound, True), value.bind(bound, False)
        for part, given in (("key", key), ("value", value)):
            check_fits(f"{node.name}: the {part}", frame.schema[part].dataType, given.data_type())
        columns = {
            "topic": target,
            "key": key.encode(F.col("key"), name, True),
            "value": value.encode(F.col("value"), name, False),
            "timestamp": F.col("timestamp"),
            "headers": F.col("headers"),
            "partition": place,
        }
        if ERROR in frame.columns:
            assert dead_letters is not None
            well = F.col(ERROR).isNull()
            reported = _reported(dead_letters)
            frame = frame.where(well | reported)
            frame = frame.observe(f"{OBSERVATION_PREFIX}dead_letters", F.count_if(reported).alias(COUNT))
            dead = dead_letter_columns(ORIGIN, ERROR, dead_letters.topic)
            columns = {each: F.when(well, columns[each]).otherwise(dead[each]) for each in SINK_COLUMNS}
        source = [_source(frame).alias("source")] if with_source else []
        return frame.select(*(columns[each].alias(each) for each in SINK_COLUMNS), *source)
