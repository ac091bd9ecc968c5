"""Prometheus itself, from the machine's package, which scrapes and judges rules twice a second."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from support.clients.confluent import eventually
from support.servers.cluster import ServerError, free_port

INTERVAL = "500ms"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
ASK_TIMEOUT_S = 10.0


class Prometheus:
    """A running Prometheus, asked by its HTTP API."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def is_ready(self) -> bool:
        """Whether it serves queries."""
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=ASK_TIMEOUT_S) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _ask(self, path: str, **parameters: str) -> Any:
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=ASK_TIMEOUT_S) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each series that a PromQL expression gives now."""
        found = self._ask("query", query=expression)["result"]
        return [(each["metric"], float(each["value"][1])) for each in found]

    def targets(self) -> list[dict[str, Any]]:
        """Its targets, each with `health` and `lastError`."""
        found: list[dict[str, Any]] = self._ask("targets")["activeTargets"]
        return found

    def firing(self) -> set[str]:
        """The names of the alerts that fire."""
        return {
            each["labels"]["alertname"] for each in self._ask("alerts")["alerts"] if each["state"] == "firing"
        }

    def metadata(self) -> Mapping[str, Sequence[Mapping[str, str]]]:
        """Type and help text of each metric that it has scraped."""
        found: Mapping[str, Sequence[Mapping[str, str]]] = self._ask("metadata")
        return found


@contextmanager
def prometheus(directory: Path, jobs: Mapping[str, Sequence[str]], rules: Path) -> Iterator[Prometheus]:
    """A Prometheus that scrapes these targets of each job. Rules fire at once, whatever their `for` says."""
    read = yaml.safe_load(rules.read_text("utf-8"))
    for group in read["groups"]:
        for rule in group["rules"]:
            rule["for"] = "0s"
    (directory / "rules.yml").write_text(yaml.safe_dump(read))
    config = {
        "global": {"scrape_interval": INTERVAL, "scrape_timeout": INTERVAL, "evaluation_interval": INTERVAL},
        "rule_files": [str(directory / "rules.yml")],
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": list(targets)}]} for job, targets in jobs.items()
        ],
    }
    (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_port()
    command = [
        "prometheus",
        f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    log = directory / "prometheus.log"
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output)
    running = Prometheus(port)
    try:

        def is_ready() -> bool:
            if server.poll() is not None:
                raise ServerError(f"prometheus ended: {log.read_text('utf-8')}")
            return running.is_ready()

        eventually(is_ready, "Prometheus is ready", START_TIMEOUT_S)
        yield running
    finally:
        server.terminate()
        try:
            server.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
