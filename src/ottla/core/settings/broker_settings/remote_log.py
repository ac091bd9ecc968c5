"""Settings of remote storage for old segments."""

from __future__ import annotations

from ottla.config.setting import CLUSTER_WIDE, LOW, MAX_LONG, boolean, double, integer, long, string
from ottla.config.validators import at_least, between, not_empty

REMOTE_LOG_STORAGE_SYSTEM_ENABLE = boolean(
    "remote.log.storage.system.enable", False, "Whether old segments may be moved to remote storage."
)
REMOTE_LOG_STORAGE_MANAGER_CLASS_NAME = string.optional(
    "remote.log.storage.manager.class.name", "The class that stores segments remotely.", not_empty
)
REMOTE_LOG_STORAGE_MANAGER_CLASS_PATH = string.optional(
    "remote.log.storage.manager.class.path", "Where that class is found."
)
REMOTE_LOG_STORAGE_MANAGER_IMPL_PREFIX = string(
    "remote.log.storage.manager.impl.prefix",
    "rsm.config.",
    "The prefix of the settings that it is given.",
    not_empty,
)
REMOTE_LOG_METADATA_MANAGER_CLASS_NAME = string(
    "remote.log.metadata.manager.class.name",
    "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
    "The class that keeps the metadata of remote segments.",
    not_empty,
)
REMOTE_LOG_METADATA_MANAGER_CLASS_PATH = string.optional(
    "remote.log.metadata.manager.class.path", "Where that class is found."
)
REMOTE_LOG_METADATA_MANAGER_IMPL_PREFIX = string(
    "remote.log.metadata.manager.impl.prefix",
    "rlmm.config.",
    "The prefix of the settings that it is given.",
    not_empty,
)
REMOTE_LOG_METADATA_MANAGER_LISTENER_NAME = string.optional(
    "remote.log.metadata.manager.listener.name", "The listener that it connects to.", not_empty
)
REMOTE_LOG_METADATA_CUSTOM_METADATA_MAX_BYTES = integer(
    "remote.log.metadata.custom.metadata.max.bytes",
    128,
    "The largest metadata of its own that a remote storage may add to a segment.",
    at_least(0),
    importance=LOW,
)
REMOTE_LOG_MANAGER_THREAD_POOL_SIZE = integer(
    "remote.log.manager.thread.pool.size", 2, "Threads that schedule work on remote segments.", at_least(1)
)
REMOTE_LOG_MANAGER_COPIER_THREAD_POOL_SIZE = integer(
    "remote.log.manager.copier.thread.pool.size",
    10,
    "Threads that copy segments to remote storage.",
    at_least(1),
    update=CLUSTER_WIDE,
)
REMOTE_LOG_MANAGER_EXPIRATION_THREAD_POOL_SIZE = integer(
    "remote.log.manager.expiration.thread.pool.size",
    10,
    "Threads that remove expired segments from remote storage.",
    at_least(1),
    update=CLUSTER_WIDE,
)
REMOTE_LOG_MANAGER_FOLLOWER_THREAD_POOL_SIZE = integer(
    "remote.log.manager.follower.thread.pool.size",
    2,
    "Threads that follow remote segments for replicas that do not lead.",
    at_least(1),
    update=CLUSTER_WIDE,
)
REMOTE_LOG_MANAGER_TASK_INTERVAL_MS = long(
    "remote.log.manager.task.interval.ms",
    30_000,
    "How often work on remote segments runs.",
    at_least(1),
    importance=LOW,
)
REMOTE_LOG_MANAGER_TASK_RETRY_BACKOFF_MS = long(
    "remote.log.manager.task.retry.backoff.ms",
    500,
    "Time to wait before failed work on remote segments is tried again.",
    at_least(1),
    importance=LOW,
    internal=True,
)
REMOTE_LOG_MANAGER_TASK_RETRY_BACKOFF_MAX_MS = long(
    "remote.log.manager.task.retry.backoff.max.ms",
    30_000,
    "The longest time to wait before it is tried again.",
    at_least(1),
    importance=LOW,
    internal=True,
)
REMOTE_LOG_MANAGER_TASK_RETRY_JITTER = double(
    "remote.log.manager.task.retry.jitter",
    0.2,
    "The random part of that time.",
    between(0, 0.5),
    importance=LOW,
    internal=True,
)
REMOTE_LOG_MANAGER_COPY_MAX_BYTES_PER_SECOND = long(
    "remote.log.manager.copy.max.bytes.per.second",
    MAX_LONG,
    "Bytes a second that may be copied to remote storage.",
    at_least(1),
    update=CLUSTER_WIDE,
)
REMOTE_LOG_MANAGER_COPY_QUOTA_WINDOW_NUM = integer(
    "remote.log.manager.copy.quota.window.num",
    11,
    "Samples that the copy quota is computed from.",
    at_least(1),
)
REMOTE_LOG_MANAGER_COPY_QUOTA_WINDOW_SIZE_SECONDS = integer(
    "remote.log.manager.copy.quota.window.size.seconds",
    1,
    "Seconds that one sample of the copy quota covers.",
    at_least(1),
)
REMOTE_LOG_MANAGER_FETCH_MAX_BYTES_PER_SECOND = long(
    "remote.log.manager.fetch.max.bytes.per.second",
    MAX_LONG,
    "Bytes a second that may be read from remote storage.",
    at_least(1),
    update=CLUSTER_WIDE,
)
REMOTE_LOG_MANAGER_FETCH_QUOTA_WINDOW_NUM = integer(
    "remote.log.manager.fetch.quota.window.num",
    11,
    "Samples that the fetch quota is computed from.",
    at_least(1),
)
REMOTE_LOG_MANAGER_FETCH_QUOTA_WINDOW_SIZE_SECONDS = integer(
    "remote.log.manager.fetch.quota.window.size.seconds",
    1,
    "Seconds that one sample of the fetch quota covers.",
    at_least(1),
)
REMOTE_LOG_INDEX_FILE_CACHE_TOTAL_SIZE_BYTES = long(
    "remote.log.index.file.cache.total.size.bytes",
    1_073_741_824,
    "The size of the cache of remote index files.",
    at_least(1),
    importance=LOW,
    update=CLUSTER_WIDE,
)
REMOTE_LOG_INDEX_FILE_CACHE_TTL_MS = long(
    "remote.log.index.file.cache.ttl.ms",
    900_000,
    "How long an unused remote index file stays in the cache; -1 is for ever.",
    at_least(-1),
    importance=LOW,
    internal=True,
)
REMOTE_LOG_READER_THREADS = integer(
    "remote.log.reader.threads",
    10,
    "Threads that read from remote storage.",
    at_least(1),
    update=CLUSTER_WIDE,
)
REMOTE_LOG_READER_MAX_PENDING_TASKS = integer(
    "remote.log.reader.max.pending.tasks", 100, "Reads from remote storage that may wait.", at_least(1)
)
REMOTE_FETCH_MAX_WAIT_MS = integer(
    "remote.fetch.max.wait.ms",
    500,
    "The longest time that a fetch waits for remote storage.",
    at_least(1),
    update=CLUSTER_WIDE,
)
REMOTE_LIST_OFFSETS_REQUEST_TIMEOUT_MS = long(
    "remote.list.offsets.request.timeout.ms",
    30_000,
    "How long a look-up of offsets in remote storage may take.",
    at_least(1),
    update=CLUSTER_WIDE,
)
