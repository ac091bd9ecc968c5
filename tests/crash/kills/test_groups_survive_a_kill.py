"""kill -9 in the middle of a group's life: no acknowledged change is forgotten."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from threading import Timer

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat_request import HeartbeatRequest
from ottla.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from support.clients.wire import ConnectionClosed, WireClient, wait_for
from support.servers.ottla_broker import OttlaBroker

GROUP = "g"
TOPIC = "t"
KILL_AFTER_S = 0.3


class Member:
    """One consumer, by hand."""

    def __init__(self, client: WireClient) -> None:
        self.client = client
        self.member_id = ""
        self.generation = -1

    def find_coordinator(self) -> None:
        def found() -> bool:
            request = FindCoordinatorRequest(coordinator_keys=[GROUP])
            return self.client.call(request).coordinators[0].error_code == ErrorCode.NONE

        wait_for(found)
        wait_for(lambda: self.committed() is not None)

    def join(self) -> None:
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            group_instance_id="i",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        joined = self.client.call(request)
        assert joined.error_code == ErrorCode.NONE
        self.member_id, self.generation = joined.member_id, joined.generation_id
        synced = self.client.call(
            SyncGroupRequest(
                group_id=GROUP,
                generation_id=self.generation,
                member_id=self.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[SyncGroupRequestAssignment(member_id=self.member_id, assignment=b"mine")],
            )
        )
        assert synced.assignment == b"mine"

    def commit(self, offset: int) -> None:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        answer = self.client.call(
            OffsetCommitRequest(
                group_id=GROUP,
                generation_id_or_member_epoch=self.generation,
                member_id=self.member_id,
                topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
            ),
            9,
        )
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE

    def committed(self) -> int | None:
        """The group's offset, -1 for none; None while the coordinator can't say."""
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
        group = self.client.call(request, 9).groups[0]
        if group.error_code:
            return None
        return group.topics[0].partitions[0].committed_offset if group.topics else -1

    def heartbeat(self) -> ErrorCode:
        request = HeartbeatRequest(group_id=GROUP, generation_id=self.generation, member_id=self.member_id)
        return ErrorCode(self.client.call(request).error_code)


def test_acknowledged_commits_and_the_membership_are_there_after_a_kill(tmp_path: Path) -> None:
    with OttlaBroker.start(tmp_path / "data") as broker:
        # given: a member of a stable group that commits without end
        acknowledged = -1
        with WireClient.connect(broker.bootstrap) as client:
            client.create_topic(TOPIC)
            member = Member(client)
            member.find_coordinator()
            member.join()
            # when: the broker is killed while commits are under way
            killer = Timer(KILL_AFTER_S, broker.kill)
            killer.start()
            with suppress(ConnectionClosed, BrokenPipeError):
                while True:
                    member.commit(acknowledged + 1)
                    acknowledged += 1
            killer.join()
        assert acknowledged > 0
        broker.restart()
        # then: the last answer counts (the commit after it may or may not), and the member goes on
        with WireClient.connect(broker.bootstrap) as client:
            member.client = client
            member.find_coordinator()
            assert member.committed() in (acknowledged, acknowledged + 1)
            assert member.heartbeat() is ErrorCode.NONE
            member.commit(acknowledged + 2)
            assert member.committed() == acknowledged + 2
