"""Other people's Python clients of Connect's REST API, on a worker whose hosts are the real ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka_connect import KafkaConnect
from kafka_connect_api.errors import GenericNotFound
from kafka_connect_api.kafka_connect_api import Api, Cluster, Connector
from requests.exceptions import HTTPError

from ottla.client.cluster import KafkaCluster, Topic
from support.clients.confluent import read_all
from support.connect.workers import QUICK, until
from support.servers.apache_kafka import ApacheKafka
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess

FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
STRING = "org.apache.kafka.connect.storage.StringConverter"


@pytest.fixture(scope="module")
def worker(
    broker: OttlaBroker | ApacheKafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServiceProcess]:
    settings = {**QUICK, "group.id": f"clients-{random.getrandbits(40):x}"}
    for kind in ("config", "offset", "status"):
        settings[f"{kind}.storage.topic"] = f"{settings['group.id']}-{kind}"
    settings |= {"key.converter": STRING, "value.converter": STRING, "offset.flush.interval.ms": "200"}
    directory = tmp_path_factory.mktemp("clients")
    with ServiceProcess.start("connect", broker.bootstrap, directory, settings) as running:
        yield running


@pytest.fixture
def file_source(broker: OttlaBroker | ApacheKafka, tmp_path: Path) -> dict[str, str]:
    """The configuration of a connector that writes a file's lines to a topic of its own."""
    topic = f"lines-{random.getrandbits(40):x}"
    KafkaCluster(broker.bootstrap, {}, "test").ensure_topics([Topic(topic, 1, 1, {})])
    (tmp_path / "lines.txt").write_text("one\ntwo\n", encoding="utf-8")
    return {"connector.class": FILE_SOURCE, "topic": topic, "file": str(tmp_path / "lines.txt")}


def test_kafka_connect_py_manages_connectors(
    broker: OttlaBroker | ApacheKafka, worker: ServiceProcess, file_source: dict[str, str]
) -> None:
    client, name = KafkaConnect(url=worker.url), "by-kafka-connect-py"
    assert client.get_cluster_info().keys() == {"version", "commit", "kafka_cluster_id"}
    assert FILE_SOURCE in {each["class"] for each in client.list_connector_plugins()}
    judged = client.validate_connector_config("FileStreamSource", {"connector.class": "FileStreamSource"})
    wrong = {each["value"]["name"] for each in judged["configs"] if each["value"]["errors"]}
    assert wrong == {"name", "topic"} and judged["error_count"] == 2

    made = client.create_connector({"name": name, "config": file_source})
    whole = {**file_source, "name": name}
    assert (made["name"], made["config"], made["type"]) == (name, whole, "source")
    with pytest.raises(HTTPError, match="409"):
        client.create_connector({"name": name, "config": file_source})
    states = until(lambda: _states(client, name), _run)
    assert client.list_connectors(pattern="by-.*-py", state="running") == [name], states
    assert client.list_connectors(expand="info")[name]["info"]["config"] == whole
    assert client.get_connector_config(name) == whole
    assert client.get_connector(name)["tasks"] == [{"connector": name, "task": 0}]
    assert [each["id"]["task"] for each in client.list_connector_tasks(name)] == [0]
    assert client.get_connector_task_status(name, 0)["state"] == "RUNNING"
    assert _values(broker, file_source) == [b"one", b"two"]
    until(
        lambda: client.list_connector_topics(name),
        lambda told: told == {name: {"topics": [file_source["topic"]]}},
    )
    client.reset_connector_topics(name)
    until(lambda: client.list_connector_topics(name), lambda told: told == {name: {"topics": []}})

    assert client.update_connector(name, {**file_source, "batch.size": "7"})["config"]["batch.size"] == "7"
    until(lambda: _states(client, name), _run)
    client.pause_connector(name)
    until(lambda: _states(client, name), lambda found: found == ("PAUSED", ["PAUSED"]))
    client.resume_connector(name)
    until(lambda: _states(client, name), _run)
    assert client.restart_connector(name) is None
    # It writes Python's True into the address.
    restarted = client.restart_connector(name, include_tasks=True)
    assert restarted["connector"]["state"] == "RESTARTING"
    assert [each["state"] for each in restarted["tasks"]] == ["RESTARTING"]
    until(lambda: _states(client, name), _run)
    client.restart_connector_task(name, 0)
    until(lambda: _states(client, name), _run)
    client.stop_connector(name)
    until(lambda: _states(client, name), lambda found: found == ("STOPPED", []))
    client.delete_connector(name)
    assert name not in client.list_connectors()
    with pytest.raises(HTTPError, match="404"):
        client.get_connector(name)


def test_kafka_connect_api_manages_connectors(
    broker: OttlaBroker | ApacheKafka, worker: ServiceProcess, file_source: dict[str, str]
) -> None:
    cluster, name = Cluster(Api(hostname="127.0.0.1", port=worker.port)), "by-kafka-connect-api"
    assert (
        cluster.version and cluster.kafka_cluster == KafkaCluster(broker.bootstrap, {}, "test").cluster_id()
    )
    # The client itself makes none: it PUTs what is there, and asks with a slash behind the name.
    cluster.api.post("/connectors", json={"name": name, "config": file_source})
    connector = cluster.connectors[name]
    assert connector.exists()
    assert (connector.connector_class, connector.config["topic"]) == (FILE_SOURCE, file_source["topic"])
    until(lambda: _seen(connector), _run)
    assert _values(broker, file_source) == [b"one", b"two"]
    connector.config = {**file_source, "batch.size": "7"}
    assert connector.config["batch.size"] == "7"
    until(lambda: _seen(connector), _run)
    connector.pause()
    until(lambda: connector.state, lambda state: state == "PAUSED")
    connector.resume()
    connector.restart()
    connector.restart_all_tasks()
    connector.cycle_connector()
    until(lambda: _seen(connector), _run)
    assert [each.is_running() for each in connector.tasks] == [True]
    cluster.root_logger = "WARN"
    assert cluster.root_logger["level"] == "WARN"
    connector.delete()
    assert not cluster.connectors.keys() & {name}
    with pytest.raises(GenericNotFound):
        connector.config  # noqa: B018


def _values(broker: OttlaBroker | ApacheKafka, config: dict[str, str]) -> list[bytes | None]:
    return [message.value() for message in read_all(broker.bootstrap, config["topic"], 2)]


def _states(client: KafkaConnect, name: str) -> tuple[str, list[str]]:
    try:
        found = client.get_connector_status(name)
    except HTTPError:  # there is none until the connector has begun
        return "", []
    return found["connector"]["state"], [each["state"] for each in found["tasks"]]


def _seen(connector: Connector) -> tuple[str, list[str]]:
    try:
        return connector.state, [each.state for each in connector.tasks]
    except GenericNotFound:
        return "", []


def _run(found: tuple[str, list[str]]) -> bool:
    return found == ("RUNNING", ["RUNNING"])
