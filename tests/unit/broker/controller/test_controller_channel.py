"""The way to the active controller: in process, to whoever leads, in an envelope, and when nobody answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.authorization import OpenAuthorization
from ottla.broker.controller.controller_channel import ControllerChannel
from ottla.broker.controller.envelope import unwrap_request, wrap_response
from ottla.broker.handlers.cluster.envelopes import envelope
from ottla.broker.handlers.table import controller_table
from ottla.broker.network.context import RequestContext, Session
from ottla.broker.network.dispatch import Dispatcher
from ottla.broker.peers.peers import PeerAddress, PeerUnreachable
from ottla.broker.quotas.client_quotas import ClientQuotas
from ottla.core.decisions.decision import Decision
from ottla.core.image.image import MetadataImage
from ottla.core.settings import broker_settings
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, NotController, RequestTimedOut, UnknownServerError
from ottla.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from ottla.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from ottla.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from ottla.protocol.messages.envelope_request import EnvelopeRequest
from ottla.protocol.messages.envelope_response import EnvelopeResponse
from ottla.protocol.schema import Message

ONE, TWO = PeerAddress("one", 9093), PeerAddress("two", 9093)
IDS = AllocateProducerIdsRequest(broker_id=7, broker_epoch=1)
FROM_A_CLIENT = RequestContext(
    ApiKey.CREATE_PARTITIONS, 3, 42, "an admin", Session("10.0.0.9", "PLAINTEXT", "User:alice")
)
MORE = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=9)])
Answer = Callable[[Message], Message | Awaitable[Message]]


def ids(first: int, error: ErrorCode = ErrorCode.NONE) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(error_code=error, producer_id_start=first, producer_id_len=10)


def partitions(error: ErrorCode = ErrorCode.NONE) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(results=[CreatePartitionsTopicResult(name="t", error_code=error)])


class FakeController:
    def __init__(self, *outcomes: object) -> None:
        self.active = bool(outcomes)
        self.outcomes = list(outcomes)

    async def submit(self, decide: Callable[[MetadataImage], Decision[Any]]) -> object:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            self.active = bool(self.outcomes)
            raise outcome
        return outcome


class Cluster:
    """A node with scripted controllers at `ONE` and `TWO`; `leader` is the one that it knows."""

    def __init__(self, leader: PeerAddress | None, answers: dict[PeerAddress, list[Answer]]) -> None:
        self.loop = asyncio.get_running_loop()
        self.leader = leader
        self.answers = answers
        self.asked: list[PeerAddress] = []
        self.controller = FakeController()
        windows = (
            broker_settings.QUOTA_WINDOW_NUM,
            broker_settings.QUOTA_WINDOW_SIZE_SECONDS,
            broker_settings.CONTROLLER_QUOTA_WINDOW_NUM,
            broker_settings.CONTROLLER_QUOTA_WINDOW_SIZE_SECONDS,
        )
        self.config = {broker_settings.REQUEST_TIMEOUT_MS: 5_000, **{each: each.default for each in windows}}
        self.client_quotas = ClientQuotas(cast(Any, self.config), self.loop)
        self.authorization = OpenAuthorization()
        self.controller_peers = SimpleNamespace(ask=self._ask)
        self._dispatcher = Dispatcher(cast(Any, self), controller_table())
        self.channel = ControllerChannel(cast(Any, self), self.answer_as_controller)

    def answer_as_controller(self, context: RequestContext, request: Message) -> Message | Awaitable[Message]:
        return self._dispatcher.answer(context, request)

    def controller_address(self) -> PeerAddress | None:
        return self.leader

    async def _ask(self, purpose: str, to: PeerAddress, request: Message, *, timeout_ms: int) -> Message:
        self.asked.append(to)
        answer = self.answers[to].pop(0)(request)
        return answer if isinstance(answer, Message) else await answer


def test_the_active_controller_asks_itself_without_a_socket() -> None:
    async def scenario() -> None:
        node = Cluster(None, {})
        node.controller = FakeController(SimpleNamespace(first=500, size=10))
        answer = await node.channel.ask(IDS)
        assert isinstance(answer, AllocateProducerIdsResponse)
        assert (answer.producer_id_start, answer.producer_id_len) == (500, 10)

    asyncio.run(scenario())


def test_a_request_follows_the_leader() -> None:
    async def scenario() -> None:
        node = Cluster(ONE, {ONE: [], TWO: []})

        def moved(request: Message) -> Message:
            node.leader = TWO
            return ids(0, ErrorCode.NOT_CONTROLLER)

        node.answers = {ONE: [moved], TWO: [lambda request: ids(700)]}
        answer = await node.channel.ask(IDS)
        assert (answer.producer_id_start, node.asked) == (700, [ONE, TWO])  # type: ignore[attr-defined]

    asyncio.run(scenario())


def test_a_node_that_loses_the_lead_while_it_decides_asks_its_successor() -> None:
    async def scenario() -> None:
        node = Cluster(TWO, {TWO: [lambda request: ids(700)]})
        node.controller = FakeController(NotController())
        answer = await node.channel.ask(IDS)
        assert (answer.producer_id_start, node.asked) == (700, [TWO])  # type: ignore[attr-defined]

    asyncio.run(scenario())


def test_a_silent_leader_that_was_replaced_is_not_waited_for() -> None:
    async def scenario() -> None:
        async def silence() -> Message:
            node.leader = TWO
            await asyncio.Event().wait()
            raise AssertionError

        node = Cluster(ONE, {ONE: [lambda request: silence()], TWO: [lambda request: ids(700)]})
        await node.channel.ask(IDS)
        assert node.asked == [ONE, TWO]

    asyncio.run(scenario())


def test_unreachable_leaders_are_tried_again() -> None:
    async def scenario() -> None:
        async def refused() -> Message:
            raise PeerUnreachable("connection refused")

        node = Cluster(ONE, {ONE: [lambda request: refused(), lambda request: ids(700)]})
        await node.channel.ask(IDS)
        assert node.asked == [ONE, ONE]

    asyncio.run(scenario())


@pytest.mark.parametrize("leader", [None, ONE])
def test_without_an_answer_the_time_ends(leader: PeerAddress | None) -> None:
    async def scenario() -> None:
        async def silence() -> Message:
            await asyncio.Event().wait()
            raise AssertionError

        async def give_up() -> Message:
            await asyncio.sleep(0.05)
            raise PeerUnreachable("no answer within 50 ms")

        node = Cluster(leader, {ONE: [lambda request: give_up()] * 100})
        with pytest.raises(RequestTimedOut):
            await node.channel.ask(IDS, timeout_ms=50)

    asyncio.run(scenario())


def test_clients_requests_travel_in_envelopes() -> None:
    async def scenario() -> None:
        def take(request: Message) -> Message:
            assert isinstance(request, EnvelopeRequest)
            inside = unwrap_request(EnvelopeRequest.decode(request.encode(0), 0))
            assert (inside.principal, inside.client_host) == ("User:alice", "10.0.0.9")
            assert (inside.header.client_id, inside.header.correlation_id) == ("an admin", 42)
            assert isinstance(inside.request, CreatePartitionsRequest)
            assert inside.request.topics[0].count == 9
            return wrap_response(inside.header, partitions())

        moved = EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
        node = Cluster(ONE, {ONE: [lambda request: moved, take]})
        answer = await node.channel.forward(FROM_A_CLIENT, MORE)
        assert isinstance(answer, CreatePartitionsResponse)
        assert answer.results[0].name == "t"

    asyncio.run(scenario())


def test_an_envelope_that_is_refused_is_an_error_of_the_server() -> None:
    async def scenario() -> None:
        refused = EnvelopeResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        node = Cluster(ONE, {ONE: [lambda request: refused]})
        with pytest.raises(UnknownServerError):
            await node.channel.forward(FROM_A_CLIENT, MORE)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (partitions(), ErrorCode.NONE),
        (partitions(ErrorCode.NOT_CONTROLLER), ErrorCode.NOT_CONTROLLER),
        (NotController(), ErrorCode.NOT_CONTROLLER),
    ],
)
def test_a_controller_opens_envelopes(outcome: object, error: ErrorCode) -> None:
    async def scenario() -> None:
        sent: list[Message] = []

        def keep(request: Message) -> Message:
            sent.append(request)
            return wrap_response(unwrap_request(cast(EnvelopeRequest, request)).header, partitions())

        node = Cluster(ONE, {ONE: [keep]})
        await node.channel.forward(FROM_A_CLIENT, MORE)
        node.controller = FakeController(outcome)
        context = RequestContext(ApiKey.ENVELOPE, 0, 1, "broker", Session("10.0.0.1", "CONTROLLER"))
        answer = await envelope(cast(Any, node), context, cast(EnvelopeRequest, sent[0]))
        assert answer.error_code == error
        assert (answer.response_data is not None) == (error is ErrorCode.NONE)

    asyncio.run(scenario())
