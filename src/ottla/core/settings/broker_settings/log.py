"""Settings of logs: segments, retention, flushing, compaction, timestamps, compression."""

from __future__ import annotations

from ottla.config.setting import (
    CLUSTER_WIDE,
    HIGH,
    LOW,
    MAX_DOUBLE,
    MAX_LONG,
    boolean,
    double,
    integer,
    long,
    string,
    string_list,
)
from ottla.config.validators import ListOf, OneOf, at_least, between
from ottla.core.settings.checks import gzip_level

LOG_SEGMENT_BYTES = integer(
    "log.segment.bytes",
    1_073_741_824,
    "The size of a segment file.",
    at_least(1_048_576),
    importance=HIGH,
    update=CLUSTER_WIDE,
)
LOG_ROLL_MS = long.optional(
    "log.roll.ms",
    "A segment is closed after this time even when it is not full; before log.roll.hours.",
    importance=HIGH,
    update=CLUSTER_WIDE,
)
LOG_ROLL_HOURS = integer(
    "log.roll.hours",
    168,
    "A segment is closed after these hours even when it is not full.",
    at_least(1),
    importance=HIGH,
)
LOG_ROLL_JITTER_MS = long.optional(
    "log.roll.jitter.ms",
    "The largest random time taken off the roll time; before log.roll.jitter.hours.",
    importance=HIGH,
    update=CLUSTER_WIDE,
)
LOG_ROLL_JITTER_HOURS = integer(
    "log.roll.jitter.hours",
    0,
    "The largest random time taken off the roll time, in hours.",
    at_least(0),
    importance=HIGH,
)
LOG_RETENTION_MS = long.optional(
    "log.retention.ms",
    "How long records are kept; -1 is for ever. Before log.retention.minutes.",
    importance=HIGH,
    update=CLUSTER_WIDE,
)
LOG_RETENTION_MINUTES = integer.optional(
    "log.retention.minutes",
    "How long records are kept, in minutes. Before log.retention.hours.",
    importance=HIGH,
)
LOG_RETENTION_HOURS = integer(
    "log.retention.hours", 168, "How long records are kept, in hours.", importance=HIGH
)
LOG_RETENTION_BYTES = long(
    "log.retention.bytes",
    -1,
    "The size of a partition above which its oldest segments go; -1 is no limit.",
    importance=HIGH,
    update=CLUSTER_WIDE,
)
LOG_RETENTION_CHECK_INTERVAL_MS = long(
    "log.retention.check.interval.ms",
    300_000,
    "How often logs are looked at for segments to delete.",
    at_least(1),
)
LOG_CLEANUP_POLICY = string_list(
    "log.cleanup.policy",
    ("delete",),
    "Whether old segments are deleted, compacted by key, or both.",
    ListOf(("compact", "delete")),
    update=CLUSTER_WIDE,
)
LOG_INDEX_SIZE_MAX_BYTES = integer(
    "log.index.size.max.bytes",
    10_485_760,
    "The largest size of an offset index.",
    at_least(4),
    update=CLUSTER_WIDE,
)
LOG_INDEX_INTERVAL_BYTES = integer(
    "log.index.interval.bytes",
    4096,
    "Bytes of records between two entries of the offset index.",
    at_least(0),
    update=CLUSTER_WIDE,
)
LOG_FLUSH_INTERVAL_MESSAGES = long(
    "log.flush.interval.messages",
    MAX_LONG,
    "Records after which a log is forced to disk.",
    at_least(1),
    importance=HIGH,
    update=CLUSTER_WIDE,
)
LOG_FLUSH_INTERVAL_MS = long.optional(
    "log.flush.interval.ms",
    "Time after which a log is forced to disk; by default that of the scheduler.",
    importance=HIGH,
    update=CLUSTER_WIDE,
)
LOG_FLUSH_SCHEDULER_INTERVAL_MS = long(
    "log.flush.scheduler.interval.ms", MAX_LONG, "How often logs are looked at for flushing.", importance=HIGH
)
LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS = integer(
    "log.flush.offset.checkpoint.interval.ms",
    60_000,
    "How often the recovery points are written.",
    at_least(0),
    importance=HIGH,
)
LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS = integer(
    "log.flush.start.offset.checkpoint.interval.ms",
    60_000,
    "How often the log start offsets are written.",
    at_least(0),
    importance=HIGH,
)
LOG_SEGMENT_DELETE_DELAY_MS = long(
    "log.segment.delete.delay.ms",
    60_000,
    "Time between a file being renamed for deletion and its removal.",
    at_least(0),
    importance=HIGH,
    update=CLUSTER_WIDE,
)
LOG_PREALLOCATE = boolean(
    "log.preallocate", False, "Whether a segment file gets its full size at once.", update=CLUSTER_WIDE
)
LOG_DIR_FAILURE_TIMEOUT_MS = long(
    "log.dir.failure.timeout.ms",
    30_000,
    "A broker whose data directory failed stops when it cannot tell the controller in this time.",
    at_least(1),
    importance=LOW,
)
LOG_INITIAL_TASK_DELAY_MS = long(
    "log.initial.task.delay.ms",
    30_000,
    "Time before retention and the checkpoints of offsets first run.",
    at_least(0),
    importance=LOW,
    internal=True,
)
LOG_MESSAGE_TIMESTAMP_TYPE = string(
    "log.message.timestamp.type",
    "CreateTime",
    "Whether records keep their producer's time or get that of the append.",
    OneOf(("CreateTime", "LogAppendTime")),
    update=CLUSTER_WIDE,
)
LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS = long(
    "log.message.timestamp.before.max.ms",
    MAX_LONG,
    "How far in the past a record's timestamp may lie.",
    at_least(0),
    update=CLUSTER_WIDE,
)
LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS = long(
    "log.message.timestamp.after.max.ms",
    3_600_000,
    "How far in the future a record's timestamp may lie.",
    at_least(0),
    update=CLUSTER_WIDE,
)
LOG_CLEANER_ENABLE = boolean("log.cleaner.enable", True, "Whether compaction runs.")
LOG_CLEANER_THREADS = integer(
    "log.cleaner.threads", 1, "Threads that compact.", at_least(0), update=CLUSTER_WIDE
)
LOG_CLEANER_IO_MAX_BYTES_PER_SECOND = double(
    "log.cleaner.io.max.bytes.per.second",
    MAX_DOUBLE,
    "Bytes a second that compaction may read and write.",
    update=CLUSTER_WIDE,
)
LOG_CLEANER_DEDUPE_BUFFER_SIZE = long(
    "log.cleaner.dedupe.buffer.size",
    134_217_728,
    "Memory for the keys of a compaction, all threads together.",
    update=CLUSTER_WIDE,
)
LOG_CLEANER_IO_BUFFER_SIZE = integer(
    "log.cleaner.io.buffer.size",
    524_288,
    "Memory for reading and writing during compaction, all threads together.",
    at_least(0),
    update=CLUSTER_WIDE,
)
LOG_CLEANER_IO_BUFFER_LOAD_FACTOR = double(
    "log.cleaner.io.buffer.load.factor",
    0.9,
    "How full the buffer of keys may become, from 0 to 1.",
    update=CLUSTER_WIDE,
)
LOG_CLEANER_BACKOFF_MS = long(
    "log.cleaner.backoff.ms",
    15_000,
    "Time to sleep when there is nothing to compact.",
    at_least(0),
    update=CLUSTER_WIDE,
)
LOG_CLEANER_MIN_CLEANABLE_RATIO = double(
    "log.cleaner.min.cleanable.ratio",
    0.5,
    "The share of a log that must be uncompacted before it is compacted.",
    between(0, 1),
    update=CLUSTER_WIDE,
)
LOG_CLEANER_DELETE_RETENTION_MS = long(
    "log.cleaner.delete.retention.ms",
    86_400_000,
    "How long the markers of deleted keys and transactions stay.",
    at_least(0),
    update=CLUSTER_WIDE,
)
LOG_CLEANER_MIN_COMPACTION_LAG_MS = long(
    "log.cleaner.min.compaction.lag.ms",
    0,
    "How long a record stays before it may be compacted away.",
    at_least(0),
    update=CLUSTER_WIDE,
)
LOG_CLEANER_MAX_COMPACTION_LAG_MS = long(
    "log.cleaner.max.compaction.lag.ms",
    MAX_LONG,
    "How long a record may stay uncompacted.",
    at_least(1),
    update=CLUSTER_WIDE,
)
LOG_LOCAL_RETENTION_MS = long(
    "log.local.retention.ms",
    -2,
    "How long segments stay here after they were copied to remote storage; -2 is as long as the retention.",
    at_least(-2),
    update=CLUSTER_WIDE,
)
LOG_LOCAL_RETENTION_BYTES = long(
    "log.local.retention.bytes",
    -2,
    "The size kept here of a partition in remote storage; -2 is the size of the retention.",
    at_least(-2),
    update=CLUSTER_WIDE,
)
LOG_REMOTE_COPY_LAG_MS = long(
    "log.remote.copy.lag.ms",
    0,
    "How old a closed segment is before it is copied to remote storage; -1 is local.retention.ms.",
    at_least(-1),
    update=CLUSTER_WIDE,
)
LOG_REMOTE_COPY_LAG_BYTES = long(
    "log.remote.copy.lag.bytes",
    -1,
    "Bytes after a closed segment before it is copied to remote storage; -1 is local.retention.bytes.",
    at_least(-1),
    update=CLUSTER_WIDE,
)
MAX_DECOMPRESSED_MESSAGE_BYTES = integer(
    "max.decompressed.message.bytes",
    2_147_483_639,
    "The largest size of one record, unfolded, that is taken in a compressed batch.",
    between(1, 2_147_483_639),
    update=CLUSTER_WIDE,
)
MESSAGE_MAX_BYTES = integer(
    "message.max.bytes",
    1_048_588,
    "The largest record batch that is taken.",
    at_least(0),
    importance=HIGH,
    update=CLUSTER_WIDE,
)
COMPRESSION_TYPE = string(
    "compression.type",
    "producer",
    "The codec that batches are stored in; `producer` keeps that of the producer.",
    OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
    importance=HIGH,
    update=CLUSTER_WIDE,
)
COMPRESSION_GZIP_LEVEL = integer(
    "compression.gzip.level",
    -1,
    "The level of gzip when the broker compresses.",
    gzip_level,
    update=CLUSTER_WIDE,
)
COMPRESSION_LZ4_LEVEL = integer(
    "compression.lz4.level",
    9,
    "The level of lz4 when the broker compresses.",
    between(1, 17),
    update=CLUSTER_WIDE,
)
COMPRESSION_ZSTD_LEVEL = integer(
    "compression.zstd.level",
    3,
    "The level of zstd when the broker compresses.",
    between(-131_072, 22),
    update=CLUSTER_WIDE,
)
