"""Sends consumers to a replica in their own rack (KIP-392), where replica.selector.class asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.replication.partition import Partition
from ottla.core.replica import reading
from ottla.core.settings import broker_settings

if TYPE_CHECKING:
    from ottla.broker.parts import Cluster

RACK_AWARE_SELECTOR = "RackAwareReplicaSelector"


class PreferredReplicas:
    """Chooses the replica that a consumer should read from."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        # The one class of Kafka's own that does more than name the leader.
        selector = cluster.config[broker_settings.REPLICA_SELECTOR_CLASS]
        self.selects_by_rack = (selector or "").rpartition(".")[2] == RACK_AWARE_SELECTOR
        """Whether consumers are sent to replicas in their rack."""

    def preferred_replica(self, partition: Partition, rack: str, fetch_offset: int) -> int | None:
        """The node id of the replica that a consumer in `rack` should read from; None to read here."""
        if not partition.is_replicated:
            return None
        leader = partition.leader
        brokers = self._cluster.image.brokers
        config = self._cluster.config
        listener = config.inter_broker_listener_name
        others = []
        for node_id in leader.isr:
            state, known = leader.follower(node_id), brokers.get(node_id)
            if state is not None and known is not None and not known.fenced and known.endpoint(listener):
                others.append(
                    reading.ReadableReplica(
                        node_id,
                        known.rack,
                        state.log_start_offset,
                        state.log_end_offset,
                        state.last_caught_up_ms,
                    )
                )
        return reading.preferred_replica(rack, fetch_offset, self._cluster.node_id, config.rack, others)
