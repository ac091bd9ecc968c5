"""`ottla broker --brokers N`: one command, one clean stop; a dead node comes back, none is left behind."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ottla.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from ottla.protocol.messages.metadata_request import MetadataRequest
from support.clients.confluent import TIMEOUT_S, eventually
from support.clients.wire import WireClient
from support.servers.cluster import CONFORMANCE_SETTINGS, ServerProcess, free_port
from support.servers.processes import descendants, wait_until_gone

#: A dead broker is noticed in seconds.
QUICK = {"broker.heartbeat.interval.ms": "300", "broker.session.timeout.ms": "2000"}


def command(data: Path, brokers: int, *words: str, listen: str = "127.0.0.1:0") -> list[str]:
    settings = [f"--set={name}={value}" for name, value in {**CONFORMANCE_SETTINGS, **QUICK}.items()]
    return [
        *(sys.executable, "-m", "ottla", "broker", "--data", str(data)),
        *("--brokers", str(brokers), "--listen", listen, *settings, *words),
    ]


class Brokers:
    """The launcher in a process, and what it started."""

    def __init__(self, data: Path, brokers: int) -> None:
        self.data = data
        self.server = ServerProcess(
            command(data, brokers), "ottla broker ready:", data.with_name(f"{data.name}.log")
        )

    @classmethod
    @contextmanager
    def start(cls, data: Path, brokers: int) -> Iterator[Brokers]:
        """Brokers that run while the block does."""
        running = cls(data, brokers)
        try:
            running.server.start()
            yield running
        finally:
            if running.server.running:
                running.server.stop()

    @property
    def bootstrap(self) -> list[str]:
        found = re.search(r"listening on (\S+),", self.server.ready_line)
        assert found is not None, self.server.ready_line
        return found[1].split(",")

    @property
    def nodes(self) -> dict[int, int]:
        """Process ids by node id."""
        found = {}
        for pid, words in descendants(self.server.process.pid).items():
            node = re.search(r"node\.id=(\d+)", words)
            if node is not None:
                found[int(node[1])] = pid
        return found

    def log_text(self) -> str:
        return self.server.log_path.read_text(encoding="utf-8", errors="replace")

    def live_brokers(self, at: str) -> list[int]:
        with WireClient.connect(at) as client:
            return [each.node_id for each in client.call(MetadataRequest(topics=[]), 12).brokers]

    def voters(self, at: str) -> set[int]:
        asked = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])
        with WireClient.connect(at) as client:
            answer = client.call(DescribeQuorumRequest(topics=[asked]))
        return {voter.replica_id for voter in answer.topics[0].partitions[0].current_voters}


def produce(brokers: Brokers, count: int = 100) -> None:
    producer = Producer({"bootstrap.servers": ",".join(brokers.bootstrap), "acks": "all", "log_level": 0})
    failures: list[object] = []
    for number in range(count):
        producer.produce(
            "t", str(number), on_delivery=lambda error, _: failures.append(error) if error else None
        )
    assert producer.flush(TIMEOUT_S) == 0
    assert failures == []


def test_three_brokers_live_and_stop_as_one(tmp_path: Path) -> None:
    with Brokers.start(tmp_path / "data", 3) as brokers:
        # all of them serve when the line is there; on a busy machine one may be fenced for a moment
        eventually(lambda: brokers.live_brokers(brokers.bootstrap[2]) == [1, 2, 3], "three brokers at first")
        assert brokers.voters(brokers.bootstrap[0]) == {1, 2, 3}
        produce(brokers)
        # one that dies comes back
        victim = brokers.nodes[2]
        os.kill(victim, signal.SIGKILL)
        eventually(lambda: "node 2 is back" in brokers.log_text(), "node 2 is back")
        assert "node 2 ended (signal 9), starts again" in brokers.log_text()
        assert brokers.nodes[2] != victim
        eventually(lambda: brokers.live_brokers(brokers.bootstrap[0]) == [1, 2, 3], "three brokers")
        produce(brokers)
        # a clean stop
        started = descendants(brokers.server.process.pid)
        assert brokers.server.stop() == 0, brokers.server.log_tail()
        assert wait_until_gone(started) == {}
        for node_id in (1, 2, 3):
            assert (tmp_path / "data" / f"node-{node_id}" / ".kafka_cleanshutdown").exists()


def test_brokers_do_not_outlive_their_launcher(tmp_path: Path) -> None:
    with Brokers.start(tmp_path / "data", 2) as brokers:
        assert brokers.voters(brokers.bootstrap[0]) == {1}
        started = descendants(brokers.server.process.pid)
        assert len(brokers.nodes) == 2
        brokers.server.kill()
        assert wait_until_gone(started) == {}


@pytest.mark.long
def test_a_cluster_of_one_grows(tmp_path: Path) -> None:
    with Brokers.start(tmp_path / "data", 1) as brokers:
        produce(brokers)
    with Brokers.start(tmp_path / "data", 4) as brokers:
        assert brokers.live_brokers(brokers.bootstrap[0]) == [1, 2, 3, 4]
        eventually(lambda: brokers.voters(brokers.bootstrap[0]) == {1, 2, 3}, "three voters")
        produce(brokers)
        # the grown quorum lives without the node that it began with
        os.kill(brokers.nodes[1], signal.SIGSTOP)
        eventually(lambda: 1 not in brokers.live_brokers(brokers.bootstrap[1]), "node 1 fenced")
        os.kill(brokers.nodes[1], signal.SIGCONT)
        eventually(lambda: 1 in brokers.live_brokers(brokers.bootstrap[1]), "node 1 back")
    with Brokers.start(tmp_path / "data", 5) as brokers:
        assert brokers.live_brokers(brokers.bootstrap[4]) == [1, 2, 3, 4, 5]
        produce(brokers)


# -- what does not start ----------------------------------------------------------------------------------


def refusal(*words: str) -> str:
    run = subprocess.run(
        [sys.executable, "-m", "ottla", "broker", *words],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (run.returncode, run.stdout) == (1, ""), run
    # On a busy machine a node that runs already may warn of those that don't: its lines are passed on.
    own = [line for line in run.stderr.splitlines() if not line.startswith("node ")]
    assert len(own) == 1 and own[0].startswith("ottla broker: "), run
    return own[0]


def test_settings_that_each_node_gets_are_refused(tmp_path: Path) -> None:
    several = ("--brokers", "3", "--data", str(tmp_path / "data"))
    assert "--cluster-id a b: an id is at most 64" in refusal(*several, "--cluster-id", "a b")
    assert "--brokers 0: give a number from 1 to 64" in refusal("--brokers", "0")
    assert "each node gets its own node.id" in refusal(*several, "--set", "node.id=5")
    assert "num.partitions=x: Not a number" in refusal(*several, "--set", "num.partitions=x")
    config = tmp_path / "server.properties"
    config.write_text(
        "node.id=1\ncontroller.quorum.voters=1@a:1,2@b:1\nlisteners=PLAINTEXT://a:2,CONTROLLER://a:1\n"
    )
    assert "--brokers makes a cluster of its own" in refusal(*several, "--config", str(config))
    assert not (tmp_path / "data").exists()


def test_a_node_that_can_not_start_stops_all(tmp_path: Path) -> None:
    first = free_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first + 1))
        taken.listen()
        line = refusal("--brokers", "3", "--data", str(tmp_path / "data"), "--listen", f"127.0.0.1:{first}")
    assert f"node 2: 127.0.0.1:{first + 1} is in use by another program" in line


def test_directories_of_one_broker_and_of_several(tmp_path: Path) -> None:
    one, several = tmp_path / "one", tmp_path / "several"
    one.mkdir()
    (one / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    assert "is the directory of a single broker: start it without --brokers" in refusal(
        "--brokers", "3", "--data", str(one)
    )
    several.mkdir()
    (several / "brokers.json").write_text("{}")
    assert "is the directory of several brokers: give --brokers N" in refusal("--data", str(several))
    assert "brokers.json is damaged" in refusal("--brokers", "3", "--data", str(several))
