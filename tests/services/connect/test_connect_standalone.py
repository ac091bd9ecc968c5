"""A worker alone: connectors from files, and the same REST API."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.connect.workers import ConnectWorker
from support.servers.apache_kafka import ApacheKafka
from support.servers.cluster import ServerError
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
    stopped = {"name": "d", "config": {**config, "tasks.max": 1}, "initial_state": "STOPPED"}
    (tmp_path / "d.json").write_text(json.dumps(stopped), encoding="utf-8")
    words = ("standalone", str(worker_file), str(properties), str(as_json), str(tmp_path / "d.json"))
    with ConnectWorker.start(broker.bootstrap, tmp_path, words=words) as worker:
        worker.wait_for("a", "RUNNING", 1)
        worker.wait_for("b", "RUNNING", 2)
        worker.wait_for("d", "STOPPED", 0)
        worker.put("c")
        worker.wait_for("c", "RUNNING", 1)
        assert sorted(worker.ask("GET", "/connectors").body) == ["a", "b", "c", "d"]
        assert worker.ask("PUT", "/connectors/b/stop").status == 204
        worker.wait_for("b", "STOPPED", 0)
        assert worker.ask("GET", "/").body["kafka_cluster_id"]


def test_plugins_in_java_are_refused_and_a_plugin_path_is_told(
    broker: OttlaBroker | ApacheKafka, tmp_path: Path
) -> None:
    worker_file, ours, javas = (tmp_path / name for name in ("w.properties", "a.properties", "b.properties"))
    settings = {"offset.storage.file.filename": tmp_path / "offsets", "plugin.path": "/opt/connectors"}
    worker_file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
    ours.write_text("name=a\nconnector.class=FileStreamSource\ntopic=t\n", encoding="utf-8")
    javas.write_text("name=b\nconnector.class=io.example.JavaSink\ntopics=t\n", encoding="utf-8")
    words = ("standalone", str(worker_file))
    with ConnectWorker.start(broker.bootstrap, tmp_path, words=(*words, str(ours))) as worker:
        worker.wait_for("a", "RUNNING", 1)
        log = worker.server.log_path.read_text(encoding="utf-8")
        assert "plugin.path is not looked at: a standalone worker runs no plugins in Java" in log
    with (
        pytest.raises(
            ServerError, match=r"connector b: io\.example\.JavaSink is none of ottla's, and plugin"
        ),
        ConnectWorker.start(broker.bootstrap, tmp_path, words=(*words, str(javas))),
    ):
        pass
