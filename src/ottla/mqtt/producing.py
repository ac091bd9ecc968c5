"""Writes messages to Kafka, and reports each once all replicas in sync have it, or it was given up.

Theory of operation. One idempotent librdkafka producer serves all clients, so the messages of one key keep
their order. Reports are taken on the event loop, by a poll of no length every millisecond while messages are
under way; `report` is called from there. What is under way is bounded in bytes and in number: from there on
`is_full`, and those who read clients stop until `on_room` tells them. As each client may add one packet more,
librdkafka's own bounds stand higher.

A message that is not acknowledged within delivery.timeout.ms is reported as refused with SERVER_BUSY: the
client keeps it, and may try again. A fatal error of the producer ends the service, which is started anew.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

from confluent_kafka import KafkaError, KafkaException, Producer

from ottla.client.access import ClusterAccess
from ottla.client.errors import ClientOptionError
from ottla.mqtt.core.messages import Message, headers
from ottla.mqtt.core.reason_codes import ReasonCode
from ottla.mqtt.core.routing import KeyRule
from ottla.mqtt.figures import MqttFigures
from ottla.web.errors import ServiceError

clients_log = logging.getLogger("ottla.client.mqtt")

POLL_SECONDS: Final = 0.001
IDLE_POLL_SECONDS: Final = 0.5
MOST_UNDER_WAY: Final = 50_000
STOP_SECONDS: Final = 3.0
OVERHEAD_BYTES: Final = 256
"""Of a message, for its headers and librdkafka's own."""

_DEFAULTS: Final[dict[str, Any]] = {
    "partitioner": "murmur2_random",  # the same partitions for keys as Java's clients
    "linger.ms": 3,
    "delivery.timeout.ms": 30_000,
    "topic.metadata.propagation.max.ms": 5_000,
    "queue.buffering.max.messages": 4 * MOST_UNDER_WAY,
    "queue.buffering.max.kbytes": 2_097_151,
}
_REQUIRED: Final[dict[str, Any]] = {"acks": "all", "enable.idempotence": True}
_REFUSALS: Final[dict[int, ReasonCode]] = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: ReasonCode.NOT_AUTHORIZED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: ReasonCode.NOT_AUTHORIZED,
    **dict.fromkeys(
        (
            KafkaError.MSG_SIZE_TOO_LARGE,
            KafkaError.INVALID_MSG,
            KafkaError.INVALID_MSG_SIZE,
            KafkaError.INVALID_RECORD,
            KafkaError.RECORD_LIST_TOO_LARGE,
            KafkaError.POLICY_VIOLATION,
            KafkaError.TOPIC_EXCEPTION,
            KafkaError.UNKNOWN_TOPIC_OR_PART,
            KafkaError._UNKNOWN_TOPIC,
            KafkaError._UNKNOWN_PARTITION,
        ),
        ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
    ),
}
"""Of errors that another attempt would meet again."""

Report = Callable[[ReasonCode, str], None]
"""Told what became of a message: SUCCESS, or the reason for its refusal and a text."""


class MessageWriter:
    """Writes the messages of all clients of a service."""

    def __init__(
        self,
        access: ClusterAccess,
        properties: dict[str, str],
        key_rule: KeyRule,
        most_bytes: int,
        figures: MqttFigures,
    ) -> None:
        """properties: of the producer. Raises ServiceError for those that can't be."""
        self._key_rule = key_rule
        self._most_bytes = most_bytes
        self._figures = figures
        self._producer: Producer | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._polls_soon = False
        self._fatal: asyncio.Future[str] | None = None
        self._tells_room: set[Callable[[], None]] = set()
        try:
            given = access.librdkafka({**_DEFAULTS, **access.properties, **properties})
        except ClientOptionError as problem:
            raise ServiceError(f"ottla mqtt: the settings client.*: {problem}") from None
        for name, value in _REQUIRED.items():
            if name in given and str(given[name]).lower() not in (str(value).lower(), "-1"):
                raise ServiceError(
                    f"ottla mqtt: producer.{name}={given[name]}: it is always {value}, or acknowledged "
                    "messages could be lost"
                )
        self._properties = {**given, **_REQUIRED}

    async def start(self) -> None:
        """Make the producer; the cluster need not be there. Raises ServiceError for impossible settings."""
        self._fatal = asyncio.get_running_loop().create_future()
        try:
            self._producer = Producer({**self._properties, "error_cb": self._complain}, logger=clients_log)
        except (KafkaException, TypeError, ValueError) as problem:
            text = problem.args[0].str() if isinstance(problem, KafkaException) else str(problem)
            raise ServiceError(f"ottla mqtt: the producer's settings: {text}") from None
        self._poll_in(IDLE_POLL_SECONDS)

    async def failed(self) -> str:
        """Wait until the producer can't go on; returns the reason."""
        assert self._fatal is not None, "started"
        return await asyncio.shield(self._fatal)

    @property
    def is_full(self) -> bool:
        """Whether no more messages should be read."""
        figures = self._figures
        return figures.under_way >= MOST_UNDER_WAY or figures.under_way_bytes >= self._most_bytes

    def tell_room(self, tell: Callable[[], None]) -> None:
        """Call `tell` once there is room again."""
        self._tells_room.add(tell)

    def store(self, kafka_topic: str, message: Message, client_id: str, report: Report) -> None:
        """Write a message; `report` is called with its end, perhaps at once."""
        self._write(
            kafka_topic,
            self._key_rule.key(message.topic, client_id),
            message.payload,
            message,
            client_id,
            report,
        )

    def retain(self, kafka_topic: str, message: Message, client_id: str, report: Report) -> None:
        """Write a message as the retained one of its MQTT topic; one without a payload deletes it."""
        self._write(kafka_topic, message.topic.encode(), message.payload or None, message, client_id, report)

    def _write(
        self,
        kafka_topic: str,
        key: bytes | None,
        value: bytes | None,
        message: Message,
        client_id: str,
        report: Report,
    ) -> None:
        producer = self._producer
        if producer is None:
            report(ReasonCode.SERVER_BUSY, "the proxy stops")
            return
        size = message.size_bytes + OVERHEAD_BYTES
        told = partial(self._reported, report, size, time.perf_counter())
        try:
            producer.produce(
                kafka_topic,
                value,
                key,
                on_delivery=told,
                headers=cast(Any, headers(message, client_id)),  # a list of texts and bytes is one of both
            )
        except BufferError:
            report(ReasonCode.SERVER_BUSY, "too many messages wait for the cluster")
            return
        except KafkaException as problem:
            report(*_refusal(problem.args[0]))
            return
        self._figures.under_way += 1
        self._figures.under_way_bytes += size
        if not self._polls_soon:
            if self._timer is not None:
                self._timer.cancel()
            self._poll_in(POLL_SECONDS)

    def _reported(
        self, report: Report, size: int, begun: float, error: KafkaError | None, _message: object
    ) -> None:
        figures = self._figures
        figures.under_way -= 1
        figures.under_way_bytes -= size
        if error is None:
            figures.stored_seconds.observe(round((time.perf_counter() - begun) * 1e6))
            report(ReasonCode.SUCCESS, "")
        else:
            report(*_refusal(error))

    def _complain(self, error: KafkaError) -> None:
        clients_log.warning("the producer: %s", error.str())
        if error.fatal() and self._fatal is not None and not self._fatal.done():
            self._fatal.set_result(f"the producer can't go on: {error.str()}")

    def _poll_in(self, seconds: float) -> None:
        self._polls_soon = seconds == POLL_SECONDS
        self._timer = asyncio.get_running_loop().call_later(seconds, self._poll)

    def _poll(self) -> None:
        producer = self._producer
        if producer is None:
            return
        self._take_reports(producer)
        self._poll_in(POLL_SECONDS if len(producer) else IDLE_POLL_SECONDS)
        if self._tells_room and not self.is_full:
            telling, self._tells_room = self._tells_room, set()
            for tell in telling:
                tell()

    def _take_reports(self, producer: Producer) -> None:
        try:
            producer.poll(0)
        except KafkaException as problem:  # confluent-kafka raises fatal errors here
            self._complain(problem.args[0])

    async def drain(self) -> None:
        """Return once nothing is under way, or after a moment."""
        producer = self._producer
        until = time.monotonic() + STOP_SECONDS
        while producer is not None and len(producer) and time.monotonic() < until:
            self._take_reports(producer)
            await asyncio.sleep(POLL_SECONDS)

    async def stop(self) -> None:
        """Give up what is under way, and end."""
        producer, self._producer = self._producer, None
        if self._timer is not None:
            self._timer.cancel()
        if producer is not None:
            producer.purge()
            self._take_reports(producer)
            await asyncio.to_thread(producer.close)


def _refusal(error: KafkaError) -> tuple[ReasonCode, str]:
    return _REFUSALS.get(error.code(), ReasonCode.SERVER_BUSY), error.str()
