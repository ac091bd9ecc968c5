"""The files of a quorum of several nodes are Kafka's: its tools read them, Kafka goes on with them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from ottla.protocol.messages.metadata_request import MetadataRequest
from support.java.java_tools import run_java
from support.nodes.quorums import configs, make_topic, running_quorum, set_config
from support.servers.apache_kafka import READY_TEXT, server_command
from support.servers.cluster import ServerProcess
from support.servers.clusters import APACHE_KAFKA, OTTLA, ClusterNode, ClusterPlan, combined, start_cluster

pytestmark = pytest.mark.java

METADATA = "__cluster_metadata-0"
SNAPSHOT_OFTEN = {
    "metadata.log.max.record.bytes.between.snapshots": "3000",
    "internal.metadata.delete.delay.millis": "0",
}


def dumped(files: Iterable[Path]) -> str:
    """The output of DumpLogSegments for these files."""
    names = ",".join(map(str, files))
    run = run_java("org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", names)
    assert run.returncode == 0, run.stderr
    valid = re.findall(r"isvalid: (\w+)", run.stdout)
    assert set(valid) == {"true"}
    return str(run.stdout)


def payloads(text: str) -> list[object]:
    return [json.loads(each) for each in re.findall(r"payload: (\{.*\})", text)]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_kafkas_tool_reads_the_log_of_a_quorum(tmp_path: Path, dynamic: bool) -> None:
    async def live() -> None:
        async with running_quorum(tmp_path, dynamic=dynamic, settings=SNAPSHOT_OFTEN) as cluster:
            for _ in range(2):
                leader = await cluster.leader()
                await make_topic(leader, f"topic-{leader.node_id}-{leader.quorum.epoch}")
                for number in range(20):
                    await set_config(leader.controller, f"n{number}", "x" * 100)
                await leader.kill()
                await leader.start()
            leader = await cluster.leader()
            await cluster.caught_up(await set_config(leader.controller, "last", "1"))
            assert len(configs(leader)) == 21
            for node in cluster.nodes.values():
                await node.stop()

    asyncio.run(asyncio.wait_for(live(), 120))
    directories = [tmp_path / str(node_id) / METADATA for node_id in (1, 2, 3)]
    logs = [dumped([directory / f"{0:020d}.log"]) for directory in directories]
    assert payloads(logs[0])[:40] == payloads(logs[1])[:40] == payloads(logs[2])[:40]
    assert "LeaderChange" in logs[0]
    assert ("KRaftVoters" in logs[0]) == dynamic
    assert ("KRaftVersion" in logs[0]) == dynamic
    checkpoints = [file for directory in directories for file in directory.glob("*.checkpoint")]
    assert len(checkpoints) > 3
    read = dumped(checkpoints)
    assert read.count("SnapshotHeader") == read.count("SnapshotFooter") == len(checkpoints)
    assert ("KRaftVoters" in read) == dynamic


@pytest.mark.long
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_apache_kafka_goes_on_with_a_quorums_directories_and_gives_them_back(
    tmp_path: Path, dynamic: bool
) -> None:
    plan = ClusterPlan(nodes=combined(3), dynamic=dynamic, settings=SNAPSHOT_OFTEN)
    with start_cluster(OTTLA, tmp_path, plan) as cluster:

        def topics() -> set[str]:
            return {each.name for each in cluster.metadata().topics}

        for number in range(10):
            cluster.create_topic(f"topic-{number}")
        cluster.kill(cluster.active_controller())
        cluster.heal()
        cluster.create_topic("after-the-kill")
        epoch = cluster.quorum().leader_epoch
        voters = sorted(each.replica_id for each in cluster.quorum().current_voters)
        cluster.stop(*cluster.nodes)
        ours = {number: node.server for number, node in cluster.nodes.items()}
        for node in cluster.nodes.values():
            _become(node, APACHE_KAFKA)
        cluster.start(*cluster.nodes)
        cluster.heal()
        assert {f"topic-{number}" for number in range(10)} | {"after-the-kill"} <= topics()
        assert cluster.quorum().leader_epoch > epoch
        assert sorted(each.replica_id for each in cluster.quorum().current_voters) == voters
        cluster.create_topic("made-by-kafka")
        cluster.stop(*cluster.nodes)
        for number, node in cluster.nodes.items():
            node.kind, node.server = OTTLA, ours[number]
        cluster.start(*cluster.nodes)
        cluster.heal()
        assert {"made-by-kafka", "after-the-kill", "topic-3"} <= topics()
        cluster.create_topic("made-here-again")
        with cluster.wire() as client:
            assert len(client.call(MetadataRequest(topics=None)).brokers) == 3


def _become(node: ClusterNode, kind: str) -> None:
    node.kind = kind
    node.server = ServerProcess(
        server_command(node.properties, "512m", ("-XX:TieredStopAtLevel=1",)),
        READY_TEXT,
        node.directory / "kafka.log",
        start_timeout_s=120,
        stop_timeout_s=60,
    )
