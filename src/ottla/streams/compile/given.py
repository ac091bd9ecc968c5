"""The arguments and the result of a node's compiler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ottla.streams.compile.inputs import QueryInputs
from ottla.streams.compile.poison import DeadLetters

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ottla.streams.compile.inputs import Types


@dataclass(frozen=True, slots=True)
class Given:
    """The query around a node that is compiled.

    frames: those of the node's inputs, with RECORD_COLUMNS; for a stateful node without poison records.
    dead_letters: None where a poison record fails the query; elsewhere frames have ORIGIN and ERROR too.
    stateless: no node of the query has state, so a row has the place that it was read from.
    """

    frames: Sequence[DataFrame]
    query: QueryInputs
    dead_letters: DeadLetters | None = None
    stateless: bool = True


@dataclass(frozen=True, slots=True)
class Made:
    """A compiled node.

    frame: with RECORD_COLUMNS, and of a sink to Kafka, SINK_COLUMNS. output_mode: that the query needs for
    it. types: by internal topic, key and value type of the records written there. writer: of a sink of
    Spark's.
    """

    frame: DataFrame
    output_mode: Literal["append", "update"] = "append"
    types: Mapping[str, Types] = field(default_factory=dict)
    writer: Callable[[DataFrame], DataStreamWriter] | None = None


NodeCompiler: TypeAlias = Callable[[Any, Given], Made]
"""Makes a node's frame. Raises TopologyError; errors of Spark's get the node's name from its caller."""
