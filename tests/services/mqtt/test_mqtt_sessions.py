"""Sessions that outlive connections: what was missed comes from the log, through kills of the proxy too."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from paho.mqtt.enums import MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from support.clients.confluent import create_topic, eventually, read_all
from support.metrics.samples import by_labels, scrape
from support.mqtt.devices import Device
from support.servers.cluster import free_port
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess

TIMEOUT_S = 60


@contextmanager
def proxy(
    broker: OttlaBroker, directory: Path, topic: str, port: int | None = None, **settings: str
) -> Iterator[ServiceProcess]:
    given = {
        "ottla.mqtt.topics": f"#={topic}",
        "ottla.mqtt.session.topic": f"{topic}-sessions",
        **{name.replace("__", "."): text for name, text in settings.items()},
    }
    with ServiceProcess.start("mqtt", broker.bootstrap, directory, given, port, "mqtt") as service:
        yield service


def produce(broker: OttlaBroker, topic: str, numbers: range, key: str = "d/a", size: int = 1) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in numbers:
        producer.produce(topic, b"%0*d" % (size, number), key.encode())
        if number % 1_000 == 0:
            producer.flush(TIMEOUT_S)
    producer.flush(TIMEOUT_S)


@pytest.mark.parametrize("version", [MQTTProtocolVersion.MQTTv311, MQTTProtocolVersion.MQTTv5])
def test_who_was_away_gets_what_came_meanwhile_through_a_kill_of_the_proxy(
    broker: OttlaBroker, tmp_path: Path, unique_name: str, version: Any
) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    port = free_port()
    device = Device("device", version)
    with proxy(broker, tmp_path / "one", topic, port) as service:
        assert not device.connect(service)
        device.subscribe()
        produce(broker, topic, range(3))
        assert device.numbers(3) == [0, 1, 2]
        device.leave()
        produce(broker, topic, range(3, 700))
        assert device.connect(service)
        assert device.numbers(700) == [*range(700)]
        device.leave()
        produce(broker, topic, range(700, 710))
        service.kill()
    produce(broker, topic, range(710, 720))
    with proxy(broker, tmp_path / "two", topic, port) as service:
        assert device.connect(service)
        # what it had acknowledged a moment before the kill may come again
        assert device.different(720) == [*range(720)]
        produce(broker, topic, range(720, 730))
        assert device.different(730) == [*range(730)]
        assert {each.qos for each in device.messages} == {1}
        device.leave()


def test_nothing_is_missed_when_the_proxy_is_killed_while_messages_come(
    broker: OttlaBroker, tmp_path: Path, unique_name: str
) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    port = free_port()
    device = Device("device")
    count = 6_000
    with proxy(broker, tmp_path / "one", topic, port) as service:
        device.connect(service)
        device.subscribe()
        writing = threading.Thread(target=produce, args=(broker, topic, range(count)))
        writing.start()
        device.numbers(1_500)
        service.kill()
        eventually(lambda: bool(device.ends), "the connection is lost")
    with proxy(broker, tmp_path / "two", topic, port):
        # paho connects again by itself
        eventually(lambda: len(device.connects) == 2, "it is connected again")
        assert device.connects[1][0].session_present
        assert device.different(count) == [*range(count)]
        writing.join(TIMEOUT_S)
        device.leave()


def test_what_was_not_acknowledged_comes_again_and_no_more_than_is_allowed(
    broker: OttlaBroker, tmp_path: Path, unique_name: str
) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    slow, quick = Device("slow", takes=False), Device("quick")
    with proxy(broker, tmp_path, topic) as service:
        slow.connect(service, most=4)
        slow.subscribe()
        quick.connect(service)
        quick.subscribe()
        produce(broker, topic, range(20))
        assert quick.numbers(20) == [*range(20)]
        assert slow.numbers(4) == [0, 1, 2, 3]
        slow.client.ack(slow.messages[1].mid, 1)
        slow.client.ack(slow.messages[0].mid, 1)
        assert slow.numbers(6) == [*range(6)]
        slow.leave()
        slow.messages.clear()
        assert slow.connect(service, most=4)
        assert slow.numbers(4) == [2, 3, 4, 5]
        assert [each.dup for each in slow.messages] == [True] * 4
        for number in range(18):
            slow.numbers(number + 1)
            slow.client.ack(slow.messages[number].mid, 1)
        assert slow.numbers(18) == [*range(2, 20)]
        slow.leave()
        quick.leave()


def test_sessions_end(broker: OttlaBroker, tmp_path: Path, unique_name: str) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    metrics = free_port()
    with proxy(broker, tmp_path, topic, ottla__metrics__listen=f"127.0.0.1:{metrics}") as service:

        def sessions() -> dict[tuple[str, ...], float]:
            return dict(
                by_labels(scrape(f"http://127.0.0.1:{metrics}/metrics"), "ottla_mqtt_sessions", "state")
            )

        device = Device("device")
        assert not device.connect(service, seconds=1)
        device.subscribe()
        assert sessions()["connected",] == 1
        device.leave()
        eventually(lambda: sessions() == {("connected",): 0, ("away",): 0}, "it has expired")
        assert not device.connect(service)
        device.leave()
        assert device.connect(service)
        device.leave()
        assert sessions()["away",] == 1
        assert not device.connect(service, clean=True)
        device.leave()
        assert device.connect(service, seconds=0)
        device.leave()
        assert not device.connect(service)
        device.leave()


def test_a_session_is_taken_over(broker: OttlaBroker, tmp_path: Path, unique_name: str) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    with proxy(broker, tmp_path / "one", topic) as service:
        former, later = Device("device"), Device("device")
        former.connect(service)
        former.subscribe()
        assert later.connect(service)
        eventually(lambda: former.ends == [0x8E], "the former is told")
        former.client.loop_stop()
        produce(broker, topic, range(5))
        assert later.numbers(5) == [*range(5)]
        assert not former.messages
        # by another copy too, which fences the one before
        third = Device("device")
        with proxy(broker, tmp_path / "two", topic) as other:
            eventually(lambda: 0x8E in later.ends or third.connect(other), "the other copy has it")
            later.client.loop_stop()
            if not third.connects:
                assert third.connect(other)
            produce(broker, topic, range(5, 8))
            assert third.numbers(3) == [5, 6, 7]
            third.leave()


@pytest.mark.parametrize("kills", [False, True])
def test_a_will_waits_for_its_delay(
    broker: OttlaBroker, tmp_path: Path, unique_name: str, kills: bool
) -> None:
    topic = create_topic(broker.bootstrap, unique_name)

    def with_will(client_id: str, seconds: int) -> Device:
        device = Device(client_id)
        delay = Properties(PacketTypes.WILLMESSAGE)
        delay.WillDelayInterval = seconds
        device.client.will_set("wills/" + client_id, "gone", 1, properties=delay)
        return device

    def lose(device: Device) -> None:
        device.client.loop_stop()
        device.client.socket().close()  # type: ignore[union-attr]

    with proxy(broker, tmp_path / "one", topic) as service:
        soon, back = with_will("soon", 1), with_will("back", 5)
        for device in (soon, back):
            device.connect(service)
            device.client.loop_stop() if kills else lose(device)
        if kills:
            service.kill()
        else:
            assert back.connect(service)
            found = read_all(broker.bootstrap, topic, 1)
            back.leave()
    if kills:
        with proxy(broker, tmp_path / "two", topic) as service:
            assert back.connect(service)
            found = read_all(broker.bootstrap, topic, 1)
            back.leave()
    assert [each.key() for each in found] == [b"wills/soon"]
