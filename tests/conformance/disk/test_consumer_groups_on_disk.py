"""Records of consumer groups: Kafka's tool reads them; a live group goes on under Apache Kafka and back."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from ottla.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from support.clients.named_states import plain_name
from support.clients.wire import WireClient, wait_for
from support.java.java_tools import run_java
from support.servers.apache_kafka import ApacheKafka
from support.servers.ottla_broker import OttlaBroker

GROUP = plain_name()
TYPES = {3, 5, 6, 7, 8, 16}
"""Epoch, member, target's epoch, target, current assignment, regular expression."""
PARTITIONS = 4


class Members:
    """Members by hand, which outlive their brokers."""

    def __init__(self) -> None:
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, dict[Any, list[int]]] = {}
        self.client: WireClient | None = None

    def talk_to(self, client: WireClient) -> None:
        self.client = client

        def ready() -> bool:
            client.call(FindCoordinatorRequest(coordinator_keys=[GROUP]))
            return self.described().error_code in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)

        wait_for(ready)

    def described(self) -> Any:
        assert self.client is not None
        return self.client.call(ConsumerGroupDescribeRequest(group_ids=[GROUP])).groups[0]

    def beat(self, member: str, **fields: Any) -> None:
        assert self.client is not None
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member,
            member_epoch=self.epochs.get(member, 0),
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in self.owned.get(member, {}).items()
            ],
            **fields,
        )
        answer = self.client.call(request)
        assert answer.error_code == ErrorCode.NONE, (member, answer)
        self.epochs[member] = answer.member_epoch
        if answer.assignment is not None:
            self.owned[member] = {
                topic.topic_id: sorted(topic.partitions) for topic in answer.assignment.topic_partitions
            }

    def join(self, member: str, *topics: str, regex: str | None = None) -> None:
        self.beat(
            member,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=None if regex else list(topics),
            subscribed_topic_regex=regex,
        )

    def settle(self) -> None:
        """Send heartbeats until the group is stable and every member knows."""

        def stable() -> bool:
            for member in self.epochs:
                self.beat(member)
            group = self.described()
            owned = sorted(p for topics in self.owned.values() for each in topics.values() for p in each)
            return group.group_state == "Stable" and owned == list(range(PARTITIONS))

        wait_for(stable)


def dump(data: Path) -> str:
    """The groups' log as Kafka's tool shows it."""
    out = ""
    for file in sorted(data.glob("__consumer_offsets-*/*.log")):
        if file.stat().st_size:
            run = run_java(
                "org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(file)
            )
            assert run.returncode == 0, run.stderr
            out += run.stdout
    return out


def test_a_live_group_goes_on_under_apache_kafka_and_back(tmp_path: Path) -> None:
    # given: two members of a group, one by name and one by expression
    data = tmp_path / "logs"  # where ApacheKafka has it too
    members = Members()
    with OttlaBroker.start(data) as broker, WireClient.connect(broker.bootstrap) as client:
        client.create_topic("t", partitions=PARTITIONS)
        members.talk_to(client)
        members.join("m1", "t")
        members.join("m2", regex="t+")
        members.settle()
        before = members.described()
    # when: Apache Kafka has the directory
    with ApacheKafka.start(tmp_path) as kafka, WireClient.connect(kafka.bootstrap) as client:
        members.talk_to(client)
        # then: it finds the group as it was, and the members are members
        found = members.described()
        assert (found.group_epoch, found.assignment_epoch) == (before.group_epoch, before.assignment_epoch)
        assert shown(found) == shown(before)
        members.settle()
        members.join("m3", "t")
        members.settle()
        there = members.described()
    # when: it comes back
    with OttlaBroker.start(data) as broker, WireClient.connect(broker.bootstrap) as client:
        members.talk_to(client)
        # then
        found = members.described()
        assert (found.group_epoch, found.assignment_epoch) == (there.group_epoch, there.assignment_epoch)
        assert shown(found) == shown(there)
        members.settle()
    # and: Kafka's tool reads the records of both
    dumped = dump(data)
    keys = [json.loads(key) for key in re.findall(r" key: (\{.*?\}\}) payload: ", dumped)]
    assert {int(key["type"]) for key in keys} >= TYPES
    assert dumped.count(" payload: ") == dumped.count("| offset: ") == len(keys)


def shown(group: Any) -> dict[str, Any]:
    """The description of each member."""

    def partitions(part: Any) -> list[tuple[str, list[int]]]:
        return sorted((topic.topic_name, sorted(topic.partitions)) for topic in part.topic_partitions)

    return {
        member.member_id: (
            member.member_epoch,
            sorted(member.subscribed_topic_names),
            member.subscribed_topic_regex,
            partitions(member.assignment),
            partitions(member.target_assignment),
        )
        for member in group.members
    }


@pytest.mark.long
def test_apache_kafka_finds_the_hash_of_topics_unchanged(tmp_path: Path) -> None:
    """If Kafka's own hash differed, it would begin a new epoch with the next heartbeat."""
    data = tmp_path / "logs"
    members = Members()
    with OttlaBroker.start(data) as broker, WireClient.connect(broker.bootstrap) as client:
        client.create_topic("t", partitions=PARTITIONS)
        members.talk_to(client)
        members.join("m1", "t")
        epoch = members.epochs["m1"]
    with ApacheKafka.start(tmp_path) as kafka, WireClient.connect(kafka.bootstrap) as client:
        members.talk_to(client)
        members.beat("m1")
        assert members.described().group_epoch == epoch
