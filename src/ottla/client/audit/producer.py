"""confluent_kafka's Producer with an audit: each record carries a mark, and the producer reports how many.

A record counts as sent when the client library has taken it, in a transaction when that is committed. One
whose delivery fails later was sent and has not arrived: the audit names it lost, which it is.
"""

from __future__ import annotations

import socket
import time
import uuid
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import confluent_kafka

from ottla.client.audit.ledger import Ledger, Reporter
from ottla.client.audit.mark import HEADER, MOST_SEQUENCES
from ottla.client.audit.reports import DEFAULT_BUCKET_MS, REPORTS_TOPIC
from ottla.client.audit.sending import CLOSE_SECONDS, DEFAULT_INTERVAL_SECONDS, ReportSender

Headers = Mapping[str, Any] | Iterable[tuple[str, Any]]
_produce = confluent_kafka.Producer.produce
_time = time.time
Delivered = Callable[[confluent_kafka.KafkaError | None, confluent_kafka.Message], None]


class AuditedProducer(confluent_kafka.Producer):
    """A confluent_kafka.Producer that reports. Its methods are that producer's.

    tier: the name of the cluster, or of what stands for it in the audit. host: by default this machine's
    name. `close`, or the end of the process, sends the last report; so does each `flush`.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        *,
        tier: str,
        host: str | None = None,
        bucket_ms: int = DEFAULT_BUCKET_MS,
        report_interval_seconds: float = DEFAULT_INTERVAL_SECONDS,
        reports_topic: str = REPORTS_TOPIC,
        **options: Any,
    ) -> None:
        if not tier:
            raise ValueError("an audited producer needs the name of its tier")
        super().__init__(dict(config), **options)
        client = str(config.get("client.id", ""))[:255]
        reporter = Reporter(tier, (host or socket.gethostname())[:255], client, bucket_ms)
        self._ledger = Ledger(reporter, uuid.uuid4())
        self._sender = ReportSender(self._ledger, config, report_interval_seconds, reports_topic)
        self._finalizer = weakref.finalize(self, self._sender.close)

    def produce(
        self,
        topic: str,
        value: str | bytes | None = None,
        key: str | bytes | None = None,
        partition: int = -1,
        callback: Delivered | None = None,
        on_delivery: Delivered | None = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """As confluent_kafka's."""
        if not timestamp:
            timestamp = int(_time() * 1_000)
        ledger = self._ledger
        with ledger.lock:
            # `Ledger.sending`, here without a call: this runs for each record
            slot = ledger.newest.get(topic)
            if slot is not None and slot.start_ms <= timestamp < slot.end_ms and slot.next < MOST_SEQUENCES:
                sequence = slot.next
                slot.next = sequence + 1
                if not ledger.in_transaction:
                    slot.settled = sequence + 1
                mark = slot.prefix + sequence.to_bytes(4, "big")
            else:
                slot, mark = ledger.sending(topic, timestamp)
            try:
                _produce(
                    self,
                    topic,
                    value,
                    key,
                    partition,
                    on_delivery or callback,
                    None,
                    timestamp,
                    [(HEADER, mark)] if not headers else _marked(headers, mark),
                )
            except BaseException:
                ledger.refused(slot)
                raise

    def produce_batch(
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = -1,
        callback: Delivered | None = None,
        on_delivery: Delivered | None = None,
    ) -> int:
        """As confluent_kafka's, but one message after the other, since each has a mark of its own.

        A message that is not taken gets `_error`, as there.
        """
        taken = 0
        for message in messages:
            try:
                self.produce(
                    topic,
                    message.get("value"),
                    message.get("key"),
                    message.get("partition", partition),
                    message.get("callback", on_delivery or callback),
                    timestamp=message.get("timestamp", 0),
                    headers=message.get("headers"),
                )
                taken += 1
            except confluent_kafka.KafkaException as problem:
                message["_error"] = problem.args[0]
            except BufferError as problem:
                full = confluent_kafka.KafkaError._QUEUE_FULL
                message["_error"] = confluent_kafka.KafkaError(full, str(problem))
        return taken

    def begin_transaction(self, *args: Any) -> Any:
        """As confluent_kafka's."""
        result = super().begin_transaction(*args)
        self._ledger.begin_transaction()
        return result

    def commit_transaction(self, *args: Any) -> Any:
        """As confluent_kafka's."""
        result = super().commit_transaction(*args)
        self._ledger.end_transaction(committed=True)
        return result

    def abort_transaction(self, *args: Any) -> Any:
        """As confluent_kafka's."""
        result = super().abort_transaction(*args)
        self._ledger.end_transaction(committed=False)
        return result

    def flush(self, timeout: float = -1) -> int:
        """As confluent_kafka's, and reports what was sent."""
        left = super().flush(timeout)
        self._sender.flushed(CLOSE_SECONDS if timeout < 0 else timeout)
        return left

    def end_reports(self) -> None:
        """Send the last report of a producer that sends no more. May be called again."""
        self._finalizer()

    def close(self, *args: Any) -> Any:
        """As confluent_kafka's, with the last report."""
        super().flush(*args)
        self._finalizer()
        return super().close(*args)

    def __exit__(self, *args: Any) -> Any:
        super().flush()
        self._finalizer()
        return super().__exit__(*args)


def _marked(headers: Headers, mark: bytes) -> list[tuple[str, Any]]:
    """The headers with the mark behind them, in place of one that was copied from another record."""
    pairs: Iterable[tuple[str, Any]] = headers.items() if isinstance(headers, Mapping) else headers
    found = [pair for pair in pairs if pair[0] != HEADER]
    found.append((HEADER, mark))
    return found
