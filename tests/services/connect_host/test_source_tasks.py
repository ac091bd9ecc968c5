"""Source tasks on a real broker: records whole and in order, offsets behind them, errors that tell."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from confluent_kafka import Message

from ottla.client.cluster import KafkaCluster
from ottla.connect.host.messages import Figures, Paused, Role, Running, Start, Topics
from ottla.connect.host.offset_store import read_offsets
from support.clients.confluent import admin_client, create_topic, eventually, read_all, topic_exists
from support.connect import runs
from support.connect.runs import Host

PARTS = [{"part": 0}, {"part": 1}]


def _start(bootstrap: str, name: str, config: Mapping[str, str], **more: Any) -> Start:
    own = {"connector.class": "NumbersSource", "topic": name, "ends": "true", "count": "100", **config}
    return runs.start(bootstrap, name, Role.SOURCE_TASK, own, partitions=PARTS, **more)


def _values(messages: Sequence[Message]) -> dict[str, list[int]]:
    """The numbers of each part, in the order of the topic's only partition."""
    found: dict[str, list[int]] = {}
    for message in messages:
        part, number = (message.value() or b"").decode().split(":")
        found.setdefault(part, []).append(int(number))
    return found


def test_batches_of_any_size_arrive_whole_and_in_order(bootstrap: str, host: Host, name: str) -> None:
    rng = random.Random()
    count, batch, columns = rng.randrange(1, 400), rng.randrange(1, 60), rng.choice(("true", "false"))
    create_topic(bootstrap, name)
    order = _start(bootstrap, name, {"count": str(count), "batch": str(batch), "columns": columns})
    assert host.finish(order) is None
    assert _values(read_all(bootstrap, name, 2 * count)) == {"0": [*range(count)], "1": [*range(count)]}
    assert sorted(each[1]["next"] for each in read_offsets(order)) == [count, count]
    assert host.of(order.run, Topics) == [Topics(order.run, [name])]
    figures = host.of(order.run, Figures)[-1].figures
    assert figures["source-record-write-total"] == figures["source-record-poll-total"] == 2 * count


@pytest.mark.long
def test_a_task_goes_on_behind_the_offsets_of_its_start(bootstrap: str, host: Host, name: str) -> None:
    create_topic(bootstrap, name)
    offsets = [({"part": 0}, {"next": 90}), ({"part": 1}, {"next": 100})]
    assert host.finish(_start(bootstrap, name, {}, offsets=offsets)) is None
    assert _values(read_all(bootstrap, name, 10)) == {"0": [*range(90, 100)]}


@pytest.mark.long
def test_a_source_that_is_away_is_read_again_from_the_last_record(
    bootstrap: str, host: Host, name: str
) -> None:
    create_topic(bootstrap, name)
    assert host.finish(_start(bootstrap, name, {"away.at": "35"})) is None
    assert _values(read_all(bootstrap, name, 200)) == {"0": [*range(100)], "1": [*range(100)]}


def test_a_source_that_fails_is_named_with_its_place_and_what_it_gave_is_kept(
    bootstrap: str, host: Host, name: str
) -> None:
    create_topic(bootstrap, name)
    order = _start(bootstrap, name, {"fail.at": "55"})
    trace = host.finish(order)
    assert trace is not None
    assert "number 55 can't be read" in trace and "{'next': 50}" in trace and "{'part': 0}" in trace
    assert "Traceback" in trace
    # both partitions had their turns before: their offsets are committed
    assert sorted(each[1]["next"] for each in read_offsets(order)) == [50, 50]


def test_without_tolerance_a_record_that_no_converter_takes_ends_the_task(
    bootstrap: str, host: Host, name: str
) -> None:
    poison = {"key.converter": "test.TextConverter", "value.converter": "test.PoisonedConverter"}
    create_topic(bootstrap, name)
    trace = host.finish(_start(bootstrap, name, poison))
    assert trace is not None
    assert trace.startswith(
        "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler"
    )
    assert "VALUE_CONVERTER with class test.PoisonedConverter" in trace
    assert "source partition {'part': 0}, source offset {'next': 8}" in trace
    assert "org.apache.kafka.connect.errors.DataException: 0:7 is poison" in trace


def test_tolerated_errors_skip_their_records_and_no_others(bootstrap: str, host: Host, name: str) -> None:
    create_topic(bootstrap, name)
    config = {"value.converter": "test.PoisonedConverter", "errors.tolerance": "all"}
    order = _start(bootstrap, name, config)
    assert host.finish(order) is None
    kept = [number for number in range(100) if number % 10 != 7]
    assert _values(read_all(bootstrap, name, 180)) == {"0": kept, "1": kept}
    assert host.of(order.run, Figures)[-1].figures["total-records-skipped"] == 20
    assert [each[1]["next"] for each in read_offsets(order)] == [100, 100]


@pytest.mark.long
def test_a_record_that_is_too_large_ends_the_task_and_tolerated_is_skipped(
    bootstrap: str, host: Host, name: str
) -> None:
    create_topic(bootstrap, name)
    large = {"value.converter": "test.PoisonedConverter", "value.converter.large": "true"}
    trace = host.finish(_start(bootstrap, name, large))
    assert trace is not None and "KAFKA_PRODUCE" in trace and "source offset {'next': 8}" in trace
    assert host.finish(_start(bootstrap, name, {**large, "errors.tolerance": "all"})) is None


@pytest.mark.long
def test_topics_are_created_by_the_first_group_that_fits(bootstrap: str, host: Host, name: str) -> None:
    config = {
        "topic.creation.default.partitions": "2",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.groups": "other, mine",
        "topic.creation.other.include": ".*",
        "topic.creation.other.exclude": "c.*",
        "topic.creation.mine.include": f"x,{name}",
        "topic.creation.mine.partitions": "3",
        "topic.creation.mine.retention.ms": "7200000",
    }
    assert host.finish(_start(bootstrap, name, config)) is None
    assert len(admin_client(bootstrap).list_topics(name).topics[name].partitions) == 3
    assert KafkaCluster(bootstrap).topic_settings(name)["retention.ms"] == "7200000"
    plain = f"{name}-plain"
    assert (
        host.finish(_start(bootstrap, plain, {k: v for k, v in config.items() if ".mine." not in k})) is None
    )
    assert len(admin_client(bootstrap).list_topics(plain).topics[plain].partitions) == 2
    assert topic_exists(bootstrap, plain)


def test_a_paused_task_has_committed_and_goes_on_where_it_was(bootstrap: str, host: Host, name: str) -> None:
    create_topic(bootstrap, name)
    order = _start(bootstrap, name, {"count": "1000000", "ends": "false"})
    host.begin(order)
    eventually(lambda: bool(host.of(order.run, Topics)), "records are sent")
    host.runner.pause(order.run)
    host.wait(order.run, Paused)
    committed = {each[0]["part"]: each[1]["next"] for each in read_offsets(order)}
    ends = _ends(bootstrap, name)
    assert sum(committed.values()) == ends
    host.runner.resume(order.run)
    host.wait(order.run, Running, 2)
    eventually(lambda: _ends(bootstrap, name) > ends, "the task goes on")
    assert host.end(order.run) is None
    assert sum(each[1]["next"] for each in read_offsets(order)) == _ends(bootstrap, name)


def _ends(bootstrap: str, topic: str) -> int:
    return KafkaCluster(bootstrap).end_positions(topic)[0]


@pytest.mark.long
def test_a_standalone_workers_offsets_are_in_its_file(
    bootstrap: str, host: Host, name: str, tmp_path: Any
) -> None:
    create_topic(bootstrap, name)
    worker = {"offset.storage.topic": "", "offset.storage.file.filename": str(tmp_path / "offsets")}
    assert host.finish(_start(bootstrap, name, {}, worker=worker)) is None
    lines = (tmp_path / "offsets").read_text().splitlines()
    assert set(lines[-2:]) == {f'["{name}",{{"part":{part}}},{{"next":100}}]' for part in (0, 1)}
