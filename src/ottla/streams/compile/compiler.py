"""Compile one planned query into a frame of the records that it writes.

Each kind of node has a compiler (compilers.py); here they are put together, and the poison records are taken
out in front of the query's state. Frames between nodes have RECORD_COLUMNS; those that are written have the
sink's: topic, key, value, timestamp, headers, partition.

`QueryInputs` says where records come from: it differs between an application on a cluster and the test kit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ottla.streams.compile.compilers import COMPILERS
from ottla.streams.compile.expressions import naming
from ottla.streams.compile.given import Given, Made
from ottla.streams.compile.inputs import QueryInputs
from ottla.streams.compile.poison import (
    ERROR,
    ORIGIN,
    PATH,
    DeadLetters,
    dead_letters_of,
    with_no_errors,
)
from ottla.streams.compile.query_facts import may_meet_poison
from ottla.streams.plan.node import Node
from ottla.streams.plan.topology import in_order

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ottla.streams.plan.planner import PlannedQuery


@dataclass(frozen=True, slots=True)
class CompiledState:
    """The stateful node of a query. before: the frames of its inputs. behind: the node itself."""

    node: Node
    before: tuple[DataFrame, ...]
    behind: Made
    poison: DeadLetters | None
    """Where poison records go that can't pass the node; None for a query that reports none."""

    @property
    def may_have_dead_letters(self) -> bool:
        """Whether poison records may come to the node."""
        return any(_may_be_poison(each, self.poison) for each in self.node.inputs)

    def dead_letters(self) -> tuple[DataFrame, ...]:
        """The poison records in front of the node, as the exactly-once sink writes them."""
        return _dead_letters_before(self.node, self.before, self.poison)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A query ready to be written.

    written: its sink, with the output mode of the whole query. state: its poison records are none that the
    sink's frame could carry: they are to be written by another query. global_tables: the rows of global
    tables, as they are in the joins' plans: to be kept in memory (global_snapshots.py).
    """

    written: Made
    state: CompiledState | None
    global_tables: tuple[tuple[Node, DataFrame], ...]


def compile_query(
    query: PlannedQuery, inputs: QueryInputs, reported: Collection[str] | None = None
) -> Compiled:
    """The query as a frame. Raises TopologyError with the node's name where Spark refuses an expression.

    `reported`: the nodes whose poison records this query writes to the dead-letter topic, because several
    queries may have a node in common; None for all of its own.
    """
    poison = _poison_of(query, inputs, reported)
    made: dict[int, Made] = {}
    state: CompiledState | None = None
    for node in query.nodes:
        frames = [made[id(each)].frame for each in node.inputs]
        with naming(node):
            if node.facts.state is None:
                given = Given(frames, inputs, poison, stateless=state is None)
                made[id(node)] = COMPILERS[type(node)](node, given)
                continue
            one = COMPILERS[type(node)](node, Given([_well(frame, poison) for frame in frames], inputs))
            if poison is not None:
                # Behind state no record is poison yet; the record that a row came from is not known any more.
                one = replace(one, frame=with_no_errors(one.frame))
            made[id(node)] = one
            state = CompiledState(node, tuple(frames), one, poison)
    (sink,) = query.sinks
    written = made[id(sink)]
    if state is not None:
        written = replace(written, output_mode=state.behind.output_mode)
    tables = tuple((node, made[id(node)].frame) for node in query.global_tables)
    return Compiled(written, state, tables)


def compile_dead_letters(
    query: PlannedQuery, inputs: QueryInputs, reported: Collection[str] | None = None
) -> tuple[DataFrame, ...]:
    """The poison records in front of a query's state alone; see `compile_query`."""
    poison = _poison_of(query, inputs, reported)
    made: dict[int, Made] = {}
    for node in query.nodes:
        frames = [made[id(each)].frame for each in node.inputs]
        with naming(node):
            if node.facts.state is not None:
                return _dead_letters_before(node, frames, poison)
            made[id(node)] = COMPILERS[type(node)](node, Given(frames, inputs, poison, stateless=True))
    return ()


def _poison_of(
    query: PlannedQuery, inputs: QueryInputs, reported: Collection[str] | None
) -> DeadLetters | None:
    """Where the query's poison records go."""
    (sink,) = query.sinks
    writes = sink.facts.writes
    if inputs.dead_letters is None or writes is None or not writes.kafka:
        return None
    names = {node.name for node in query.nodes} if reported is None else reported
    return DeadLetters(inputs.dead_letters, tuple(sorted(names)))


def _dead_letters_before(
    node: Node, frames: Sequence[DataFrame], poison: DeadLetters | None
) -> tuple[DataFrame, ...]:
    """The poison records that a stateful node's inputs carry."""
    dead: list[DataFrame] = []
    for each, frame in zip(node.inputs, frames, strict=True):
        if poison is not None and _may_be_poison(each, poison):
            dead.append(dead_letters_of(frame, poison, len(dead)))
    return tuple(dead)


def _may_be_poison(node: Node, poison: DeadLetters | None) -> bool:
    """Whether there may be poison records among a node's."""
    return poison is not None and may_meet_poison(in_order([node]), set(poison.nodes))


def _well(frame: DataFrame, poison: DeadLetters | None) -> DataFrame:
    """A frame without its poison records."""
    from pyspark.sql import functions as F

    if poison is None:
        return frame.drop(PATH)
    return frame.where(F.col(ERROR).isNull()).drop(ERROR, ORIGIN, PATH)
