"""Settings of transactions and idempotent producers."""

from __future__ import annotations

from ottla.config.setting import CLUSTER_WIDE, HIGH, LOW, boolean, integer, short
from ottla.config.validators import at_least

TRANSACTION_MAX_TIMEOUT_MS = integer(
    "transaction.max.timeout.ms",
    900_000,
    "The longest transaction timeout that a producer may ask for.",
    at_least(1),
    importance=HIGH,
)
TRANSACTIONAL_ID_EXPIRATION_MS = integer(
    "transactional.id.expiration.ms",
    604_800_000,
    "A transactional id that was not used for this time is forgotten.",
    at_least(1),
    importance=HIGH,
)
TRANSACTION_STATE_LOG_NUM_PARTITIONS = integer(
    "transaction.state.log.num.partitions",
    50,
    "Partitions of the topic of transaction states; must not change once it exists.",
    at_least(1),
    importance=HIGH,
)
TRANSACTION_STATE_LOG_REPLICATION_FACTOR = short(
    "transaction.state.log.replication.factor",
    3,
    "Replicas of the topic of transaction states.",
    at_least(1),
    importance=HIGH,
)
TRANSACTION_STATE_LOG_MIN_ISR = integer(
    "transaction.state.log.min.isr",
    2,
    "min.insync.replicas of the topic of transaction states.",
    at_least(1),
    importance=HIGH,
)
TRANSACTION_STATE_LOG_SEGMENT_BYTES = integer(
    "transaction.state.log.segment.bytes",
    104_857_600,
    "The segment size of the topic of transaction states.",
    at_least(1),
    importance=HIGH,
)
TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE = integer(
    "transaction.state.log.load.buffer.size",
    5_242_880,
    "Bytes read at once while a coordinator loads its transactions.",
    at_least(1),
    importance=HIGH,
)
TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS = integer(
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    10_000,
    "How often transactions past their timeout are aborted.",
    at_least(1),
    importance=LOW,
)
TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS = integer(
    "transaction.remove.expired.transaction.cleanup.interval.ms",
    3_600_000,
    "How often expired transactional ids are removed.",
    at_least(1),
    importance=LOW,
)
TRANSACTION_PARTITION_VERIFICATION_ENABLE = boolean(
    "transaction.partition.verification.enable",
    True,
    "Whether a partition asks the coordinator if a transaction is running before it takes its records.",
    importance=LOW,
    update=CLUSTER_WIDE,
)
TRANSACTION_TWO_PHASE_COMMIT_ENABLE = boolean(
    "transaction.two.phase.commit.enable",
    False,
    "Whether producers may take part in two-phase commits.",
    importance=LOW,
)
ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MS = integer(
    "add.partitions.to.txn.retry.backoff.ms",
    20,
    "Time to wait before adding partitions to a transaction again.",
    at_least(1),
    importance=HIGH,
)
ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MAX_MS = integer(
    "add.partitions.to.txn.retry.backoff.max.ms",
    100,
    "The longest time that adding partitions to a transaction is tried again on the broker.",
    at_least(0),
    importance=HIGH,
)
PRODUCER_ID_EXPIRATION_MS = integer(
    "producer.id.expiration.ms",
    86_400_000,
    "A producer id that wrote nothing for this time is forgotten by a partition.",
    at_least(1),
    importance=LOW,
    update=CLUSTER_WIDE,
)
PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS = integer(
    "producer.id.expiration.check.interval.ms",
    600_000,
    "How often producer ids are looked at for expiry.",
    at_least(1),
    importance=LOW,
    internal=True,
)
