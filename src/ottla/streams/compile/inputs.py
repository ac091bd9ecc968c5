"""The inputs that a query is compiled over: frames of its topics, and the types of internal topics.

An application on a cluster and the test kit each make them in their own way; compilation only reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ottla.streams.plan.node import Node, TopologyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from ottla.streams.operators.operator import KeyedOperator

    Types: TypeAlias = tuple[DataType, DataType]


class KeyedHost(Protocol):
    """Runs operators in Python; see `keyed_host.run_keyed`."""

    def __call__(
        self,
        inputs: Sequence[DataFrame],
        operator: KeyedOperator,
        *,
        name: str,
        key_type: DataType,
        value_type: DataType,
        grace_ms: int | None = None,
        heartbeats: DataFrame | None = None,
    ) -> DataFrame: ...


@dataclass(frozen=True, slots=True)
class QueryInputs:
    """The inputs of one query.

    frames: the bytes that a node reads of its topics: key, value, topic, partition, offset, timestamp,
    headers; for a global table the whole topic, read anew for every batch. types: by internal topic, the key
    and value type that the queries before write. heartbeats: a stream of one column `timestamp` that moves
    event time on when input pauses, or None. dead_letters: the topic for records that can't be read; None:
    they fail the query. keyed_host: runs operators in Python; None: Spark does. observes_written: whether the
    timestamps of the records that are written are observed, for the query's latency.
    """

    frames: Mapping[Node, DataFrame]
    types: Mapping[str, Types]
    heartbeats: DataFrame | None = None
    dead_letters: str | None = None
    keyed_host: KeyedHost | None = None
    observes_written: bool = False

    def types_of(self, topic: str) -> Types:
        """Key and value type of an internal topic's records. Raises TopologyError before they are known."""
        found = self.types.get(topic)
        if found is None:
            raise TopologyError(f"{topic} is read before it is written: a cycle?")
        return found
