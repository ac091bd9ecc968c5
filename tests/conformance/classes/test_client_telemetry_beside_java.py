"""Client telemetry beside Apache Kafka's own manager: drawn subscriptions, clients, pushes and clocks."""

from __future__ import annotations

import base64
import random
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from ottla.broker.telemetry.payloads import read_payload
from ottla.core.decisions.config_changes import check_client_metrics_config
from ottla.core.telemetry.instances import (
    ACCEPTED_COMPRESSION_TYPES,
    ClientAddress,
    ClientInstances,
    Push,
)
from ottla.core.telemetry.subscriptions import read_subscriptions
from ottla.protocol.compression import Codec, compress
from ottla.protocol.errors import ErrorCode, KafkaError
from support.clients.named_states import seed_of_this_run
from support.java.java_tools import compile_java, java_command, kafka_classpath

pytestmark = [pytest.mark.java, pytest.mark.long]

JAVA = Path(__file__).parents[2] / "support" / "java"
STORIES = 60
STEPS = 80
MAX_BYTES = 2_000
START_MS = 1_700_000_000_000
METRICS = (
    "*",
    "org.apache.kafka.producer.",
    "org.apache.kafka.consumer.",
    "org.apache.kafka.consumer.fetch.manager.",
    "org.apache.kafka.admin.client.",
    *(f"name.{number}." for number in range(24)),
)
SOFTWARE = ("apache-kafka-java", "librdkafka", "unknown")
VERSIONS = ("3.9.1", "4.4.0", "unknown")
HOSTS = ("127.0.0.1", "10.1.2.3", "::1")
CLIENTS = ("app", "app-1", "batch", "")
Order = tuple[str, ...]


def shown(value: uuid.UUID) -> str:
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


class Story:
    """The life of one broker's manager, answered by ottla's decisions as it is drawn."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now_ms = START_MS
        self.instances = ClientInstances(MAX_BYTES)
        self.resources: dict[str, dict[str, str]] = {}
        self.ids = [uuid.UUID(int=rng.getrandbits(128)) for _ in range(4)]
        self.connections = ["a", "b", "c"]
        self.known: dict[uuid.UUID, int] = {}

    def steps(self) -> Iterator[tuple[Order, str]]:
        """Orders, each with ottla's answer."""
        yield ("new", str(MAX_BYTES)), "ok"
        for _ in range(STEPS):
            self.now_ms += self.rng.choice((0, 1, 99, 100, 101, 5_000, self.rng.randrange(400_000)))
            draw = self.rng.random()
            if draw < 0.2:
                yield self.subscription()
            elif draw < 0.5:
                yield self.get()
            elif draw < 0.95:
                yield self.push()
            else:
                connection = self.rng.choice(self.connections)
                self.instances.connection_closed(connection)
                yield ("closed", connection), "ok"

    def subscription(self) -> tuple[Order, str]:
        rng = self.rng
        name = rng.choice(("one", "two", "three", "METRICS-SUB", "Aa", "BB"))
        values: dict[str, str] = {}
        if rng.random() < 0.85:
            count = rng.choice((0, 1, 1, 2, 5, 20))
            values["metrics"] = ",".join(rng.sample(METRICS[rng.random() > 0.1 :], count))
            if rng.random() < 0.7:
                values["interval.ms"] = str(rng.choice((99, 100, 101, 5_000, 60_000, 3_600_000, 3_600_001)))
            if rng.random() < 0.6:
                values["match"] = ",".join(self.pattern() for _ in range(rng.choice((0, 1, 1, 2))))
            if rng.random() < 0.03:
                values["intervall"] = "1"
        order = ("subscription", name, *(f"{key}={value}" for key, value in values.items()))
        try:
            check_client_metrics_config(values)
        except KafkaError as error:
            return order, str(int(error.code))
        if values:
            self.resources[name] = values
        elif name not in self.resources:
            return order, "0"  # Kafka's subscriptions do not change by that either
        else:
            del self.resources[name]
        found, unusable = read_subscriptions(self.resources)
        assert not unusable
        self.instances.take_subscriptions(found)
        return order, "0"

    def pattern(self) -> str:
        rng = self.rng
        key, texts = rng.choice(
            (
                ("client_id", ("app", "app.*", ".*", "ap", "[ab].*", "(app|batch)-?[0-9]*", "(")),
                ("client_software_name", ("librdkafka", "apache-kafka-.*", "unknown")),
                ("client_software_version", (r"4\..*", r"3\.[0-9]+\.1", "4.4.0")),
                ("client_source_address", (r"127\..*", r"10\.1\.2\.3", "0:0:.*")),
                ("client_source_port", ("1000", "1...", "2000")),
                ("client_instance_id", (shown(self.ids[0]), ".*")),
                ("client_principal", ("x",)),
            )
        )
        form = rng.choice(("{0}={1}",) * 12 + (" {0} = {1} ", "{0}", "{0}=", "{0}={1}=", "{0}={1}=x", "={1}"))
        return form.format(key, rng.choice(texts))

    def client(self) -> tuple[ClientAddress, Order]:
        rng = self.rng
        address = ClientAddress(
            rng.choice(CLIENTS), rng.choice(SOFTWARE), rng.choice(VERSIONS), rng.choice(HOSTS), 1000
        )
        # Java writes an IPv6 address in full.
        return address._replace(host=JAVAS.get(address.host, address.host)), (
            address.client_id or "",
            address.software_name,
            address.software_version,
            address.host,
            "1000",
        )

    def get(self) -> tuple[Order, str]:
        instance_id = self.rng.choice((*self.ids, uuid.UUID(int=1)))
        connection = self.rng.choice(self.connections)
        address, words = self.client()
        order = ("get", str(self.now_ms), shown(instance_id), connection, *words)
        try:
            found = self.instances.subscribe(instance_id, address, connection, self.now_ms, uuid.uuid4)
        except KafkaError as error:
            return order, f"{int(error.code)}|0|{shown(uuid.UUID(int=0))}|0|0|0|false|[]|[]"
        self.known[instance_id] = found.subscription_id
        types = ", ".join(str(int(codec)) for codec in ACCEPTED_COMPRESSION_TYPES)
        return order, (
            f"0|0|{shown(instance_id)}|{found.subscription_id}|{found.requested.push_interval_ms}|{MAX_BYTES}|"
            f"true|[{types}]|[{', '.join(found.requested.metrics)}]"
        )

    def push(self) -> tuple[Order, str]:
        rng = self.rng
        instance_id = rng.choice((*self.ids, *self.ids, uuid.UUID(int=0), uuid.UUID(int=1)))
        connection = rng.choice(self.connections)
        subscription_id = self.known.get(instance_id, 0) if rng.random() < 0.85 else rng.getrandbits(31)
        compression = rng.choice((0, 0, 1, 2, 3, 4, 4, 5, -1))
        metrics = self.metrics(compression)
        terminating = rng.random() < 0.1
        address, words = self.client()
        order = (
            *("push", str(self.now_ms), shown(instance_id), connection, *words),
            *(str(subscription_id), str(terminating).lower(), str(compression), metrics.hex()),
        )
        push = Push(instance_id, subscription_id, terminating, compression, len(metrics))
        try:
            instance = self.instances.admit(push, address, connection, self.now_ms)
            try:
                if metrics:
                    read_payload(Codec(compression), metrics, MAX_BYTES, {}, with_points=True)
            except KafkaError as error:
                self.instances.refuse_payload(instance, error.code)
                raise
        except KafkaError as error:
            return order, str(int(error.code))
        self.instances.take_payload(instance)
        return order, "0"

    def metrics(self, compression: int) -> bytes:
        data = MetricsData()
        resource = data.resource_metrics.add()
        metric = resource.scope_metrics.add().metrics.add(
            name="org.apache.kafka.x" * self.rng.choice((1, 200))
        )
        metric.gauge.data_points.add(as_double=1.0)
        text = data.SerializeToString()
        draw = self.rng.random()
        if draw < 0.1:
            return b""
        if draw < 0.2:
            return b"\xff" * 20
        if draw < 0.25:
            return self.rng.randbytes(MAX_BYTES + 1)
        return compress(Codec(compression), text) if compression in tuple(Codec) else text


JAVAS = {"::1": "0:0:0:0:0:0:0:1"}


def kafkas(orders: list[Order], directory: Path) -> list[str]:
    asked, answered = directory / "orders", directory / "answers"
    asked.write_text("".join("\t".join(order) + "\n" for order in orders))
    sources = [JAVA / "TelemetryOracle.java", JAVA / "TelemetryReceiver.java"]
    class_path = compile_java(sources, kafka_classpath(), directory / "classes")
    command = java_command("TelemetryOracle", str(asked), str(answered), class_path=class_path)
    run = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    return answered.read_text().splitlines()


def test_clients_are_answered_as_by_kafka(tmp_path: Path) -> None:
    rng = random.Random(seed_of_this_run())
    steps = [step for _ in range(STORIES) for step in Story(rng).steps()]
    answers = kafkas([order for order, _ in steps], tmp_path)
    codes: set[str] = set()
    for number, ((order, ours), kafka) in enumerate(zip(steps, answers, strict=True)):
        codes.add(ours.partition("|")[0])
        if ours == str(int(ErrorCode.TELEMETRY_TOO_LARGE)) != kafka:
            # Kafka 4.4.0 silences the client for good (KAFKA-21076).
            assert kafka == str(int(ErrorCode.INVALID_RECORD)), (number, order)
            continue
        assert ours == kafka, (number, order, [each for each, _ in steps[max(0, number - 5) : number]])
    refusals = {"42", "40", "76", "87", "89", "117", "118"}
    assert refusals <= codes, f"never drawn: {refusals - codes}"
