"""Spark's own aggregates and joins against plain Python, over records out of order in batches cut anywhere.

A batch costs Spark some tenths of a second, so an example is one long history: few examples, with much in
each.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from ottla.streams.compile import native_aggregate, native_join
from ottla.streams.operators.join_kind import JoinKind
from ottla.streams.operators.windows import (
    HoppingWindows,
    JoinWindows,
    SessionWindows,
    TumblingWindows,
    Windows,
)
from ottla.streams.plan.nodes.aggregate import Emit, NativeAggregate
from ottla.streams.plan.nodes.join import StreamJoin
from support.exploration import examples
from support.pipeline import stream_models as models
from support.pipeline.spark_batches import one_task_each, run_together, stream_of
from support.pipeline.stream_models import Batches, Fact

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from ottla.streams.plan.records import Record

pytestmark = pytest.mark.spark

BATCHES = 5
FAR = 1_000_000


def slow(number: int) -> Any:
    """No shrinking: every try would be seconds. A failure is printed whole, and comes again by its seed."""
    return settings(
        max_examples=examples(number),
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
        derandomize=number == examples(number),
    )


@st.composite
def histories(draw: st.DrawFn, spread: int, heartbeats: bool) -> Batches:
    """Batches whose times go up by and large, `spread` out of order, with ties, gaps, and nulls."""
    batches = []
    now = draw(st.integers(0, 30))
    for _ in range(BATCHES):
        facts = []
        for _ in range(draw(st.integers(0, 16))):
            time = max(0, now + draw(st.integers(-spread, spread)))
            key = draw(st.sampled_from(["a", "b", "c", None]))
            value = draw(st.one_of(*[st.integers(-5, 5)] * 4, st.none()))
            facts.append(Fact(key, value, time))
        if heartbeats and draw(st.booleans()):
            facts.append(Fact(None, None, now + draw(st.integers(0, spread)), heartbeat=True))
        batches.append(facts)
        now += draw(st.sampled_from([0, 3, 10, 25, 60]))
    return batches


def statistics(record: Record) -> dict[str, Column]:
    from pyspark.sql import functions as F

    return {"rows": F.count(F.lit(1)), "total": F.sum(record.value), "best": F.max(record.value)}


def an_aggregate(windows: Windows | None, emit: Emit) -> NativeAggregate:
    return NativeAggregate("facts", None, windows, statistics, False, emit)  # type: ignore[arg-type]


WINDOWS = st.integers(1, 30).flatmap(
    lambda size: st.builds(HoppingWindows, st.just(size), st.integers(1, size), st.integers(0, 20))
)


@slow(1)
@given(
    batches=histories(spread=25, heartbeats=True),
    tumbling=st.builds(TumblingWindows, st.integers(1, 30), st.integers(0, 20)),
    hopping=WINDOWS,
    session=st.builds(SessionWindows, st.integers(1, 12), st.integers(0, 20)),
)
def test_aggregates(
    spark: SparkSession,
    batches: Batches,
    tumbling: TumblingWindows,
    hopping: HoppingWindows,
    session: SessionWindows,
) -> None:
    from pyspark.sql import functions as F

    expected = {
        "tumbling": models.windowed(batches, tumbling, final=False),
        "hopping": models.windowed(batches, hopping, final=True),
        "session": models.sessions(batches, session),
    }
    # A run is worth its time only with late records, and windows that close.
    assume(all(sum(model.dropped) and sum(map(len, model.rows)) >= 5 for model in expected.values()))
    nodes = {
        "all": an_aggregate(None, Emit.CHANGES),
        "tumbling": an_aggregate(tumbling, Emit.CHANGES),
        "hopping": an_aggregate(hopping, Emit.WINDOW_CLOSE),
        "session": an_aggregate(session, Emit.WINDOW_CLOSE),
    }
    value = [F.col(f"value.{name}") for name in ("rows", "total", "best")]
    last = F.unix_millis("timestamp")
    window = [F.col("key.key"), F.unix_millis("key.start"), F.unix_millis("key.end")]

    with tempfile.TemporaryDirectory() as place, one_task_each(spark):
        directory = Path(place)
        records = stream_of(spark, directory / "records", batches)
        beats = stream_of(spark, directory / "heartbeats", batches, heartbeats=True)
        frames = {}
        for name, node in nodes.items():
            frame = native_aggregate.aggregate(records, node, None if name == "all" else beats)
            columns = [*([F.col("key")] if name == "all" else window), *value, last]
            frames[name] = frame, native_aggregate.output_mode(node), columns
        ran = run_together(frames, directory)

    rows = {name: [set(map(tuple, batch)) for batch in each.rows] for name, each in ran.items()}
    assert rows["all"] == models.by_key(batches)
    for name, model in expected.items():
        # Where the last batch has moved nothing, Spark runs none behind it.
        count = len(rows[name])
        assert (name, rows[name]) == (name, model.rows[:count])
        assert not any(model.rows[count:])
        assert (name, [each.dropped for each in ran[name].watermarks]) == (name, model.dropped[:count])


@slow(1)
@given(
    lefts=histories(spread=30, heartbeats=False),
    rights=histories(spread=30, heartbeats=False),
    windows=st.builds(JoinWindows, st.integers(0, 12), st.integers(0, 12), st.integers(0, 8)),
)
def test_stream_joins(spark: SparkSession, lefts: Batches, rights: Batches, windows: JoinWindows) -> None:
    from pyspark.sql import functions as F

    # At the end both sides' event time is far ahead, so that no record waits any more.
    end = [[Fact(None, None, FAR, heartbeat=True)]]
    lefts, rights = [*lefts, *end], [*rights, *end]
    expected = {kind: models.stream_join(lefts, rights, windows, kind) for kind in JoinKind}
    inner, outer = expected[JoinKind.INNER], expected[JoinKind.OUTER]
    assume(sum(inner.dropped) and len(outer.alone) >= 5 and sum(len(each) > 1 for each in inner.pairs) >= 2)
    columns = ["key", "value.left", "value.right", F.unix_millis("timestamp").alias("time")]

    with tempfile.TemporaryDirectory() as place, one_task_each(spark):
        directory = Path(place)
        left = stream_of(spark, directory / "left", lefts)
        right = stream_of(spark, directory / "right", rights)
        beats = stream_of(spark, directory / "heartbeats", lefts, heartbeats=True)
        frames = {}
        for kind in JoinKind:
            node = StreamJoin("pairs", None, None, windows, kind, None)  # type: ignore[arg-type]
            frames[kind.value] = native_join.stream_join(left, right, node, beats), "append", columns
        ran = run_together(frames, directory)

    for kind in JoinKind:
        model, found = expected[kind], ran[kind.value]
        pairs = [
            Counter(tuple(row) for row in batch if row.left is not None and row.right is not None)
            for batch in found.rows
        ]
        alone = Counter(
            tuple(row) for batch in found.rows for row in batch if row.left is None or row.right is None
        )
        assert (kind, pairs) == (kind, model.pairs[: len(pairs)])
        assert (kind, alone) == (kind, model.alone)
        assert (kind, found.state_rows) == (kind, 0)
        assert (kind, [each.dropped for each in found.watermarks]) == (kind, model.dropped[: len(pairs)])
