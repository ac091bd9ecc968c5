"""Writes rows' records: one idempotent producer, whose thread tells each record's end to the event loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from ottla.client.cluster import KafkaCluster
from ottla.client.errors import ClusterError

POLL_SECONDS: Final = 0.1
FLUSH_SECONDS: Final = 30.0
DELIVERY_MS: Final = 60_000


class RecordProducer:
    """Made on the event loop; the producer and its thread begin with the first record."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._producer: Producer | None = None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def begin(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp_ms: int | None
    ) -> asyncio.Future[None]:
        """Give a record; the future ends when the cluster has it, or with a ClusterError.

        Raises ClusterError where too many records wait, or there is no such topic.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def tell(problem: Any) -> None:
            if done.done():
                return
            if problem is None:
                done.set_result(None)
            else:
                done.set_exception(ClusterError(f"the row was not written to {topic}: {problem.str()}"))

        def delivered(problem: Any, _message: Any) -> None:
            try:
                loop.call_soon_threadsafe(tell, problem)
            except RuntimeError:
                return  # the loop is closed: nobody waits

        try:
            # Of librdkafka's: a time of 0 is the present.
            self._begun().produce(topic, value, key, timestamp=timestamp_ms or 0, on_delivery=delivered)
        except (KafkaException, BufferError) as problem:
            raise ClusterError(f"the row was not written to {topic}: {problem}") from None
        return done

    def _begun(self) -> Producer:
        if self._producer is None:
            options = {"linger.ms": 0, "log_level": 0, "delivery.timeout.ms": DELIVERY_MS}
            producer = self._producer = Producer({**self._cluster.producer_options(), **options})

            def serve() -> None:
                while not self._stop.is_set():
                    producer.poll(POLL_SECONDS)

            self._thread = threading.Thread(target=serve, name="sql inserts", daemon=True)
            self._thread.start()
        return self._producer

    def close(self) -> None:
        """Wait for the records that are under way, and end. Blocks."""
        if self._producer is not None and self._thread is not None:
            self._producer.flush(FLUSH_SECONDS)
            self._stop.set()
            self._thread.join(FLUSH_SECONDS)
