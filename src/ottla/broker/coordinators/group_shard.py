"""The settings and effects of group shards, for their runner (coordinator_shard.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.coordinator_shard import ShardFamily, ShardRunner
from ottla.broker.coordinators.streams_topics import create_internal_topics
from ottla.core.groups.context import GroupKind
from ottla.core.groups.responses import coordinator_error
from ottla.core.groups.shard import Shard
from ottla.core.groups.share.api import AskShareCoordinator, ShareCoordinatorAnswered, ShareStateResponse
from ottla.core.groups.streams.api import CreateInternalTopics
from ottla.core.settings import broker_settings
from ottla.protocol.apis import ApiKey
from ottla.protocol.compression import Codec
from ottla.protocol.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
from ottla.protocol.records.consumer_group_metadata_key import ConsumerGroupMetadataKey
from ottla.protocol.records.framing import Coordinator
from ottla.protocol.records.group_metadata_key import GroupMetadataKey
from ottla.protocol.records.share_group_metadata_key import ShareGroupMetadataKey
from ottla.protocol.records.streams_group_metadata_key import StreamsGroupMetadataKey

if TYPE_CHECKING:
    from ottla.broker.coordinators.group_inputs import GroupInputs
    from ottla.broker.coordinators.node import GroupShardNode


def group_family(node: GroupShardNode, inputs: GroupInputs) -> ShardFamily:
    """The shards of `__consumer_offsets`."""
    return ShardFamily(
        coordinator=Coordinator.GROUP,
        name="groups",
        codec=Codec(node.config[broker_settings.OFFSETS_TOPIC_COMPRESSION_CODEC]),
        make=inputs.new_shard,
        replay_bytes=Shard.replay_bytes,
        refuse=coordinator_error,
        perform=lambda runner, effect: _perform(node, runner, effect),
        needs_random_bits=frozenset({ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT}),
        rebalance_keys={
            GroupMetadataKey: GroupKind.CLASSIC.value,
            ConsumerGroupMetadataKey: GroupKind.CONSUMER.value,
            ShareGroupMetadataKey: GroupKind.SHARE.value,
            StreamsGroupMetadataKey: GroupKind.STREAMS.value,
        },
    )


def _perform(node: GroupShardNode, runner: ShardRunner, effect: Any) -> None:
    """Perform the effects that only group shards have."""
    match effect:
        case AskShareCoordinator():
            name = f"share-state-of-groups-{runner.partition}"
            node.supervisor.spawn(name, _ask_share_coordinator(node, runner, effect))
        case CreateInternalTopics():
            create_internal_topics(node, runner, effect)
        case _:
            raise TypeError(f"nobody performs {effect}")


async def _ask_share_coordinator(
    node: GroupShardNode, runner: ShardRunner, effect: AskShareCoordinator
) -> None:
    """Ask, and tell the shard the answer, unless it has ended meanwhile."""
    if runner.resigned:
        return  # A request of the next shard must not be undone by one of this shard.
    answer: ShareStateResponse
    if isinstance(effect.request, InitializeShareGroupStateRequest):
        answer = await node.share_state.initialize(effect.request)
    else:
        answer = await node.share_state.delete(effect.request)
    runner.tell(lambda at: ShareCoordinatorAnswered(at, effect.call_id, answer))
