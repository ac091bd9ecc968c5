"""The way to the share coordinator for those on this node who keep share-partition state (KIP-932).

The group coordinator initialises and deletes the state of share partitions and reads summaries of it; the
leaders of share partitions read and write it. All of them speak the protocol's own messages, with any number
of topics and partitions of one group in a request. Every partition that was asked about is in the answer, with
an error code of its own; none of the methods raises.

Each partition's state lives in a partition of `__share_group_state` (by the hash of "group:topic id:partition").
That topic is made at the first use. Here every coordinator is on this node; one on another node is reached by
the same messages on the wire, so only `_ask_once` has to change for that.

While a coordinator is being elected or loaded, a request is repeated a few times, as Kafka's own persister
does; what is still not answered for then is answered with the coordinator's error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_share_group_state_request import DeleteShareGroupStateRequest
from ottla.protocol.messages.delete_share_group_state_response import DeleteShareGroupStateResponse
from ottla.protocol.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
from ottla.protocol.messages.initialize_share_group_state_response import InitializeShareGroupStateResponse
from ottla.protocol.messages.read_share_group_state_request import ReadShareGroupStateRequest
from ottla.protocol.messages.read_share_group_state_response import ReadShareGroupStateResponse
from ottla.protocol.messages.read_share_group_state_summary_request import (
    ReadShareGroupStateSummaryRequest,
)
from ottla.protocol.messages.read_share_group_state_summary_response import (
    ReadShareGroupStateSummaryResponse,
)
from ottla.protocol.messages.write_share_group_state_request import WriteShareGroupStateRequest
from ottla.protocol.messages.write_share_group_state_response import WriteShareGroupStateResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

TRIES = 5
RETRY_DELAY_SECONDS = 0.2
"""Before the second try; doubled before each further one."""

RETRIABLE = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class ShareStatePersister:
    """`broker.share_state`: initialise, read, write and delete the state of share partitions."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def initialize(self, request: InitializeShareGroupStateRequest) -> InitializeShareGroupStateResponse:
        """Begin the state of share partitions at a start offset (-1: decided when it is first read)."""
        return await self._ask(request, self._broker.share_coordinator.initialize)

    async def read(self, request: ReadShareGroupStateRequest) -> ReadShareGroupStateResponse:
        """The state of share partitions, for their leaders, whose epochs the coordinator remembers."""
        return await self._ask(request, self._broker.share_coordinator.read)

    async def write(self, request: WriteShareGroupStateRequest) -> WriteShareGroupStateResponse:
        """Add changed batches and a start offset to the state. Durable when this returns without error."""
        return await self._ask(request, self._broker.share_coordinator.write)

    async def delete(self, request: DeleteShareGroupStateRequest) -> DeleteShareGroupStateResponse:
        """Forget the state; to delete what is not there is no error."""
        return await self._ask(request, self._broker.share_coordinator.delete)

    async def read_summary(
        self, request: ReadShareGroupStateSummaryRequest
    ) -> ReadShareGroupStateSummaryResponse:
        """Epochs, start offset (-1 if there is no state) and delivery-complete count of share partitions."""
        return await self._ask(request, self._broker.share_coordinator.read_summary)
