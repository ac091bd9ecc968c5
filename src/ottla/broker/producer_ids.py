"""Takes producer ids out of blocks that the controller makes durable, one refill at a time."""

from __future__ import annotations

import asyncio

from ottla.broker.controller import Controller
from ottla.core.transactions.producer_ids import ProducerIds


class ProducerIdSource:
    """Producer ids for this broker's InitProducerId requests."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._ids = ProducerIds()
        self._refilling = asyncio.Lock()

    async def next_id(self) -> int:
        """The next id. Raises KafkaError when the controller can't give a block."""
        producer_id = self._ids.take()
        while producer_id is None:
            async with self._refilling:
                # Whoever waited for the lock finds the block that the first one brought.
                producer_id = self._ids.take()
                if producer_id is None:
                    self._ids.refill(await self._controller.allocate_producer_ids())
                    producer_id = self._ids.take()
        return producer_id
