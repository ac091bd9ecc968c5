"""A producer that loses and doubles on purpose, and the report once all is judged."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Producer

from ottla.client.audit.mark import HEADER, StreamBucket, mark
from ottla.client.audit.reports import REPORTS_TOPIC, Report, report_key, report_value
from support.audit.counting import report
from support.clients.confluent import eventually

WAIT_S = 90.0


def settled(bootstrap: str, tier: str, *words: str) -> tuple[int, list[dict[str, Any]]]:
    """The report, once nothing is pending."""
    found: list[tuple[int, list[dict[str, Any]]]] = []

    def is_judged() -> bool:
        found.append(report(bootstrap, "--tier", tier, "--details", *words))
        rows = found[-1][1]
        return bool(rows) and all(row["state"] in ("complete", "incomplete") for row in rows)

    eventually(is_judged, f"tier {tier} is judged", WAIT_S)
    return found[-1]


def total(rows: Iterable[dict[str, Any]], name: str) -> int:
    return sum(row[name] for row in rows)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Faulty:
    """Writes records with marks of its own, each as often as asked, and reports how many there should be."""

    def __init__(self, bootstrap: str, tier: str, topic: str) -> None:
        self.tier, self.topic = tier, topic
        self.of = StreamBucket(uuid.uuid4(), 0, now_ms() // 1_000 * 1_000)
        self.producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})

    def send(self, sequences: Iterable[int], topic: str = "") -> None:
        for one in sequences:
            headers = [(HEADER, mark(self.of, one))]
            timestamp = self.of.bucket_start_ms + 5
            self.producer.produce(topic or self.topic, b"v", str(one), timestamp=timestamp, headers=headers)
        assert self.producer.flush(30) == 0

    def report(self, sent: int, number: int = 1) -> None:
        told = Report(self.tier, "h1", "", self.topic, self.of, 1_000, sent, number, now_ms(), True)
        for _ in range(2):  # repeated reports count once
            self.producer.produce(REPORTS_TOPIC, report_value(told), report_key(told))
        assert self.producer.flush(30) == 0
