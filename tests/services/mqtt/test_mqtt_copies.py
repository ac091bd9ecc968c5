"""Several copies share the clients: any may be connected to, and each client is at one of them."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import Producer
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion

from support.clients.confluent import create_topic, eventually
from support.mqtt.devices import Device
from support.servers.cluster import free_port
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess

TIMEOUT_S = 60


@contextmanager
def copy(broker: OttlaBroker, directory: Path, topic: str, **more: str) -> Iterator[ServiceProcess]:
    given = {
        "ottla.mqtt.topics": f"#={topic}",
        "ottla.mqtt.session.topic": f"{topic}-sessions",
        "ottla.mqtt.copies.listen": f"127.0.0.1:{free_port()}",
        "ottla.mqtt.copies.password": "between us",
        **more,
    }
    with ServiceProcess.start("mqtt", broker.bootstrap, directory, given, scheme="mqtt") as service:
        yield service


def produce(broker: OttlaBroker, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in numbers:
        producer.produce(topic, b"%d" % number, b"d/a")
    producer.flush(TIMEOUT_S)


def test_a_client_is_taken_over_through_any_copy(
    broker: OttlaBroker, tmp_path: Path, unique_name: str
) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    with ExitStack() as stack:
        copies = [
            stack.enter_context(copy(broker, tmp_path / name, topic)) for name in ("one", "two", "three")
        ]
        count = 0
        for name in ("a", "b", "c", "d"):
            former: Device | None = None
            for service in copies:
                device = Device(name)
                was_there = device.connects_in_time(service)
                assert was_there == (former is not None)
                if former is None:
                    device.subscribe()
                else:
                    # it may have been disconnected before, as the copies came, and be back
                    eventually(lambda ended=former: 0x8E in ended.ends, "the former is told")  # type: ignore[misc]
                    former.client.loop_stop()
                produce(broker, topic, range(count, count + 5))
                # what the former had not acknowledged when it was taken over comes before
                device.has_all(range(count, count + 5))
                count, former = count + 5, device
            assert former is not None
            former.leave()


def test_the_others_take_over_from_a_copy_that_is_killed(
    broker: OttlaBroker, tmp_path: Path, unique_name: str
) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    devices = [Device(f"device-{number}") for number in range(8)]
    with copy(broker, tmp_path / "one", topic) as one:
        with copy(broker, tmp_path / "two", topic) as two:
            for device in devices:
                device.connects_in_time(two)
                device.subscribe()
            produce(broker, topic, range(100))
            for device in devices:
                assert device.different(100) == [*range(100)]
            two.kill()
        produce(broker, topic, range(100, 200))
        for device in devices:
            eventually(lambda ended=device: bool(ended.ends), "it is lost with the copy it came by")  # type: ignore[misc]
            device.client.loop_stop()
            assert device.connects_in_time(one)
            assert device.different(200) == [*range(200)]
            device.leave()


def test_only_copies_may_say_who_a_client_is(broker: OttlaBroker, tmp_path: Path, unique_name: str) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    port = free_port()
    with copy(broker, tmp_path, topic, **{"ottla.mqtt.copies.listen": f"127.0.0.1:{port}"}) as service:
        for said in (b"\0\0\0\2{}" + bytes(32), b"\x10\x10\0\4MQTT" + bytes(40)):
            with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as stranger:
                assert len(stranger.recv(16)) == 16
                stranger.sendall(said)
                with contextlib.suppress(ConnectionResetError):
                    assert stranger.recv(100) == b""
        unnamed = paho.Client(CallbackAPIVersion.VERSION2)
        unnamed.connect("127.0.0.1", service.port)
        unnamed.loop_start()
        unnamed.publish("t", "x", 1).wait_for_publish(TIMEOUT_S)
        unnamed.disconnect()
        unnamed.loop_stop()
