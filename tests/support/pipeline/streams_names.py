"""The names of a topology's files and topics, as data, to be compared with those of earlier versions.

Names and numbers of nodes name topics, groups and checkpoints; fingerprints lie beside checkpoints. An
application that runs must find them again after any change of the code, so `streams_names.json` is made anew
only where such a change is meant: `python -m support.pipeline.streams_names` in tests/.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from ottla.pipeline.query.realtime import Wanted
from ottla.streams.compile.query_facts import may_meet_poison, mode_of
from ottla.streams.dsl import Streams
from ottla.streams.operators.processor import Processor, ProcessorContext, ProcessorRecord
from ottla.streams.operators.windows import hopping, session, sliding, tumbling, within
from ottla.streams.plan.node import event_time_of
from ottla.streams.plan.nodes.aggregate import Emit
from ottla.streams.plan.planner import PlannedQuery, plan
from ottla.streams.plan.records import PythonRecord, python, vectorized
from ottla.streams.plan.topology import Topology
from ottla.streams.plan.windowed_tables import windowed_aggregate
from ottla.streams.run.fingerprints import fingerprint
from ottla.streams.run.internal_topics import topic_of
from ottla.streams.run.state_stores import settings_for
from ottla.streams.show.describe import as_json, describe, mermaid

KEPT: Final = Path(__file__).with_name("streams_names.json")


@dataclasses.dataclass(frozen=True)
class Order:
    """An order of a customer."""

    customer: str
    amount: float


class Alarm(Processor):
    """A processor with stores."""

    stores = ("seen", "missing")
    processing_time = True

    def process(self, record: ProcessorRecord, context: ProcessorContext) -> None: ...


class Plain(Processor):
    """A processor without anything."""

    def process(self, record: ProcessorRecord, context: ProcessorContext) -> None: ...


def is_large(record: PythonRecord) -> bool:
    """A function of a user."""
    return bool(record.value["amount"] > 100)


def lengths(keys: Any, values: Any) -> Any:
    """A vectorized function of a user."""
    return values


def expression(record: Any) -> Any:
    """Not called: a topology is planned and described without Spark."""
    raise AssertionError("no expression is called")


def add(one: Any, other: Any) -> Any:
    """An aggregator."""
    return one + other


MINUTE: Final = timedelta(minutes=1)


def sources_and_stateless(app: Streams) -> None:
    """Every source, every node without state, every sink."""
    orders = app.stream("orders", "more-orders", key=str, value=Order)
    app.stream(pattern="clicks-.*", start="latest").to(expression, partition=expression)
    app.stream("a", start=datetime(2026, 1, 31, 12, 0, 0, 5_000, tzinfo=UTC)).through("b", name="again").to(
        "c"
    )
    timed = app.stream("timed", value=float, timestamp=python(is_large, returns="TIMESTAMP"))
    timed.filter_not(python(is_large, returns=bool)).peek(print).to(
        "timed-out", value=float, name="timed-out"
    )
    mapped = orders.map(python(is_large, returns="STRUCT<key: STRING, value: STRING>"))
    mapped.merge(orders.map(key=expression, headers=expression, value=expression)).to("mapped", key=str)
    orders.flat_map(python(is_large, returns="ARRAY<INT>")).to(
        "flat", partition=vectorized(lengths, returns=int)
    )
    orders.flat_map_values(vectorized(lengths, returns="ARRAY<INT>")).select_key(expression).print()
    for branch in orders.branch(large=expression, rest=expression).values():
        branch.map_values(vectorized(lengths, returns=int)).to("branches", value=int)
    rates = app.global_table("rates", key=str, value=float)
    orders.join_global(rates, expression).to("euros")
    orders.left_join_global(rates, python(is_large, returns=str), add).to("dollars")
    app.table("plain").filter(expression).map_values(expression).to_stream(key=expression).to("changes")


def aggregates(app: Streams) -> None:
    """Native ones and those in Python, over each kind of windows."""
    lines = app.stream("lines", key=str, value=str, name="lines")
    grouped = lines.group_by_key()
    grouped.count().to("a")
    grouped.sum(expression).to("b")
    grouped.reduce(add).to("c")
    lines.group_by(expression).aggregate(int, add, returns=int).to("d")
    every = (tumbling(MINUTE), hopping(2 * MINUTE, MINUTE, grace=MINUTE), sliding(MINUTE), session(MINUTE))
    for number, windows in enumerate(every):
        over = grouped.windowed_by(windows)
        over.count(name=f"count-{number}").filter(expression).to("counts")
        over.count(emit=Emit.WINDOW_CLOSE).to("closed")
        over.reduce(add).to("reduced")
        over.aggregate(int, add, returns=int, merger=add).suppress().to("suppressed")
        over.reduce(add).filter(expression).map_values(expression).suppress(name=f"last-{number}").to("last")
    native = grouped.windowed_by(tumbling(MINUTE)).agg(expression, name="native")
    native.suppress(time_limit=MINUTE, max_records=7).to("held")
    native.filter(expression).suppress().materialize("native")
    grouped.windowed_by(session(MINUTE)).max(expression, emit=Emit.WINDOW_CLOSE).to("sessions")


def joins_and_tables(app: Streams) -> None:
    """Joins of streams and tables, regrouped tables, processors; nodes cut, materialized, read twice."""
    left, right = app.stream("left", key=str, value=str), app.stream("right", key=str, value=Order)
    near = within(MINUTE, grace=MINUTE)
    left.join(right, within=near).group_by_key().count(name="pairs").materialize("pairs")
    left.left_join(right, add, within=near, name="lefts").peek(print).to("lefts")
    left.outer_join(right, within=near).join(right, within=near).to("thrice")
    users = app.table("users", key=str, value=str, name="users")
    regions = app.table("regions", key=str, value=str, name="regions")
    left.join_table(users).to("with-users")
    left.left_join_table(users, add, grace=MINUTE).to("with-users-of-then")
    users.join(regions).left_join(regions, add).outer_join(users).to("rows")
    users.join_foreign(regions, expression).to("foreign")
    users.left_join_foreign(regions, expression, add, name="owned").materialize("owned")
    users.group_by(expression).count(name="by-region").to("by-region")
    users.group_by(expression, expression).reduce(add, add).to("reduced")
    users.group_by(expression, name="g").aggregate(int, add, add, returns=int).suppress(time_limit=MINUTE).to(
        "x"
    )
    left.to_table().materialize("latest")
    left.process(Alarm(), key=str, value=str).to("alarms")
    left.process(Plain(), key=str, value=str, name="plain").process(Plain(), key=str, value=str).to("plain")


APPLICATIONS: Final[tuple[Callable[[Streams], None], ...]] = (
    sources_and_stateless,
    aggregates,
    joins_and_tables,
)


@dataclasses.dataclass(frozen=True)
class Frame:
    """A frame as a fingerprint looks at it."""

    schema: Any


def names_of(build: Callable[[Streams], None]) -> dict[str, Any]:
    """All names of an application, and its description."""
    app = Streams(build.__name__)
    build(app)
    topology = app.topology()
    return {
        "text": describe(topology).splitlines(),
        "json": hashlib.sha256(as_json(topology).encode()).hexdigest(),
        "mermaid": hashlib.sha256(mermaid(topology).encode()).hexdigest(),
        "queries": [_query(each) for each in plan(topology).queries],
        "topics": [dataclasses.asdict(topic_of(each, 4)) for each in plan(topology).internal_topics],
        "windowed": _windowed(topology),
    }


def _windowed(topology: Topology) -> dict[str, str | None]:
    found = {node.name: windowed_aggregate(node) for node in topology.nodes()}
    return {name: None if node is None else node.name for name, node in found.items()}


def _query(query: PlannedQuery) -> dict[str, Any]:
    mode = mode_of(query, "4.1.0", Wanted.AUTO, exactly_once=False, source_partitions=3)
    event_time = event_time_of(query.stateful)
    return {
        "name": query.name,
        "nodes": [[type(node).__name__, node.name, node.table] for node in query.nodes],
        "reads": query.topics_read,
        "sources": [each.name for each in query.sources],
        "stateful": None if query.stateful is None else query.stateful.name,
        "mode": [mode.kind.value, mode.reason],
        "event_time": None if event_time is None else dataclasses.asdict(event_time),
        "poison": [node.name for node in query.nodes if may_meet_poison([node], {node.name})],
        "fingerprint": _fingerprint(query),
        "store": dict(settings_for(query.stateful, "4.0.1")),
    }


def _fingerprint(query: PlannedQuery) -> Any:
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    if query.stateful is None:
        return None
    types = (StringType(), LongType())
    frames: list[Any] = [
        Frame(StructType([StructField("key", StringType()), StructField("value", types[number % 2])]))
        for number, _ in enumerate(query.stateful.inputs)
    ]
    written: Any = Frame(StructType([StructField("key", LongType()), StructField("value", StringType())]))
    return fingerprint(query.stateful, frames, written, 5, heartbeats=True)


def kept_text() -> str:
    """All applications as JSON, a line for each query, topic or line of text."""
    return (
        "{\n"
        + ",\n".join(f'"{each.__name__}": {_as_lines(names_of(each))}' for each in APPLICATIONS)
        + "\n}\n"
    )


def _as_lines(parts: dict[str, Any]) -> str:
    return "{\n" + ",\n".join(f'"{name}": {_lines(part)}' for name, part in parts.items()) + "\n}"


def _lines(part: Any) -> str:
    if not isinstance(part, list):
        return json.dumps(part, ensure_ascii=False)
    return "[\n" + ",\n".join(json.dumps(each, ensure_ascii=False) for each in part) + "\n]"


if __name__ == "__main__":
    KEPT.write_text(kept_text(), encoding="utf-8")
