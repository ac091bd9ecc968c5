"""The broker without uvloop, as on Windows: OTTLA_EVENT_LOOP=asyncio runs the standard loop."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from support.servers.ottla_broker import OttlaBroker

WAIT_S = 20


@pytest.mark.parametrize("record_bytes", [10, 900_000])
def test_a_client_produces_and_consumes_on_the_standard_loop(tmp_path: Path, record_bytes: int) -> None:
    environment = {"OTTLA_EVENT_LOOP": "asyncio"}
    with OttlaBroker.start(tmp_path / "data", environment=environment) as broker:
        assert_standard_loop(broker)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
        sent = [bytes([65 + index]) * record_bytes for index in range(20)]
        for value in sent:
            producer.produce("letters", value=value)
        assert producer.flush(WAIT_S) == 0

        consumer = Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["letters"])
        received: list[bytes | None] = []
        for _ in range(WAIT_S * 10):
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                received.append(message.value())
            if len(received) == len(sent):
                break
        consumer.close()
        assert received == sent


def assert_standard_loop(broker: OttlaBroker) -> None:
    """uvloop's library is mapped into a broker that uses it, and only there."""
    maps = Path(f"/proc/{broker.pid}/maps")
    if maps.exists():
        assert "uvloop" not in maps.read_text()
