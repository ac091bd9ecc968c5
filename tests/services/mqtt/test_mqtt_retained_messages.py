"""Retained messages over copies, restarts and kills: what was acknowledged is there for who subscribes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from support.clients.confluent import create_topic, eventually
from support.metrics.samples import by_labels, scrape
from support.servers.cluster import free_port
from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess

TIMEOUT_S = 60


class Client:
    """A paho client that keeps what it gets, with its flags."""

    def __init__(self, service: ServiceProcess, version: Any, **will: Any) -> None:
        self.client = paho.Client(CallbackAPIVersion.VERSION2, protocol=version)
        self.got: list[tuple[str, bytes, bool]] = []
        self.granted: list[int] = []
        self.flags: list[Any] = []
        self.client.on_message = lambda _c, _u, each: self.got.append((each.topic, each.payload, each.retain))
        self.client.on_subscribe = lambda _c, _u, number, _r, _p: self.granted.append(number)
        self.client.on_connect = lambda _c, _u, _f, _r, properties: self.flags.append(properties)
        if will:
            self.client.will_set(**will)
        self.client.connect("127.0.0.1", service.port)
        self.client.loop_start()

    def publish(self, topic: str, text: str, *, retain: bool = True, **given: Any) -> None:
        self.client.publish(topic, text, 1, retain, **given).wait_for_publish(TIMEOUT_S)

    def subscribe(self, filter_: str, handling: int = 0, *, as_published: bool = False) -> None:
        options = SubscribeOptions(0, retainHandling=handling, retainAsPublished=as_published)
        v5 = self.client.protocol == MQTTProtocolVersion.MQTTv5
        _, number = self.client.subscribe(filter_, options=options) if v5 else self.client.subscribe(filter_)
        eventually(lambda: number in self.granted, "SUBACK came")

    def waits_for(self, *messages: tuple[str, bytes, bool]) -> None:
        eventually(lambda: len(self.got) >= len(messages), f"{messages} came")
        assert sorted(self.got) == sorted(messages)
        self.got.clear()

    def stop(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


@contextmanager
def client(service: ServiceProcess, version: Any = MQTTProtocolVersion.MQTTv5) -> Iterator[Client]:
    found = Client(service, version)
    try:
        yield found
    finally:
        found.stop()


def settings_of(topic: str, **others: str) -> dict[str, str]:
    given = {name.replace("__", "."): text for name, text in others.items()}
    return {"ottla.mqtt.topics": f"#={topic}", "ottla.mqtt.retained.topic": f"{topic}-retained", **given}


@pytest.mark.parametrize("version", [MQTTProtocolVersion.MQTTv311, MQTTProtocolVersion.MQTTv5])
def test_over_copies_and_after_a_kill(
    broker: OttlaBroker, tmp_path: Path, unique_name: str, version: Any
) -> None:
    settings = settings_of(create_topic(broker.bootstrap, unique_name))
    with ExitStack() as stack:
        here, there = (
            stack.enter_context(
                ServiceProcess.start("mqtt", broker.bootstrap, tmp_path, settings, scheme="mqtt")
            )
            for _ in range(2)
        )
        device = stack.enter_context(client(here, version))
        for number in range(50):
            device.publish("s/a", str(number))
            late = stack.enter_context(client(there, version)) if number % 10 == 9 else None
            if late is not None:  # no wait: what is acknowledged is there
                late.subscribe("s/+")
                eventually(lambda one=late: bool(one.got), "it came")  # type: ignore[misc]
                assert late.got[0] == ("s/a", b"%d" % number, True)
        device.publish("s/b/c", "deep")
        device.publish("s/d", "gone")
        device.publish("s/d", "")
        device.publish("s/e", "only passing", retain=False)
        here.kill()
        again = stack.enter_context(
            ServiceProcess.start("mqtt", broker.bootstrap, tmp_path, settings, scheme="mqtt")
        )
        with client(again, version) as late:
            late.subscribe("#")
            late.waits_for(("s/a", b"49", True), ("s/b/c", b"deep", True))
            late.publish("s/a", "live")
            late.waits_for(("s/a", b"live", False))
            late.subscribe("#")
            late.waits_for(("s/a", b"live", True), ("s/b/c", b"deep", True))


def test_options_expiry_and_records_of_kafka_clients(
    broker: OttlaBroker, tmp_path: Path, unique_name: str
) -> None:
    settings = settings_of(create_topic(broker.bootstrap, unique_name))
    with (
        ServiceProcess.start("mqtt", broker.bootstrap, tmp_path, settings, scheme="mqtt") as service,
        client(service) as me,
    ):
        eventually(lambda: bool(me.flags), "it is connected")
        assert getattr(me.flags[0], "RetainAvailable", 1) == 1
        expiring = Properties(PacketTypes.PUBLISH)
        expiring.MessageExpiryInterval = 1
        me.publish("r/expiring", "soon gone", properties=expiring)
        me.publish("r/a", "1")
        me.subscribe("r/a", 2)  # do not send
        me.subscribe("r/+", 0)
        eventually(lambda: ("r/a", b"1", True) in me.got, "it came with the second one alone")
        me.got.clear()
        me.subscribe("r/+", 1)  # send if new: it is not
        me.subscribe("r/a", 1, as_published=True)
        me.publish("r/a", "2")
        me.waits_for(("r/a", b"2", True))

        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce(f"{unique_name}-retained", b"from Kafka", b"k/a")
        producer.produce(f"{unique_name}-retained", None, b"r/a")
        producer.flush(TIMEOUT_S)

        def is_expired() -> bool:
            with client(service) as other:
                other.subscribe("r/#")
                other.subscribe("k/#")
                eventually(lambda: ("k/a", b"from Kafka", True) in other.got, "it came")
                return len(other.got) == 1

        eventually(is_expired, "the message has expired, and the other one is deleted")


def test_a_will_is_retained_and_too_many_are_refused(
    broker: OttlaBroker, tmp_path: Path, unique_name: str
) -> None:
    metrics = free_port()
    settings = settings_of(
        create_topic(broker.bootstrap, unique_name),
        ottla__mqtt__retained__max__bytes="65536",
        ottla__metrics__listen=f"127.0.0.1:{metrics}",
    )
    with (
        ServiceProcess.start("mqtt", broker.bootstrap, tmp_path, settings, scheme="mqtt") as service,
        client(service) as me,
    ):
        lost = Client(service, MQTTProtocolVersion.MQTTv5, topic="w/lost", payload="gone", qos=1, retain=True)
        eventually(lambda: bool(lost.flags), "it is connected")
        me.subscribe("w/lost")
        lost.client.socket().close()  # type: ignore[union-attr]
        lost.client.loop_stop()
        me.waits_for(("w/lost", b"gone", False))
        me.subscribe("w/#")
        me.waits_for(("w/lost", b"gone", True))

        reasons: list[str] = []
        me.client.on_publish = lambda _c, _u, _m, reason, _p: reasons.append(str(reason))
        for number in range(40):
            me.publish(f"full/{number}", "x" * 2_000)
        eventually(lambda: "Quota exceeded" in reasons, "further ones are refused")
        for number in range(40):
            me.publish(f"full/{number}", "")
        me.publish("full/again", "there is room")
        me.subscribe("full/#")
        eventually(lambda: ("full/again", b"there is room", True) in me.got, "it is retained")
        samples = by_labels(scrape(f"http://127.0.0.1:{metrics}/metrics"), "ottla_mqtt_retained_messages")
        assert samples == {(): 2}


@pytest.mark.system("mosquitto_sub", "mosquitto-clients")
def test_where_nothing_is_retained_and_how_mosquitto_gets_it(
    broker: OttlaBroker, tmp_path: Path, unique_name: str
) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    settings = settings_of(topic)
    with ServiceProcess.start("mqtt", broker.bootstrap, tmp_path, settings, scheme="mqtt") as service:
        for words in (
            ["mosquitto_pub", "-p", str(service.port), "-q", "1", "-r", "-t", "a/b", "-m", "kept"],
            ["mosquitto_sub", "-p", str(service.port), "-t", "a/#", "-C", "1", "-F", "%t %p %r", "-W", "60"],
        ):
            done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
        assert done.stdout == "a/b kept 1\n"
    settings["ottla.mqtt.retained.topic"] = ""
    with (
        ServiceProcess.start("mqtt", broker.bootstrap, tmp_path, settings, scheme="mqtt") as service,
        client(service) as me,
    ):
        eventually(lambda: bool(me.flags), "it is connected")
        assert me.flags[0].RetainAvailable == 0
        me.subscribe("a/#")
        me.publish("a/b", "live", retain=False)
        me.waits_for(("a/b", b"live", False))
