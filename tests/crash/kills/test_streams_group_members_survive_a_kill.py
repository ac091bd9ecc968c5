"""kill -9 in the life of a streams group: the members' last answers hold, and no task has two owners."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer
from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from ottla.protocol.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from support.clients.wire import ConnectionClosed, WireClient, wait_for
from support.servers.ottla_broker import OttlaBroker

GROUP, TOPIC, PARTITIONS = "app", "in", 6
SETTINGS = {
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
}
KILL_AFTER_S = (0.05, 0.2, 0.4)
TOPOLOGY = Topology(
    epoch=0,
    subtopologies=[
        Subtopology(
            subtopology_id="0",
            source_topics=[TOPIC],
            state_changelog_topics=[TopicInfo(name="app-changelog")],
        )
    ],
)


@dataclass
class Member:
    """A member as of its last answer."""

    epoch: int = 0
    active: set[int] = field(default_factory=set)


def beat(client: WireClient, name: str, member: Member) -> None:
    """One heartbeat; a fenced member begins anew."""
    joins = member.epoch == 0
    tasks = [TaskIds(subtopology_id="0", partitions=sorted(member.active))] if member.active else []
    answer = client.call(
        StreamsGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=name,
            member_epoch=member.epoch,
            process_id=name,
            rebalance_timeout_ms=60_000,
            topology=TOPOLOGY if joins else None,
            active_tasks=tasks,
            standby_tasks=[],
            warmup_tasks=[],
        )
    )
    if answer.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
        member.epoch, member.active = 0, set()
    elif answer.error_code == ErrorCode.NONE:
        member.epoch = answer.member_epoch
        if answer.active_tasks is not None:
            member.active = {index for each in answer.active_tasks for index in each.partitions}


def leave(client: WireClient, name: str) -> None:
    client.call(StreamsGroupHeartbeatRequest(group_id=GROUP, member_id=name, member_epoch=-1))


def described(client: WireClient) -> Any:
    return client.call(StreamsGroupDescribeRequest(group_ids=[GROUP])).groups[0]


def wait_for_coordinator(client: WireClient, *errors: ErrorCode) -> None:
    def ready() -> bool:
        client.call(FindCoordinatorRequest(coordinator_keys=[GROUP]))
        return described(client).error_code in errors

    wait_for(ready)


def check(client: WireClient, told: dict[str, Member]) -> None:
    """The group has every member that was answered, in that epoch or the next, and each task once."""
    group = described(client)
    known = {member.member_id: member for member in group.members}
    owned: dict[int, str] = {}
    for member in group.members:
        for tasks in member.assignment.active_tasks:
            for index in tasks.partitions:
                assert owned.setdefault(index, member.member_id) == member.member_id
    for name, member in told.items():
        if member.epoch:
            assert name in known, f"{name} was told epoch {member.epoch}"
            assert known[name].member_epoch >= member.epoch


def test_tasks_have_one_owner_and_members_their_epochs_after_kills(tmp_path: Path) -> None:
    told: dict[str, Member] = {}
    with OttlaBroker.start(tmp_path / "data", settings=SETTINGS) as broker:
        with WireClient.connect(broker.bootstrap) as client:
            client.create_topic(TOPIC, partitions=PARTITIONS)
            wait_for_coordinator(client, ErrorCode.GROUP_ID_NOT_FOUND)
        for round_, kill_after_s in enumerate(KILL_AFTER_S):
            # given: members who join, send heartbeats and leave without end
            dice = random.Random(round_)
            with WireClient.connect(broker.bootstrap) as client:
                killer = Timer(kill_after_s, broker.kill)
                killer.start()
                with suppress(ConnectionClosed, ConnectionResetError, BrokenPipeError):
                    while True:
                        name = f"m{dice.randint(1, 4)}"
                        if dice.random() < 0.1 and name in told:
                            del told[name]  # Before it is said: whether it was heard is not known.
                            leave(client, name)
                        else:
                            beat(client, name, told.setdefault(name, Member()))
                killer.join()
            # when
            broker.restart()
            # then
            with WireClient.connect(broker.bootstrap) as client:
                wait_for_coordinator(client, ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)
                check(client, told)
        # and in the end every task runs
        with WireClient.connect(broker.bootstrap) as client:
            for name in [member.member_id for member in described(client).members]:
                told.setdefault(name, Member())

            def all_run() -> bool:
                for name, member in told.items():
                    beat(client, name, member)
                running = sorted(index for member in told.values() for index in member.active)
                return running == list(range(PARTITIONS)) and described(client).group_state == "Stable"

            wait_for(all_run)
