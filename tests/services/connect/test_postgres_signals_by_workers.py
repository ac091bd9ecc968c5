"""Signals through a worker's REST API and command, and the outbox: from PostgreSQL's tables to topics."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ottla.client.access import ClusterAccess
from ottla.client.cluster import KafkaCluster
from ottla.client.reading import read
from support.connect.cdc.postgres_changes import configuration
from support.connect.workers import ConnectWorker, until
from support.servers.apache_kafka import ApacheKafka
from support.servers.ottla_broker import OttlaBroker
from support.servers.postgresql import postgresql, postgresql_programs

pytestmark = pytest.mark.slow

JSON = "org.apache.kafka.connect.json.JsonConverter"
PLAIN_JSON = {
    "key.converter": JSON,
    "key.converter.schemas.enable": "false",
    "value.converter": JSON,
    "value.converter.schemas.enable": "false",
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    programs = postgresql_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    with postgresql(programs, "wal_level=logical") as running:
        yield running


@pytest.fixture(scope="module")
def worker(
    broker: OttlaBroker | ApacheKafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConnectWorker]:
    group = f"signals-{uuid.uuid4().hex[:8]}"
    settings = {
        "group.id": group,
        "config.storage.topic": f"{group}-configs",
        "status.storage.topic": f"{group}-status",
        "offset.storage.topic": f"{group}-offsets",
        "exactly.once.source.support": "enabled",
        "offset.flush.interval.ms": "200",
        "offset.storage.partitions": "3",
        "status.storage.partitions": "2",
        "session.timeout.ms": "3000",
        "heartbeat.interval.ms": "300",
    }
    found = ConnectWorker.installed(
        broker.bootstrap, tmp_path_factory.mktemp("signals") / "worker.log", settings
    )
    found.server.start()
    try:
        yield found
    finally:
        found.server.stop()


def start(worker: ConnectWorker, url: str, name: str, **others: str) -> None:
    config = configuration(url, slot_name=name, topic_prefix=name, extended_headers_enabled="false")
    config |= {name.replace("_", "."): text for name, text in others.items()} | {"name": name}
    answer = worker.ask("PUT", f"/connectors/{name}/config", PLAIN_JSON | config)
    assert answer.status == 201, answer
    worker.wait_for(name, "RUNNING", 1)
    # From its slot on changes come.
    with psycopg.connect(url, autocommit=True) as connection:
        query = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s AND active"
        until(lambda: connection.execute(query, (name,)).fetchone(), lambda row: row == (1,))


def records(bootstrap: str, topic: str) -> list[tuple[Any, Any, dict[str, Any]]]:
    """Keys, values and headers of a topic; none where it is not there."""
    cluster = KafkaCluster(bootstrap)
    if cluster.missing_topics([topic]):
        return []
    ends = cluster.end_positions(topic)
    found = read(ClusterAccess(bootstrap), topic, dict.fromkeys(ends, 0), ends)
    return [
        (
            None if each.key() is None else json.loads(each.key() or b""),
            None if each.value() is None else json.loads(each.value() or b""),
            dict(each.headers() or ()),
        )
        for each in found
    ]


def reads(bootstrap: str, topic: str) -> list[int]:
    """The ids of the rows that were copied."""
    found = [value for _, value, _ in records(bootstrap, topic) if value is not None]
    return [each["after"]["id"] for each in found if each["op"] == "r"]


def test_a_table_is_copied_again_by_a_request_and_by_a_command(
    broker: OttlaBroker | ApacheKafka, worker: ConnectWorker, url: str
) -> None:
    name = f"shop{random.getrandbits(30)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE goods (id integer PRIMARY KEY, v text)")
        connection.execute("INSERT INTO goods SELECT n, n::text FROM generate_series(1, 3000) n")
    start(
        worker,
        url,
        name,
        table_include_list="public.goods",
        snapshot_mode="no_data",
        signal_enabled_channels="source,kafka",
        signal_poll_interval_ms="50",
    )
    topic = f"{name}.public.goods"
    path = f"/connectors/{name}/signals"
    assert worker.ask("POST", path, {"type": "no-such"}).status == 400
    assert worker.ask("POST", path, {"type": "execute-snapshot", "data": {}}).status == 400
    assert worker.ask("POST", "/connectors/nobody/signals", {"type": "pause-snapshot"}).status == 404
    sent = worker.ask(
        "POST", path, {"type": "execute-snapshot", "data": {"data-collections": [r"public\.g.*"]}}
    )
    assert sent.status == 202 and sent.body["topic"] == f"{name}-signal" and sent.body["offset"] == 0
    expected = list(range(1, 3001))
    until(lambda: reads(broker.bootstrap, topic), lambda found: found == expected)
    command = [sys.executable, "-m", "ottla", "connect", "signal", name, "execute-snapshot"]
    command += ["--table", "public.goods", "--where", "public.goods=id < 100", "--json"]
    command += ["--url", f"http://127.0.0.1:{worker.port}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["offset"] == 1
    until(lambda: reads(broker.bootstrap, topic), lambda found: found == [*expected, *range(1, 100)])
    # Signals are done once: a restart does not carry them out again, and goes on with the next.
    assert worker.ask("POST", f"/connectors/{name}/restart?includeTasks=true").status == 202
    again = {"type": "execute-snapshot", "data": {"data-collections": ["public.goods"], "type": "blocking"}}
    assert worker.ask("POST", path, again).status == 202
    whole = [*expected, *range(1, 100), *expected]
    until(lambda: reads(broker.bootstrap, topic), lambda found: found == whole)


def test_a_connector_without_the_channel_refuses_signals(worker: ConnectWorker, url: str) -> None:
    name = f"deaf{random.getrandbits(30)}"
    start(worker, url, name, snapshot_mode="no_data")
    answer = worker.ask("POST", f"/connectors/{name}/signals", {"type": "pause-snapshot"})
    assert answer.status == 409 and "signal.enabled.channels" in answer.body["message"]


def test_events_of_an_outbox_go_to_the_topics_of_their_aggregates(
    broker: OttlaBroker | ApacheKafka, worker: ConnectWorker, url: str, tmp_path: Path
) -> None:
    name = f"outbox{random.getrandbits(30)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE outbox (id uuid PRIMARY KEY, aggregatetype varchar(255) NOT NULL, "
            "aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb, at timestamp)"
        )
    start(
        worker,
        url,
        name,
        table_include_list="public.outbox",
        snapshot_mode="no_data",
        tombstones_on_delete="false",
        transforms="outbox",
        transforms_outbox_type="io.debezium.transforms.outbox.EventRouter",
        transforms_outbox_route_topic_replacement=f"{name}.events.${{routedByValue}}",
        transforms_outbox_table_expand_json_payload="true",
        transforms_outbox_table_fields_additional_placement="type:header:eventType",
        transforms_outbox_table_field_event_timestamp="at",
    )
    rng = random.Random()
    events = [
        (
            str(uuid.uuid4()),
            rng.choice(("order", "customer")),
            str(rng.randrange(5)),
            rng.choice(("created", "paid")),
            {"n": number, "lines": [{"sku": "ä", "price": rng.randrange(100) / 4}], "ok": True},
        )
        for number in range(60)
    ]
    with psycopg.connect(url) as connection:
        for event in events:
            # As the pattern has it: written and removed in one transaction.
            connection.execute(
                "INSERT INTO outbox VALUES (%s, %s, %s, %s, %s, now())", (*event[:4], json.dumps(event[4]))
            )
            connection.execute("DELETE FROM outbox WHERE id = %s", (event[0],))
            connection.commit()
    for aggregate in ("order", "customer"):
        wanted = [
            (id, payload, {"id": event, "eventType": type})
            for event, kind, id, type, payload in events
            if kind == aggregate
        ]
        topic = f"{name}.events.{aggregate}"
        found = until(
            lambda topic=topic: records(broker.bootstrap, topic),
            lambda found, wanted=wanted: len(found) >= len(wanted),
        )
        told = [
            (key, value, {each: text.decode().strip('"') for each, text in headers.items()})
            for key, value, headers in found
        ]
        assert told == wanted
