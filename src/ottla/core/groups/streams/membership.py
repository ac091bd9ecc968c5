"""Decides StreamsGroupHeartbeat for the streams groups of a shard (KIP-1071).

    StreamsGroupHeartbeat 0-1   epoch 0 joins, -1 leaves, -2 leaves for a while (static members); member ids
                                are made by the clients. 1: the answer may ask for the topology's description
                                (KIP-1331), and names client tags that a member lacks

Theory of operation. A heartbeat is one decision in its group's turn: the member's metadata, the first
member's topology, the topology applied to the cluster's topics if those have changed, the group's next epoch
after any of these changes, a new target assignment if the last one is for an older epoch, and the member's
step to its target; all in one append. A heartbeat that changes nothing is answered at once. The shell is
asked for missing internal topics when the answer is sent; members' next heartbeats find them.

A new target waits for the rest of streams.initial.rebalance.delay.ms if the group was empty, and for
streams.assignment.interval.ms since the last one. A member that is silent for its session timeout, or does
not revoke its tasks within its rebalance timeout, is removed. None of these times is in the log: after a load
sessions begin anew, and a group that waited for its first assignment gets it with the next heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ottla.core.coordination.api import RequestReceived
from ottla.core.coordination.outbox import answer_for
from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.coordination.timers import TimerKey
from ottla.core.groups.context import GroupKind, ShardContext
from ottla.core.groups.offset_rules import OffsetRules
from ottla.core.groups.settings import GroupSettings
from ottla.core.groups.streams import assignor, records
from ottla.core.groups.streams.assignor import PreviousMember, TaskWidth
from ottla.core.groups.streams.checks import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    Refused,
    check_heartbeat,
    check_tasks,
)
from ottla.core.groups.streams.configured import ConfiguredTopology, Problem, Status, configure
from ottla.core.groups.streams.departures import Departures
from ottla.core.groups.streams.endpoints import partitions_by_endpoint
from ottla.core.groups.streams.group import AWAY, NO_OFFSETS, StreamsGroup, StreamsMember
from ottla.core.groups.streams.heartbeats import (
    has_only_assigned,
    needs_assignment,
    owned_tasks,
    reported_offsets,
    updated_member,
)
from ottla.core.groups.streams.internal_topics import InternalTopics
from ottla.core.groups.streams.reconciliation import MustRejoin, reconcile
from ottla.core.groups.streams.tasks import NO_TARGET, TargetTasks, task_ids_of
from ottla.core.groups.streams.topology import InvalidTopology, Topology, topology_from
from ottla.core.groups.streams.topology_descriptions import TopologyDescriptions
from ottla.core.groups.topic_hash import group_hash
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import streams_group_heartbeat_response as response_messages
from ottla.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from ottla.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse

INITIAL_DELAY_TIMER = "streams-initial-delay"
NO_TOPOLOGY_EPOCH = -1
FIRST_VERSION_WITH_MISSING_TAGS = 1
STANDBY_CONFIG = "num.standby.replicas"
RACK_TAGS_CONFIG = "rack.aware.assignment.tags"
FENCED = "The member must abandon all its partitions and rejoin."


@dataclass(slots=True)
class Decision:
    """The decision on a heartbeat. `group` is not yet one of the shard's if `is_new`."""

    group: StreamsGroup
    is_new: bool
    records: list[CoordinatorRecord] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    take_back: list[Callable[[], None]] = field(default_factory=list)
    """The steps that revert the decision if it is refused or can't be written."""
    replaces: OffsetRules | None = None
    """The kind of the group without members that this group replaces."""
    bump: bool = False
    """Whether the group needs a new epoch."""
    returned_from: StreamsMember | None = None
    """The static member that the member of the heartbeat replaces."""

    def undo(self) -> None:
        for undo in self.take_back:
            undo()


class StreamsMembership:
    """Handles heartbeats for the streams groups of a shard."""

    def __init__(self, context: ShardContext, descriptions: TopologyDescriptions) -> None:
        self._context = context
        self._outbox = context.outbox
        self._turns = context.turns
        self._descriptions = descriptions
        self._groups = context.streams
        self.internal_topics = InternalTopics(context)
        self.departures = Departures(context)

    # StreamsGroupHeartbeat

    def heartbeat(self, event: RequestReceived, request: StreamsGroupHeartbeatRequest) -> None:
        try:
            check_heartbeat(request)
        except Refused as refused:
            self._refuse(event, refused.error, refused.message)
            return
        self._turns.run(request.group_id, lambda: self._decide(event, request))

    def _decide(self, event: RequestReceived, request: StreamsGroupHeartbeatRequest) -> None:
        try:
            if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
                self._leave(event, request)
            else:
                self._heartbeat(event, request)
        except Refused as refused:
            self._refuse(event, refused.error, refused.message)
        except InvalidTopology as invalid:
            self._refuse(event, ErrorCode.STREAMS_INVALID_TOPOLOGY, str(invalid))
        except MustRejoin as fenced:
            self._refuse(event, ErrorCode.FENCED_MEMBER_EPOCH, str(fenced))

    def _refuse(self, event: RequestReceived, error: ErrorCode, message: str | None = None) -> None:
        self._outbox.reply(
            event.request_id, StreamsGroupHeartbeatResponse(error_code=error, error_message=message)
        )

    def _heartbeat(self, event: RequestReceived, request: StreamsGroupHeartbeatRequest) -> None:
        decision = self._group_for(request)
        try:
            configured, response = self._decided(decision, event, request)
        except (Refused, InvalidTopology, MustRejoin):
            decision.undo()
            raise
        self._finish(event, decision, configured, response)

    def _decided(
        self, decision: Decision, event: RequestReceived, request: StreamsGroupHeartbeatRequest
    ) -> tuple[ConfiguredTopology, StreamsGroupHeartbeatResponse]:
        """Add the records to `decision`; returns the answer for the time when they are written."""
        group = decision.group
        before = self._member_for(decision, request)
        member = updated_member(before, request, event.client)
        if member != before:
            decision.records.append(records.member_metadata(group.group_id, member))
            decision.bump = needs_assignment(before, member)
        topology = self._topology_for(decision, member, request)
        configured, metadata_hash = self._configured(decision, topology)
        validated = NO_TOPOLOGY_EPOCH
        if configured.is_ready:
            validated = topology.epoch
            check_tasks(configured, request)
        if request.task_offsets is not None or request.task_end_offsets is not None:
            known = group.reported_offsets.get(member.member_id, NO_OFFSETS)
            group.reported_offsets[member.member_id] = reported_offsets(known, request)
        configs = self._assignment_configs(group.group_id)
        epoch = group.epoch
        if (
            decision.bump
            or validated != group.validated_topology_epoch
            or configs != group.assignment_configs
        ):
            epoch += 1
            decision.records.append(
                records.group_epoch(
                    group.group_id,
                    epoch,
                    metadata_hash,
                    validated,
                    configs,
                    group.description_epochs,
                )
            )
        self._begin_initial_delay(group)
        target_epoch, target = self._target(decision, epoch, member, configured, configs)
        updated = reconcile(group, member, target_epoch, target, owned_tasks(request))
        if updated != member:
            decision.records.append(records.current_assignment(group.group_id, updated))
        # Deadlines are set before the append ends: if it is slow and is answered as failed, the member still
        # has a deadline.
        self.departures.set_deadlines(group.group_id, updated)
        if request.shutdown_application:
            self._request_shutdown(group, updated.member_id)
        response = self._response(decision, event, request, before, updated, configured)
        is_stale = any(each.status is Status.STALE_TOPOLOGY for each in decision.problems)
        response.topology_description_required = not is_stale and self._descriptions.must_ask(
            group, topology.epoch, event.client.api_version
        )
        return configured, response

    def _finish(
        self,
        event: RequestReceived,
        decision: Decision,
        configured: ConfiguredTopology,
        response: StreamsGroupHeartbeatResponse,
    ) -> None:
        """Append the decision's records, then answer and ask for missing topics."""
        group_id = decision.group.group_id
        if decision.replaces is not None:
            decision.take_back.append(decision.replaces.begin_end(group_id))
        elif decision.is_new:
            # The id is reserved from now on: requests for a group of another kind are refused meanwhile.
            self._groups[group_id] = decision.group
            decision.take_back.append(lambda: self._forget_unwritten(group_id))

        def done() -> None:
            group = self._groups[group_id]
            if decision.is_new:
                group.shutdown_requested_by = decision.group.shutdown_requested_by
                group.endpoint_epoch = 0
            if decision.returned_from is not None:  # The old member's end has cancelled its deadlines.
                self.departures.set_deadlines(group_id, group.members[response.member_id])
            self.internal_topics.ask_for(group, configured, event.client.permits)
            self._outbox.reply(event.request_id, response)

        def failed(error: ErrorCode) -> None:
            decision.undo()
            self._refuse(event, answer_for(error))

        if decision.records:
            self._turns.append(group_id, decision.records, done, failed)
        else:
            done()

    def _forget_unwritten(self, group_id: str) -> None:
        group = self._groups.get(group_id)
        if group is not None and not group.is_in_log:
            del self._groups[group_id]

    def _group_for(self, request: StreamsGroupHeartbeatRequest) -> Decision:
        """The group, made if the member joins; a classic group without members is replaced."""
        group_id = request.group_id
        group = self._groups.get(group_id)
        kind = self._context.kind_of(group_id)
        if request.member_epoch != JOIN_EPOCH:
            if kind is None or (group is not None and not group.is_in_log):
                raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {group_id} not found.")
            if group is None:
                raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
            return Decision(group, is_new=False)
        if group is not None:
            max_size = self._context.broker_settings.streams_max_size
            is_known = request.instance_id in group.static_members or request.member_id in group.members
            if len(group.members) >= max_size and not is_known:
                raise Refused(
                    ErrorCode.GROUP_MAX_SIZE_REACHED,
                    f"The streams group has reached its maximum capacity of {max_size} members.",
                )
            return Decision(group, is_new=False)
        decision = Decision(StreamsGroup(group_id), is_new=True)
        if kind is not None:
            rules = self._context.rules[kind]
            if kind is not GroupKind.CLASSIC or rules.check_delete(group_id):
                raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
            decision.records += rules.tombstones(group_id)
            decision.replaces = rules
        return decision

    def _member_for(self, decision: Decision, request: StreamsGroupHeartbeatRequest) -> StreamsMember:
        """The member, or a new one that joins. Raises Refused if it is unknown or in another epoch."""
        group, epoch = decision.group, request.member_epoch
        if epoch == JOIN_EPOCH:
            if request.instance_id in group.static_members:
                return self._returning(decision, request)
            return group.members.get(request.member_id) or StreamsMember(request.member_id)
        member = _member_named(group, request)
        if epoch > member.epoch:
            raise Refused(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"The streams group member has a greater member epoch ({epoch}) than the one known by "
                f"the group coordinator ({member.epoch}). {FENCED}",
            )
        if epoch < member.epoch and not (
            epoch == member.previous_epoch and has_only_assigned(request, member)
        ):
            raise Refused(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"The streams group member has a smaller member epoch ({epoch}) than the one known by "
                f"the group coordinator ({member.epoch}). {FENCED}",
            )
        if group.topology is None:
            raise Refused(ErrorCode.FENCED_MEMBER_EPOCH, f"The group has no topology. {FENCED}")
        return member

    def _returning(self, decision: Decision, request: StreamsGroupHeartbeatRequest) -> StreamsMember:
        """A static member that comes back, with the tasks of the one that left for a while."""
        group, instance_id = decision.group, request.instance_id
        assert instance_id is not None
        old = group.members[group.static_members[instance_id]]
        if old.epoch != AWAY:
            raise Refused(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {request.member_id} with instance id {instance_id} cannot join the group "
                f"because the instance id is owned by {old.member_id} member.",
            )
        decision.returned_from = old
        member = replace(old, member_id=request.member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
        decision.records += [
            *records.member_tombstones(group.group_id, old.member_id),
            records.member_metadata(group.group_id, member),
            records.target_of_member(group.group_id, member.member_id, group.target_of(old.member_id)),
            records.current_assignment(group.group_id, member),
        ]
        return member

    def _members_with(self, decision: Decision, member: StreamsMember) -> dict[str, StreamsMember]:
        """The group's members, as they are once the decision is written."""
        members = dict(decision.group.members)
        if decision.returned_from is not None:
            del members[decision.returned_from.member_id]
        return {**members, member.member_id: member}

    # The topology

    def _topology_for(
        self, decision: Decision, member: StreamsMember, request: StreamsGroupHeartbeatRequest
    ) -> Topology:
        """The group's topology; the first member's becomes the group's."""
        known = decision.group.topology
        if request.topology is None:
            assert known is not None, "the member is new or its group has a topology"
        else:
            given = topology_from(request.topology)
            if known is None:
                decision.records.append(records.topology(decision.group.group_id, given))
                return given
            if given.epoch >= known.epoch and given != known:
                raise Refused(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        if member.topology_epoch < known.epoch:
            decision.problems.append(
                Problem(
                    Status.STALE_TOPOLOGY,
                    f"The member's topology epoch {member.topology_epoch} is behind the group's topology "
                    f"epoch {known.epoch}.",
                )
            )
        return known

    def _configured(self, decision: Decision, topology: Topology) -> tuple[ConfiguredTopology, int]:
        """The topology applied to the present topics, and the topics' hash."""
        group, topics = decision.group, self._context.topics
        if group.configured is not None and group.topology is not None and not group.must_look_at_topics:
            return group.configured, group.metadata_hash
        metadata_hash = group_hash(topology.required_topics, topics)
        changed = group.topology is None or metadata_hash != group.metadata_hash
        decision.bump = decision.bump or metadata_hash != group.metadata_hash
        configured = group.configured
        if changed or configured is None:
            configured = configure(topology, topics)
            if configured.problem is not None:
                self._outbox.note(
                    "streams topology is not ready group=%s epoch=%d status=%s: %s",
                    group.group_id,
                    topology.epoch,
                    configured.problem.status.name,
                    configured.problem.detail,
                )
        group.configured, group.must_look_at_topics = configured, False
        decision.take_back.append(lambda: _look_again(group))
        return configured, metadata_hash

    def topics_changed(self, names: frozenset[str]) -> None:
        """Let groups that need one of these topics check them with their next heartbeat."""
        for group in self._groups.values():
            # A group without a topology is being made: topics may have changed since its decision.
            if group.topology is None or not names.isdisjoint(group.topology.required_topics):
                group.must_look_at_topics = True

    # The target assignment

    def _begin_initial_delay(self, group: StreamsGroup) -> None:
        delay_ms = self._settings(group.group_id).streams_initial_rebalance_delay_ms
        key = TimerKey(INITIAL_DELAY_TIMER, group.group_id)
        if not group.members and delay_ms > 0 and self._outbox.timers.deadline_of(key) is None:
            self._outbox.set_timer(key, delay_ms)

    def _target(
        self,
        decision: Decision,
        epoch: int,
        member: StreamsMember,
        configured: ConfiguredTopology,
        configs: dict[str, str],
    ) -> tuple[int, TargetTasks]:
        """The target's epoch and the member's part, of a new assignment if one is due."""
        group = decision.group
        if self._outbox.timers.deadline_of(TimerKey(INITIAL_DELAY_TIMER, group.group_id)) is not None:
            decision.problems.append(_delayed("initial rebalance delay"))
            return group.target_epoch, NO_TARGET
        had = member if decision.returned_from is None else decision.returned_from
        last = group.target_epoch, group.target_of(had.member_id)
        if group.target_epoch >= epoch:
            return last
        interval_ms = self._settings(group.group_id).streams_assignment_interval_ms
        next_ms = group.target_timestamp_ms + interval_ms
        if group.target_timestamp_ms and interval_ms and self._outbox.now.wall_ms < next_ms:
            decision.problems.append(_delayed("assignment interval"))
            return last
        members = self._members_with(decision, member)
        targets = self._new_targets(group, epoch, members, configured, configs, decision.records)
        return epoch, targets[member.member_id]

    def _new_targets(
        self,
        group: StreamsGroup,
        epoch: int,
        members: dict[str, StreamsMember],
        configured: ConfiguredTopology,
        configs: dict[str, str],
        into: list[CoordinatorRecord],
    ) -> dict[str, TargetTasks]:
        """Assign all tasks to `members`; the records go to `into`."""
        targets = dict.fromkeys(members, NO_TARGET)
        if configured.is_ready:
            targets = assignor.assign(
                [
                    PreviousMember(
                        member_id,
                        member.process_id,
                        member.assigned.as_target(),
                        group.reported_offsets.get(member_id, NO_OFFSETS).offsets,
                    )
                    for member_id, member in members.items()
                ],
                {
                    name: TaskWidth(each.task_count, each.is_stateful)
                    for name, each in configured.subtopologies.items()
                },
                int(configs.get(STANDBY_CONFIG, "0")),
            )
        for member_id, target in targets.items():
            if group.targets.get(member_id) != target:
                into.append(records.target_of_member(group.group_id, member_id, target))
        into.append(records.target_epoch(group.group_id, epoch, self._outbox.now.wall_ms))
        self._outbox.note(
            "streams tasks assigned group=%s epoch=%d members=%d", group.group_id, epoch, len(members)
        )
        return targets

    def on_initial_delay_over(self, group_id: str) -> None:
        """Give the members that have come meanwhile their first assignment."""
        self._turns.run(group_id, lambda: self._assign_first(group_id))

    def _assign_first(self, group_id: str) -> None:
        group = self._groups.get(group_id)
        if group is None or not group.members or group.configured is None:
            return  # The next member to come gets an assignment at once.
        if group.target_epoch >= group.epoch:
            return
        assigned: list[CoordinatorRecord] = []
        self._new_targets(
            group, group.epoch, group.members, group.configured, group.assignment_configs, assigned
        )
        # If that fails, the next heartbeat assigns.
        self._turns.append(group_id, assigned, lambda: None, lambda error: None)

    # The answer

    def _response(
        self,
        decision: Decision,
        event: RequestReceived,
        request: StreamsGroupHeartbeatRequest,
        before: StreamsMember,
        member: StreamsMember,
        configured: ConfiguredTopology,
    ) -> StreamsGroupHeartbeatResponse:
        group = decision.group
        settings = self._settings(group.group_id)
        response = StreamsGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=settings.streams_heartbeat_interval_ms,
            task_offset_interval_ms=settings.streams_task_offset_interval_ms,
            acceptable_recovery_lag=settings.streams_acceptable_recovery_lag,
        )
        is_changed = member.assigned != before.assigned
        if request.member_epoch == JOIN_EPOCH or is_changed:
            make = response_messages.TaskIds
            response.active_tasks = task_ids_of(make, member.assigned.active)
            response.standby_tasks = task_ids_of(make, member.assigned.standby)
            response.warmup_tasks = task_ids_of(make, member.assigned.warmup)
        known = group.members.get(member.member_id)
        had_endpoint = None if known is None else known.user_endpoint
        if member.user_endpoint != had_endpoint or (is_changed and member.user_endpoint is not None):
            group.endpoint_epoch += 1
        if group.endpoint_epoch != request.endpoint_information_epoch:
            response.partitions_by_user_endpoint = partitions_by_endpoint(
                self._members_with(decision, member).values(), configured, self._context.topics
            )
        if not decision.is_new:
            response.endpoint_information_epoch = group.endpoint_epoch
        problems = decision.problems
        if configured.problem is not None:
            permits = event.client.permits
            problems.append(self.internal_topics.explained(group, configured, configured.problem, permits))
        if group.shutdown_requested_by is not None:
            problems.append(
                Problem(
                    Status.SHUTDOWN_APPLICATION,
                    f"Streams group member {group.shutdown_requested_by} encountered a fatal error and "
                    "requested a shutdown for the entire application.",
                )
            )
        missing = [
            tag for tag in settings.streams_rack_aware_assignment_tags if tag not in member.client_tags
        ]
        if missing and event.client.api_version >= FIRST_VERSION_WITH_MISSING_TAGS:
            problems.append(
                Problem(
                    Status.MISSING_CLIENT_TAGS,
                    "Missing required client tags for rack-aware standby assignment: "
                    f"[{', '.join(missing)}]. "
                    "Configure them via 'client.tag.<tagKey>' in your Streams config.",
                )
            )
        response.status = [
            response_messages.Status(status_code=status, status_detail=detail) for status, detail in problems
        ]
        return response

    # Leaving

    def _leave(self, event: RequestReceived, request: StreamsGroupHeartbeatRequest) -> None:
        group_id = request.group_id
        group = self._groups.get(group_id)
        if group is None:
            known = self._context.kind_of(group_id) is not None
            reason = f"{group_id} is not a streams group." if known else f"{group_id} not found."
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {reason}")
        if request.shutdown_application:
            self._request_shutdown(group, request.member_id)
        member = _member_named(group, request)
        is_away = request.member_epoch == LEAVE_STATIC_EPOCH
        response = StreamsGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch, status=[]
        )
        self._turns.append(
            group_id,
            self.departures.static_leave_records(group, member)
            if is_away
            else self.departures.records(group, request.member_id),
            lambda: self._outbox.reply(event.request_id, response),
            lambda error: self._refuse(event, answer_for(error)),
        )

    # Helpers

    def _settings(self, group_id: str) -> GroupSettings:
        return self._context.settings.of(group_id)

    def _assignment_configs(self, group_id: str) -> dict[str, str]:
        settings = self._settings(group_id)
        configs = {STANDBY_CONFIG: str(settings.streams_num_standby_replicas)}
        if settings.streams_rack_aware_assignment_tags:
            configs[RACK_TAGS_CONFIG] = ",".join(settings.streams_rack_aware_assignment_tags)
        return configs

    def _request_shutdown(self, group: StreamsGroup, member_id: str) -> None:
        if group.shutdown_requested_by is None:
            self._outbox.note(
                "streams application shutdown requested group=%s member=%s", group.group_id, member_id
            )
            group.shutdown_requested_by = member_id


def _look_again(group: StreamsGroup) -> None:
    group.configured, group.must_look_at_topics = None, True


def _delayed(by: str) -> Problem:
    return Problem(Status.ASSIGNMENT_DELAYED, f"Assignment delayed due to the configured {by}.")


def _member_named(group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> StreamsMember:
    """The member that sends a heartbeat. Raises Refused if the group, or the instance, has another one."""
    member_id, instance_id = request.member_id, request.instance_id
    if instance_id is not None:
        owner = group.static_members.get(instance_id)
        if owner is None:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if owner != member_id:
            raise Refused(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} was fenced by member {owner}.",
            )
    member = group.members.get(member_id)
    if member is None:
        raise Refused(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}."
        )
    return member
