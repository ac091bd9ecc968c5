"""The settings of the partitions held here, read from the layers once a change and not once a batch.

A topic's settings come from its own values and the broker's (core/settings/config_layers), so a change of
either makes all derived values anew.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from ottla.core.links.topic_state import is_mirror
from ottla.core.settings import broker_settings, topic_settings
from ottla.core.settings.config_layers import TopicConfig
from ottla.protocol.batch_validation import BatchRules
from ottla.protocol.compression import Codec
from ottla.protocol.errors import PolicyViolation
from ottla.storage.log import LogConfig

if TYPE_CHECKING:
    from ottla.broker.config import BrokerConfig
    from ottla.broker.parts import Cluster
    from ottla.broker.replication.replication_quota import ReplicationQuotas
    from ottla.broker.replication.schema_validation import SchemaValidation


class ReplicationSettings:
    """The broker's settings for its replicas, and by topic those of its batches, logs and in-sync sets."""

    def __init__(self, cluster: Cluster, quotas: ReplicationQuotas, schemas: SchemaValidation) -> None:
        self._cluster = cluster
        self._quotas = quotas
        self._schemas = schemas
        self.batch_rules: dict[str, BatchRules] = {}
        """A mirror topic has none, which is how an append to one is found without a look at each."""
        self.log_configs: dict[str, LogConfig] = {}
        self.min_insync_replicas: dict[str, int] = {}
        self.fetch_max_bytes = 0
        self.verifies_transactions = True
        """transaction.partition.verification.enable (KIP-890)."""
        self._read_broker()

    def _read_broker(self) -> None:
        config = self._cluster.config
        self.fetch_max_bytes = config[broker_settings.FETCH_MAX_BYTES]
        self.verifies_transactions = config[broker_settings.TRANSACTION_PARTITION_VERIFICATION_ENABLE]

    def configure_broker(self) -> None:
        """Take over the broker's settings; those of topics follow, by `configure_topic` for each."""
        self._read_broker()
        self._quotas.configure()

    def configure_topic(self, topic: str) -> None:
        """Take over a topic's settings."""
        broker_config = self._cluster.config
        config = broker_config.for_topic(topic, self._cluster.image)
        if is_mirror(self._cluster.image, topic):
            self.batch_rules.pop(topic, None)
        else:
            self.batch_rules[topic] = _batch_rules(config)
        self.log_configs[topic] = _log_config(config, broker_config)
        self.min_insync_replicas[topic] = config[topic_settings.MIN_INSYNC_REPLICAS]
        self._quotas.configure_topic(topic, config)
        self._schemas.configure(topic, config)

    def rules_of(self, topic: str) -> BatchRules:
        """The rules of a topic's batches. Raises PolicyViolation for a mirror topic."""
        rules = self.batch_rules.get(topic)
        if rules is None:
            raise read_only(topic)
        return rules

    def forget_topic(self, topic: str) -> None:
        """The topic is deleted."""
        self.batch_rules.pop(topic, None)
        self.log_configs.pop(topic, None)
        self.min_insync_replicas.pop(topic, None)
        self._schemas.forget(topic)
        self._quotas.forget_topic(topic)


def read_only(topic: str) -> PolicyViolation:
    """The refusal of writes to a mirror topic; no client tries it again."""
    return PolicyViolation(
        f"topic {topic} is a mirror of another cluster's, read-only until it is promoted or failed over"
    )


def _batch_rules(config: TopicConfig) -> BatchRules:
    """The conditions on a produced batch of the topic, and the changes that it gets."""
    codec, level = _compression(config)
    return BatchRules(
        max_message_bytes=config[topic_settings.MAX_MESSAGE_BYTES],
        max_decompressed_message_bytes=config[topic_settings.MAX_DECOMPRESSED_MESSAGE_BYTES],
        compacted="compact" in config[topic_settings.CLEANUP_POLICY],
        log_append_time=config[topic_settings.MESSAGE_TIMESTAMP_TYPE] == "LogAppendTime",
        timestamp_before_max_ms=config[topic_settings.MESSAGE_TIMESTAMP_BEFORE_MAX_MS],
        timestamp_after_max_ms=config[topic_settings.MESSAGE_TIMESTAMP_AFTER_MAX_MS],
        codec=codec,
        codec_level=level,
    )


def _compression(config: TopicConfig) -> tuple[Codec | None, int | None]:
    """The codec that a topic insists on with its level; None keeps the producer's."""
    match config[topic_settings.COMPRESSION_TYPE]:
        case "uncompressed":
            return Codec.NONE, None
        case "gzip":
            return Codec.GZIP, config[topic_settings.COMPRESSION_GZIP_LEVEL]
        case "snappy":
            return Codec.SNAPPY, None
        case "lz4":
            return Codec.LZ4, config[topic_settings.COMPRESSION_LZ4_LEVEL]
        case "zstd":
            return Codec.ZSTD, config[topic_settings.COMPRESSION_ZSTD_LEVEL]
        case _:
            return None, None


def _log_config(config: TopicConfig, broker_config: BrokerConfig) -> LogConfig:
    """A topic's settings as its logs need them."""
    jitter_ms = config[topic_settings.SEGMENT_JITTER_MS]
    cleanup_policy = config[topic_settings.CLEANUP_POLICY]
    return LogConfig(
        segment_bytes=config[topic_settings.SEGMENT_BYTES],
        # Records that may not stay uncompacted for long may not stay in the active segment either.
        segment_ms=min(config[topic_settings.SEGMENT_MS], config[topic_settings.MAX_COMPACTION_LAG_MS])
        if "compact" in cleanup_policy
        else config[topic_settings.SEGMENT_MS],
        segment_jitter_ms=random.randrange(jitter_ms) if jitter_ms > 0 else 0,
        segment_index_bytes=config[topic_settings.SEGMENT_INDEX_BYTES],
        index_interval_bytes=config[topic_settings.INDEX_INTERVAL_BYTES],
        retention_ms=config[topic_settings.RETENTION_MS],
        retention_bytes=config[topic_settings.RETENTION_BYTES],
        flush_messages=config[topic_settings.FLUSH_MESSAGES],
        flush_ms=config[topic_settings.FLUSH_MS],
        file_delete_delay_ms=config[topic_settings.FILE_DELETE_DELAY_MS],
        cleanup_policy=frozenset(cleanup_policy),
        producer_id_expiration_ms=broker_config[broker_settings.PRODUCER_ID_EXPIRATION_MS],
        delete_retention_ms=config[topic_settings.DELETE_RETENTION_MS],
        min_compaction_lag_ms=config[topic_settings.MIN_COMPACTION_LAG_MS],
        max_compaction_lag_ms=config[topic_settings.MAX_COMPACTION_LAG_MS],
        min_cleanable_dirty_ratio=config[topic_settings.MIN_CLEANABLE_DIRTY_RATIO],
    )
