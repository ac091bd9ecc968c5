"""The metrics of `ottla broker`: a broker's, a controller's, or both.

Names are those that Strimzi's rules make of Apache Kafka's MBeans, as the common dashboards query them;
metrics that Kafka lacks begin with `ottla_`.
"""

from __future__ import annotations

from typing import Final

from ottla.metrics.metric import Dashboard, Kind, Metric, Panel, Unit
from ottla.metrics.tables import metrics_in

TITLE: Final = "Brokers and controllers"

PARTITION_SERIES: Final = 100_000
TOPIC: Final = ("topic",)
PARTITION: Final = ("topic", "partition")
_TOPIC_METRICS: Final = "kafka.server:type=BrokerTopicMetrics,name="
_REQUEST_METRICS: Final = "kafka.network:type=RequestMetrics,name="
_REPLICA_MANAGER: Final = "kafka.server:type=ReplicaManager,name="
_CONTROLLER: Final = "kafka.controller:type=KafkaController,name="
_RAFT: Final = "kafka.server:type=raft-metrics,"
_LOG: Final = "kafka.log:type=Log,name="
_CLUSTER: Final = "kafka.cluster:type=Partition,name="
_GROUPS: Final = "kafka.coordinator.group:type=GroupMetadataManager,name="
_BOTH: Final = "The series without a topic is that of all topics: nobody may add it to the others."
_SAMPLED: Final = (
    "Produce and Fetch are timed about 40 times a second, evenly spread over their requests, other requests "
    "each "
    "time; _count is that of all requests, _sum is estimated. Quantiles are those since the start."
)

# -- topics -------------------------------------------------------------------------------------------

MESSAGES_IN: Final = Metric(
    "kafka_server_brokertopicmetrics_messagesin_total",
    Kind.COUNTER,
    f"Records appended to partitions that this broker leads, by topic. {_BOTH}",
    TOPIC,
    panel=Panel(Dashboard.TOPICS, "Traffic", "Messages in", TOPIC),
    origin=f"{_TOPIC_METRICS}MessagesInPerSec",
)
BYTES_IN: Final = Metric(
    "kafka_server_brokertopicmetrics_bytesin_total",
    Kind.COUNTER,
    f"Bytes of batches appended to partitions that this broker leads, by topic. {_BOTH}",
    TOPIC,
    Unit.BYTES,
    Panel(Dashboard.TOPICS, "Traffic", "Bytes in", TOPIC),
    f"{_TOPIC_METRICS}BytesInPerSec",
)
BYTES_OUT: Final = Metric(
    "kafka_server_brokertopicmetrics_bytesout_total",
    Kind.COUNTER,
    f"Bytes of batches that consumers were sent, by topic. {_BOTH}",
    TOPIC,
    Unit.BYTES,
    Panel(Dashboard.TOPICS, "Traffic", "Bytes out", TOPIC),
    f"{_TOPIC_METRICS}BytesOutPerSec",
)
BYTES_REJECTED: Final = Metric(
    "kafka_server_brokertopicmetrics_bytesrejected_total",
    Kind.COUNTER,
    "Bytes that producers sent to partitions that this broker leads and that were refused, as a batch was "
    f"larger than max.message.bytes; by topic. {_BOTH}",
    TOPIC,
    Unit.BYTES,
    Panel(Dashboard.TOPICS, "Traffic", "Bytes refused: batch too large", TOPIC),
    f"{_TOPIC_METRICS}BytesRejectedPerSec",
)
REPLICATION_BYTES_IN: Final = Metric(
    "kafka_server_brokertopicmetrics_replicationbytesin_total",
    Kind.COUNTER,
    "Bytes of batches that this broker has copied from leaders.",
    unit=Unit.BYTES,
    panel=Panel(Dashboard.CLUSTER, "Replication", "Bytes copied in"),
    origin=f"{_TOPIC_METRICS}ReplicationBytesInPerSec",
)
REPLICATION_BYTES_OUT: Final = Metric(
    "kafka_server_brokertopicmetrics_replicationbytesout_total",
    Kind.COUNTER,
    "Bytes of batches that followers have copied from this broker.",
    unit=Unit.BYTES,
    panel=Panel(Dashboard.CLUSTER, "Replication", "Bytes copied out"),
    origin=f"{_TOPIC_METRICS}ReplicationBytesOutPerSec",
)
PRODUCE_REQUESTS: Final = Metric(
    "kafka_server_brokertopicmetrics_totalproducerequests_total",
    Kind.COUNTER,
    f"Batches appended for produce requests and coordinators, and those that were refused, by topic. {_BOTH}",
    TOPIC,
    panel=Panel(Dashboard.TOPICS, "Requests", "Partitions produced to", TOPIC),
    origin=f"{_TOPIC_METRICS}TotalProduceRequestsPerSec",
)
FETCH_REQUESTS: Final = Metric(
    "kafka_server_brokertopicmetrics_totalfetchrequests_total",
    Kind.COUNTER,
    f"Looks for records in a partition's log for consumers' fetches, by topic. {_BOTH}",
    TOPIC,
    panel=Panel(Dashboard.TOPICS, "Requests", "Partitions fetched from", TOPIC),
    origin=f"{_TOPIC_METRICS}TotalFetchRequestsPerSec",
    differs="Kafka counts a session's partitions that have nothing new too, and followers' fetches.",
)
FAILED_PRODUCE_REQUESTS: Final = Metric(
    "kafka_server_brokertopicmetrics_failedproducerequests_total",
    Kind.COUNTER,
    "Partitions of produce requests that were refused, but for what clients often meet (no leader here, too "
    "large "
    f"a batch), by topic. {_BOTH}",
    TOPIC,
    panel=Panel(Dashboard.TOPICS, "Requests", "Failed produces", TOPIC),
    origin=f"{_TOPIC_METRICS}FailedProduceRequestsPerSec",
)
FAILED_FETCH_REQUESTS: Final = Metric(
    "kafka_server_brokertopicmetrics_failedfetchrequests_total",
    Kind.COUNTER,
    "Partitions of fetch requests that were refused, but for what clients often meet (no leader here, an "
    "offset "
    f"out of range), by topic. {_BOTH}",
    TOPIC,
    panel=Panel(Dashboard.TOPICS, "Requests", "Failed fetches", TOPIC),
    origin=f"{_TOPIC_METRICS}FailedFetchRequestsPerSec",
)

# -- requests -----------------------------------------------------------------------------------------

REQUESTS: Final = Metric(
    "kafka_network_requestmetrics_requests_total",
    Kind.COUNTER,
    "Requests by API and version. Fetch is FetchConsumer and FetchFollower together.",
    ("request", "version"),
    panel=Panel(Dashboard.CLUSTER, "Requests", "Requests", ("request",)),
    origin=f"{_REQUEST_METRICS}RequestsPerSec",
)
REQUEST_ERRORS: Final = Metric(
    "kafka_network_requestmetrics_errors_total",
    Kind.COUNTER,
    "Error codes in answers, by API and the error's name; an answer may hold many.",
    ("request", "error"),
    panel=Panel(Dashboard.CLUSTER, "Requests", "Errors", ("request", "error")),
    origin=f"{_REQUEST_METRICS}ErrorsPerSec",
    differs="There is no series of error NONE.",
)


def _times(name: str, help: str, differs: str = "") -> Metric:
    return Metric(
        f"kafka_network_requestmetrics_{name.lower()}",
        Kind.SUMMARY,
        help,
        ("request",),
        Unit.MILLISECONDS,
        Panel(Dashboard.CLUSTER, "Request times", f"{name}, 99th percentile", ("request",)),
        f"{_REQUEST_METRICS}{name}",
        f"{differs} {_SAMPLED}".strip(),
    )


TOTAL_TIME: Final = _times("TotalTimeMs", "The time of requests, by API: the sum of the other times.")
QUEUE_TIME: Final = _times(
    "RequestQueueTimeMs",
    "The time that requests wait to be handled: always 0.",
    "There is no queue: a request is handled when it is read. Its wait for a busy loop is in "
    "ottla_loop_lag_ms.",
)
LOCAL_TIME: Final = _times("LocalTimeMs", "The time of requests' handlers on the event loop, by API.")
REMOTE_TIME: Final = _times(
    "RemoteTimeMs", "The time that requests wait for others: followers, new records, nodes, threads. By API."
)
THROTTLE_TIME: Final = _times(
    "ThrottleTimeMs", "The time for which answers ask their clients to wait, by API."
)
SEND_TIME: Final = _times(
    "ResponseSendTimeMs",
    "The time from a made answer to the end of the loop's turn in which it is written to the socket, by API.",
    "There is no response queue, so no ResponseQueueTimeMs.",
)
REQUEST_BYTES: Final = Metric(
    "kafka_network_requestmetrics_requestbytes",
    Kind.SUMMARY,
    "The size of requests behind their headers, by API.",
    ("request",),
    Unit.BYTES,
    Panel(Dashboard.CLUSTER, "Requests", "Size of requests, 99th percentile", ("request",)),
    f"{_REQUEST_METRICS}RequestBytes",
    "Produce and Fetch are measured about 40 times a second, evenly spread over their requests, other "
    "requests each time; _count is that of all requests, _sum (which Kafka lacks) is estimated. Quantiles "
    "are those since the start, where Kafka's favour the last minutes.",
)

# -- network ------------------------------------------------------------------------------------------

CONNECTIONS: Final = Metric(
    "kafka_server_socket_server_metrics_connection_count",
    Kind.GAUGE,
    "Open connections, by listener.",
    ("listener", "networkProcessor"),
    panel=Panel(Dashboard.CLUSTER, "Network", "Connections", ("listener",)),
    origin="kafka.server:type=socket-server-metrics,connection-count",
    differs="One loop serves all listeners, so networkProcessor is always 0.",
)
CONNECTIONS_MADE: Final = Metric(
    "kafka_server_socket_server_metrics_connection_creation_total",
    Kind.COUNTER,
    "Connections taken, by listener.",
    ("listener", "networkProcessor"),
    panel=Panel(Dashboard.CLUSTER, "Network", "New connections", ("listener",)),
    origin="kafka.server:type=socket-server-metrics,connection-creation-total",
)
CONNECTIONS_REFUSED: Final = Metric(
    "ottla_connections_refused_total",
    Kind.COUNTER,
    "Connections closed because their address had too many (max.connections.per.ip).",
)
LOOP_IDLE: Final = Metric(
    "kafka_network_socketserver_networkprocessoravgidle_percent",
    Kind.GAUGE,
    "The share of time, from 0 to 1, in which the event loop's thread used no processor since the last "
    "scrape.",
    unit=Unit.FRACTION,
    panel=Panel(Dashboard.CLUSTER, "Network", "Idle share of the event loop"),
    origin="kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent",
    differs="One loop does the work of Kafka's network and request threads: both metrics are its.",
)
HANDLER_IDLE: Final = Metric(
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    Kind.GAUGE,
    "The same as the network processors' idle share: one event loop does both.",
    unit=Unit.FRACTION,
    origin="kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent",
)
LOOP_LAG: Final = Metric(
    "ottla_loop_lag_ms",
    Kind.SUMMARY,
    "By how much the event loop was late for a timer, four times a second: what a request waits at most.",
    unit=Unit.MILLISECONDS,
    panel=Panel(Dashboard.CLUSTER, "Network", "Lag of the event loop, 99th percentile"),
)
REQUEST_MEMORY: Final = Metric(
    "ottla_request_memory_bytes",
    Kind.GAUGE,
    "Memory of requests that arrive in pieces or wait, by kind of listener; queued.max.request.bytes bounds "
    "it.",
    ("listeners",),
    Unit.BYTES,
    Panel(Dashboard.CLUSTER, "Network", "Memory of requests"),
)
ANSWER_MEMORY: Final = Metric(
    "ottla_answer_memory_bytes",
    Kind.GAUGE,
    "Memory of answers that clients have not read, by kind of listener; 256 MiB bound it.",
    ("listeners",),
    Unit.BYTES,
    Panel(Dashboard.CLUSTER, "Network", "Memory of unread answers"),
)

# -- replicas -----------------------------------------------------------------------------------------

LEADER_COUNT: Final = Metric(
    "kafka_server_replicamanager_leadercount",
    Kind.GAUGE,
    "Partitions that this broker leads.",
    panel=Panel(Dashboard.CLUSTER, "Partitions", "Leaders by broker"),
    origin=f"{_REPLICA_MANAGER}LeaderCount",
)
PARTITION_COUNT: Final = Metric(
    "kafka_server_replicamanager_partitioncount",
    Kind.GAUGE,
    "Partitions with a replica on this broker.",
    panel=Panel(Dashboard.CLUSTER, "Partitions", "Replicas by broker"),
    origin=f"{_REPLICA_MANAGER}PartitionCount",
)
UNDER_REPLICATED: Final = Metric(
    "kafka_server_replicamanager_underreplicatedpartitions",
    Kind.GAUGE,
    "Partitions led here of which a replica is not in sync; those that are being moved don't count.",
    panel=Panel(Dashboard.CLUSTER, "Health", "Under-replicated partitions"),
    origin=f"{_REPLICA_MANAGER}UnderReplicatedPartitions",
)
UNDER_MIN_ISR: Final = Metric(
    "kafka_server_replicamanager_underminisrpartitioncount",
    Kind.GAUGE,
    "Partitions led here with fewer replicas in sync than min.insync.replicas: acks=all is refused there.",
    panel=Panel(Dashboard.CLUSTER, "Health", "Partitions under min.insync.replicas"),
    origin=f"{_REPLICA_MANAGER}UnderMinIsrPartitionCount",
)
AT_MIN_ISR: Final = Metric(
    "kafka_server_replicamanager_atminisrpartitioncount",
    Kind.GAUGE,
    "Partitions led here with just min.insync.replicas in sync: one more loss and acks=all is refused.",
    panel=Panel(Dashboard.CLUSTER, "Health", "Partitions at min.insync.replicas"),
    origin=f"{_REPLICA_MANAGER}AtMinIsrPartitionCount",
)
REASSIGNING: Final = Metric(
    "kafka_server_replicamanager_reassigningpartitions",
    Kind.GAUGE,
    "Partitions led here whose replicas are being moved.",
    panel=Panel(Dashboard.CLUSTER, "Replication", "Partitions on the move"),
    origin=f"{_REPLICA_MANAGER}ReassigningPartitions",
)
OFFLINE_REPLICAS: Final = Metric(
    "kafka_server_replicamanager_offlinereplicacount",
    Kind.GAUGE,
    "Replicas here whose log can't be used: always 0, as a node stops when its log directory fails.",
    origin=f"{_REPLICA_MANAGER}OfflineReplicaCount",
)
PRODUCED_BATCHES: Final = Metric(
    "ottla_produced_batches_total",
    Kind.COUNTER,
    "Batches of producers that were appended, by acks of their requests: 0, 1 (the leader alone), or all.",
    ("acks",),
    panel=Panel(Dashboard.CLUSTER, "Replication", "Batches by acks", ("acks",)),
)
ISR_SHRINKS: Final = Metric(
    "kafka_server_replicamanager_isrshrinks_total",
    Kind.COUNTER,
    "In-sync sets from which this broker, as the leader, had a replica removed that lagged.",
    panel=Panel(Dashboard.CLUSTER, "Replication", "In-sync sets shrunk and expanded"),
    origin=f"{_REPLICA_MANAGER}IsrShrinksPerSec",
)
ISR_EXPANDS: Final = Metric(
    "kafka_server_replicamanager_isrexpands_total",
    Kind.COUNTER,
    "In-sync sets to which this broker, as the leader, had a replica added that has caught up.",
    panel=Panel(Dashboard.CLUSTER, "Replication", "In-sync sets shrunk and expanded"),
    origin=f"{_REPLICA_MANAGER}IsrExpandsPerSec",
)
FAILED_ISR_UPDATES: Final = Metric(
    "kafka_server_replicamanager_failedisrupdates_total",
    Kind.COUNTER,
    "Changes of in-sync sets that the controller has refused.",
    origin=f"{_REPLICA_MANAGER}FailedIsrUpdatesPerSec",
)
PARTITION_UNDER_REPLICATED: Final = Metric(
    "kafka_cluster_partition_underreplicated",
    Kind.GAUGE,
    "1 for a partition led here of which a replica is not in sync.",
    PARTITION,
    Unit.FLAG,
    Panel(Dashboard.TOPICS, "Replicas", "Under-replicated partitions", TOPIC),
    f"{_CLUSTER}UnderReplicated",
    most_series=PARTITION_SERIES,
)
PARTITION_UNDER_MIN_ISR: Final = Metric(
    "kafka_cluster_partition_underminisr",
    Kind.GAUGE,
    "1 for a partition led here with fewer replicas in sync than min.insync.replicas.",
    PARTITION,
    Unit.FLAG,
    Panel(Dashboard.TOPICS, "Replicas", "Partitions under min.insync.replicas", TOPIC),
    f"{_CLUSTER}UnderMinIsr",
    most_series=PARTITION_SERIES,
)
PARTITION_AT_MIN_ISR: Final = Metric(
    "kafka_cluster_partition_atminisr",
    Kind.GAUGE,
    "1 for a partition led here with just min.insync.replicas in sync.",
    PARTITION,
    Unit.FLAG,
    Panel(Dashboard.TOPICS, "Replicas", "Partitions at min.insync.replicas", TOPIC),
    f"{_CLUSTER}AtMinIsr",
    most_series=PARTITION_SERIES,
)
PARTITION_REPLICAS: Final = Metric(
    "kafka_cluster_partition_replicascount",
    Kind.GAUGE,
    "Replicas of a partition; 0 where another broker leads it.",
    PARTITION,
    origin=f"{_CLUSTER}ReplicasCount",
    most_series=PARTITION_SERIES,
)
PARTITION_IN_SYNC: Final = Metric(
    "kafka_cluster_partition_insyncreplicascount",
    Kind.GAUGE,
    "Replicas of a partition that are in sync; 0 where another broker leads it.",
    PARTITION,
    panel=Panel(Dashboard.TOPICS, "Replicas", "Replicas in sync", PARTITION),
    origin=f"{_CLUSTER}InSyncReplicasCount",
    most_series=PARTITION_SERIES,
)
STABLE_OFFSET_LAG: Final = Metric(
    "kafka_cluster_partition_laststableoffsetlag",
    Kind.GAUGE,
    "Records that wait for the end of a transaction before read_committed may read them; 0 where another "
    "leads.",
    PARTITION,
    panel=Panel(Dashboard.TOPICS, "Logs", "Records behind open transactions", PARTITION),
    origin=f"{_CLUSTER}LastStableOffsetLag",
    most_series=PARTITION_SERIES,
)

# -- logs ---------------------------------------------------------------------------------------------

LOG_SIZE: Final = Metric(
    "kafka_log_log_size",
    Kind.GAUGE,
    "Bytes of the batches in a replica's log.",
    PARTITION,
    Unit.BYTES,
    Panel(Dashboard.TOPICS, "Logs", "Log size", TOPIC),
    f"{_LOG}Size",
    most_series=PARTITION_SERIES,
)
LOG_SEGMENTS: Final = Metric(
    "kafka_log_log_numlogsegments",
    Kind.GAUGE,
    "Segments of a replica's log.",
    PARTITION,
    origin=f"{_LOG}NumLogSegments",
    most_series=PARTITION_SERIES,
)
LOG_START_OFFSET: Final = Metric(
    "kafka_log_log_logstartoffset",
    Kind.GAUGE,
    "The first offset of a replica's log.",
    PARTITION,
    origin=f"{_LOG}LogStartOffset",
    most_series=PARTITION_SERIES,
)
LOG_END_OFFSET: Final = Metric(
    "kafka_log_log_logendoffset",
    Kind.GAUGE,
    "The offset behind the last record of a replica's log.",
    PARTITION,
    panel=Panel(Dashboard.TOPICS, "Logs", "Log end offset", PARTITION, "rate({metric}[$__rate_interval])"),
    origin=f"{_LOG}LogEndOffset",
    most_series=PARTITION_SERIES,
)
LOG_FLUSH_TIME: Final = Metric(
    "kafka_log_logflushstats_logflushrateandtimems",
    Kind.SUMMARY,
    "The time of syncs of segments (log and indexes) to the disk, those of the metadata log among them.",
    unit=Unit.MILLISECONDS,
    panel=Panel(Dashboard.CLUSTER, "Logs", "Time of a log's sync, 99th percentile"),
    origin="kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
    differs="Appends that come during a sync share the next one. Syncs of the start, the stop and the "
    "cleaner don't count.",
)
CLEANER_UNCLEANABLE: Final = Metric(
    "kafka_log_logcleanermanager_uncleanable_partitions_count",
    Kind.GAUGE,
    "Compacted logs that can't be cleaned and are left alone until the next start, by directory.",
    ("logDirectory",),
    panel=Panel(Dashboard.CLUSTER, "Logs", "Logs that can't be cleaned"),
    origin="kafka.log:type=LogCleanerManager,name=uncleanable-partitions-count",
)
CLEANER_MAX_DIRTY: Final = Metric(
    "kafka_log_logcleanermanager_max_dirty_percent",
    Kind.GAUGE,
    "The largest share, in percent, of a compacted log that is not cleaned yet, when last looked at.",
    unit=Unit.PERCENT,
    panel=Panel(Dashboard.CLUSTER, "Logs", "Dirtiest log"),
    origin="kafka.log:type=LogCleanerManager,name=max-dirty-percent",
)
CLEANINGS: Final = Metric(
    "ottla_cleaner_cleanings_total",
    Kind.COUNTER,
    "Cleanings of compacted logs.",
    panel=Panel(Dashboard.CLUSTER, "Logs", "Cleanings"),
)
CLEANER_READ: Final = Metric(
    "ottla_cleaner_read_bytes_total", Kind.COUNTER, "Bytes that the cleaner has read.", unit=Unit.BYTES
)
CLEANER_WRITTEN: Final = Metric(
    "ottla_cleaner_written_bytes_total", Kind.COUNTER, "Bytes that the cleaner has written.", unit=Unit.BYTES
)
CLEANER_SECONDS: Final = Metric(
    "ottla_cleaner_seconds_total", Kind.COUNTER, "The time that cleanings took.", unit=Unit.SECONDS
)
DISK_READ: Final = Metric(
    "kafka_server_kafkaserver_linux_disk_read_bytes",
    Kind.GAUGE,
    "Bytes that this process has had read from disks, as Linux counts them.",
    unit=Unit.BYTES,
    panel=Panel(Dashboard.CLUSTER, "Logs", "Disk, read", query="rate({metric}[$__rate_interval])"),
    origin="kafka.server:type=KafkaServer,name=linux-disk-read-bytes",
)
DISK_WRITTEN: Final = Metric(
    "kafka_server_kafkaserver_linux_disk_write_bytes",
    Kind.GAUGE,
    "Bytes that this process has had written to disks, as Linux counts them.",
    unit=Unit.BYTES,
    panel=Panel(Dashboard.CLUSTER, "Logs", "Disk, written", query="rate({metric}[$__rate_interval])"),
    origin="kafka.server:type=KafkaServer,name=linux-disk-write-bytes",
)
DISK_TOTAL: Final = Metric(
    "ottla_log_directory_disk_bytes",
    Kind.GAUGE,
    "The size of the file system that holds the log directory.",
    ("logDirectory",),
    Unit.BYTES,
)
DISK_FREE: Final = Metric(
    "ottla_log_directory_free_bytes",
    Kind.GAUGE,
    "The bytes of that file system that this process may still write.",
    ("logDirectory",),
    Unit.BYTES,
    Panel(Dashboard.CLUSTER, "Logs", "Free disk"),
)
OFFLINE_DIRECTORIES: Final = Metric(
    "kafka_log_logmanager_offlinelogdirectorycount",
    Kind.GAUGE,
    "Log directories that can't be used: always 0, as a node stops when its log directory fails.",
    origin="kafka.log:type=LogManager,name=OfflineLogDirectoryCount",
)

# -- waiting requests, sessions -----------------------------------------------------------------------

PURGATORY: Final = Metric(
    "kafka_server_delayedoperationpurgatory_purgatorysize",
    Kind.GAUGE,
    "Requests that wait at partitions: Produce for the commit of a batch, Fetch for records. A fetch counts "
    "at each.",
    ("delayedOperation",),
    panel=Panel(Dashboard.CLUSTER, "Requests", "Waiting requests", ("delayedOperation",)),
    origin="kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize",
)
FETCH_SESSIONS: Final = Metric(
    "kafka_server_fetchsessioncache_numincrementalfetchsessions",
    Kind.GAUGE,
    "Fetch sessions of consumers and followers.",
    panel=Panel(Dashboard.CLUSTER, "Requests", "Fetch sessions"),
    origin="kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions",
)
FETCH_SESSION_PARTITIONS: Final = Metric(
    "kafka_server_fetchsessioncache_numincrementalfetchpartitionscached",
    Kind.GAUGE,
    "Partitions of all fetch sessions.",
    origin="kafka.server:type=FetchSessionCache,name=NumIncrementalFetchPartitionsCached",
)
FETCH_SESSION_EVICTIONS: Final = Metric(
    "kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total",
    Kind.COUNTER,
    "Fetch sessions that were ended to make room for others.",
    origin="kafka.server:type=FetchSessionCache,name=IncrementalFetchSessionEvictionsPerSec",
)

# -- controller ---------------------------------------------------------------------------------------

ACTIVE_CONTROLLER: Final = Metric(
    "kafka_controller_kafkacontroller_activecontrollercount",
    Kind.GAUGE,
    "1 on the active controller, 0 on others: the sum over a cluster is 1.",
    unit=Unit.FLAG,
    panel=Panel(Dashboard.CLUSTER, "Health", "Active controllers"),
    origin=f"{_CONTROLLER}ActiveControllerCount",
)
OFFLINE_PARTITIONS: Final = Metric(
    "kafka_controller_kafkacontroller_offlinepartitionscount",
    Kind.GAUGE,
    "Partitions of the cluster without a leader, as each controller knows it.",
    panel=Panel(Dashboard.CLUSTER, "Health", "Offline partitions", query="max({metric})"),
    origin=f"{_CONTROLLER}OfflinePartitionsCount",
)
PREFERRED_IMBALANCE: Final = Metric(
    "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
    Kind.GAUGE,
    "Partitions of the cluster that another broker leads than the first of their replicas.",
    panel=Panel(Dashboard.CLUSTER, "Partitions", "Leaders that are not preferred", query="max({metric})"),
    origin=f"{_CONTROLLER}PreferredReplicaImbalanceCount",
)
GLOBAL_TOPICS: Final = Metric(
    "kafka_controller_kafkacontroller_globaltopiccount",
    Kind.GAUGE,
    "Topics of the cluster.",
    panel=Panel(Dashboard.CLUSTER, "Partitions", "Topics", query="max({metric})"),
    origin=f"{_CONTROLLER}GlobalTopicCount",
)
GLOBAL_PARTITIONS: Final = Metric(
    "kafka_controller_kafkacontroller_globalpartitioncount",
    Kind.GAUGE,
    "Partitions of the cluster.",
    panel=Panel(Dashboard.CLUSTER, "Partitions", "Partitions", query="max({metric})"),
    origin=f"{_CONTROLLER}GlobalPartitionCount",
)
ACTIVE_BROKERS: Final = Metric(
    "kafka_controller_kafkacontroller_activebrokercount",
    Kind.GAUGE,
    "Brokers that are registered and not fenced.",
    panel=Panel(Dashboard.CLUSTER, "Health", "Brokers, active", query="max({metric})"),
    origin=f"{_CONTROLLER}ActiveBrokerCount",
)
FENCED_BROKERS: Final = Metric(
    "kafka_controller_kafkacontroller_fencedbrokercount",
    Kind.GAUGE,
    "Brokers that are registered and fenced: they have not come up, have gone, or were silent for too long.",
    panel=Panel(Dashboard.CLUSTER, "Health", "Brokers, fenced", query="max({metric})"),
    origin=f"{_CONTROLLER}FencedBrokerCount",
)
CONTROLLER_LAST_APPLIED: Final = Metric(
    "kafka_controller_kafkacontroller_lastappliedrecordoffset",
    Kind.GAUGE,
    "The offset of the last metadata record that this controller has applied.",
    origin=f"{_CONTROLLER}LastAppliedRecordOffset",
)
UNCLEAN_ELECTIONS: Final = Metric(
    "kafka_controller_controllerstats_uncleanleaderelections_total",
    Kind.COUNTER,
    "Leaders that were elected although they were not in sync, as this node has seen it in the metadata.",
    panel=Panel(Dashboard.CLUSTER, "Health", "Unclean elections"),
    origin="kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec",
)
CONTROLLER_QUEUE: Final = Metric(
    "ottla_controller_uncommitted_decisions",
    Kind.GAUGE,
    "Decisions of the active controller that wait for a majority of the voters.",
    panel=Panel(Dashboard.QUORUM, "Controller", "Waiting decisions"),
)
CONTROLLER_DECISION_TIME: Final = Metric(
    "kafka_controller_controllereventmanager_eventqueueprocessingtimems",
    Kind.SUMMARY,
    "The time that the active controller took for a decision and its append.",
    unit=Unit.MILLISECONDS,
    panel=Panel(Dashboard.QUORUM, "Controller", "Time of a decision, 99th percentile"),
    origin="kafka.controller:type=ControllerEventManager,name=EventQueueProcessingTimeMs",
    differs="There is no event queue, so no EventQueueTimeMs: decisions are made when they are asked for.",
)

# -- quorum -------------------------------------------------------------------------------------------

RAFT_STATE: Final = Metric(
    "kafka_server_raftmetrics_current_state",
    Kind.GAUGE,
    "Always 1; the label is this node's role in the metadata quorum: leader, follower, observer, voted and "
    "others.",
    ("current_state",),
    panel=Panel(Dashboard.QUORUM, "Quorum", "Roles", ("current_state",)),
    origin=f"{_RAFT}current-state",
)
RAFT_LEADER: Final = Metric(
    "kafka_server_raftmetrics_current_leader",
    Kind.GAUGE,
    "The node id of the quorum's leader, -1 while none is known.",
    panel=Panel(Dashboard.QUORUM, "Quorum", "Leader"),
    origin=f"{_RAFT}current-leader",
)
RAFT_EPOCH: Final = Metric(
    "kafka_server_raftmetrics_current_epoch",
    Kind.GAUGE,
    "The newest epoch of the quorum that this node knows: it grows by each election.",
    panel=Panel(Dashboard.QUORUM, "Quorum", "Epoch"),
    origin=f"{_RAFT}current-epoch",
)
RAFT_VOTE: Final = Metric(
    "kafka_server_raftmetrics_current_vote",
    Kind.GAUGE,
    "The node id that this node voted for in its epoch, -1 without a vote.",
    origin=f"{_RAFT}current-vote",
)
RAFT_HIGH_WATERMARK: Final = Metric(
    "kafka_server_raftmetrics_high_watermark",
    Kind.GAUGE,
    "The offset below which the metadata is committed, -1 while it is not known.",
    panel=Panel(Dashboard.QUORUM, "Quorum", "High watermark"),
    origin=f"{_RAFT}high-watermark",
)
RAFT_END_OFFSET: Final = Metric(
    "kafka_server_raftmetrics_log_end_offset",
    Kind.GAUGE,
    "The end of this node's metadata log.",
    panel=Panel(Dashboard.QUORUM, "Quorum", "Log end offset"),
    origin=f"{_RAFT}log-end-offset",
)
RAFT_END_EPOCH: Final = Metric(
    "kafka_server_raftmetrics_log_end_epoch",
    Kind.GAUGE,
    "The epoch of the last record of this node's metadata log.",
    origin=f"{_RAFT}log-end-epoch",
)
RAFT_VOTERS: Final = Metric(
    "kafka_server_raftmetrics_number_of_voters",
    Kind.GAUGE,
    "Voters of the quorum.",
    panel=Panel(Dashboard.QUORUM, "Quorum", "Voters"),
    origin=f"{_RAFT}number-of-voters",
)
RAFT_OBSERVERS: Final = Metric(
    "kafka_server_raftmetrics_number_of_observers",
    Kind.GAUGE,
    "Nodes that follow the metadata without a vote, as the leader sees them; on the leader alone.",
    panel=Panel(Dashboard.QUORUM, "Quorum", "Observers"),
    origin=f"{_RAFT}number-of-observers",
)
RAFT_APPEND_RATE: Final = Metric(
    "kafka_server_raftmetrics_append_records_rate",
    Kind.GAUGE,
    "Metadata records appended a second as the leader, over the last half to whole minute.",
    panel=Panel(Dashboard.QUORUM, "Quorum", "Records appended"),
    origin=f"{_RAFT}append-records-rate",
)
RAFT_FETCH_RATE: Final = Metric(
    "kafka_server_raftmetrics_fetch_records_rate",
    Kind.GAUGE,
    "Metadata records fetched a second from the leader, over the last half to whole minute.",
    panel=Panel(Dashboard.QUORUM, "Quorum", "Records fetched"),
    origin=f"{_RAFT}fetch-records-rate",
)
RAFT_COMMIT_AVG: Final = Metric(
    "kafka_server_raftmetrics_commit_latency_avg",
    Kind.GAUGE,
    "The leader's mean time from an append to its commit, over the last half to whole minute.",
    unit=Unit.MILLISECONDS,
    panel=Panel(Dashboard.QUORUM, "Quorum", "Commit latency"),
    origin=f"{_RAFT}commit-latency-avg",
)
RAFT_COMMIT_MAX: Final = Metric(
    "kafka_server_raftmetrics_commit_latency_max",
    Kind.GAUGE,
    "The longest of these times.",
    unit=Unit.MILLISECONDS,
    origin=f"{_RAFT}commit-latency-max",
)
RAFT_ELECTION_AVG: Final = Metric(
    "kafka_server_raftmetrics_election_latency_avg",
    Kind.GAUGE,
    "The mean time from the begin of an election that this node took part in to a known leader, as above.",
    unit=Unit.MILLISECONDS,
    panel=Panel(Dashboard.QUORUM, "Quorum", "Election latency"),
    origin=f"{_RAFT}election-latency-avg",
)
RAFT_ELECTION_MAX: Final = Metric(
    "kafka_server_raftmetrics_election_latency_max",
    Kind.GAUGE,
    "The longest of these times.",
    unit=Unit.MILLISECONDS,
    origin=f"{_RAFT}election-latency-max",
)
RAFT_APPEND_AVG: Final = Metric(
    "ottla_quorum_append_latency_avg_ms",
    Kind.GAUGE,
    "The mean time of a write to the metadata log (without its sync), over the last half to whole minute.",
    unit=Unit.MILLISECONDS,
)
RAFT_ELECTIONS: Final = Metric(
    "ottla_quorum_elections_total", Kind.COUNTER, "Elections that this node has taken part in to their end."
)
RAFT_CHANNEL_REQUESTS: Final = Metric(
    "kafka_server_raftchannelmetrics_request_total",
    Kind.COUNTER,
    "Requests of this node's part in the quorum to other nodes: votes and fetches of metadata.",
    panel=Panel(Dashboard.QUORUM, "Quorum", "Requests among nodes"),
    origin="kafka.server:type=raft-channel-metrics,request-total",
)
RAFT_CHANNEL_RESPONSES: Final = Metric(
    "kafka_server_raftchannelmetrics_response_total",
    Kind.COUNTER,
    "Answers to these requests.",
    panel=Panel(Dashboard.QUORUM, "Quorum", "Requests among nodes"),
    origin="kafka.server:type=raft-channel-metrics,response-total",
)
RAFT_CHANNEL_INCOMING: Final = Metric(
    "kafka_server_raftchannelmetrics_incoming_byte_total",
    Kind.COUNTER,
    "Bytes that this node has received from other nodes for its part in the quorum: answers to its requests.",
    unit=Unit.BYTES,
    panel=Panel(Dashboard.QUORUM, "Quorum", "Bytes among nodes"),
    origin="kafka.server:type=raft-channel-metrics,incoming-byte-total",
    differs="Logins (SASL) count too. TLS' own bytes don't, as in Kafka.",
)
RAFT_CHANNEL_OUTGOING: Final = Metric(
    "kafka_server_raftchannelmetrics_outgoing_byte_total",
    Kind.COUNTER,
    "Bytes that this node has sent to other nodes for its part in the quorum: its requests.",
    unit=Unit.BYTES,
    panel=Panel(Dashboard.QUORUM, "Quorum", "Bytes among nodes"),
    origin="kafka.server:type=raft-channel-metrics,outgoing-byte-total",
    differs="Logins (SASL) count too. TLS' own bytes don't, as in Kafka.",
)
VOTER_LAG: Final = Metric(
    "ottla_quorum_replica_lag",
    Kind.GAUGE,
    "Metadata records that a voter or observer has not fetched, as the leader sees it; on the leader alone.",
    ("replica", "role"),
    panel=Panel(Dashboard.QUORUM, "Quorum", "Lag of voters and observers", ("replica",)),
)
METADATA_OFFSET: Final = Metric(
    "kafka_server_brokermetadatametrics_last_applied_record_offset",
    Kind.GAUGE,
    "The offset of the last metadata record that this node has applied.",
    panel=Panel(Dashboard.QUORUM, "Metadata", "Applied offset"),
    origin="kafka.server:type=broker-metadata-metrics,last-applied-record-offset",
)
METADATA_LAG: Final = Metric(
    "ottla_metadata_lag_records",
    Kind.GAUGE,
    "Committed metadata records that this node knows of and has not applied.",
    panel=Panel(Dashboard.QUORUM, "Metadata", "Records not applied"),
)

# -- coordinators -------------------------------------------------------------------------------------

GROUPS: Final = Metric(
    "kafka_coordinator_group_groupmetadatamanager_numgroups",
    Kind.GAUGE,
    "Classic groups that this broker coordinates.",
    panel=Panel(Dashboard.GROUPS, "Groups", "Classic groups"),
    origin=f"{_GROUPS}NumGroups",
)
GROUPS_PREPARING: Final = Metric(
    "kafka_coordinator_group_groupmetadatamanager_numgroupspreparingrebalance",
    Kind.GAUGE,
    "Classic groups whose members join for a rebalance.",
    panel=Panel(Dashboard.GROUPS, "Groups", "Classic groups in a rebalance"),
    origin=f"{_GROUPS}NumGroupsPreparingRebalance",
)
GROUPS_COMPLETING: Final = Metric(
    "kafka_coordinator_group_groupmetadatamanager_numgroupscompletingrebalance",
    Kind.GAUGE,
    "Classic groups that wait for their leader's assignment.",
    panel=Panel(Dashboard.GROUPS, "Groups", "Classic groups in a rebalance"),
    origin=f"{_GROUPS}NumGroupsCompletingRebalance",
)
GROUPS_STABLE: Final = Metric(
    "kafka_coordinator_group_groupmetadatamanager_numgroupsstable",
    Kind.GAUGE,
    "Classic groups with an assignment.",
    origin=f"{_GROUPS}NumGroupsStable",
)
GROUPS_EMPTY: Final = Metric(
    "kafka_coordinator_group_groupmetadatamanager_numgroupsempty",
    Kind.GAUGE,
    "Classic groups without members.",
    origin=f"{_GROUPS}NumGroupsEmpty",
)
GROUPS_DEAD: Final = Metric(
    "kafka_coordinator_group_groupmetadatamanager_numgroupsdead",
    Kind.GAUGE,
    "Classic groups that are being removed.",
    origin=f"{_GROUPS}NumGroupsDead",
)
OFFSETS: Final = Metric(
    "kafka_coordinator_group_groupmetadatamanager_numoffsets",
    Kind.GAUGE,
    "Committed offsets that this broker keeps: one for each group and partition.",
    panel=Panel(Dashboard.GROUPS, "Groups", "Committed offsets"),
    origin=f"{_GROUPS}NumOffsets",
)
GROUP_STATES: Final = Metric(
    "ottla_group_count",
    Kind.GAUGE,
    "Groups that this broker coordinates, by protocol (classic, consumer, share, streams) and state.",
    ("protocol", "state"),
    panel=Panel(Dashboard.GROUPS, "Groups", "Groups by state", ("protocol", "state")),
)
GROUP_MEMBERS: Final = Metric(
    "ottla_group_members",
    Kind.GAUGE,
    "Members of groups that this broker coordinates, by protocol.",
    ("protocol",),
    panel=Panel(Dashboard.GROUPS, "Groups", "Members", ("protocol",)),
)
REBALANCES: Final = Metric(
    "ottla_group_rebalances_total",
    Kind.COUNTER,
    "Rebalances of groups that this broker coordinates: new generations of classic groups, new epochs of "
    "others.",
    ("protocol",),
    panel=Panel(Dashboard.GROUPS, "Groups", "Rebalances", ("protocol",)),
)
COORDINATOR_PARTITIONS: Final = Metric(
    "ottla_coordinator_partitions",
    Kind.GAUGE,
    "Partitions of a coordinator's topic that this broker leads, by coordinator and state: serving, or "
    "loading.",
    ("coordinator", "state"),
    panel=Panel(Dashboard.GROUPS, "Coordinators", "Partitions", ("coordinator", "state")),
)
COORDINATOR_LOADS: Final = Metric(
    "ottla_coordinator_loads_total",
    Kind.COUNTER,
    "Loads of a coordinator's partitions that have ended.",
    ("coordinator",),
    panel=Panel(Dashboard.GROUPS, "Coordinators", "Loads", ("coordinator",)),
)
COORDINATOR_LOAD_SECONDS: Final = Metric(
    "ottla_coordinator_load_seconds_total",
    Kind.COUNTER,
    "The time that these loads took, from the election to the first request.",
    ("coordinator",),
    Unit.SECONDS,
)
COORDINATOR_LOAD_MAX: Final = Metric(
    "ottla_coordinator_load_max_seconds",
    Kind.GAUGE,
    "The longest of them since the start.",
    ("coordinator",),
    Unit.SECONDS,
    Panel(Dashboard.GROUPS, "Coordinators", "Longest load", ("coordinator",)),
)
TRANSACTIONS: Final = Metric(
    "ottla_transactional_ids",
    Kind.GAUGE,
    "Transactional ids that this broker coordinates, by the state of their last transaction.",
    ("state",),
    panel=Panel(Dashboard.GROUPS, "Transactions", "Transactional ids", ("state",)),
)
SHARE_PARTITIONS: Final = Metric(
    "ottla_share_partitions",
    Kind.GAUGE,
    "Partitions of share groups that this broker serves.",
    panel=Panel(Dashboard.GROUPS, "Share groups", "Partitions"),
)
SHARE_SESSIONS: Final = Metric(
    "ottla_share_sessions",
    Kind.GAUGE,
    "Sessions of share consumers.",
    panel=Panel(Dashboard.GROUPS, "Share groups", "Sessions"),
)
SHARE_IN_FLIGHT: Final = Metric(
    "ottla_share_in_flight_records",
    Kind.GAUGE,
    "Records that share groups have begun and not settled: from the first to the last of each partition.",
    panel=Panel(Dashboard.GROUPS, "Share groups", "Records in flight"),
)
SHARE_ACQUIRED: Final = Metric(
    "ottla_share_acquired_records_total",
    Kind.COUNTER,
    "Deliveries of records to members of share groups.",
    panel=Panel(Dashboard.GROUPS, "Share groups", "Deliveries"),
)
SHARE_DEAD_LETTERS: Final = Metric(
    "ottla_share_dead_letters_total",
    Kind.COUNTER,
    "Records of share groups written to a topic of dead letters.",
    panel=Panel(Dashboard.GROUPS, "Share groups", "Dead letters"),
)
SHARE_LOST_DEAD_LETTERS: Final = Metric(
    "ottla_share_lost_dead_letters_total",
    Kind.COUNTER,
    "Records of share groups that should have become dead letters and could not be written.",
    panel=Panel(Dashboard.GROUPS, "Share groups", "Dead letters"),
)

# -- links --------------------------------------------------------------------------------------------

_LINK: Final = ("link", "topic", "partition")
LINK_LAG: Final = Metric(
    "ottla_link_lag_records",
    Kind.GAUGE,
    "Offsets that are left to copy, by mirrored partition that this broker leads, as of the last fetch.",
    _LINK,
    panel=Panel(Dashboard.TOPICS, "Links", "Lag of mirrors", _LINK),
    most_series=PARTITION_SERIES,
)
LINK_LAG_SECONDS: Final = Metric(
    "ottla_link_lag_seconds",
    Kind.GAUGE,
    "Since when there has always been something left to copy, by mirrored partition that this broker leads.",
    _LINK,
    Unit.SECONDS,
    Panel(Dashboard.TOPICS, "Links", "Lag of mirrors in time", _LINK),
    most_series=PARTITION_SERIES,
)
LINK_RECORDS: Final = Metric(
    "ottla_link_records_total",
    Kind.COUNTER,
    "Offsets copied from a link's source by this broker.",
    ("link",),
    panel=Panel(Dashboard.TOPICS, "Links", "Records from sources", ("link",)),
)
LINK_BYTES: Final = Metric(
    "ottla_link_bytes_total",
    Kind.COUNTER,
    "Bytes of batches copied from a link's source by this broker.",
    ("link",),
    Unit.BYTES,
    Panel(Dashboard.TOPICS, "Links", "Bytes from sources", ("link",)),
)
LINK_PARTITIONS: Final = Metric(
    "ottla_link_partitions",
    Kind.GAUGE,
    "Partitions of mirror topics that this broker leads, by link and state: mirroring (promote and fail-over "
    "among them), stopped, failed.",
    ("link", "state"),
    panel=Panel(Dashboard.TOPICS, "Links", "Mirrored partitions", ("link", "state")),
)

# -- clients, on request ------------------------------------------------------------------------------

CLIENT_REQUESTS: Final = Metric(
    "ottla_client_requests_total",
    Kind.COUNTER,
    "Requests by principal and client id, of the first clients that came; the others are `other`.",
    ("principal", "client_id"),
    panel=Panel(Dashboard.CLUSTER, "Clients", "Requests", ("principal", "client_id")),
    requested_by="ottla.metrics.client.series.max",
)

METRICS: Final = metrics_in(globals())
