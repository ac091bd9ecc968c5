"""Dead letters beside those of Java's Connect 4.3.1 for the same failing records, which are recorded."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import ottla.connect
from ottla.connect.host.messages import Role
from ottla.connect.plugins.catalog import Catalog, installed_plugins
from ottla.pipeline.spark.maven import fetch_jars
from support.clients.confluent import create_topic, eventually, produce, read_all, topic_exists
from support.connect import runs
from support.connect.fake_plugins import PLUGINS
from support.connect.runs import Host
from support.java.java_tools import jars_of, java_command
from support.servers.cluster import free_port

CASES: dict[str, Any] = json.loads(Path(__file__).with_name("java_dead_letters.json").read_text())
"""Keys, values and headers in Latin-1; `java`: the headers of the dead letter, its trace's first line."""
TRACE = "__connect.errors.exception.stacktrace"
STRING = "org.apache.kafka.connect.storage.StringConverter"
WORKER_LOCK = Path(ottla.connect.__path__[0]) / "java" / "connect.jars.lock"
FILE_LOCK = Path(__file__).parents[2] / "support" / "java" / "connect-file-4.3.1.jars.lock"


def _config(topic: str, case: dict[str, Any]) -> dict[str, str]:
    return {
        "topics": topic,
        "tasks.max": "1",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{topic}-dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
        **case["config"],
    }


def _produce(bootstrap: str, topic: str, case: dict[str, Any]) -> None:
    def data(text: str | None) -> bytes | None:
        return None if text is None else text.encode("latin-1")

    create_topic(bootstrap, topic)
    headers = [(key, data(text)) for key, text in case.get("headers", ())]
    produce(bootstrap, topic, [{"key": data(case["key"]), "value": data(case["value"]), "headers": headers}])


def _letter(bootstrap: str, topic: str, name: str) -> dict[str, str]:
    """The headers of a dead letter, with the topic and the connector called as in the record."""
    eventually(lambda: topic_exists(bootstrap, f"{topic}-dead"), f"{topic}-dead is there", 60)
    given: Any = read_all(bootstrap, f"{topic}-dead", 1)[0].headers()
    found = {key: value.decode() for key, value in given}
    found[TRACE] = found[TRACE].splitlines()[0]
    return {key: name if value == topic else value for key, value in found.items()}


def test_dead_letters_have_the_headers_that_java_gives_them(
    bootstrap: str, host: Host, name: str, tmp_path: Path
) -> None:
    host.runner._catalog = Catalog(  # the real converters, and the tests' sink
        [*installed_plugins().plugins, *(each for each in PLUGINS if each.names[0].startswith("test."))]
    )
    orders = []
    for case_name, case in CASES.items():
        topic = f"{name}-{case_name}"
        _produce(bootstrap, topic, case)
        config = {**_config(topic, case), "connector.class": "test.LinesSink", "path": str(tmp_path / topic)}
        worker = {"key.converter": STRING, "value.converter": STRING}
        orders.append(runs.start(bootstrap, topic, Role.SINK_TASK, config, worker=worker))
        host.begin(orders[-1])
    for case_name, case in CASES.items():
        found = _letter(bootstrap, f"{name}-{case_name}", case_name)
        assert list(found) == list(case["java"])
        for key, text in case["java"].items():
            # Java ends some messages where a reason should follow, which is in its trace alone
            assert found[key] == text or (text.endswith(": ") and found[key].startswith(text))
    for order in orders:
        assert host.end(order.run) is None


@pytest.mark.long
@pytest.mark.skipif(not WORKER_LOCK.exists(), reason="the jars of Java's Connect worker are not named")
def test_java_still_gives_the_headers_that_are_recorded(bootstrap: str, name: str, tmp_path: Path) -> None:
    worker = {
        "bootstrap.servers": bootstrap,
        "key.converter": STRING,
        "value.converter": STRING,
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "listeners": f"http://127.0.0.1:{free_port()}",
    }
    files = [_properties(tmp_path / "worker", worker)]
    for case_name, case in CASES.items():
        topic = f"{name}-{case_name}"
        _produce(bootstrap, topic, case)
        sink = {
            "name": topic,
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "file": str(tmp_path / "out"),
        }
        files.append(_properties(tmp_path / topic, {**sink, **_config(topic, case)}))
    jars = fetch_jars([*jars_of(WORKER_LOCK), *jars_of(FILE_LOCK)])
    command = java_command(
        "org.apache.kafka.connect.cli.ConnectStandalone",
        *files,
        flags=("-Xmx512m",),
        class_path=os.pathsep.join(map(str, jars)),
    )
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as java:
        try:
            for case_name, case in CASES.items():
                found = _letter(bootstrap, f"{name}-{case_name}", case_name)
                assert list(found.items()) == list(case["java"].items())
        finally:
            java.kill()


def _properties(path: Path, values: dict[str, str]) -> str:
    path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    return str(path)
