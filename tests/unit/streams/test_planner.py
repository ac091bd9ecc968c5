"""How a topology is cut into queries. No Spark in here: expressions are not called."""

from __future__ import annotations

import pytest

from ottla.streams.dsl import Stream, Streams
from ottla.streams.plan.node import TopologyError
from ottla.streams.plan.nodes.aggregate import NativeAggregate
from ottla.streams.plan.nodes.source import Boundary
from ottla.streams.plan.planner import plan


def key(record: object) -> object:
    raise AssertionError("a planner calls no expression")


def queries(app: Streams) -> dict[str, tuple[list[str], list[str]]]:
    """By a query's name: the topics that it reads and the nodes that it writes."""
    return {
        query.name: (query.topics_read, [sink.name for sink in query.sinks])
        for query in plan(app.topology()).queries
    }


def test_each_sink_is_a_query() -> None:
    app = Streams("shop")
    orders = app.stream("orders", value=str)
    branches = orders.branch(paid=key, open=key)
    branches["paid"].to("paid", name="to-paid")
    branches["open"].map_values(key).to("open", name="to-open")

    assert queries(app) == {"to-paid": (["orders"], ["to-paid"]), "to-open": (["orders"], ["to-open"])}


def test_an_aggregate_and_its_sink_are_one_query() -> None:
    app = Streams("words")
    counts = app.stream("lines", value=str).group_by(key).count(name="counts")
    counts.filter(key).to("counts", name="out")

    (query,) = plan(app.topology()).queries

    assert query.topics_read == ["lines"]
    assert isinstance(query.stateful, NativeAggregate)


def test_an_aggregate_of_an_aggregate_goes_through_an_internal_topic() -> None:
    app = Streams("words")
    counts = app.stream("lines", value=str).group_by(key).count(name="counts")
    counts.to_stream(key=key).group_by_key().count(name="counts-of-counts").to("out", name="out")

    assert queries(app) == {
        "counts": (["lines"], ["words-counts-changelog"]),
        "out": (["words-counts-changelog"], ["out"]),
    }


def test_a_table_that_two_read_is_computed_once() -> None:
    app = Streams("words")
    counts = app.stream("lines", value=str).group_by(key).count(name="counts")
    counts.to("all", name="all")
    counts.filter(key).to("some", name="some")

    found = queries(app)

    assert found == {
        "counts": (["lines"], ["words-counts-changelog"]),
        "all": (["words-counts-changelog"], ["all"]),
        "some": (["words-counts-changelog"], ["some"]),
    }


def test_a_materialized_table_is_written_to_its_changelog() -> None:
    app = Streams("words")
    counts = app.stream("lines", value=str).group_by(key).count(name="count")
    counts.materialize("counts")

    planned = plan(app.topology())

    assert [each.topic for each in planned.internal_topics] == ["words-count-changelog"]
    assert planned.materialized["counts"].topic == "words-count-changelog"


def test_queries_come_before_those_that_read_them() -> None:
    app = Streams("chain")
    table = app.stream("in", value=str).group_by(key).count(name="first")
    for number in range(5):
        table = table.to_stream(key=key).group_by_key().count(name=f"next-{number}")
    table.to("out", name="out")

    planned = plan(app.topology())

    written: set[str] = {"in"}
    for query in planned.queries:
        assert set(query.topics_read) <= written
        written |= {sink.topic for sink in query.sinks if isinstance(sink.topic, str)}
    assert len(planned.queries) == 6


def test_a_merge_with_state_behind_it_reads_the_state_from_a_topic() -> None:
    app = Streams("mixed")
    counts = app.stream("in", value=int).group_by_key().count(name="counts").to_stream()
    app.stream("more", value=int).merge(counts).to("out", name="out")

    assert queries(app) == {
        "counts": (["in"], ["mixed-counts-changelog"]),
        "out": (["more", "mixed-counts-changelog"], ["out"]),
    }


def test_each_cut_is_one_node_however_many_read_it() -> None:
    app = Streams("words")
    counts = app.stream("lines", value=str).group_by(key).count(name="counts")
    counts.to("all", name="all")
    counts.to("more", name="more")

    planned = plan(app.topology())

    boundaries = {id(node) for query in planned.queries for node in query.nodes if isinstance(node, Boundary)}
    assert len(boundaries) == 1


@pytest.mark.parametrize("name", ["", "a b", "ä", "a/b"])
def test_a_name_is_refused_that_no_topic_may_have(name: str) -> None:
    with pytest.raises(TopologyError):
        Streams(name)
    with pytest.raises(TopologyError):
        Streams("app").stream("in", name=name)


def test_two_nodes_of_one_name_are_refused() -> None:
    app = Streams("app")
    app.stream("in", name="twice")
    with pytest.raises(TopologyError, match="two nodes are named twice"):
        app.stream("in", name="twice")


def test_an_application_that_writes_nowhere_is_told_so() -> None:
    app = Streams("app")
    stream: Stream = app.stream("in")
    stream.filter(key)
    with pytest.raises(TopologyError, match="writes nowhere"):
        app.topology()
