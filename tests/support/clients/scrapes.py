"""A scrape of a metrics endpoint, read by Prometheus' own parser; and answers of its health checks."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

TIMEOUT_S = 20.0
Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Scrape:
    """The samples of one scrape, by name and labels."""

    samples: dict[tuple[str, Labels], float]

    @classmethod
    def of_text(cls, text: str) -> Scrape:
        """The samples of a text; no series may stand there twice."""
        samples: dict[tuple[str, Labels], float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                key = sample.name, frozenset(sample.labels.items())
                assert key not in samples, f"twice: {key}"
                samples[key] = sample.value
        return cls(samples)

    @classmethod
    def take(cls, port: int, host: str = "127.0.0.1") -> Scrape:
        """Scrape a process's endpoint. Raises OSError."""
        with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=TIMEOUT_S) as answer:
            return cls.of_text(answer.read().decode())

    def value(self, name: str, **labels: str | int) -> float:
        """The value of a series; 0 for one that is not there, as PromQL's `or vector(0)`."""
        return self.samples.get((name, frozenset((key, str(value)) for key, value in labels.items())), 0)

    def has(self, name: str, **labels: str | int) -> bool:
        """Whether a series is there."""
        return (name, frozenset((key, str(value)) for key, value in labels.items())) in self.samples

    def of(self, name: str) -> Iterator[tuple[dict[str, str], float]]:
        """Labels and value of each series of a metric."""
        for (each, labels), value in self.samples.items():
            if each == name:
                yield dict(labels), value

    @property
    def names(self) -> set[str]:
        """The names of all samples."""
        return {name for name, _ in self.samples}


def ask_health(port: int, path: str = "/readyz") -> tuple[int, dict[str, Any]]:
    """The status and content of a health check's answer. Raises OSError."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=TIMEOUT_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)
