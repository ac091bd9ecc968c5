"""Billing: reads orders in a group and writes an invoice for each, exactly once, whatever brokers do."""

from __future__ import annotations

import asyncio
import json

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

PAUSE_SECONDS = 0.2


class Billing:
    """Runs until it is cancelled; starts over, where it was, after an error of Kafka's."""

    def __init__(self, bootstrap: str, orders: str, invoices: str, group: str = "billing") -> None:
        self._bootstrap = bootstrap
        self._orders = orders
        self._invoices = invoices
        self._group = group
        self.failures = 0

    async def run(self) -> None:
        """Bill orders for ever."""
        while True:
            try:
                await self._bill()
            except (KafkaError, OSError):
                self.failures += 1
                await asyncio.sleep(PAUSE_SECONDS)

    async def _bill(self) -> None:
        consumer = AIOKafkaConsumer(
            self._orders,
            bootstrap_servers=self._bootstrap,
            group_id=self._group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            session_timeout_ms=6_000,
        )
        producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap, transactional_id=f"{self._group}-1", request_timeout_ms=5_000
        )
        try:
            await consumer.start()
            await producer.start()
            while True:
                batches = await consumer.getmany(timeout_ms=200)
                if not batches:
                    continue
                ends: dict[TopicPartition, int] = {}
                async with producer.transaction():
                    for partition, records in batches.items():
                        for record in records:
                            order = json.loads(record.value or b"{}")
                            invoice = {"order": order["number"], "cents": order["cents"]}
                            await producer.send(self._invoices, json.dumps(invoice).encode(), key=record.key)
                        ends[partition] = records[-1].offset + 1
                    await producer.send_offsets_to_transaction(ends, self._group)
        finally:
            await producer.stop()
            await consumer.stop()
