"""The exactly-once sink's ledger: its names and entries, and when Kafka may have forgotten a group."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import KafkaError
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.client.access import ClusterAccess
from ottla.client.cluster import Topic
from ottla.client.errors import ClusterError
from ottla.pipeline.query.checkpoints import Checkpoint
from ottla.pipeline.query.source import KafkaSource, SourceError, spark_source_options
from ottla.pipeline.sink import exactly_once_ledger
from ottla.pipeline.sink.exactly_once_ledger import LedgerEntry, LedgerTopics, is_forgotten, ledger_topic
from ottla.pipeline.sink.exactly_once_settings import Identity, SinkError
from support.pipeline.spark_checkpoints import write_checkpoint

WEEK_MS = 7 * 86_400_000
NAMES = st.text(min_size=1, max_size=300)


@given(NAMES)
@example("orders")
@example("a" * 237)
@example("a" * 238)
@example("..")
def test_every_query_has_a_topic_that_kafka_takes(name: str) -> None:
    topic = ledger_topic(name)
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,249}", topic)
    assert topic.endswith("-sink-ledger")


@given(NAMES, NAMES)
@example("a b", "a-b")
@example("a b", "a/b")
@example("a" * 238, "a" * 239)
def test_two_queries_have_two_topics(one: str, other: str) -> None:
    assert (ledger_topic(one) == ledger_topic(other)) == (one == other)


@given(
    st.integers(0, 1 << 62), NAMES, NAMES, NAMES, st.sampled_from(Identity), st.integers(0, 1 << 31), NAMES
)
def test_an_entry_is_read_as_it_was_written(
    next_batch: int, name: str, query: str, run: str, identity: Identity, task: int, shuffle: str
) -> None:
    entry = LedgerEntry(next_batch, name, query, run, identity, task, shuffle)
    assert LedgerEntry.parse("group", next_batch, entry.metadata()) == entry
    assert LedgerEntry.parse_record("topic", entry.record()) == entry


@pytest.mark.parametrize("value", [b"", b"17", b"[]", b"{}", b'{"ottla":2}', b"\xff", b"[" * 100_000])
def test_what_is_no_entry_is_a_line(value: bytes) -> None:
    with pytest.raises(SinkError, match="topic t holds records that are not this sink's"):
        LedgerEntry.parse_record("t", value)


@given(
    retention_ms=st.integers(60_000, 10 * WEEK_MS),
    begun_ms=st.integers(0, 1 << 41),
    written_after_ms=st.integers(0, WEEK_MS),
    away_ms=st.integers(0, 20 * WEEK_MS),
    clock_ms=st.integers(-3_600_000, 3_600_000),
)
def test_a_batch_that_kafka_may_have_forgotten_is_never_taken_for_known(
    retention_ms: int, begun_ms: int, written_after_ms: int, away_ms: int, clock_ms: int
) -> None:
    """Groups go no sooner than the retention after they were written, and that is after the plan."""
    clock_ms = max(-retention_ms // 10, min(clock_ms, retention_ms // 10))  # by which the clocks differ
    written_ms = begun_ms + written_after_ms
    now_ms = written_ms + away_ms
    forgotten = away_ms >= retention_ms
    if forgotten:
        assert is_forgotten(begun_ms, now_ms - abs(clock_ms), retention_ms)
    if now_ms - begun_ms < retention_ms * 9 // 10 - 3_600_000:
        assert not is_forgotten(begun_ms, now_ms, retention_ms)
    assert is_forgotten(begun_ms, now_ms, None)


def test_a_checkpoint_tells_when_its_unfinished_batch_was_planned(tmp_path: Path) -> None:
    for name, planned, finished, expected in (
        ("none", {}, [], None),
        ("done", {0: "{}", 1: "{}"}, [0, 1], None),
        ("unfinished", {0: "{}", 1: "{}"}, [0], 1_700_000_000_001),
        ("first", {0: "{}"}, [], 1_700_000_000_000),
    ):
        checkpoint = write_checkpoint(tmp_path / name, "an-id", planned, finished)
        for batch in planned:
            path = checkpoint / "offsets" / str(batch)
            version, _, *sources = path.read_text().splitlines()
            metadata = f'{{"batchWatermarkMs":0,"batchTimestampMs":{1_700_000_000_000 + batch},"conf":{{}}}}'
            path.write_text("\n".join([version, metadata, *sources]))
        assert Checkpoint(checkpoint).unfinished_batch_ms == expected, name
    torn = write_checkpoint(tmp_path / "torn", "an-id", {0: "{}"}, [])
    (torn / "offsets" / "0").write_text("v1\n{")
    assert Checkpoint(torn).unfinished_batch_ms is None


def test_a_pattern_reads_no_ledger() -> None:
    class Cluster:
        def wait_until_answering(self, timeout_seconds: float) -> None: ...

        def topic_names(self) -> list[str]:
            return ["shop-orders", "shop-copy-sink-ledger"]

    from ottla.pipeline.query.source import check_source

    source = KafkaSource("127.0.0.1:1", pattern="shop-.*|(?:x)")
    assert check_source(source, Cluster()) == ["shop-orders"]  # type: ignore[arg-type]
    pattern = spark_source_options(source, ["shop-orders"], Cluster())["subscribePattern"]  # type: ignore[arg-type]
    assert re.fullmatch(pattern, "shop-orders") and re.fullmatch(pattern, "x")
    assert not re.fullmatch(pattern, "shop-copy-sink-ledger")
    with pytest.raises(SourceError, match="no topic on"):
        check_source(KafkaSource("127.0.0.1:1", pattern=".*-ledger"), Cluster())  # type: ignore[arg-type]


class _Refusing:
    """A cluster that refuses to show a topic's settings, or to make a topic."""

    def __init__(self, code: int) -> None:
        self.error = ClusterError("cannot do that at 127.0.0.1:1: refused", code)

    def topic_settings(self, topic: str) -> dict[str, str]:
        raise self.error

    def ensure_topics(self, topics: Sequence[Topic]) -> dict[str, str]:
        raise self.error


def require(monkeypatch: pytest.MonkeyPatch, code: int, *, exists: bool) -> None:
    monkeypatch.setattr(exactly_once_ledger, "_cluster", lambda access: _Refusing(code))
    LedgerTopics().require(ClusterAccess("127.0.0.1:1"), "a-sink-ledger", lambda: 1, exists)


def test_a_ledger_whose_settings_the_user_may_not_see_is_taken_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require(monkeypatch, KafkaError.TOPIC_AUTHORIZATION_FAILED, exists=True)


def test_other_refusals_are_told_as_the_sinks(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SinkError, match="the exactly-once sink's ledger: cannot do that"):
        require(monkeypatch, KafkaError._TRANSPORT, exists=True)
    with pytest.raises(SinkError, match="create it with one partition and"):
        require(monkeypatch, KafkaError.TOPIC_AUTHORIZATION_FAILED, exists=False)
