"""Sink tasks on a real broker: what is written, what is committed, and what becomes of records that fail."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message

from ottla.client.cluster import KafkaCluster
from ottla.connect.host.messages import Ended, Figures, Paused, Role, Running, Start, Topics
from support.clients.confluent import create_topic, eventually, produce, read_all, topic_exists
from support.connect import runs
from support.connect.runs import Host

GROUPS = {"consumer.override.session.timeout.ms": "6000", "consumer.override.heartbeat.interval.ms": "200"}


def _start(bootstrap: str, name: str, path: Path, config: Mapping[str, str], **more: Any) -> Start:
    own = {"connector.class": "LinesSink", "topics": name, "path": str(path), **GROUPS, **config}
    return runs.start(bootstrap, name, Role.SINK_TASK, own, **more)


def _lines(path: Path) -> list[Any]:
    """The lines of all tasks: [topic, partition, offset, value]."""
    files = [each for each in path.parent.glob(f"{path.name}.*") if each.suffix not in (".notes", ".away")]
    return [json.loads(line) for each in files for line in each.read_text().splitlines()]


def _values(path: Path) -> list[str]:
    return [line[3] for line in _lines(path)]


def _numbers(bootstrap: str, topic: str, first: int, end: int, partition: int = 0) -> list[str]:
    texts = [str(number) for number in range(first, end)]
    produce(bootstrap, topic, [{"value": text, "partition": partition} for text in texts])
    return texts


def _commits(bootstrap: str, name: str, topic: str) -> dict[int, int]:
    return KafkaCluster(bootstrap).committed(f"connect-{name}", topic)


@pytest.fixture(autouse=True)
def _figures_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.connect.host.figures.INTERVAL_SECONDS", 0.05)


def _figure(host: Host, order: Start, name: str) -> float:
    figures = host.of(order.run, Figures)
    return figures[-1].figures.get(name, 0) if figures else 0


def test_records_are_written_and_their_offsets_committed(
    bootstrap: str, host: Host, name: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, name)
    texts = _numbers(bootstrap, name, 0, 1500)
    order = _start(bootstrap, name, tmp_path / "out", {})
    host.begin(order)
    eventually(lambda: _commits(bootstrap, name, name) == {0: 1500}, "all is committed")
    assert _values(tmp_path / "out") == texts
    assert host.of(order.run, Topics) == [Topics(order.run, [name])]
    texts += _numbers(bootstrap, name, 1500, 1510)
    assert host.end(order.run) is None
    # the end commits what was written; another run adds the rest, if there was any
    again = _start(bootstrap, name, tmp_path / "out", {})
    host.begin(again)
    eventually(lambda: sorted(map(int, _values(tmp_path / "out"))) == [*range(1510)], "each is there once")
    assert host.end(again.run) is None


@pytest.mark.long
def test_topics_of_a_pattern_are_found_also_when_they_come_later(
    bootstrap: str, host: Host, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.connect.host.sink_task.PATTERN_SECONDS", 0.3)
    create_topic(bootstrap, f"{name}-1")
    create_topic(bootstrap, f"x{name}-1")  # the pattern is for whole names
    _numbers(bootstrap, f"{name}-1", 0, 5)
    config = {"topics": "", "topics.regex": f"{name}-[0-9]+"}
    order = _start(bootstrap, name, tmp_path / "out", config)
    host.begin(order)
    eventually(lambda: len(_lines(tmp_path / "out")) == 5, "the first topic is read")
    create_topic(bootstrap, f"{name}-2")
    _numbers(bootstrap, f"{name}-2", 0, 7)
    eventually(lambda: len(_lines(tmp_path / "out")) == 12, "the later one too")
    assert host.end(order.run) is None


def test_a_system_that_is_away_gets_each_record_when_it_is_back(
    bootstrap: str, host: Host, name: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, name)
    texts = _numbers(bootstrap, name, 0, 300)
    config = {"errors.retry.delay.max.ms": "200", "away.opens": "1", "away.batches": "3"}
    order = _start(bootstrap, name, tmp_path / "out", config)
    host.begin(order)
    eventually(lambda: _commits(bootstrap, name, name) == {0: 300}, "all is committed")
    assert _values(tmp_path / "out") == texts
    away = tmp_path / "out.away"
    away.touch()
    texts += _numbers(bootstrap, name, 300, 310)
    eventually(lambda: _figure(host, order, "total-retries") > 5, "it is tried again")
    assert _commits(bootstrap, name, name) == {0: 300}
    away.unlink()
    texts += _numbers(bootstrap, name, 310, 320)
    eventually(lambda: _commits(bootstrap, name, name) == {0: 320}, "all is committed")
    assert _values(tmp_path / "out") == texts
    assert host.end(order.run) is None


@pytest.mark.long
def test_a_system_that_stays_away_ends_the_task_after_the_retry_timeout(
    bootstrap: str, host: Host, name: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, name)
    _numbers(bootstrap, name, 0, 3)
    config = {"errors.retry.timeout": "400", "away.batches": "1000"}
    trace = host.finish(_start(bootstrap, name, tmp_path / "out", config))
    assert trace is not None and f"topic {name}, partition 0, offset 0" in trace
    assert "errors.retry.timeout=400 ms: the lines are away" in trace
    assert _commits(bootstrap, name, name) == {}


def test_a_record_that_ends_the_task_is_named_and_those_before_it_are_committed(
    bootstrap: str, host: Host, name: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, name)
    _numbers(bootstrap, name, 0, 20)
    config = {"refuse": "15"}
    trace = host.finish(_start(bootstrap, name, tmp_path / "out", config))
    assert trace is not None and "TASK_PUT with class org.apache.kafka.connect.sink.SinkTask" in trace
    assert f"topic {name}, partition 0, offset 15" in trace and "15 is refused" in trace
    assert _commits(bootstrap, name, name) == {0: 15}
    # any other error of the sink names its batch
    other = f"{name}-explodes"
    create_topic(bootstrap, other)
    produce(bootstrap, other, [{"value": "explode"}])
    trace = host.finish(_start(bootstrap, other, tmp_path / "other", {}))
    assert trace is not None and f"LinesSink failed at topic {other}, partition 0, offset 0" in trace
    assert "the sink explodes" in trace


def _headers(message: Message) -> dict[str, str]:
    given: Any = message.headers()
    return {key: (value or b"").decode() for key, value in given or ()}


def test_dead_letters_have_the_record_and_connects_headers(
    bootstrap: str, host: Host, name: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, name)
    _numbers(bootstrap, name, 0, 5)
    own = [("color", b"blue"), ("color", None)]
    produce(
        bootstrap, name, [{"key": "k", "value": "poison 1", "headers": own, "timestamp": 1_700_000_000_000}]
    )
    produce(bootstrap, name, [{"key": "k", "value": "refused"}, {"key": b"\xff", "value": "last"}])
    config = {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{name}-dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
        "refuse": "refused",
    }
    order = _start(bootstrap, name, tmp_path / "out", config)
    host.begin(order)
    eventually(lambda: _commits(bootstrap, name, name) == {0: 8}, "all is committed")
    # what is committed away is in the topic of the dead letters by then
    dead = read_all(bootstrap, f"{name}-dead", 3)
    letters = {_headers(each)["__connect.errors.offset"]: each for each in dead}
    assert (letters["5"].key(), letters["5"].value()) == (b"k", b"poison 1")
    assert letters["5"].timestamp()[1] == 1_700_000_000_000
    given: Any = letters["5"].headers()
    assert given[:2] == own
    assert [key.removeprefix("__connect.errors.") for key, _ in given[2:]] == [
        *("topic", "partition", "offset", "connector.name", "task.id", "stage", "class.name"),
        *("exception.class.name", "exception.message", "exception.stacktrace"),
    ]
    assert [value.decode() for _, value in given[2:-1]] == [
        *(name, "0", "5", name, "0", "VALUE_CONVERTER", "test.TextConverter"),
        *("org.apache.kafka.connect.errors.DataException", "poison 1 is poison"),
    ]
    assert given[-1][1].startswith(b"org.apache.kafka.connect.errors.DataException: poison 1 is poison\n")
    refusal = _headers(letters["6"])
    assert refusal["__connect.errors.stage"] == "TASK_PUT"
    assert refusal["__connect.errors.class.name"] == "org.apache.kafka.connect.sink.SinkTask"
    assert refusal["__connect.errors.exception.message"] == "refused is refused"
    assert _headers(letters["7"])["__connect.errors.stage"] == "KEY_CONVERTER"
    assert _values(tmp_path / "out") == ["0", "1", "2", "3", "4"]
    assert host.end(order.run) is None


def test_a_dead_letter_that_is_refused_keeps_its_record_uncommitted(
    bootstrap: str, host: Host, name: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, name)
    # the broker refuses letters without a key
    create_topic(bootstrap, f"{name}-dead", 1, {"cleanup.policy": "compact"})
    produce(bootstrap, name, [{"value": "poison"}])
    config = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": f"{name}-dead"}
    trace = host.finish(_start(bootstrap, name, tmp_path / "out", config))
    assert trace is not None and "Could not produce message to dead letter queue" in trace
    assert _commits(bootstrap, name, name) == {}


@pytest.mark.long
def test_a_dead_letter_topic_that_cannot_be_made_ends_the_task(
    bootstrap: str, host: Host, name: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, name)
    config = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": f"{name}-dead"}
    trace = host.finish(_start(bootstrap, name, tmp_path / "out", config))
    assert trace is not None and f"Could not initialize dead letter queue with topic={name}-dead" in trace
    assert not topic_exists(bootstrap, f"{name}-dead")


def test_a_paused_task_commits_and_keeps_its_partitions(
    bootstrap: str, host: Host, name: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, name)
    texts = _numbers(bootstrap, name, 0, 10)
    out = tmp_path / "out"
    order = _start(bootstrap, name, out, {}, worker={"offset.flush.interval.ms": "60000"})
    host.begin(order)
    eventually(lambda: _figure(host, order, "sink-record-send-total") == 10, "it writes")
    assert _commits(bootstrap, name, name) == {}
    host.runner.pause(order.run)
    host.wait(order.run, Paused)
    assert _commits(bootstrap, name, name) == {0: 10}
    texts += _numbers(bootstrap, name, 10, 20)
    host.wait(order.run, Figures, len(host.of(order.run, Figures)) + 1)
    assert _figure(host, order, "sink-record-send-total") == 10
    host.runner.resume(order.run)
    host.wait(order.run, Running, 2)
    eventually(lambda: _figure(host, order, "sink-record-send-total") == 20, "it goes on")
    assert host.end(order.run) is None
    notes = (tmp_path / "out.notes").read_text().splitlines()
    assert [json.loads(line)[0] for line in notes] == ["open", "lose"]
    assert _values(out) == texts


@pytest.mark.parametrize("strategy", ["cooperative-sticky", pytest.param("range", marks=pytest.mark.long)])
def test_tasks_that_come_and_go_in_order_write_each_record_once(
    bootstrap: str, host: Host, name: str, tmp_path: Path, strategy: str
) -> None:
    create_topic(bootstrap, name, 4)
    out = tmp_path / "out"
    config = {"consumer.override.partition.assignment.strategy": strategy}
    first, second = (_start(bootstrap, name, out, config, task=task) for task in (0, 1))

    def share(order: Start, count: int) -> None:
        eventually(lambda: _figure(host, order, "partition-count") == count, f"{order.run} has {count}")

    def more(begin: int) -> None:
        for partition in range(4):
            _numbers(bootstrap, name, begin, begin + 50, partition)

    more(0)
    host.begin(first)
    share(first, 4)
    host.begin(second)
    more(50)
    share(first, 2)
    share(second, 2)
    more(100)
    assert host.end(first.run) is None
    share(second, 4)
    more(150)
    eventually(lambda: _commits(bootstrap, name, name) == dict.fromkeys(range(4), 200), "all is committed")
    assert host.end(second.run) is None
    counts = Counter((line[1], line[2]) for line in _lines(out))
    assert counts == {(part, offset): 1 for part in range(4) for offset in range(200)}


def test_a_sink_that_keeps_its_place_with_the_data_writes_each_record_once(
    bootstrap: str, host: Host, name: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, name)
    _numbers(bootstrap, name, 0, 100)
    config = {"connector.class": "LedgerSink", "path": str(tmp_path / "base")}
    order = _start(bootstrap, name, tmp_path, config)
    host.begin(order)
    eventually(lambda: _commits(bootstrap, name, name) == {0: 100}, "the group has a copy")
    assert host.end(order.run) is None
    # the group's copy is wrong, the ledger is the truth
    KafkaCluster(bootstrap).commit(f"connect-{name}", name, {0: 3})
    _numbers(bootstrap, name, 100, 120)
    again = _start(bootstrap, name, tmp_path, config)
    host.begin(again)
    eventually(lambda: _commits(bootstrap, name, name) == {0: 120}, "the group has a copy again")
    assert host.end(again.run) is None
    with sqlite3.connect(tmp_path / "base") as base:
        rows = base.execute("SELECT value FROM lines ORDER BY place").fetchall()
    assert [row[0] for row in rows] == [str(number) for number in range(120)]


def test_a_task_that_has_no_rights_or_bad_settings_ends(
    bootstrap: str, host: Host, name: str, tmp_path: Path
) -> None:
    both = {"topics.regex": ".*"}
    trace = host.finish(_start(bootstrap, name, tmp_path / "out", both))
    assert trace is not None and "topics and topics.regex are mutually exclusive" in trace
    unknown = {"consumer.override.no.such.property": "1"}
    trace = host.finish(_start(bootstrap, name, tmp_path / "out", unknown))
    assert trace is not None and "no.such.property" in trace
    assert all(each.trace for each in host.all if isinstance(each, Ended))
