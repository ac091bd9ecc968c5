"""A topology as text, JSON, Mermaid and a picture."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from ottla.streams.dsl import Streams
from ottla.streams.operators.processor import Processor, ProcessorContext, ProcessorRecord
from ottla.streams.operators.windows import hopping, session, sliding, within
from ottla.streams.operators.words import duration
from ottla.streams.plan.nodes.aggregate import Emit
from ottla.streams.plan.records import PythonRecord, python, vectorized
from ottla.streams.show.describe import as_json, describe, mermaid
from ottla.streams.show.picture import picture, picture_html


@dataclass(frozen=True)
class Order:
    """An order of a customer."""

    customer: str
    amount: float


def is_large(record: PythonRecord) -> bool:
    return bool(record.value["amount"] > 100)


def word_count() -> Streams:
    app = Streams("word-count")
    words = app.stream("lines", value=str, name="lines").flat_map_values(lambda r: r.value, name="words")
    words.group_by(lambda r: r.value, name="by-word").count(name="counts").to(
        "counts", key=str, value=int, name="out"
    )
    return app


def shop() -> Streams:
    """Two streams joined, a global table, windows; a materialized table that two queries read."""
    app = Streams("shop")
    orders = app.stream("orders", key=str, value=Order, name="orders")
    payments = app.stream("payments", key=str, value=Order, name="payments", start="latest")
    rates = app.global_table("rates", key=str, value=float, name="rates")
    paid = orders.join(
        payments, within=within(timedelta(minutes=10), grace=timedelta(minutes=1)), name="paid"
    )
    euros = paid.join_global(rates, lambda r: r.value, name="euros")
    euros.filter(python(is_large, returns="BOOLEAN"), name="large").to("large", key=str, name="large-out")
    windows = hopping(timedelta(minutes=5), timedelta(minutes=1), grace=timedelta(seconds=90))
    revenue = paid.group_by_key().windowed_by(windows).count(name="revenue").materialize("revenue-by-user")
    revenue.filter(lambda r: r.value > 3, name="busy").to_stream(name="busy-changes").print(name="shown")
    return app


def test_a_word_count_reads_like_this() -> None:
    assert (
        describe(word_count().topology())
        == """\
word-count: 1 query

query out: micro-batches (counts keeps state)
  lines                              reads topic lines from the beginning; key bytes, value text
  words           <- lines           any number of values for each record; native
  by-word         <- words           new key; native
  counts          <- by-word         counts records by key; native
                                     keeps one row for each key, for ever
                                     sends, after each batch, the new value of each key that it changed
  to-stream-0005  <- counts          the changes as a stream; native
  out             <- to-stream-0005  writes topic counts, exactly once; key text, value int64
"""
    )


def test_several_queries_and_the_topics_between_them_are_described() -> None:
    assert (
        describe(shop().topology())
        == """\
shop: 4 queries, 2 internal topics

query paid: micro-batches (paid keeps state)
  orders                                      reads topic orders from the beginning; key text, value json
  payments                                    reads topic payments from the end; key text, value json
  paid                   <- orders, payments  pairs of orders and payments, by key; native
                                              records at most 10 min apart, closed when event time has passed the end by 1 min
                                              keeps the records of both streams, until none can meet them any more
                                              sends each pair at once
  shop-paid-repartition  <- paid              writes the internal topic, exactly once

query revenue: micro-batches (revenue keeps state)
  paid-repartition                             reads what paid wrote
  revenue                 <- paid-repartition  counts records by key and window; native
                                               hopping windows of 5 min, one every 1 min, closed when event time has passed the end by 1 min 30 s
                                               keeps one row for each key and window, until the window is closed
                                               sends, after each batch, the new value of each key that it changed
  shop-revenue-changelog  <- revenue           writes the internal topic, exactly once

query large-out: micro-batches (euros joins a global table)
  paid-repartition                              reads what paid wrote
  rates                                         the whole topic rates, on every machine; key text, value float64
  euros             <- paid-repartition, rates  each record with its row of rates; native
  large             <- euros                    records for which the predicate is_large holds; Python
  large-out         <- large                    writes topic large, exactly once; key text, value bytes

query shown: micro-batches (shown is a sink of Spark's)
  revenue-changelog                        reads what revenue wrote
  busy               <- revenue-changelog  records for which the predicate holds, others become tombstones; native
  busy-changes       <- busy               the changes as a stream; native
  shown              <- busy-changes       writes a sink of Spark's: as often as that sink says

internal topics
  shop-paid-repartition   not compacted; written by paid; read by revenue, large-out
  shop-revenue-changelog  compacted; written by revenue; read by shown; asked as revenue-by-user
"""  # noqa: E501 - as it is shown
    )


class Alarm(Processor):
    """Only its name and stores are shown."""

    stores = ("last",)

    def process(self, record: ProcessorRecord, context: ProcessorContext) -> None: ...


def sources(app: Streams) -> None:
    app.stream("a", "b", start=datetime(2026, 1, 31, 12, tzinfo=UTC)).to("out")
    app.stream(pattern="clicks-.*", start="latest").to("out")


def python_everywhere(app: Streams) -> None:
    lines = app.stream("lines", value=str)
    lines.map(python(is_large, returns="STRUCT<key: STRING, value: STRING>")).to("out")
    lines.map_values(vectorized(len, returns="BIGINT")).to("out", value=int)
    lines.peek(print).to("out", value=str)


def sessions(app: Streams) -> None:
    grouped = app.stream("lines", key=str, value=str).group_by_key()
    grouped.windowed_by(session(timedelta(minutes=30))).count(emit=Emit.WINDOW_CLOSE).to("out")
    grouped.windowed_by(sliding(timedelta(milliseconds=1500))).count(name="slid").to("out")


def tables(app: Streams) -> None:
    users = app.table("users", key=str, value=str, name="users")
    regions = app.table("regions", key=str, value=str, name="regions")
    views = app.stream("views", key=str, value=str, name="views")
    views.left_join_table(users, name="with-user").to("out")
    views.join_table(users, grace=timedelta(seconds=5), name="with-old-user").to("out")
    users.outer_join(regions, name="both").to("out")
    users.join_foreign(regions, lambda r: r.value, name="of-region").to("out")
    users.group_by(lambda r: r.value).reduce(max, min, name="largest").to("out")
    users.suppress(time_limit=timedelta(seconds=10), max_records=5, name="slower").to("out")
    views.to_table().to("out")


def processors(app: Streams) -> None:
    app.stream("lines", key=str, value=str).process(Alarm(), key=str, value=str, name="alarm").to("out")


@pytest.mark.parametrize(
    ("build", "lines"),
    [
        (
            sources,
            [
                "reads topics a, b from the first record since 2026-01-31T12:00:00Z; key bytes, value bytes",
                "reads topics like clicks-.* from the end; key bytes, value bytes",
            ],
        ),
        (
            python_everywhere,
            [
                "new key and value is_large; Python",
                "new value len; Python, vectorized",
                "print looks at each record; Python",
            ],
        ),
        (
            sessions,
            [
                "sessions that end after 30 min of silence, closed when event time has passed the end",
                "sends each window's value once, when the window is closed",
                "sliding windows of records at most 1.5 s apart, closed when event time has passed the end",
                "counts records by key and window; Python",
            ],
        ),
        (
            tables,
            [
                "each record of views with the row of users at that moment; Python",
                "each record of views with the row of users of its own time, 5 s of event time later, "
                "those without a row left out; Python",
                "keeps the rows of users, for ever",
                "rows of users and regions with the same key; Python",
                "tells by foreign key which rows ask for it; Python",
                "answers with the rows of regions; Python",
                "leaves out answers that are out of date; Python",
                "takes a changed row out of its old group and puts it into its new one; Python",
                "reduces records by max by group, rows that left taken out; Python",
                "holds changes of a row back for 10 s, at most 5 rows; Python",
                "the records as changes of a table; native",
            ],
        ),
        (processors, ["Alarm; Python", "keeps the stores last, for as long as it says"]),
    ],
)
def test_every_kind_of_node_describes_its_work(build: object, lines: list[str]) -> None:
    app = Streams("all")
    build(app)  # type: ignore[operator]
    text = describe(app.topology())
    for line in lines:
        assert line in text, text
    ElementTree.fromstring(picture(app.topology()))
    assert json.loads(as_json(app.topology()))["application"] == "all"


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 s"),
        (250, "250 ms"),
        (1_500, "1.5 s"),
        (60_000, "1 min"),
        (5_400_000, "1 h 30 min"),
        (90_061_000, "1 d 1 h 1 min 1 s"),
    ],
)
def test_lengths_of_time_are_told_in_the_units_of_people(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text


def test_json_has_the_content_of_the_text() -> None:
    found = json.loads(as_json(shop().topology()))
    assert [query["name"] for query in found["queries"]] == ["paid", "revenue", "large-out", "shown"]
    (revenue,) = [node for node in found["queries"][1]["nodes"] if node["name"] == "revenue"]
    assert (revenue["kind"], revenue["runs"], revenue["inputs"]) == (
        "stateful operation",
        "native",
        ["paid-repartition"],
    )
    assert found["internal_topics"][1]["asked_as"] == ["revenue-by-user"]


def test_a_mermaid_flowchart_has_a_box_for_each_query_and_joins_them_by_topics() -> None:
    assert mermaid(word_count().topology()).splitlines()[:20] == [
        "flowchart TB",
        '  subgraph q0["out"]',
        '    q0n0(["lines<br/>stream"]):::source',
        '    q0n1["words<br/>flat map"]:::operation',
        '    q0n2["by-word<br/>map"]:::operation',
        '    q0n3[["counts<br/>aggregate"]]:::state',
        '    q0n4["to-stream-0005<br/>map"]:::operation',
        '    q0n5(["out"]):::sink',
        "    q0n0 --> q0n1",
        "    q0n1 --> q0n2",
        "    q0n2 --> q0n3",
        "    q0n3 --> q0n4",
        "    q0n4 --> q0n5",
        "  end",
        '  t0[("lines")]:::topic',
        '  t1[("counts")]:::topic',
        "  t0 --> q0n0",
        "  q0n5 --> t1",
        "  classDef source fill:#cfe8d5,stroke:#3f8f5b,color:#10301c",
        "  classDef operation fill:#e3e7ee,stroke:#7b8798,color:#1d2530",
    ]


SVG = "{http://www.w3.org/2000/svg}"


def test_a_picture_shows_every_node_and_topic_and_none_over_another() -> None:
    topology = shop().topology()
    root = ElementTree.fromstring(picture(topology))
    shown = {text.text for text in root.iter(f"{SVG}text")}
    found = json.loads(as_json(topology))
    for query in found["queries"]:
        assert query["name"] in shown
        for node in query["nodes"]:
            assert node["name"] in shown
            assert shown.issuperset([*node["reads"], *node["writes"]])
    boxes = [
        tuple(float(rect.get(name, "0")) for name in ("x", "y", "width", "height"))
        for group in root.iter(f"{SVG}g")
        for rect in group.findall(f"{SVG}rect")[:1]
        if rect.get("fill-opacity") is None
    ]
    assert len(boxes) == sum(len(query["nodes"]) for query in found["queries"])
    for number, (x, y, width, height) in enumerate(boxes):
        for other_x, other_y, other_width, other_height in boxes[number + 1 :]:
            apart_x = x + width <= other_x or other_x + other_width <= x
            apart_y = y + height <= other_y or other_y + other_height <= y
            assert apart_x or apart_y


def test_a_picture_is_the_same_each_time() -> None:
    assert picture(shop().topology()) == picture(shop().topology())
    assert picture_html(word_count().topology()).startswith("<div")


def test_names_from_outside_are_text_in_a_picture_and_not_markup() -> None:
    app = Streams("odd")
    app.stream(pattern='<script>&"').to("out")
    root = ElementTree.fromstring(picture(app.topology()))
    assert 'topics like <script>&"' in {text.text for text in root.iter(f"{SVG}text")}


def test_a_query_without_state_and_python_says_how_it_could_run_in_real_time() -> None:
    app = Streams("copy")
    app.stream("in", value=str).map_values(lambda r: r.value).to("out", value=str, name="copied")
    told = "for exactly once; with at_least_once in real time, on Spark 4.1 and newer"
    assert f"query copied: micro-batches ({told})" in describe(app.topology())
