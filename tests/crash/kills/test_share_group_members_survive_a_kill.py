"""kill -9 in the life of a share group: members, epochs and positions that were told are still there."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.delete_groups_request import DeleteGroupsRequest
from ottla.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from ottla.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from support.clients.wire import ConnectionClosed, WireClient, wait_for
from support.servers.ottla_broker import OttlaBroker

GROUP, TOPIC, PARTITIONS = "jobs", "tasks", 3
SETTINGS = {
    "group.share.assignment.interval.ms": "0",
    "group.share.initialize.retry.interval.ms": "1",
    "group.share.max.size": "1000",
}
KILL_AFTER_S = (0.05, 0.2, 0.5)


def heartbeat(client: WireClient, member: str, epoch: int, topics: list[str] | None = None) -> Any:
    return client.call(
        ShareGroupHeartbeatRequest(
            group_id=GROUP, member_id=member, member_epoch=epoch, subscribed_topic_names=topics
        )
    )


def described(client: WireClient) -> Any:
    return client.call(ShareGroupDescribeRequest(group_ids=[GROUP])).groups[0]


def wait_for_coordinator(client: WireClient, *errors: ErrorCode) -> None:
    def ready() -> bool:
        client.call(FindCoordinatorRequest(coordinator_keys=[GROUP]))
        return described(client).error_code in errors

    wait_for(ready)


def positions(client: WireClient) -> dict[int, int]:
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=None)
    group = client.call(DescribeShareGroupOffsetsRequest(groups=[asked])).groups[0]
    return {each.partition_index: each.start_offset for topic in group.topics for each in topic.partitions}


def read_by(answer: Any) -> set[int]:
    return {index for topic in answer.assignment.topic_partitions for index in topic.partitions}


def test_acknowledged_members_are_members_after_kills(tmp_path: Path) -> None:
    with OttlaBroker.start(tmp_path / "data", settings=SETTINGS) as broker:
        with WireClient.connect(broker.bootstrap) as client:
            client.create_topic(TOPIC, partitions=PARTITIONS)
            wait_for_coordinator(client, ErrorCode.GROUP_ID_NOT_FOUND)
        told: dict[str, int] = {}
        for round_, kill_after_s in enumerate(KILL_AFTER_S):
            # given: members who join, heartbeat and leave without end
            dice = random.Random(round_)
            with WireClient.connect(broker.bootstrap) as client:
                killer = Timer(kill_after_s, broker.kill)
                killer.start()
                with suppress(ConnectionClosed, BrokenPipeError):
                    while True:
                        member = f"m{round_}-{dice.randrange(8)}"
                        if member not in told:
                            told[member] = heartbeat(client, member, 0, [TOPIC]).member_epoch
                        elif dice.random() < 0.2:
                            epoch = told.pop(member)  # it may be gone before the answer
                            assert heartbeat(client, member, -1).error_code == ErrorCode.NONE, epoch
                        else:
                            told[member] = heartbeat(client, member, told[member]).member_epoch
                killer.join()
            # when
            broker.restart()
            # then: every member that was given an epoch goes on with it
            with WireClient.connect(broker.bootstrap) as client:
                wait_for_coordinator(client, ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)
                for member, epoch in told.items():
                    answer = heartbeat(client, member, epoch)
                    assert answer.error_code == ErrorCode.NONE, (member, epoch, answer)
                    told[member] = answer.member_epoch
        # and every partition is read by a member in the end
        with WireClient.connect(broker.bootstrap) as client:
            for member in described(client).members:
                told.setdefault(member.member_id, member.member_epoch)

            def all_is_read() -> bool:
                read: set[int] = set()
                for member, epoch in list(told.items()):
                    answer = heartbeat(client, member, epoch, [TOPIC])
                    told[member] = answer.member_epoch
                    read |= read_by(answer)
                return read == set(range(PARTITIONS))

            wait_for(all_is_read)


def test_altered_offsets_and_deleted_groups_are_so_after_a_kill(tmp_path: Path) -> None:
    with OttlaBroker.start(tmp_path / "data", settings=SETTINGS) as broker:
        with WireClient.connect(broker.bootstrap) as client:
            client.create_topic(TOPIC, partitions=PARTITIONS)
            wait_for_coordinator(client, ErrorCode.GROUP_ID_NOT_FOUND)
        for round_, kill_after_s in enumerate(KILL_AFTER_S):
            # given: an administrator who alters offsets, and now and then deletes the group
            dice = random.Random(round_)
            acknowledged: dict[int, int] | None = None
            """None when the group was deleted."""
            asked = {0: 0}
            with WireClient.connect(broker.bootstrap) as client:
                killer = Timer(kill_after_s, broker.kill)
                killer.start()
                with suppress(ConnectionClosed, BrokenPipeError):
                    while True:
                        if dice.random() < 0.1:
                            asked = {}
                            client.call(DeleteGroupsRequest(groups_names=[GROUP]))
                            acknowledged = None
                        asked = {index: dice.randrange(100) for index in range(PARTITIONS)}
                        answer = client.call(alter(asked))
                        assert not any(each.error_code for each in answer.responses[0].partitions)
                        acknowledged = asked
                killer.join()
            # when
            broker.restart()
            # then
            with WireClient.connect(broker.bootstrap) as client:
                wait_for_coordinator(client, ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)
                now = positions(client)
                for index, offset in now.items():
                    assert offset in (asked.get(index), (acknowledged or {}).get(index))
                if acknowledged is not None and asked:
                    assert now.keys() == acknowledged.keys()
                # and the group can still be deleted, with nothing left of it
                client.call(DeleteGroupsRequest(groups_names=[GROUP]))
                assert described(client).error_code == ErrorCode.GROUP_ID_NOT_FOUND
                assert client.call(alter({0: 5})).responses[0].partitions[0].error_code == ErrorCode.NONE
                assert positions(client) == {0: 5}
                client.call(DeleteGroupsRequest(groups_names=[GROUP]))


def alter(offsets: dict[int, int]) -> AlterShareGroupOffsetsRequest:
    partitions = [
        AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
        for index, offset in offsets.items()
    ]
    topic = AlterShareGroupOffsetsRequestTopic(topic_name=TOPIC, partitions=partitions)
    return AlterShareGroupOffsetsRequest(group_id=GROUP, topics=[topic])
