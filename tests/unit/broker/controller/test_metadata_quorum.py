"""Several nodes of the metadata quorum over sockets: nothing acknowledged is lost, everybody has the same."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.controller.metadata_snapshots import IncomingSnapshot
from ottla.broker.peers.peers import PeerUnreachable
from ottla.core.decisions.decision import Decision
from ottla.core.image.image import MetadataDelta
from ottla.core.quorum.api import ReplicaKey
from ottla.protocol.errors import ErrorCode, NotController
from ottla.protocol.messages.add_raft_voter_request import AddRaftVoterRequest, Listener
from ottla.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from ottla.protocol.records.begin_transaction_record import BeginTransactionRecord
from ottla.protocol.records.config_record import ConfigRecord
from ottla.protocol.records.no_op_record import NoOpRecord
from ottla.storage.flush import FlushTask
from support.nodes.quorums import (
    PATIENT,
    configs,
    make_topic,
    remove_topic,
    running_quorum,
    set_config,
    wait_until,
)


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 120))


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_a_change_is_on_every_node(tmp_path: Path, dynamic: bool) -> None:
    async def test() -> None:
        async with running_quorum(tmp_path, observers=[9], dynamic=dynamic) as cluster:
            leader = await cluster.leader()
            offset = await set_config(leader.controller, "a", "1")
            await cluster.caught_up(offset)
            for node in cluster.running:
                assert configs(node) == {"a": "1"}
                assert node.quorum.leader_id == leader.node_id
                assert node.quorum.epoch == leader.quorum.epoch
                address = node.quorum.leader_address()
                assert address is not None
                assert address.port == leader.config.controller_listener.port
                if node is not leader:
                    with pytest.raises(NotController):
                        await set_config(node.controller, "b", "2")
            for node in cluster.nodes.values():
                await node.stop()

    run(test)


def test_another_leads_when_the_leader_is_killed(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_quorum(tmp_path) as cluster:
            expected = {}
            for turn in range(2):
                leader = await cluster.leader()
                for number in range(10):
                    name = f"{turn}-{number}"
                    await set_config(leader.controller, name, "x")
                    expected[name] = "x"
                await leader.kill()
                successor = await cluster.leader()
                assert successor is not leader
                assert configs(successor) == expected
                await leader.start()
            last = await set_config((await cluster.leader()).controller, "last", "x")
            await cluster.caught_up(last)
            for node in cluster.running:
                assert configs(node) == {**expected, "last": "x"}

    run(test)


def test_a_leader_that_stops_hands_over_without_a_timeout(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_quorum(tmp_path, settings=PATIENT) as cluster:
            leader = await cluster.leader()
            await set_config(leader.controller, "a", "1")
            await leader.stop()
            successor = await cluster.leader()
            assert configs(successor) == {"a": "1"}

    run(test)


SNAPSHOT_OFTEN = {
    "metadata.log.max.record.bytes.between.snapshots": "4000",
    "metadata.max.retention.bytes": "1",
}


def test_a_node_that_was_away_is_given_a_snapshot(tmp_path: Path) -> None:
    async def test() -> None:
        settings = {**SNAPSHOT_OFTEN, **PATIENT}
        async with running_quorum(tmp_path, observers=[9], dynamic=True, settings=settings) as cluster:
            leader = await cluster.leader()
            behind = [node for node in cluster.running if node is not leader][-2:]
            await cluster.caught_up(await set_config(leader.controller, "before", "1"))
            for node in behind:
                await node.kill()
            for number in range(200):
                await set_config(leader.controller, f"n{number}", "x" * 100)
            await set_config(leader.controller, "before", "2")
            first = leader.quorum.log.start_offset
            assert first > behind[0].quorum.log.end_offset
            deltas: list[MetadataDelta] = []
            for node in behind:
                await node.start()
                node.controller.add_listener(deltas.append)
            last = await set_config(leader.controller, "after", "3")
            await cluster.caught_up(last)
            for node in cluster.running:
                assert configs(node) == configs(leader)
                assert node.controller.image.topics == leader.controller.image.topics
                assert node.controller.image.features == leader.controller.image.features
                assert set(node.quorum.voters.voters) == set(leader.quorum.voters.voters)
            assert all(node.quorum.log.start_offset >= first for node in behind)
            for node in behind:
                await node.kill()
                await node.start()
            await cluster.caught_up(last)
            assert configs(behind[0]) == configs(behind[1]) == configs(leader)

    run(test)


def test_listeners_hear_what_a_snapshot_has_changed(tmp_path: Path) -> None:
    """A node that runs all the time, but could not fetch for long."""

    async def test() -> None:
        async with running_quorum(tmp_path, observers=[9], settings={**SNAPSHOT_OFTEN, **PATIENT}) as cluster:
            leader = await cluster.leader()
            await make_topic(leader, "deleted")
            kept = await make_topic(leader, "kept")
            await cluster.caught_up(leader.controller.high_watermark - 1)
            observer = cluster[9]
            image, deltas = observer.controller.image, []
            observer.controller.add_listener(deltas.append)
            observer.peers.ask = _nobody_answers  # type: ignore[method-assign]
            await remove_topic(leader, "deleted")
            made = await make_topic(leader, "made")
            for number in range(100):
                await set_config(leader.controller, f"n{number}", "x" * 100)
            assert leader.quorum.log.start_offset > observer.quorum.log.end_offset
            del observer.peers.ask  # type: ignore[method-assign]
            await cluster.caught_up(leader.controller.high_watermark - 1)
            assert observer.controller.image is image
            assert sorted(image.topics) == ["kept", "made"]
            created = [each for delta in deltas for each in delta.created_topics]
            deleted = [name for delta in deltas for _, name in delta.deleted_topics]
            changed = {key for delta in deltas for key in delta.changed_partitions}
            assert created == [(made, "made")]
            assert deleted == ["deleted"]
            assert changed == {(made, 0)}
            assert (kept, 0) not in changed

    run(test)


@pytest.mark.parametrize("operation", ["__init__", "append"])
def test_a_snapshot_that_the_disk_refuses_is_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    async def test() -> None:
        # Pieces so small that several come.
        settings = {**SNAPSHOT_OFTEN, **PATIENT, "controller.quorum.fetch.snapshot.max.bytes": "1000"}
        async with running_quorum(tmp_path, observers=[9], settings=settings) as cluster:
            leader = await cluster.leader()
            await cluster[9].kill()
            for number in range(100):
                await set_config(leader.controller, f"n{number}", "x" * 100)
            left = [None, OSError(28, "No space left on device"), OSError(28, "No space left on device")]
            real = getattr(IncomingSnapshot, operation)

            def refusing(*arguments: Any) -> None:
                problem = left.pop() if left else None
                if problem is not None:
                    raise problem
                real(*arguments)

            monkeypatch.setattr(IncomingSnapshot, operation, refusing)
            await cluster[9].start()
            await cluster.caught_up(leader.controller.high_watermark - 1)
            assert configs(cluster[9]) == configs(leader)
            assert not left

    run(test)


async def _nobody_answers(*_: Any, **__: Any) -> Any:
    await asyncio.sleep(0.01)
    raise PeerUnreachable("cut off")


def test_a_change_without_a_majority_is_not_answered_as_made(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_quorum(tmp_path) as cluster:
            leader = await cluster.leader()
            await set_config(leader.controller, "a", "1")
            others = [node for node in cluster.running if node is not leader]
            for node in others:
                await node.kill()
            with pytest.raises(NotController):
                await set_config(leader.controller, "b", "2")
            assert configs(leader) == {"a": "1"}
            assert not leader.controller.active
            for node in others:
                await node.start()
            successor = await cluster.leader()
            last = await set_config(successor.controller, "c", "3")
            await cluster.caught_up(last)
            assert configs(cluster[1]) == configs(cluster[2]) == configs(cluster[3])
            assert configs(successor)["a"] == "1"

    run(test)


def test_the_transaction_of_a_dead_controller_is_aborted(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_quorum(tmp_path) as cluster:
            leader = await cluster.leader()
            half = [
                BeginTransactionRecord(name="half"),
                ConfigRecord(resource_type=2, resource_name="orders", name="half", value="1"),
            ]
            await leader.controller.submit(lambda image: Decision(half, None))
            assert leader.controller.image.in_transaction
            await leader.kill()
            successor = await cluster.leader()
            await wait_until(lambda: not successor.controller.image.in_transaction)
            await set_config(successor.controller, "whole", "2")
            assert configs(successor) == {"whole": "2"}

    run(test)


def test_an_idle_leader_writes_no_ops(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_quorum(tmp_path, settings={"metadata.max.idle.interval.ms": "20"}) as cluster:
            leader = await cluster.leader()
            end = await set_config(leader.controller, "a", "1")
            follower = next(node for node in cluster.running if node is not leader)
            await wait_until(lambda: follower.controller.high_watermark > end + 5)
            written = leader.quorum.log.batches(end + 1, leader.controller.high_watermark)
            assert {type(record) for _, records in written for record in records} == {NoOpRecord}

    run(test)


def test_changes_that_come_together_share_syncs_and_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with running_quorum(tmp_path) as cluster:
            leader = await cluster.leader()
            await cluster.caught_up(await set_config(leader.controller, "first", "1"))
            synced: list[int] = []
            sync = FlushTask.run

            def counted(task: FlushTask) -> None:
                synced.append(task.end_offset)
                sync(task)

            monkeypatch.setattr(FlushTask, "run", counted)
            await asyncio.gather(*(set_config(leader.controller, f"n{each}", "1") for each in range(100)))
            assert len(synced) <= 3 * 4
            assert len(configs(leader)) == 101

    run(test)


def test_a_vote_that_the_disk_refuses_ends_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with running_quorum(tmp_path) as cluster:
            leader = await cluster.leader()
            victim, other = (node for node in cluster.running if node is not leader)
            refuse = OSError(28, "No space left on device")

            def refused(*_: Any, **__: Any) -> None:
                raise refuse

            monkeypatch.setattr(victim.quorum.log, "save_election", refused)
            await leader.kill()
            await wait_until(lambda: victim.failures == [refuse])
            assert victim.quorum.failure is refuse
            with pytest.raises(NotController):
                await victim.controller.wait_for(1 << 40)
            victim.failures.clear()
            await leader.start()
            await set_config((await cluster.leader()).controller, "a", "1")
            assert other.failures == []

    run(test)


def test_voters_are_added_and_removed(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_quorum(tmp_path, [1, 2, 3], first_voters=[1], dynamic=True) as cluster:
            leader = await cluster.leader()
            assert leader.node_id == 1
            for node_id in (2, 3):
                joined = cluster[node_id]
                await cluster.caught_up(leader.controller.high_watermark - 1)
                endpoint = joined.config.controller_listener
                request = AddRaftVoterRequest(
                    cluster_id=None,
                    timeout_ms=10_000,
                    voter_id=node_id,
                    voter_directory_id=joined.directory.directory_id,
                    listeners=[Listener(name=endpoint.name, host=endpoint.host, port=endpoint.port)],
                )
                answer = await leader.quorum.handle(1, request)
                while answer.error_code == ErrorCode.REQUEST_TIMED_OUT:  # as long as it has not caught up
                    answer = await leader.quorum.handle(1, request)
                assert (answer.error_code, answer.error_message) == (0, None)
            await cluster.caught_up(leader.controller.high_watermark - 1)
            assert all(node.quorum.voters.node_ids == (1, 2, 3) for node in cluster.running)
            await set_config(leader.controller, "a", "1")
            remove = RemoveRaftVoterRequest(
                cluster_id=None, voter_id=1, voter_directory_id=leader.directory.directory_id
            )
            answer = await leader.quorum.handle(0, remove)
            assert answer.error_code == 0
            await wait_until(lambda: cluster.active() not in (None, leader))
            successor = await cluster.leader()
            assert successor.quorum.voters.node_ids == (2, 3)
            assert configs(successor) == {"a": "1"}
            await leader.stop()
            for node in (cluster[2], cluster[3]):
                await node.kill()
            for node in (cluster[2], cluster[3]):
                await node.start()
            successor = await cluster.leader()
            assert successor.quorum.voters.node_ids == (2, 3)
            assert configs(successor) == {"a": "1"}

    run(test)


def test_voters_of_the_configuration_move_into_the_log(tmp_path: Path) -> None:
    """kraft.version 1 (KIP-853), once and for all."""

    async def test() -> None:
        async with running_quorum(tmp_path) as cluster:
            leader = await cluster.leader()
            await cluster.caught_up(await set_config(leader.controller, "a", "1"))
            error, problem = leader.quorum.upgrade_kraft_version(1, validate_only=False)
            while error is ErrorCode.INVALID_UPDATE_VERSION:  # until all voters have told of themselves
                await asyncio.sleep(0.01)
                error, problem = leader.quorum.upgrade_kraft_version(1, validate_only=False)
            assert (error, problem) == (ErrorCode.NONE, None)
            await cluster.caught_up(await set_config(leader.controller, "b", "2"))
            for node in cluster.nodes.values():
                assert node.quorum.kraft_version == 1
                await node.kill()
            for node in cluster.nodes.values():
                await node.start()
            leader = await cluster.leader()
            await cluster.caught_up(await set_config(leader.controller, "c", "3"))
            for node in cluster.running:
                assert node.quorum.kraft_version == 1
                keys = {voter.key for voter in node.quorum.voters.voters}
                assert keys == {
                    ReplicaKey(each.node_id, each.directory.directory_id) for each in cluster.nodes.values()
                }

    run(test)


@pytest.mark.parametrize("seed", range(2))
def test_what_was_acknowledged_survives_any_row_of_kills(tmp_path: Path, seed: int) -> None:
    asyncio.run(asyncio.wait_for(_kills_under_load(tmp_path, seed, rounds=5), 120))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 104))
def test_what_was_acknowledged_survives_many_kills(tmp_path: Path, seed: int) -> None:
    asyncio.run(asyncio.wait_for(_kills_under_load(tmp_path, seed, rounds=20), 300))


async def _kills_under_load(tmp_path: Path, seed: int, rounds: int) -> None:
    """Writers write through whoever leads, while nodes are killed and started, at times all of them."""
    dice = random.Random(seed)
    settings = SNAPSHOT_OFTEN if dice.randrange(2) else {}
    async with running_quorum(
        tmp_path, observers=[9], dynamic=bool(dice.randrange(2)), settings=settings
    ) as cluster:
        acknowledged: dict[str, str] = {}
        stopped = False

        async def write(writer: int) -> None:
            number = 0
            while not stopped:
                leader = cluster.active()
                if leader is None:
                    await asyncio.sleep(0.01)
                    continue
                name, number = f"{writer}-{number}", number + 1
                try:
                    await set_config(leader.controller, name, "x" * 50)
                    acknowledged[name] = "x" * 50
                except (NotController, asyncio.CancelledError):
                    pass
                await asyncio.sleep(0)

        writers = [asyncio.ensure_future(write(number)) for number in range(3)]
        for _ in range(rounds):
            before = len(acknowledged)
            await wait_until(lambda before=before: len(acknowledged) > before + dice.randrange(1, 100))
            victims = dice.sample(sorted(cluster.nodes), dice.choice([1, 1, 2, 4]))
            for victim in victims:
                await cluster[victim].kill()
            for victim in victims:
                await cluster[victim].start()
        before = len(acknowledged)
        await wait_until(lambda: len(acknowledged) > before + 20)
        stopped = True
        await wait_until(lambda: all(writer.done() for writer in writers))
        leader = await cluster.leader()
        await cluster.caught_up(await set_config(leader.controller, "last", "1"))
        for node in cluster.running:
            held = configs(node)
            assert {name: held.get(name) for name in acknowledged} == acknowledged
            assert held == configs(leader)
            start = max(node.quorum.log.start_offset, leader.quorum.log.start_offset)
            assert node.quorum.log.read(start, 1 << 30) == leader.quorum.log.read(start, 1 << 30)
