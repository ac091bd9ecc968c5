"""How internal topics are made, for how long windows stay in them, and which records may go."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.streams import Streams, Table, hopping, session, sliding, tumbling
from ottla.streams.plan.planner import plan
from ottla.streams.run.internal_topics import RETENTION_SLACK_MS, retention_ms, topic_of
from ottla.streams.run.purge import deletable

MINUTE = timedelta(minutes=1)
MINUTE_MS = 60_000


def windowed(app: Streams) -> Table:
    return app.stream("in", value=str).group_by_key().windowed_by(tumbling(MINUTE, grace=2 * MINUTE)).count()


def settings_of(app: Streams, table: Table) -> dict[str, str]:
    """The settings of the internal topic that a table is kept in."""
    table.materialize("asked")
    (sink,) = plan(app.topology()).internal_topics[-1:]
    return dict(topic_of(sink, 3).config)


def test_a_repartition_topic_loses_nothing_by_time() -> None:
    app = Streams("app")
    stream = app.stream("in", value=str)
    joined = app.table("left", value=str).join_foreign(
        app.table("right", value=str), lambda row: row.value, lambda left, right: left
    )
    joined.to("out", value=str)
    stream.to("other")
    topics = {sink.topic: topic_of(sink, 3) for sink in plan(app.topology()).internal_topics}

    repartition = [topic for name, topic in topics.items() if name.endswith("-repartition")]

    assert len(repartition) == 2
    for topic in repartition:
        assert topic.partitions == 3
        assert topic.config["cleanup.policy"] == "delete"
        assert (topic.config["retention.ms"], topic.config["retention.bytes"]) == ("-1", "-1")


def test_a_table_without_windows_is_only_compacted() -> None:
    app = Streams("app")
    assert settings_of(app, app.stream("in").group_by_key().count()) == {"cleanup.policy": "compact"}


def test_a_windowed_table_can_lose_its_oldest_but_not_to_the_brokers_clock() -> None:
    app = Streams("app")
    settings = settings_of(app, windowed(app))
    assert settings == {"cleanup.policy": "compact,delete", "retention.ms": "-1", "retention.bytes": "-1"}


def test_windows_are_kept_until_they_are_closed_and_a_day_longer() -> None:
    app = Streams("app")
    grouped = app.stream("in", value=str).group_by_key()
    for table, closed_ms in (
        (windowed(app), 3 * MINUTE_MS),
        (grouped.windowed_by(hopping(2 * MINUTE, advance=MINUTE, grace=MINUTE)).count(), 3 * MINUTE_MS),
        (grouped.windowed_by(sliding(MINUTE, grace=MINUTE)).count(), 3 * MINUTE_MS + 1),
        (grouped.windowed_by(session(MINUTE, grace=MINUTE)).count(), 3 * MINUTE_MS + 1),
    ):
        assert retention_ms(table._node) == closed_ms + RETENTION_SLACK_MS


def test_a_table_with_the_windows_of_another_is_kept_as_long() -> None:
    app = Streams("app")
    table = windowed(app)
    kept_ms = retention_ms(table._node)
    assert kept_ms is not None

    assert retention_ms(table.filter(lambda row: row.value > 3)._node) == kept_ms
    assert retention_ms(table.map_values(lambda row: row.value + 1)._node) == kept_ms
    assert retention_ms(table.suppress(time_limit=MINUTE)._node) == kept_ms
    assert retention_ms(table.filter(lambda row: row.value > 3).suppress()._node) == kept_ms


def test_a_table_without_windows_made_of_one_with_windows_is_kept_for_ever() -> None:
    app = Streams("app")
    table = windowed(app)

    regrouped = table.group_by(lambda row: row.key.key).count()
    counted = table.to_stream().group_by_key().count()

    assert retention_ms(regrouped._node) is None
    assert retention_ms(counted._node) is None
    assert retention_ms(table.to_stream()._node) is None


@pytest.mark.parametrize(
    ("start", "read", "expired", "goes"),
    [
        ({0: 0, 1: 5}, [{0: 10, 1: 5}], None, {0: 10}),
        ({0: 0}, [{0: 10}, {0: 7}], None, {0: 7}),
        ({0: 0}, [{0: 10}, {}], None, {}),
        ({0: 0}, [], None, {}),
        ({0: 0}, [], {0: 4}, {0: 4}),
        ({0: 0}, [{0: 10}], {0: 4}, {0: 4}),
        ({0: 0}, [{0: 3}], {0: 4}, {0: 3}),
        ({0: 8}, [{0: 3}], None, {}),
    ],
)
def test_only_records_that_all_readers_have_read_go(
    start: dict[int, int], read: list[dict[int, int]], expired: dict[int, int] | None, goes: dict[int, int]
) -> None:
    assert deletable(start, read, expired) == goes


offsets = st.dictionaries(st.integers(0, 2), st.integers(0, 20))


@given(offsets, st.lists(offsets, max_size=3), st.none() | offsets)
def test_nothing_goes_that_somebody_has_not_read(
    start: dict[int, int], read: list[dict[int, int]], expired: dict[int, int] | None
) -> None:
    for partition, before in deletable(start, read, expired).items():
        assert before > start[partition]
        assert all(positions.get(partition, start[partition]) >= before for positions in read)
        assert expired is None or expired.get(partition, start[partition]) >= before
