"""Each alert rule fires for its fault and is silent without: by promtool, Prometheus' own judge of rules."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

pytestmark = pytest.mark.system("promtool", "prometheus")

RULES = Path(__file__).parents[3] / "packaging" / "monitoring" / "prometheus" / "ottla-alerts.yml"
NODE = 'job="ottla",instance="b1:9404"'
MINUTES = 90
"""How long each series goes on, a value a minute."""


class Case(NamedTuple):
    """Series that have an alert fire, and ones that don't; values in promtool's short form."""

    faulty: dict[str, str]
    sound: dict[str, str]


def gauge(name: str, faulty: float, sound: float, labels: str = "") -> Case:
    """A gauge that is wrong by its value alone."""
    series = f"{name}{{{NODE}{labels}}}"
    return Case({series: f"{faulty}x{MINUTES}"}, {series: f"{sound}x{MINUTES}"})


def rates(name: str, faulty: float, sound: float, labels: str = "") -> Case:
    """A counter that is wrong by its growth a minute."""
    series = f"{name}{{{NODE}{labels}}}"
    return Case({series: f"0+{faulty}x{MINUTES}"}, {series: f"0+{sound}x{MINUTES}"})


def two(first: Case, second: Case) -> Case:
    """The series of two cases."""
    return Case(first.faulty | second.faulty, first.sound | second.sound)


ACTIVE = "kafka_controller_kafkacontroller_activecontrollercount"
OTHER_NODE = 'job="ottla",instance="b2:9404"'
UNDER_REPLICATED = "kafka_server_replicamanager_underreplicatedpartitions"
FREE, SIZE = "ottla_log_directory_free_bytes", "ottla_log_directory_disk_bytes"
DISK = ',logDirectory="/data"'
CASES = {
    "OttlaProcessDown": gauge("up", 0, 1),
    "OttlaOfflinePartitions": gauge("kafka_controller_kafkacontroller_offlinepartitionscount", 1, 0),
    "OttlaNoActiveController": gauge(ACTIVE, 0, 1),
    "OttlaSeveralActiveControllers": Case(
        {f"{ACTIVE}{{{NODE}}}": "1x90", f"{ACTIVE}{{{OTHER_NODE}}}": "1x90"},
        {f"{ACTIVE}{{{NODE}}}": "1x90", f"{ACTIVE}{{{OTHER_NODE}}}": "0x90"},
    ),
    "OttlaUnderMinIsr": gauge("kafka_server_replicamanager_underminisrpartitioncount", 2, 0),
    "OttlaUnderReplicatedPartitions": gauge(UNDER_REPLICATED, 7, 0),
    # As many as asked for is well as long as that is all of them.
    "OttlaAtMinIsr": two(
        gauge("kafka_server_replicamanager_atminisrpartitioncount", 3, 3), gauge(UNDER_REPLICATED, 3, 0)
    ),
    "OttlaUncleanLeaderElection": rates(
        "kafka_controller_controllerstats_uncleanleaderelections_total", 1, 0
    ),
    "OttlaInSyncReplicasFlap": rates("kafka_server_replicamanager_isrshrinks_total", 6, 1),
    "OttlaOfflineLogDirectory": gauge("kafka_log_logmanager_offlinelogdirectorycount", 1, 0, DISK),
    "OttlaFencedBrokers": gauge("kafka_controller_kafkacontroller_fencedbrokercount", 1, 0),
    "OttlaDiskFullSoon": two(
        Case(
            {f"{FREE}{{{NODE}{DISK}}}": f"3000-10x{MINUTES}"},
            {f"{FREE}{{{NODE}{DISK}}}": f"3000-0.1x{MINUTES}"},
        ),
        gauge(SIZE, 10_000, 10_000, DISK),
    ),
    "OttlaDiskAlmostFull": two(gauge(FREE, 499, 501, DISK), gauge(SIZE, 10_000, 10_000, DISK)),
    "OttlaUncleanablePartitions": gauge(
        "kafka_log_logcleanermanager_uncleanable_partitions_count", 1, 0, DISK
    ),
    "OttlaLoopBusy": gauge("kafka_network_socketserver_networkprocessoravgidle_percent", 0.05, 0.4),
    "OttlaRequestErrors": two(
        rates("kafka_network_requestmetrics_errors_total", 60, 6, ',request="Produce",error="NOT_LEADER"'),
        rates("kafka_network_requestmetrics_requests_total", 300, 300, ',request="Produce"'),
    ),
    "OttlaSeriesLeftOut": gauge("ottla_metrics_series_dropped", 5, 0, ',metric="kafka_log_log_size"'),
    "OttlaNoQuorumLeader": gauge("kafka_server_raftmetrics_current_leader", -1, 0),
    "OttlaVoterBehind": gauge("ottla_quorum_replica_lag", 5_000, 10, ',replica="2",role="voter"'),
    "OttlaManyElections": rates("kafka_server_raftmetrics_current_epoch", 1, 0),
    "OttlaGroupBehind": gauge("kafka_consumergroup_lag_seconds", 400, 20, ',consumergroup="g",topic="t"'),
    "OttlaGroupStalled": gauge("kafka_consumergroup_status", 3, 2, ',consumergroup="g"'),
    "OttlaRetentionEatsLag": gauge(
        "kafka_consumergroup_removed_records", 9, 0, ',consumergroup="g",topic="t"'
    ),
    "OttlaServiceErrors": Case(
        {
            f'ottla_http_requests_total{{{NODE},service="rest",status="503"}}': "0+10x90",
            f'ottla_http_requests_total{{{NODE},service="rest",status="200"}}': "0+100x90",
        },
        {
            f'ottla_http_requests_total{{{NODE},service="rest",status="503"}}': "0+1x90",
            f'ottla_http_requests_total{{{NODE},service="rest",status="404"}}': "0+100x90",
        },
    ),
    "OttlaReplicatedStateBehind": gauge("ottla_replicated_lag", 2_000, 3, ',topic="_schemas"'),
    "OttlaQueryFailed": rates("ottla_query_failures_total", 1, 0, ',query="q"'),
    "OttlaQueryStopped": gauge("ottla_query_running", 0, 1, ',query="q"'),
    "OttlaReplicationSlotInDanger": gauge("ottla_connect_slot_wal_status", 2, 1, ',connector="c",task="0"'),
    "OttlaReplicationSlotBehind": gauge("ottla_connect_slot_wal_status", 1, 0, ',connector="c",task="0"'),
    "OttlaDeadLetters": rates("ottla_query_dead_letters_total", 1, 0, ',query="q"'),
    "OttlaSqlQueryFails": gauge("ottla_sql_query_failures", 3, 2, ',query="CSAS_A_1"'),
    "OttlaSqlCommandUnreadable": gauge("ottla_sql_commands_readable", 0, 1),
    "OttlaSqlHostDies": rates("ottla_sql_host_starts_total", 0.1, 0.01),
    "OttlaSqlUnreadableRecords": rates("ottla_sql_query_unreadable_records", 1, 0, ',query="CSAS_A_1"'),
    "OttlaAuditIncomplete": gauge("ottla_audit_incomplete_buckets", 1, 0, ',tier="lake"'),
    "OttlaAuditBehind": gauge("ottla_audit_behind_seconds", 400, 20, ',tier="lake"'),
    "OttlaSqlViewFailed": gauge("ottla_sql_views", 1, 0, ',state="failed"'),
}


def test_every_rule_has_a_case() -> None:
    read = yaml.safe_load(RULES.read_text("utf-8"))
    assert sorted(rule["alert"] for group in read["groups"] for rule in group["rules"]) == sorted(CASES)


@pytest.mark.parametrize("is_faulty", [True, False], ids=["faulty", "sound"])
def test_a_rule_fires_for_its_fault_alone(is_faulty: bool, tmp_path: Path) -> None:
    tests = []
    for name, case in CASES.items():
        series = case.faulty if is_faulty else case.sound
        tests.append(
            {
                "name": name,
                "interval": "1m",
                "input_series": [{"series": each, "values": values} for each, values in series.items()],
                "promql_expr_test": [
                    {
                        "expr": f'count(ALERTS{{alertname="{name}",alertstate="firing"}})',
                        "eval_time": "75m",
                        "exp_samples": [{"labels": "{}", "value": 1}] if is_faulty else [],
                    }
                ],
            }
        )
    file = tmp_path / "tests.yml"
    file.write_text(
        yaml.safe_dump(
            {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}, sort_keys=False
        )
    )
    ran = subprocess.run(
        ["promtool", "test", "rules", str(file)], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
