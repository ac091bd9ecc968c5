"""Takes producer ids out of blocks that the active controller makes durable, one refill at a time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from ottla.broker.parts import Cluster
from ottla.core.transactions.producer_ids import ProducerIdBlock, ProducerIds
from ottla.protocol.errors import ErrorCode, error_class
from ottla.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from ottla.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse

if TYPE_CHECKING:
    from ottla.broker.controller.controller_channel import ControllerChannel
    from ottla.broker.controller.lifecycle import BrokerLifecycle
    from ottla.core.image.image import MetadataDelta


class ProducerIdsNode(Cluster, Protocol):
    """The members of a node for the source of producer ids."""

    @property
    def controller_channel(self) -> ControllerChannel:
        """The way to the active controller."""
        ...

    @property
    def lifecycle(self) -> BrokerLifecycle:
        """The broker's registration and its epoch."""
        ...


class ProducerIdSource:
    """Producer ids for this broker's InitProducerId requests."""

    def __init__(self, node: ProducerIdsNode) -> None:
        self._node = node
        self._ids = ProducerIds()
        self._refilling = asyncio.Lock()
        self._first_allowed = 0

    async def next_id(self) -> int:
        """The next id. Raises KafkaError when the controller can't give a block."""
        producer_id = self._ids.take()
        while producer_id is None:
            async with self._refilling:
                # Callers that waited for the lock find the block that the first one brought.
                producer_id = self._ids.take()
                if producer_id is None:
                    block = await self._block()
                    if block.first < self._first_allowed:
                        continue  # ids were skipped while the answer was on its way
                    self._ids.refill(block)
                    producer_id = self._ids.take()
        return producer_id

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Ids were skipped, because a mirror topic's producers have them: give none of an older block."""
        if delta.producer_ids_skipped:
            self._first_allowed = self._node.image.next_producer_id
            self._ids.drop()

    async def _block(self) -> ProducerIdBlock:
        node = self._node
        answer = await node.controller_channel.ask(
            AllocateProducerIdsRequest(broker_id=node.node_id, broker_epoch=node.lifecycle.broker_epoch)
        )
        assert isinstance(answer, AllocateProducerIdsResponse)
        if answer.error_code != ErrorCode.NONE:
            raise error_class(answer.error_code)("the active controller gave no block of producer ids")
        return ProducerIdBlock(answer.producer_id_start, answer.producer_id_len)
