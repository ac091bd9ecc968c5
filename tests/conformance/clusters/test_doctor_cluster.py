"""`ottla doctor` on clusters of several nodes: brokers away, silent and careless, caused and then told."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from support.clients.ottla_command import done, ottla
from support.doctor.runs import WHATEVER_THE_DISK, doctor
from support.servers.apache_kafka import ApacheKafka, format_directory
from support.servers.clusters import BROKER, ClusterPlan, NodeCluster, NodePlan

AWAY = 3


def test_a_sound_cluster_has_nothing_critical(three_nodes: NodeCluster, unique_name: str) -> None:
    three_nodes.create_topic(unique_name, 3)
    run = doctor(
        three_nodes.bootstrap, "--sample", "0.2", "--skip", "leaders-not-preferred", *WHATEVER_THE_DISK
    )
    found = [one for one in run.findings if unique_name in json.dumps(one)]
    # Other tests leave groups and settings of their own behind.
    assert found == []
    named = {one["check"] for one in run.findings if one["severity"] == "critical"}
    assert named <= {"group-records-lost", "group-records-due", "transactions-hanging", "under-min-isr"}


def test_a_broker_that_was_killed_is_told_in_all_that_follows(
    three_nodes: NodeCluster, unique_name: str
) -> None:
    names = {
        key: three_nodes.create_topic(f"{unique_name}-{key}", config=config, assignments=assignments)
        for key, config, assignments in (
            ("one", {}, [[AWAY]]),
            ("all", {"min.insync.replicas": "3"}, [[1, 2, AWAY], [AWAY, 1, 2]]),
            ("two", {"min.insync.replicas": "2"}, [[AWAY, 1, 2]]),
            ("moved", {}, [[1]]),
        )
    }
    before = doctor(
        three_nodes.bootstrap, "--sample", "0", "--only", "single-replica,min-isr-equals-replicas"
    )
    before.of("single-replica", "warning", names["one"], names["moved"])
    before.of("min-isr-equals-replicas", "warning", names["all"])
    # when
    three_nodes.kill(AWAY)
    three_nodes.wait_until_fenced(AWAY)
    at = three_nodes.nodes[1].bootstrap
    plan = three_nodes.directory / f"{unique_name}.json"
    moves = [{"topic": names["moved"], "partition": 0, "replicas": [1, AWAY]}]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}), encoding="utf-8")
    moving = ottla(at, "partition", "reassign", "--file", str(plan))
    # then
    run = doctor(at, "--sample", "0.2", "--limit", "voter_behind_seconds=1")
    assert run.code == 4
    run.of("offline-partitions", "critical", f"{names['one']}-0")
    run.of("under-replicated", "warning", f"{names['all']}-0", f"{names['two']}-0")
    run.of("under-min-isr", "critical", f"{names['all']}-0", f"{names['all']}-1")
    run.of("at-min-isr", "warning", f"{names['two']}-0")
    run.of("fenced-brokers", "warning", str(AWAY))
    run.of("quorum-behind", "warning", str(AWAY))
    if moving.code == 0:
        run.of("reassignments-stuck", "warning", f"{names['moved']}-0")
        _, *words = shlex.split(run.of("reassignments-stuck", "warning")["command"])
        done(at, *words)
    # when it is back
    three_nodes.heal()
    wanted = (
        "offline-partitions,under-replicated,fenced-brokers,at-min-isr,reassignments-stuck,"
        "leaders-not-preferred"
    )
    run = doctor(three_nodes.bootstrap, "--sample", "0", "--only", wanted)
    found = run.of("leaders-not-preferred", run.findings[0]["severity"], f"{names['two']}-0")
    assert run.names() == {"leaders-not-preferred"}
    _, *words = shlex.split(found["command"])
    done(three_nodes.bootstrap, *words)
    three_nodes.eventually(
        lambda: doctor(three_nodes.bootstrap, "--sample", "0", "--only", wanted).findings == [],
        "the preferred leaders lead",
    )


def test_a_broker_that_hangs_is_told_before_the_cluster_notices(three_nodes: NodeCluster) -> None:
    three_nodes.pause(AWAY)
    run = doctor(three_nodes.nodes[1].bootstrap, "--time", "4", "--sample", "0")
    three_nodes.resume(AWAY)
    finding = run.of("silent-brokers", "critical", str(AWAY))
    assert "did not answer in time" in finding["summary"]


def test_a_cluster_that_was_set_up_carelessly(
    start_nodes: Callable[[ClusterPlan], AbstractContextManager[NodeCluster]],
) -> None:
    settings = {
        "allow.everyone.if.no.acl.found": "true",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "auto.create.topics.enable": "true",
        "default.replication.factor": "1",
        "log.cleaner.enable": "false",
        "message.max.bytes": "9000000",
        "offsets.topic.replication.factor": "1",
        "super.users": "User:ANONYMOUS",
    }
    own = {
        "log.retention.hours": "7",
        "num.particions": "3",
        "unclean.leader.election.enable": "true",
    }
    nodes = (NodePlan(1, rack="rack-1"), NodePlan(2, (BROKER,), settings=own))
    with start_nodes(ClusterPlan(nodes, settings)) as cluster:
        at = cluster.bootstrap
        cluster.create_topic("orders", assignments=[[1]] * 8 + [[1]] * 8)
        done(at, "acl", "create", "--principal", "*", "--topic", "orders", "--operation", "write")
        done(at, "config", "set", "broker", "2", "leader.replication.throttled.rate=1000")
        # a group makes the topic of its offsets
        ottla(
            at,
            "group",
            "reset",
            "readers",
            "--to",
            "earliest",
            "--topic",
            "orders",
            "--execute",
            "--type",
            "consumer",
        )
        run = doctor(
            at, "--sample", "0.2", "--limit", "leaders_more_than_mean=3", "--limit", "disk_skew_bytes=0"
        )
        assert run.code == 4
        for check, severity, subjects in (
            ("quorum-single", "warning", ("1",)),
            ("single-replica", "warning", ("orders",)),
            ("internal-topics", "warning", ("__consumer_offsets",)),
            ("racks", "warning", ("2",)),
            ("leaders-skewed", "warning", ("1",)),
            ("auto-create-topics", "warning", ("1", "2")),
            ("unknown-settings", "warning", ("num.particions",)),
            ("settings-differ", "warning", ("log.retention.hours",)),
            ("message-sizes", "warning", ("orders",)),
            ("compaction-stuck", "warning", ("1", "2")),
            ("anonymous-super-user", "critical", (f"broker 1 PLAINTEXT://{cluster.nodes[1].bootstrap}",)),
            ("anonymous-super-user", "note", ("1", "2")),
            ("acls-for-everyone", "warning", ("write topic orders",)),
            ("throttles-left", "warning", ("2",)),
        ):
            run.of(check, severity, *subjects)
        for check in ("acls-for-everyone", "throttles-left"):
            _, *words = shlex.split(run.of(check, "warning")["command"])
            done(at, *words, *(["--yes"] if words[0] == "acl" else []))
        again = doctor(at, "--sample", "0", "--only", "acls-for-everyone,throttles-left")
        assert (again.code, again.findings) == (0, [])


@pytest.mark.java
@pytest.mark.long
def test_an_upgrade_that_was_not_finished_is_told_and_finished(tmp_path: Path) -> None:
    kafka = ApacheKafka.prepare(tmp_path)
    shutil.rmtree(kafka.log_directory)
    format_directory(tmp_path / "server.properties", "--standalone", "--release-version", "4.3-IV0")
    kafka.server.start()
    try:
        words = ("--sample", "0", "--only", "metadata-version,versions-differ")
        run = doctor(kafka.bootstrap, *words)
        assert (run.code, run.names()) == (0, {"metadata-version"})
        _, *command = shlex.split(run.of("metadata-version", "note")["command"])
        level = int(command[-1])
        assert ottla(kafka.bootstrap, *command[:-1], str(level + 900)).code == 1
        assert done(kafka.bootstrap, *command, "--validate-only") == [
            {"metadata_version": level, "validate_only": True}
        ]
        assert doctor(kafka.bootstrap, *words).findings == run.findings
        assert done(kafka.bootstrap, *command) == [{"metadata_version": level, "validate_only": False}]
        assert doctor(kafka.bootstrap, *words).findings == []
    finally:
        kafka.stop()
