"""Takes producer ids out of blocks that the active controller makes durable, one refill at a time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.core.transactions.producer_ids import ProducerIdBlock, ProducerIds
from ottla.protocol.errors import ErrorCode, error_class
from ottla.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from ottla.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


class ProducerIdSource:
    """Producer ids for this broker's InitProducerId requests."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
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
                    self._ids.refill(await self._block())
                    producer_id = self._ids.take()
        return producer_id

    async def _block(self) -> ProducerIdBlock:
        broker = self._broker
        answer = await broker.controller_channel.ask(
            AllocateProducerIdsRequest(broker_id=broker.node_id, broker_epoch=broker.lifecycle.broker_epoch)
        )
        assert isinstance(answer, AllocateProducerIdsResponse)
        if answer.error_code != ErrorCode.NONE:
            raise error_class(answer.error_code)("the active controller gave no block of producer ids")
        return ProducerIdBlock(answer.producer_id_start, answer.producer_id_len)
