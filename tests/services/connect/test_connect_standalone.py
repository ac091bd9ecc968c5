"""A worker alone: connectors from files, and the same REST API."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.connect.workers import ConnectWorker
from support.servers.apache_kafka import ApacheKafka
from support.servers.ottla_broker import OttlaBroker

pytestmark = pytest.mark.slow


def test_connectors_of_files_run_and_others_may_be_added(
    broker: OttlaBroker | ApacheKafka, tmp_path: Path
) -> None:
    worker_file, properties, as_json = (
        tmp_path / name for name in ("w.properties", "a.properties", "b.json")
    )
    worker_file.write_text(f"offset.storage.file.filename={tmp_path / 'offsets'}\n", encoding="utf-8")
    properties.write_text("name=a\nconnector.class=FileStreamSource\ntopic=t\n", encoding="utf-8")
    config = {"connector.class": "FileStreamSink", "topics": "t", "tasks.max": 2}
    as_json.write_text(json.dumps({"name": "b", "config": config}), encoding="utf-8")
    words = ("standalone", str(worker_file), str(properties), str(as_json))
    with ConnectWorker.start(broker.bootstrap, tmp_path, words=words) as worker:
        worker.wait_for("a", "RUNNING", 1)
        worker.wait_for("b", "RUNNING", 2)
        worker.put("c")
        worker.wait_for("c", "RUNNING", 1)
        assert sorted(worker.ask("GET", "/connectors").body) == ["a", "b", "c"]
        assert worker.ask("PUT", "/connectors/b/stop").status == 204
        worker.wait_for("b", "STOPPED", 0)
        assert worker.ask("GET", "/").body["kafka_cluster_id"]
