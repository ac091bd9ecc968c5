"""Source tasks report what they send, where the worker's settings name a tier; offsets are not audited."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.connect.host.messages import Role, Start
from support.audit.reported import marked, reported
from support.clients.confluent import create_topic, read_all
from support.clients.whole_topics import read_everything
from support.connect import runs
from support.connect.runs import OFFSETS_TOPIC, Host


def _start(bootstrap: str, name: str, config: Mapping[str, str], **worker: str) -> Start:
    own = {"connector.class": "NumbersSource", "topic": name, "ends": "true", "count": "100", **config}
    properties = {"ottla.audit.tier": name, **{key.replace("_", "."): text for key, text in worker.items()}}
    return runs.start(
        bootstrap, name, Role.SOURCE_TASK, own, worker=properties, partitions=[{"part": 0}, {"part": 1}]
    )


def test_a_source_tells_of_all_its_records_and_of_no_offset(bootstrap: str, host: Host, name: str) -> None:
    create_topic(bootstrap, name, 3)
    assert host.finish(_start(bootstrap, name, {"batch": "7"})) is None
    sent, told = marked(read_everything(bootstrap, name)), reported(bootstrap, name)
    assert {of: report.sent for of, report in told.items()} == sent
    assert sum(sent.values()) == 200
    assert {report.topic for report in told.values()} == {name}
    assert all(report.is_final for report in told.values())


def test_an_exactly_once_source_tells_of_what_it_commits(bootstrap: str, host: Host, name: str) -> None:
    create_topic(bootstrap, name)
    config = {
        "connector.class": "TransactionsSource",
        "transaction.boundary": "connector",
        "transaction.every": "2",
        "count": "130",
    }
    once = {"exactly_once_source_support": "enabled"}
    assert host.finish(_start(bootstrap, name, config, **once)) is None
    # of each part 120 numbers in transactions of which every third is aborted; the last were never ended
    told = reported(bootstrap, name)
    count = sum(report.sent for report in told.values())
    messages = read_all(bootstrap, name, count, isolation_level="read_committed")
    assert 0 < count < 240
    assert marked(messages) == {of: report.sent for of, report in told.items()}
    assert OFFSETS_TOPIC not in {report.topic for report in told.values()}


def test_without_a_tier_records_carry_no_mark(bootstrap: str, host: Host, name: str) -> None:
    create_topic(bootstrap, name)
    assert host.finish(_start(bootstrap, name, {}, ottla_audit_tier="")) is None
    assert all(message.headers() is None for message in read_all(bootstrap, name, 200))
