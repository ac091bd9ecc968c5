"""Offsets of a source on Spark through the REST API: shown, altered, reset, as those of other sources."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.client.cluster import KafkaCluster
from support.connect.workers import QUICK, Answer, ConnectWorker, until
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

STRING = "org.apache.kafka.connect.storage.StringConverter"
WITHIN_SECONDS = 120


@pytest.fixture(scope="module")
def worker(broker: OttlaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectWorker]:
    group = f"spark-{random.getrandbits(40):x}"
    settings = {f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")}
    directory = tmp_path_factory.mktemp("worker")
    settings |= {"group.id": group, "key.converter": STRING, "value.converter": STRING}
    settings |= {"ottla.spark.directory": str(directory / "spark"), "ottla.spark.master": "local[2]"}
    with ServiceProcess.start("connect", broker.bootstrap, directory, {**QUICK, **settings}) as running:
        yield ConnectWorker(running.port, running.server)


def offsets(worker: ConnectWorker, name: str, method: str = "GET", **offset: int | str) -> Answer:
    body = {"offsets": [{"partition": {"query": name}, "offset": offset}]} if offset else None
    return worker.ask(method, f"/connectors/{name}/offsets", body)


def stop(worker: ConnectWorker, name: str) -> None:
    assert worker.ask("PUT", f"/connectors/{name}/stop").status == 204
    until(lambda: worker.states(name), lambda found: found == ("STOPPED", []), WITHIN_SECONDS)


def resume(worker: ConnectWorker, name: str) -> None:
    assert worker.ask("PUT", f"/connectors/{name}/resume").status == 202


def lines(broker: OttlaBroker, topic: str) -> list[str]:
    kafka = KafkaCluster(broker.bootstrap, {}, "test")
    if kafka.missing_topics([topic]):
        return []
    return [(each.value() or b"").decode() for each in kafka.read(topic, {})]


def wait_for_lines(broker: OttlaBroker, topic: str, wanted: list[str]) -> None:
    until(lambda: lines(broker, topic), lambda found: len(found) >= len(wanted), WITHIN_SECONDS)
    assert lines(broker, topic) == wanted


def test_a_source_of_files_goes_on_where_its_offset_was_put(
    broker: OttlaBroker, worker: ConnectWorker, tmp_path: Path
) -> None:
    name = f"files-{random.getrandbits(40):x}"
    (tmp_path / "in").mkdir()

    def put(text: str) -> None:
        (tmp_path / text).write_text(f"{text}\n")
        (tmp_path / text).rename(tmp_path / "in" / f"{text}.txt")

    config = {
        "connector.class": "ottla.connect.spark.SparkFormatSourceConnector",
        "topic": name,
        "spark.format": "text",
        "spark.path": str(tmp_path / "in"),
        "spark.checkpoint.location": str(tmp_path / "checkpoints"),
        "spark.interval.ms": "100",
    }
    for number, text in enumerate(("one", "two", "three")):
        put(text)
        if not number:
            assert worker.ask("PUT", f"/connectors/{name}/config", config).status == 201
        wait_for_lines(broker, name, ["one", "two", "three"][: number + 1])
    assert offsets(worker, name, "PATCH", logOffset=0).status == 400
    stop(worker, name)
    told = {"offsets": [{"partition": {"query": name}, "offset": {"logOffset": 2}}]}
    assert offsets(worker, name).body == told

    for wrong in ({"logOffset": [1]}, {}):
        body = {"offsets": [{"partition": {"query": name}, "offset": wrong}]}
        assert worker.ask("PATCH", f"/connectors/{name}/offsets", body).status == 400
    other = {"offsets": [{"partition": {"query": "other"}, "offset": {"logOffset": 1}}]}
    assert worker.ask("PATCH", f"/connectors/{name}/offsets", other).status == 400

    altered = offsets(worker, name, "PATCH", logOffset=0)
    assert (altered.status, "altered successfully" in altered.body["message"]) == (200, True)
    assert offsets(worker, name).body["offsets"][0]["offset"] == {"logOffset": 0}
    resume(worker, name)
    until(lambda: lines(broker, name), lambda found: len(found) >= 5, WITHIN_SECONDS)
    assert sorted(lines(broker, name)[3:]) == ["three", "two"]
    put("four")
    until(lambda: lines(broker, name), lambda found: len(found) >= 6, WITHIN_SECONDS)
    assert lines(broker, name)[5:] == ["four"]

    stop(worker, name)
    assert offsets(worker, name, "PATCH", logOffset=99).status == 200
    resume(worker, name)
    status = until(
        lambda: worker.ask("GET", f"/connectors/{name}/status").body["tasks"],
        lambda tasks: tasks and "trace" in tasks[0],
        WITHIN_SECONDS,
    )
    assert "the last one is" in status[0]["trace"]
    stop(worker, name)
    assert offsets(worker, name, "DELETE").status == 200
    assert offsets(worker, name).body == {"offsets": []}
    resume(worker, name)
    until(lambda: lines(broker, name), lambda found: len(found) >= 10, WITHIN_SECONDS)
    assert sorted(lines(broker, name)[6:]) == ["four", "one", "three", "two"]
    assert worker.ask("DELETE", f"/connectors/{name}").status == 204


def test_a_source_with_state_of_its_own_goes_back(
    broker: OttlaBroker, worker: ConnectWorker, tmp_path: Path
) -> None:
    name = f"rate-{random.getrandbits(40):x}"
    config = {
        "connector.class": "ottla.connect.spark.SparkFormatSourceConnector",
        "topic": name,
        "spark.format": "rate-micro-batch",
        "spark.option.rowsPerBatch": "10",
        "spark.option.numPartitions": "1",
        "spark.value.column": "value",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "spark.checkpoint.location": str(tmp_path / "checkpoints"),
        "spark.interval.ms": "1000",
    }
    assert worker.ask("PUT", f"/connectors/{name}/config", config).status == 201
    until(lambda: lines(broker, name), lambda found: len(found) >= 30, WITHIN_SECONDS)
    stop(worker, name)
    before = [int(each) for each in lines(broker, name)]
    assert before == list(range(len(before)))
    (known,) = offsets(worker, name).body["offsets"]
    assert known["offset"]["offset"] == len(before)
    back = {**known, "offset": {**known["offset"], "offset": 10}}
    assert worker.ask("PATCH", f"/connectors/{name}/offsets", {"offsets": [back]}).status == 200
    resume(worker, name)
    until(lambda: lines(broker, name), lambda found: len(found) >= len(before) + 20, WITHIN_SECONDS)
    stop(worker, name)
    again = [int(each) for each in lines(broker, name)][len(before) :]
    assert again == list(range(10, 10 + len(again)))
    assert worker.ask("DELETE", f"/connectors/{name}").status == 204
