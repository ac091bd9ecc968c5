"""Apache Kafka with its MBeans read out, under the names that Strimzi's rules give them."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.clients.scrapes import Scrape
from support.java.java_tools import compile_java, java_command, kafka_classpath
from support.servers.apache_kafka import READY_LOGGER, READY_TEXT, ApacheKafka
from support.servers.cluster import ServerProcess, free_port

PROGRAM = Path(__file__).parent.parent / "java" / "KafkaWithMetrics.java"
_PERCENTILE = re.compile(r"(\d+)thPercentile")
_RATIO = re.compile(r"(.+)Percent\w*")
_RATE = re.compile(r"(.+)PerSec\w*")
#: MBeans of Kafka's own metrics library: their attributes are the metrics.
_OF_KAFKA = {
    "raft-metrics": "raftmetrics",
    "raft-channel-metrics": "raftchannelmetrics",
    "broker-metadata-metrics": "brokermetadatametrics",
}


@dataclass(frozen=True)
class KafkaWithMetrics:
    """A node of Apache Kafka and the port of its MBeans."""

    kafka: ApacheKafka
    port: int

    @property
    def bootstrap(self) -> str:
        return self.kafka.bootstrap

    def scrape(self) -> Scrape:
        """All of its metrics that have a name by the rules."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as connection:
            text = b"".join(iter(lambda: connection.recv(1 << 16), b"")).decode()
        samples: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for line in text.splitlines():
            domain, keys, attribute, value = line.split("\t")
            pairs = dict(pair.split("=", 1) for pair in keys.split(","))
            named = exported(domain, pairs, attribute, value)
            if named is not None:
                name, labels, number = named
                samples[name, frozenset(labels.items())] = number
        return Scrape(samples)


@contextmanager
def start_kafka_with_metrics(directory: Path) -> Iterator[KafkaWithMetrics]:
    """A node that runs while the block does."""
    kafka = ApacheKafka.prepare(directory / "kafka")
    port = free_port()
    class_path = compile_java([PROGRAM], kafka_classpath(), directory / "classes")
    flags = (
        "-Xmx512m",
        "-Dorg.slf4j.simpleLogger.logFile=System.out",
        f"-Dorg.slf4j.simpleLogger.log.{READY_LOGGER}=info",
    )
    properties = str(kafka.data_dir / "server.properties")
    command = java_command("KafkaWithMetrics", str(port), properties, flags=flags, class_path=class_path)
    kafka.server = ServerProcess(command, READY_TEXT, kafka.data_dir / "server.log")
    try:
        kafka.server.start()
        yield KafkaWithMetrics(kafka, port)
    finally:
        if kafka.server.running:
            kafka.server.stop()


def exported(
    domain: str, keys: dict[str, str], attribute: str, value: str
) -> tuple[str, dict[str, str], float] | None:
    """The series of an attribute: name, labels, value. None where the rules have no name for it.

    The rules match domains of two words alone; those of coordinators are taken too here, as others' rules do.
    """
    kind, name = keys.pop("type", ""), keys.pop("name", None)
    prefix = f"{domain.replace('.', '_')}_{kind}"
    if name is None:
        if kind == "socket-server-metrics" and set(keys) == {"listener", "networkProcessor"}:
            return _series(f"kafka_server_{kind}_{attribute}", keys, value)
        if kind in _OF_KAFKA and not keys:
            if attribute == "current-state":
                return f"kafka_server_{_OF_KAFKA[kind]}_current_state", {"current_state": value}, 1
            return _series(f"kafka_server_{_OF_KAFKA[kind]}_{attribute}", {}, value)
        return None
    ratio, rate, percentile = (
        _RATIO.fullmatch(name),
        _RATE.fullmatch(name),
        _PERCENTILE.fullmatch(attribute),
    )
    if ratio is not None and attribute in ("MeanRate", "Value"):
        return _series(f"{prefix}_{ratio[1]}_percent", keys, value)
    if rate is not None and attribute == "Count":
        return _series(f"{prefix}_{rate[1]}_total", keys, value)
    if attribute == "Value":
        return _series(f"{prefix}_{name}", keys, value)
    if attribute == "Count":
        return _series(f"{prefix}_{name}_count", keys, value)
    if percentile is not None:
        return _series(f"{prefix}_{name}", {**keys, "quantile": f"0.{percentile[1]}"}, value)
    return None


def _series(name: str, labels: dict[str, str], value: str) -> tuple[str, dict[str, str], float] | None:
    try:
        return re.sub(r"[^a-z0-9_:]", "_", name.lower()), labels, float(value)
    except ValueError:
        return None
