"""Sources that write exactly once (KIP-618): records and offsets in one transaction, older runs fenced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ottla.connect.host.messages import Ended, Role, Start, Topics
from ottla.connect.host.offset_store import read_offsets
from support.clients.confluent import create_topic, eventually, read_all
from support.connect import runs
from support.connect.runs import Host

ONCE = {"exactly.once.source.support": "enabled"}


def _start(bootstrap: str, name: str, config: Mapping[str, str], **more: Any) -> Start:
    own = {"connector.class": "NumbersSource", "topic": name, "ends": "true", "count": "100", **config}
    partitions = [{"part": 0}]
    return runs.start(bootstrap, name, Role.SOURCE_TASK, own, worker=ONCE, partitions=partitions, **more)


def _committed(bootstrap: str, topic: str, count: int) -> list[str]:
    messages = read_all(bootstrap, topic, count, isolation_level="read_committed")
    return [(message.value() or b"").decode() for message in messages]


@pytest.mark.parametrize("boundary", [pytest.param("poll", marks=pytest.mark.long), "interval"])
def test_the_last_run_of_several_adds_only_what_is_new(
    bootstrap: str, host: Host, name: str, boundary: str
) -> None:
    create_topic(bootstrap, name)
    config = {"transaction.boundary": boundary, "transaction.boundary.interval.ms": "50"}
    # the offsets of the Start are old: a task reads them itself once older runs are fenced
    for count in (40, 100):
        order = _start(bootstrap, name, {**config, "count": str(count)}, offsets=[({"part": 0}, {"next": 3})])
        assert host.finish(order) is None
    assert _committed(bootstrap, name, 100) == [f"0:{number}" for number in range(100)]
    assert read_offsets(order) == [({"part": 0}, {"next": 100})]


def test_a_connector_ends_its_transactions_and_aborts_some(bootstrap: str, host: Host, name: str) -> None:
    create_topic(bootstrap, name)
    config = {
        "connector.class": "TransactionsSource",
        "transaction.boundary": "connector",
        "transaction.every": "2",
        "count": "130",
    }
    order = _start(bootstrap, name, config)
    assert host.finish(order) is None
    # transactions of 20 numbers, every third aborted; the last 10 were never ended
    kept = [number for number in range(120) if number // 20 % 3 != 2]
    assert _committed(bootstrap, name, len(kept)) == [f"0:{number}" for number in kept]
    assert read_offsets(order) == [({"part": 0}, {"next": 120})]


@pytest.mark.long
def test_a_connector_that_knows_no_transactions_cannot_end_them(
    bootstrap: str, host: Host, name: str
) -> None:
    trace = host.finish(_start(bootstrap, name, {"transaction.boundary": "connector"}))
    assert trace is not None and "does not support connector-defined transaction boundaries" in trace


def test_a_newer_run_fences_the_older_one(bootstrap: str, host: Host, name: str) -> None:
    create_topic(bootstrap, name)
    endless = {"count": "100000000", "ends": "false"}
    older, newer = _start(bootstrap, name, endless), _start(bootstrap, name, endless)
    host.begin(older)
    eventually(lambda: bool(host.of(older.run, Topics)), "the older one writes")
    host.begin(newer)
    eventually(lambda: bool(host.of(older.run, Ended)), "the older one has ended")
    trace = host.of(older.run, Ended)[0].trace
    assert (trace is not None and "Unrecoverable" in trace) or "the transaction is lost" in trace
    assert host.end(newer.run) is None
    (place,) = read_offsets(newer)
    count = int(place[1]["next"])
    assert _committed(bootstrap, name, count) == [f"0:{number}" for number in range(count)]


def test_a_record_that_is_refused_takes_its_transaction_with_it(
    bootstrap: str, host: Host, name: str
) -> None:
    create_topic(bootstrap, name)
    config = {
        "value.converter": "test.PoisonedConverter",
        "value.converter.large": "true",
        "errors.tolerance": "all",
        "batch": "5",
    }
    order = _start(bootstrap, name, config)
    trace = host.finish(order)
    assert trace is not None and "source offset {'next': 8}" in trace
    assert read_offsets(order) == [({"part": 0}, {"next": 5})]
    assert _committed(bootstrap, name, 5) == [f"0:{number}" for number in range(5)]


@pytest.mark.long
def test_a_source_may_not_write_to_its_offsets_topic(bootstrap: str, host: Host, name: str) -> None:
    trace = host.finish(_start(bootstrap, name, {"topic": runs.OFFSETS_TOPIC}))
    assert trace is not None and "may not produce to their own offsets topics" in trace


@pytest.mark.long
def test_a_connectors_own_offsets_topic_is_made_and_wins_over_the_workers(
    bootstrap: str, host: Host, name: str
) -> None:
    create_topic(bootstrap, name)
    assert host.finish(_start(bootstrap, name, {"count": "30"})) is None
    own = {"offsets.storage.topic": f"{name}-offsets", "count": "60"}
    order = _start(bootstrap, name, own)
    assert host.finish(order) is None
    assert _committed(bootstrap, name, 60) == [f"0:{number}" for number in range(60)]
    assert read_offsets(order) == [({"part": 0}, {"next": 60})]
    assert read_offsets(_start(bootstrap, name, {})) == [({"part": 0}, {"next": 30})]
