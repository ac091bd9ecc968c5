"""Samples of a scrape, read with the parser of Prometheus' Python client."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(text: str) -> Samples:
    """All samples by name and labels, each of which stands once."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for each in family.samples:
            name = each.name
            if family.type == "counter" and f"\n{name}" not in text:
                # The parser gives every counter this ending, also those of Kafka's that have none.
                name = name.removesuffix("_total")
            key = (name, frozenset(each.labels.items()))
            assert key not in found, key
            found[key] = each.value
    return found


def sample(text: str, name: str, **labels: str) -> float | None:
    """The value of one sample with exactly these labels."""
    return samples(text).get((name, frozenset(labels.items())))


def by_labels(text: str, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    """The values of a metric by these labels of it."""
    return {
        tuple(dict(given)[label] for label in labels): value
        for (found, given), value in samples(text).items()
        if found == name
    }


def get(url: str) -> tuple[int, str]:
    """Status and body of a GET request, on a connection of its own."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    try:
        connection.request("GET", parts.path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def scrape(metrics_url: str) -> str:
    """The text of /metrics."""
    status, text = get(metrics_url)
    assert status == 200, text
    return text


def checks(url: str) -> tuple[int, dict[str, tuple[str, str]]]:
    """The status of /healthz or /readyz, and of each check its state and reason."""
    status, text = get(url)
    report: Any = json.loads(text)
    return status, {each["name"]: (each["state"], each["reason"]) for each in report["checks"]}
