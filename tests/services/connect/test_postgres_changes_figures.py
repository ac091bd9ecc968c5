"""What a slot makes the database keep, in the REST API and the metrics of a real worker."""

from __future__ import annotations

import sys
import urllib.request
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support.clients.confluent import eventually
from support.connect.cdc.postgres_changes import configuration
from support.connect.workers import QUICK, ConnectWorker
from support.servers.apache_kafka import ApacheKafka
from support.servers.cluster import ServerProcess, free_port
from support.servers.ottla_broker import OttlaBroker
from support.servers.postgresql import postgresql, postgresql_programs

pytestmark = pytest.mark.slow


def test_a_tasks_status_and_metrics_tell_what_its_slot_holds(
    broker: OttlaBroker | ApacheKafka, tmp_path: Path
) -> None:
    programs = postgresql_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    port, metrics = free_port(), free_port()
    command = [sys.executable, "-m", "ottla", "connect", "--bootstrap", broker.bootstrap]
    command += ["--listen", f"http://127.0.0.1:{port}", "--metrics", f"127.0.0.1:{metrics}"]
    for name, value in QUICK.items():
        command += ["--set", f"{name}={value}"]
    server = ServerProcess(command, "ottla connect ready", tmp_path / "connect.log")
    worker = ConnectWorker(port, server)
    settings = ("wal_level=logical", "max_slot_wal_keep_size=900MB")
    with postgresql(programs, *settings) as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id integer PRIMARY KEY)")
        server.start()
        try:
            config = configuration(url)
            assert worker.ask("POST", "/connectors", {"name": "changes", "config": config}).status == 201
            names = {"slot-lag-bytes", "slot-retained-bytes", "slot-safe-bytes", "slot-wal-status"}
            eventually(lambda: told(worker), lambda found: set(found) == names)
            text = urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics").read().decode()
            labels = '{connector="changes",task="0"}'
            assert f"ottla_connect_slot_wal_status{labels} 0" in text
            for name in ("lag", "retained", "safe"):
                assert f"ottla_connect_slot_{name}_bytes{labels} " in text
            assert worker.ask("DELETE", "/connectors/changes").status == 204
        finally:
            server.stop()


def told(worker: ConnectWorker) -> dict[str, Any]:
    """The figures of the first task's status."""
    body = worker.ask("GET", "/connectors/changes/status").body
    tasks = body.get("tasks", [])
    assert all(each["state"] != "FAILED" for each in tasks), body
    one = worker.ask("GET", "/connectors/changes/tasks/0/status").body
    assert not tasks or one.get("figures", {}).keys() >= tasks[0].get("figures", {}).keys()
    return dict(tasks[0].get("figures", {})) if tasks else {}
