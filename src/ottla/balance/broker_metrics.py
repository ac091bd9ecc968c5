"""Counters of brokers, read from their own metrics by HTTP: bytes of topics in and out, processor time.

Of ottla's brokers, and of Apache Kafka's with the Prometheus JMX exporter as a Java agent.
"""

from __future__ import annotations

import asyncio
import re
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

BYTES_IN: Final = "kafka_server_brokertopicmetrics_bytesin_total"
BYTES_OUT: Final = "kafka_server_brokertopicmetrics_bytesout_total"
"""As ottla's brokers name them, and the JMX exporter by its usual rules for Kafka."""
ANY: Final = "kafka_server_brokertopicmetrics_count"
"""As the JMX exporter names them without rules; a label tells which. Names are read in any case."""
_OF_ANY: Final = {"BytesInPerSec": BYTES_IN, "BytesOutPerSec": BYTES_OUT}
CPU_SECONDS: Final = "process_cpu_seconds_total"
ANSWER_SECONDS: Final = 10.0
MAX_BYTES: Final = 64 << 20
READ_AT_ONCE: Final = 16
_SAMPLE: Final = re.compile(r"([A-Za-z_]+)(?:\{(.*)\})? ([^ ]+)")
_TOPIC: Final = re.compile(r'\btopic="([^"]*)"')
_NAME: Final = re.compile(r'\bname="([^"]*)"')
_PREFIXES: Final = ("kafka_server_brokertopicmetrics_", "process_cpu_seconds_total")
_LONGEST_PREFIX: Final = max(map(len, _PREFIXES))


@dataclass(frozen=True, slots=True)
class BrokerCounters:
    """What a broker has counted since its start. bytes_in, bytes_out: by topic, of partitions it leads."""

    bytes_in: Mapping[str, float] = field(default_factory=dict)
    bytes_out: Mapping[str, float] = field(default_factory=dict)
    cpu_seconds: float = 0.0


class MetricsReader:
    """Reads metrics at a URL with `{host}` and `{id}` in it. problems: of brokers that did not answer."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.problems: list[str] = []

    async def read(self, hosts: Mapping[int, str]) -> dict[int, BrokerCounters]:
        """The counters of the brokers that answer, by id."""
        turns = asyncio.Semaphore(READ_AT_ONCE)

        async def read(broker: int, host: str) -> tuple[int, BrokerCounters | None]:
            url = self._url.replace("{host}", host).replace("{id}", str(broker))
            async with turns:
                try:
                    return broker, counters_in(await asyncio.to_thread(_get, url))
                except (OSError, ValueError) as problem:  # urllib's errors are OSErrors
                    self.problems.append(f"broker {broker}: no metrics at {url}: {problem}")
                    return broker, None

        answers = await asyncio.gather(*(read(broker, host) for broker, host in hosts.items()))
        return {broker: found for broker, found in answers if found is not None}


def _get(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError("it is not http://… or https://…")
    with urllib.request.urlopen(url, timeout=ANSWER_SECONDS) as answer:
        content: bytes = answer.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES} bytes")
    return content.decode("utf-8", "replace")


def counters_in(text: str) -> BrokerCounters:
    """The counters among the lines of Prometheus' text format."""
    bytes_in: dict[str, float] = defaultdict(float)
    bytes_out: dict[str, float] = defaultdict(float)
    cpu = 0.0
    by_name = {BYTES_IN: bytes_in, BYTES_OUT: bytes_out}
    for line in text.splitlines():
        if not line[:_LONGEST_PREFIX].lower().startswith(_PREFIXES):
            continue
        found = _SAMPLE.match(line)
        if found is None:
            continue
        name, labels, value = found[1].lower(), found[2], found[3]
        if name == ANY and labels and (told := _NAME.search(labels)):
            name = _OF_ANY.get(told[1], name)
        if name == CPU_SECONDS:
            cpu = float(value)
        elif name in by_name and labels and (topic := _TOPIC.search(labels)):
            by_name[name][topic.group(1)] += float(value)
    return BrokerCounters(dict(bytes_in), dict(bytes_out), cpu)
