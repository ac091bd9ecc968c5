"""The way to the share coordinators for the parts of this node that keep states of share partitions
(KIP-932).

The group coordinator initialises and deletes the state of share partitions and reads summaries of it; the
leaders of share partitions read and write it. All of them speak the protocol's own messages, with any number
of topics and partitions of one group in a request. Every partition of the request is in the answer, with an
error code of its own; none of the methods raises.

Each partition's state lives in a partition of `__share_group_state` (by the hash of its name, core/share/
keys.py). That topic is made at the first use. The leader of that partition is the coordinator: this broker,
which is asked without a socket, or another one, which gets one request for all of its partitions.

While a coordinator is being elected or loaded, a request is repeated a few times, as Kafka's own persister
does; partitions without an answer then get the coordinator's error.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from ottla.broker.peers.peers import PeerUnreachable
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.peers.broker_requests import AsksBrokers
    from ottla.broker.share.node import ShareCoordination
    from ottla.core.share.keys import SharePartitionKey
    from ottla.core.share.responses import StateRequest
    from ottla.protocol.messages.delete_share_group_state_request import DeleteShareGroupStateRequest
    from ottla.protocol.messages.delete_share_group_state_response import DeleteShareGroupStateResponse
    from ottla.protocol.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
    from ottla.protocol.messages.initialize_share_group_state_response import (
        InitializeShareGroupStateResponse,
    )
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
    from ottla.protocol.schema import Message

log = logging.getLogger("ottla.broker.coordinators")

PURPOSE = "share-states"
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
    """Initialises, reads, writes and deletes the states of share partitions."""

    def __init__(self, node_id: int, coordination: ShareCoordination, brokers: AsksBrokers) -> None:
        self._node_id = node_id
        self._coordination = coordination
        self._brokers = brokers

    async def initialize(
        self, request: InitializeShareGroupStateRequest
    ) -> InitializeShareGroupStateResponse:
        """Begin the state of share partitions at a start offset (-1: decided when it is first read)."""
        return cast("InitializeShareGroupStateResponse", await self._ask(request))

    async def read(self, request: ReadShareGroupStateRequest) -> ReadShareGroupStateResponse:
        """The state of share partitions, for their leaders, whose epochs the coordinator remembers."""
        return cast("ReadShareGroupStateResponse", await self._ask(request))

    async def write(self, request: WriteShareGroupStateRequest) -> WriteShareGroupStateResponse:
        """Add changed batches and a start offset to the state. Durable when this returns without error."""
        return cast("WriteShareGroupStateResponse", await self._ask(request))

    async def delete(self, request: DeleteShareGroupStateRequest) -> DeleteShareGroupStateResponse:
        """Forget the state; no error if there is none."""
        return cast("DeleteShareGroupStateResponse", await self._ask(request))

    async def read_summary(
        self, request: ReadShareGroupStateSummaryRequest
    ) -> ReadShareGroupStateSummaryResponse:
        """Epochs, start offset (-1 if there is no state) and delivery-complete count of share partitions."""
        return cast("ReadShareGroupStateSummaryResponse", await self._ask(request))

    async def _ask(self, request: StateRequest) -> Message:
        """Ask, and ask again about the share partitions whose coordinator was not ready."""
        from ottla.core.share.responses import error_of, merge, split

        waiting = list(split(request))
        answers: dict[SharePartitionKey, Message] = {}
        delay_seconds = RETRY_DELAY_SECONDS
        for tries_left in reversed(range(TRIES)):
            answers.update(await self._ask_once(waiting))
            waiting = [(key, part) for key, part in waiting if error_of(answers[key]) in RETRIABLE]
            if not waiting or not tries_left:
                break
            await asyncio.sleep(delay_seconds)
            delay_seconds *= 2
        return merge(request, answers.values())

    async def _ask_once(
        self, parts: Sequence[tuple[SharePartitionKey, StateRequest]]
    ) -> dict[SharePartitionKey, Message]:
        """Ask each share partition's coordinator once."""
        from ottla.core.share.responses import refusal

        coordinator = self._coordination
        try:
            await coordinator.make_topic()
        except KafkaError as problem:
            log.warning("the topic of share states could not be created: %s", problem)
            return {key: refusal(part, ErrorCode.COORDINATOR_NOT_AVAILABLE) for key, part in parts}
        by_leader: dict[int | None, list[tuple[SharePartitionKey, StateRequest]]] = {}
        for key, part in parts:
            leader = coordinator.shards.leader_of(coordinator.partition_for(key))
            by_leader.setdefault(leader, []).append((key, part))
        answers = await asyncio.gather(
            *(self._ask_leader(leader, of_leader) for leader, of_leader in by_leader.items())
        )
        return {key: answer for of_leader in answers for key, answer in of_leader.items()}

    async def _ask_leader(
        self, leader: int | None, parts: Sequence[tuple[SharePartitionKey, StateRequest]]
    ) -> dict[SharePartitionKey, Message]:
        """Ask one coordinator about its share partitions."""
        from ottla.core.share.responses import join, refusal, split_answer

        if leader == self._node_id:
            return await self._coordination.ask(parts)
        refused = ErrorCode.COORDINATOR_NOT_AVAILABLE
        answers: dict[SharePartitionKey, Message] = {}
        if leader is not None:
            request = join([part for _, part in parts])
            try:
                answer = await self._brokers.ask(PURPOSE, leader, request)
            except PeerUnreachable as problem:
                log.info("share coordinator not reached broker=%d reason=%s", leader, problem)
            else:
                answers = split_answer(request, answer)
                refused = ErrorCode.UNKNOWN_SERVER_ERROR
        return {key: answers.get(key) or refusal(part, refused) for key, part in parts}
