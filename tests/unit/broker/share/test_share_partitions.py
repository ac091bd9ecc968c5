"""Share partitions on a broker in this process: writes that fail, connections that close, what is pruned."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ottla.core.decisions.topic_names import SHARE_TOPIC
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import (
    write_share_group_state_response,
)
from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.write_share_group_state_request import WriteShareGroupStateRequest
from ottla.protocol.messages.write_share_group_state_response import WriteShareGroupStateResponse
from ottla.protocol.record_batch import NewRecord
from support.nodes.in_process import connect, create_topic, running_broker, until
from support.nodes.share_member import (
    SETTINGS,
    acknowledge,
    append,
    fetch,
    initialize,
    leaders,
    offsets,
    prepare,
    set_group_config,
)


def test_a_write_that_fails_is_told_and_the_member_may_try_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_broker(tmp_path, SETTINGS) as broker:
            # given
            await prepare(broker)
            client = await connect(broker)
            assert offsets(await fetch(client, broker, 0)) == [(0, 3)]
            write = broker.share_state.write

            async def refuse(request: WriteShareGroupStateRequest) -> WriteShareGroupStateResponse:
                topic = request.topics[0]
                result = write_share_group_state_response.PartitionResult(
                    partition=0, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE
                )
                return WriteShareGroupStateResponse(
                    results=[
                        write_share_group_state_response.WriteStateResult(
                            topic_id=topic.topic_id, partitions=[result]
                        )
                    ]
                )

            # when
            broker.share_state.write = refuse  # type: ignore[method-assign]
            # then
            assert await acknowledge(client, broker, 1, 0, 3) == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert leaders(broker)[0].machine.start_offset == 0
            # when
            broker.share_state.write = write  # type: ignore[method-assign]
            # then
            assert await acknowledge(client, broker, 2, 0, 3) == ErrorCode.NONE
            assert leaders(broker)[0].machine.start_offset == 4
            client.close()

    asyncio.run(story())


def test_a_state_that_was_reset_ends_the_leader(tmp_path: Path) -> None:
    """Given a group that is read, when its state is initialised anew, then the next write is refused and the
    next fetch begins with the new state."""

    async def story() -> None:
        async with running_broker(tmp_path, SETTINGS) as broker:
            await prepare(broker)
            client = await connect(broker)
            assert offsets(await fetch(client, broker, 0)) == [(0, 3)]
            await broker.share_state.initialize(initialize(broker, state_epoch=2))
            assert await acknowledge(client, broker, 1, 0, 3) == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert leaders(broker) == []
            assert offsets(await fetch(client, broker, 2)) == [(0, 3)]
            client.close()

    asyncio.run(story())


def test_a_connection_that_closes_releases_what_it_held(tmp_path: Path) -> None:
    """Given a member with records and one that waits, when the first hangs up, then the other gets them."""

    async def story() -> None:
        async with running_broker(tmp_path, SETTINGS) as broker:
            # given
            await prepare(broker)
            ann, bob = await connect(broker), await connect(broker)
            assert offsets(await fetch(ann, broker, 0)) == [(0, 3)]
            assert offsets(await fetch(bob, broker, 0, "bob", max_wait_ms=0)) == []
            waiting = asyncio.ensure_future(fetch(bob, broker, 1, "bob"))
            await until(lambda: bool(leaders(broker)[0]._waiters))
            # when
            ann.close()
            # then
            assert offsets(await waiting) == [(0, 3)]
            assert len(broker.share_partitions.sessions) == 1
            bob.close()

    asyncio.run(story())


def test_a_waiting_fetch_whose_client_has_gone_acquires_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_broker(tmp_path, SETTINGS) as broker:
            # given
            await prepare(broker, records=0)
            ann = await connect(broker)
            waiting = asyncio.ensure_future(fetch(ann, broker, 0, max_wait_ms=60_000))
            await until(lambda: bool(leaders(broker)) and bool(leaders(broker)[0]._waiters))
            # when
            ann.close()
            await asyncio.gather(waiting, return_exceptions=True)
            await until(lambda: not leaders(broker))
            await append(broker)
            # then
            bob = await connect(broker)
            assert offsets(await fetch(bob, broker, 0, "bob")) == [(0, 0)]
            bob.close()

    asyncio.run(story())


def test_without_members_nothing_is_kept(tmp_path: Path) -> None:
    """Given a leader with a state, when the last member is gone, then the next one loads it from its log."""

    async def story() -> None:
        async with running_broker(tmp_path, SETTINGS) as broker:
            await prepare(broker)
            ann = await connect(broker)
            await fetch(ann, broker, 0)
            assert await acknowledge(ann, broker, 1, 0, 1) == ErrorCode.NONE
            ann.close()
            await until(lambda: not leaders(broker))
            bob = await connect(broker)
            assert offsets(await fetch(bob, broker, 0, "bob")) == [(2, 3)]
            bob.close()

    asyncio.run(story())


def test_a_deleted_topic_is_an_error_and_its_states_go(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_broker(tmp_path, SETTINGS) as broker:
            # given
            await prepare(broker)
            client = await connect(broker)
            await fetch(client, broker, 0)
            # when
            await broker.controller_channel.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]))
            # then
            data = await fetch(client, broker, 1, max_wait_ms=0)
            assert data.error_code == ErrorCode.UNKNOWN_TOPIC_ID
            assert leaders(broker) == []
            shard = broker.share_coordinator.shards._runners[0]._shard
            await until(lambda: not shard.states)  # type: ignore[attr-defined]
            client.close()

    asyncio.run(story())


def test_the_state_log_is_pruned(tmp_path: Path) -> None:
    """Given many states in the log, when it is time, then only what is needed is kept for the next start."""

    async def story() -> None:
        settings = {
            **SETTINGS,
            "share.coordinator.snapshot.update.records.per.snapshot": "2",
            "share.coordinator.state.topic.prune.interval.ms": "20",
        }
        async with running_broker(tmp_path, settings) as broker:
            await prepare(broker, records=12)
            client = await connect(broker)
            await fetch(client, broker, 0)
            for number in range(12):
                assert await acknowledge(client, broker, number + 1, number, number) == ErrorCode.NONE
            log = broker.partitions.partition(SHARE_TOPIC, 0).log
            await until(lambda: log.log_start_offset >= log.log_end_offset - 3)
            client.close()
        async with running_broker(tmp_path, settings) as broker:
            client = await connect(broker)
            assert broker.partitions.partition(SHARE_TOPIC, 0).log.log_start_offset > 5
            await append(broker)
            assert offsets(await fetch(client, broker, 0)) == [(12, 12)]
            client.close()

    asyncio.run(story())


def test_no_more_sessions_than_allowed(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_broker(tmp_path, {**SETTINGS, "group.share.max.share.sessions": "1"}) as broker:
            await prepare(broker)
            ann, bob = await connect(broker), await connect(broker)
            await fetch(ann, broker, 0)
            refused = await fetch(bob, broker, 0, "bob", max_wait_ms=10)
            assert refused == ErrorCode.SHARE_SESSION_LIMIT_REACHED
            ann.close()
            await until(lambda: not len(broker.share_partitions.sessions))
            assert offsets(await fetch(bob, broker, 0, "bob")) == [(0, 3)]
            bob.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("earliest", (0, 3)),
        ("by_duration:PT1H", (3, 3)),
        ("latest", (4, 4)),
        ("by_duration:PT0S", (4, 4)),
    ],
)
def test_where_a_group_without_a_start_begins(
    tmp_path: Path, strategy: str, expected: tuple[int, int]
) -> None:
    """Given old records and one of now, when a group begins, then with the first that its setting says."""

    async def story() -> None:
        async with running_broker(tmp_path, SETTINGS) as broker:
            # given
            await create_topic(broker, "t")
            await set_group_config(broker, "share.auto.offset.reset", strategy)
            await broker.share_state.initialize(initialize(broker, start_offset=-1))
            now_ms = broker.now_ms()
            for age_ms in (10**8, 10**8, 10**8, 60_000):
                await broker.internal_appends.append_records("t", 0, [NewRecord(b"k", b"v", now_ms - age_ms)])
            # when
            client = await connect(broker)
            waiting = asyncio.ensure_future(fetch(client, broker, 0))
            await until(lambda: bool(leaders(broker)) and leaders(broker)[0].is_active)
            if expected[0] == 4:
                await append(broker)
            # then
            assert offsets(await waiting) == [expected]
            client.close()

    asyncio.run(story())
