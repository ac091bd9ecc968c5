"""What `ottla group` tells of groups, as JSON objects and as rows of tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ottla.cli.cluster.group_words import shown_lag
from ottla.cli.frame.table import Column
from ottla.client.groups.lag import PartitionLag, longest_lag_ms, total_lag
from ottla.client.groups.model import GroupDescription, GroupMember, ListedGroup, Tasks
from ottla.client.groups.survey import SurveyedGroup

LISTED: Final = (
    Column("group", "GROUP"),
    Column("type", "TYPE"),
    Column("protocol", "PROTOCOL"),
    Column("state", "STATE"),
    Column("coordinator", "COORDINATOR", right=True),
)
OFFSETS: Final = (
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION", right=True),
    Column("offset", "OFFSET", right=True),
    Column("log_end_offset", "END", right=True),
    Column("lag", "LAG", right=True),
    Column("lag_seconds", "BEHIND", right=True, show=lambda seconds: shown_lag(round(seconds * 1_000))),
    Column("member_id", "MEMBER"),
    Column("host", "HOST"),
    Column("client_id", "CLIENT"),
)
MEMBERS: Final = (
    Column("member_id", "MEMBER"),
    Column("instance_id", "INSTANCE"),
    Column("host", "HOST"),
    Column("client_id", "CLIENT"),
    Column("epoch", "EPOCH", right=True),
    Column("partitions", "PARTITIONS", right=True),
    Column("assignment", "ASSIGNMENT"),
)
STATES: Final = (
    Column("group", "GROUP"),
    Column("type", "TYPE"),
    Column("state", "STATE"),
    Column("assignor", "ASSIGNOR"),
    Column("coordinator", "COORDINATOR"),
    Column("members", "MEMBERS", right=True),
    Column("lag", "LAG", right=True),
    Column("lag_seconds", "BEHIND", right=True, show=lambda seconds: shown_lag(round(seconds * 1_000))),
)


def listed_row(group: ListedGroup) -> dict[str, Any]:
    """A group of `ottla group list`."""
    return {
        "group": group.group_id,
        "type": group.type.value,
        "protocol": group.protocol_type,
        "state": group.state,
        "coordinator": group.coordinator,
    }


def group_object(surveyed: SurveyedGroup) -> dict[str, Any]:
    """A group of `ottla group describe --json`."""
    group = surveyed.group
    coordinator = group.coordinator
    return {
        "group": group.group_id,
        "type": group.type.value,
        "protocol": group.protocol_type,
        "state": group.state,
        "assignor": group.assignor or None,
        "coordinator": None
        if coordinator is None
        else {"id": coordinator.node_id, "host": coordinator.host, "port": coordinator.port},
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "lag": total_lag(surveyed.lags),
        "lag_seconds": _seconds(longest_lag_ms(surveyed.lags)),
        "members": [member_object(member) for member in group.members],
        "partitions": [lag_object(one) for one in surveyed.lags],
        "topology": group.topology,
        "offsets_error": None if surveyed.offsets_error is None else str(surveyed.offsets_error),
    }


def state_row(surveyed: SurveyedGroup) -> dict[str, Any]:
    """A group in one row."""
    group = surveyed.group
    return {
        "group": group.group_id,
        "type": group.type.value,
        "state": group.state,
        "assignor": group.assignor or None,
        "coordinator": None if group.coordinator is None else str(group.coordinator).removeprefix("broker "),
        "members": len(group.members),
        "lag": total_lag(surveyed.lags),
        "lag_seconds": _seconds(longest_lag_ms(surveyed.lags)),
    }


def member_object(member: GroupMember) -> dict[str, Any]:
    """A member in JSON; fields that its kind of group does not have are null or left out."""
    shown: dict[str, Any] = {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "rack": member.rack_id,
        "epoch": member.epoch,
        "assignment": None if member.assigned is None else _by_topic(member.assigned),
    }
    if member.target is not None:
        shown["target_assignment"] = _by_topic(member.target)
    if member.subscribed or member.regex:
        shown["subscription"] = {"topics": list(member.subscribed), "regex": member.regex}
    if member.protocol is not None:
        shown["protocol"] = member.protocol
    if member.tasks is not None:
        shown |= {
            "process_id": member.process_id,
            "endpoint": member.endpoint,
            "topology_epoch": member.topology_epoch,
            "tags": member.tags,
            "tasks": _tasks(member.tasks),
            "target_tasks": None if member.target_tasks is None else _tasks(member.target_tasks),
        }
    return shown


def member_row(member: GroupMember) -> dict[str, Any]:
    """A member in one row."""
    assigned = member.assigned
    shown = None if assigned is None else _by_topic(assigned)
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "host": member.host,
        "client_id": member.client_id,
        "epoch": member.epoch,
        "partitions": None if assigned is None else len(assigned),
        "assignment": None
        if shown is None
        else [f"{topic}({spans(partitions)})" for topic, partitions in shown.items()],
    }


def lag_object(one: PartitionLag) -> dict[str, Any]:
    """A group in one partition."""
    member = one.member
    return {
        "topic": one.topic,
        "partition": one.partition,
        "offset": one.offset,
        "log_end_offset": one.log_end_offset,
        "lag": one.lag,
        "lag_seconds": _seconds(one.lag_ms),
        "leader_epoch": one.leader_epoch,
        "metadata": one.metadata,
        "member_id": None if member is None else member.member_id,
        "host": None if member is None else member.host,
        "client_id": None if member is None else member.client_id,
    }


def topology_lines(group: GroupDescription) -> Iterable[str]:
    """A streams group's topology: its subtopologies and their topics."""
    topology = group.topology
    if topology is None:
        yield "  the group has no topology yet"
        return
    yield f"  topology epoch {topology['epoch']}"
    for one in topology["subtopologies"] or ():
        yield f"  subtopology {one['subtopologyId']}"
        for name, topics in (
            ("reads", one["sourceTopics"]),
            ("repartitions to", one["repartitionSinkTopics"]),
            ("reads repartitioned", [topic["name"] for topic in one["repartitionSourceTopics"]]),
            ("keeps state in", [topic["name"] for topic in one["stateChangelogTopics"]]),
        ):
            if topics:
                yield f"    {name} {', '.join(topics)}"


def spans(numbers: Iterable[int]) -> str:
    """Numbers with runs joined: 0-3,7."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        found.setdefault(topic, []).append(partition)
    return found


def _tasks(tasks: Tasks) -> dict[str, dict[str, list[int]]]:
    return {
        "active": _by_topic(tasks.active),
        "standby": _by_topic(tasks.standby),
        "warmup": _by_topic(tasks.warmup),
    }


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1_000
