"""Descriptions of topologies, which applications push and StreamsGroupDescribe gives (KIP-1331).

    StreamsGroupTopologyDescriptionUpdate 0   a member brings the description of the group's topology epoch
    StreamsGroupHeartbeat 1                   asks a member for it, while none is held

Theory of operation. A description is for people: processors, stores and topics by name. The coordinator holds
it in memory, as Apache Kafka does with the class that the setting names, and the log only has the epoch of
the topology that was described. After a load it is asked for again, at once and then after 30 s, 60 s … up to
an hour. A description that is too large counts as failed for good: the log has that epoch too, and the group
is not asked again until its topology changes.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.core.coordination.api import RequestReceived
from ottla.core.coordination.outbox import answer_for
from ottla.core.groups.context import GroupKind, ShardContext
from ottla.core.groups.streams import records
from ottla.core.groups.streams.checks import Refused
from ottla.core.groups.streams.group import (
    DescriptionAsked,
    DescriptionEpochs,
    HeldDescription,
    StreamsGroup,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import streams_group_describe_response as described
from ottla.protocol.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionNode,
)
from ottla.protocol.messages.streams_group_topology_description_update_response import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)

FIRST_HEARTBEAT_VERSION_THAT_ASKS = 1
FIRST_PAUSE_MS = 30_000
LAST_PAUSE_MS = 3_600_000
MAX_DESCRIPTION_BYTES = 1 << 20
"""The largest description that is held, as its request is encoded."""

SOURCE, PROCESSOR, SINK = 1, 2, 3
"""The types of nodes."""


class TopologyDescriptions:
    """Takes descriptions and says when a member is to bring one."""

    def __init__(self, context: ShardContext) -> None:
        self._context = context
        self._outbox = context.outbox

    # StreamsGroupHeartbeat

    def must_ask(self, group: StreamsGroup, topology_epoch: int, api_version: int) -> bool:
        """Whether the answer to a heartbeat asks for the description; it is asked for then."""
        if (
            api_version < FIRST_HEARTBEAT_VERSION_THAT_ASKS
            or not self._context.broker_settings.streams_keeps_topology_descriptions
            or group.description_epochs.failed == topology_epoch
        ):
            return False
        held, asked, now_ms = group.description, group.description_asked, self._outbox.now.steady_ms
        if held is not None and held.topology_epoch == topology_epoch:
            return False
        repetitions = 0
        if asked is not None and asked.topology_epoch == topology_epoch:
            if now_ms < asked.next_ms:
                return False
            repetitions = asked.repetitions + 1
        pause_ms = min(FIRST_PAUSE_MS << min(repetitions, 10), LAST_PAUSE_MS)
        group.description_asked = DescriptionAsked(topology_epoch, repetitions, now_ms + pause_ms)
        return True

    # StreamsGroupTopologyDescriptionUpdate

    def update(self, event: RequestReceived, request: StreamsGroupTopologyDescriptionUpdateRequest) -> None:
        """Check and hold a description; the answer comes when the log has its epoch."""
        try:
            self._check(request)
        except Refused as refused:
            self._refuse(event, refused.error, refused.message)
            return
        self._context.turns.run(request.group_id, lambda: self._update(event, request))

    def _check(self, request: StreamsGroupTopologyDescriptionUpdateRequest) -> None:
        if not self._context.broker_settings.streams_keeps_topology_descriptions:
            raise Refused(
                ErrorCode.UNSUPPORTED_VERSION,
                "The broker has no streams group topology description plugin configured.",
            )
        for name, value in (("MemberId", request.member_id), ("GroupId", request.group_id)):
            if not value.strip():
                raise Refused(ErrorCode.INVALID_REQUEST, f"{name} can't be empty.")

    def _update(self, event: RequestReceived, request: StreamsGroupTopologyDescriptionUpdateRequest) -> None:
        try:
            group = self._group_of(request)
            description = _described(request.topology_description)
        except Refused as refused:
            self._refuse(event, refused.error, refused.message)
            return
        epoch, (stored, failed) = request.topology_epoch, group.description_epochs
        size_bytes = sum(len(part) for part in request.encode_parts(event.client.api_version))
        is_held = size_bytes <= MAX_DESCRIPTION_BYTES
        record = records.group_epoch(
            group.group_id,
            group.epoch,
            group.metadata_hash,
            group.validated_topology_epoch,
            group.assignment_configs,
            DescriptionEpochs(max(stored, epoch), failed)
            if is_held
            else DescriptionEpochs(stored, max(failed, epoch)),
        )

        def done() -> None:
            if is_held:
                group.description, group.description_asked = HeldDescription(epoch, description), None
                self._outbox.reply(event.request_id, StreamsGroupTopologyDescriptionUpdateResponse())
            else:
                self._refuse(
                    event,
                    ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED,
                    f"The description takes {size_bytes} bytes, at most {MAX_DESCRIPTION_BYTES} are kept.",
                )

        self._context.turns.append(
            group.group_id, [record], done, lambda error: self._refuse(event, answer_for(error))
        )

    def _group_of(self, request: StreamsGroupTopologyDescriptionUpdateRequest) -> StreamsGroup:
        """The group whose member describes its topology. Raises Refused."""
        group_id = request.group_id
        group = self._context.streams.get(group_id)
        if group is None or not group.is_in_log:
            if self._context.kind_of(group_id) in (None, GroupKind.STREAMS):
                raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")
        if request.member_id not in group.members:
            raise Refused(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {request.member_id} is not a member of group {group_id}.",
            )
        current = -1 if group.topology is None else group.topology.epoch
        if request.topology_epoch != current:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                f"Topology epoch {request.topology_epoch} does not match the group's current topology epoch "
                f"{current}.",
            )
        return group

    def _refuse(self, event: RequestReceived, error: ErrorCode, message: str | None = None) -> None:
        self._outbox.reply(
            event.request_id,
            StreamsGroupTopologyDescriptionUpdateResponse(error_code=error, error_message=message),
        )


def _described(given: TopologyDescription) -> described.TopologyDescription:
    """The description as StreamsGroupDescribe gives it. Raises Refused for nodes that can't be."""
    stores = []
    for store in given.global_stores:
        source, processor = _node(store.source), _node(store.processor)
        if (source.node_type, processor.node_type) != (SOURCE, PROCESSOR):
            raise Refused(
                ErrorCode.INVALID_REQUEST, "Global store must be composed of a source and a processor node."
            )
        stores.append(described.TopologyDescriptionGlobalStore(source=source, processor=processor))
    return described.TopologyDescription(
        subtopologies=[
            described.TopologyDescriptionSubtopology(
                subtopology_id=each.subtopology_id, nodes=[_node(node) for node in each.nodes]
            )
            for each in given.subtopologies
        ],
        global_stores=stores,
    )


def _node(given: TopologyDescriptionNode) -> described.TopologyDescriptionNode:
    """A node, with only the fields that nodes of its type have."""
    if given.node_type not in (SOURCE, PROCESSOR, SINK):
        raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown topology node type: {given.node_type}")
    return described.TopologyDescriptionNode(
        name=given.name,
        node_type=given.node_type,
        source_topics=_once(given.source_topics) if given.node_type == SOURCE else [],
        sink_topic=given.sink_topic if given.node_type == SINK else None,
        stores=_once(given.stores) if given.node_type == PROCESSOR else [],
        successors=_once(given.successors),
    )


def _once(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
