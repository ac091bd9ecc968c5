"""`ottla up --brokers 3`: a cluster and the services on it by one command, which ends all of them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from confluent_kafka import Producer

from ottla.testing import Kafka
from support.clients.confluent import admin_client, eventually
from support.servers.cluster import ServerProcess, free_port
from support.servers.processes import descendants, wait_until_gone

TIMEOUT_S = 60


class Up:
    """`ottla up --brokers 3` on free ports, in a directory that has a file named as a module of Python's."""

    def __init__(self, directory: Path) -> None:
        self.registry, self.rest, self.connect = free_port(), free_port(), free_port()
        self.sql, self.mqtt = free_port(), free_port()
        (directory / "logging.py").write_text("raise SystemExit('loaded')")
        command = [
            sys.executable,
            "-P",
            "-m",
            "ottla",
            "up",
            "--brokers",
            "3",
            "--data",
            str(directory / "data"),
        ]
        command += ["--listen", "127.0.0.1:0"]
        for name, port in (
            ("registry", self.registry),
            ("rest", self.rest),
            ("connect", self.connect),
            ("sql", self.sql),
            ("mqtt", self.mqtt),
        ):
            command += [f"--{name}", f"127.0.0.1:{port}"]
        shell = ["sh", "-c", 'cd "$0" && exec "$@"', str(directory), *command]
        self.log_path = directory / "up.log"
        self.server = ServerProcess(shell, "ottla mqtt ready", self.log_path)

    @property
    def bootstrap(self) -> str:
        lines = self.log_path.read_text().splitlines()
        line = [each for each in lines if each.startswith("ottla broker ready")][-1]
        return line.partition("listening on ")[2].partition(", nodes 1 to 3")[0]


@contextmanager
def up(directory: Path) -> Iterator[Up]:
    running = Up(directory)
    try:
        running.server.start()
        yield running
    finally:
        if running.server.running:
            running.server.stop()


def test_one_command_and_three_brokers_with_a_registry(tmp_path: Path) -> None:
    with up(tmp_path) as running:
        # given
        assert len(running.bootstrap.split(",")) == 3
        children = descendants(running.server.process.pid)
        kafka = Kafka(running.bootstrap)
        kafka.create_topic("t", replication_factor=3)
        kafka.produce("t", "a")
        registered = httpx.post(
            f"http://127.0.0.1:{running.registry}/subjects/s/versions",
            json={"schema": '"string"'},
            timeout=TIMEOUT_S,
        )
        assert registered.json()["id"] == 1
        schemas = admin_client(running.bootstrap).list_topics("_schemas").topics["_schemas"]
        assert len(schemas.partitions[0].replicas) == 3
        # when a broker is killed, it comes back, and the rest goes on
        node = next(pid for pid, words in children.items() if "node.id=2" in words)
        os.kill(node, signal.SIGKILL)
        producer = Producer({"bootstrap.servers": running.bootstrap})
        producer.produce("t", "b")
        assert producer.flush(TIMEOUT_S) == 0
        eventually(lambda: "node 2 is back" in running.log_path.read_text(), "node 2 is back", TIMEOUT_S)
        # when all is stopped
        left = descendants(running.server.process.pid)
        assert running.server.stop() == 0
        assert not wait_until_gone(left)
    # then it starts again on its data
    with up(tmp_path) as running:
        assert sorted(str(each.text) for each in Kafka(running.bootstrap).consume("t", 2)) == ["a", "b"]
        url = f"http://127.0.0.1:{running.registry}/subjects"
        assert httpx.get(url, timeout=TIMEOUT_S).json() == ["s"]
        # and a kill of the command ends every process
        left = descendants(running.server.process.pid)
        assert len(left) >= 4
        running.server.kill()
        assert not wait_until_gone(left)


def test_a_cluster_that_cannot_start_is_told_in_a_line(tmp_path: Path) -> None:
    running = Up(tmp_path)
    running.server.command = [*running.server.command, "--set", "node.id=1"]
    running.server.launch()
    assert running.server.process.wait(TIMEOUT_S) == 1
    running.server.kill()
    (line,) = running.log_path.read_text().splitlines()
    assert line.startswith("ottla up: --set node.id=1: with --brokers each node gets its own node.id")
