"""`ottla mqtt` and real clients: mosquitto, paho and MQTT.js, over TCP, TLS and WebSocket, through kills."""

from __future__ import annotations

import datetime
import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import TopicPartition
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from ottla.security.making_certificates import Authority
from support.clients.confluent import consumer, create_topic, eventually, read_all
from support.metrics.samples import by_labels, scrape
from support.mqtt.node_programs import node_command
from support.servers.cluster import free_port
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess

TIMEOUT_S = 60


@contextmanager
def proxy(
    broker: OttlaBroker,
    directory: Path,
    routes: str,
    settings: Mapping[str, str] | None = None,
    scheme: str = "mqtt",
) -> Iterator[ServiceProcess]:
    given = {"ottla.mqtt.topics": routes, **(settings or {})}
    with ServiceProcess.start("mqtt", broker.bootstrap, directory, given, scheme=scheme) as service:
        yield service


def mosquitto(
    service: ServiceProcess, *words: str, host: str = "127.0.0.1"
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["mosquitto_pub", "-h", host, "-p", str(service.port), *words],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def published(service: ServiceProcess, *words: str, host: str = "127.0.0.1") -> None:
    done = mosquitto(service, *words, host=host)
    assert (done.returncode, done.stderr) == (0, ""), done


def headers_of(message: Any) -> Sequence[tuple[str, bytes]]:
    found: Sequence[tuple[str, bytes]] = message.headers() or []
    return found


@pytest.mark.system("mosquitto_pub", "mosquitto-clients")
def test_mosquitto_in_both_versions(broker: OttlaBroker, tmp_path: Path, unique_name: str) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    with proxy(broker, tmp_path, f"s/+/t={topic}") as service:
        for version in ("311", "5"):
            for qos in ("0", "1"):
                published(
                    service, "-V", version, "-q", qos, "-t", "s/a/t", "-i", "dev", "-m", f"{version} {qos}"
                )
        properties = ["-D", "publish", "content-type", "text/plain", "-D", "publish", "response-topic", "r/1"]
        properties += ["-D", "publish", "correlation-data", "42", "-D", "publish", "user-property", "k", "v"]
        properties += [
            "-D",
            "publish",
            "message-expiry-interval",
            "60",
            "-D",
            "publish",
            "payload-format-indicator",
            "1",
        ]
        published(service, "-V", "5", "-q", "1", "-t", "s/b/t", "-i", "dev", "-m", "all", *properties)
        nowhere = mosquitto(service, "-V", "5", "-q", "1", "-t", "s/a/b/t", "-m", "x")
        assert "Topic Name invalid" in nowhere.stderr
        assert mosquitto(service, "-V", "311", "-q", "1", "-t", "s/a/b/t", "-m", "x").returncode != 0
        assert (
            "QoS not supported" in mosquitto(service, "-V", "5", "-q", "2", "-t", "s/a/t", "-m", "x").stderr
        )

        messages = read_all(broker.bootstrap, topic, 5)
    assert [each.value() for each in messages] == [b"311 0", b"311 1", b"5 0", b"5 1", b"all"]
    assert [each.key() for each in messages] == [*[b"s/a/t"] * 4, b"s/b/t"]
    assert headers_of(messages[1]) == [
        ("mqtt.topic", b"s/a/t"),
        ("mqtt.client.id", b"dev"),
        ("mqtt.qos", b"1"),
    ]
    assert headers_of(messages[4])[3:] == [
        ("mqtt.payload.format", b"1"),
        ("mqtt.message.expiry", b"60"),
        ("mqtt.content.type", b"text/plain"),
        ("mqtt.response.topic", b"r/1"),
        ("mqtt.correlation.data", b"42"),
        ("k", b"v"),
    ]


@pytest.mark.system("npm")
@pytest.mark.parametrize("scheme", ["mqtt", "ws"])
@pytest.mark.parametrize("version", ["4", "5"])
def test_mqtt_js(broker: OttlaBroker, tmp_path: Path, unique_name: str, scheme: str, version: str) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    with proxy(broker, tmp_path, f"js/#={topic}", {"ottla.mqtt.receive.maximum": "20"}, scheme) as service:
        command, place = node_command("mqtt_publish.mjs", service.url, version, "js/a", "200")
        done = subprocess.run(
            command, cwd=place, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["acknowledged"] == 200
        assert version == "4" or "Topic Name invalid" in told["refused"], told
        messages = read_all(broker.bootstrap, topic, 200)
    assert [each.value() for each in messages] == [b"js %d" % number for number in range(200)]


class Paho:
    """A paho client with its loop in a thread."""

    def __init__(
        self, service: ServiceProcess, client_id: str, version: MQTTProtocolVersion, **given: Any
    ) -> None:
        self.client = paho.Client(CallbackAPIVersion.VERSION2, client_id, protocol=version, **given)
        self.acknowledged: dict[int, int] = {}
        self.connects: list[Any] = []
        self.disconnects: list[Any] = []
        self.client.on_publish = self._published
        self.client.on_connect = lambda _c, _u, flags, reason, properties: self.connects.append(
            (flags, reason, properties)
        )
        self.client.on_disconnect = lambda _c, _u, _f, reason, _p: self.disconnects.append(reason)
        self.client.reconnect_delay_set(1, 1)
        self.port = service.port

    def _published(self, _client: Any, _user: Any, message_id: int, reason: Any, _properties: Any) -> None:
        self.acknowledged[message_id] = reason.value

    @contextmanager
    def running(self, **given: Any) -> Iterator[Paho]:
        self.client.connect("127.0.0.1", self.port, **given)
        self.client.loop_start()
        try:
            yield self
        finally:
            self.client.disconnect()
            self.client.loop_stop()


@pytest.mark.parametrize("transport", ["tcp", "websockets"])
def test_paho_learns_the_limits_and_names_topics_by_numbers(
    broker: OttlaBroker, tmp_path: Path, unique_name: str, transport: str
) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    scheme = "ws" if transport == "websockets" else "mqtt"
    with proxy(
        broker, tmp_path, f"#={topic}", {"ottla.mqtt.keep.alive.max.seconds": "30"}, scheme
    ) as service:
        client = Paho(service, "", MQTTProtocolVersion.MQTTv5, transport=transport)
        with client.running(keepalive=60):
            eventually(lambda: bool(client.connects), "connected")
            _, reason, properties = client.connects[0]
            assert reason == "Success" and properties.AssignedClientIdentifier.startswith("ottla-")
            assert (properties.ReceiveMaximum, properties.MaximumQoS, properties.RetainAvailable) == (
                100,
                1,
                1,
            )
            assert properties.ServerKeepAlive == 30 and properties.MaximumPacketSize == 1 << 20
            alias = Properties(PacketTypes.PUBLISH)
            alias.TopicAlias = 3
            client.client.publish("a/long/topic", "1", 1, properties=alias).wait_for_publish(TIMEOUT_S)
            client.client.publish("", "2", 1, properties=alias).wait_for_publish(TIMEOUT_S)
        messages = read_all(broker.bootstrap, topic, 2)
    assert [each.key() for each in messages] == [b"a/long/topic"] * 2


def test_a_will_and_a_takeover(broker: OttlaBroker, tmp_path: Path, unique_name: str) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    with proxy(broker, tmp_path, f"#={topic}") as service:
        first = Paho(service, "same", MQTTProtocolVersion.MQTTv5)
        first.client.will_set("status/same", "gone", 1)
        second = Paho(service, "same", MQTTProtocolVersion.MQTTv5)
        first.client.connect("127.0.0.1", service.port)
        first.client.loop_start()
        eventually(lambda: bool(first.connects), "the first is connected")
        with second.running():
            eventually(lambda: bool(first.disconnects), "the first is told")
            first.client.loop_stop()
        assert first.disconnects[0] == "Session taken over"
        (will,) = read_all(broker.bootstrap, topic, 1)
    assert (will.key(), will.value()) == (b"status/same", b"gone")


@pytest.mark.system("mosquitto_pub", "mosquitto-clients")
def test_passwords_and_topics_that_a_user_may_write(
    broker: OttlaBroker, tmp_path: Path, unique_name: str
) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    users = tmp_path / "users"
    users.write_text("dev: secret\nadmin: other,admin\n")
    settings = {
        "authentication.method": "BASIC",
        "ottla.authentication.users.file": str(users),
        "ottla.access.rules": "User:dev write own/*; Role:admin write *",
    }
    with proxy(broker, tmp_path, f"#={topic}", settings) as service:
        for version in ("311", "5"):
            published(
                service, "-V", version, "-u", "dev", "-P", "secret", "-q", "1", "-t", "own/x", "-m", "1"
            )
            published(service, "-V", version, "-u", "admin", "-P", "other", "-q", "1", "-t", "any", "-m", "1")
            for words in (["-u", "dev", "-P", "wrong"], []):
                refused = mosquitto(service, "-V", version, *words, "-q", "1", "-t", "own/x", "-m", "1")
                assert refused.returncode != 0 and "user name or password" in refused.stderr.lower(), refused
        denied = mosquitto(service, "-V", "5", "-u", "dev", "-P", "secret", "-q", "1", "-t", "any", "-m", "1")
        assert "Not authorized" in denied.stderr
        will = ["--will-topic", "any", "--will-payload", "x"]
        denied = mosquitto(service, "-V", "5", "-u", "dev", "-P", "secret", "-t", "own/x", "-m", "1", *will)
        assert "not authorized" in denied.stderr.lower(), denied


@pytest.mark.system("mosquitto_pub", "mosquitto-clients")
def test_certificates_of_clients(broker: OttlaBroker, tmp_path: Path, unique_name: str) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    now = datetime.datetime.now(datetime.UTC)
    authority = Authority.create("trial", now, 2)
    (tmp_path / "ca.pem").write_bytes(authority.certificate_pem())
    (tmp_path / "server.pem").write_bytes(authority.issue("proxy", now, 2, hosts=["127.0.0.1"]).pem())
    device = authority.issue("device", now, 2)
    (tmp_path / "device.pem").write_bytes(device.chain_pem())
    (tmp_path / "device.key").write_bytes(device.key_pem())
    settings = {
        "ssl.keystore.location": str(tmp_path / "server.pem"),
        "ssl.truststore.location": str(tmp_path / "ca.pem"),
        "ssl.client.authentication": "REQUIRED",
        "ottla.access.rules": "User:CN=device write device/*",
    }
    with proxy(broker, tmp_path, f"#={topic}", settings, "mqtts") as service:
        ca = ["--cafile", str(tmp_path / "ca.pem")]
        own = [*ca, "--cert", str(tmp_path / "device.pem"), "--key", str(tmp_path / "device.key")]
        published(service, *own, "-V", "5", "-q", "1", "-t", "device/x", "-m", "1")
        denied = mosquitto(service, *own, "-V", "5", "-q", "1", "-t", "other", "-m", "1")
        assert "Not authorized" in denied.stderr
        assert mosquitto(service, *ca, "-V", "5", "-q", "1", "-t", "device/x", "-m", "1").returncode != 0
        (message,) = read_all(broker.bootstrap, topic, 1)
    assert message.value() == b"1"


def test_pages_of_other_origins_and_hosts_open_no_connection(
    broker: OttlaBroker, tmp_path: Path, unique_name: str
) -> None:
    settings = {"access.control.allow.origin": "https://panel.example.com"}

    def status(service: ServiceProcess, host: str, origin: str, protocol: str = "mqtt") -> int:
        headers = {
            "Host": host,
            "Origin": origin,
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
            "Sec-WebSocket-Protocol": protocol,
        }
        with httpx.stream("GET", f"http://127.0.0.1:{service.port}/mqtt", headers=headers) as answer:
            return answer.status_code

    with proxy(broker, tmp_path, f"#={unique_name}", settings, "ws") as service:
        own = f"127.0.0.1:{service.port}"
        assert status(service, own, f"http://{own}") == 101
        assert status(service, own, "https://panel.example.com") == 101
        assert status(service, own, "https://evil.example.com") == 403
        assert status(service, "evil.example.com", "http://evil.example.com") == 403
        assert status(service, own, f"http://{own}", "chat") == 400


def test_bytes_that_are_no_mqtt_harm_nobody(broker: OttlaBroker, tmp_path: Path, unique_name: str) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    metrics = free_port()
    settings = {
        "ottla.mqtt.connect.timeout.ms": "500",
        "ottla.mqtt.packet.max.bytes": "1000",
        "ottla.metrics.listen": f"127.0.0.1:{metrics}",
    }
    with proxy(broker, tmp_path, f"#={topic}", settings) as service:
        for data in (b"GET / HTTP/1.1\r\n\r\n", b"\x10\xff\xff\xff\x7f", bytes(100), b"\x10", b""):
            with socket.create_connection(("127.0.0.1", service.port), TIMEOUT_S) as raw:
                raw.sendall(data)
                assert raw.recv(100) == b"", data  # at once, or once it has had its time for CONNECT
        client = Paho(service, "fine", MQTTProtocolVersion.MQTTv311)
        with client.running():
            client.client.publish("t", "x", 1).wait_for_publish(TIMEOUT_S)
        eventually(
            lambda: (
                by_labels(scrape(f"http://127.0.0.1:{metrics}/metrics"), "ottla_mqtt_clients", "version")
                == {("3.1.1",): 0}
            ),
            "all connections are over",
        )


def test_a_stop_acknowledges_what_it_took_and_tells_clients(
    broker: OttlaBroker, tmp_path: Path, unique_name: str
) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    with proxy(broker, tmp_path, f"#={topic}") as service:
        client = Paho(service, "c", MQTTProtocolVersion.MQTTv5)
        client.client.will_set("will", "not published", 1)
        with client.running():
            eventually(lambda: bool(client.connects), "connected")
            sent = [client.client.publish("t", str(number), 1) for number in range(50)]
            eventually(lambda: len(client.acknowledged) >= 1, "some are acknowledged")
            assert service.server.stop() == 0
            eventually(lambda: bool(client.disconnects), "the client is told")
            assert client.disconnects[0] == "Server shutting down"
            known = len(client.acknowledged)
        assert known <= len(sent)
        messages = read_all(broker.bootstrap, topic, known)
        assert b"not published" not in [each.value() for each in messages]


def load(client: Paho, count: int, until: float, at: int, break_it: Callable[[], None]) -> None:
    """Publish numbers, and break something on the way; returns once all are acknowledged."""
    for number in range(count):
        if number == at:
            break_it()
        client.client.publish("load", str(number), 1)
        while number - len(client.acknowledged) > 500:
            assert time.monotonic() < until, "nothing is acknowledged any more"
            time.sleep(0.005)
    while len(client.acknowledged) < count:
        assert time.monotonic() < until, f"{len(client.acknowledged)} of {count} are acknowledged"
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("version", [MQTTProtocolVersion.MQTTv311, MQTTProtocolVersion.MQTTv5])
@pytest.mark.parametrize("what", ["proxy", "broker"])
def test_kills_under_load_lose_nothing_that_was_acknowledged(
    tmp_path: Path, unique_name: str, version: MQTTProtocolVersion, what: str
) -> None:
    count = 3_000
    with OttlaBroker.start(tmp_path / "broker") as broker:
        topic = create_topic(broker.bootstrap, unique_name)
        with proxy(broker, tmp_path, f"#={topic}") as service:
            server = service.server if what == "proxy" else broker.server

            def kill() -> None:
                server.kill()
                server.start()

            client = Paho(service, "loader", version)
            client.client.max_inflight_messages_set(50)
            with client.running():
                load(client, count, time.monotonic() + 120, count // 2, kill)
            assert set(client.acknowledged.values()) == {0}
            with consumer(broker.bootstrap, "ends") as reader:
                _, end = reader.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S)
            # each may be there more than once, none may be missing
            found = {int(each.value() or b"") for each in read_all(broker.bootstrap, topic, end)}
            assert found == set(range(count))
