"""What the group coordinator gives to the runner of its shards (coordinator_shard.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinator_shard import ShardFamily
from ottla.core.groups.responses import coordinator_error
from ottla.core.metadata import broker_settings
from ottla.protocol.apis import ApiKey
from ottla.protocol.compression import Codec
from ottla.protocol.records.framing import Coordinator

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.group_inputs import GroupInputs


def group_family(broker: Broker, inputs: GroupInputs) -> ShardFamily:
    """The shards of `__consumer_offsets`."""
    return ShardFamily(
        coordinator=Coordinator.GROUP,
        name="groups",
        codec=Codec(broker.config[broker_settings.OFFSETS_TOPIC_COMPRESSION_CODEC]),
        make=inputs.new_shard,
        refuse=coordinator_error,
        needs_random_bits=frozenset({ApiKey.JOIN_GROUP}),
    )
