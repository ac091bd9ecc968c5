"""The alert rules: when each fires, how bad that is, what mends it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final


class Severity(enum.StrEnum):
    """How bad a fault is."""

    CRITICAL = "critical"
    """Clients can't read or write, or records are in danger."""
    WARNING = "warning"
    """It becomes critical, or is already bad for some."""


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert rule. subject: the group of rules that it belongs to. after: how long the expression has to
    hold before it fires, in Prometheus' words. summary: one line with Prometheus' templates in it. remedy:
    what to do, with the command.
    """

    name: str
    subject: str
    severity: Severity
    expression: str
    after: str
    summary: str
    meaning: str
    remedy: str


ALERTS: Final[tuple[Alert, ...]] = (
    # -- the cluster ------------------------------------------------------------------------------------
    Alert(
        "OttlaProcessDown",
        "cluster",
        Severity.CRITICAL,
        'up{job=~".*(ottla|kafka).*"} == 0',
        "1m",
        "{{ $labels.instance }} of {{ $labels.job }} does not answer",
        "Prometheus gets no answer from a process; it has stopped, hangs, or can't be reached.",
        "Look at the process's log and its `/healthz`; `ottla doctor` tells what the cluster lacks.",
    ),
    Alert(
        "OttlaOfflinePartitions",
        "cluster",
        Severity.CRITICAL,
        "max by (job) (kafka_controller_kafkacontroller_offlinepartitionscount) > 0",
        "1m",
        "{{ $value }} partitions have no leader",
        "Partitions without a leader can't be read or written.",
        "Start the brokers that have their replicas; `ottla doctor --only offline-partitions` names them.",
    ),
    Alert(
        "OttlaNoActiveController",
        "cluster",
        Severity.CRITICAL,
        "sum by (job) (kafka_controller_kafkacontroller_activecontrollercount) < 1",
        "1m",
        "The cluster of {{ $labels.job }} has no active controller",
        "No topic, leader or setting can change until the controllers elect one of them.",
        "See which controllers run: `ottla quorum status`; most of the voters have to reach each other.",
    ),
    Alert(
        "OttlaSeveralActiveControllers",
        "cluster",
        Severity.CRITICAL,
        "sum by (job) (kafka_controller_kafkacontroller_activecontrollercount) > 1",
        "1m",
        "{{ $value }} nodes of {{ $labels.job }} say that they are the active controller",
        "Either two clusters share a job of Prometheus, or a node is cut off from the others.",
        "Give each cluster a job of its own; else compare `ottla quorum status` at each node.",
    ),
    Alert(
        "OttlaUnderMinIsr",
        "cluster",
        Severity.CRITICAL,
        "sum by (job, instance) (kafka_server_replicamanager_underminisrpartitioncount) > 0",
        "1m",
        "{{ $value }} partitions that {{ $labels.instance }} leads are under min.insync.replicas",
        "Producers with acks=all are refused there.",
        "Bring the missing replicas back; `ottla doctor --only under-min-isr` names them.",
    ),
    Alert(
        "OttlaUnderReplicatedPartitions",
        "cluster",
        Severity.WARNING,
        "sum by (job, instance) (kafka_server_replicamanager_underreplicatedpartitions) > 0",
        "5m",
        "{{ $value }} partitions that {{ $labels.instance }} leads lack replicas",
        "A broker is down, or can't keep up with its leaders.",
        "`ottla doctor --only under-replicated` names the partitions and the brokers that are behind.",
    ),
    Alert(
        "OttlaAtMinIsr",
        "cluster",
        Severity.WARNING,
        "sum by (job, instance) (kafka_server_replicamanager_atminisrpartitioncount) > 0"
        " and on (job, instance) kafka_server_replicamanager_underreplicatedpartitions > 0",
        "10m",
        "{{ $value }} partitions of {{ $labels.instance }} stop being written if one more replica goes",
        "Replicas are missing, and there are just as many left as min.insync.replicas asks for.",
        "Bring the missing replicas back before another broker is stopped.",
    ),
    Alert(
        "OttlaUncleanLeaderElection",
        "cluster",
        Severity.CRITICAL,
        "increase(kafka_controller_controllerstats_uncleanleaderelections_total[10m]) > 0",
        "0m",
        "A replica that was not in sync became leader",
        "Acknowledged records may be lost: the topic allows unclean.leader.election.enable.",
        "See the controller's log for the partition; set unclean.leader.election.enable=false for it.",
    ),
    Alert(
        "OttlaInSyncReplicasFlap",
        "cluster",
        Severity.WARNING,
        "sum by (job, instance) (rate(kafka_server_replicamanager_isrshrinks_total[10m])) > 0.05",
        "10m",
        "In-sync replicas of {{ $labels.instance }} leave again and again",
        "Followers fall behind and catch up: a slow disk, a slow network, or too much load.",
        "Compare disks, network and load of the brokers; see replica.lag.time.max.ms.",
    ),
    Alert(
        "OttlaOfflineLogDirectory",
        "cluster",
        Severity.CRITICAL,
        "kafka_log_logmanager_offlinelogdirectorycount > 0",
        "0m",
        "{{ $value }} log directories of {{ $labels.instance }} can't be used",
        "A disk refuses reads or writes; its replicas are gone until it is mended.",
        "Look at the broker's log and the disk; `ottla doctor --only offline-log-dirs` names it.",
    ),
    Alert(
        "OttlaFencedBrokers",
        "cluster",
        Severity.WARNING,
        "max by (job) (kafka_controller_kafkacontroller_fencedbrokercount) > 0",
        "5m",
        "{{ $value }} registered brokers are fenced",
        "The controller gets no heartbeats from a broker that is registered.",
        "Start the broker, or take it out for good with `ottla quorum unregister BROKER`.",
    ),
    Alert(
        "OttlaDiskFullSoon",
        "cluster",
        Severity.WARNING,
        "predict_linear(ottla_log_directory_free_bytes[1h], 24 * 3600) < 0"
        " and ottla_log_directory_free_bytes < 0.4 * ottla_log_directory_disk_bytes",
        "10m",
        "The disk of {{ $labels.logDirectory }} at {{ $labels.instance }} is full within a day",
        "It fills as fast as in the last hour; a full disk refuses all writes.",
        "Shorten retention.ms of the largest topics, or add disk.",
    ),
    Alert(
        "OttlaDiskAlmostFull",
        "cluster",
        Severity.CRITICAL,
        "ottla_log_directory_free_bytes < 0.05 * ottla_log_directory_disk_bytes",
        "1m",
        "The disk of {{ $labels.logDirectory }} at {{ $labels.instance }} is full to more than 95 %",
        "A full disk refuses all writes.",
        "Shorten retention.ms of the largest topics, or add disk.",
    ),
    Alert(
        "OttlaUncleanablePartitions",
        "cluster",
        Severity.WARNING,
        "kafka_log_logcleanermanager_uncleanable_partitions_count > 0",
        "10m",
        "{{ $value }} partitions of {{ $labels.instance }} are not compacted any more",
        "The cleaner failed there, so these logs grow without end.",
        "See the broker's log for the reason; `ottla log verify` checks the files.",
    ),
    Alert(
        "OttlaLoopBusy",
        "cluster",
        Severity.WARNING,
        "kafka_network_socketserver_networkprocessoravgidle_percent < 0.1",
        "10m",
        "{{ $labels.instance }} works without a pause",
        "The node's one thread has less than a tenth of its time left: requests wait.",
        "Move leaders to other brokers, or run a broker a core (`ottla broker --brokers N`).",
    ),
    Alert(
        "OttlaRequestErrors",
        "cluster",
        Severity.WARNING,
        'sum by (job, request) (rate(kafka_network_requestmetrics_errors_total{error!="NONE"}[5m]))'
        " > 0.1 * sum by (job, request) (rate(kafka_network_requestmetrics_requests_total[5m]))"
        " and sum by (job, request) (rate(kafka_network_requestmetrics_requests_total[5m])) > 1",
        "10m",
        "More than a tenth of the {{ $labels.request }} requests are answered with an error",
        "Clients are refused, or ask for what is not there.",
        "The label `error` of kafka_network_requestmetrics_errors_total tells which errors they are.",
    ),
    Alert(
        "OttlaSeriesLeftOut",
        "cluster",
        Severity.WARNING,
        "ottla_metrics_series_dropped > 0",
        "10m",
        "{{ $labels.instance }} leaves series of {{ $labels.metric }} out",
        "There are more series than the metric's description allows: some partitions or groups are not seen.",
        "Look for topics or groups that are made without end.",
    ),
    # -- the quorum -------------------------------------------------------------------------------------
    Alert(
        "OttlaNoQuorumLeader",
        "quorum",
        Severity.CRITICAL,
        "kafka_server_raftmetrics_current_leader == -1",
        "1m",
        "{{ $labels.instance }} knows no leader of the metadata quorum",
        "Too few voters reach each other, or this node is cut off.",
        "`ottla quorum status --bootstrap-controller` at a controller shows whom it reaches.",
    ),
    Alert(
        "OttlaVoterBehind",
        "quorum",
        Severity.WARNING,
        'ottla_quorum_replica_lag{role="voter"} > 1000',
        "5m",
        "Voter {{ $labels.replica }} is {{ $value }} metadata records behind",
        "If the leader fails now, this voter can't take its place.",
        "Look at the voter's log, its disk and its network.",
    ),
    Alert(
        "OttlaManyElections",
        "quorum",
        Severity.WARNING,
        "max by (job) (changes(kafka_server_raftmetrics_current_epoch[30m])) > 5",
        "0m",
        "The metadata quorum of {{ $labels.job }} had {{ $value }} elections in half an hour",
        "Controllers lose each other again and again, which delays every change.",
        "Look at the controllers' load and network; see controller.quorum.fetch.timeout.ms.",
    ),
    # -- groups -----------------------------------------------------------------------------------------
    Alert(
        "OttlaGroupBehind",
        "groups",
        Severity.WARNING,
        "max by (job, consumergroup) (kafka_consumergroup_lag_seconds) > 300",
        "5m",
        "{{ $labels.consumergroup }} reads records that have waited for {{ $value }} s",
        "The group's members are down or too slow.",
        "`ottla lag --group GROUP` shows the partitions; start more members, or look at theirs.",
    ),
    Alert(
        "OttlaGroupStalled",
        "groups",
        Severity.CRITICAL,
        "max by (job, consumergroup) (kafka_consumergroup_status) >= 3",
        "1m",
        "{{ $labels.consumergroup }} has stopped, stalls, or went back",
        "Its offsets have not moved although there are records to read, or they have been set back.",
        "`ottla lag --group GROUP` shows the verdicts, `ottla group describe GROUP` the members.",
    ),
    Alert(
        "OttlaRetentionEatsLag",
        "groups",
        Severity.CRITICAL,
        "sum by (job, consumergroup, topic) (kafka_consumergroup_removed_records) > 0",
        "0m",
        "{{ $labels.consumergroup }} has lost {{ $value }} records of {{ $labels.topic }} to retention",
        "The log's beginning has passed the group's offset, so it never sees those records.",
        "Raise the topic's retention.ms until the group has caught up.",
    ),
    # -- services and queries -----------------------------------------------------------------------------
    Alert(
        "OttlaServiceErrors",
        "services",
        Severity.WARNING,
        'sum by (job, service) (rate(ottla_http_requests_total{status=~"5.."}[5m]))'
        " > 0.05 * sum by (job, service) (rate(ottla_http_requests_total[5m]))",
        "5m",
        "More than a twentieth of the requests to {{ $labels.service }} fail",
        "The service answers that it can't do its work.",
        "Its log and `/readyz` tell why.",
    ),
    Alert(
        "OttlaReplicatedStateBehind",
        "services",
        Severity.WARNING,
        "ottla_replicated_lag > 1000",
        "5m",
        "{{ $labels.instance }} is {{ $value }} records behind its topic",
        "The service answers from an older state than the others.",
        "Look at its log: it can't read its topic, or does not keep up.",
    ),
    Alert(
        "OttlaQueryFailed",
        "services",
        Severity.CRITICAL,
        "increase(ottla_query_failures_total[10m]) > 0",
        "0m",
        "The query {{ $labels.query }} failed",
        "It is started again a few times; then it stays down.",
        "The application's log has the reason; `/readyz` tells whether the query runs again.",
    ),
    Alert(
        "OttlaQueryStopped",
        "services",
        Severity.CRITICAL,
        "ottla_query_running == 0",
        "5m",
        "The query {{ $labels.query }} does not run",
        "Its process is there, but it has stopped.",
        "See the application's log, then start it again: it goes on from its checkpoint.",
    ),
    Alert(
        "OttlaDeadLetters",
        "services",
        Severity.WARNING,
        "sum by (job, query) (increase(ottla_query_dead_letters_total[10m])) > 0",
        "0m",
        "{{ $value }} records of {{ $labels.query }} became dead letters",
        "The query could not read or write these records, and kept them aside.",
        "Read the topic of dead letters: their headers tell the reason.",
    ),
    Alert(
        "OttlaReplicationSlotInDanger",
        "services",
        Severity.CRITICAL,
        "ottla_connect_slot_wal_status >= 2",
        "0m",
        "The replication slot of {{ $labels.connector }} is about to be lost, or is",
        "The database keeps no more than max_slot_wal_keep_size: changes that are not in Kafka get lost.",
        "Raise max_slot_wal_keep_size and see why the connector is behind. Once the slot is lost, "
        "snapshot.mode=when_needed copies the tables again.",
    ),
    Alert(
        "OttlaReplicationSlotBehind",
        "services",
        Severity.WARNING,
        "ottla_connect_slot_wal_status == 1",
        "15m",
        "The database keeps more log for {{ $labels.connector }} than max_wal_size",
        "A connector that is too slow, or a transaction that stays open, fills the database's disk.",
        "Where ottla_connect_slot_lag_bytes grows, the connector is behind; else a transaction is open.",
    ),
    # -- SQL ----------------------------------------------------------------------------------------------
    Alert(
        "OttlaSqlQueryFails",
        "sql",
        Severity.CRITICAL,
        "ottla_sql_query_failures > 2",
        "0m",
        "The query {{ $labels.query }} has failed {{ $value }} times in a row",
        "It is started again with growing waits, and what it makes stands still meanwhile.",
        "`DESCRIBE name EXTENDED;` and `SHOW QUERIES EXTENDED;` tell the reason.",
    ),
    Alert(
        "OttlaSqlCommandUnreadable",
        "sql",
        Severity.CRITICAL,
        "ottla_sql_commands_readable == 0",
        "0m",
        "{{ $labels.instance }} can't read a statement in the topic of commands",
        "The server takes no statements, for it does not know what the others know.",
        "Its log names the offset. A statement of a newer version needs that version here.",
    ),
    Alert(
        "OttlaSqlHostDies",
        "sql",
        Severity.WARNING,
        "increase(ottla_sql_host_starts_total[1h]) > 2",
        "0m",
        "Spark on {{ $labels.instance }} was started again and again",
        "Each time all persistent queries stand still until they have gone on from their checkpoints.",
        "The server's log has the host's last words; often `ottla.sql.spark.driver.memory` is too small.",
    ),
    Alert(
        "OttlaSqlUnreadableRecords",
        "sql",
        Severity.WARNING,
        "delta(ottla_sql_query_unreadable_records[10m]) > 0",
        "0m",
        "The query {{ $labels.query }} could not read {{ $value }} records",
        "They do not fit the columns of their stream or table, and were left out.",
        "Read the processing log: their headers tell the reason.",
    ),
    Alert(
        "OttlaSqlViewFailed",
        "sql",
        Severity.WARNING,
        'ottla_sql_views{state="failed"} > 0',
        "5m",
        "{{ $labels.instance }} can't keep {{ $value }} tables for pull queries",
        "Pull queries of these tables are refused here, or passed on to another server.",
        "The server's log tells why: a disk that is full, or a topic that is gone.",
    ),
    # -- the audit ----------------------------------------------------------------------------------------
    Alert(
        "OttlaAuditIncomplete",
        "audit",
        Severity.CRITICAL,
        "ottla_audit_incomplete_buckets > 0",
        "0m",
        "{{ $value }} buckets of tier {{ $labels.tier }} lack messages",
        "Messages that producers have reported are not in the tier, and no longer on their way.",
        "`ottla audit report --details` names them; the page leads to topic, partition and host.",
    ),
    Alert(
        "OttlaAuditBehind",
        "audit",
        Severity.WARNING,
        "ottla_audit_behind_seconds > 300",
        "2m",
        "The audit's counter of tier {{ $labels.tier }} is {{ $value }} s behind",
        "Nothing newer is judged, so losses are not told meanwhile.",
        "Look at the counter's log: it can't read the cluster, does not keep up, or a transaction is open.",
    ),
)
