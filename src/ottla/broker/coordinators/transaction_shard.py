"""The settings and effects of transaction shards, for their runner (coordinator_shard.py)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators.coordinator_shard import ShardFamily, ShardRunner
from ottla.broker.coordinators.transaction_markers import TransactionMarkers
from ottla.core.coordination.api import Moment
from ottla.core.image.features import TRANSACTION_VERSION
from ottla.core.settings import broker_settings
from ottla.core.transactions.api import ObtainProducerId, ProducerIdObtained, WriteMarkers
from ottla.core.transactions.responses import coordinator_error
from ottla.core.transactions.settings import TransactionSettings
from ottla.core.transactions.shard import Shard
from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.record_batch import NO_PRODUCER_ID
from ottla.protocol.records.framing import Coordinator

if TYPE_CHECKING:
    from ottla.broker.coordinators.node import TransactionShardNode
    from ottla.broker.parts import Cluster

log = logging.getLogger("ottla.broker.transactions")


def transaction_family(node: TransactionShardNode) -> ShardFamily:
    """The shards of `__transaction_state`."""
    markers = TransactionMarkers(node)

    def make(_: Moment) -> Shard:
        return Shard(transaction_settings(node))

    def perform(runner: ShardRunner, effect: Any) -> None:
        match effect:
            case WriteMarkers():
                markers.write(runner, effect)
            case ObtainProducerId(ticket):
                node.supervisor.spawn(
                    f"producer-id-{runner.partition}", _obtain_producer_id(node, runner, ticket)
                )
            case _:
                raise TypeError(f"{effect} is no effect of a transaction shard")

    return ShardFamily(
        coordinator=Coordinator.TRANSACTION,
        name="transactions",
        # Kafka leaves this topic uncompressed, whatever its settings say.
        codec=Codec.NONE,
        make=make,
        refuse=coordinator_error,
        perform=perform,
        ends_strays=True,
    )


def transaction_settings(node: Cluster) -> TransactionSettings:
    """The broker's settings for transactions, and the cluster's transaction version."""
    config = node.config
    return TransactionSettings(
        max_timeout_ms=config[broker_settings.TRANSACTION_MAX_TIMEOUT_MS],
        abort_interval_ms=config[broker_settings.TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS],
        expiration_ms=config[broker_settings.TRANSACTIONAL_ID_EXPIRATION_MS],
        expiry_interval_ms=config[broker_settings.TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS],
        two_phase_commit_enabled=config[broker_settings.TRANSACTION_TWO_PHASE_COMMIT_ENABLE],
        transaction_version=node.image.features.get(TRANSACTION_VERSION, 0),
    )


async def _obtain_producer_id(node: TransactionShardNode, runner: ShardRunner, ticket: int) -> None:
    producer_id, error = NO_PRODUCER_ID, ErrorCode.NONE
    try:
        producer_id = await node.producer_ids.next_id()
    except KafkaError as problem:
        log.warning("no producer id to be had: %s", problem)
        error = problem.code
    runner.tell(lambda at: ProducerIdObtained(at, ticket, producer_id, error))
