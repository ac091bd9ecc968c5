"""Producing with librdkafka in a task's thread: full queues are waited for, and so are acknowledgements."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, Message, Producer

SLICE_SECONDS: Final = 0.2
ANY_PARTITION: Final = -1
NOW: Final = 0
"""In place of a timestamp."""

Refused = Callable[[KafkaError | None, Message], None]
"""Told of a record that was not delivered, in place of the producer's own `on_error`."""


class QueueFull(Exception):
    """A record could not be handed over before the caller had to give up."""


class Outgoing(NamedTuple):
    """A record as it is produced."""

    topic: str
    value: bytes | None
    key: bytes | None
    partition: int = ANY_PARTITION
    timestamp_ms: int = NOW
    headers: list[tuple[str, Any]] | None = None


def _for_ever() -> bool:
    return True


def produced(
    producer: Producer,
    record: Outgoing,
    goes_on: Callable[[], bool] = _for_ever,
    refused: Refused | None = None,
    *,
    is_own: bool = False,
) -> None:
    """Hand a record over to a producer; wait while its queue is full. Raises QueueFull, KafkaException.

    is_own: a record of Connect's own, an offset; an audited producer does not count it.
    """
    topic, value, key, partition, timestamp_ms, headers = record
    produce = Producer.produce if is_own else type(producer).produce
    while True:
        try:
            produce(
                producer,
                topic,
                value,
                key,
                partition,
                on_delivery=refused,
                timestamp=timestamp_ms,
                headers=headers,
            )
            return
        except BufferError:
            if not goes_on():
                raise QueueFull from None
            producer.poll(SLICE_SECONDS)


def drain(producer: Producer, goes_on: Callable[[], bool] = _for_ever, seconds: float | None = None) -> bool:
    """Wait until all records of a producer are acknowledged or refused. Raises KafkaException.

    Ends before, with False, when `goes_on` is false, or after `seconds`.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    # not the flush of an audited producer: it waits for a report as well
    while Producer.flush(producer, SLICE_SECONDS):
        if not goes_on() or (deadline is not None and time.monotonic() > deadline):
            return len(producer) == 0
    return True
