"""Every setting of a topic, and the broker settings that they default to."""

from __future__ import annotations

from typing import Any

from ottla.config.setting import (
    MAX_LONG,
    Setting,
    boolean,
    by_name,
    double,
    integer,
    long,
    repeating_list,
    string,
    string_list,
)
from ottla.config.validators import ListOf, OneOf, at_least, between
from ottla.core.settings.checks import gzip_level, throttled_replicas

CLEANUP_POLICY = string_list(
    "cleanup.policy",
    ("delete",),
    "Whether old segments are deleted, compacted by key, or both.",
    ListOf(("compact", "delete")),
)
COMPRESSION_GZIP_LEVEL = integer(
    "compression.gzip.level", -1, "The level of gzip when the broker compresses.", gzip_level
)
COMPRESSION_LZ4_LEVEL = integer(
    "compression.lz4.level", 9, "The level of lz4 when the broker compresses.", between(1, 17)
)
COMPRESSION_TYPE = string(
    "compression.type",
    "producer",
    "The codec that batches are stored in; `producer` keeps that of the producer.",
    OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
)
COMPRESSION_ZSTD_LEVEL = integer(
    "compression.zstd.level", 3, "The level of zstd when the broker compresses.", between(-131_072, 22)
)
DELETE_RETENTION_MS = long(
    "delete.retention.ms",
    86_400_000,
    "How long the markers of deleted keys and transactions stay in a compacted topic.",
    at_least(0),
)
ERRORS_DEADLETTERQUEUE_GROUP_ENABLE = boolean(
    "errors.deadletterqueue.group.enable",
    False,
    "Whether share groups may write their dead letters to the topic.",
)
FILE_DELETE_DELAY_MS = long(
    "file.delete.delay.ms",
    60_000,
    "Time between a file being renamed for deletion and its removal.",
    at_least(0),
)
FLUSH_MESSAGES = long(
    "flush.messages", MAX_LONG, "Records after which the log is forced to disk.", at_least(1)
)
FLUSH_MS = long("flush.ms", MAX_LONG, "Time after which the log is forced to disk.", at_least(0))
FOLLOWER_REPLICATION_THROTTLED_REPLICAS = repeating_list(
    "follower.replication.throttled.replicas",
    (),
    "Replicas whose fetching is throttled, as partition:broker pairs, or * for all.",
    throttled_replicas,
)
INDEX_INTERVAL_BYTES = integer(
    "index.interval.bytes", 4096, "Bytes of records between two entries of the offset index.", at_least(0)
)
INTERNAL_SEGMENT_BYTES = integer.optional(
    "internal.segment.bytes", "The segment size without its lower limit; for tests.", internal=True
)
LEADER_REPLICATION_THROTTLED_REPLICAS = repeating_list(
    "leader.replication.throttled.replicas",
    (),
    "Replicas whose serving is throttled, as partition:broker pairs, or * for all.",
    throttled_replicas,
)
LOCAL_RETENTION_BYTES = long(
    "local.retention.bytes",
    -2,
    "The size kept here of a partition in remote storage; -2 is the size of the retention.",
    at_least(-2),
)
LOCAL_RETENTION_MS = long(
    "local.retention.ms",
    -2,
    "How long segments stay here after they were copied to remote storage; -2 is as long as the retention.",
    at_least(-2),
)
MAX_COMPACTION_LAG_MS = long(
    "max.compaction.lag.ms", MAX_LONG, "How long a record may stay uncompacted.", at_least(1)
)
MAX_DECOMPRESSED_MESSAGE_BYTES = integer(
    "max.decompressed.message.bytes",
    2_147_483_639,
    "The largest size of one record, unfolded, that is taken in a compressed batch.",
    between(1, 2_147_483_639),
)
MAX_MESSAGE_BYTES = integer(
    "max.message.bytes", 1_048_588, "The largest record batch that is taken.", at_least(0)
)
MESSAGE_TIMESTAMP_AFTER_MAX_MS = long(
    "message.timestamp.after.max.ms",
    3_600_000,
    "How far in the future a record's timestamp may lie.",
    at_least(0),
)
MESSAGE_TIMESTAMP_BEFORE_MAX_MS = long(
    "message.timestamp.before.max.ms",
    MAX_LONG,
    "How far in the past a record's timestamp may lie.",
    at_least(0),
)
MESSAGE_TIMESTAMP_TYPE = string(
    "message.timestamp.type",
    "CreateTime",
    "Whether records keep their producer's time or get that of the append.",
    OneOf(("CreateTime", "LogAppendTime")),
)
MIN_CLEANABLE_DIRTY_RATIO = double(
    "min.cleanable.dirty.ratio",
    0.5,
    "The share of the log that must be uncompacted before it is compacted.",
    between(0, 1),
)
MIN_COMPACTION_LAG_MS = long(
    "min.compaction.lag.ms", 0, "How long a record stays before it may be compacted away.", at_least(0)
)
MIN_INSYNC_REPLICAS = integer(
    "min.insync.replicas",
    1,
    "Replicas that must be in sync for a write with acks=all to be taken.",
    at_least(1),
)
PREALLOCATE = boolean("preallocate", False, "Whether a segment file gets its full size at once.")
REMOTE_COPY_LAG_BYTES = long(
    "remote.copy.lag.bytes",
    -1,
    "Bytes after a closed segment before it is copied to remote storage; -1 is local.retention.bytes.",
    at_least(-1),
)
REMOTE_COPY_LAG_MS = long(
    "remote.copy.lag.ms",
    0,
    "How old a closed segment is before it is copied to remote storage; -1 is local.retention.ms.",
    at_least(-1),
)
REMOTE_LOG_COPY_DISABLE = boolean(
    "remote.log.copy.disable", False, "Whether segments are no longer copied to remote storage."
)
REMOTE_LOG_DELETE_ON_DISABLE = boolean(
    "remote.log.delete.on.disable",
    False,
    "Whether segments in remote storage are deleted when remote storage is switched off.",
)
REMOTE_STORAGE_ENABLE = boolean(
    "remote.storage.enable", False, "Whether old segments are moved to remote storage."
)
RETENTION_BYTES = long(
    "retention.bytes", -1, "The size of a partition above which its oldest segments go; -1 is no limit."
)
RETENTION_MS = long("retention.ms", 604_800_000, "How long records are kept; -1 is for ever.", at_least(-1))
SEGMENT_BYTES = integer("segment.bytes", 1_073_741_824, "The size of a segment file.", at_least(1_048_576))
SEGMENT_INDEX_BYTES = integer(
    "segment.index.bytes", 10_485_760, "The largest size of the offset index.", at_least(4)
)
SEGMENT_JITTER_MS = long(
    "segment.jitter.ms", 0, "The largest random time taken off the roll time.", at_least(0)
)
SEGMENT_MS = long(
    "segment.ms", 604_800_000, "A segment is closed after this time even when it is not full.", at_least(1)
)
UNCLEAN_LEADER_ELECTION_ENABLE = boolean(
    "unclean.leader.election.enable",
    False,
    "Whether a replica out of sync may lead when no other is left, at the price of lost records.",
)

TOPIC_SETTINGS: dict[str, Setting[Any]] = by_name(globals().values())

#: The broker settings that give a topic setting its default (the first that has a value wins), each with its
#: unit in units of the topic setting.
BROKER_SYNONYMS: dict[str, tuple[tuple[str, int], ...]] = {
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "compression.gzip.level": (("compression.gzip.level", 1),),
    "compression.lz4.level": (("compression.lz4.level", 1),),
    "compression.type": (("compression.type", 1),),
    "compression.zstd.level": (("compression.zstd.level", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (
        ("log.flush.interval.ms", 1),
        ("log.flush.scheduler.interval.ms", 1),
    ),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "max.decompressed.message.bytes": (("max.decompressed.message.bytes", 1),),
    "max.message.bytes": (("message.max.bytes", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "min.insync.replicas": (("min.insync.replicas", 1),),
    "preallocate": (("log.preallocate", 1),),
    "remote.copy.lag.bytes": (("log.remote.copy.lag.bytes", 1),),
    "remote.copy.lag.ms": (("log.remote.copy.lag.ms", 1),),
    "retention.bytes": (("log.retention.bytes", 1),),
    "retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", 60_000),
        ("log.retention.hours", 3_600_000),
    ),
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "segment.jitter.ms": (
        ("log.roll.jitter.ms", 1),
        ("log.roll.jitter.hours", 3_600_000),
    ),
    "segment.ms": (
        ("log.roll.ms", 1),
        ("log.roll.hours", 3_600_000),
    ),
    "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
}
