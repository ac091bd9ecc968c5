"""Every method of the DSL through the test kit, formats and Spark included: the output for given records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ottla.pipeline.formats import TEXT, json, time_windowed
from ottla.streams import (
    Emit,
    PythonRecord,
    Streams,
    TopologyError,
    hopping,
    python,
    record,
    session,
    sliding,
    tumbling,
    vectorized,
    within,
)
from ottla.streams.operators.processor import Processor, ProcessorContext, ProcessorRecord
from ottla.streams.operators.windows import Windows
from ottla.streams.testing import TopologyTestDriver

pytestmark = pytest.mark.spark

NOON = datetime(2025, 6, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


def at(seconds: float) -> datetime:
    """So long after noon."""
    return NOON + timedelta(seconds=seconds)


def naive(seconds: float) -> datetime:
    """The same, as it comes out: UTC without a zone."""
    return at(seconds).replace(tzinfo=None)


@dataclass(frozen=True)
class Order:
    """An order; the record's key is the customer."""

    item: str
    price: float
    region: str | None = None


@dataclass(frozen=True)
class User:
    """A user; the key is the user's id."""

    name: str
    team: str


@pytest.fixture
def app() -> Streams:
    return Streams("shop")


# Stateless


def test_records_are_filtered_mapped_and_given_other_keys(app: Streams, spark: SparkSession) -> None:
    orders = app.stream("orders", key=str, value=Order)
    orders.filter(lambda r: r.value.price > 100).to("dear", key=str, value=Order)
    cheap = orders.filter_not(lambda r: r.value.price > 100)
    cheap.map(
        headers=lambda r: F.array(F.struct(F.lit("seen").alias("key"), r.key.cast("BINARY").alias("value")))
    ).to("cheap", key=str, value=Order)
    orders.map(key=lambda r: F.upper(r.key), value=lambda r: r.value.price * 2).to(
        "doubled", key=str, value=float
    )
    items = orders.map_values(lambda r: r.value["item"])
    keyed = orders.select_key(lambda r: r.value["item"]).map_values(lambda r: r.key)
    items.merge(keyed).to("texts", key=str, value=str)
    app.stream("unused", name="unused")

    with TopologyTestDriver(app, spark) as driver:
        driver.input("orders", key=str, value=Order).pipe_all(
            [("anna", Order("lamp", 120.5)), ("ben", Order("cup", 7.0, "north"))]
        )

        assert driver.output("dear", key=str, value=Order).read_pairs() == [("anna", Order("lamp", 120.5))]
        (cheap_order,) = driver.output("cheap", key=str, value=Order).read_all()
        assert (cheap_order.key, cheap_order.value) == ("ben", Order("cup", 7.0, "north"))
        assert cheap_order.headers == {"seen": b"ben"}
        assert driver.output("doubled", key=str, value=float).read_map() == {"ANNA": 241.0, "BEN": 14.0}
        assert driver.output("texts", key=str, value=str).read_map() == {
            "anna": "lamp",
            "ben": "cup",
            "lamp": "lamp",
            "cup": "cup",
        }


def shout(each: PythonRecord) -> str:
    return f"{each.value.upper()} ({each.topic}-{each.partition}@{each.offset}, {each.timestamp:%H:%M})"


def lengths(keys: pandas.Series, values: pandas.Series) -> pandas.Series:
    return values.str.len()


def swapped(each: PythonRecord) -> dict[str, Any]:
    return {"key": each.value, "value": each.key}


def letters(each: PythonRecord) -> list[str]:
    return list(each.value)


def test_python_stands_wherever_an_expression_does(app: Streams, spark: SparkSession) -> None:
    words = app.stream("words", key=str, value=str)
    words.map_values(vectorized(lengths, returns=int)).to("lengths", key=str, value=int)
    words.map_values(python(shout, returns=str)).merge(
        words.map(python(swapped, returns="key STRING, value STRING")),
        words.filter(python(lambda r: r.value > "b", returns=bool)),
        words.flat_map_values(python(letters, returns="ARRAY<STRING>")),
    ).to("texts", key=str, value=str)

    with TopologyTestDriver(app, spark) as driver:
        words_in = driver.input("words", key=str, value=str)
        words_in.pipe("ab", "x", timestamp=NOON)
        words_in.pipe("cde", "y", timestamp=NOON + MINUTE)

        assert driver.output("lengths", key=str, value=int).read_map() == {"x": 2, "y": 3}
        shouted = [("x", "AB (words-0@0, 12:00)"), ("y", "CDE (words-0@1, 12:01)")]
        late = [("y", "cde")]
        single = [("x", "a"), ("x", "b"), ("y", "c"), ("y", "d"), ("y", "e")]
        assert sorted(driver.output("texts", key=str, value=str).read_pairs()) == sorted(
            [*shouted, ("ab", "x"), ("cde", "y"), *late, *single]
        )


def test_one_record_becomes_many_and_streams_part_and_meet(app: Streams, spark: SparkSession) -> None:
    lines = app.stream("lines", "more-lines", key=str, value=str)
    words = lines.flat_map_values(lambda r: F.split(r.value, " "))
    words.to("words", key=str, value=str)
    lines.flat_map(
        lambda r: F.transform(F.split(r.value, " "), lambda word: record(word, F.length(word).cast("BIGINT")))
    ).to("lengths", key=str, value=int)
    branches = words.branch(
        short=lambda r: F.length(r.value) < 4,
        long=lambda r: F.length(r.value) < 8,
    )
    short = branches["short"].map_values(lambda r: F.concat(F.lit("short "), r.value))
    long = branches["long"].map_values(lambda r: F.concat(F.lit("long "), r.value))
    short.merge(long, app.stream("others", key=str, value=str)).to("merged", key=str, value=str)

    with TopologyTestDriver(app, spark) as driver:
        driver.input("lines", key=str, value=str).pipe("the house", "a")
        driver.input("more-lines", key=str, value=str).pipe("incomprehensible cat", "b")
        driver.input("others", key=str, value=str).pipe("other", "c")

        assert driver.output("words", key=str, value=str).read_pairs() == [
            ("a", "the"),
            ("a", "house"),
            ("b", "incomprehensible"),
            ("b", "cat"),
        ]
        assert driver.output("lengths", key=str, value=int).read_map() == {
            "the": 3,
            "house": 5,
            "incomprehensible": 16,
            "cat": 3,
        }
        merged = driver.output("merged", key=str, value=str).read_values()
        assert sorted(merged) == ["long house", "other", "short cat", "short the"]


def test_records_go_where_they_say_and_through_topics(
    app: Streams, spark: SparkSession, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"

    def note(each: PythonRecord) -> None:
        with seen.open("a") as file:
            file.write(f"{each.key}={each.value}\n")

    logs = app.stream(pattern="log-.*", key=str, value=str, timestamp=lambda r: F.to_timestamp(r.value))
    passed = logs.peek(note).through("passed", key=str, value=str)
    passed.to(lambda r: F.concat(F.lit("of-"), r.key), key=str, value=str, partition=lambda r: F.lit(3))
    passed.to_spark(lambda frame: frame.writeStream.format("memory").queryName("kept_by_spark"))

    with TopologyTestDriver(app, spark) as driver:
        driver.input("log-north", key=str, value=str).pipe("2025-06-01 12:00:00", "web")

        out = driver.output("of-web", key=str, value=str).read()
        assert (out.value, out.timestamp, out.partition) == ("2025-06-01 12:00:00", naive(0), 3)
        assert driver.output("passed", key=str, value=str).read_pairs() == [("web", "2025-06-01 12:00:00")]
        assert spark.table("kept_by_spark").count() == 1
    assert seen.read_text() == "web=2025-06-01 12:00:00\n"
    spark.catalog.dropTempView("kept_by_spark")


def test_print_is_a_sink_of_sparks(app: Streams) -> None:
    app.stream("lines", value=str).print(name="look")

    assert [sink.name for sink in app.topology().sinks] == ["look"]


# Aggregates


NO_REGION = ("carl", Order("dust", 1.0, None))
"""After regrouping by region it has no key, and is left out."""


@pytest.mark.long
def test_words_are_counted(app: Streams, spark: SparkSession) -> None:
    words = app.stream("lines", value=str).flat_map_values(lambda r: F.split(F.lower(r.value), " "))
    words.group_by(lambda r: r.value).count(name="counts").materialize("words").to_stream().to(
        "counts", key=str, value=int
    )

    with TopologyTestDriver(app, spark) as driver:
        lines = driver.input("lines", value=str)
        counts = driver.output("counts", key=str, value=int)
        lines.pipe_all(["the cat", "The hat"])
        assert counts.read_map() == {"the": 2, "cat": 1, "hat": 1}

        lines.pipe("the end")

        assert counts.read_map() == {"the": 3, "end": 1}
        assert driver.table("words") == {"the": 3, "cat": 1, "hat": 1, "end": 1}


def test_sparks_aggregates(app: Streams, spark: SparkSession) -> None:
    by_region = app.stream("orders", key=str, value=Order).group_by(lambda r: r.value.region)
    by_region.agg(
        lambda r: {"orders": F.count(F.lit(1)), "items": F.sort_array(F.collect_set(r.value["item"]))}
    ).to("stats", key=str, value=json("orders BIGINT, items ARRAY<STRING>"))
    by_region.sum(lambda r: r.value.price).to("sums", key=str, value=float)
    by_region.min(lambda r: r.value.price).to("cheapest", key=str, value=float)
    by_region.max(lambda r: r.value["item"]).to("last-item", key=str, value=str)
    by_region.avg(lambda r: r.value.price).to("averages", key=str, value=float)

    with TopologyTestDriver(app, spark) as driver:
        driver.input("orders", key=str, value=Order).pipe_all(
            [("anna", Order("lamp", 30.0, "north")), ("ben", Order("cup", 10.0, "north")), NO_REGION]
        )

        assert driver.output(
            "stats", key=str, value=json("orders BIGINT, items ARRAY<STRING>")
        ).read_map() == {"north": {"orders": 2, "items": ["cup", "lamp"]}}
        assert driver.output("sums", key=str, value=float).read_map() == {"north": 40.0}
        assert driver.output("cheapest", key=str, value=float).read_map() == {"north": 10.0}
        assert driver.output("last-item", key=str, value=str).read_map() == {"north": "lamp"}
        assert driver.output("averages", key=str, value=float).read_map() == {"north": 20.0}


def test_aggregates_in_python(app: Streams, spark: SparkSession) -> None:
    words = app.stream("words", key=str, value=str).group_by_key()
    words.reduce(lambda so_far, word: max(so_far, word)).to("greatest", key=str, value=str)
    words.aggregate(list, lambda so_far, word: [*so_far, word], returns="ARRAY<STRING>").to(
        "lists", key=str, value=json("ARRAY<STRING>")
    )

    with TopologyTestDriver(app, spark) as driver:
        words_in = driver.input("words", key=str, value=str)
        words_in.pipe_all([("a", "one"), ("a", "two"), ("b", "three")])
        driver.flush()
        words_in.pipe_all([("a", "four"), (None, "lost")])

        assert driver.output("greatest", key=str, value=str).read_map() == {"a": "two", "b": "three"}
        assert driver.output("lists", key=str, value=json("ARRAY<STRING>")).read_map() == {
            "a": ["one", "two", "four"],
            "b": ["three"],
        }


@pytest.mark.parametrize(
    ("windows", "counted"),
    [
        (tumbling(MINUTE, grace=MINUTE), [3]),
        pytest.param(hopping(MINUTE, MINUTE / 2, grace=MINUTE), [2, 3], marks=pytest.mark.long),
        (session(MINUTE, grace=MINUTE), [3]),
        pytest.param(sliding(MINUTE, grace=MINUTE), [2, 2, 3], marks=pytest.mark.long),
    ],
)
def test_windows_behind_a_filter_are_sent_once_when_they_are_closed(
    app: Streams, spark: SparkSession, windows: Windows, counted: list[int]
) -> None:
    counts = app.stream("clicks", key=str, value=str).group_by_key().windowed_by(windows).count()
    often = counts.filter(lambda row: row.value > 1).map_values(lambda row: row.value.cast("STRING"))
    often.suppress().to_stream(key=lambda row: row.key.key).to("often", key=str, value=str)

    with TopologyTestDriver(app, spark) as driver:
        clicks_in, often_out = (
            driver.input("clicks", key=str, value=str),
            driver.output("often", key=str, value=str),
        )
        for second in (1, 31, 32):
            clicks_in.pipe("click", "anna", timestamp=at(second))
            clicks_in.pipe("click", f"seen once at {second}", timestamp=at(second))
            driver.flush()
        clicks_in.pipe("click", "bert", timestamp=at(90))
        assert often_out.is_empty
        driver.close_windows()

        assert sorted(often_out.read_pairs()) == [("anna", str(count)) for count in counted]


@pytest.mark.long
def test_windows_of_one_size(app: Streams, spark: SparkSession) -> None:
    clicks = app.stream("clicks", key=str, value=str).group_by_key()
    windowed = time_windowed(TEXT, window_size_ms=60_000)
    clicks.windowed_by(tumbling(MINUTE)).count().to("changes", key=windowed, value=int)
    clicks.windowed_by(tumbling(MINUTE)).count(emit=Emit.WINDOW_CLOSE).to("closed", key=windowed, value=int)
    clicks.windowed_by(hopping(MINUTE, MINUTE / 2)).count().suppress().to("hops", key=windowed, value=int)

    with TopologyTestDriver(app, spark) as driver:
        clicks_in = driver.input("clicks", key=str, value=str)
        for second in (5, 59, 61):
            clicks_in.pipe("click", "anna", timestamp=at(second))

        changes = driver.output("changes", key=windowed, value=int)
        assert changes.read_map() == {
            ("anna", naive(0), naive(60)): 2,
            ("anna", naive(60), naive(120)): 1,
        }
        closed = driver.output("closed", key=windowed, value=int)
        assert closed.read_map() == {("anna", naive(0), naive(60)): 2}
        clicks_in.pipe("too late", "anna", timestamp=at(30))
        assert changes.is_empty and closed.is_empty
        driver.close_windows()
        assert closed.read_map() == {("anna", naive(60), naive(120)): 1}
        assert driver.output("hops", key=windowed, value=int).read_map() == {
            ("anna", naive(-30), naive(30)): 1,
            ("anna", naive(0), naive(60)): 2,
            ("anna", naive(30), naive(90)): 3,  # still open when the late one came
            ("anna", naive(60), naive(120)): 1,
        }


def test_a_late_record_counts_within_the_grace(app: Streams, spark: SparkSession) -> None:
    windows = tumbling(MINUTE, grace=30 * SECOND)
    app.stream("clicks", key=str, value=str).group_by_key().windowed_by(windows).count(
        emit=Emit.WINDOW_CLOSE
    ).to_stream(key=lambda r: r.key.key).to("counts", key=str, value=int)

    with TopologyTestDriver(app, spark) as driver:
        clicks = driver.input("clicks", key=str, value=str)
        counts = driver.output("counts", key=str, value=int)
        clicks.pipe("on time", "anna", timestamp=at(10))
        clicks.pipe("the next minute", "anna", timestamp=at(85))
        driver.flush()
        clicks.pipe("late, but not too late", "anna", timestamp=at(20))
        assert counts.is_empty

        driver.advance_event_time(at(90))

        assert counts.read_pairs() == [("anna", 2)]


def test_sessions(app: Streams, spark: SparkSession) -> None:
    windowed = json("key STRING, start TIMESTAMP, end TIMESTAMP")
    clicks = (
        app.stream("clicks", key=str, value=str).group_by_key().windowed_by(session(MINUTE, grace=MINUTE))
    )
    clicks.count(emit=Emit.WINDOW_CLOSE).to("closed", key=windowed, value=int)
    clicks.aggregate(
        lambda: "", lambda so_far, value: so_far + value, merger=lambda one, other: one + other, returns=str
    ).to("changes", key=windowed, value=str)

    with TopologyTestDriver(app, spark) as driver:
        clicks_in = driver.input("clicks", key=str, value=str)
        clicks_in.pipe("a", "anna", timestamp=at(0))
        clicks_in.pipe("c", "anna", timestamp=at(100))
        changes = driver.output("changes", key=windowed, value=str)
        assert changes.read_map() == {
            ("anna", naive(0), naive(0)): "a",
            ("anna", naive(100), naive(100)): "c",
        }
        clicks_in.pipe("b", "anna", timestamp=at(50))  # connects the two

        assert changes.read_pairs()[-1] == (("anna", naive(0), naive(100)), "acb")
        driver.close_windows()
        closed = driver.output("closed", key=windowed, value=int)
        assert closed.read_pairs() == [(("anna", naive(0), naive(100)), 3)]


def test_sliding_windows(app: Streams, spark: SparkSession) -> None:
    windowed = json("key STRING, start TIMESTAMP, end TIMESTAMP")
    app.stream("clicks", key=str, value=str).group_by_key().windowed_by(sliding(10 * SECOND)).count().to(
        "counts", key=windowed, value=int
    )

    with TopologyTestDriver(app, spark) as driver:
        driver.input("clicks", key=str, value=str).pipe_all(
            [("anna", "one", at(20)), ("anna", "two", at(25)), ("anna", "three", at(40))]
        )

        assert driver.output("counts", key=windowed, value=int).read_map() == {
            ("anna", naive(10), naive(20)): 1,
            ("anna", naive(15), naive(25)): 2,
            ("anna", naive(20.001), naive(30.001)): 1,
            ("anna", naive(30), naive(40)): 1,
        }


# Tables


def test_a_table_forgets_rows_that_are_deleted_or_no_longer_fit(app: Streams, spark: SparkSession) -> None:
    users = app.table("users", key=str, value=User)
    users.filter(lambda r: r.value.team == "red").map_values(lambda r: r.value["name"]).to(
        "reds", key=str, value=str
    )
    users.filter_not(lambda r: r.value.team == "red").to("others", key=str, value=User)
    users.to_stream(key=lambda r: F.upper(r.key)).to("changes", key=str, value=User)
    app.stream("names", key=str, value=str).to_table().to("last-names", key=str, value=str)

    with TopologyTestDriver(app, spark) as driver:
        users_in = driver.input("users", key=str, value=User)
        users_in.pipe_all([("1", User("Anna", "red")), ("2", User("Ben", "blue"))])
        users_in.pipe_all([("1", User("Anna", "blue")), ("2", None), (None, User("Nobody", "red"))])
        driver.input("names", key=str, value=str).pipe_all([("x", "old"), ("x", "new"), (None, "no key")])

        reds = driver.output("reds", key=str, value=str)
        assert reds.read_pairs()[:2] == [("1", "Anna"), ("2", None)]
        assert reds.read_map() == {}
        assert driver.output("others", key=str, value=User).read_map() == {"1": User("Anna", "blue")}
        assert driver.output("changes", key=str, value=User).read_pairs()[-1] == ("2", None)
        assert driver.output("last-names", key=str, value=str).read_map() == {"x": "new"}


def test_rows_are_grouped_again_and_leave_their_old_group(app: Streams, spark: SparkSession) -> None:
    by_team = app.table("users", key=str, value=User).group_by(
        lambda r: r.value.team, lambda r: F.length(r.value["name"]).cast("BIGINT")
    )
    by_team.count(name="members").to("members", key=str, value=int)
    by_team.reduce(lambda total, n: total + n, lambda total, n: total - n).to("lengths", key=str, value=int)
    by_team.aggregate(
        list,
        lambda so_far, n: sorted([*so_far, n]),
        lambda so_far, n: [each for i, each in enumerate(so_far) if i != so_far.index(n)],
        returns="ARRAY<BIGINT>",
    ).to("lists", key=str, value=json("ARRAY<BIGINT>"))

    with TopologyTestDriver(app, spark) as driver:
        users = driver.input("users", key=str, value=User)
        users.pipe_all([("1", User("Anna", "red")), ("2", User("Ben", "red"))])
        members = driver.output("members", key=str, value=int)
        assert members.read_map() == {"red": 2}

        users.pipe(User("Anna", "blue"), "1")

        assert members.read_map() == {"red": 1, "blue": 1}
        assert driver.output("lengths", key=str, value=int).read_map() == {"red": 3, "blue": 4}
        assert driver.output("lists", key=str, value=json("ARRAY<BIGINT>")).read_map() == {
            "red": [3],
            "blue": [4],
        }


def test_changes_are_held_back_for_a_time(app: Streams, spark: SparkSession) -> None:
    app.table("users", key=str, value=User).suppress(time_limit=MINUTE).to("calm", key=str, value=User)

    with TopologyTestDriver(app, spark) as driver:
        users = driver.input("users", key=str, value=User)
        calm = driver.output("calm", key=str, value=User)
        users.pipe(User("Anna", "red"), "1", timestamp=at(0))
        users.pipe(User("Anna", "blue"), "1", timestamp=at(10))
        assert calm.is_empty

        users.pipe(User("Ben", "red"), "2", timestamp=at(70))
        driver.flush()
        driver.advance_event_time(at(75))

        assert calm.read_pairs() == [("1", User("Anna", "blue"))]


# Joins


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        pytest.param("join", {("x", "paid of ordered")}, marks=pytest.mark.long),
        pytest.param(
            "left_join", {("x", "paid of ordered"), ("y", "nothing of ordered")}, marks=pytest.mark.long
        ),
        ("outer_join", {("x", "paid of ordered"), ("y", "nothing of ordered"), ("z", "paid of nothing")}),
    ],
)
def test_streams_meet_in_time(
    app: Streams, spark: SparkSession, method: str, expected: set[tuple[str, str]]
) -> None:
    orders = app.stream("orders", key=str, value=str)
    payments = app.stream("payments", key=str, value=str)

    def told(order: Any, payment: Any) -> Any:
        return F.concat(
            F.coalesce(payment, F.lit("nothing")), F.lit(" of "), F.coalesce(order, F.lit("nothing"))
        )

    getattr(orders, method)(payments, told, within=within(MINUTE)).to("paid", key=str, value=str)

    with TopologyTestDriver(app, spark) as driver:
        driver.input("orders", key=str, value=str).pipe_all(
            [("x", "ordered", at(0)), ("y", "ordered", at(5))]
        )
        driver.input("payments", key=str, value=str).pipe_all(
            [("x", "paid", at(60)), ("y", "paid too late", at(66)), ("z", "paid", at(10))]
        )
        driver.close_windows()

        found = driver.output("paid", key=str, value=str).read_pairs()
        assert set(found) - {("y", "paid too late of nothing")} == expected
        assert len(found) == len(set(found))


def test_a_stream_meets_a_table_as_it_was(app: Streams, spark: SparkSession) -> None:
    orders = app.stream("orders", key=str, value=Order)
    users = app.table("users", key=str, value=User)
    orders.join_table(users, lambda order, user: user["name"]).to("known", key=str, value=str)
    orders.left_join_table(users).to(
        "all", key=str, value=json("left STRUCT<item: STRING>, right STRUCT<name: STRING>")
    )

    with TopologyTestDriver(app, spark) as driver:
        orders_in = driver.input("orders", key=str, value=Order)
        users_in = driver.input("users", key=str, value=User)
        orders_in.pipe(Order("early", 1.0), "1", timestamp=at(0))
        users_in.pipe(User("Anna", "red"), "1", timestamp=at(1))
        orders_in.pipe(Order("lamp", 1.0), "1", timestamp=at(2))
        driver.flush()
        users_in.pipe(None, "1", timestamp=at(3))
        orders_in.pipe(Order("cup", 1.0), "1", timestamp=at(4))

        assert driver.output("known", key=str, value=str).read_pairs() == [("1", "Anna")]
        shape = json("left STRUCT<item: STRING>, right STRUCT<name: STRING>")
        assert driver.output("all", key=str, value=shape).read_values() == [
            {"left": {"item": "early"}, "right": None},
            {"left": {"item": "lamp"}, "right": {"name": "Anna"}},
            {"left": {"item": "cup"}, "right": None},
        ]


def test_a_stream_meets_a_global_table_on_any_key(app: Streams, spark: SparkSession) -> None:
    regions = app.global_table("regions", key=str, value=str)
    orders = app.stream("orders", key=str, value=Order)
    orders.join_global(regions, lambda r: r.value.region, lambda order, region: region).to(
        "known", key=str, value=str
    )
    orders.left_join_global(
        regions, lambda r: r.value.region, lambda order, region: F.coalesce(region, F.lit("nowhere"))
    ).to("all", key=str, value=str)

    with TopologyTestDriver(app, spark) as driver:
        regions_in = driver.input("regions", key=str, value=str)
        orders_in = driver.input("orders", key=str, value=Order)
        regions_in.pipe_all([("n", "North"), ("s", "South"), ("s", None)])
        orders_in.pipe_all(
            [("1", Order("lamp", 1.0, "n")), ("2", Order("cup", 1.0, "s")), ("3", Order("pen", 1.0))]
        )
        known = driver.output("known", key=str, value=str)
        assert known.read_pairs() == [("1", "North")]
        everything = driver.output("all", key=str, value=str)
        assert everything.read_map() == {"1": "North", "2": "nowhere", "3": "nowhere"}

        regions_in.pipe("New South", "s")
        orders_in.pipe(Order("cup", 1.0, "s"), "2")

        assert known.read_pairs() == [("2", "New South")]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        pytest.param("join", {"1": "Anna/Berlin"}, marks=pytest.mark.long),
        pytest.param("left_join", {"1": "Anna/Berlin", "2": "Ben/-"}, marks=pytest.mark.long),
        ("outer_join", {"1": "Anna/Berlin", "2": "Ben/-", "3": "-/Rome"}),
    ],
)
def test_tables_meet_by_key(app: Streams, spark: SparkSession, method: str, expected: dict[str, str]) -> None:
    names = app.table("names", key=str, value=str)
    cities = app.table("cities", key=str, value=str)

    def told(name: Any, city: Any) -> Any:
        return F.concat(F.coalesce(name, F.lit("-")), F.lit("/"), F.coalesce(city, F.lit("-")))

    getattr(names, method)(cities, told).to("people", key=str, value=str)

    with TopologyTestDriver(app, spark) as driver:
        names_in = driver.input("names", key=str, value=str)
        cities_in = driver.input("cities", key=str, value=str)
        names_in.pipe_all([("1", "Anna"), ("2", "Ben")])
        cities_in.pipe_all([("1", "Berlin"), ("3", "Rome")])
        people = driver.output("people", key=str, value=str)
        assert people.read_map() == expected

        names_in.pipe(None, "1")
        cities_in.pipe(None, "1")

        assert people.read_pairs()[-1] == ("1", None)


def test_tables_meet_by_foreign_key(app: Streams, spark: SparkSession) -> None:
    orders = app.table("orders", key=str, value=Order)
    regions = app.table("regions", key=str, value=str)
    orders.join_foreign(regions, lambda r: r.value.region, lambda order, region: region).to(
        "known", key=str, value=str
    )
    orders.left_join_foreign(
        regions, lambda r: r.value.region, lambda order, region: F.coalesce(region, F.lit("nowhere"))
    ).to("all", key=str, value=str)

    with TopologyTestDriver(app, spark) as driver:
        orders_in = driver.input("orders", key=str, value=Order)
        regions_in = driver.input("regions", key=str, value=str)
        orders_in.pipe_all([("1", Order("lamp", 1.0, "n")), ("2", Order("cup", 1.0, "s"))])
        regions_in.pipe("North", "n")
        known = driver.output("known", key=str, value=str)
        everything = driver.output("all", key=str, value=str)
        assert known.read_map() == {"1": "North"}
        assert everything.read_map() == {"1": "North", "2": "nowhere"}

        regions_in.pipe_all([("n", "New North"), ("s", "South")])

        assert known.read_map() == {"1": "New North", "2": "South"}


# Processors


class Reminder(Processor):
    """Counts a key's records; a minute of event time after each, says how many there were."""

    stores = ("count",)

    def process(self, record: ProcessorRecord, context: ProcessorContext) -> None:
        count = context.store("count")
        count.put(count.get(default=0) + 1)
        context.schedule_event_time(record.timestamp_ms + 60_000)

    def punctuate(self, key: Any, at_ms: int, context: ProcessorContext) -> None:
        context.forward(key, context.store("count").get())


def test_a_processor_keeps_state_and_is_called_by_event_time(app: Streams, spark: SparkSession) -> None:
    app.stream("clicks", key=str, value=str).process(Reminder(), key=str, value=int).to(
        "reminders", key=str, value=int
    )

    with TopologyTestDriver(app, spark) as driver:
        clicks = driver.input("clicks", key=str, value=str)
        reminders = driver.output("reminders", key=str, value=int)
        clicks.pipe("one", "anna", timestamp=at(0))
        clicks.pipe("two", "anna", timestamp=at(10))
        assert reminders.is_empty

        driver.advance_event_time(at(61))

        assert reminders.read_pairs() == [("anna", 2)]


# Errors


def wrong_field(app: Streams) -> None:
    app.stream("orders", key=str, value=Order).filter(lambda r: r.value.prize > 1, name="dear").to("out")


def no_column(app: Streams) -> None:
    app.stream("orders", key=str, value=Order).map_values(lambda r: "x", name="constant").to("out")


def wrong_sink_type(app: Streams) -> None:
    app.stream("words", key=str, value=str).to("out", key=str, value=int, name="sink")


def keys_that_differ(app: Streams) -> None:
    users = app.table("users", key=str, value=str)
    app.stream("orders", key=int, value=str).join_table(users, name="joined").to("out")


@pytest.mark.parametrize(
    ("build", "node", "problem"),
    [
        (wrong_field, "dear", "prize"),
        (no_column, "constant", "not a column"),
        (wrong_sink_type, "sink", "STRING"),
        (keys_that_differ, "joined", "keys"),
    ],
    ids=["wrong field", "no column", "wrong type for the sink", "keys that differ"],
)
def test_a_topology_that_can_not_be_says_which_node_and_why(
    app: Streams, spark: SparkSession, build: Any, node: str, problem: str
) -> None:
    build(app)

    with pytest.raises(TopologyError) as raised:
        TopologyTestDriver(app, spark)

    (line,) = str(raised.value).splitlines()
    assert line.startswith(f"{node}: ")
    assert problem.lower() in line.lower()


def test_a_node_that_can_not_be_built_is_refused_at_once(app: Streams) -> None:
    clicks = app.stream("clicks", key=str, value=str, name="clicks")

    def problems() -> Iterator[str]:
        for build in (
            lambda: app.stream("again", name="clicks"),
            lambda: app.stream(),
            lambda: app.stream("a", pattern="b"),
            lambda: app.stream("a", name="a b"),
            lambda: app.stream("a", start="sometime"),
            lambda: app.stream("a", start=datetime(2025, 1, 1)),  # noqa: DTZ001
            lambda: app.stream("a", value=complex),
            lambda: clicks.branch(),
            lambda: clicks.group_by_key().count(emit=Emit.WINDOW_CLOSE),
            lambda: clicks.group_by_key().windowed_by(sliding(MINUTE)).agg(lambda r: {}),
            lambda: clicks.group_by_key().windowed_by(session(MINUTE)).aggregate(int, max, returns=int),
            lambda: app.table("a").suppress(),
            lambda: Streams("no spaces"),
            lambda: app.topology(),
        ):
            with pytest.raises(TopologyError) as raised:
                build()
            yield str(raised.value)

    lines = list(problems())
    assert lines[0] == "two nodes are named clicks"
    assert all("\n" not in line and line for line in lines)
