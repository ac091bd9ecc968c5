"""A plugin in Java through our REST API: created, asked, paused, killed, its offsets altered, deleted.

The plugin is MirrorMaker's source. Connectors of ours are beside it under the same API.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.connect_java.test_java_worker import plugin_directory, values
from support.clients.confluent import create_topic, produce
from support.connect.workers import QUICK, Answer, ConnectWorker, until
from support.servers.ottla_broker import OttlaBroker
from support.servers.processes import descendants
from support.servers.services import ServiceProcess

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.long]

MIRROR = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"
WITHIN_SECONDS = 120


@pytest.fixture(scope="module")
def worker(broker: OttlaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectWorker]:
    directory = tmp_path_factory.mktemp("worker")
    group = f"java-{random.getrandbits(40):x}"
    settings = {f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")}
    settings |= {"group.id": group, "key.converter": BYTES, "value.converter": BYTES}
    settings |= {"plugin.path": str(plugin_directory(directory)), "ottla.java.heap": "256m"}
    settings |= {"offset.flush.interval.ms": "200"}
    with ServiceProcess.start("connect", broker.bootstrap, directory, {**QUICK, **settings}) as running:
        yield ConnectWorker(running.port, running.server)


def java_worker(worker: ConnectWorker) -> int:
    """The process id of the Java worker that our worker has started."""
    found = [
        pid
        for pid, command in descendants(worker.server.process.pid).items()
        if "ConnectDistributed" in command and Path(f"/proc/{pid}/exe").resolve().name == "java"
    ]
    assert len(found) == 1, found
    return found[0]


def wait_for_values(broker: OttlaBroker, topic: str, wanted: list[str]) -> None:
    until(lambda: values(broker.bootstrap, topic), lambda found: len(found) >= len(wanted), WITHIN_SECONDS)
    assert values(broker.bootstrap, topic) == wanted


def test_a_plugin_in_java_lives_behind_the_one_api(
    broker: OttlaBroker, worker: ConnectWorker, tmp_path: Path
) -> None:
    suffix = f"{random.getrandbits(40):x}"
    name, orders, copies = f"mirror-{suffix}", f"orders-{suffix}", f"here.orders-{suffix}"
    create_topic(broker.bootstrap, orders)
    sent: list[str] = []

    def send(*texts: str) -> None:
        produce(broker.bootstrap, orders, [{"value": text} for text in texts])
        sent.extend(texts)

    def ask(method: str, path: str = "", body: Any = None) -> Answer:
        return worker.ask(method, f"/connectors/{name}{path}", body)

    plugins = {each["class"]: each for each in worker.ask("GET", "/connector-plugins").body}
    assert plugins[MIRROR]["type"] == "source" and plugins[MIRROR]["version"] == "4.3.1"
    # Those that are ours are told once.
    assert "org.apache.kafka.connect.file.FileStreamSourceConnector" in plugins
    judged = worker.ask(
        "PUT", "/connector-plugins/MirrorSourceConnector/config/validate", {"connector.class": MIRROR}
    )
    assert judged.status == 200
    wrong = {each["value"]["name"] for each in judged.body["configs"] if each["value"]["errors"]}
    assert {"name", "source.cluster.alias"} <= wrong

    send("one", "two")
    config = {
        "connector.class": MIRROR,
        "source.cluster.alias": "here",
        "target.cluster.alias": "there",
        "source.cluster.bootstrap.servers": broker.bootstrap,
        "target.cluster.bootstrap.servers": broker.bootstrap,
        "topics": orders,
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "sync.topic.acls.enabled": "false",
        "refresh.topics.interval.seconds": "1",
        "consumer.poll.timeout.ms": "200",
    }
    made = worker.ask("POST", "/connectors", {"name": name, "config": config})
    assert made.status == 201 and made.headers["location"].endswith(f":{worker.port}/connectors/{name}")
    assert worker.ask("POST", "/connectors", {"name": name, "config": config}).status == 409
    worker.wait_for(name, "RUNNING", 1, WITHIN_SECONDS)
    wait_for_values(broker, copies, sent)

    (tmp_path / "in.txt").write_text("line\n", encoding="utf-8")
    ours = f"ours-{suffix}"
    strings = {"key.converter": STRING, "value.converter": STRING}
    assert worker.put(ours, file=str(tmp_path / "in.txt"), topic=f"lines-{suffix}", **strings).status == 201
    worker.wait_for(ours, "RUNNING", 1)
    states = worker.ask("GET", "/connectors?expand=status").body
    assert {each: states[each]["status"]["connector"]["state"] for each in (name, ours)} == {
        name: "RUNNING",
        ours: "RUNNING",
    }

    assert ask("PUT", "/pause").status == 202
    worker.wait_for(name, "PAUSED", 1)
    send("three")
    assert ask("PUT", "/resume").status == 202
    wait_for_values(broker, copies, sent)

    for number in range(2):
        former = java_worker(worker)
        os.kill(former, signal.SIGKILL)
        send(f"after kill {number}")
        until(lambda: values(broker.bootstrap, copies), lambda found: found[-1] == sent[-1], WITHIN_SECONDS)
        assert java_worker(worker) != former
        worker.wait_for(name, "RUNNING", 1, WITHIN_SECONDS)
        assert worker.states(ours) == ("RUNNING", ["RUNNING"])  # it has nothing to do with it
    # At least once: in order, and what was not committed at a kill may be there again.
    arrived = values(broker.bootstrap, copies)
    assert set(arrived) == set(sent) and list(dict.fromkeys(arrived)) == sent

    assert ask("PATCH", "/offsets", {"offsets": []}).status == 400
    assert ask("PUT", "/stop").status == 204
    worker.wait_for(name, "STOPPED", 0, WITHIN_SECONDS)
    partition = {"cluster": "here", "partition": 0, "topic": orders}
    # MirrorMaker's offset is that of the last record that it has copied.
    at = [{"partition": partition, "offset": {"offset": len(sent) - 1}}]
    assert ask("GET", "/offsets").body == {"offsets": at}
    back = {"offsets": [{"partition": partition, "offset": {"offset": len(sent) - 2}}]}
    assert ask("PATCH", "/offsets", back).status == 200
    assert ask("PUT", "/resume").status == 202
    wait_for_values(broker, copies, [*arrived, sent[-1]])
    assert ask("GET", "/topics").body == {name: {"topics": [copies]}}

    assert ask("PUT", "/stop").status == 204
    worker.wait_for(name, "STOPPED", 0, WITHIN_SECONDS)
    assert ask("DELETE", "/offsets").status == 200
    assert ask("GET", "/offsets").body == {"offsets": []}
    assert ask("DELETE").status == 204
    assert ask("GET", "/status").status == 404
    assert worker.ask("GET", "/connectors").body == [ours]
    assert worker.ask("DELETE", f"/connectors/{ours}").status == 204
