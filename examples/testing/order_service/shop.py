"""The shop: writes orders, and knows of each whether Kafka has it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

ORDER_SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "number", "type": "string"},
            {"name": "customer", "type": "string"},
            {"name": "cents", "type": "long"},
        ],
    }
)


class OrderNotPlaced(Exception):
    """Kafka does not have the order, or has not said so in time."""


@dataclass(frozen=True)
class Order:
    """An order of a customer."""

    number: str
    customer: str
    cents: int


class Shop:
    """Places orders in a topic, those of a customer in one partition."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        patience_seconds: float = 30.0,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._topic = topic
        self._patience_seconds = patience_seconds
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": int(patience_seconds * 1000),
                "linger.ms": 0,
                **(settings or {}),
            }
        )

    def place(self, order: Order, value: bytes | None = None) -> int:
        """Write an order, `value` in place of its JSON; its offset. Raises OrderNotPlaced."""
        answers: list[tuple[KafkaError | None, Message]] = []
        self._producer.produce(
            self._topic,
            json.dumps(asdict(order)) if value is None else value,
            key=order.customer,
            on_delivery=lambda error, message: answers.append((error, message)),
        )
        self._producer.flush(self._patience_seconds + 1)
        if not answers:
            raise OrderNotPlaced(f"order {order.number}: no answer in {self._patience_seconds:g} s")
        error, message = answers[0]
        if error is not None:
            raise OrderNotPlaced(f"order {order.number}: {error.str()}")
        offset = message.offset()
        assert offset is not None
        return offset


class AvroOrders:
    """Orders as Avro, under the subject of their topic."""

    def __init__(self, registry_url: str, topic: str) -> None:
        self._serialize = AvroSerializer(SchemaRegistryClient({"url": registry_url}), ORDER_SCHEMA)
        self._context = SerializationContext(topic, MessageField.VALUE)

    def encode(self, order: Order) -> bytes:
        """The order's bytes. Raises SerializationError."""
        encoded = self._serialize(asdict(order), self._context)
        assert encoded is not None
        return encoded
