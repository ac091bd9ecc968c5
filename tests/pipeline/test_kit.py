"""The test kit itself: input and output, batches, clocks, dead letters, errors, and a clean end."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ottla.pipeline.formats import json
from ottla.streams import PythonRecord, Streams, python, tumbling
from ottla.streams.kit import kit_environment
from ottla.streams.kit.kit_environment import KitError
from ottla.streams.kit.testing import DEAD_LETTERS, START, TopologyTestDriver
from ottla.streams.operators.processor import Processor, ProcessorContext, ProcessorRecord

pytestmark = pytest.mark.spark

NOON = datetime(2025, 6, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Line:
    """A line of an invoice."""

    item: str
    price: Decimal


@dataclass(frozen=True)
class Invoice:
    """Something of everything."""

    number: int
    paid: bool
    at: datetime
    lines: list[Line]
    notes: dict[str, str] = field(default_factory=dict)
    discount: float | None = None


@pytest.fixture(scope="module")
def echo(spark: SparkSession) -> Iterator[TopologyTestDriver]:
    """A driver that several tests share: it sends on what it gets, and rejects what is not an invoice."""
    app = Streams("echo")
    app.stream("texts", key=str, value=str).to("texts-out", key=str, value=str)
    app.stream("invoices", key=int, value=Invoice).to("invoices-out", key=int, value=Invoice)
    with TopologyTestDriver(app, spark) as driver:
        yield driver


def test_dataclasses_go_in_and_come_out(echo: TopologyTestDriver) -> None:
    invoice = Invoice(
        7,
        paid=False,
        at=datetime(2025, 3, 30, 1, 30, 0, 123456),  # noqa: DTZ001 - naive ones are UTC
        lines=[Line("lamp", Decimal("9.990000000000000000"))],
        notes={"for": "Anna"},
    )

    echo.input("invoices", key=int, value=Invoice).pipe(invoice, 7, headers={"trace": "x"}, timestamp=NOON)

    out = echo.output("invoices-out", key=int, value=Invoice).read_all()[-1]
    assert (out.key, out.value, dict(out.headers)) == (7, invoice, {"trace": b"x"})
    assert out.timestamp == NOON.replace(tzinfo=None)
    as_struct = echo.output("invoices-out", key=int, value=json(Invoice)).read_all()[-1].value
    assert as_struct["lines"][0]["item"] == "lamp"


def test_what_cannot_be_read_is_a_dead_letter(echo: TopologyTestDriver) -> None:
    echo.dead_letters()
    echo.input("invoices", key=int).pipe(b"{not json", 8)

    (dead,) = echo.dead_letters()

    assert (dead.topic, dead.value, dead.partition) == ("invoices", b"{not json", 0)
    assert dead.message and "\n" not in dead.message
    assert echo.output(DEAD_LETTERS).read_all()[-1].value == b"{not json"
    assert echo.dead_letters() == []


def test_each_output_is_read_once_and_from_its_beginning(echo: TopologyTestDriver) -> None:
    out = echo.output("texts-out", key=str, value=str)
    out.read_all()
    echo.input("texts", key=str, value=str).pipe_all(["one", ("key", "two"), ("key", None, NOON)])

    assert out.read().value == "one"
    assert not out.is_empty
    assert out.read_pairs() == [("key", "two"), ("key", None)]
    assert out.is_empty
    with pytest.raises(KitError, match="no further record in texts-out"):
        out.read()
    assert "key" not in echo.output("texts-out", key=str, value=str).read_map()


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("text", "the value for invoices is struct"),
        ({"nummer": 1}, "the value for invoices has no field 'nummer': its fields are number, paid"),
        ({"number": "1"}, "the value for invoices.number is bigint, not str: '1'"),
        ({"number": True}, "the value for invoices.number is bigint, not bool: True"),
        ({"lines": [{"item": 3}]}, "the value for invoices.lines[0].item is string, not int: 3"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_at_once(
    echo: TopologyTestDriver, value: Any, problem: str
) -> None:
    with pytest.raises(KitError) as raised:
        echo.input("invoices", key=int, value=Invoice).pipe(value)

    assert str(raised.value).startswith(problem)


def test_topics_and_tables_that_are_not_there_are_told(echo: TopologyTestDriver) -> None:
    for ask, problem in (
        (lambda: echo.input("text"), "echo does not read the topic 'text': it reads invoices, texts"),
        (
            lambda: echo.output("texts"),
            "echo does not write the topic 'texts': it writes invoices-out, texts-out",
        ),
        (lambda: echo.table("counts"), "echo has no materialized table 'counts': it has none"),
        (
            lambda: echo.input("texts", value=str).pipe_all([(1, 2, 3, 4)]),
            "a record is a value, (key, value)",
        ),
        (lambda: echo.input("texts").pipe(b"", timestamp="now"), "a timestamp is a datetime or milliseconds"),
    ):
        with pytest.raises(KitError) as raised:
            ask()
        assert str(raised.value).startswith(problem)


def test_what_is_piped_before_a_flush_is_one_batch(spark: SparkSession) -> None:
    app = Streams("batches")
    app.stream("words", key=str, value=str).group_by_key().count().to("counts", key=str, value=int)

    with TopologyTestDriver(app, spark) as driver:
        words = driver.input("words", key=str, value=str)
        counts = driver.output("counts", key=str, value=int)
        words.pipe_all([("a", "x"), ("a", "y")])
        assert counts.read_values() == [2]

        words.pipe("z", "a")
        driver.flush()
        words.pipe("z", "a")

        assert counts.read_values() == [3, 4]


class Alarm(Processor):
    """Ten seconds of the clock after a record, tells its value."""

    stores = ("value",)
    event_time = False
    processing_time = True

    def process(self, record: ProcessorRecord, context: ProcessorContext) -> None:
        context.store("value").put(record.value)
        context.schedule_processing_time(context.processing_time_ms + 10_000)

    def punctuate(self, key: Any, at_ms: int, context: ProcessorContext) -> None:
        context.forward(key, context.store("value").get(), timestamp_ms=at_ms)


def test_the_clock_stands_still_until_it_is_moved(spark: SparkSession) -> None:
    app = Streams("alarms")
    app.stream("in", key=str, value=str).process(Alarm(), key=str, value=str).to("out", key=str, value=str)

    with TopologyTestDriver(app, spark) as driver:
        out = driver.output("out", key=str, value=str)
        driver.input("in", key=str, value=str).pipe("wake up", "anna")
        driver.advance_wall_clock(timedelta(seconds=9))
        assert out.is_empty

        driver.advance_wall_clock(timedelta(seconds=1))

        (alarm,) = out.read_all()
        assert (alarm.key, alarm.value) == ("anna", "wake up")
        assert alarm.timestamp == (START + timedelta(seconds=10)).replace(tzinfo=None)
        with pytest.raises(KitError, match="the clock goes forward"):
            driver.advance_wall_clock(timedelta(seconds=-1))


def refuse(each: PythonRecord) -> str:
    if each.value == "bad":
        raise LookupError(f"nothing known of {each.key}")
    return str(each.value)


def test_a_function_that_raises_makes_a_dead_letter_or_fails_the_test(spark: SparkSession) -> None:
    app = Streams("strict")
    app.stream("in", key=str, value=str).map_values(python(refuse, returns=str), name="checked").to("out")

    with pytest.raises(Exception, match="STRING"):
        TopologyTestDriver(app, spark)  # the sink takes bytes

    app = Streams("strict")
    checked = app.stream("in", key=str, value=str).map_values(python(refuse, returns=str), name="checked")
    checked.to("out", key=str, value=str)
    with TopologyTestDriver(app, spark) as driver:
        driver.input("in", key=str, value=str).pipe_all([("a", "bad"), ("b", "good")])
        (dead,) = driver.dead_letters()
        assert (dead.key, dead.node, dead.error) == (b"a", "checked", "LookupError")
        assert dead.message == "nothing known of a"
        assert dead.traceback is not None and "in refuse" in dead.traceback
        assert driver.output("out", key=str, value=str).read_values() == ["good"]

    with TopologyTestDriver(app, spark, dead_letters=False) as driver:
        driver.input("in", key=str, value=str).pipe("bad", "a")
        with pytest.raises(KitError) as raised:
            driver.output("out", key=str, value=str).read_all()
        first, *rest = str(raised.value).splitlines()
        assert first == "the query to-0003 failed: LookupError: nothing known of a"
        assert any("in refuse" in line for line in rest)
        with pytest.raises(KitError, match="nothing known of a"):
            driver.flush()


def test_an_operator_that_raises_fails_the_test_with_its_own_error(spark: SparkSession) -> None:
    app = Streams("adding")

    def add(so_far: int, value: int) -> int:
        return so_far + 10 // value

    app.stream("in", key=str, value=int).group_by_key().aggregate(int, add, returns=int, name="sums").to(
        "out", key=str, value=int
    )
    with TopologyTestDriver(app, spark) as driver:
        driver.input("in", key=str, value=int).pipe_all([("a", 5), ("a", 0)])

        with pytest.raises(KitError, match="failed: ZeroDivisionError") as raised:
            driver.flush()

        assert isinstance(raised.value.__cause__, ZeroDivisionError)


def counted_by_minute(spark: SparkSession, *, operators_in_spark: bool) -> list[tuple[Any, Any]]:
    app = Streams("minutes")
    app.stream("in", key=str, value=str).group_by_key().windowed_by(tumbling(timedelta(minutes=1))).aggregate(
        str, lambda so_far, value: so_far + value, returns=str
    ).suppress().to_stream(key=lambda r: r.key.key).to("out", key=str, value=str)
    with TopologyTestDriver(app, spark, operators_in_spark=operators_in_spark) as driver:
        letters = driver.input("in", key=str, value=str)
        for batch in (
            [("a", "x", 1_000), ("a", "y", 59_999)],
            [("a", "z", 60_000), ("a", "w", 30_000)],  # not late: the batch before had not come so far
            [("a", "late", 2_000)],
        ):
            letters.pipe_all(batch)
            driver.flush()
        driver.advance_event_time(timedelta(minutes=2))
        found = driver.output("out", key=str, value=str).read_pairs()
        if operators_in_spark:
            with pytest.raises(KitError, match="Spark's clock"):
                driver.advance_wall_clock(timedelta(1))
        return found


def test_operators_do_the_same_here_and_in_spark(spark: SparkSession) -> None:
    here = counted_by_minute(spark, operators_in_spark=False)

    in_spark = counted_by_minute(spark, operators_in_spark=True)

    assert here == in_spark == [("a", "xyw"), ("a", "z")]


def test_a_topology_that_feeds_itself_is_stopped(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kit_environment, "MAX_ROUNDS", 3)
    app = Streams("circle")
    app.stream("in", value=str).map_values(lambda r: F.concat(r.value, F.lit("!"))).to("in", value=str)

    with TopologyTestDriver(app, spark) as driver:
        driver.input("in", value=str).pipe("ah")
        with pytest.raises(KitError, match="feeds itself"):
            driver.flush()


def test_nothing_is_left_behind(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kit_environment, "_quick_directory", lambda: str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    settings = dict(spark.sparkContext.getConf().getAll())
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    queries = len(spark.streams.active)
    tables = len(spark.catalog.listTables())
    app = Streams("guest")
    app.stream("in", value=str).to("out", value=str)

    with TopologyTestDriver(app, spark) as driver:
        assert len(spark.streams.active) == queries + 1
        driver.input("in", value=str).pipe("x")
        driver.flush()
        assert list(tmp_path.iterdir())

    assert len(spark.streams.active) == queries
    assert len(spark.catalog.listTables()) == tables
    assert list(tmp_path.iterdir()) == []
    assert spark.conf.get("spark.sql.shuffle.partitions") == partitions
    assert dict(spark.sparkContext.getConf().getAll()) == settings
    assert "PYTHONPATH" not in spark.sparkContext.environment
