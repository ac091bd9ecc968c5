"""`ottla up`: one command starts the platform, and any end of it ends the platform."""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion

from ottla.security.making_certificates import Authority
from support.clients.confluent import admin_client, eventually, read_all
from support.metrics.samples import by_labels, checks, sample, scrape
from support.servers.cluster import ServerError, ServerProcess, free_port, wait_until_closed
from support.servers.processes import descendants, wait_until_gone


class Up:
    """`ottla up` on ports of its own."""

    def __init__(self, directory: Path, *further: str) -> None:
        self.broker, self.registry, self.rest = free_port(), free_port(), free_port()
        command = [sys.executable, "-m", "ottla", "up", "--data", str(directory / "data")]
        self.connect = free_port()
        self.sql, self.mqtt = free_port(), free_port()
        for name, port in (
            ("listen", self.broker),
            ("registry", self.registry),
            ("rest", self.rest),
            ("connect", self.connect),
            ("sql", self.sql),
            ("mqtt", self.mqtt),
        ):
            command += [f"--{name}", f"127.0.0.1:{port}"]
        command += further
        self.server = ServerProcess(command, "ottla mqtt ready", directory / "up.log")

    @property
    def pid(self) -> int:
        return self.server.process.pid


@contextmanager
def up(directory: Path, *further: str) -> Iterator[Up]:
    running = Up(directory, *further)
    try:
        running.server.start()
        yield running
    finally:
        if running.server.running:
            running.server.stop()


def test_one_command_and_a_record_goes_through_all_of_it(tmp_path: Path) -> None:
    with up(tmp_path) as running:
        schema = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}'
        produced = httpx.post(
            f"http://127.0.0.1:{running.rest}/topics/t",
            json={"value_schema": schema, "records": [{"value": {"a": 1}}]},
            headers={"Content-Type": "application/vnd.kafka.avro.v2+json"},
            timeout=30,
        )
        assert produced.status_code == 200, produced.text
        assert produced.json()["offsets"][0]["offset"] == 0
        subjects = httpx.get(f"http://127.0.0.1:{running.registry}/subjects").json()
        assert subjects == ["t-value"]
        client = paho.Client(CallbackAPIVersion.VERSION2)
        client.connect("127.0.0.1", running.mqtt)
        client.loop_start()
        client.publish("any/topic", "x", 1).wait_for_publish(30)
        client.disconnect()
        client.loop_stop()
        (message,) = read_all(f"127.0.0.1:{running.broker}", "mqtt", 1)
        assert (message.key(), message.value()) == (b"any/topic", b"x")
        # and it stops cleanly
        assert running.server.stop() == 0
        wait_until_closed(running.broker)


def test_metrics_are_those_of_the_broker_and_on_the_next_port_of_the_services(tmp_path: Path) -> None:
    port = next(port for port in iter(free_port, None) if free_port() == port + 1)
    broker, services = (f"http://127.0.0.1:{port + number}" for number in range(2))
    with up(tmp_path, "--metrics", f"127.0.0.1:{port}") as running:
        httpx.get(f"http://127.0.0.1:{running.registry}/subjects").raise_for_status()
        status, found = checks(f"{services}/readyz")
        assert status == 200, found
        assert {
            "registry",
            "registry-topic",
            "rest",
            "rest-cluster",
            "connect-worker",
            "sql-commands",
        } <= found.keys()
        assert checks(f"{broker}/readyz")[0] == 200
        text = scrape(f"{services}/metrics")
        answering = by_labels(text, "ottla_service_up", "service")
        assert answering == {(name,): 1 for name in ("registry", "rest", "connect", "sql", "mqtt")}
        asked = by_labels(text, "ottla_http_requests_total", "service", "route", "status")
        assert asked["registry", "/subjects", "200"] == 1
        assert (
            sample(scrape(f"{broker}/metrics"), "kafka_controller_kafkacontroller_activecontrollercount") == 1
        )
        assert running.server.stop() == 0
        wait_until_closed(port + 1)


def test_metrics_are_served_by_the_brokers_tls_to_its_readers(tmp_path: Path) -> None:
    now = datetime.datetime.now(datetime.UTC)
    authority = Authority.create("trial", now, 2)
    key, trust = tmp_path / "key.pem", tmp_path / "trust.pem"
    key.write_bytes(authority.issue("up", now, 2, hosts=["127.0.0.1"]).pem())
    trust.write_bytes(authority.certificate_pem())
    port = next(port for port in iter(free_port, None) if free_port() == port + 1)
    settings = {"ssl.keystore.location": key, "ssl.truststore.location": trust, "ssl.client.auth": "required"}
    words = [f"listener.name.metrics.{name}={value}" for name, value in settings.items()]
    context = ssl.create_default_context(cafile=str(trust))
    with up(tmp_path, "--metrics", f"https://127.0.0.1:{port}", *(f"--set={each}" for each in words)):
        for each in (port, port + 1):
            with pytest.raises(httpx.HTTPError):
                httpx.get(f"https://127.0.0.1:{each}/metrics", verify=context)
        context.load_cert_chain(str(key))
        for each, name in ((port, "kafka_server_"), (port + 1, "ottla_service_up")):
            assert name in httpx.get(f"https://127.0.0.1:{each}/metrics", verify=context).text


@pytest.mark.parametrize("offset", [0, -1], ids=["the broker's", "the services'"])
def test_metrics_on_a_port_of_clients_are_refused_before_anything_runs(offset: int, tmp_path: Path) -> None:
    running = Up(tmp_path)
    running.server.command = [*running.server.command, "--metrics", f"127.0.0.1:{running.broker + offset}"]
    with pytest.raises(ServerError, match=f"port {running.broker} is that of clients"):
        running.server.start()
    assert not (tmp_path / "data").exists()


def test_it_starts_again_on_its_directory(tmp_path: Path) -> None:
    with up(tmp_path) as running:
        url = f"http://127.0.0.1:{running.registry}/subjects/s/versions"
        assert httpx.post(url, json={"schema": '"string"'}).json()["id"] == 1
    with up(tmp_path) as running:
        found = httpx.get(f"http://127.0.0.1:{running.registry}/subjects/s/versions/latest").json()
        assert found["id"] == 1


def test_a_kill_leaves_no_broker_behind(tmp_path: Path) -> None:
    with up(tmp_path) as running:
        children = descendants(running.pid)
        assert any("broker" in command for command in children.values())
        running.server.kill()
        assert not wait_until_gone(children)


def test_the_death_of_the_broker_ends_the_rest(tmp_path: Path) -> None:
    with up(tmp_path) as running:
        (broker,) = (pid for pid, command in descendants(running.pid).items() if "broker" in command)
        os.kill(broker, signal.SIGKILL)
        eventually(lambda: not running.server.running, "the services end", timeout_s=60)
        assert running.server.process.returncode == 1
        assert "the broker ended by signal 9" in (tmp_path / "up.log").read_text()


@pytest.mark.parametrize("taken", ["broker", "registry"])
def test_a_port_that_is_taken_is_told_and_leaves_nothing_behind(taken: str, tmp_path: Path) -> None:
    import socket

    running = Up(tmp_path)
    with contextlib.closing(socket.socket()) as other:
        other.bind(("127.0.0.1", getattr(running, taken)))
        other.listen()
        with pytest.raises(ServerError, match=f"{getattr(running, taken)}"):
            running.server.start()
    wait_until_closed(running.broker)


@pytest.mark.long
def test_a_registry_that_cant_start_leaves_everything_else_and_comes_when_it_can(tmp_path: Path) -> None:
    # given: the registry's topic is set to delete its records
    with up(tmp_path) as running:
        register(running, "s")
        set_policy(running, "delete")
        assert running.server.stop() == 0
    # when it is started again
    with up(tmp_path) as running:
        # then the broker and the REST Proxy are there, and a line says why the registry is not
        topics = httpx.get(f"http://127.0.0.1:{running.rest}/topics", timeout=30).json()
        assert "_schemas" in topics
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"http://127.0.0.1:{running.registry}/subjects")
        eventually(lambda: log_of(tmp_path).count("ottla registry can't start") == 1, "it is told")
        assert "--entity-name _schemas --add-config cleanup.policy=compact" in log_of(tmp_path)
        # when that is put right
        set_policy(running, "compact")
        # then it comes by itself
        eventually(lambda: answers(running), "the registry is there", timeout_s=30)
        assert httpx.get(f"http://127.0.0.1:{running.registry}/subjects").json() == ["s"]
        assert log_of(tmp_path).count("ottla registry can't start") == 1
        assert running.server.stop() == 0


def test_a_deleted_topic_of_schemas_costs_no_start(tmp_path: Path) -> None:
    with up(tmp_path) as running:
        register(running, "s")
        admin_client(f"127.0.0.1:{running.broker}").delete_topics(["_schemas"])["_schemas"].result()
        state = f"http://127.0.0.1:{running.registry}/v1/metadata/state"
        eventually(lambda: httpx.get(state).json()["state"] == "READ_ONLY", "it is told", timeout_s=20)
        assert httpx.get(f"http://127.0.0.1:{running.registry}/subjects").json() == ["s"]
        assert running.server.stop() == 0
    with up(tmp_path) as running:
        assert httpx.get(f"http://127.0.0.1:{running.registry}/subjects").json() == []
        register(running, "t")


def register(running: Up, subject: str) -> None:
    url = f"http://127.0.0.1:{running.registry}/subjects/{subject}/versions"
    assert httpx.post(url, json={"schema": '"string"'}, timeout=30).status_code == 200


def answers(running: Up) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{running.registry}/subjects").status_code == 200
    except httpx.ConnectError:
        return False


def set_policy(running: Up, policy: str) -> None:
    entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "_schemas", incremental_configs=[entry])
    admin_client(f"127.0.0.1:{running.broker}").incremental_alter_configs([resource])[resource].result()


def log_of(directory: Path) -> str:
    return (directory / "up.log").read_text()
