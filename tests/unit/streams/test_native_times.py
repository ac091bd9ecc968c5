"""Event time told in words, and when a pausing query needs a heartbeat; no Spark."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.streams.host.watermarks import Watermark, watermark_of
from ottla.streams.plan.node import EventTime
from ottla.streams.run.heartbeat import HeartbeatClock, heartbeat_topic
from support.pipeline.spark_batches import time_of

NOON = 1_700_000_000_000
ORDERS = "KafkaV2[Subscribe[orders]]"
REFUNDS = "KafkaV2[Subscribe[refunds]]"
BEATS = "KafkaV2[Subscribe[shop-totals-heartbeats]]"


def spark_time(milliseconds: int) -> str:
    return time_of(milliseconds).replace("+00:00", "Z")


def progress(
    watermark: int = 0, event_time: int | None = None, *, behind: int = 0, **rows: int
) -> dict[str, Any]:
    """A progress of Spark's, with the input rows of each source: orders, refunds, heartbeats."""
    names = {"orders": ORDERS, "refunds": REFUNDS, "beats": BEATS}
    times = {"watermark": spark_time(watermark)}
    if event_time is not None:
        times["max"] = spark_time(event_time)
    sources = [
        {
            "description": names[name],
            "numInputRows": count,
            "metrics": {"maxOffsetsBehindLatest": str(behind)},
        }
        for name, count in rows.items()
    ]
    return {"eventTime": times, "sources": sources, "stateOperators": []}


def clock(horizon: int | None = 60_000, delay: int = 0) -> HeartbeatClock:
    return HeartbeatClock(1000, EventTime(delay, horizon), lambda description: description == BEATS)


def test_a_watermark_is_told_in_words() -> None:
    told = watermark_of(
        {
            "eventTime": {"watermark": spark_time(NOON), "max": spark_time(NOON + 2500)},
            "stateOperators": [{"numRowsDroppedByWatermark": 2}, {"numRowsDroppedByWatermark": 1}],
        }
    )

    assert told == Watermark(NOON, NOON + 2500, 3)
    assert told.behind_ms == 2500
    assert told.in_words() == (
        "windows that end up to 2023-11-14T22:13:20.000Z are closed, 2.5 s behind the youngest record at "
        "2023-11-14T22:13:22.500Z; 3 late rows dropped"
    )


@pytest.mark.parametrize("event_time", [{}, {"watermark": "1970-01-01T00:00:00.000Z"}])
def test_before_the_first_record_no_window_is_closed(event_time: dict[str, str]) -> None:
    told = watermark_of({"eventTime": event_time})

    assert told == Watermark(None, None, 0)
    assert told.in_words() == "no event time yet: no window is closed"


def test_event_time_goes_on_with_the_clock_after_a_pause() -> None:
    beats = clock()
    beats.saw(progress(event_time=NOON, orders=5, beats=0), 100_000)

    assert beats.due(100_999) is None
    assert beats.due(101_000) == NOON + 1000
    beats.said(NOON + 1000)
    # The heartbeat makes a batch of its own, which is no input.
    beats.saw(progress(NOON, NOON + 1000, orders=0, beats=1), 101_200)
    assert beats.due(102_000) == NOON + 2000


def test_input_ends_the_pause() -> None:
    beats = clock()
    beats.saw(progress(event_time=NOON, orders=5, beats=0), 100_000)
    beats.saw(progress(NOON, NOON + 300, orders=1, beats=0), 100_900)

    assert beats.due(101_500) is None
    assert beats.due(101_900) == NOON + 300 + 1000


def test_heartbeats_end_when_all_windows_are_closed() -> None:
    beats = clock(horizon=5000)
    beats.saw(progress(event_time=NOON, orders=5), 100_000)

    assert beats.due(900_000) == NOON + 5000
    beats.said(NOON + 5000)
    assert beats.due(1_000_000) is None


def test_a_query_that_is_behind_does_not_pause() -> None:
    beats = clock()
    beats.saw(progress(event_time=NOON, orders=5), 100_000)
    beats.saw(progress(NOON, orders=0, behind=70), 105_000)

    assert beats.due(105_900) is None


def test_a_source_that_pauses_alone_is_led_by_the_others() -> None:
    beats = clock()
    beats.saw(progress(event_time=NOON, orders=5, refunds=1), 100_000)
    beats.saw(progress(NOON, NOON + 9000, orders=5, refunds=0), 109_000)

    assert beats.due(109_100) == NOON + 9000
    beats.said(NOON + 9000)
    assert beats.due(109_200) is None


def test_nothing_is_said_before_there_is_event_time() -> None:
    beats = clock()
    assert beats.due(1_000_000) is None
    beats.saw(progress(orders=0), 100_000)

    assert beats.due(1_000_000) is None


def test_a_restarted_query_goes_on_from_its_watermark() -> None:
    beats = clock(delay=500)
    beats.saw(progress(NOON, orders=0), 100_000)

    assert beats.due(101_000) == NOON + 500 + 1000


def test_a_topic_of_heartbeats_stays_small() -> None:
    topic = heartbeat_topic("shop", "totals")

    assert (topic.name, topic.partitions) == ("shop-totals-heartbeats", 1)
    assert topic.config["cleanup.policy"] == "delete"
