"""Nodes that take several operators: joins by a foreign key, tables that are grouped anew.

Between the operators lie internal topics: the planner puts them where one stateful node reads another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.streams.operators.aggregation import Aggregation
from ottla.streams.operators.foreign_key_join import Matches, Resolution, Subscriptions
from ottla.streams.operators.grouped_table import GroupedTableAggregate
from ottla.streams.operators.table_changes import TableChanges
from ottla.streams.plan.node import Node, TopologyError
from ottla.streams.plan.nodes.keyed import InputTypes, Keyed, KeyedOutput, OutputType, TypeOf
from ottla.streams.plan.nodes.stateless import Becomes, Changes, Map
from ottla.streams.plan.records import Expression, PythonFunction, Record

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType


def foreign_key_join(
    name: str, left: Node, right: Node, foreign_key: Expression, *, left_join: bool
) -> Keyed:
    """Rows of `left` with the row of `right` that `foreign_key` names; see foreign_key_join.py."""
    expression = _column(name, foreign_key)

    def with_foreign_key(record: Record) -> Column:
        from pyspark.sql import functions as F

        return F.struct(expression(record).alias("foreign_key"), record.value.alias("value"))

    keyed = Map(f"{name}-foreign-key", left, Changes(value=with_foreign_key), Becomes.SAME)
    subscriptions = Keyed(
        f"{name}-subscriptions",
        (keyed,),
        Subscriptions(),
        KeyedOutput(lambda inputs: _field(inputs[0][1], "foreign_key"), _subscription_type, table=False),
    )
    matches = Keyed(
        f"{name}-matches",
        (right, subscriptions),
        Matches(),
        KeyedOutput(lambda inputs: _field(inputs[1][1], "left_key"), _answer_type, table=False),
    )
    pairs = KeyedOutput(TypeOf.KEY, _pair_type, table=True)
    return Keyed(name, (matches,), Resolution(left_join), pairs)


def changes_by_group(name: str, table: Node, key: Expression, value: Expression | None) -> Keyed:
    """A table's changes by a new key: the input of `grouped_aggregate`."""
    key_of = _column(name, key)
    value_of = None if value is None else _column(name, value)

    def with_group(record: Record) -> Column:
        from pyspark.sql import functions as F

        grouped = record.value if value_of is None else value_of(record)
        return F.struct(key_of(record).alias("group_key"), grouped.alias("value"))

    return Keyed(
        name,
        (Map(f"{name}-key", table, Changes(value=with_group), Becomes.SAME),),
        TableChanges(),
        KeyedOutput(lambda inputs: _field(inputs[0][1], "group_key"), _change_type, table=False),
    )


def grouped_aggregate(
    name: str, changes: Keyed, aggregation: Aggregation, returns: OutputType | None
) -> Keyed:
    """The aggregate of a regrouped table; without `returns` its values are of the rows' type."""

    def type_of_rows(inputs: InputTypes) -> DataType:
        return _field(inputs[0][1], "add")

    value_type = type_of_rows if returns is None else returns
    operator = GroupedTableAggregate(aggregation)
    return Keyed(name, (changes,), operator, KeyedOutput(TypeOf.KEY, value_type, table=True))


def _column(name: str, expression: Expression) -> Callable[[Record], Column]:
    if isinstance(expression, PythonFunction):
        raise TopologyError(
            f"{name}: the key of another table's row is an expression; compute it with map_values() first"
        )
    return expression


def _field(struct: DataType, name: str) -> DataType:
    from pyspark.sql.types import StructType

    assert isinstance(struct, StructType)
    return struct[name].dataType


def _struct(fields: dict[str, DataType]) -> DataType:
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(name, data_type) for name, data_type in fields.items()])


def _subscription_type(inputs: InputTypes) -> DataType:
    from pyspark.sql.types import BooleanType, LongType

    return _struct(
        {
            "left_key": inputs[0][0],
            "version": LongType(),
            "subscribe": BooleanType(),
            "answer": BooleanType(),
            "value": _field(inputs[0][1], "value"),
        }
    )


def _answer_type(inputs: InputTypes) -> DataType:
    from pyspark.sql.types import LongType

    return _struct({"version": LongType(), "left": _field(inputs[1][1], "value"), "right": inputs[0][1]})


def _pair_type(inputs: InputTypes) -> DataType:
    return _struct({side: _field(inputs[0][1], side) for side in ("left", "right")})


def _change_type(inputs: InputTypes) -> DataType:
    value = _field(inputs[0][1], "value")
    return _struct({"subtract": value, "add": value})
