"""What comes into Kafka goes out by MQTT: to mosquitto and paho, from any copy, and from clients of Kafka."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
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


def proxy(broker: OttlaBroker, directory: Path, routes: str, **settings: str) -> Any:
    given = {
        "ottla.mqtt.topics": routes,
        **{name.replace("__", "."): text for name, text in settings.items()},
    }
    return ServiceProcess.start("mqtt", broker.bootstrap, directory, given, scheme="mqtt")


class Subscriber:
    """A paho client that keeps what it gets."""

    def __init__(
        self, service: ServiceProcess, client_id: str = "", version: Any = MQTTProtocolVersion.MQTTv5
    ) -> None:
        self.client = paho.Client(CallbackAPIVersion.VERSION2, client_id, protocol=version)
        self.messages: list[Any] = []
        self.granted: list[Sequence[Any]] = []
        self.client.on_message = lambda _c, _u, message: self.messages.append(message)
        self.client.on_subscribe = lambda _c, _u, _m, reasons, _p: self.granted.append(reasons)
        self.client.connect("127.0.0.1", service.port)
        self.client.loop_start()

    def subscribe(self, *given: Any, **named: Any) -> list[int]:
        before = len(self.granted)
        self.client.subscribe(*given, **named)
        eventually(lambda: len(self.granted) > before, "SUBACK came")
        return [each.value for each in self.granted[-1]]

    def publish(self, topic: str, text: str, **given: Any) -> None:
        self.client.publish(topic, text, 1, **given).wait_for_publish(TIMEOUT_S)

    def texts(self, count: int) -> list[tuple[str, bytes]]:
        """The first messages, once so many have come."""
        eventually(lambda: len(self.messages) >= count, f"{count} messages came")
        return [(each.topic, each.payload) for each in self.messages]

    def stop(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


@contextmanager
def subscriber(service: ServiceProcess, *given: Any) -> Iterator[Subscriber]:
    found = Subscriber(service, *given)
    try:
        yield found
    finally:
        found.stop()


@pytest.mark.parametrize("version", [MQTTProtocolVersion.MQTTv311, MQTTProtocolVersion.MQTTv5])
def test_messages_come_from_other_copies_and_from_clients_of_kafka(
    broker: OttlaBroker, tmp_path: Path, unique_name: str, version: Any
) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    with ExitStack() as stack:
        here, there = (
            stack.enter_context(proxy(broker, tmp_path / name, f"s/#={topic}")) for name in ("here", "there")
        )
        listener = stack.enter_context(subscriber(here, "", version))
        device = stack.enter_context(subscriber(there, "", version))
        assert listener.subscribe("s/+/t", 2) == [1]
        for number in range(20):
            device.publish("s/a/t", str(number))
        device.publish("s/a/b/t", "of no interest")
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce(topic, b"from Kafka", b"s/k/t", headers={"unit": b"C"})
        producer.produce(topic, b"of no topic", None)
        producer.produce(topic, None, b"s/k/t")
        producer.produce(topic, b"last", b"another key", headers={"mqtt.topic": b"s/l/t"})
        producer.flush(TIMEOUT_S)
        expected = [*(("s/a/t", b"%d" % number) for number in range(20)), ("s/k/t", b"from Kafka")]
        assert listener.texts(22) == [*expected, ("s/l/t", b"last")]
        assert {(each.qos, each.retain) for each in listener.messages} == {(1, False)}
        if version is MQTTProtocolVersion.MQTTv5:
            assert listener.messages[20].properties.UserProperty == [("unit", "C")]


def test_options_identifiers_and_what_is_not_there(
    broker: OttlaBroker, tmp_path: Path, unique_name: str
) -> None:
    missing = f"{unique_name}-later"
    routes = f"s/#={create_topic(broker.bootstrap, unique_name)},n/#={missing}"
    with proxy(broker, tmp_path, routes) as service, subscriber(service, "me") as me:
        assert me.subscribe("$share/group/s/#") == [0x9E]
        identifier = Properties(PacketTypes.SUBSCRIBE)
        identifier.SubscriptionIdentifier = 7
        assert me.subscribe("s/#", options=SubscribeOptions(1, noLocal=True), properties=identifier) == [1]
        assert me.subscribe("n/new") == [0]
        me.publish("s/a", "my own")
        with subscriber(service, "other") as other:
            expiring = Properties(PacketTypes.PUBLISH)
            expiring.MessageExpiryInterval = 1_000
            expiring.ContentType = "text/plain"
            other.publish("s/a", "another's", properties=expiring)
            assert me.texts(1) == [("s/a", b"another's")]
            create_topic(broker.bootstrap, missing)
            other.publish("n/new", "of a topic that was not there")
            assert me.texts(2)[1] == ("n/new", b"of a topic that was not there")
        properties = me.messages[0].properties
        assert properties.SubscriptionIdentifier == [7] and properties.ContentType == "text/plain"
        assert 990 <= properties.MessageExpiryInterval <= 1_000
        me.client.unsubscribe("s/#")
        with subscriber(service) as other:
            other.publish("s/a", "too late")
            other.publish("n/new", "end")
        assert me.texts(3)[2] == ("n/new", b"end")


def test_rules_say_who_may_subscribe_to_what(broker: OttlaBroker, tmp_path: Path, unique_name: str) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    rules = "* read public/*; * read a/b"
    with (
        proxy(broker, tmp_path, f"#={topic}", ottla__access__rules=rules) as service,
        subscriber(service) as client,
    ):
        assert client.subscribe([("public/+", 0), ("public/#", 0), ("a/b", 0)]) == [0, 0, 0]
        assert client.subscribe([("#", 0), ("a/+", 0), ("pub/#", 0), ("a/c", 0), ("+/x", 0)]) == [0x87] * 5


@pytest.mark.system("mosquitto_sub", "mosquitto-clients")
def test_mosquitto_sub(broker: OttlaBroker, tmp_path: Path, unique_name: str) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    metrics = free_port()
    with proxy(broker, tmp_path, f"#={topic}", ottla__metrics__listen=f"127.0.0.1:{metrics}") as service:
        # in lines, into a pipe too: it would keep what it says of itself until it ends
        words = ["stdbuf", "-oL", "mosquitto_sub", "-p", str(service.port), "-t", "a/#"]
        words += ["-v", "-C", "2", "-d", "-W", "60"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as listening:
            assert listening.stdout is not None
            for line in listening.stdout:
                if line.startswith("Subscribed"):
                    break
            for text in ("one", "two"):
                done = subprocess.run(
                    ["mosquitto_pub", "-p", str(service.port), "-t", "a/b", "-m", text],
                    timeout=TIMEOUT_S,
                    check=True,
                )
                assert done.returncode == 0
            told, _ = listening.communicate(timeout=TIMEOUT_S)
            assert listening.returncode == 0
        assert [line for line in told.splitlines() if line.startswith("a/b ")] == ["a/b one", "a/b two"]
        sent = by_labels(
            scrape(f"http://127.0.0.1:{metrics}/metrics"), "ottla_mqtt_deliveries_total", "outcome"
        )
        assert sent == {("sent",): 2}


def test_a_client_that_takes_nothing_holds_up_nobody(
    broker: OttlaBroker, tmp_path: Path, unique_name: str
) -> None:
    topic = create_topic(broker.bootstrap, unique_name)
    metrics = free_port()
    with (
        proxy(broker, tmp_path, f"#={topic}", ottla__metrics__listen=f"127.0.0.1:{metrics}") as service,
        subscriber(service) as quick,
    ):
        slow = paho.Client(CallbackAPIVersion.VERSION2, "slow")
        slow.connect("127.0.0.1", service.port)  # whose loop ends once it has subscribed
        subscribed: list[int] = []
        slow.on_subscribe = lambda *_: subscribed.append(1)
        slow.loop_start()
        slow.subscribe("t")
        eventually(lambda: bool(subscribed), "it has subscribed")
        slow.loop_stop()
        assert quick.subscribe("t") == [0]
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(300):
            producer.produce(topic, b"%d" % number + b"x" * 50_000, b"t")
            if number % 10 == 9:
                producer.flush(TIMEOUT_S)
                eventually(lambda wanted=number: len(quick.messages) > wanted, "the other is quick")  # type: ignore[misc]
        dropped = by_labels(
            scrape(f"http://127.0.0.1:{metrics}/metrics"), "ottla_mqtt_deliveries_total", "outcome"
        )
        assert dropped["dropped",] > 0
