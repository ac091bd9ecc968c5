"""Questions to transaction coordinators elsewhere: what rides together, and what each is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ottla.broker.coordinators.remote_transactions import RemoteTransactions
from ottla.broker.peers.peers import PeerUnreachable
from ottla.broker.supervisor import Supervisor
from ottla.core.transactions.responses import partitions_result
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from ottla.protocol.schema import Message

COORDINATOR = 2
T0, T1 = ("t", 0), ("t", 1)


def transaction(transactional_id: str, *partitions: int) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=1,
        topics=[AddPartitionsToTxnTopic(name="t", partitions=list(partitions))],
    )


class Questions:
    """The questions of a broker about transactions that another one coordinates, and its answers."""

    def __init__(self) -> None:
        self.failures: list[BaseException] = []
        self.supervisor = Supervisor(lambda name, failure: self.failures.append(failure))
        self.asked: list[AddPartitionsToTxnRequest] = []
        self.was_asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.failure: Exception | None = None
        self.refusal = ErrorCode.NONE
        self.remote = RemoteTransactions(self, self.supervisor)

    async def ask(
        self, purpose: str, node_id: int, request: Message, *, timeout_ms: int | None = None
    ) -> Message:
        assert node_id == COORDINATOR
        assert isinstance(request, AddPartitionsToTxnRequest)
        self.asked.append(request)
        self.was_asked.set()
        await self.may_answer.wait()
        if self.failure is not None:
            raise self.failure
        if self.refusal is not ErrorCode.NONE:
            return AddPartitionsToTxnResponse(error_code=self.refusal)
        results = [
            partitions_result(each, {T1: ErrorCode.INVALID_TXN_STATE}, ErrorCode.NONE)
            for each in request.transactions
        ]
        return AddPartitionsToTxnResponse(results_by_transaction=results)

    @property
    def ids_asked(self) -> list[list[str]]:
        return [[each.transactional_id for each in request.transactions] for request in self.asked]


def play(scene: Callable[[Questions], Awaitable[None]]) -> None:
    async def run() -> None:
        questions = Questions()
        await scene(questions)
        await questions.supervisor.stop()
        assert questions.failures == []

    asyncio.run(run())


def test_every_partition_is_answered() -> None:
    async def scene(questions: Questions) -> None:
        answer = await questions.remote.add_partitions(COORDINATOR, transaction("x", 0, 1))
        assert answer == {T0: ErrorCode.NONE, T1: ErrorCode.INVALID_TXN_STATE}
        assert questions.ids_asked == [["x"]]

    play(scene)


def test_what_is_asked_meanwhile_rides_together_each_id_once() -> None:
    async def scene(questions: Questions) -> None:
        questions.may_answer.clear()
        first = asyncio.ensure_future(questions.remote.add_partitions(COORDINATOR, transaction("x", 0)))
        await questions.was_asked.wait()
        rest = asyncio.gather(
            *(questions.remote.add_partitions(COORDINATOR, transaction(name, 1)) for name in ("y", "x", "y"))
        )
        await asyncio.sleep(0)
        questions.may_answer.set()

        assert await first == {T0: ErrorCode.NONE}
        assert await rest == [{T1: ErrorCode.INVALID_TXN_STATE}] * 3
        assert questions.ids_asked == [["x"], ["y", "x"], ["y"]]

    play(scene)


def test_a_coordinator_that_is_not_reached_is_told_as_a_network_error() -> None:
    async def scene(questions: Questions) -> None:
        questions.failure = PeerUnreachable("gone")
        answer = await questions.remote.add_partitions(COORDINATOR, transaction("x", 0))
        assert answer == {T0: ErrorCode.NETWORK_EXCEPTION}
        assert len(questions.asked) == 1

    play(scene)


def test_a_request_that_is_refused_as_a_whole_refuses_each_partition() -> None:
    async def scene(questions: Questions) -> None:
        questions.refusal = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        answer = await questions.remote.add_partitions(COORDINATOR, transaction("x", 0, 1))
        assert set(answer.values()) == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}

    play(scene)
