"""The state of one streams group, and its change by records.

Theory of operation. All state but the last block of `StreamsGroup` is derived from the log: it changes by
`replay` alone, so a group that is loaded anew is the same. The group's epoch goes up when members, their
topology, its topics or the assignor's settings have changed; a target assignment is made for an epoch;
members take it over step by step (reconciliation.py).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.groups.streams.configured import ConfiguredTopology
from ottla.core.groups.streams.tasks import (
    NO_TARGET,
    NOTHING_HELD,
    HeldTasks,
    TargetTasks,
    TaskId,
    TaskRole,
    tasks_of,
)
from ottla.core.groups.streams.topology import InvalidTopology, Topology, topology_from
from ottla.protocol.messages.streams_group_describe_response import TopologyDescription
from ottla.protocol.records.streams_group_current_member_assignment_key import (
    StreamsGroupCurrentMemberAssignmentKey,
)
from ottla.protocol.records.streams_group_current_member_assignment_value import (
    StreamsGroupCurrentMemberAssignmentValue,
)
from ottla.protocol.records.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from ottla.protocol.records.streams_group_member_metadata_value import StreamsGroupMemberMetadataValue
from ottla.protocol.records.streams_group_metadata_key import StreamsGroupMetadataKey
from ottla.protocol.records.streams_group_metadata_value import StreamsGroupMetadataValue
from ottla.protocol.records.streams_group_target_assignment_member_key import (
    StreamsGroupTargetAssignmentMemberKey,
)
from ottla.protocol.records.streams_group_target_assignment_member_value import (
    StreamsGroupTargetAssignmentMemberValue,
)
from ottla.protocol.records.streams_group_target_assignment_metadata_key import (
    StreamsGroupTargetAssignmentMetadataKey,
)
from ottla.protocol.records.streams_group_target_assignment_metadata_value import (
    StreamsGroupTargetAssignmentMetadataValue,
)
from ottla.protocol.records.streams_group_topology_key import StreamsGroupTopologyKey
from ottla.protocol.records.streams_group_topology_value import StreamsGroupTopologyValue

FIRST_EPOCH = 1
NO_EPOCH = -1
LEFT = -1
"""The epoch of a member or target assignment that was removed."""
AWAY = -2
"""The epoch of a static member that has left for a while."""


class StreamsGroupState(enum.Enum):
    """The values are the names that clients see."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"

    @property
    def filter_name(self) -> str:
        """The state's name in a filter of ListGroups, in lower case."""
        return "not_ready" if self is StreamsGroupState.NOT_READY else self.value.lower()


class MemberState(enum.IntEnum):
    """A member's progress towards its target; the values are those in records."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN


class Endpoint(NamedTuple):
    """The address at which the application answers interactive queries."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """A member as in its records."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    state: MemberState = MemberState.STABLE
    epoch: int = 0
    previous_epoch: int = 0
    assigned: HeldTasks = NOTHING_HELD
    pending_revocation: HeldTasks = NOTHING_HELD

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch


class DescriptionEpochs(NamedTuple):
    """The newest topology epochs whose description was taken, and was refused for good (KIP-1331)."""

    stored: int = NO_EPOCH
    failed: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class HeldDescription:
    """The description of a topology, and the topology's epoch."""

    topology_epoch: int
    description: TopologyDescription


@dataclass(frozen=True, slots=True)
class DescriptionAsked:
    """The last time a member was asked for a description: for which epoch, and how often before."""

    topology_epoch: int
    repetitions: int
    next_ms: int
    """The time, by the steady clock, from which a member may be asked again."""


@dataclass(frozen=True, slots=True)
class ReportedOffsets:
    """The changelog offsets of the tasks whose state a member has on disk, and the changelogs' ends."""

    offsets: Mapping[TaskId, int] = field(default_factory=dict)
    end_offsets: Mapping[TaskId, int] = field(default_factory=dict)


NO_OFFSETS = ReportedOffsets()


class StreamsGroup:
    """One group. Changed by `replay` only, but for the fields marked at the end of `__init__`."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.validated_topology_epoch = NO_EPOCH
        self.description_epochs = DescriptionEpochs()
        self.assignment_configs: dict[str, str] = {}
        """The assignor's settings in `epoch`."""
        self.topology: Topology | None = None
        self.members: dict[str, StreamsMember] = {}
        self.target_epoch = FIRST_EPOCH
        self.target_timestamp_ms = 0
        self.targets: dict[str, TargetTasks] = {}
        self.static_members: dict[str, str] = {}
        """Instance id -> member id; derived from `members`."""
        self._holders: dict[tuple[TaskRole, TaskId], set[str]] = {}
        """The members that hold each task or have yet to revoke it; derived from `members`."""
        # Not in the log.
        self.is_in_log = False
        """False while the group's first records are on their way and only reserve the id."""
        self.configured: ConfiguredTopology | None = None
        """`topology` applied to the cluster's topics; None if that has to be done again."""
        self.must_look_at_topics = True
        """Whether the topics may have changed since `metadata_hash` was computed."""
        self.description: HeldDescription | None = None
        """The description in the words of StreamsGroupDescribe, once a member has brought it."""
        self.description_asked: DescriptionAsked | None = None
        self.shutdown_requested_by: str | None = None
        self.endpoint_epoch = 0
        """Goes up when the partitions at the endpoints change."""
        self.reported_offsets: dict[str, ReportedOffsets] = {}
        """Member id -> the offsets of its tasks, as it has told them last."""
        self.creating_topics: set[str] = set()
        self.creation_errors: dict[str, tuple[str, int]] = {}
        """Topic -> the error of its creation, and the time
        (ms, steady clock) before which it is not retried.
        """

    @property
    def state(self) -> StreamsGroupState:
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.target_epoch:
            return StreamsGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    def target_of(self, member_id: str) -> TargetTasks:
        return self.targets.get(member_id, NO_TARGET)

    def is_held(self, role: TaskRole, task: TaskId) -> bool:
        """Whether a member holds the task in that role, or has yet to revoke it."""
        return (role, task) in self._holders

    def is_held_in(self, process_id: str, role: TaskRole, task: TaskId) -> bool:
        """Whether a member of the process holds the task in that role, or has yet to revoke it."""
        holders = self._holders.get((role, task), ())
        return any(self.members[member_id].process_id == process_id for member_id in holders)

    def put(self, member: StreamsMember) -> None:
        """Add or replace a member."""
        self._let_go(member.member_id)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        for tasks in (member.assigned, member.pending_revocation):
            for key in tasks:
                self._holders.setdefault(key, set()).add(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member, if it is one."""
        self._let_go(member_id)
        self.members.pop(member_id, None)
        self.reported_offsets.pop(member_id, None)
        if not self.members:
            self.shutdown_requested_by = None

    def _let_go(self, member_id: str) -> None:
        member = self.members.get(member_id)
        if member is None:
            return
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]
        for tasks in (member.assigned, member.pending_revocation):
            for key in tasks:
                holders = self._holders.get(key)
                if holders is not None:
                    holders.discard(member_id)
                    if not holders:
                        del self._holders[key]


StreamsKey = (
    StreamsGroupMetadataKey
    | StreamsGroupMemberMetadataKey
    | StreamsGroupTargetAssignmentMetadataKey
    | StreamsGroupTargetAssignmentMemberKey
    | StreamsGroupCurrentMemberAssignmentKey
    | StreamsGroupTopologyKey
)


def replay(groups: dict[str, StreamsGroup], record: CoordinatorRecord) -> None:
    """Apply a record whose key is a `StreamsKey`. Tombstones of unknown keys change nothing.

    In a compacted log a member's assignment may come before its metadata, and both before the group's own
    record: a missing member or group is made.
    """
    key, value = record.key, record.value
    assert isinstance(key, StreamsKey)
    group = groups.get(key.group_id)
    if group is None:
        if value is None:
            return
        group = groups[key.group_id] = StreamsGroup(key.group_id)
    group.is_in_log = True
    match key, value:
        case StreamsGroupMetadataKey(), StreamsGroupMetadataValue():
            group.epoch = value.epoch
            group.metadata_hash = value.metadata_hash
            group.validated_topology_epoch = value.validated_topology_epoch
            group.description_epochs = DescriptionEpochs(
                value.stored_description_topology_epoch, value.failed_description_topology_epoch
            )
            group.assignment_configs = {
                config.key: config.value for config in value.last_assignment_configs or ()
            }
        case StreamsGroupMetadataKey(), None:
            del groups[key.group_id]
        case StreamsGroupTopologyKey(), StreamsGroupTopologyValue():
            try:
                group.topology = topology_from(value)
            except InvalidTopology:  # Never written; members that join bring theirs.
                group.topology = None
        case StreamsGroupTopologyKey(), None:
            group.topology = None
        case StreamsGroupTargetAssignmentMetadataKey(), StreamsGroupTargetAssignmentMetadataValue():
            group.target_epoch, group.target_timestamp_ms = value.assignment_epoch, value.assignment_timestamp
        case StreamsGroupTargetAssignmentMetadataKey(), None:
            group.target_epoch, group.target_timestamp_ms = LEFT, 0
        case StreamsGroupTargetAssignmentMemberKey(), StreamsGroupTargetAssignmentMemberValue():
            group.targets[key.member_id] = TargetTasks(
                tasks_of(value.active_tasks), tasks_of(value.standby_tasks), tasks_of(value.warmup_tasks)
            )
        case StreamsGroupTargetAssignmentMemberKey(), None:
            group.targets.pop(key.member_id, None)
        case _:
            _replay_member(group, key, value)


def _replay_member(group: StreamsGroup, key: Any, value: Any) -> None:
    known = group.members.get(key.member_id)
    match key, value:
        case StreamsGroupMemberMetadataKey(), StreamsGroupMemberMetadataValue():
            endpoint = value.user_endpoint
            group.put(
                replace(
                    known or StreamsMember(key.member_id),
                    instance_id=value.instance_id,
                    rack_id=value.rack_id,
                    client_id=value.client_id,
                    client_host=value.client_host,
                    rebalance_timeout_ms=value.rebalance_timeout_ms,
                    topology_epoch=value.topology_epoch,
                    process_id=value.process_id,
                    user_endpoint=None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
                    client_tags={tag.key: tag.value for tag in value.client_tags},
                )
            )
        case StreamsGroupMemberMetadataKey(), None:
            group.remove(key.member_id)
        case StreamsGroupCurrentMemberAssignmentKey(), StreamsGroupCurrentMemberAssignmentValue():
            group.put(
                replace(
                    known or StreamsMember(key.member_id),
                    state=MemberState(value.state),
                    epoch=value.member_epoch,
                    previous_epoch=value.previous_member_epoch,
                    assigned=HeldTasks(
                        _active_of(value.active_tasks, value.member_epoch),
                        tasks_of(value.standby_tasks),
                        tasks_of(value.warmup_tasks),
                    ),
                    pending_revocation=HeldTasks(
                        _active_of(value.active_tasks_pending_revocation, value.member_epoch),
                        tasks_of(value.standby_tasks_pending_revocation),
                        tasks_of(value.warmup_tasks_pending_revocation),
                    ),
                )
            )
        case StreamsGroupCurrentMemberAssignmentKey(), None:
            if known is not None:
                group.put(
                    replace(
                        known,
                        epoch=LEFT,
                        previous_epoch=LEFT,
                        assigned=NOTHING_HELD,
                        pending_revocation=NOTHING_HELD,
                    )
                )


def _active_of(task_ids: Iterable[Any], member_epoch: int) -> dict[str, dict[int, int]]:
    """Active tasks of a record with their epochs; Kafka 4.1 wrote none, so the member's is used."""
    active: dict[str, dict[int, int]] = {}
    for each in task_ids:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = [member_epoch] * len(each.partitions)
        if each.partitions:
            active.setdefault(each.subtopology_id, {}).update(zip(each.partitions, epochs, strict=True))
    return active
