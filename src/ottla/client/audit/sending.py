"""Sends a producer's reports by a client of its own: from time to time, when it is flushed, and at its end.

A client of its own, so that reports are acknowledged and idempotent whatever the producer's settings are, and
don't lie in its transactions. A report that can't be sent is told again by the next one, since reports are
cumulative; the producer itself goes on, and the log says once what is wrong.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

import confluent_kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla.client.audit.ledger import Ledger
from ottla.client.audit.reports import REPORTS_TOPIC, Report, report_key, report_value
from ottla.client.audit.topics import PARTITIONS, TOPIC_SETTINGS
from ottla.client.clock import now_ms

DEFAULT_INTERVAL_SECONDS: Final = 30.0
LEAST_INTERVAL_SECONDS: Final = 0.2
"""Between the reports of a producer that is flushed all the time."""
CLOSE_SECONDS: Final = 10.0
"""For the last reports to be acknowledged."""
MOST_WAITING: Final = 100_000
_KEPT_PREFIXES: Final = ("sasl.", "ssl.", "enable.ssl.", "security.", "broker.", "socket.", "client.dns.")
_KEPT: Final = frozenset({"bootstrap.servers", "metadata.broker.list", "oauth_cb", "log_level"})

_log = logging.getLogger("ottla.audit")


def connection_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Those settings of a producer that say where the cluster is, and as whom to go there."""
    return {name: value for name, value in config.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}


class ReportSender:
    """Owns the client and the thread that reports; ends with `close`."""

    def __init__(
        self,
        ledger: Ledger,
        config: Mapping[str, Any],
        interval_seconds: float = DEFAULT_INTERVAL_SECONDS,
        topic: str = REPORTS_TOPIC,
    ) -> None:
        self._ledger = ledger
        self._config = connection_settings(config)
        client_id = config.get("client.id") or "ottla"
        self._config["client.id"] = f"{client_id}-audit"
        self._interval_seconds = interval_seconds
        self._topic = topic
        self._client: confluent_kafka.Producer | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._last_sent = 0.0
        self._is_closed = False
        self._problem = ""
        self._thread = threading.Thread(target=self._run, name="ottla-audit", daemon=True)
        self._thread.start()

    def flushed(self, timeout: float) -> None:
        """Report what the producer has sent, unless that was done just now; wait until it is acknowledged."""
        if time.monotonic() - self._last_sent >= LEAST_INTERVAL_SECONDS:
            self._send(timeout)

    def close(self) -> None:
        """Report for the last time. May be called again."""
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join(CLOSE_SECONDS)
        if not self._is_closed:
            self._is_closed = True
            self._send(CLOSE_SECONDS, final=True)

    def _run(self) -> None:
        while not self._stop.wait(self._interval_seconds):
            self._send(self._interval_seconds)

    def _send(self, timeout: float, *, final: bool = False) -> None:
        """Send what is new and wait for the acknowledgements; a failure is logged, and told again later."""
        with self._lock:
            self._last_sent = time.monotonic()
            reports = self._ledger.reports(now_ms(), final=final)
            if not reports:
                return
            try:
                told = self._produced(reports, timeout)
            except (confluent_kafka.KafkaException, BufferError, ValueError) as problem:
                self._failed(str(problem))
                return
            self._ledger.told(told)
            if len(told) == len(reports):
                self._problem = ""

    def _produced(self, reports: list[Report], timeout: float) -> list[Report]:
        """Those of the reports that were acknowledged in time."""
        client = self._client
        if client is None:
            self._create_topic()
            client = self._client = confluent_kafka.Producer(
                {
                    **self._config,
                    "enable.idempotence": True,
                    "linger.ms": 50,
                    "queue.buffering.max.messages": MOST_WAITING,
                    "message.timeout.ms": 60_000,
                }
            )
        told: list[Report] = []

        def acknowledged(report: Report) -> Any:
            def on_delivery(error: Any, _: Any) -> None:
                if error is None:
                    told.append(report)
                else:
                    self._failed(str(error))

            return on_delivery

        for report in reports[:MOST_WAITING]:
            client.produce(
                self._topic, report_value(report), report_key(report), on_delivery=acknowledged(report)
            )
        client.flush(timeout)
        return list(told)

    def _create_topic(self) -> None:
        """Create the topic as it ought to be; where that is not allowed, it may be there, or be made."""
        topic = NewTopic(
            self._topic,
            num_partitions=PARTITIONS,
            replication_factor=-1,
            config=dict(TOPIC_SETTINGS[REPORTS_TOPIC]),
        )
        futures = AdminClient(dict(self._config)).create_topics([topic], request_timeout=10.0)
        try:
            futures[self._topic].result(15.0)
        except (confluent_kafka.KafkaException, TimeoutError) as problem:
            _log.debug("topic %s is not created: %s", self._topic, problem)

    def _failed(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            _log.warning("a report to %s is not sent, later ones will tell it: %s", self._topic, problem)
